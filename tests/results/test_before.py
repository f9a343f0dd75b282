"""Results folders of earlier days: the same figures, still.

tests/before/<experiment>.tar.xz holds a small run of two shipped experiments, and one with every
collector (all-evidence); <experiment>.json.xz what `report --json` said of it then, and how many
rows `query` found. Its tables have the columns that their kinds state; what was estimated is
estimated still, and what was counted is counted.
"""

from __future__ import annotations

import json
import lzma
import math
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from nfslab.evidence.registry import evidence_kinds
from nfslab.report.analysis import analyse, render_json
from nfslab.report.html.document import render_html
from nfslab.report.markdown import render_markdown
from nfslab.results.outcomes import located
from nfslab.results.query import ResultsDatabase

BEFORE: Final = Path(__file__).parent.parent / "before"
NAMES: Final = sorted(path.name.removesuffix(".tar.xz") for path in BEFORE.glob("*.tar.xz"))
ANOTHER_TYPE: Final = {("postgres_waits", "backends")}
"""Means of stretches since, looks counted one by one before."""


@pytest.fixture(scope="module", params=NAMES)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Unpacked, and read alone."""
    there = tmp_path_factory.mktemp("before")
    with tarfile.open(BEFORE / f"{request.param}.tar.xz") as tar:
        tar.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.4 and newer
        tar.extractall(there)
    (made,) = there.iterdir()
    return made.rename(there / request.param)


def then(folder: Path) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(
        lzma.decompress((BEFORE / f"{folder.name}.json.xz").read_bytes())
    )
    return told


def test_tables_of_evidence_have_the_columns_that_their_kinds_state(folder: Path) -> None:
    seen = 0
    for kind in evidence_kinds():
        for table in kind.tables:
            for file in folder.rglob(f"{table.name}.parquet"):
                written = {one.name: one.type for one in pq.read_schema(file)}
                for column in table.columns:
                    if column.optional and column.name not in written:
                        continue
                    found = written[column.name]
                    found = found.value_type if pa.types.is_dictionary(found) else found
                    other = (table.name, column.name) in ANOTHER_TYPE
                    assert other or str(found) == column.type, (table.name, column.name)
                    seen += 1
    assert seen > 0


def numbers(value: Any, where: str = "") -> Iterator[tuple[str, float]]:
    """Every number within, with its place."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from numbers(part, f"{where}.{key}")
    elif isinstance(value, list):
        for at, part in enumerate(value):
            yield from numbers(part, f"{where}[{at}]")
    elif isinstance(value, int | float):
        yield where, float(value)


OF_RUNS: Final = ("n", "median", "mean", "minimum", "maximum")
OTHERWISE: Final = "change_p_values"
"""Of ranks in grains since."""


def test_figures_are_those_of_then(folder: Path) -> None:
    """Those of runs and points; intervals and tests of two runs are withheld since."""
    told = then(folder)["report"]
    analysis = analyse(folder)
    now = json.loads(render_json(analysis))
    assert set(told) <= set(now), "a part of the report is gone"
    for report in (told, now):
        for point in report["points"]:
            for metric, found in point["estimates"].items():
                point["estimates"][metric] = {name: found.get(name) for name in OF_RUNS}
    facts = {key for key, part in told.items() if isinstance(part, list)}
    for key in sorted(facts - {"warnings", "setups", "notes", "failures"}):
        before, after = dict(numbers(told[key])), dict(numbers(now[key]))
        kept = [where for where in before if where in after and OTHERWISE not in where]
        assert len(kept) >= 0.9 * len(before), key
        wrong = [one for one in kept if not math.isclose(before[one], after[one], rel_tol=1e-9)]
        assert wrong == [], key
    for metric, rows in told["comparisons"].items():
        both = zip(rows, now["comparisons"][metric], strict=True)
        for before_row, after_row in both:
            ratio = before_row["result"]["ratio"]
            assert ratio is None or math.isclose(ratio, after_row["result"]["ratio"]), metric
    assert folder.name in render_html(analysis)
    assert render_markdown(analysis)


def test_rows_are_those_of_then(folder: Path) -> None:
    rows = then(folder)["rows"]
    assert len(rows) > 2
    with ResultsDatabase(located(folder)) as database:
        for view, count in rows.items():
            counted = database.ask(f'select count(*) as n from "{view}"')
            assert counted["n"].to_pylist() == [count], view

"""Results folders that were made before evidence became plug-ins: the same figures, still.

tests/before/<experiment>.tar.xz holds a small run of each shipped experiment, and one with every
collector (all-evidence); <experiment>.json.xz what `report --json` said of it then, and how many
rows `query` found. Every number and word of identity that was there has to be there and equal;
sentences may be put otherwise, and there may be more. Three kinds of figures are withheld
since: intervals and tests of fewer than three runs, what collectors summed up over unlike points,
and peak and knee of curves without a saturated point.
"""

from __future__ import annotations

import json
import lzma
import math
import tarfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from nfslab.evidence.postgres.kind import LEAST_MEAN_MS
from nfslab.evidence.registry import evidence_kinds
from nfslab.report.analysis import analyse, render_json
from nfslab.report.html.document import render_html
from nfslab.report.markdown import render_markdown
from nfslab.results.outcomes import located
from nfslab.results.query import ResultsDatabase
from nfslab.statistics.change_points import ALPHA

BEFORE = Path(__file__).parent.parent / "before"
NAMES = sorted(path.name.removesuffix(".tar.xz") for path in BEFORE.glob("*.tar.xz"))
ELSEWHERE = {"path", "written"}
"""Keys whose values are of the place or the instant of asking."""
IDENTITY = {
    "run_id",
    "point_id",
    "label",
    "name",
    "kind",
    "unit",
    "operation",
    "status",
    "identity",
}


def test_each_shipped_experiment_is_there() -> None:
    """Those of the studies; answers to their questions, other databases, web serving, what needs
    guests or several hosts came later."""
    shipped = {path.stem for path in (BEFORE.parent.parent / "experiments").glob("*.toml")}
    later = {name for name in shipped if name.startswith("answer-")}
    later |= {name for name in shipped if name.startswith("engines-")}
    later |= {"kernels-2003", "kernel-clients", "queries-2001", "sfs-clients-1999", "web-2001"}
    later |= {"remote-client-2001"}
    assert set(NAMES) == shipped - later | {"all-evidence"}


def unpacked(name: str, folder: Path) -> Path:
    with tarfile.open(BEFORE / f"{name}.tar.xz") as tar:
        tar.extractall(folder, filter="data")
    (made,) = folder.iterdir()
    return made


THEN = {("postgres_waits", "backends"): "int32"}
"""Types that were others: means of stretches since, looks counted one by one before."""


@pytest.mark.parametrize("name", NAMES)
def test_tables_of_evidence_have_the_columns_that_their_kinds_state(
    name: str, tmp_path: Path
) -> None:
    folder = unpacked(name, tmp_path)
    for kind in evidence_kinds():
        for table in kind.tables:
            for file in folder.rglob(f"{table.name}.parquet"):
                written = {one.name: one.type for one in pq.read_schema(file)}
                for column in table.columns:
                    if column.optional and column.name not in written:
                        continue
                    found = written[column.name]
                    found = found.value_type if pa.types.is_dictionary(found) else found
                    stated = {column.type, THEN.get((table.name, column.name), column.type)}
                    assert str(found) in stated, (table.name, column.name)


INTERVALS = ("interval", "mean_interval", "bootstrap_median", "bootstrap_mean")
TEST = ("interval", "interval_unadjusted", "p_value", "p_adjusted", "smallest_detectable")
TEST_OF = ("standard_error", "degrees_of_freedom")


def withhold(then: Any) -> Any:
    """What was said of fewer than three runs, and limits of a server that none had reached."""
    if isinstance(then, list):
        return [withhold(one) for one in then]
    if not isinstance(then, dict):
        return then
    kept = {key: withhold(value) for key, value in then.items()}
    if "n_base" in then and min(then["n_base"], then["n_new"]) < 3:
        return kept | dict.fromkeys((*TEST, *TEST_OF)) | {"n_comparisons": 0}
    if "bootstrap_mean" in then and then["n"] < 3:
        return kept | dict.fromkeys(INTERVALS)
    if "peak" in then and "points" in then and not any(p["saturated"] for p in then["points"]):
        points = [point | {"peak": False, "knee": False} for point in kept["points"]]
        return kept | {"peak": None, "knee": None, "points": points}
    return kept


def pooled(by_point: dict[str, Any]) -> dict[str, Any]:
    """Collector -> number -> runs, least and most over all points."""
    return {
        collector: {
            name: {
                "n": sum(one["n"] for one in points.values()),
                "minimum": min(one["minimum"] for one in points.values()),
                "maximum": max(one["maximum"] for one in points.values()),
            }
            for name, points in numbers.items()
        }
        for collector, numbers in by_point.items()
    }


def lost(then: Any, now: Any, where: str = "") -> list[str]:
    """What was there then and is not, or is another number."""
    if isinstance(then, dict):
        if not isinstance(now, dict):
            return [f"{where}: {now!r} was a table of names"]
        keys = [key for key in then if key not in ELSEWHERE]
        gone = [f"{where}.{key} is gone" for key in keys if key not in now]
        known = [key for key in keys if key in now]
        return gone + [one for key in known for one in lost(then[key], now[key], f"{where}.{key}")]
    if isinstance(then, list):
        if all(isinstance(one, str) for one in then):
            return []
        if not isinstance(now, list) or len(now) != len(then):
            return [f"{where} had {len(then)} entries"]
        if where.endswith(".change_p_values"):
            # Of ranks in grains since: as many changes, each as sure as one has to be.
            return [f"{where}: {p} is not at most {ALPHA}" for p in now if not p <= ALPHA]
        pairs = enumerate(zip(then, now, strict=True))
        return [one for n, (a, b) in pairs for one in lost(a, b, f"{where}[{n}]")]
    if isinstance(then, float) and now is None and where.endswith(".fsync.mean_ms"):
        # It was false then: what the server's clock had left of it.
        return [] if then < LEAST_MEAN_MS else [f"{where}: {then} is gone"]
    if isinstance(then, float) and isinstance(now, int | float):
        return [] if math.isclose(then, now, rel_tol=1e-9) else [f"{where}: {then} is now {now}"]
    if isinstance(then, str) and where.rsplit(".", 1)[-1] not in IDENTITY:
        return [] if isinstance(now, str) else [f"{where}: {then!r} is now {now!r}"]
    return [] if then == now else [f"{where}: {then!r} is now {now!r}"]


@pytest.mark.parametrize("name", NAMES)
def test_figures_are_those_of_then(name: str, tmp_path: Path) -> None:
    folder = unpacked(name, tmp_path)
    then = json.loads(lzma.decompress((BEFORE / f"{name}.json.xz").read_bytes()))
    analysis = analyse(folder)
    now = json.loads(render_json(analysis))
    report = withhold(then["report"])
    now["evidence"] = pooled(now["evidence"])
    for numbers in report["evidence"].values():
        for sums in numbers.values():
            del sums["median"]
    report["evidence"] = {name: sums for name, sums in report["evidence"].items() if sums}
    assert lost(report, now)[:20] == []
    assert folder.name in render_html(analysis)
    assert render_markdown(analysis)
    with ResultsDatabase(located(folder)) as database:
        for view, rows in then["rows"].items():
            counted = database.ask(f'select count(*) as n from "{view}"')
            assert counted["n"].to_pylist() == [rows], view

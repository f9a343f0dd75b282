"""The section "Web requests": what it says stands in the workload's samples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from nfslab.evidence.base import SealedRun
from nfslab.evidence.web.kind import WebEvidence, WebFacts
from nfslab.evidence.web.storage import StorageFacts
from nfslab.results.upgrade import stamp_table

from tests.evidence.runs import found_of, sealed_run

TIMES = ("mean_ns", "p50_ns", "p99_ns", "p999_ns", "max_ns")


def row(p99_ns: float | None, done: int, **more: Any) -> dict[str, Any]:
    times = dict.fromkeys(TIMES, p99_ns)
    return {"drawn": done, "done": done, "bytes": done * 1000, **times, **more}


def run_with(folder: Path, steps: list[dict[str, Any]], errors: list[dict[str, Any]]) -> SealedRun:
    run = sealed_run(folder)
    (folder / "samples").mkdir()
    kinds = [
        row(2e6, 700, kind="static_get", share=0.7, failed=3),
        row(None, 0, kind="cgi_get", share=0.0, failed=0),
        row(9e6, 48, kind="post", share=0.048, failed=0),
    ]
    tables = {
        "web_kinds": kinds,
        "web_classes": [row(1e6, 350, **{"class": 0}), row(8e6, 7, **{"class": 3})],
        "web_steps": steps,
        "web_errors": errors,
    }
    for name, rows in tables.items():
        if rows:
            path = folder / "samples" / f"{name}.parquet"
            pq.write_table(stamp_table(pa.Table.from_pylist(rows), None), path)
    return run


def step(connections: int, conforming: int, verdict: str, searched: bool = True) -> dict[str, Any]:
    return {
        "connections": connections,
        "conforming": conforming,
        "verdict": verdict,
        "done": 100,
        "failed": 0,
        "searched": searched,
    }


STEPS = [
    step(50, 50, "good"),
    step(100, 20, "bad"),
    step(71, 68, "good"),
    step(71, 70, "good", False),
]
ERRORS = [
    {"kind": "static_get", "error": "reset", "count": 1},
    {"kind": "static_get", "error": "wrong_bytes", "count": 2},
]


def test_kinds_classes_and_the_edge_of_the_search(tmp_path: Path) -> None:
    kind = WebEvidence()
    run = run_with(tmp_path / "one", STEPS, ERRORS)
    assert kind.present(run)
    facts = kind.facts(run)
    assert facts is not None
    assert facts.errors == {"reset": 1, "wrong_bytes": 2}
    section = kind.section(found_of({"local": [(run, facts)]}))
    assert section is not None
    by_kind, by_class, by_connections = section.tables
    names = [column.title for column in by_kind.columns]
    cells = [
        dict(zip(names, map(str, (c.text for c in cells)), strict=True)) for cells in by_kind.rows
    ]
    assert [one["requests"] for one in cells] == ["static GET", "POST"], "one that was never asked"
    assert [one["failed"] for one in cells] == ["3", "0"]
    assert [one["p99"].split()[0] for one in cells] == ["2", "9"]
    assert [line[2].text for line in by_class.rows] == ["0.1 to 0.9 KB", "100 to 900 KB"]
    assert [line[1].value for line in by_connections.rows] == [50, 71, 100]
    (said,) = section.sentences
    assert "of 71 connections 68 conformed, enough; of 100 only 20 did" in said
    assert any("2 x wrong_bytes" in note for note in section.notes)


def test_what_did_not_last_is_not_said_to_have_conformed(tmp_path: Path) -> None:
    """71 did for a step and not for as long as the timed part, which had 67."""
    steps = [
        step(50, 50, "good"),
        step(100, 20, "bad"),
        step(71, 68, "good"),
        step(71, 40, "bad"),
        step(67, 66, "good"),
        step(67, 66, "good", False),
    ]
    kind = WebEvidence()
    run = run_with(tmp_path / "one", steps, [])
    facts = kind.facts(run)
    assert facts is not None
    section = kind.section(found_of({"local": [(run, facts)]}))
    assert section is not None
    (said,) = section.sentences
    assert "of 67 connections 66 conformed, enough; of 71 only 40 did" in said


def test_without_lines_there_is_no_table_of_connections(tmp_path: Path) -> None:
    kind = WebEvidence()
    run = run_with(tmp_path / "one", [], [])
    facts = kind.facts(run)
    assert facts is not None
    section = kind.section(found_of({"local": [(run, facts)]}))
    assert section is not None
    assert len(section.tables) == 2
    assert not section.sentences
    assert not kind.present(sealed_run(tmp_path / "other"))


def costs_of(folder: Path, storage: StorageFacts | None, **more: float) -> dict[str, str]:
    """Tables of what a request takes: column -> text of its only row; empty: there are none."""
    kind = WebEvidence()
    run = run_with(folder, [], [])
    facts = kind.facts(run)
    assert isinstance(facts, WebFacts)
    facts = facts.model_copy(update={"storage": storage, **more})
    section = kind.section(found_of({"local": [(run, facts)]}))
    assert section is not None
    return {
        column.title: cell.text
        for table in section.tables
        if "a request" in table.title
        for column, cell in zip(table.columns, table.rows[0], strict=True)
    }


def test_what_a_request_takes_has_columns_of_what_is_known(tmp_path: Path) -> None:
    assert not costs_of(tmp_path / "nothing", None)
    known = costs_of(tmp_path / "cpu", None, server_cpu_ns=61_000.0)
    assert list(known) == ["configuration", "runs", "server's CPU"]
    assert known["server's CPU"].startswith("61")
    seen = StorageFacts(
        opens=0.95, open_ns=12e3, reads=1.5, read_ns=40e3, read_bytes=20_000, log_writes=0.05,
        log_syncs=0.0, log_ns=900.0, nfs_read_bytes=5_000,
        nfs={"ACCESS": 0.95, "READ": 0.1, "FSSTAT": 1e-5, "COMMIT": 0.02},
    )  # fmt: skip
    row = costs_of(tmp_path / "nfs", seen)
    assert (row["ACCESS"], row["READ"], row["GETATTR"]) == ("0.950", "0.100", "0")
    assert row["COMMIT"] == "0.0200", "what is not among the usual ones"
    assert "FSSTAT" not in row
    assert row["bytes of READs / read"] == "25 %"
    assert "log syncs" not in row, "there was none"

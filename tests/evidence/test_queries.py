"""What a query reads: by arithmetic on made records, and on a real server over real NFS."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nfslab as results
import pytest
from nfslab.display import cells
from nfslab.evidence.base import SealedRun
from nfslab.evidence.found import find, section_of
from nfslab.evidence.queries.kind import PROCESSES, QueriesEvidence, QueryFacts
from nfslab.evidence.syscalls.collector import SyscallsCollector
from nfslab.report.analysis import analyse
from nfslab.workloads.sql.dialect import dialect_class

from tests.cli.invocation import nfslab
from tests.evidence.runs import found_of, sealed_run
from tests.machine import needs

Capture = pytest.CaptureFixture[str]
MIB = 1 << 20
SIZE = 4 * MIB
METRICS = {
    "queries": 2.0, "measured_s": 1.0, "latency_mean_ms": 500.0, "read_bytes": 4.0 * MIB,
    "hit_bytes": 0.0, "temporary_bytes": 0.0, "log_bytes": 0.0,
}  # fmt: skip
KIND = QueriesEvidence()


def made(folder: Path, tables: dict[str, Any] | None = None, **metrics: float) -> SealedRun:
    run = sealed_run(folder, tables=tables, metrics=METRICS | metrics)
    run.record.operations = "queries"
    run.record.parameters["workload"] = {"query": "full_scan"}
    return run


def facts(run: SealedRun) -> QueryFacts:
    assert KIND.present(run)
    found = KIND.facts(run)
    assert found is not None
    return found


def calls(column: str, rows: list[tuple[float, str, int]]) -> dict[str, Any]:
    return {
        "t_ns": [round(t_s * 1e9) for t_s, _, _ in rows],
        "operation": [operation for _, operation, _ in rows],
        column: [size for _, _, size in rows],
    }


def test_reads_that_were_sent_in_the_timed_part(tmp_path: Path) -> None:
    rows = [(-0.1, "READ", MIB), (0.0, "READ", 8 * MIB), (0.5, "WRITE", MIB),
            (0.9, "READ", 4 * MIB), (1.1, "READ", MIB)]  # fmt: skip
    for number, (table, column) in enumerate(
        (("rpc_calls", "count"), ("nfs_server_calls", "reply_bytes"))
    ):
        found = facts(made(tmp_path / str(number), {table: calls(column, rows)}, fetched_bytes=1.0))
        assert found.asked_bytes == 6 * MIB, "of one of two executions"
        assert found.read_ahead == 1.5


def test_without_nfs_it_is_what_block_devices_gave(tmp_path: Path) -> None:
    found = facts(made(tmp_path / "run", fetched_bytes=5.0 * MIB))
    assert (found.asked_bytes, found.asked_of, found.read_ahead) == (5 * MIB, PROCESSES, 1.25)
    for number, metrics in enumerate(({}, {"fetched_bytes": 0.0})):
        unknown = facts(made(tmp_path / str(number), **metrics))
        assert (unknown.asked_bytes, unknown.asked_of, unknown.read_ahead) == (None, "", None)


@pytest.mark.parametrize(
    "metrics", [{"log_bytes": 1.0 * MIB}, {"temporary_bytes": 8.0}, {"read_bytes": 0.0}]
)
def test_of_what_writes_or_reads_nothing_there_is_no_read_ahead(
    tmp_path: Path, metrics: dict[str, float]
) -> None:
    assert facts(made(tmp_path / "run", fetched_bytes=5.0 * MIB, **metrics)).read_ahead is None


def test_other_workloads_have_none(tmp_path: Path) -> None:
    assert not KIND.present(sealed_run(tmp_path / "run"))


def test_a_disagreement_is_told(tmp_path: Path) -> None:
    run = made(tmp_path / "run")
    right = facts(run).model_copy(update={"called_bytes": 4.5 * MIB})
    wrong = right.model_copy(update={"called_bytes": 6.0 * MIB})
    assert not right.disagrees
    section = section_of(KIND, found_of({"a": [(run, right)], "b": [(run, wrong)]}))
    assert section is not None
    (told,) = [note for note in section.notes if "not whole" in note]
    assert told.startswith("b, repetition 1: system calls returned 6,291,456 bytes")


def test_the_section_says_what_was_asked_at_least_and_at_most(tmp_path: Path) -> None:
    runs = {
        label: [(run, facts(run))]
        for label, times in (("scan", 1.0), ("range", 2.5))
        for run in [made(tmp_path / label, fetched_bytes=times * 4 * MIB)]
    }
    section = section_of(KIND, found_of(runs))
    assert section is not None
    assert list(section.sentences) == [
        "For each byte that a query read, the storage was asked for 1 (scan) to 2.50 (range)."
    ]
    figures = KIND.at_point([facts for ((_, facts),) in runs.values()])
    assert [cell.text for cell in KIND.point_cells(figures)] == ["4 MiB", "1.75"]
    assert len(KIND.point_cells(None)) == len(KIND.point_columns)


def test_what_a_database_does_not_tell_is_not_shown(tmp_path: Path) -> None:
    told = made(tmp_path / "run", fetched_bytes=5.0 * MIB)
    for name in ("hit_bytes", "temporary_bytes", "log_bytes"):
        del told.record.metrics[name]
    found = facts(told)
    assert (found.hit_bytes, found.temporary_bytes, found.log_bytes) == (None, None, None)
    assert found.read_ahead is None, "it may have written, too"
    section = section_of(KIND, found_of({"a": [(told, found)]}))
    assert section is not None
    (row,) = section.tables[0].rows
    texts = dict(zip([c.title for c in section.tables[0].columns], row, strict=True))
    assert texts["blocks read"].text == "4 MiB"
    assert {texts[name].text for name in ("buffers hit", "temporary", "log")} == {
        cells.number(None).text
    }


@pytest.mark.long
@needs.fuse
@pytest.mark.parametrize("engine", ["mariadb", "sqlite"])
def test_pages_system_calls_and_nfs_agree(engine: str, tmp_path: Path, capsys: Capture) -> None:
    """What InnoDB reads are direct READs, one for one; SQLite's scan asks for no page twice."""
    if not (there := dialect_class(engine).available()).ok:
        pytest.skip(there.reason)
    queries = ["full_scan", "secondary_range_uncorrelated"]
    said = nfslab(
        capsys, "run", "engines-queries", "--repetitions", 1, "--results", tmp_path, "--anyway",
        "--set", f"axes.query={queries}".replace("'", '"'), "--set", f"workload.size={SIZE}",
        "--set", "axes.storage=['nfs']", "--set", f"axes.engine=['{engine}']",
    )  # fmt: skip
    assert said.code == 0, said.out + said.err
    found = {
        run.facts.query: run.facts for run in find(KIND, analyse(results.open(tmp_path).path)).runs
    }
    assert set(found) == set(queries)
    for one in found.values():
        assert one.asked_of == "NFS"
        assert one.read_bytes
        assert one.asked_bytes is not None
        if SyscallsCollector.available().ok:
            assert one.called_bytes is not None
            header = 32 if engine == "sqlite" else 0
            assert 0 <= one.called_bytes - one.read_bytes <= header
        # Pages that InnoDB reads ahead may be asked for before the query, or come behind it.
        in_flight = MIB if engine == "mariadb" else 0
        assert one.read_bytes - in_flight <= one.asked_bytes <= 2 * SIZE + MIB
        assert one.read_ahead is not None
    if engine == "mariadb":
        # The scan ends within the last extent that was read ahead (64 pages, 1 MiB): its rest may
        # be under way then, asked for and not counted, or counted and not asked for.
        scan = found["full_scan"]
        assert scan.read_bytes is not None
        assert scan.asked_bytes is not None
        assert abs(scan.asked_bytes - scan.read_bytes) <= 0.02 * scan.read_bytes + MIB

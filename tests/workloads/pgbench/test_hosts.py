"""Reports of pgbench on several hosts, put together: sums, and means weighted by transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from nfslab.context import HostPart, Share
from nfslab.errors import RunFailed
from nfslab.results.durable import to_json
from nfslab.workloads.pgbench import hosts
from nfslab.workloads.pgbench.parameters import PgbenchParameters
from nfslab.workloads.pgbench.printed import PrintedReport, ScriptReport
from nfslab.workloads.pgbench.statements import CommandReport

if TYPE_CHECKING:
    from pathlib import Path

SECOND = 10**9


def report(processed: int, **more: Any) -> PrintedReport:
    return PrintedReport(processed=processed, tps=1.0, connections_included=False, **more)


def test_counts_are_sums_and_means_are_of_all_transactions() -> None:
    whole = hosts._printed(
        [
            report(30, failed=1, skipped=2, late=3, retries=4, latency_mean_ms=10.0,
                   latency_measured=True, initial_connect_ms=5.0),
            report(10, failed=10, skipped=20, late=30, retries=40, latency_mean_ms=30.0,
                   latency_measured=True, initial_connect_ms=9.0),
        ],
        2 * SECOND,
    )  # fmt: skip
    assert (whole.processed, whole.tps, whole.measured_s) == (40, 20.0, 2.0)
    assert (whole.failed, whole.skipped, whole.late, whole.retries) == (11, 22, 33, 44)
    assert whole.latency_mean_ms == 15.0, "(30 x 10 + 10 x 30) / 40"
    assert whole.initial_connect_ms == 9.0, "the longest"
    assert whole.lag_mean_ms is None


def test_what_one_host_does_not_tell_is_not_known_of_all() -> None:
    whole = hosts._printed([report(1, late=1), report(1)], SECOND)
    assert (whole.late, whole.latency_mean_ms, whole.statements) == (None, None, [])


def test_statements_are_weighted_by_each_hosts_transactions_of_the_script() -> None:
    def of(mean_ns: int | None, failures: int) -> list[list[CommandReport]]:
        return [
            [CommandReport("BEGIN", 5, 0, None)],
            [CommandReport("END", mean_ns, failures, None)],
        ]

    scripts = [
        [ScriptReport("a", 1), ScriptReport("b", 3)],
        [ScriptReport("a", 1), ScriptReport("b", 1)],
    ]
    reports = [
        report(4, scripts=scripts[0], statements=of(100, 1)),
        report(2, scripts=scripts[1], statements=of(500, 2)),
    ]
    first, second = hosts._statements(reports)
    assert first == [CommandReport("BEGIN", 5, 0, None)]
    assert second == [CommandReport("END", 200, 3, None)], "(3 x 100 + 1 x 500) / 4"
    assert [one.processed for one in hosts._scripts(reports)] == [2, 4]


@pytest.mark.parametrize(
    ("begins", "ends", "share", "verdict"),
    [
        ([0, 0], [100, 100], 1.0, "ok"),
        ([0, 3], [98, 100], 0.95, "ok"),
        ([0, 6], [100, 100], 0.94, "warning"),
        ([0, 60], [50, 100], 0.0, "warning"),
    ],
)
def test_overlap(begins: list[int], ends: list[int], share: float, verdict: str) -> None:
    parts = [HostPart(f"h{n}", Share(n, 2, 1), None, None, 0) for n in range(2)]  # type: ignore[arg-type]
    found = hosts._overlap(parts, begins, ends, max(ends) - min(begins))
    assert (found.values["share"], found.verdict) == (pytest.approx(share), verdict)


def host(folder: Path, number: int, times_ns: list[int], offset_ns: int, **more: Any) -> HostPart:
    """A host whose transactions of client 0 completed then, 1 ms each."""
    count = len(times_ns)
    (folder / "samples").mkdir(parents=True)
    table = pa.table({
        "t_ns": pa.array(times_ns, pa.int64()), "client": pa.array([0] * count, pa.int32()),
        "latency_ns": pa.array([1_000_000] * count, pa.int64()),
        "script": pa.array([0] * count, pa.int16()), "status": pa.array([0] * count, pa.int8()),
        "lag_ns": pa.array([None] * count, pa.int64()),
        "retries": pa.array([0] * count, pa.int32()),
    })  # fmt: skip
    pq.write_table(table, folder / "samples" / "transactions.parquet")
    content = {
        "start_ns": 0, "end_ns": 0, "client_cpu_s": 0.5, "uncounted": 0,
        "committed": {"tpcb-like": count},
        "printed": {"processed": count, "tps": 1.0, "connections_included": False},
    } | more  # fmt: skip
    (folder / "parts").mkdir()
    (folder / "parts" / f"{number}.json").write_bytes(to_json(content | {"index": number}))
    return HostPart(f"load{number + 1}", Share(number, 2, 1), folder, None, offset_ns)  # type: ignore[arg-type]


WHOLE = PgbenchParameters(data="d", clients=3, transactions=2, socket="tcp")


def test_transactions_of_hosts_with_other_clocks_lie_on_one_axis(tmp_path: Path) -> None:
    """The second's clock is 7 s ahead; it began 1 s after the first."""
    ms = 1_000_000
    parts = [
        host(tmp_path / "1", 0, [1 * ms, 1001 * ms, 2001 * ms], 0, start_ns=SECOND,
             end_ns=4 * SECOND),
        host(tmp_path / "2", 1, [1 * ms, 500 * ms], 7 * SECOND, start_ns=9 * SECOND,
             end_ns=12 * SECOND),
    ]  # fmt: skip
    found = hosts.merged(WHOLE, parts)
    rows = found.table.select(["t_ns", "client", "host"]).to_pylist()
    assert [(row["t_ns"] // ms, row["client"], row["host"]) for row in rows] == [
        (1, 0, "load1"), (1001, 0, "load1"), (1001, 2, "load2"), (1500, 2, "load2"),
        (2001, 0, "load1"),
    ]  # fmt: skip
    assert (found.run.started_ns, found.span_ns) == (SECOND, 4 * SECOND)
    assert found.run.printed.tps == 5 / 4
    assert found.committed == {"tpcb-like": 5}
    assert found.run.client_cpu_s == 1.0
    assert np.array_equal(found.log.latency_us, [1000] * 5)
    log, overlap = found.checks
    assert (log.name, log.verdict) == ("pgbench_log", "ok")
    assert overlap.values["share"] == 0.5
    assert found.by_host["load1"].planned_share == 2 / 3
    assert found.by_host["load2"].mean_latency_ns == ms


def test_rows_that_are_not_what_was_counted_are_a_violation(tmp_path: Path) -> None:
    short = {"processed": 4, "tps": 1.0, "connections_included": False}
    parts = [
        host(tmp_path / "1", 0, [1, 2, 3], 0, end_ns=SECOND, printed=short),
        host(tmp_path / "2", 1, [1], 0, end_ns=SECOND),
    ]
    (log, _) = hosts.merged(WHOLE, parts).checks
    assert (log.verdict, "4 of 5 with status 0" in log.message) == ("violation", True)


def test_what_cannot_be_read_names_the_host(tmp_path: Path) -> None:
    part = host(tmp_path / "1", 1, [1], 0, surplus=1)
    with pytest.raises(RunFailed, match="what process 2 measured on load2 cannot be read"):
        hosts.merged(WHOLE, [part])

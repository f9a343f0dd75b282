"""From pgbench's log and its printed report to metrics, samples and checks.

The two accounts are independent in pgbench (counters in memory; lines of a file), and
they have to agree: numbers exactly, means to the last printed digit. A disagreement means
that one of them is wrong, so the run fails rather than publish either.

tps is pgbench's own figure: committed transactions by the time from the first connected
client to the last one's end, without connecting (with `connect_each`: with it). The timed
part begins (t = 0) at the first transaction's start, or with `rate` where pgbench's
clock stood after connecting, to a few milliseconds. Quantiles are exact, from all
transactions; the histogram (3 digits) is for drawing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from nfslab.errors import RunFailed
from nfslab.results.core_tables import typed_table
from nfslab.results.records import CheckRecord, Metric, Verdict
from nfslab.workloads.pgbench.invocation import milliseconds_argument
from nfslab.workloads.pgbench.statements import statements_table
from nfslab.workloads.pgbench.transaction_log import FAILED, OK, SKIPPED

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    from nfslab.workloads.pgbench.execution import PgbenchRun
    from nfslab.workloads.pgbench.parameters import PgbenchParameters
    from nfslab.workloads.pgbench.printed import PrintedReport
    from nfslab.workloads.pgbench.transaction_log import TransactionLog

QUANTILES: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
CLOCK_STEP_NS: Final = 1_000_000
"""A wall clock that moved by more than a millisecond against the monotonic one."""
DAY_NS: Final = 86_400 * 10**9
PRINTED_MS: Final = 0.0005
"""Half of the last digit of the milliseconds that pgbench prints."""


@dataclass(frozen=True, slots=True)
class TimedPart:
    """When the timed part was, on the two clocks that matter."""

    start_log_ns: int
    """On the clock of the log's time stamps."""
    start_ns: int
    """CLOCK_MONOTONIC."""
    end_ns: int


def timed_part(log: TransactionLog, run: PgbenchRun, *, open_loop: bool) -> TimedPart:
    """Where t = 0 is. See the module's essay for how well that is known."""
    # Integers throughout: nanoseconds since 1970 do not fit into a float.
    offset_ns = run.realtime_offset_ns[0]
    if len(log) and abs(int(log.completed_us[-1]) * 1000 - offset_ns - run.started_ns) > DAY_NS:
        offset_ns = 0  # pgbench 13: its time stamps are those of the monotonic clock
    measured_ns = round(run.printed.measured_s * 1e9)
    connect_ns = round((run.printed.initial_connect_ms or 0.0) * 1e6)
    start_log_ns = run.started_ns + offset_ns + connect_ns
    if len(log):
        first_ns = int((log.completed_us - log.latency_us).min()) * 1000
        last_ns = int(log.completed_us[-1]) * 1000
        # The start lies between these two, whatever the estimate says.
        latest = max(start_log_ns, last_ns - measured_ns) if open_loop else first_ns
        start_log_ns = min(latest, first_ns)
    start_ns = start_log_ns - offset_ns
    return TimedPart(start_log_ns, start_ns, start_ns + measured_ns)


def disagreements(log: TransactionLog, run: PgbenchRun, p: PgbenchParameters) -> list[str]:
    """Where the log and the printed report contradict each other; empty: nowhere."""
    printed = run.printed
    found: list[str] = []

    def expect(what: str, logged: float, stated: float | None, tolerance: float = 0.0) -> None:
        if stated is not None and abs(logged - stated) > tolerance:
            found.append(f"{what}: {logged:g} in the log, {stated:g} printed")

    ok = log.status == OK
    expect("committed", log.count(OK), printed.processed)
    expect("failed", log.count(FAILED), printed.failed)
    expect("skipped", log.count(SKIPPED), printed.skipped)
    if p.max_tries != 1:
        expect("retries", int(log.retries.sum()), printed.retries)
    if p.latency_limit is not None:
        expect("late", late_count(log, p.latency_limit), printed.late)
    count = int(ok.sum())
    if count and printed.latency_measured:
        mean_ms = float(log.latency_us[ok].sum()) / count / 1000
        expect("mean latency (ms)", mean_ms, printed.latency_mean_ms, PRINTED_MS * 1.01)
    if count and log.lag_us is not None:
        expect(
            "mean lag (ms)",
            float(log.lag_us[ok].sum()) / count / 1000,
            printed.lag_mean_ms,
            PRINTED_MS * 1.01,
        )
    for index, script in enumerate(printed.scripts):
        logged = int((ok & (log.script == index)).sum())
        # Threads add to a script's counter without a lock: it may lack some, and has none too many.
        if p.effective_threads == 1 or script.processed > logged:
            expect(f"script {index}", logged, script.processed)
    return found + log.missing_numbers()


def late_count(log: TransactionLog, limit_s: float) -> int:
    """Committed transactions above the latency limit, as pgbench counts them."""
    # As pgbench does: (int64) (milliseconds * 1000), of the milliseconds it was given.
    limit_us = int(float(milliseconds_argument(limit_s)) * 1000)
    return int(((log.status == OK) & (log.latency_us > limit_us)).sum())


def check_log(log: TransactionLog, run: PgbenchRun, p: PgbenchParameters) -> CheckRecord:
    """The log against the printed report."""
    values: dict[str, Any] = {"transactions": len(log), "processed": run.printed.processed}
    verdict: Verdict = "ok"
    message = f"all {len(log)} transactions are in the log and agree with pgbench's report"
    if p.sampling_rate < 1:
        verdict = "unknown"
        message = (
            f"only a share of {p.sampling_rate:g} of the transactions was logged: "
            "the log cannot be checked against pgbench's report, quantiles are estimates"
        )
    elif problems := disagreements(log, run, p):
        verdict = "violation"
        message = "the transaction log contradicts pgbench's report: " + "; ".join(problems[:5])
    return CheckRecord(name="pgbench_log", verdict=verdict, message=message, values=values)


def clock_step_ns(run: PgbenchRun) -> int:
    """By how much the wall clock was moved while pgbench ran; 0 within a millisecond.

    pgbench's time stamps are made from it once, at its start: latencies are not touched.
    """
    before, after = run.realtime_offset_ns
    return after - before if abs(after - before) > CLOCK_STEP_NS else 0


def metrics(log: TransactionLog, run: PgbenchRun, p: PgbenchParameters) -> dict[str, Metric]:
    """The run's numbers; RunFailed when not one transaction was completed."""
    from nfslab.statistics.quantile_estimator import quantiles

    printed = run.printed
    if printed.processed == 0 or not math.isfinite(printed.tps) or printed.tps <= 0:
        raise RunFailed(
            "pgbench completed no transaction",
            why=f"{printed.failed} failed, {printed.skipped} skipped",
            fix="lower workload.rate, raise latency_limit or max_tries, or run longer",
        )
    result = {
        "tps": Metric(value=printed.tps, unit="1/s", better="higher", primary=True),
        "transactions": Metric(value=printed.processed, unit="1"),
        "failed": Metric(value=printed.failed, unit="1", better="lower"),
        "measured_s": Metric(value=printed.measured_s, unit="s"),
    }
    latency_us = log.latency_us[log.status == OK]
    if len(latency_us):
        result |= _latencies(latency_us, quantiles(latency_us, list(QUANTILES.values())))
        if p.sampling_rate < 1:
            del result["latency_max_ms"]  # the slowest one may not have been logged
            if printed.latency_measured and printed.latency_mean_ms is not None:
                result["latency_mean_ms"] = _milliseconds(printed.latency_mean_ms)
    if p.latency_limit is not None and printed.late is not None:
        result["late"] = Metric(value=printed.late, unit="1", better="lower")
    if p.rate is not None:
        result["skipped"] = Metric(value=printed.skipped, unit="1", better="lower")
        if printed.lag_mean_ms is not None:
            result["lag_mean_ms"] = _milliseconds(printed.lag_mean_ms)
    if p.max_tries != 1 and printed.retries is not None:
        result["retries"] = Metric(value=printed.retries, unit="1", better="lower")
    if printed.initial_connect_ms is not None:
        result["initial_connect_ms"] = _milliseconds(printed.initial_connect_ms)
    if printed.connect_mean_ms is not None:
        result["connect_mean_ms"] = _milliseconds(printed.connect_mean_ms)
    result["client_cpu_s_per_transaction"] = Metric(
        value=run.client_cpu_s / printed.processed, unit="s", better="lower"
    )
    if run.server_cpu_s is not None:
        result["server_cpu_s_per_transaction"] = Metric(
            value=run.server_cpu_s / printed.processed, unit="s", better="lower"
        )
    return result


def _latencies(latency_us: npt.NDArray[np.int64], found: list[Any]) -> dict[str, Metric]:
    result = {"latency_mean_ms": _milliseconds(float(latency_us.sum()) / len(latency_us) / 1000)}
    for name, quantile in zip(QUANTILES, found, strict=True):
        result[f"latency_{name}_ms"] = _milliseconds(quantile.value / 1000)
    result["latency_max_ms"] = _milliseconds(int(latency_us.max()) / 1000)
    return result


def _milliseconds(value: float) -> Metric:
    return Metric(value=value, unit="ms", better="lower")


def statements(printed: PrintedReport, names: Sequence[str]) -> pa.Table | None:
    """What each command took (`statements`); None: pgbench does not tell it of all scripts."""
    counts = [script.processed for script in printed.scripts] or [printed.processed]
    if not len(printed.statements) == len(counts) == len(names):
        return None
    return statements_table(printed.statements, [Path(name).name for name in names], counts)


def histogram_table(log: TransactionLog) -> pa.Table:
    """Distribution of the committed transactions' latencies."""
    return latency_histogram(log.latency_us[log.status == OK] * 1000)


def latency_histogram(latency_ns: npt.NDArray[np.int64]) -> pa.Table:
    """(low_ns, high_ns, count).

    What lies outside of the histogram's range (below 1 ns: a latency of less than half a
    microsecond is logged as 0) is counted in rows of its own: low_ns = high_ns = 0 below,
    high_ns null above. Nothing is left out.
    """
    import numpy as np
    import pyarrow as pa

    from nfslab._core import Histogram

    histogram = Histogram(3)
    latency_ns = np.ascontiguousarray(latency_ns, dtype=np.int64)
    histogram.record_many(latency_ns.data)
    rows: list[tuple[int, int | None, int]] = list(histogram.buckets())
    if histogram.below:
        rows.insert(0, (int(latency_ns.min()), 0, histogram.below))
    if histogram.above:
        rows.append(((histogram.max or 0) + 1, None, histogram.above))
    return typed_table(rows, dict.fromkeys(("low_ns", "high_ns", "count"), pa.int64()))

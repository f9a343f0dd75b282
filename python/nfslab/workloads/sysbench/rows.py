"""What a script wrote of its transactions (transactions.lua), as samples, metrics and a check."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from nfslab.errors import RunFailed
from nfslab.results.records import CheckRecord, Metric
from nfslab.workloads.pgbench.transaction_log import FAILED, OK

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

COLUMNS: Final = 5
"""completed, latency, retries, how it ended, which script's: 64 bits each."""
ROW_BYTES: Final = 8 * COLUMNS
ENDED_FAILED, ENDED_ROLLED_BACK = 1, 2
"""How a transaction ended (0: committed); rolled back: as it was to be."""
QUANTILES: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
EVENTS: Final = re.compile(r"total number of events:\s+(\d+)")


@dataclass(frozen=True, slots=True)
class Transactions:
    """All of a run, in order of completion."""

    completed_ns: npt.NDArray[np.int64]
    """CLOCK_MONOTONIC."""
    latency_ns: npt.NDArray[np.int64]
    client: npt.NDArray[np.int32]
    retries: npt.NDArray[np.int64]
    ended: npt.NDArray[np.int64]
    script: npt.NDArray[np.int16]

    def __len__(self) -> int:
        return len(self.completed_ns)

    @property
    def failed(self) -> npt.NDArray[np.bool_]:
        """Given up after all tries."""
        found: npt.NDArray[np.bool_] = self.ended == ENDED_FAILED
        return found

    @property
    def committed(self) -> int:
        """How many; those that were to be rolled back are among them, as pgbench has it."""
        return len(self) - int(self.failed.sum())

    @property
    def start_ns(self) -> int:
        """The first one's."""
        return int((self.completed_ns - self.latency_ns).min())

    @property
    def end_ns(self) -> int:
        """The last one's."""
        return int(self.completed_ns[-1])

    def table(self) -> pa.Table:
        """The rows as the run's samples, as pgbench's."""
        import numpy as np
        import pyarrow as pa

        nothing = pa.nulls(len(self), pa.int64())
        status = np.where(self.failed, FAILED, OK).astype(np.int8)
        return pa.table(
            {
                "t_ns": pa.array(self.completed_ns - self.start_ns),
                "client": pa.array(self.client),
                "latency_ns": pa.array(self.latency_ns, mask=self.failed),
                "script": pa.array(self.script),
                "status": pa.array(status),
                "lag_ns": nothing,
                "retries": pa.array(self.retries.astype(np.int32)),
            }
        )


def read_rows(files: Sequence[Path]) -> Transactions:
    """Of all clients, the first one's file first; RunFailed for one that is cut off."""
    import numpy as np

    parts = []
    for file in files:
        size = file.stat().st_size if file.exists() else -1
        if size < 0 or size % ROW_BYTES:
            raise RunFailed(
                f"the client's log {file.name} cannot be read",
                why="it is not there" if size < 0 else f"its last row is cut off ({size} bytes)",
                fix="the run is invalid; check the free space where results are kept",
            )
        parts.append(np.fromfile(file, np.int64).reshape(-1, COLUMNS))
    rows = np.concatenate(parts)
    client = np.repeat(np.arange(len(parts), dtype=np.int32), [len(part) for part in parts])
    order = np.argsort(rows[:, 0], kind="stable")
    completed, latency, retries, ended, script = np.ascontiguousarray(rows[order].T)
    return Transactions(completed, latency, client[order], retries, ended, script.astype(np.int16))


def check_rows(name: str, rows: Transactions, printed: str) -> CheckRecord:
    """As many rows as sysbench counted events by itself? `name`: of the check."""
    match = EVENTS.search(printed)
    events = int(match[1]) if match else -1
    values = {"transactions": len(rows), "events": events}
    if events != len(rows):
        message = f"{len(rows)} transactions are in the log, sysbench counted {events}"
        return CheckRecord(name=name, verdict="violation", message=message, values=values)
    message = f"all {events} transactions that sysbench counted are in the log"
    return CheckRecord(name=name, verdict="ok", message=message, values=values)


def metrics(
    rows: Transactions, client_cpu_s: float, server_cpu_s: float | None
) -> dict[str, Metric]:
    """The run's numbers; RunFailed when not one transaction was committed."""
    from nfslab.statistics.quantile_estimator import quantiles

    count, seconds = rows.committed, (rows.end_ns - rows.start_ns) / 1e9 if len(rows) else 0.0
    if not count or seconds <= 0:
        raise RunFailed(
            "no transaction was committed",
            why=f"{len(rows)} failed",
            fix="raise workload.max_tries, or run longer",
        )
    latency_ns = rows.latency_ns[~rows.failed]
    found = {
        "tps": Metric(value=count / seconds, unit="1/s", better="higher", primary=True),
        "transactions": Metric(value=count, unit="1"),
        "failed": Metric(value=len(rows) - count, unit="1", better="lower"),
        "retries": Metric(value=int(rows.retries.sum()), unit="1", better="lower"),
        "measured_s": Metric(value=seconds, unit="s"),
        "latency_mean_ms": _milliseconds(float(latency_ns.mean())),
    }
    for name, one in zip(QUANTILES, quantiles(latency_ns, list(QUANTILES.values())), strict=True):
        found[f"latency_{name}_ms"] = _milliseconds(one.value)
    found["latency_max_ms"] = _milliseconds(int(latency_ns.max()))
    spent = {"client": client_cpu_s, "server": server_cpu_s}
    for who, cpu_s in spent.items():
        if cpu_s is not None:
            found[f"{who}_cpu_s_per_transaction"] = Metric(
                value=cpu_s / count, unit="s", better="lower"
            )
    return found


def _milliseconds(ns: float) -> Metric:
    return Metric(value=ns / 1e6, unit="ms", better="lower")

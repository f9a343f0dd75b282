"""Reading pgbench's per-transaction log (`--log`) into columns.

Purpose: every transaction of a run as one row, in order of completion, without rounding
beyond what pgbench wrote (whole microseconds). One file per pgbench thread:

    client transaction time script epoch_s epoch_us [lag] [retries]

* `time` is the latency in microseconds, or a word instead of one: `skipped` (with
  --rate and --latency-limit: too late to begin), `failed`, or with --failures-detailed
  `serialization`, `deadlock`, `other`.
* `lag` (with --rate): how much later than planned the transaction began. pgbench writes
  0 for skipped and failed ones: that is no measurement, here it is null.
* `retries` (with --max-tries other than 1, pgbench 15 and newer).

Decisions: pyarrow parses (some million lines a second); which optional columns there
are is told by the caller, who knows the options, and a line with another number of
columns is an error, as is a last line without its end. Latency of what did not complete
is null, never 0. With --rate, pgbench counts latency from the planned instant.

Source: PostgreSQL's src/bin/pgbench/pgbench.c, doLog() and processXactStats(), versions
13 to 18; the time stamps of version 13 are those of CLOCK_MONOTONIC, later ones are
wall clock time made from the monotonic clock and one reading of the wall clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from nfslab.errors import RunFailed

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

OK: Final = 0
FAILED: Final = 1
SKIPPED: Final = 2

NOT_COMPLETED: Final = ("skipped", "failed", "serialization", "deadlock", "other")
"""Words that stand in place of a latency."""

LOG_BYTES_MAX: Final = 2 << 30
"""Largest log that is read: some 50 million transactions, which take about 6 GiB of memory."""

BYTES_PER_TRANSACTION: Final = 48
"""A line's length, for estimates: `31 10000000 100000 0 1700000000 123456 100000 0`."""


@dataclass(frozen=True, slots=True)
class LogLayout:
    """Which optional columns a log has; follows from pgbench's options."""

    lag: bool = False
    retries: bool = False

    def columns(self) -> list[str]:
        """Names of the columns, in order."""
        names = ["client", "transaction", "time", "script", "epoch_s", "epoch_us"]
        return names + ["lag"] * self.lag + ["retries"] * self.retries


@dataclass(frozen=True, slots=True)
class TransactionLog:
    """All transactions of one pgbench run, in order of completion."""

    completed_us: npt.NDArray[np.int64]
    """Time stamp of the completion (or of the decision to skip), microseconds."""
    client: npt.NDArray[np.int32]
    transaction: npt.NDArray[np.int64]
    """Number of the transaction within its client, from 1."""
    latency_us: npt.NDArray[np.int64]
    """Meaningless (0) unless status is OK."""
    script: npt.NDArray[np.int16]
    status: npt.NDArray[np.int8]
    lag_us: npt.NDArray[np.int64] | None
    """None without --rate; meaningless (0) unless status is OK."""
    retries: npt.NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.status)

    def count(self, status: int) -> int:
        """Number of transactions that came out as `status`."""
        import numpy as np

        return int(np.count_nonzero(self.status == status))

    def table(self, start_ns: int) -> pa.Table:
        """The rows as the run's samples; t = 0 is `start_ns` on the log's clock."""
        import numpy as np
        import pyarrow as pa

        missing = self.status != OK
        lag = np.zeros_like(self.latency_us) if self.lag_us is None else self.lag_us
        no_lag = missing if self.lag_us is not None else np.ones_like(missing)
        return pa.table(
            {
                "t_ns": pa.array(self.completed_us * 1000 - start_ns),
                "client": pa.array(self.client),
                "latency_ns": pa.array(self.latency_us * 1000, mask=missing),
                "script": pa.array(self.script),
                "status": pa.array(self.status),
                "lag_ns": pa.array(lag * 1000, mask=no_lag),
                "retries": pa.array(self.retries),
            }
        )

    def missing_numbers(self) -> list[str]:
        """What shows that the log is not whole: clients whose numbering has gaps."""
        import numpy as np

        order = np.lexsort((self.transaction, self.client))
        client, number = self.client[order], self.transaction[order]
        first = np.concatenate(([True], client[1:] != client[:-1])) if len(order) else order
        same = ~first[1:]
        problems = []
        gaps = np.flatnonzero(same & (np.diff(number) != 1)) if len(order) else order
        for index in gaps[:5]:
            problems.append(
                f"client {client[index]}: transaction {number[index + 1]} follows {number[index]}"
            )
        for index in np.flatnonzero(first):
            if number[index] not in (0, 1):
                problems.append(f"client {client[index]} begins with transaction {number[index]}")
        return problems


def read_transaction_log(files: Sequence[Path], layout: LogLayout) -> TransactionLog:
    """Read the log files of all threads; rows come out in order of completion.

    Raises RunFailed for a log that is cut off, malformed or too large.
    """
    import numpy as np

    size = sum(file.stat().st_size for file in files)
    if size > LOG_BYTES_MAX:
        raise RunFailed(
            f"pgbench's transaction log has {size} bytes, more than {LOG_BYTES_MAX}",
            why="all transactions are read into memory at once",
            fix="shorten the run, or set workload.sampling_rate below 1",
        )
    parts = [part for file in files if (part := _read_file(file, layout)) is not None]

    def joined(name: str, dtype: str) -> npt.NDArray[Any]:
        arrays = [part.pop(name) for part in parts]
        whole = arrays[0] if len(arrays) == 1 else np.concatenate([np.zeros(0, dtype), *arrays])
        return whole.astype(dtype, copy=False)

    completed = joined("completed", "int64")
    order = np.argsort(completed, kind="stable")
    return TransactionLog(
        completed_us=completed[order],
        client=joined("client", "int32")[order],
        transaction=joined("transaction", "int64")[order],
        latency_us=joined("latency", "int64")[order],
        script=joined("script", "int16")[order],
        status=joined("status", "int8")[order],
        lag_us=joined("lag", "int64")[order] if layout.lag else None,
        retries=joined("retries", "int32")[order],
    )


def _read_file(file: Path, layout: LogLayout) -> dict[str, npt.NDArray[Any]] | None:
    """Columns of one thread's log; None when that thread logged nothing."""
    import pyarrow as pa

    size = file.stat().st_size
    if size == 0:
        return None
    with file.open("rb") as stream:
        stream.seek(size - 1)
        if stream.read(1) != b"\n":
            raise _unreadable(file, "its last line is cut off")
    try:
        table = _parse(file, layout)
    except pa.ArrowInvalid as error:
        raise _unreadable(file, str(error).replace("\n", " ")) from error
    for name in table.column_names:
        if name != "time" and table[name].null_count:
            raise _unreadable(file, f"a word where column {name!r} has to be a number")
    return _columns(file, table, layout)


def _columns(file: Path, table: pa.Table, layout: LogLayout) -> dict[str, npt.NDArray[Any]]:
    """The parsed numbers as arrays, with the status and without made-up zeros."""
    import numpy as np
    import pyarrow.compute as pc

    numbers = {name: table[name].to_numpy() for name in table.column_names if name != "time"}
    time: Any = table["time"]
    latency = pc.fill_null(time, 0).to_numpy()
    status = np.zeros(len(latency), np.int8)
    if time.null_count:
        status[pc.is_null(time).to_numpy()] = FAILED
        status[_is_skipped(file, layout)] = SKIPPED
    completed = numbers["epoch_s"] * 1_000_000 + numbers["epoch_us"]
    retries = numbers["retries"] if layout.retries else np.zeros(len(latency), np.int64)
    # A skipped transaction was never tried: its "tries - 1" may have wrapped around.
    retries = np.where(status == SKIPPED, 0, retries)
    if retries.size and (retries.min() < 0 or retries.max() > np.iinfo(np.int32).max):
        raise _unreadable(file, "a number of retries is out of range")
    columns = {
        "completed": completed,
        "client": numbers["client"],
        "transaction": numbers["transaction"],
        "latency": latency,
        "script": numbers["script"],
        "status": status,
        "retries": retries,
    }
    if layout.lag:
        columns["lag"] = np.where(status == OK, numbers["lag"], 0)
    return columns


def _parse(file: Path, layout: LogLayout) -> pa.Table:
    """All columns as integers; words in place of a latency become null."""
    import pyarrow as pa
    from pyarrow import csv

    types: dict[str, pa.DataType] = {name: pa.int64() for name in layout.columns()}
    types |= {"client": pa.int32(), "script": pa.int16()}
    return csv.read_csv(
        file,
        read_options=csv.ReadOptions(column_names=layout.columns()),
        parse_options=csv.ParseOptions(delimiter=" ", quote_char=False),
        convert_options=csv.ConvertOptions(column_types=types, null_values=list(NOT_COMPLETED)),
    )


def _is_skipped(file: Path, layout: LogLayout) -> npt.NDArray[np.bool_]:
    """Where the word in place of a latency is "skipped"."""
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import csv

    table = csv.read_csv(
        file,
        read_options=csv.ReadOptions(column_names=layout.columns()),
        parse_options=csv.ParseOptions(delimiter=" ", quote_char=False),
        convert_options=csv.ConvertOptions(
            include_columns=["time"], column_types={"time": pa.string()}, strings_can_be_null=False
        ),
    )
    words: Any = table["time"]
    skipped: npt.NDArray[np.bool_] = pc.equal(words, pa.scalar("skipped")).to_numpy()
    return skipped


def _unreadable(file: Path, why: str) -> RunFailed:
    return RunFailed(
        f"pgbench's transaction log {file.name} cannot be read",
        why=why,
        fix="the run is invalid; run again, and check the free space where results are kept",
    )

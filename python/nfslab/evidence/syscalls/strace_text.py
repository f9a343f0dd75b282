"""A text that strace (or perf trace) wrote, read into the same tables as a watch gives.

Memory is bounded as that of a watch (`ROWS_MOST`), however long the text is; totals have all calls.

Limits: times are what the text has: with -t only whole seconds, without -T no durations (both are
noted); calls whose file the text does not name belong to no file.
"""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Any, Final

from nfslab import clock
from nfslab.errors import UsageError
from nfslab.evidence.syscalls.watch import LOSSES, KeptRows, Seen
from nfslab.results.core_tables import core_table

if TYPE_CHECKING:
    from collections.abc import Mapping

READ_BYTES: Final = 1 << 20
CLOCKS: Final = {
    "time of day": "instants are times of day (strace -tt): a series over midnight is wrong",
    "relative": "instants are sums of the distances in the text (strace -r)",
    "none": "the text has no instants (strace -ttt): the order of syncs is that of the lines",
}
NOTED: Final = {
    "without_duration": "calls have no duration (strace writes it with -T): they count as 0",
    "without_place": "reads and writes have no known place",
    "without_path": "calls name no file (strace writes it with -y)",
    "unseen_requests": "requests went through io_uring or io_submit: the text does not say what "
    "they read, wrote or synced, and it is missing here",
    "without_time": "calls have no instant (strace writes it with -ttt)",
    "interrupted": "calls were interrupted: begun again, or never ended",
}


def read_text(stream: IO[bytes], level: str, lseek: bool = False) -> tuple[Seen, dict[str, Any]]:
    """Everything of it, and the summary; UsageError when it is no such text; OSError."""
    from nfslab._core import CoreError, StraceReader

    began = clock.monotonic_ns()
    reader = StraceReader(level, lseek=lseek)
    seen = Seen()
    rows = KeptRows()
    try:
        while data := stream.read(READ_BYTES):
            reader.feed(data)
            rows.take(reader)
        reader.end()
    except CoreError as error:
        raise UsageError(error.what, why=error.why, fix=error.fix) from error
    rows.take(reader)
    if level != "sync":
        seen.tables["counts"] = core_table(reader.counts())
    seen.figures = {name: int(value) for name, value in reader.figures().items()}
    seen.notes = _notes(seen.figures)
    rows.hand_over(seen)
    if reader.clock != "epoch" and reader.clock in CLOCKS:
        seen.notes.append(CLOCKS[reader.clock])
    if reader.first_not_understood:
        seen.notes.append(f"the first line not understood: {reader.first_not_understood}")
    seen.wall_s = (clock.monotonic_ns() - began) / 1e9
    summary = {"way": "read", "level": level, "figures": seen.figures, "notes": seen.notes}
    return seen, summary


def _notes(figures: Mapping[str, int]) -> list[str]:
    words = LOSSES | NOTED
    return [
        f"{count:,} {words[name]}" for name, count in figures.items() if count and name in words
    ]

"""The last lines of a server's log: what an expert looks at first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

TAIL_BYTES: Final = 64 << 10
TAIL_LINES: Final = 12
LINE_LENGTH_MAX: Final = 400


def log_tail(log: Path, *, since: int = 0) -> list[str]:
    """Last lines of a log (from byte `since` on); empty when there is none."""
    try:
        size = log.stat().st_size
        with log.open("rb") as stream:
            start = max(since, size - TAIL_BYTES)
            stream.seek(start)
            text = stream.read(TAIL_BYTES).decode(errors="replace")
    except OSError:
        return []
    lines = text.splitlines()
    if start > since and lines:
        lines = lines[1:]  # the first one is cut
    return [line[:LINE_LENGTH_MAX] for line in lines if line.strip()]


def told(lines: list[str]) -> str:
    """The last lines, for an error's `why`."""
    return "\n       ".join(lines[-TAIL_LINES:]) or "its log is empty"

"""What each way of watching is known to cost: the figures of docs/syscalls.md, as sentences.

Measured by benches/syscall_cost.py (see there: machine, load, how often); a reader is told where
the figure is from, since another machine and another load have their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from nfslab.machine.syscall_ways import Asked, Way

MEASURED: Final[dict[tuple[str, str], str]] = {
    ("ebpf", "sync"): "1.03 (0.99 to 1.07)",
    ("ebpf", "counts"): "1.03 (1.01 to 1.06)",
    ("ebpf", "counts+lseek"): "1.09 (1.03 to 1.12)",
    ("ebpf", "events"): "1.04 (1.01 to 1.07)",
    ("shim", "sync"): "1.01 (0.97 to 1.11)",
    ("shim", "counts"): "1.08 (0.96 to 1.17)",
    ("strace", "sync"): "1.32 (1.22 to 1.41)",
    ("strace", "counts"): "1.52 (1.43 to 1.76)",
}
"""(way, level) -> CPU time a transaction against unwatched: medians, and their quartiles."""
SOURCE: Final = "docs/syscalls.md has the figures and how they were measured"


def known_cost(way: Way, asked: Asked) -> str:
    """A sentence for the summary."""
    level = asked.level + ("+lseek" if asked.lseek and asked.level != "sync" else "")
    found = MEASURED.get((way, level))
    if way == "views":
        return "a few queries before and after: none while the load runs"
    if found is None:
        return f"not measured for this way and level; {SOURCE}"
    return f"CPU time {found} of unwatched, with pgbench; {SOURCE}"

"""What a watch of system calls leaves: tables for the evidence, and the summary beside them.

Tables have `t_ns` in front (nanoseconds from where the timed part began) and are in the order of
time; files have their `class`, syncs the title of the `process` that made them. Totals have no
instant: they stand at the end of the timed part.

What each way of watching is known to cost are the figures of docs/syscalls.md, measured by
benches/syscall_cost.py (see there: machine, load, how often); a reader is told where the figure is
from, since another machine and another load have their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from nfslab.evidence.syscalls.tables import with_classes
from nfslab.evidence.syscalls.watch import Seen
from nfslab.storage.file_devices import disks_of_devices

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nfslab.evidence.syscalls.ways import Asked, Choice, Way


INSTANTS: Final[Mapping[str, str]] = {
    "files": "seen_ns", "syncs": "start_ns", "events": "start_ns", "names": "start_ns",
    "blocks": "issue_ns",
}  # fmt: skip
MEASURED: Final[dict[tuple[str, str], str]] = {
    ("ebpf", "sync"): "1.03 (0.99 to 1.07)",
    ("ebpf", "counts"): "1.03 (1.01 to 1.06)",
    ("ebpf", "counts+lseek"): "1.09 (1.03 to 1.12)",
    ("ebpf", "events"): "1.04 (1.01 to 1.07)",
    ("shim", "sync"): "1.01 (0.97 to 1.11)",
    ("shim", "counts"): "1.08 (0.96 to 1.17)",
}
"""(way, level) -> CPU time a transaction over that without tracing: medians, quartiles."""
SOURCE: Final = "docs/syscalls.md has the figures and how they were measured"


def summary_of(choice: Choice, asked: Asked, seen: Seen) -> dict[str, Any]:
    """How it was watched, what is in the way of the other ways, what was lost."""
    files = seen.tables.get("files")
    devices = [] if files is None else [str(d) for d in files["device"].unique().to_pylist()]
    return {
        "way": choice.way,
        "level": asked.level,
        "why_not": [list(entry) for entry in choice.why_not],
        "known_cost": known_cost(choice.way, asked),
        "figures": seen.figures,
        "notes": seen.notes,
        "targets": {},
        "disks": disks_of_devices(devices),
    }


def evidence_tables(
    seen: Seen, classes: Sequence[tuple[str, str]], zero_ns: int, end_ns: int
) -> dict[str, pa.Table]:
    """By the names of `nfslab.evidence.syscalls.tables.TABLES`; tables without a row are left out.

    They are taken out of `seen`: millions of rows are not kept twice.
    """
    found: dict[str, pa.Table] = {}
    for name in list(seen.tables):
        table = seen.tables.pop(name)
        if not table.num_rows:
            continue
        if name == "files":
            table = with_classes(table, classes)
        if name == "syncs":
            table = _with_titles(table, seen.processes)
        if name in ("counts", "beyond"):
            at_end = pa.repeat(pa.scalar(max(1, end_ns - zero_ns), pa.int64()), table.num_rows)
            found[name] = table.add_column(0, "t_ns", at_end)
            continue
        times = pc.subtract(table[INSTANTS[name]].cast(pa.int64()), zero_ns)
        table = table.add_column(0, "t_ns", times)
        found[name] = table.sort_by("t_ns")
    return found


def _with_titles(syncs: pa.Table, processes: dict[int, str]) -> pa.Table:
    """A title is stored once, however many syncs its process made."""
    pids = pa.array(processes, pa.uint32())
    titles = pa.array(processes.values(), pa.string())
    numbers = pc.index_in(syncs["pid"].combine_chunks(), value_set=pids)
    return syncs.append_column("process", pa.DictionaryArray.from_arrays(numbers, titles))


def known_cost(way: Way, asked: Asked) -> str:
    """A sentence for the summary."""
    level = asked.level + ("+lseek" if asked.lseek and asked.level != "sync" else "")
    found = MEASURED.get((way, level))
    if way == "views":
        return "a few queries before and after: none while the load runs"
    if found is None:
        return f"not measured for this way and level; {SOURCE}"
    return f"tracing overhead: CPU time {found} of that without, with pgbench; {SOURCE}"

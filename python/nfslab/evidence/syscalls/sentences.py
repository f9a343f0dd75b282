"""What a watch of system calls says in sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nfslab.display.numbers import count, percent, quantity
from nfslab.evidence.syscalls.sync_blocks import PARTS
from nfslab.evidence.syscalls.sync_steps import STEPS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nfslab.evidence.syscalls.facts import SeriesFacts, SyscallFacts

SERIES_SAID: Final = 4
LEVELS_SAID: Final = 6
SLOWEST_TIMES: Final = 10
"""Of the median: a slowest call that is named."""
ROWS_SAID: Final = 3
WAY_NAMES: Final = {
    "ebpf": "eBPF programs in the kernel", "shim": "a preloaded library",
    "views": "PostgreSQL's own views and /proc",
    "strace": "strace --seccomp-bpf",  # of results of nfslab before 0.1.0 was complete
}  # fmt: skip
NO_ACCESSES: Final = (
    "Level counts has sizes and places of reads and writes in all, not over time: level events has "
    "each of them."
)
STEP_WORDS: Final = {
    "waiting": "waiting for writes already under way", "sending": "sending dirty pages",
    "committing": "committing", "rest": "the rest (kernel, FUSE, client)",
}  # fmt: skip
BLOCK_WORDS: Final = {
    "flush": "flushing the disk's cache", "write": "writing to the disk", "read": "reading",
    "rest": "the rest (file system, scheduler)",
}  # fmt: skip


def sentences(facts: SyscallFacts) -> list[str]:
    """What it says, the series with the most time first."""
    said = [series_sentence(one) for one in facts.series[:SERIES_SAID]]
    if (left := len(facts.series) - SERIES_SAID) > 0:
        said.append(f"{left} more kinds of syncs are in the table.")
    for share in facts.shares:
        said += share.sentences()
    for row in (facts.waits.steps or ())[:ROWS_SAID]:
        shares = _shares_text(row.summary.share, STEPS, STEP_WORDS)
        slow = _shares_text(row.summary.slow_share, STEPS, STEP_WORDS, most=1)
        said.append(
            f"On {row.target}, {count(row.summary.calls)} x {row.what} of {row.file_class} spent "
            f"{shares}; above p99: {slow}."
        )
    for block in (facts.waits.blocks or ())[:ROWS_SAID]:
        shares = _shares_text(block.summary.share, PARTS, BLOCK_WORDS)
        said.append(
            f"While {count(block.summary.calls)} x {block.what} of {block.file_class} lasted, the "
            f"disk spent {shares}."
        )
    return said


def _shares_text(
    shares: Sequence[float | None], names: Sequence[str], words: Mapping[str, str], most: int = 4
) -> str:
    known = [(share, name) for share, name in zip(shares, names, strict=True) if share]
    known.sort(reverse=True)
    return ", ".join(f"{percent(share)} {words[name]}" for share, name in known[:most]) or "nothing"


def series_sentence(one: SeriesFacts) -> str:
    """ "PostgreSQL WAL, 242 x fdatasync: the first 57 calls take 0.4 ms, then 5.1 ms."."""
    head = f"{one.file_class}, {count(one.calls)} x {one.what}: "
    return head + levels_text(one) + _slowest(one) + "."


def _slowest(one: SeriesFacts) -> str:
    """The slowest call where it stands out: a stall is no level, and in no percentile of many."""
    call = one.slowest
    if call.latency_ns < SLOWEST_TIMES * one.quantiles_ns[0]:
        return ""
    at, took = quantity(call.t_ns, "ns"), quantity(call.latency_ns, "ns")
    return f"; the slowest is call {count(call.number)} ({took}, at {at})"


def levels_text(one: SeriesFacts) -> str:
    """The levels of a series in words, by their medians."""
    levels = one.levels
    if len(levels) < 2:
        middle = quantity(one.quantiles_ns[0], "ns")
        return f"{middle} in the median, {quantity(one.quantiles_ns[2], 'ns')} at p99, no change"
    first = f"the first {count(levels[0].calls)} calls take {quantity(levels[0].median_ns, 'ns')}"
    last = quantity(levels[-1].median_ns, "ns")
    if len(levels) > LEVELS_SAID:
        medians = [level.median_ns for level in levels]
        return (
            f"the level changes {len(levels) - 1} times, between {quantity(min(medians), 'ns')} "
            f"and {quantity(max(medians), 'ns')}; {first}"
        )
    between = [
        f"the next {count(level.calls)} {quantity(level.median_ns, 'ns')}" for level in levels[1:-1]
    ]
    return ", ".join([first, *between, f"then {last}"])


def notes(facts: SyscallFacts) -> list[str]:
    """How it was watched, and what is missing."""
    watch = facts.watch
    way = str(watch.get("way", ""))
    level = watch.get("level", "unknown")
    said = [f"Watched by {WAY_NAMES.get(way, way or 'an unknown way')}, level {level}."]
    if cost := watch.get("known_cost"):
        said.append(f"Cost: {cost}.")
    for other, reason in watch.get("why_not", []):
        said.append(f"Not by {WAY_NAMES.get(other, other)}: {reason}.")
    said += [f"{note[:1].upper()}{note[1:]}." for note in watch.get("notes", [])]
    mapped = facts.total.others.get("mmap")
    if mapped is not None and mapped.calls:
        said.append(
            f"{count(mapped.calls)} x mmap: what is read and written through mapped pages is in no "
            "figure here."
        )
    if facts.untimed:
        said.append(f"Syncs before the timed part, in nothing here: {count(facts.untimed)}.")
    if watch.get("level") == "counts" and way != "views":
        said.append(NO_ACCESSES)
    for one in facts.series:
        if one.errors:
            said.append(f"{count(one.errors)} x {one.what} of {one.file_class} failed.")
        if one.bounded:
            said.append(f"Changes of {one.what} of {one.file_class}: {one.bounded}.")
    return [*said, *facts.waits.steps_notes, *facts.waits.blocks_notes]

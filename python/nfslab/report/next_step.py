"""What to do when all is inconclusive: how many more blocks detect a change of 10 %."""

from __future__ import annotations

import math
import shlex
import statistics
from typing import TYPE_CHECKING, Final

from nfslab.display.numbers import counted
from nfslab.quantities import format_duration
from nfslab.results.groups import grouped
from nfslab.statistics.power import pairs_for

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nfslab.report.model import ComparisonResult
    from nfslab.results.outcomes import Outcomes

CHANGE: Final = 1.1
PAIRS_LEAST: Final = 3
"""Fewer have no test, and their spread says nothing."""
BLOCKS_MOST: Final = 10_000
"""What an experiment may have; beyond it the spread is what has to change."""


def next_step(outcomes: Outcomes, rows: Sequence[ComparisonResult]) -> str:
    """A sentence with its command, where none of these comparisons shows a difference; or ""."""
    if not rows or any(row.result.shown for row in rows):
        return ""
    needed = [_blocks(row) for row in rows]
    known = [blocks for blocks in needed if blocks is not None]
    record = outcomes.record
    if len(known) < len(needed) or max(known) <= record.repetitions:
        return ""
    blocks = max(known)
    if blocks > BLOCKS_MOST:
        return "Runs differ too much among themselves for a change of 10 % to be shown at all."
    more = blocks - record.repetitions
    words = iter(record.command or ["nfslab", "run", record.name])
    again = []
    for word in words:
        if word == "--repetitions":
            next(words, None)
        else:
            again.append(word)
    command = shlex.join([*again, "--repetitions", str(blocks)])
    takes = format_duration(more * _block_s(outcomes))
    return (
        f"{counted(more, 'more repetition')} ({takes}) detect a change of 10 % "
        f"with 80 % power: {command}"
    )


def _blocks(row: ComparisonResult) -> int | None:
    """Blocks in all for this comparison; None where its spread is not known."""
    found = row.result
    if found.scale != "ratio" or found.n_pairs < PAIRS_LEAST or not found.standard_error:
        return None
    alpha = found.alpha / max(1, found.n_comparisons)
    return pairs_for(math.log(CHANGE), found.standard_error, found.n_pairs, alpha)


def _block_s(outcomes: Outcomes) -> float:
    """Seconds of a block: each point takes the median of its runs."""
    taken = grouped((line.point_id, line.duration_ns / 1e9) for line in outcomes.counted)
    return sum(statistics.median(seconds) for seconds in taken.values())

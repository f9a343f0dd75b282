"""The evidence `call_counts` in reports: calls by collector side by side, and who lacks some."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

from nfslab.display import cells
from nfslab.display.sections import Column, Section, Table
from nfslab.evidence.base import EvidenceKind, Facts
from nfslab.evidence.by_mount import by_operation
from nfslab.evidence.call_counts.counts import CallCounts, call_counts
from nfslab.evidence.over_time import middle
from nfslab.evidence.same import OPERATION, POINT, RUNS, at_points

if TYPE_CHECKING:
    from nfslab.display.sections import Cell
    from nfslab.evidence.base import Found, SealedRun
    from nfslab.evidence.call_counts.counts import CountedOperation
    from nfslab.evidence.same import Same

OPERATIONS_MOST: Final = 12
SENTENCES_MOST: Final = 6
INTRO: Final = (
    "Calls as each collector counted them, medians over the runs. Those of the whole time that it "
    "was on hold those of the timed part: who has fewer than another counted there, by more than "
    "a few at the ends, is incomplete. More is no fault: other mounts and clients are seen, too."
)


class CallCountsEvidence(EvidenceKind[CallCounts]):
    """What each way of watching NFS calls counted."""

    kind: ClassVar[str] = "call_counts"
    title: ClassVar[str] = "NFS calls by who counted them"
    Facts: ClassVar[type[Facts]] = CallCounts

    def facts(self, run: SealedRun) -> CallCounts | None:
        """Of the collectors' summaries."""
        return call_counts(run.record)

    def section(self, found: Found[CallCounts]) -> Section | None:
        """By point and operation."""
        said = [
            f"{run.label}: {one.collector} is incomplete: it counted {one.said}."
            for run in found.runs
            for one in run.facts.missing
        ]
        more = len(said) - SENTENCES_MOST
        rows = [
            row
            for at in at_points(found)
            for row in by_operation(
                at, (one for run in at.runs for one in run.operations), OPERATIONS_MOST
            )
        ]
        names = dict.fromkeys(name for row in rows for one in row.runs for name in one.by)
        table = Table.of("Calls by collector", rows, [
            POINT, OPERATION, RUNS,
            *((Column(name), partial(_calls, name)) for name in names),
        ])  # fmt: skip
        return Section(
            self.title,
            anchor=self.kind,
            intro=INTRO,
            sentences=said[:SENTENCES_MOST] + ([f"So are {more} more."] if more > 0 else []),
            tables=[table] if rows else [],
        )


def _calls(name: str, row: Same[CountedOperation]) -> Cell:
    calls = middle(one.by.get(name) for one in row.runs)
    return cells.count(None if calls is None else round(calls))

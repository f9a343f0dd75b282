"""Offered load as a kind of evidence: runs of a workload that offers NFS operations at a rate.

A curve is made of medians over a point's runs, and tells of points none of whose runs count, too:
what a section says is of the experiment's analysis.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from nfslab.display.sections import Section, Table
from nfslab.errors import ResultsError
from nfslab.evidence.base import EvidenceKind, Facts
from nfslab.evidence.found import problem
from nfslab.evidence.offered_load.content import as_content
from nfslab.evidence.offered_load.curves import ACHIEVED, WORKLOAD
from nfslab.evidence.offered_load.operations import read_run, together
from nfslab.evidence.offered_load.section import OPERATION, load_section

if TYPE_CHECKING:
    from nfslab.evidence.base import Found, RunFacts, SealedRun


class OfferedLoadFacts(Facts):
    """One run: what is told is in its record."""


class OfferedLoadEvidence(EvidenceKind[OfferedLoadFacts]):
    """Achieved load and response times over the load that was offered."""

    kind: ClassVar[str] = "offered_load"
    title: ClassVar[str] = "Offered load"
    Facts: ClassVar[type[Facts]] = OfferedLoadFacts
    workload: ClassVar[str] = WORKLOAD

    def present(self, run: SealedRun) -> bool:
        """Did its workload offer a load?"""
        return ACHIEVED in run.record.metrics

    def facts(self, run: SealedRun) -> OfferedLoadFacts:
        """That it is one."""
        return OfferedLoadFacts()

    def section(self, found: Found[OfferedLoadFacts]) -> Section | None:
        """The curves."""
        if found.analysis is None:
            return None
        return load_section(found.analysis, self.title, found.only)

    def run_section(self, run: RunFacts[OfferedLoadFacts]) -> Section | None:
        """Each operation of one run."""
        try:
            operations = together([read_run(run.run.folder)])
        except ResultsError as error:
            return Section(self.title, problems=[problem(run.run.run_id, error)])
        if not operations:
            return None
        table = Table.of("Operations", operations, OPERATION)
        return Section("Operations of the offered load", tables=[table])

    def content(self, found: Found[OfferedLoadFacts]) -> dict[str, Any] | None:
        """The curves with all digits."""
        return None if found.analysis is None else as_content(found.analysis)

"""Where the time of an operation goes, as a kind of evidence: of every run that has one.

Each workload says what its operation is and which parts its mean time has (`ROOTS`); what lies
within a part comes from other kinds' facts of the same run. So it works on every results folder
that was made before, with what evidence it has, and names what would explain more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from nfslab.evidence.anatomy import in_process, innodb, requests, transactions
from nfslab.evidence.anatomy.calls import of_offered_calls, with_calls
from nfslab.evidence.anatomy.files import of_files
from nfslab.evidence.anatomy.inner import within_log_sync
from nfslab.evidence.anatomy.parts import OF_DATABASE, AnatomyFacts
from nfslab.evidence.anatomy.slow_transactions import slow_transactions
from nfslab.evidence.base import EvidenceKind, Facts
from nfslab.evidence.cache import facts_of
from nfslab.evidence.nfs_server.breakdown import read_breakdown
from nfslab.evidence.nfs_server.kind import NfsServerEvidence
from nfslab.evidence.syscalls.kind import SyscallsEvidence

if TYPE_CHECKING:
    from collections.abc import Callable

    from nfslab.display.sections import Section
    from nfslab.evidence.base import Found, SealedRun
    from nfslab.evidence.syscalls.facts import SyscallFacts

OF_SYNCS: Final = ("wal_fsync", "group_commit_wait", "log_fsync")
"""Parts divided by the log's syncs: who waits in a group commit waits for just that."""


class AnatomyEvidence(EvidenceKind[AnatomyFacts]):
    """An operation's mean time, in parts that sum to it."""

    kind: ClassVar[str] = "anatomy"
    title: ClassVar[str] = "Where the time goes"
    Facts: ClassVar[type[Facts]] = AnatomyFacts
    version: ClassVar[int] = 20

    def present(self, run: SealedRun) -> bool:
        """Of every workload whose operation is known."""
        return _root(run) is not None

    def facts(self, run: SealedRun) -> AnatomyFacts | None:
        """With all that the run's other evidence tells. ResultsError."""
        root = _root(run)
        return None if root is None else root(run)

    def section(self, found: Found[AnatomyFacts]) -> Section | None:
        """By point, and what differs between points that are compared."""
        from nfslab.evidence.anatomy.section import section

        return section(self.title, found)


def _root(run: SealedRun) -> Callable[[SealedRun], AnatomyFacts | None] | None:
    made = run.record.parameters.get("workload", {})
    if run.record.operations in OF_DATABASE and "engine" in made:
        return ENGINES.get(str(made["engine"]))
    by_kind = ROOTS.get(str(made.get("kind", "")))
    return by_kind or (_of_database if run.record.operations in OF_DATABASE else None)


def _of_database(run: SealedRun) -> AnatomyFacts | None:
    return _served(run, transactions.anatomy)


def _of_innodb(run: SealedRun) -> AnatomyFacts | None:
    return _served(run, innodb.anatomy)


def _served(
    run: SealedRun, anatomy: Callable[[SealedRun, SyscallFacts | None], AnatomyFacts | None]
) -> AnatomyFacts | None:
    """Of a server, whose threads or processes serve a client each."""
    syscalls = facts_of(SyscallsEvidence(), run)
    made = anatomy(run, syscalls)
    if made is None:
        return None
    slowest = slow_transactions(run) if syscalls else ()
    return _with_inner(run, made.model_copy(update={"slowest": slowest}), syscalls)


def _in_process(run: SealedRun) -> AnatomyFacts | None:
    syscalls = facts_of(SyscallsEvidence(), run)
    made = in_process.anatomy(run, syscalls)
    return None if made is None else _with_inner(run, made, syscalls)


def _of_requests(run: SealedRun) -> AnatomyFacts | None:
    syscalls, calls = facts_of(SyscallsEvidence(), run), facts_of(NfsServerEvidence(), run)
    made = requests.anatomy(run, syscalls, calls)
    return None if made is None else _with_inner(run, made, syscalls)


def _with_inner(run: SealedRun, made: AnatomyFacts, syscalls: SyscallFacts | None) -> AnatomyFacts:
    calls = facts_of(NfsServerEvidence(), run)
    parts = [
        within_log_sync(part, syscalls, calls) if part.name in OF_SYNCS else part
        for part in made.parts
    ]
    return with_calls(made.model_copy(update={"parts": tuple(parts)}), calls)


def _files(run: SealedRun) -> AnatomyFacts | None:
    known = NfsServerEvidence().present(run)
    return of_files(run, lambda ends: read_breakdown(run.folder, ends) if known else None)


def _on_storage(run: SealedRun) -> AnatomyFacts | None:
    """The workload `storage` does another one's work: by what its run has."""
    return _files(run) or _of_database(run)


ROOTS: Final[dict[str, Callable[[SealedRun], AnatomyFacts | None]]] = {
    "files": _files,
    "sfs": of_offered_calls,
    "storage": _on_storage,
    "web": _of_requests,
}
"""By kind of workload; whose operations are a database's need none."""
ENGINES: Final[dict[str, Callable[[SealedRun], AnatomyFacts | None]]] = {
    "postgres": _of_database,
    "mariadb": _of_innodb,
    "sqlite": _in_process,
}
"""By engine, where a workload has several."""

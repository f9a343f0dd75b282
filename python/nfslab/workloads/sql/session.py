"""What a session does on any engine: the statements of its query, in their order.

An engine adds how a plan is asked for and compared, how rows are copied in, and its counters.
"""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Generic

from nfslab.errors import RunFailed
from nfslab.machine.processes import all_statuses
from nfslab.workloads.sql.dialect import Connected, Proof
from nfslab.workloads.sql.statements import P, Statements

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nfslab.databases.base import Session
    from nfslab.results.records import Metric
    from nfslab.workloads.sql.queries import Answer


class PlannedSession(Connected, Generic[P]):
    """A session with the statements of a query."""

    copy_text: ClassVar[str]
    """How rows are copied in, for those who do it by hand."""

    def __init__(
        self, session: Session, query: str, run: Statements[P], pinning: Sequence[str]
    ) -> None:
        self._session, self._query, self._run, self._pinning = session, query, run, pinning
        self._mark = ""
        for statement in pinning:
            session.rows(statement)

    @abstractmethod
    def explained(self, text: str, intended: P, *, execute: bool = True) -> dict[str, Metric]:
        """Its plan, executed where that is needed: what it tells.

        RunFailed where it is another one, or did not do what it is there for.
        """

    @abstractmethod
    def copy_in(self) -> None:
        """The rows that are in memory."""

    def check_plan(self) -> None:
        """Without executing it."""
        if self._run.plan is not None:
            self.explained(self._run.text, self._run.plan, execute=False)

    def before(self) -> None:
        """Statements of its own."""
        for statement in self._run.before:
            self._session.rows(statement)
        if self._run.mark:
            self._mark = str(self._session.rows(self._run.mark)[0][0])

    def execute(self) -> Answer:
        """The statement, or rows that are in memory."""
        if self._run.copies:
            self.copy_in()
            return []
        for statement in self._run.first:
            self._session.rows(statement)
        yielded = self._session.rows(self._run.text)
        return list(self._session.rows(self._run.then) if self._run.then else yielded)

    def undo(self) -> None:
        """Statements of its own."""
        for statement in self._run.undo:
            self._session.rows(statement)

    def answer(self, yielded: Answer) -> Answer:
        """Its own rows, or those of the statement that looks at what it left; sorted."""
        if not self._run.answer:
            return sorted(yielded)
        if self._run.answer_plan is not None:
            self.explained(self._run.answer, self._run.answer_plan)
        return sorted(self._session.rows(self._run.answer))

    def prove(self) -> Proof:
        """The plan again, or what else tells that it did what it is there for."""
        if self._run.proof:
            asked = self._run.proof.format(mark=self._mark)
            found = self._session.rows(asked)
            if not found or not found[0][0]:
                raise RunFailed(
                    f"{self._query} did not do what it is there for",
                    why=f"{asked} yields {found}",
                    fix="see the log of the run",
                )
        intended = self._run.plan
        if intended is None:
            return Proof(f"{self._query} has no plan: what it left was looked at")
        metrics = self.explained(self._run.text, intended)
        did = self.did(intended)
        return Proof(f"the plan was the intended one before and after{did}", metrics)

    def did(self, intended: P) -> str:
        """Of an executed plan, what it told; a bracket, or nothing."""
        return ""

    def empty(self) -> None:
        """Nothing to look up."""
        self._session.rows("SELECT 1")

    def text(self) -> str:
        """Settings, then the statements in their order."""
        run = self._run
        lines = [*self._pinning, *run.before, *run.first]
        lines += [self.copy_text if run.copies else run.text, run.then, run.answer]
        return "".join(f"{line};\n" for line in lines if line)

    def other_plan(self, engine: str, wrong: str, plan: str, fix: str) -> RunFailed:
        """The error for one that is not the intended one."""
        return RunFailed(
            f"{self._query} cannot be run by its plan: {wrong}",
            why=f"{engine}'s plan is\n{plan}",
            fix=fix,
        )


def fetched_bytes(first: int) -> int | None:
    """What the kernel fetched from block devices for a server's processes that live (proc(5):
    `read_bytes` of /proc/PID/io); None where that may not be read."""
    total = 0
    for status in all_statuses():
        if first in (status.identity.pid, status.parent):
            try:
                text = Path(f"/proc/{status.identity.pid}/io").read_text(encoding="ascii")
            except ProcessLookupError:
                continue
            except OSError:
                return None
            total += int(text.partition("\nread_bytes: ")[2].split()[0])
    return total

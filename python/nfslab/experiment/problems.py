"""What is wrong with an experiment file: all of it at once, each with its place.

A person who mends one line only to be told about the next one loses patience, so reading
goes on after a problem as far as it makes sense and reports everything together. Every
problem says where (file and line, or the option that set the value), what is wrong, and
what would be right.

Limit: `MAX_SHOWN` problems are printed; the number of the others is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nfslab.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nfslab.experiment.source import Source

MAX_SHOWN = 50
"""Problems printed; a file with more is usually wrong in one thing that shows everywhere."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong: where, what, and what would be right."""

    where: str
    what: str
    fix: str = ""
    line: int = 0
    """For the order; 0 when the problem stands on no line of the file."""

    def lines(self) -> list[str]:
        """As printed: the place and what is wrong, then what to do."""
        lines = [f"{self.where}: {self.what}"]
        if self.fix:
            lines.append(f"    fix: {self.fix}")
        return lines


class InvalidExperiment(UsageError):
    """An experiment file that does not validate; holds every problem found in it."""

    def __init__(self, name: str, problems: Sequence[Problem]) -> None:
        count = len(problems)
        noun = "problem" if count == 1 else "problems"
        super().__init__(f"{name} has {count} {noun}; nothing was run")
        self.problems = sorted(problems, key=lambda problem: problem.line)

    def lines(self) -> list[str]:
        """The heading, then every problem with its place and its remedy."""
        lines = [self.what]
        for problem in self.problems[:MAX_SHOWN]:
            lines += [f"  {line}" for line in problem.lines()]
        hidden = len(self.problems) - MAX_SHOWN
        if hidden > 0:
            lines.append(f"  ... and {hidden} more")
        return lines


class Problems:
    """Collects the problems of one file while it is read."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.found: list[Problem] = []
        self.warnings: list[Problem] = []
        self._seen: set[tuple[str, str]] = set()

    def add(
        self, path: Sequence[str | int], what: str, fix: str = "", *, key: bool = False
    ) -> None:
        """Something is wrong at `path` (at its key rather than its value with `key`)."""
        self._keep(self.found, path, what, fix, key)

    def warn(self, path: Sequence[str | int], what: str, fix: str = "") -> None:
        """Something looks wrong, but the experiment can be carried out as it stands."""
        self._keep(self.warnings, path, what, fix, False)

    def raise_any(self) -> None:
        """Raise `InvalidExperiment` when anything was found."""
        if self.found:
            raise InvalidExperiment(self.source.name, self.found)

    def _keep(
        self, into: list[Problem], path: Sequence[str | int], what: str, fix: str, key: bool
    ) -> None:
        where = self.source.where(path, key=key)
        line = (self.source.line(path, key=key) or 0) if ":" in where else 0
        # One mistake shows at every point of the matrix: it is said once.
        if (where, what) not in self._seen:
            self._seen.add((where, what))
            into.append(Problem(where, what, fix, line))

"""Lenses that follow a capture as a whole, while its files are read side by side (`side_by_side`).

    process a file ──> part, and a journal in the spool folder
         ──> once it fits its neighbours, in the order of the files
         ──> threads of the core (`Following`) play it to the lenses, and remove it

A journal has a name of its own for each time that a task is given: what a lost process wrote, or
still writes, is nobody's. Files are begun only while few journals are held, so that the spool does
not grow with the capture: 2 N + 2 files' of N processes.
"""

from __future__ import annotations

import itertools
import os
import stat
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from nfslab.captures.analysis import in_words
from nfslab.captures.pool import NotAnAnswerError
from nfslab.errors import RunFailed, system_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from nfslab._core import Following
    from nfslab.captures.analysis import Asked
    from nfslab.captures.stretches import Stretch
    from nfslab.machine.resources import Resources

    Blobs = Mapping[str, tuple[str, bytes]]

PUT_TOGETHER: Final = frozenset({"operations", "clients"})
"""Lenses of which what was found in parts can be put together; all others follow."""
SPOOL: Final = Path("/var/tmp")
"""Where journals are if nothing is said: on a disk."""


LEAST_PROCESSORS: Final = 4
"""With fewer here, one process with its threads is faster: journals take CPU time to write and to
play."""


def processors() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0))


def needs_spool(asked: Asked) -> bool:
    """Whether anything is to be made that is not put together of parts."""
    return asked.calls is not None or not set(asked.lenses) <= PUT_TOGETHER


class NothingFollows:
    """All that is asked for is put together of parts."""

    lenses: Following | None = None

    def may_begin(self, task: Stretch) -> bool:
        """Whether there is room for its journal."""
        return True

    def order(self, task: Stretch) -> dict[str, Any]:
        """What a process is told of it."""
        return {"journal": None, "followed": [], "rows": False, "is_first": False}

    def take(self, task: Stretch, part: bytes) -> None:
        """It was read; `NotAnAnswerError`."""

    def give_up(self, stretch: Stretch) -> bool:
        """It is to be read again; whether that can be: nothing of it follows yet."""
        return True

    def go_on(self, fits: Callable[[Stretch], bool]) -> None:
        """All follows that is there in its order and fits; CoreError."""

    def is_done(self) -> bool:
        """Nothing waits to be played; CoreError."""
        return True

    def findings(self, whole: bytes, moved: int, names: list[str]) -> tuple[str, Blobs]:
        """All tables, of the part of all files; CoreError."""
        from nfslab._core import part_findings

        return part_findings(whole, moved, names)


class Followed(NothingFollows):
    """What is given to the lenses that follow, and what waits for it."""

    lenses: Following

    def __init__(self, asked: Asked, workers: int, folder: Path) -> None:
        """CoreError: a lens does not like its options."""
        from nfslab._core import Following

        self._lenses = [lens for lens in asked.lenses if lens not in PUT_TOGETHER]
        self._rows = asked.calls is not None
        self.lenses = Following(self._lenses, list(asked.file_classes), self._rows)
        self._held_most = 2 * workers + 2
        self._folder = folder
        self._names = itertools.count()
        self._journals: dict[Stretch, Path] = {}
        """Where those write, or wrote, that were given a task last."""
        self._read: dict[int, tuple[Stretch, bytes]] = {}
        """What does not follow yet, with its part, by its first file."""
        self._begun = self._behind = 0
        """Files that were given to somebody; those that follow."""

    def may_begin(self, task: Stretch) -> bool:
        """See there. What was begun before has to be done again."""
        held = self._begun - self._behind + self.lenses.waiting()
        return task.first < self._begun or held < self._held_most

    def order(self, task: Stretch) -> dict[str, Any]:
        """See there."""
        self._forget(task)
        journal = self._folder / f"{task.first}-{next(self._names)}"
        self._journals[task] = journal
        self._begun = max(self._begun, task.behind)
        what = {"followed": self._lenses, "rows": self._rows, "is_first": task.first == 0}
        return what | {"journal": str(journal)}

    def take(self, task: Stretch, part: bytes) -> None:
        """See there."""
        try:
            regular = stat.S_ISREG(self._journals[task].lstat().st_mode)
        except OSError:
            regular = False
        if not regular:
            raise NotAnAnswerError(f"it left no journal in {self._folder}")
        self._read[task.first] = task, part

    def give_up(self, stretch: Stretch) -> bool:
        """See there."""
        for task in [task for task in self._journals if task.first in stretch.files]:
            self._read.pop(task.first, None)
            self._forget(task)
        return stretch.first >= self._behind

    def go_on(self, fits: Callable[[Stretch], bool]) -> None:
        """See there."""
        while (read := self._read.get(self._behind)) is not None and fits(read[0]):
            task, part = self._read.pop(self._behind)
            self._behind = task.behind
            self.lenses.follow(part, self._journals.pop(task))

    def is_done(self) -> bool:
        """See there."""
        return self.lenses.waiting() == 0

    def findings(self, whole: bytes, moved: int, names: list[str]) -> tuple[str, Blobs]:
        """See there."""
        return self.lenses.finish(whole, moved, names)

    def _forget(self, task: Stretch) -> None:
        if (journal := self._journals.pop(task, None)) is not None:
            with suppress(OSError):  # It goes with its folder, at the latest.
                journal.unlink(missing_ok=True)


@contextmanager
def followed(
    asked: Asked, workers: int, spool: Path, resources: Resources
) -> Iterator[NothingFollows]:
    """Threads for what is asked for, and a folder for journals in this one."""
    from nfslab._core import CoreError

    if not needs_spool(asked):
        yield NothingFollows()
        return
    fix = "give another folder with --spool DIR"
    with system_errors(f"cannot make a folder in {spool}", fix, RunFailed):
        entry = resources.make_directory(spool.absolute() / f"{resources.name}-journals")
    try:
        found = Followed(asked, workers, entry.path)
    except CoreError as error:
        raise in_words(error) from error
    with entry:
        try:
            yield found
        finally:
            found.lenses.stop()

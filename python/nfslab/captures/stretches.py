"""Parts of neighbouring files, put together as they come; where two do not fit, what is read again.

    0 1 2 3 4 5      files
    ├─┤ ├───┤ ├┤     parts that have come, each of a stretch of files
        ^ ^          where two meet, they are tried at once: `join` refuses, or they fit

Two that do not fit are given up, and both stretches are one to be read in a row: the least that can
help. So a part is left as it is until it fits both its neighbours, and these theirs; then it is put
together with one of about its own length, so that few are held, and giving up two costs little. A
stretch that does not fit either grows by its neighbour, the same way.
"""

from __future__ import annotations

from bisect import bisect
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class DoNotFitError(Exception):
    """Two parts do not tell what reading their files in a row would; the text says why."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Files from the `first` up to the one `behind` them."""

    first: int
    behind: int

    @property
    def files(self) -> range:
        """Their numbers."""
        return range(self.first, self.behind)


@dataclass(frozen=True, slots=True)
class Again:
    """A stretch that has to be read in a row, and why."""

    stretch: Stretch
    why: str


@dataclass(frozen=True, slots=True)
class _Part:
    stretch: Stretch
    content: bytes


class Stretches:
    """What was found in stretches of so many `files`."""

    def __init__(self, files: int, join: Callable[[bytes, bytes], bytes]) -> None:
        """`join`: two neighbours as one, or `DoNotFitError`."""
        self._all = Stretch(0, files)
        self._join = join
        self._parts: list[_Part] = []
        """In the order of their files."""
        self._fit = {0, files}
        """Files at whose beginning two parts fit; and the capture's ends."""

    def whole(self) -> bytes | None:
        """The part of all files, once it is there."""
        first = self._parts[0] if self._parts else None
        return first.content if first is not None and first.stretch == self._all else None

    def take(self, stretch: Stretch, content: bytes) -> Again | None:
        """A part has come; gives what has to be read again, if anything has."""
        at = bisect(self._parts, stretch.first, key=lambda part: part.stretch.first)
        self._parts.insert(at, _Part(stretch, content))
        tried: dict[Stretch, bytes] = {}
        try:
            for left in (at - 1, at):
                self._try(left, tried)
            while (due := self._due()) is not None:
                self._put_together(due, tried)
        except _RefusedError as refused:
            return self._give_up(refused.left, str(refused))
        return None

    def _both(self, left: int) -> Stretch:
        one, other = self._parts[left : left + 2]
        return Stretch(one.stretch.first, other.stretch.behind)

    def _joined(self, left: int) -> bytes:
        one, other = self._parts[left : left + 2]
        try:
            return self._join(one.content, other.content)
        except DoNotFitError as error:
            raise _RefusedError(left, str(error)) from error

    def _try(self, left: int, tried: dict[Stretch, bytes]) -> None:
        """Whether two parts fit, if they are neighbours."""
        pair = self._parts[max(left, 0) : left + 2]
        if len(pair) == 2 and pair[0].stretch.behind == pair[1].stretch.first:
            tried[self._both(left)] = self._joined(left)
            self._fit.add(pair[1].stretch.first)

    def _due(self) -> int | None:
        """The first of two parts that are to be put together."""
        settled = [
            part.stretch.first in self._fit and part.stretch.behind in self._fit
            for part in self._parts
        ]
        lengths = [len(part.stretch.files) for part in self._parts]
        complete = all(settled) and sum(lengths) == len(self._all.files)
        for left in range(len(self._parts) - 1):
            near = settled[max(left - 1, 0) : left + 3]
            short, long = sorted(lengths[left : left + 2])
            if all(near) and (complete or long <= 2 * short):
                return left
        return None

    def _put_together(self, left: int, tried: dict[Stretch, bytes]) -> None:
        both = self._both(left)
        content = tried.pop(both, None) or self._joined(left)
        self._fit.discard(self._parts[left].stretch.behind)
        self._parts[left : left + 2] = [_Part(both, content)]

    def _give_up(self, left: int, why: str) -> Again:
        both = self._both(left)
        del self._parts[left : left + 2]
        self._fit -= {*both.files, both.behind} - {self._all.first, self._all.behind}
        return Again(both, why)


class _RefusedError(Exception):
    def __init__(self, left: int, why: str) -> None:
        super().__init__(why)
        self.left = left

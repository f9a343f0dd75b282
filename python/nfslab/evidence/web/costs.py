"""Tables of what a request takes: processors, calls on files, NFS calls, point beside point."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from nfslab.display.sections import Column, Table
from nfslab.evidence.over_time import middle
from nfslab.evidence.same import POINT, RUNS, at_points, median

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from nfslab.display.sections import Shown
    from nfslab.evidence.base import Found
    from nfslab.evidence.same import Same
    from nfslab.evidence.web.kind import WebFacts

Figure = Callable[["WebFacts"], float | None]
ASKED: Final = ("LOOKUP", "GETATTR", "ACCESS", "READ")
"""Always among the NFS calls: that there is none is an answer."""
LEAST: Final = 0.001
"""Calls of a request: kinds that are rarer everywhere have no column."""
NFS_MOST: Final = 4
"""Further kinds."""
NOTE: Final = (
    "Means of a request, medians over the runs: system calls and the server's CPU of the load with "
    "its warm-up, the generator's without. They may overlap: they are no parts of its latency."
)
NFS_NOTE: Final = (
    "In the timed part. An ACCESS is the check when a file is opened. Bytes of READs are of those "
    "that the server read from documents."
)
READ_AHEAD: Final = (
    "READs' bytes, of those that the server read from documents: less came from the client's "
    "memory in part, more was read ahead and not used"
)


@dataclass(frozen=True, slots=True)
class Cost:
    """A column."""

    title: str
    figure: Figure
    unit: str
    hint: str = ""

    def known(self, points: Sequence[Same[WebFacts]]) -> bool:
        """Was any of it seen, in any run?"""
        return any(self.figure(facts) for point in points for facts in point.runs)

    def shown(self) -> Shown[Same[Any]]:
        """With its cells."""
        return Column(self.title, hint=self.hint), median(self.figure, self.unit)


def costs_tables(found: Found[WebFacts]) -> list[Table]:
    """Of what is known."""
    points = at_points(found)
    over_nfs = [one for one in points if any(facts.calls for facts in one.runs)]
    own = [one.shown() for one in OF_SERVER if one.known(points)]
    nfs = [one.shown() for one in _of_nfs(over_nfs)]
    return [
        Table.of(title, rows, [POINT, RUNS, *columns], note=note)
        for title, rows, columns, note in (
            ("What a request takes", points, own, NOTE),
            ("NFS calls of a request", over_nfs, nfs, NFS_NOTE),
        )
        if columns
    ]


def _of(name: str) -> Figure:
    """A figure of the storage's."""
    return lambda facts: None if facts.storage is None else getattr(facts.storage, name)


OF_SERVER: Final = (
    Cost("server's CPU", lambda facts: facts.server_cpu_ns, "ns"),
    Cost("generator's CPU", lambda facts: facts.client_cpu_ns, "ns"),
    Cost("opens", _of("opens"), "1", "of documents"),
    Cost("in opens", _of("open_ns"), "ns"),
    Cost("reads", _of("reads"), "1", "of documents; sendfile is one"),
    Cost("read", _of("read_bytes"), "B"),
    Cost("in reads", _of("read_ns"), "ns", "sendfile: with sending"),
    Cost("log writes", _of("log_writes"), "1", "of both logs"),
    Cost("log syncs", _of("log_syncs"), "1"),
    Cost("in logs", _of("log_ns"), "ns"),
)


def _nfs(name: str, facts: WebFacts) -> float | None:
    return None if facts.calls is None else facts.calls.get(name, 0.0)


def _read_ahead(facts: WebFacts) -> float | None:
    seen = facts.storage
    if seen is None or seen.nfs_read_bytes is None or not seen.read_bytes:
        return None
    return seen.nfs_read_bytes / seen.read_bytes


def _of_nfs(points: Sequence[Same[WebFacts]]) -> Iterator[Cost]:
    """The usual kinds of calls, the most frequent others, and how much is read ahead."""
    names = {name for point in points for facts in point.runs for name in facts.calls or ()}
    if not names:
        return
    most = {
        name: max(middle(_nfs(name, facts) for facts in point.runs) or 0.0 for point in points)
        for name in names - {*ASKED}
    }
    others = sorted((name for name in most if most[name] >= LEAST), key=lambda name: -most[name])
    for name in (*ASKED, *others[:NFS_MOST]):
        yield Cost(name, partial(_nfs, name), "1")
    ahead = Cost("bytes of READs / read", _read_ahead, "share", READ_AHEAD)
    if ahead.known(points):
        yield ahead

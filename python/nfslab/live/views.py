"""From two readings to what is shown: rates by mount, server and operation, and stalls.

A rate is a difference by the exact time between its two readings. A mean time is a sum over calls
that ended in between, by their number.

A stall is certain, never guessed: replies stood still for a whole interval while at least one call
was without one. Our own clients and servers say how many there are. The kernel's client does not:
sends less replies of its connections is that number and what was lost; lost are at most the least
of these numbers since the last reconnect or resend, so the least is taken off. It lasts since the
first reading that showed it, so at least so long.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from nfslab.live.sources import MAJOR_TIMEOUTS, Kind, Reading, ServerCounts
from nfslab.storage import mountstats
from nfslab.storage.counters import WentDown, moved
from nfslab.storage.data_calls import COUNTED, UNKNOWN
from nfslab.storage.mountstats import MountCounts

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

What = Literal["mount", "server"]
State = Literal["", "first reading", "made anew", "silent", "gone", "stalled"]
NS_PER_S: Final = 1e9
DATA_CALLS: Final = {"reads": ("READ", "READ_PLUS"), "writes": ("WRITE",), "commits": ("COMMIT",)}
"""What a class of files counts -> operations; Linux reads by READ_PLUS from NFSv4.2 on."""
GONE_MOST: Final = 32
"""Rows of mounts and servers that have gone."""
SERVER_RATES: Final = {
    "calls": "calls_per_s", "replies": "replies_per_s", "connections": "connections_per_s",
    "read_bytes": "read_bytes_per_s", "written_bytes": "written_bytes_per_s",
    "cache_hits": "again_per_s", "duplicates_answered": "again_per_s",
}  # fmt: skip
"""Counters that are shown -> rates. Sent again: calls that had come before."""


@dataclass(slots=True)
class View:
    """One mount or server, as it is shown."""

    what: What
    name: str
    kind: Kind
    source: str = ""
    state: State = "first reading"
    interval_s: float | None = None
    figures: dict[str, float | None] = field(default_factory=dict)
    operations: list[dict[str, Any]] = field(default_factory=list)
    files: list[dict[str, Any]] | None = None
    """Calls on data by class of file; None: not known."""
    outstanding: int | None = None
    """Calls without a reply; of the kernel's client at least so many."""
    stalled_s: float | None = None

    def json(self) -> dict[str, Any]:
        """A line of `--json` has it."""
        kept = {
            "name": self.name, "kind": self.kind, "source": self.source, "state": self.state,
            "interval_s": self.interval_s, "outstanding": self.outstanding,
            "stalled_s": self.stalled_s,
        }  # fmt: skip
        return kept | self.figures | {"operations": self.operations, "files": self.files}


@dataclass(slots=True)
class _Watched:
    """What is kept of one mount or server: its last reading, and what it takes to see a stall."""

    last: Reading
    view: View
    lost_most: int
    """At most so many replies were lost."""
    stalled_ns: int | None = None


class Views:
    """All mounts and servers, from one reading to the next; `only`: names to show, all if empty."""

    def __init__(self, only: Collection[str] = ()) -> None:
        self._only = only
        self._watched: dict[tuple[What, str], _Watched] = {}

    def take(self, found: Iterable[Reading], silent: Collection[str] = ()) -> list[View]:
        """What is shown after these readings; those that are not there any more are gone.

        `silent`: instances that are there, and did not answer in time.
        """
        seen: set[tuple[What, str]] = set()
        for one in found:
            if self._only and one.name not in self._only:
                continue
            key = (_what(one), one.name)
            seen.add(key)
            before = self._watched.get(key)
            if before is None or before.view.state == "gone":
                self._watched[key] = _first(one, "made anew" if before else "first reading")
            else:
                _next(before, one)
        for key, watched in self._watched.items():
            if key not in seen:
                old = watched.view
                state: State = "silent" if watched.last.instance in silent else "gone"
                watched.view = View(old.what, old.name, old.kind, old.source, state)
        gone = [key for key, one in self._watched.items() if one.view.state == "gone"]
        for key in gone[: max(0, len(gone) - GONE_MOST)]:
            del self._watched[key]
        return [one.view for one in self._watched.values()]


def _what(one: Reading) -> What:
    return "mount" if isinstance(one.counts, MountCounts) else "server"


def _first(one: Reading, state: State) -> _Watched:
    source = one.counts.source if isinstance(one.counts, MountCounts) else ""
    view = View(_what(one), one.name, one.kind, source, state, outstanding=one.outstanding)
    return _Watched(one, view, _unanswered(one.counts))


def _unanswered(counts: MountCounts | ServerCounts) -> int:
    """Outstanding or lost; of a server, that says it itself, nothing."""
    if isinstance(counts, ServerCounts):
        return 0
    return counts.total("sends") - counts.total("receives")


def _next(watched: _Watched, now: Reading) -> None:
    before, watched.last = watched.last, now
    interval_s = (now.at_ns - before.at_ns) / NS_PER_S
    if interval_s <= 0:
        return
    difference: MountCounts | ServerCounts | None
    if isinstance(now.counts, MountCounts):
        assert isinstance(before.counts, MountCounts)
        difference = mountstats.since(now.counts, before.counts)
    else:
        assert isinstance(before.counts, ServerCounts)
        difference = _since(now.counts, before.counts)
    if difference is None or now.instance != before.instance:
        watched.view = _first(now, "made anew").view
        watched.lost_most, watched.stalled_ns = _unanswered(now.counts), None
        return
    old = watched.view
    view = View(old.what, old.name, old.kind, old.source, "", interval_s)
    if isinstance(difference, MountCounts):
        assert isinstance(now.counts, MountCounts)
        view.figures = _mount_figures(difference, now, interval_s)
        view.operations = _operations(difference, interval_s)
        replies = difference.total("receives")
        unanswered = _unanswered(now.counts)
        again = difference.sum.sends - difference.sum.calls
        if again or difference.total("connects"):
            watched.lost_most = unanswered
        watched.lost_most = min(watched.lost_most, unanswered)
        least = unanswered - watched.lost_most
        view.outstanding = least if now.outstanding is None else now.outstanding
    else:
        view.figures = _server_figures(difference, interval_s)
        view.operations = [
            {"operation": name, "calls_per_s": count / interval_s}
            for name, count in difference.operations.items()
            if count
        ]
        replies = difference.counters.get("replies", 0)
        view.outstanding = now.outstanding
    of_mount = difference if isinstance(difference, MountCounts) else None
    view.files = _files(before, now, of_mount, interval_s)
    if replies:
        watched.stalled_ns = None
    elif view.outstanding and watched.stalled_ns is None:
        watched.stalled_ns = before.at_ns if old.outstanding else now.at_ns
    if watched.stalled_ns is not None and now.at_ns > watched.stalled_ns:
        # What was retransmitted may be what is outstanding: only that it stands still is known.
        view.outstanding = view.outstanding or None
        view.state = "stalled"
        view.stalled_s = (now.at_ns - watched.stalled_ns) / NS_PER_S
    watched.view = view


def _mount_figures(
    difference: MountCounts, now: Reading, interval_s: float
) -> dict[str, float | None]:
    made = mountstats.rates(difference, interval_s)
    if now.kind == "nfslab":
        made |= dict.fromkeys(("execute_ms", "backlog", "in_flight"))
        made |= {
            "timeouts_per_s": difference.events[MAJOR_TIMEOUTS] / interval_s,
            "queued": now.queued,
        }
    return made


def _since(later: ServerCounts, earlier: ServerCounts) -> ServerCounts | None:
    kept = {name: later.counters[name] for name in SERVER_RATES if name in later.counters}
    try:
        return ServerCounts(
            moved(kept, earlier.counters),
            moved(later.operations, earlier.operations),
            later.threads,
        )
    except WentDown:
        return None


def _server_figures(counts: ServerCounts, interval_s: float) -> dict[str, float | None]:
    made: dict[str, float | None] = {
        SERVER_RATES[name]: count / interval_s for name, count in counts.counters.items()
    }
    return made | {"threads": counts.threads}


def _operations(counts: MountCounts, interval_s: float) -> list[dict[str, Any]]:
    """Those of which a call ended."""
    return [
        {
            "operation": name,
            "calls_per_s": one.calls / interval_s,
            "sent_bytes_per_s": one.bytes_sent / interval_s,
            "received_bytes_per_s": one.bytes_received / interval_s,
            "queue_ms": one.queue_ms / one.calls,
            "round_trip_ms": one.round_trip_ms / one.calls,
            "again_per_s": (one.sends - one.calls) / interval_s,
            "errors_per_s": None if one.errors is None else one.errors / interval_s,
        }
        for name, one in counts.operations.items()
        if one.calls
    ]


def _files(
    before: Reading, now: Reading, of_mount: MountCounts | None, interval_s: float
) -> list[dict[str, Any]] | None:
    """Rates by class; of a mount, what no class has of its calls is of files that are not known."""
    if before.files is None or now.files is None:
        return None
    none = dict.fromkeys(COUNTED, 0)
    rows: list[dict[str, Any]] = [
        {"class": name}
        | {f"{key}_per_s": (counts[key] - earlier[key]) / interval_s for key in COUNTED}
        for name, counts in now.files.items()
        if counts != (earlier := before.files.get(name, none))
    ]
    if of_mount is not None:
        rows = [row for row in rows if row["class"] != UNKNOWN]
        rest = _without_class(of_mount, rows, interval_s)
        rows += [{"class": UNKNOWN} | rest] if any(rest.values()) else []
    return rows


def _without_class(
    of_mount: MountCounts, rows: list[dict[str, Any]], interval_s: float
) -> dict[str, float | None]:
    """The mount's calls on data less those of these rows; their bytes are not known."""
    rest: dict[str, float | None] = dict.fromkeys(f"{key}_per_s" for key in COUNTED)
    for key, names in DATA_CALLS.items():
        calls = sum(
            of_mount.operations[name].calls for name in names if name in of_mount.operations
        )
        known = round(sum(row[f"{key}_per_s"] for row in rows) * interval_s)
        rest[f"{key}_per_s"] = max(0, calls - known) / interval_s
    return rest

"""`nfslab top` on a terminal: what is drawn, and the keys.

Drawing is one text of aligned lines in rich's alternate screen; what that costs, and others would:
docs/decisions/dependencies.md. It is drawn after a reading and after a key; no thread redraws.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import sys
import termios
import tty
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.live import Live
from rich.text import Text

from nfslab import clock
from nfslab.display.numbers import quantity
from nfslab.display.terminal import printable, table
from nfslab.live import INTERVAL_LEAST_S, INTERVAL_MOST_S
from nfslab.quantities import format_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from nfslab.live.views import View

EVENTS_MOST: Final = 5
"""Lines about what happened, the last ones."""
KEY_BYTES: Final = 64
_KEY: Final = re.compile(rb"\x1b[\[O][0-9;]*[A-Za-z~]|.", re.DOTALL)
"""One key of those that came together: the bytes of ECMA-48 that an arrow sends, or one."""
UP: Final = (b"\x1b[A", b"\x1bOA", b"k")
DOWN: Final = (b"\x1b[B", b"\x1bOB", b"j")
SORTS: Final = {
    "calls": "calls_per_s", "sent": "sent_bytes_per_s", "received": "received_bytes_per_s",
    "backlog": "queue_ms", "round trip": "round_trip_ms", "name": "",
}  # fmt: skip
"""What rows are sorted by -> figure."""
KEYS: Final = "q quit   ↑ ↓ mount   s sort   space pause   + - interval"
MS: Final = 1e-3


@dataclass(slots=True)
class Screen:
    """What the keys set, and what happened."""

    interval_s: float
    sort: str = "calls"
    chosen: int = 0
    """Row whose operations are shown."""
    paused: bool = False
    over: bool = False
    views: Sequence[View] = ()
    problems: Sequence[str] = ()
    events: list[str] = field(default_factory=list)

    def show(self, views: Sequence[View], problems: Sequence[str], clock: str) -> None:
        """A new reading; what changed is an event."""
        before = {(one.what, one.name): one.state for one in self.views}
        for one in views:
            was = before.get((one.what, one.name), "")
            if one.state in ("stalled", "silent", "gone", "made anew") and one.state != was:
                self.events.append(f"{clock} {one.name}: {_told(one)}")
            elif was in ("stalled", "silent") and one.state == "":
                self.events.append(f"{clock} {one.name}: it answers again")
        del self.events[:-EVENTS_MOST]
        self.problems = problems
        self._order(views)

    def press(self, keys: bytes) -> None:
        """What came from the keyboard at once."""
        for key in _KEY.findall(keys):
            self._press(key)

    def _press(self, key: bytes) -> None:
        if key in (b"q", b"Q"):
            self.over = True
        elif key in UP:
            self.chosen -= 1
        elif key in DOWN:
            self.chosen += 1
        elif key == b"s":
            names = list(SORTS)
            self.sort = names[(names.index(self.sort) + 1) % len(names)]
            self._order(self.views)
        elif key in (b" ", b"p"):
            self.paused = not self.paused
        elif key == b"+":
            self.interval_s = min(self.interval_s * 2, INTERVAL_MOST_S)
        elif key == b"-":
            self.interval_s = max(self.interval_s / 2, INTERVAL_LEAST_S)
        self.chosen = max(0, min(self.chosen, len(self.views) - 1))

    def _order(self, views: Sequence[View]) -> None:
        """Mounts, then servers; whose operations are shown stays chosen."""
        key = (self.views[self.chosen].what, self.views[self.chosen].name) if self.views else None
        by = SORTS[self.sort]
        self.views = sorted(
            views, key=lambda one: (one.what, -(one.figures.get(by) or 0.0), one.name)
        )
        places = [place for place, one in enumerate(self.views) if (one.what, one.name) == key]
        self.chosen = places[0] if places else 0

    def text(self, clock: str) -> Text:
        """All of it; the terminal cuts what is too long."""
        made = Text(no_wrap=True, overflow="crop")
        how = f"every {format_duration(self.interval_s)}, by {self.sort}"
        made.append(f"nfslab top   {clock}   {how}{'   PAUSED' if self.paused else ''}\n", "bold")
        if not self.views:
            made.append("\nno NFS mount of the kernel or of nfslab, and no server of theirs\n")
        mounts = [one for one in self.views if one.what == "mount"]
        servers = [one for one in self.views if one.what == "server"]
        self._rows(made, MOUNT_HEAD, [(one, _mount_row(one)) for one in mounts])
        self._rows(made, SERVER_HEAD, [(one, _server_row(one)) for one in servers])
        if self.views:
            _operations(made, self.views[self.chosen])
            _files(made, self.views[self.chosen])
        said = "\n".join(map(printable, [*self.events, *self.problems]))
        made.append(f"\n{said}\n" if said else "", "yellow")
        made.append(f"\n{KEYS}", "dim")
        return made

    def _rows(self, made: Text, head: Sequence[str], rows: list[tuple[View, list[str]]]) -> None:
        if not rows:
            return
        texts = [row for _, row in rows]
        first, *lines = table(head, texts, right=range(2, len(head) - 1)).split("\n")
        made.append(f"\n{first}\n", "bold")
        for (one, _), line in zip(rows, lines[-len(rows) :], strict=True):
            style = "bold red " if one.state == "stalled" else ""
            style += "reverse" if one is self.views[self.chosen] else ""
            made.append(f"{line}\n", style.strip())


MOUNT_HEAD: Final = (
    "mount", "", "calls", "round trip", "backlog", "in flight", "sent", "received", "retrans",
    "timeouts", "client",
)  # fmt: skip
SERVER_HEAD: Final = (
    "server", "", "calls", "replies", "in flight", "read", "written", "connections", "retrans",
    "of",
)  # fmt: skip
OPERATION_HEAD: Final = (
    "calls", "round trip", "backlog", "sent", "received", "retrans", "errors",
)  # fmt: skip


CALLS_OF_FILES: Final = ("reads_per_s", "writes_per_s", "commits_per_s")
FILE_HEAD: Final = ("READs", "WRITEs", "COMMITs", "read", "written")


def _told(one: View) -> str:
    if one.state == "stalled":
        calls = "" if one.outstanding is None else f", in flight: {one.outstanding}"
        return f"no reply for at least {quantity(one.stalled_s, 's')}{calls}"
    return "its process does not answer" if one.state == "silent" else one.state


def _rate(figures: dict[str, Any], name: str, unit: str = "1/s") -> str:
    return quantity(figures.get(name), unit)


def _time(figures: dict[str, Any], name: str) -> str:
    value = figures.get(name)
    return quantity(None if value is None else value * MS, "s")


def _state(one: View) -> str:
    return f"no reply {quantity(one.stalled_s, 's')}" if one.state == "stalled" else one.state


def _mount_row(one: View) -> list[str]:
    made = one.figures
    return [
        printable(one.name), _state(one), _rate(made, "calls_per_s"), _time(made, "round_trip_ms"),
        _time(made, "queue_ms"), quantity(one.outstanding, "1"),
        _rate(made, "sent_bytes_per_s", "B/s"), _rate(made, "received_bytes_per_s", "B/s"),
        _rate(made, "again_per_s"), _rate(made, "timeouts_per_s"), one.kind,
    ]  # fmt: skip


def _server_row(one: View) -> list[str]:
    made = one.figures
    return [
        printable(one.name), _state(one), _rate(made, "calls_per_s"), _rate(made, "replies_per_s"),
        quantity(one.outstanding, "1"), _rate(made, "read_bytes_per_s", "B/s"),
        _rate(made, "written_bytes_per_s", "B/s"), _rate(made, "connections_per_s"),
        _rate(made, "again_per_s"), one.kind,
    ]  # fmt: skip


def _operations(made: Text, one: View) -> None:
    if not one.operations:
        return
    rows = [
        [
            printable(row["operation"]), _rate(row, "calls_per_s"), _time(row, "round_trip_ms"),
            _time(row, "queue_ms"), _rate(row, "sent_bytes_per_s", "B/s"),
            _rate(row, "received_bytes_per_s", "B/s"), _rate(row, "again_per_s"),
            _rate(row, "errors_per_s"),
        ]
        for row in sorted(one.operations, key=lambda row: -row["calls_per_s"])
    ]  # fmt: skip
    _table(made, [f"operation of {printable(one.name)}", *OPERATION_HEAD], rows)


def _files(made: Text, one: View) -> None:
    if not one.files:
        return
    rows = [
        [
            row["class"], _rate(row, "reads_per_s"), _rate(row, "writes_per_s"),
            _rate(row, "commits_per_s"), _rate(row, "read_bytes_per_s", "B/s"),
            _rate(row, "written_bytes_per_s", "B/s"),
        ]
        for row in sorted(one.files, key=lambda row: -sum(row[key] for key in CALLS_OF_FILES))
    ]  # fmt: skip
    _table(made, [f"files of {printable(one.name)}", *FILE_HEAD], rows)


def _table(made: Text, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    lines = table(head, rows, right=range(1, len(head))).split("\n")
    made.append(f"\n{lines[0]}\n", "bold")
    made.append("\n".join(lines[-len(rows) :]) + "\n")


def watch(
    screen: Screen, read: Callable[[], tuple[Sequence[View], Sequence[str]]], most: int | None
) -> None:
    """Until q, or `most` readings with an interval are shown. KeyboardInterrupt."""
    shown = 0
    console = Console()
    with _keys(), Live(console=console, screen=True, auto_refresh=False) as live:
        due = clock.monotonic()
        while not screen.over:
            if clock.monotonic() >= due and not screen.paused:
                screen.show(*read(), _clock())
                shown += 1
                due = max(due + screen.interval_s, clock.monotonic())
                if most is not None and shown > most:
                    return
            live.update(screen.text(_clock()), refresh=True)
            wait_s = None if screen.paused else max(0.0, due - clock.monotonic())
            if select.select([sys.stdin], [], [], wait_s)[0]:
                pressed = os.read(sys.stdin.fileno(), KEY_BYTES)
                if not pressed:
                    return
                interval_s = screen.interval_s
                screen.press(pressed)
                due += screen.interval_s - interval_s


def _clock() -> str:
    return clock.wall().astimezone().strftime("%H:%M:%S")


@contextlib.contextmanager
def _keys() -> Iterator[None]:
    """Keys come at once and are not shown; Ctrl-C stays an interrupt."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor, termios.TCSANOW)
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)

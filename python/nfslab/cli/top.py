"""`nfslab top`: what NFS mounts and servers of this machine do, now.

On a terminal until q or Ctrl-C; with --json a line a reading for programs, the first after one
interval. Exit code: 0 (q, Ctrl-C, --count), 2 bad usage, 130 Ctrl-C before --count readings.
"""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any, Final

import click

from nfslab import clock
from nfslab.cli.arguments import parsed
from nfslab.errors import UsageError
from nfslab.quantities import read_duration_s

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nfslab.live.views import View

KNOWN_LIMIT_S: Final = 5.0
"""A name is looked for among processes that may be slow to answer."""
EPILOG = """\b
Examples:
  nfslab top
  nfslab top /mnt/data
  nfslab top --json --interval 5s | jq '.mounts[].round_trip_ms'

\b
Keys: q quits, arrows choose whose operations are shown, s what is sorted by,
space pauses, + and - change the interval.
"""


def _interval(text: str) -> float:
    from nfslab.live import INTERVAL_LEAST_S, INTERVAL_MOST_S

    value = read_duration_s(text)
    if not INTERVAL_LEAST_S <= value <= INTERVAL_MOST_S:
        raise ValueError(f"{text}: from {INTERVAL_LEAST_S:g} s to {INTERVAL_MOST_S:g} s")
    return value


@click.command("top", epilog=EPILOG)
@click.argument("names", nargs=-1, metavar="[MOUNT...]")
@click.option("--json", "as_json", is_flag=True, help="A line of JSON a reading.")
@click.option(
    "--interval", default="1s", show_default=True, callback=parsed(_interval), metavar="TIME",
    help="Between two readings.",
)  # fmt: skip
@click.option("--count", type=click.IntRange(1), help="End after so many.")
def command(names: tuple[str, ...], as_json: bool, interval: float, count: int | None) -> None:
    """Watch NFS mounts and servers: calls, bytes, times, resends, stalls.

    Mounts of the kernel and of nfslab, servers of nfslab, the kernel's server; a MOUNT is the
    folder it is seen at, or a server's name as it is shown.
    """
    from nfslab.live.kernel_files import KernelDataCalls
    from nfslab.live.sources import look
    from nfslab.live.views import Views

    if not as_json and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("there is no terminal to draw on", fix="give --json: a line a reading")
    views = Views(_known(names))
    files = KernelDataCalls()

    def read() -> tuple[Sequence[View], Sequence[str]]:
        seen = look(files=files)
        return views.take(seen.readings, seen.silent), seen.problems

    from nfslab.live.screen import Screen, watch

    try:
        if as_json:
            _lines(read, interval, count)
        else:
            watch(Screen(interval), read, count)
    except KeyboardInterrupt:
        if count is not None:
            raise


def _known(names: Sequence[str]) -> list[str]:
    """Names as readings have them; UsageError for one that is not there."""
    if not names:
        return []
    from nfslab.live.sources import look

    there = [one.name for one in look(KNOWN_LIMIT_S).readings]
    asked = [name if name in there else os.path.abspath(name) for name in names]
    for name, given in zip(asked, names, strict=True):
        if name not in there:
            raise UsageError(
                f"no NFS mount or server {given!r} is here",
                why="there are " + ", ".join(there) if there else "there are none",
                fix="name one of them, or none for all",
            )
    return asked


def _lines(
    read: Callable[[], tuple[Sequence[View], Sequence[str]]], interval_s: float, count: int | None
) -> None:
    due = clock.monotonic()
    read()
    told = 0
    while count is None or told < count:
        due = max(due + interval_s, clock.monotonic())
        clock.sleep(max(0.0, due - clock.monotonic()))
        shown, problems = read()
        line: dict[str, Any] = {"unix_ns": clock.wall_ns()}
        for key, what in (("mounts", "mount"), ("servers", "server")):
            line[key] = [one.json() for one in shown if one.what == what]
        click.echo(json.dumps(line | {"problems": list(problems)}))
        told += 1

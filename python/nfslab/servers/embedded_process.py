"""The embedded NFS server as a process of its own: `nfslab serve`, started and ended.

It says in one line of JSON when it is ready (address, port, export, the service model in
effect) and in another one, at its end, what it counted. Both are read from a file, so that
a server that dies leaves what it said. While it runs it is told when to record its calls
(`record`, `end_recording`), through a pipe to its standard input; its answers are in the file.
"""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from nfslab import clock
from nfslab.errors import RunFailed
from nfslab.machine.agent import order
from nfslab.machine.endings import end_of, sender_of
from nfslab.machine.said import lines_said

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from nfslab.hosts.base import Host, Link
    from nfslab.machine.resources import Resources
    from nfslab.machine.started import Process

OF_THE_START = ("listen", "export")
READY_LIMIT_S = 30.0
READY_POLL_S = 0.005
LAST_LINES = 5
TELL_LIMIT_S = 10.0
"""How long a busy server may take to hear a command."""
BEGIN_LIMIT_S = 30.0
END_LIMIT_S = 120.0
"""How long it may take to write what it has recorded, on a slow disk."""


ANSWERS = ("recording", "recorded", "error")
"""Events that answer a command (nfslab.servers.embedded_control)."""


@dataclass(slots=True)
class EmbeddedServer:
    """A server that is up. Made by `start`; `stop` ends it."""

    process: Process
    said: Path
    address: str
    """HOST:PORT, as a client connects."""
    port: int
    export: str
    model: dict[str, Any] = field(default_factory=dict)
    """Store and service model in effect, without where it listens."""
    log: Path | None = None
    """What it complained of."""
    _told: int = 0
    """Commands so far: each has one answer, in their order, and it may come late."""

    def record(self, file: Path, rows_max: int | None = None) -> int:
        """Record every call from now on, for a Parquet file; the instant, CLOCK_MONOTONIC.

        Beyond `rows_max` calls are counted, not written. RunFailed in the server's own words.
        """
        asked: dict[str, Any] = {"name": "record", "file": str(file.absolute())}
        if rows_max is not None:
            asked["rows_max"] = rows_max
        at_ns: int = self._ask(asked, "recording", BEGIN_LIMIT_S)["at_ns"]
        return at_ns

    def end_recording(self) -> dict[str, Any]:
        """The file gets its name: rows, lost, left_out, cpu_s, at_ns, file. RunFailed."""
        return self._ask({"name": "end_recording"}, "recorded", END_LIMIT_S)

    def _ask(self, asked: dict[str, Any], event: str, limit_s: float) -> dict[str, Any]:
        """One command; its answer."""
        what = f"the embedded NFS server did not obey {asked['name']!r}"
        try:
            self.process.tell(order(**asked), TELL_LIMIT_S)
        except RunFailed as error:
            raise RunFailed(
                what,
                why=self._ended() or error.what,
                fix="see the server's own lines in the run's logs",
            ) from error
        place = self._told
        self._told += 1
        deadline = clock.monotonic() + limit_s
        while True:
            over = self.process.poll() is not None
            answers = [line for line in lines_said(self.said) if line.get("event") in ANSWERS]
            if len(answers) > place:
                answer = answers[place]
                if answer["event"] == event:
                    return answer
                told = [answer.get(name) for name in ("what", "why")]
                raise RunFailed(what, why="; ".join(filter(None, told)), fix=answer.get("fix", ""))
            if over or clock.monotonic() > deadline:
                raise RunFailed(
                    what,
                    why=self._ended() or f"no answer within {limit_s:g} s",
                    fix="see the server's own lines in the run's logs",
                )
            clock.sleep(READY_POLL_S)

    def _ended(self) -> str:
        """How it ended, with its last words; nothing while it runs."""
        code = self.process.poll()
        if code is None:
            return ""
        return "; ".join(
            [end_of("it", code), *([sender_of(code)] if code < 0 else _last_words(self.log))]
        )

    @property
    def mount_port(self) -> int:
        """MOUNT is served on the same port."""
        return self.port

    @property
    def host(self) -> str:
        """The address without the port; IPv6 in brackets."""
        return self.address.rpartition(":")[0]

    @property
    def source(self) -> str:
        """HOST:/EXPORT, as it is mounted."""
        return f"{self.host}:{self.export}"

    def stop(self) -> dict[str, int]:
        """End it; what it counted (empty when it died or was killed before saying so)."""
        self.process.stop()
        for line in reversed(lines_said(self.said)):
            if line.get("event") == "ended":
                counters: dict[str, int] = line.get("counters", {})
                return counters
        return {}


def start(
    arguments: Sequence[str], folder: Path, resources: Resources, *, host: Host, link: Link
) -> EmbeddedServer:
    """Start `nfslab serve` with these arguments; what it says goes to files in `folder`.

    It listens on the servers' side of `link`, for the other side alone when that is a network. Its
    export has a secret name, and other users of this machine are refused.

    Journalled: a later start ends it. RunFailed with its own words when it does not come up.
    """
    said, log = folder / "serve.json", folder / "serve.log"
    argv = [sys.executable, "-m", "nfslab", "serve", *arguments, "--port", "0"]
    argv += ["--json", "--control", "--of-a-run"]
    if not link.is_loopback:
        argv += ["--bind", link.server, "--allow", link.client]
    process = host.spawn(argv, resources=resources, stdout=said, log=log, stdin="pipe")
    deadline = clock.monotonic() + READY_LIMIT_S
    while True:
        ended = process.poll() is not None
        for line in lines_said(said):
            if line.get("event") == "ready":
                return _of(process, said, log, line)
        if ended or clock.monotonic() > deadline:
            break
        clock.sleep(READY_POLL_S)
    process.stop()
    raise RunFailed(
        "the embedded NFS server did not start",
        why="; ".join(_last_words(log)) or f"nothing was heard of it within {READY_LIMIT_S:g} s",
        fix=f"try it by hand: nfslab serve {shlex.join(arguments)}",
    )


def _of(process: Process, said: Path, log: Path, ready: dict[str, Any]) -> EmbeddedServer:
    # Not how it is reached: that is another one in each run.
    model = {name: value for name, value in ready["model"].items() if name not in OF_THE_START}
    where = (ready["address"], ready["port"], ready["export"])
    return EmbeddedServer(process, said, *where, model, log)


def _last_words(log: Path | None) -> list[str]:
    try:
        text = "" if log is None else log.read_text(errors="replace")
    except OSError:
        return []
    return text.splitlines()[-LAST_LINES:]

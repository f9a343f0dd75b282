"""The process that uses a run's SQLite, from our side: started, told, asked, ended.

It is asked through its standard input and answers through a named pipe, which is awaited without
polling: what a statement's way there and back costs is some 0.1 ms.
"""

from __future__ import annotations

import json
import os
import secrets
import select
import signal
import sys
from typing import TYPE_CHECKING, Any, Final

from nfslab.databases.base import Session
from nfslab.databases.shared.deployment import short_private_folder
from nfslab.databases.shared.last_words import log_tail, told
from nfslab.databases.sqlite.worker import LINE_MOST
from nfslab.errors import RunFailed
from nfslab.machine.agent import READ_BYTES, Lines, order
from nfslab.machine.endings import failed
from nfslab.machine.own_command import importing_us

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from nfslab.databases.shared.deployment import Deployment
    from nfslab.databases.sqlite.settings import SqliteSettings

LOG: Final = "sqlite.log"
LOOK_S: Final = 0.2
"""How often a wait looks whether it still lives, and whether the run's time is over."""
TELL_S: Final = 30.0
ANSWER_MOST: Final = 64 << 20


class SqliteProcess(Session):
    """It is up from the start to `stop`."""

    def __init__(self, deployment: Deployment, temporary: Path) -> None:
        self._deployment = deployment
        self._lines, self._heard = Lines(ANSWER_MOST), list[bytes]()
        name = f"sq-{secrets.token_hex(3)}"
        self._private = short_private_folder(deployment.resources, name, None)
        pipe = self._private.path / "answers"
        os.mkfifo(pipe, 0o600)
        # Open for writing, too: it has no end that a reader would see before the first answer.
        self._answers = os.open(pipe, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        argv = [sys.executable, "-P", "-m", "nfslab.databases.sqlite.worker", str(pipe)]
        try:
            self.process = deployment.start(
                argv, log=LOG, env=importing_us() | {"SQLITE_TMPDIR": str(temporary)},
                stop_signal=signal.SIGKILL, stdin="pipe",
            )  # fmt: skip
        except BaseException:
            self._forget()
            raise

    def open(self, file: Path, settings: SqliteSettings, more: dict[str, str]) -> None:
        """A connection with these settings, and more pragmas; RunFailed."""
        pragmas = settings.pragmas() | more
        self.ask("open", path=str(file), pragmas=pragmas, busy_timeout_ms=settings.busy_timeout_ms)

    def rows(self, statement: str) -> Sequence[tuple[Any, ...]]:
        """RunFailed when SQLite refuses it, or is gone."""
        return [tuple(row) for row in self.ask("rows", statement=statement)["rows"]]

    def ask(self, name: str, **content: Any) -> dict[str, Any]:
        """Tell it to do something, wait for what it says; RunFailed."""
        text = order(name, **content)
        if len(text) > LINE_MOST:
            raise RunFailed(
                "a statement is too long", why=f"{len(text)} bytes", fix="ask for fewer lookups"
            )
        try:
            self.process.tell(text, TELL_S)
        except RunFailed as error:
            raise self.death(error.why) from error
        said: dict[str, Any] = json.loads(self._line())
        if said["event"] == "error":
            raise RunFailed(
                "SQLite refused a statement", why=said["why"], fix=f"see logs/{LOG} of the run"
            )
        return said

    def _line(self) -> bytes:
        while not self._heard:
            ready, _, _ = select.select([self._answers], [], [], LOOK_S)
            if ready:
                for line in self._lines.feed(os.read(self._answers, READ_BYTES)):
                    if line is None:
                        raise RunFailed("SQLite yields too much", fix="ask for less")
                    self._heard.append(line)
            elif self.process.poll() is not None:
                raise self.death()
            else:
                self._deployment.remaining_s()
        return self._heard.pop(0)

    def death(self, also: str = "") -> RunFailed:
        """The error for a process that is gone."""
        lines = [*log_tail(self._deployment.logs / LOG), *([also] if also else [])]
        code = self.process.poll()
        what, fix = "the process that uses SQLite", f"see logs/{LOG} of the run"
        if code:
            return failed(what, code, told(lines), fix)
        return RunFailed(f"{what} is gone", why=told(lines), fix=fix)

    def stop(self) -> None:
        """It has nothing to lose: a statement that is not done is rolled back by the next one."""
        self.process.stop()
        self._forget()

    def _forget(self) -> None:
        os.close(self._answers)
        self._private.undo()

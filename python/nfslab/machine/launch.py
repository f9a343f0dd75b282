"""From what a caller asks to run to what is really executed.

    what is executed = [join the control group] [the network] [give up root's powers] the program

The program is looked up first, so that a missing one is an error of ours and not a
message of some wrapper's in a log. Nothing is ever interpolated into a shell line.
"""

from __future__ import annotations

import os
import shutil
import signal
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from nfslab.errors import RunFailed, Unavailable
from nfslab.machine.processes import TOKEN_VARIABLE
from nfslab.machine.users import as_user, home_of, user_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nfslab.machine.cgroup import Cgroup

JOIN_CGROUP = 'echo $$ > "$1/cgroup.procs" && shift && exec "$@"'
PER_USER = ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR", "MAIL")
"""Variables that point into the caller's home: not for another user."""


@dataclass(frozen=True, slots=True)
class Launch:
    """A program as asked for."""

    argv: list[str]
    env: Mapping[str, str] | None
    cwd: Path | None
    user: int | None
    cgroup: Cgroup | None
    stdin: bytes | Literal["pipe"] | None
    """What it reads: this, or what it is told while it runs (`Process.tell`)."""
    stop_signal: int
    network: Path | None = None
    """The network namespace that it joins."""
    with_thread: bool = False
    """It is to end with the thread that starts it, also where that is not the main one."""

    @property
    def other_user(self) -> int | None:
        """The user to become; None when it is us."""
        return None if self.user == os.geteuid() else self.user

    def prepared(self, token: str) -> tuple[list[str], dict[str, str]]:
        """Program with its whole path, and its environment; RunFailed, Unavailable."""
        environment = dict(os.environ)
        if (user := self.other_user) is not None:
            if os.geteuid() != 0:
                raise Unavailable(
                    f"cannot run {self.argv[0]} as {user_name(user)}",
                    why="only root can start programs as another user",
                    fix="run nfslab as root, or leave the user out",
                )
            for name in PER_USER:
                environment.pop(name, None)
            environment |= {"HOME": home_of(user), "USER": user_name(user)}
            environment["LOGNAME"] = environment["USER"]
        environment |= self.env or {}
        environment[TOKEN_VARIABLE] = token
        name = self.argv[0]
        if "/" in name and not os.path.isabs(name) and self.cwd is not None:
            name = str(self.cwd / name)
        program = shutil.which(name, path=environment.get("PATH", os.defpath))
        if program is None:
            raise RunFailed(
                f"the program {self.argv[0]!r} was not found",
                why="it is in no folder of PATH" if "/" not in name else "no such program",
                fix="install it (`nfslab doctor` knows the package of many), or correct its name",
            )
        return [os.path.abspath(program), *self.argv[1:]], environment

    def wrapped(self, argv: list[str]) -> list[str]:
        """With what happens between fork and the program: group, user, death with us."""
        setpriv = shutil.which("setpriv")
        before: list[str] = []
        if self.other_user is not None:
            if setpriv is None:
                raise Unavailable(
                    f"cannot run {argv[0]} as {user_name(self.other_user)}",
                    why="the program setpriv is missing",
                    fix="apt install util-linux",
                )
            before = as_user(self.other_user)
        elif setpriv is not None:
            before = [setpriv]
        # The kernel sends the signal when the *thread* that started the child ends, so
        # only the main thread's end is as good as the runner's, unless its starter stays with it.
        is_main = threading.current_thread() is threading.main_thread()
        if before and (is_main or self.with_thread):
            dies = signal.SIGKILL if self.stop_signal == signal.SIGTERM else self.stop_signal
            before = [*before, "--pdeathsig", signal.Signals(dies).name.removeprefix("SIG")]
        elif self.other_user is None:
            before = []
        wrapped = [*before, "--", *argv] if before else argv
        if self.network is not None:
            # Without forking: the program keeps the number that was journalled.
            wrapped = ["nsenter", f"--net={self.network}", "--", *wrapped]
        if self.cgroup is not None:
            group = str(self.cgroup.path)
            wrapped = ["/bin/sh", "-c", JOIN_CGROUP, "nfslab-join", group, *wrapped]
        return wrapped

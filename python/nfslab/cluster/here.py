"""The engine for one machine: members are hosts on it (itself, network namespaces), agents its
children. Nothing is started beside them, nothing listens."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import signal
import tempfile
import threading
from abc import abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nfslab.cluster.base import Agent, Clocks, Cluster, Member
from nfslab.cluster.identity import facts_here
from nfslab.errors import RunFailed, one_line
from nfslab.machine import children
from nfslab.machine.resources import recover
from nfslab.results.records import ClockRecord

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from nfslab.cluster.base import Said
    from nfslab.machine.children import Child
    from nfslab.machine.resources import Entry, Resources


class Listened(Agent):
    """An agent with a thread that listens to it, and a working folder on this machine."""

    def __init__(self, member: Member, folder: Entry, said: Said) -> None:
        """`_listen` is begun: what it needs has to be there."""
        super().__init__(said)
        self.member = member
        self._folder = folder
        self._listener = threading.Thread(target=self._listen, daemon=True, name="agent")
        self._listener.start()

    @property
    def folder(self) -> Path:
        """Its working folder."""
        return self._folder.path

    @abstractmethod
    def _listen(self) -> None:
        """Pass on what it says until it has ended."""

    def fetch(self, destination: Path) -> None:
        """See `Agent.fetch`."""
        try:
            shutil.copytree(self._folder.path, destination, symlinks=True)
        except OSError as error:
            raise RunFailed(
                f"cannot bring home what {self.member.name} measured",
                why=str(error),
                fix="make room in the results folder",
            ) from error


class AgentHere(Listened):
    """A child of ours."""

    def __init__(self, member: Member, child: Child, folder: Entry, said: Said) -> None:
        self._child = child
        super().__init__(member, folder, said)

    def tell(self, name: str, **content: Any) -> None:
        """See `Agent.tell`."""
        self._child.tell(name, **content)

    def end(self, patience_s: float | None = None) -> None:
        """See `Agent.end`; it is waited for so long."""
        # Who is just told something holds its input, maybe for ever.
        threading.Thread(target=self._close_input, daemon=True).start()
        if not self._child.ends_within(children.LEAVE_S if patience_s is None else patience_s):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._child.process.pid, signal.SIGKILL)
        self._listener.join()
        self._child.leave()
        self._child.see_end()
        if (self._child.process.returncode or 0) < 0:
            # It was killed: what it had made is still there, and it was on this machine.
            recover()
        self._folder.undo()

    def _close_input(self) -> None:
        stdin = self._child.process.stdin
        assert stdin is not None
        with contextlib.suppress(BrokenPipeError):
            stdin.close()

    def _listen(self) -> None:
        try:
            for _, event in children.events([self._child]):
                self._said(event)
        except (RunFailed, ValueError) as error:
            # Too much, or no event: whoever says that is not heard any further.
            self._child.process.kill()
            self._said({"event": "ended", "why": one_line(error)})


class MemberHere(Member):
    """This machine, or a network namespace on it (`before`: the words that enter it)."""

    def __init__(
        self,
        name: str,
        resources: Resources,
        *,
        address: str = "127.0.0.1",
        before: Sequence[str] = (),
    ) -> None:
        """`resources`: agents' working folders are journalled there."""
        self.name = name
        self.address = address
        self._resources = resources
        self._before = before
        self._begun = itertools.count()

    def facts(self) -> dict[str, Any]:
        """See `Member.facts`."""
        return facts_here()

    def clocks(self) -> Clocks:
        """The same clocks: 0, exactly."""
        return Clocks(ClockRecord(), ClockRecord())

    def begin(self, module: str, said: Said) -> AgentHere:
        """See `Member.begin`."""
        folder = None
        try:
            folder = working_folder(self.name, self._begun, self._resources)
            child = children.begin(module, cwd=folder.path, before=self._before)
            return AgentHere(self, child, folder, said)
        except OSError as error:
            if folder is not None:
                folder.undo()
            raise RunFailed(
                f"no process can be started on {self.name}",
                why=error.strerror or str(error),
                fix="free what the machine lacks",
            ) from error


def working_folder(
    name: str, begun: Iterator[int], resources: Resources, parent: Path | None = None
) -> Entry:
    """A new one for an agent of that member, journalled; OSError."""
    own = f"{resources.name}-{name}-{next(begun)}"
    return resources.make_directory((parent or Path(tempfile.gettempdir())) / own)


class ClusterHere(Cluster):
    """Members on this machine."""

    def __init__(self, members: Sequence[Member]) -> None:
        self._members = list(members)

    @property
    def members(self) -> Sequence[Member]:
        """See `Cluster.members`."""
        return self._members

    def close(self) -> None:
        """Agents are ended by those who began them."""

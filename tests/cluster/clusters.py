"""A cluster of tests: scheduler and workers as processes here, in namespaces or not."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import select
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from nfslab.cluster import link, remote
from nfslab.cluster.certificates import Authority, Papers, papers_in
from nfslab.cluster.here import MemberHere
from nfslab.cluster.link import Link, members_at
from nfslab.cluster.loop import Loop
from nfslab.cluster.namespaces import NamespacesHere
from nfslab.cluster.remote import ClusterThere, MemberThere
from nfslab.hosts.base import Link as Addresses
from nfslab.hosts.namespace import NamespaceHost
from nfslab.machine.resources import Resources

from tests.cluster.hearing import PATIENCE_S

PART = "nfslab.offered.part"
DELAY_S = 0.1
QUIET_S = 5.0
"""Of tests in which somebody is silent: longer than a busy machine keeps others from running."""
WORKER = Path(__file__).with_name("worker.py")


def patient(patch: pytest.MonkeyPatch, silence_s: float = PATIENCE_S) -> None:
    """The prime waits for hosts that get no processor, and is not given up while it gets none."""
    patch.setattr(link, "SILENCE_S", silence_s)
    patch.setattr(link, "CONNECT_S", PATIENCE_S)
    patch.setattr(remote, "CONNECT_S", PATIENCE_S)
    patch.setattr(remote, "BEGIN_S", PATIENCE_S)


def children_of(pid: int) -> list[int]:
    """Processes that it started."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [int(one) for task in tasks for one in (task / "children").read_text().split()]


def folder_of(pid: int) -> Path:
    return Path(os.readlink(f"/proc/{pid}/cwd"))


class Watched:
    """A process that is somebody else's, by its pidfd."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._descriptor = os.pidfd_open(pid)

    def ends(self) -> bool:
        """Within the tests' patience."""
        found, _, _ = select.select([self._descriptor], [], [], PATIENCE_S)
        return bool(found)

    def lives(self) -> bool:
        found, _, _ = select.select([self._descriptor], [], [], 0)
        return not found

    def __del__(self) -> None:
        os.close(self._descriptor)


class Cluster:
    """Its certificates, its scheduler, its workers, which may hear nothing for `silence_s`."""

    def __init__(
        self, folder: Path, host: str = "127.0.0.1", silence_s: float = PATIENCE_S
    ) -> None:
        self.silence_s = silence_s
        # Workers are killed at the end: what they leave goes with the test's folder.
        self.temporary = folder / "tmp"
        self.temporary.mkdir()
        self.folder = folder / "certificates"
        Authority.new().write(self.folder)
        self._processes: list[subprocess.Popen[bytes]] = []
        argv = ["-m", "nfslab.cluster", "scheduler", "--dir", str(self.folder), "--port", "0"]
        self.scheduler, said = self._begun([*argv, *(["--host", host] if host else [])], ())
        self.address: str = said["address"]
        self.workers: dict[str, subprocess.Popen[bytes]] = {}

    def papers(self) -> Papers:
        return papers_in(self.folder, "prime")

    def worker(
        self,
        name: str,
        *,
        before: Sequence[str] = (),
        addresses: Addresses | None = None,
        env: dict[str, str] | None = None,
    ) -> dict[str, Any]:
        """Start one; what it said of it."""
        port = self.address.rpartition(":")[2]
        address = self.address if addresses is None else f"tls://{addresses.server}:{port}"
        argv = [str(WORKER), "worker", "--dir", str(self.folder), "--scheduler", address]
        argv += ["--name", name]
        if addresses is not None:
            argv += ["--host", addresses.client]
        env = {"SILENCE_S": str(self.silence_s)} | (env or {})
        self.workers[name], said = self._begun(argv, before, env)
        return said

    def joined(self, loop: Loop, name: str | None = None) -> list[MemberThere]:
        """Those who joined, not greeted yet, by name."""
        found = loop.call(members_at(self.address, self.papers()))
        return [
            MemberThere(Link(who, where, self.papers(), loop), loop)
            for who, where in sorted(found)
            if name in (None, who)
        ]

    @contextlib.contextmanager
    def connected(self) -> Iterator[ClusterThere]:
        """To all of them."""
        loop = Loop()
        members = self.joined(loop)
        for member in members:
            member.connect()
        cluster = ClusterThere(members, loop)
        try:
            yield cluster
        finally:
            cluster.close()

    def close(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()

    def _begun(
        self, argv: list[str], before: Sequence[str], env: dict[str, str] | None = None
    ) -> tuple[subprocess.Popen[bytes], dict[str, Any]]:
        process = subprocess.Popen(
            [*before, sys.executable, *argv],
            stdout=subprocess.PIPE,
            env=os.environ | {"TMPDIR": str(self.temporary)} | (env or {}),
        )
        self._processes.append(process)
        assert process.stdout is not None
        said = json.loads(process.stdout.readline())
        return process, said


@contextlib.contextmanager
def lasting(place: Path) -> Iterator[Cluster]:
    """One with a worker, and a state folder of its own: for tests that leave it as it was."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NFSLAB_STATE", str(place / "state"))
        made = Cluster(place)
        made.worker("one")
        try:
            yield made
        finally:
            made.close()


@contextlib.contextmanager
def ended(process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """Whatever a test finds, it is not waited for for ever."""
    with process:
        try:
            yield process
        finally:
            process.kill()


@contextlib.contextmanager
def three_namespaces() -> Iterator[dict[str, tuple[list[str], Addresses]]]:
    """Of each name: the words that enter its namespace, and its addresses."""
    with contextlib.ExitStack() as stack:
        found = {}
        for name in ("one", "two", "three"):
            host = NamespaceHost()
            host.up(stack.enter_context(Resources(f"namespace of {name}")))
            stack.callback(host.down)
            assert host._network is not None
            found[name] = (["nsenter", f"--net={host._network}"], host.link)
        yield found


@contextlib.contextmanager
def on_a_bridge(names: Sequence[str]) -> Iterator[dict[str, tuple[list[str], Addresses]]]:
    """As `three_namespaces`, of one network: all of them see this machine at one address."""
    made = NamespacesHere(names)
    with Resources("namespaces on a bridge") as resources:
        try:
            made.up(resources)
            server = made.link.server
            yield {
                one.name: (list(one._before), Addresses(server, one.address))
                for one in made.members
                if isinstance(one, MemberHere)
            }
        finally:
            made.close()


def device_of_namespace(before: Sequence[str]) -> str:
    """The device of this machine that leads into it; `before`: the words that enter it."""
    shown = subprocess.run(
        [*before, "ip", "-json", "link", "show", "eth0"], capture_output=True, check=True
    )
    return socket.if_indextoname(json.loads(shown.stdout)[0]["link_index"])


def device_of(address: str) -> str:
    """The device of this machine that has it."""
    shown = subprocess.run(
        ["ip", "-json", "address", "show", "to", address], capture_output=True, check=True
    )
    name: str = next(row["ifname"] for row in json.loads(shown.stdout) if row)
    return name.partition("@")[0]


class SlowWire:
    """Forwards bytes between whoever dials it and an address, those of one way `DELAY_S` later."""

    def __init__(self, address: str, delayed: str) -> None:
        host, _, port = address.removeprefix("tls://").rpartition(":")
        self._there = (host, int(port))
        self._delays = {"there": (DELAY_S, 0.0), "back": (0.0, DELAY_S)}[delayed]
        self._loop = Loop()
        self._writers: list[asyncio.StreamWriter] = []
        self.address: str = self._loop.call(self._listening())

    async def _listening(self) -> str:
        self._server = await asyncio.start_server(self._dialled, "127.0.0.1", 0)
        return f"tls://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def _dialled(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back, there = await asyncio.open_connection(*self._there)
        self._writers += [writer, there]
        towards, backwards = self._delays
        await asyncio.gather(
            self._copied(reader, there, towards), self._copied(back, writer, backwards)
        )

    async def _copied(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, delay_s: float
    ) -> None:
        loop = asyncio.get_running_loop()
        with contextlib.suppress(OSError):
            while found := await source.read(65536):
                loop.call_later(delay_s, sink.write, found)
        # Its end, too, or the other side waits for it.
        loop.call_later(delay_s, sink.close)

    def close(self) -> None:
        async def closed() -> None:
            self._server.close()
            for writer in self._writers:
                writer.close()
                with contextlib.suppress(OSError):
                    await writer.wait_closed()

        self._loop.call(closed())
        self._loop.close()

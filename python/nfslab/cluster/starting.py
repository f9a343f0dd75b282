"""Clusters over ssh: started (`nfslab cluster start`, or an experiment's own), and stopped.

    each host: ssh, the same nfslab? ─► scheduler here ─► each host: its worker, by ssh
                                             └─ record: cluster.json beside the certificates

Nothing is started before all hosts were reached and have this nfslab. A worker gets the certificate
and its key on its standard input; they are on no disk but the prime's. Workers end with their
scheduler; an experiment's scheduler ends with the experiment's process.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from nfslab.cluster.certificates import Papers
from nfslab.cluster.identity import difference, facts_here
from nfslab.cluster.needed import PACKAGES
from nfslab.cluster.record import LOG, forget, write_record
from nfslab.errors import NfslabError, RunFailed, UsageError
from nfslab.machine.agent import error_of
from nfslab.machine.own_command import importing_us

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from nfslab.cluster.ssh import SshHost

T = TypeVar("T")
HOSTS_MAX: Final = 64
STOP_S: Final = 15.0


@dataclass(slots=True)
class Running:
    """A cluster that runs."""

    address: str
    """Of its scheduler, as this machine reaches it."""
    folder: Path
    """Its certificates."""
    process: subprocess.Popen[bytes] | None
    """The scheduler; None: it stays when we go."""
    failed: dict[str, NfslabError] = field(default_factory=dict)
    """Hosts that are not in it, where that is no reason to give up."""
    cleaned: dict[str, list[str]] = field(default_factory=dict)
    """What was undone on each host that a dead worker had left."""

    def end(self) -> None:
        """End a scheduler that does not stay; workers follow it. Its keys go."""
        assert self.process is not None
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.terminate()
        try:
            self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        forget(self.folder)


class AnotherNfslab(RunFailed):
    """A host answers, and has another state of nfslab."""

    def __init__(self, name: str, facts: dict[str, Any], differs: str) -> None:
        super().__init__(
            f"{name} has another nfslab", why=differs,
            fix="bring the same state of nfslab to all hosts, and build it on each",
        )  # fmt: skip
        self.facts = facts


class AllFailed(RunFailed):
    """No host could be had."""

    def __init__(self, failed: dict[str, NfslabError]) -> None:
        first = next(iter(failed.values()))
        super().__init__(first.what, why=first.why, fix=first.fix)
        self.failed = failed


def checked_hosts(hosts: Sequence[str]) -> list[str]:
    """UsageError: none, too many, one twice, or what is no name of a host."""
    if not hosts:
        raise UsageError(
            "a cluster of no hosts", why="hosts = []",
            fix='name them: hosts = ["load1", "load2"], or leave [cluster] out for one machine',
        )  # fmt: skip
    counted = Counter(name.rpartition("@")[2] for name in hosts)
    if twice := [name for name, count in counted.items() if count > 1]:
        raise UsageError(
            f"the same host twice: {', '.join(twice)}",
            why="two workers on one machine would share what each is said to have",
            fix="name each host once",
        )
    if len(hosts) > HOSTS_MAX:
        raise UsageError(
            f"{len(hosts)} hosts over ssh", why=f"{HOSTS_MAX} at most",
            fix="let Slurm, Kubernetes or MPI start them: docs/cluster.md",
        )  # fmt: skip
    for name in hosts:
        if not name.rpartition("@")[2] or name.startswith("-") or not name.isprintable():
            raise UsageError(f"{name!r} is no host", fix='write "host" or "user@host"')
        if any(character.isspace() or character in "/\\" for character in name):
            raise UsageError(f"{name!r} is no host", fix='write "host" or "user@host"')
    return list(hosts)


async def start(
    hosts: Sequence[str],
    folder: Path,
    *,
    python: str = "",
    stays: bool,
    tolerant: bool = False,
    port: int = 0,
) -> Running:
    """Start a cluster of these hosts; RunFailed, UsageError. `stays`: after this process.

    `tolerant`: hosts that cannot be had are told of (`Running.failed`), as long as there is one.
    """
    from nfslab.cluster.ssh import SshHost

    names = checked_hosts(hosts)
    async with contextlib.AsyncExitStack() as stack:

        async def reached(name: str) -> SshHost:
            host = await stack.enter_async_context(SshHost(name))
            await _same(host, python or sys.executable)
            return host

        there, failed = await _each({name: reached(name) for name in names}, tolerant)
        if not there:
            raise AllFailed(failed)
        Papers.new().write(folder)
        ours = {host.our_address for host in there.values()}
        listened = ours.pop() if len(ours) == 1 else ""
        running = begin_scheduler(folder, listened, stays=stays, port=port)
        running.failed = failed
        try:
            joining = {
                name: _join(host, running, python or sys.executable) for name, host in there.items()
            }
            joined, late = await _each(joining, tolerant)
        except BaseException:
            await asyncio.to_thread(give_up, running)
            raise
    running.failed |= late
    running.cleaned = {name: told for name, told in joined.items() if told}
    if stays:
        write_record(running.folder, running.address, list(joined))
    return running


async def _each(work: dict[str, Any], tolerant: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """(what succeeded, what failed), by host; the first failure is raised unless `tolerant`."""
    done = await asyncio.gather(*work.values(), return_exceptions=True)
    found = dict(zip(work, done, strict=True))
    failed = {name: one for name, one in found.items() if isinstance(one, BaseException)}
    for error in failed.values():
        if not isinstance(error, NfslabError) or not tolerant:
            raise error
    return {name: one for name, one in found.items() if name not in failed}, failed


async def _same(host: SshHost, python: str) -> None:
    """It has this nfslab; RunFailed."""
    there = await host.ask(python, ["facts"])
    if differs := difference(facts_here(), there):
        raise AnotherNfslab(host.name, there, differs)
    if not there.get("engine"):
        raise RunFailed(
            f"{host.name} lacks what several machines need",
            why=f"not all of {', '.join(PACKAGES)} is installed there",
            fix='there, once: ./nfslab cluster --help, or pip install "nfslab[cluster]"',
        )


async def _join(host: SshHost, running: Running, python: str) -> list[str]:
    """Start its worker; what was cleaned up there."""
    port = running.address.rpartition(":")[2]
    ours = host.our_address
    shown = f"[{ours}]" if ":" in ours else ours
    papers = Papers.of(running.folder)
    order = {
        "do": "worker", "papers": asdict(papers), "name": host.name,
        "scheduler": f"tls://{shown}:{port}", "lives_by_input": False,
    }  # fmt: skip
    said = await host.ask(python, ["detached"], json.dumps(order) + "\n")
    return [str(one) for one in said.get("cleaned", [])]


def begin_scheduler(folder: Path, host: str, *, stays: bool, port: int = 0) -> Running:
    """The scheduler, as a process of this machine; RunFailed."""
    papers = Papers.of(folder)
    order = {
        "do": "scheduler", "papers": asdict(papers), "host": host, "port": port,
        "lives_by_input": not stays,
    }  # fmt: skip
    if not stays:
        process, said = begin(order, folder / LOG)
        return Running(said["address"], folder, process)
    # By a process between, so that it is nobody's child.
    argv = [sys.executable, "-P", "-m", "nfslab.cluster", "detached"]
    done = subprocess.run(
        argv, input=json.dumps(order).encode() + b"\n", capture_output=True, check=False,
        env=os.environ | importing_us(),
    )  # fmt: skip
    try:
        said = json.loads(done.stdout)
    except ValueError:
        why = done.stderr.decode(errors="replace")[-500:]
        said = {"event": "error", "what": "the scheduler did not begin", "why": why}
    if said["event"] == "error":
        raise error_of(said)
    return Running(said["address"], folder, None)


def give_up(running: Running) -> None:
    """What was begun of it ends."""
    if running.process is not None:
        running.end()
        return
    from nfslab.cluster.remote import client_of

    with contextlib.suppress(NfslabError):
        client_of(running.address, Papers.of(running.folder)).shutdown()
    forget(running.folder)


def waited(work: Coroutine[Any, Any, T]) -> T:
    """What the coroutine returns. The caller's thread may run a loop already (a notebook's)."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()


def begin(order: dict[str, Any], log: Path) -> tuple[subprocess.Popen[bytes], dict[str, Any]]:
    """A process of ours in a session of its own, and the line that it said; RunFailed."""
    with log.open("ab") as complaints:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "nfslab.cluster", "ordered"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=complaints,
            env=os.environ | importing_us(),
            cwd="/",
            start_new_session=True,
        )
    assert process.stdin is not None
    assert process.stdout is not None
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(json.dumps(order).encode() + b"\n")
        process.stdin.flush()
    try:
        said: dict[str, Any] = json.loads(process.stdout.readline())
    except ValueError:
        said = {"event": "error", "what": f"the {order['do']} did not begin",
                "why": f"exit code {process.wait()}", "fix": f"see {log}"}  # fmt: skip
    if said.get("event") == "error":
        process.stdin.close()
        process.stdout.close()
        process.wait()
        raise error_of(said)
    return process, said

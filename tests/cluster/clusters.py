"""A cluster of tests: scheduler and workers as processes here, in namespaces or not."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from nfslab.cluster import remote
from nfslab.cluster.certificates import Papers

from tests.waiting import NO_LIMIT_S

PROCESS = Path(__file__).with_name("process.py")


def patient(patch: pytest.MonkeyPatch) -> None:
    """The prime waits for hosts that get no processor, and is not given up while it gets none."""
    patch.setattr(remote, "SILENCE_S", NO_LIMIT_S)
    patch.setattr(remote, "CONNECT_S", NO_LIMIT_S)
    patch.setattr(remote, "BEGIN_S", NO_LIMIT_S)


class Watched:
    """A process that is somebody else's, by its pidfd."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._descriptor = os.pidfd_open(pid)

    def ends(self) -> bool:
        """Within the tests' patience."""
        found, _, _ = select.select([self._descriptor], [], [], NO_LIMIT_S)
        return bool(found)

    def __del__(self) -> None:
        os.close(self._descriptor)


class Cluster:
    """Its certificates, its scheduler, its workers."""

    def __init__(self, folder: Path, silence_s: float = NO_LIMIT_S) -> None:
        self._silence_s = silence_s
        # Workers are killed at the end: what they leave goes with the test's folder.
        self.temporary = folder / "tmp"
        self.temporary.mkdir()
        self.folder = folder / "certificates"
        Papers.new().write(self.folder)
        self._processes: list[subprocess.Popen[bytes]] = []
        argv = [str(PROCESS), "scheduler", "--dir", str(self.folder), "--port", "0"]
        _, said = self._begun([*argv, "--host", "127.0.0.1"])
        self.address: str = said["address"]
        self.workers: dict[str, subprocess.Popen[bytes]] = {}
        self.addresses: dict[str, str] = {}

    def worker(self, name: str) -> dict[str, Any]:
        """Start one; what it said of it."""
        argv = [str(PROCESS), "worker", "--dir", str(self.folder), "--scheduler", self.address]
        self.workers[name], said = self._begun([*argv, "--name", name])
        self.addresses[name] = said["address"]
        return said

    def close(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()

    def _begun(self, argv: list[str]) -> tuple[subprocess.Popen[bytes], dict[str, Any]]:
        env = os.environ | {"TMPDIR": str(self.temporary), "SILENCE_S": str(self._silence_s)}
        process = subprocess.Popen([sys.executable, *argv], stdout=subprocess.PIPE, env=env)
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

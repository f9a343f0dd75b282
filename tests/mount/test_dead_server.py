"""A server that stands still under a hard mount: our commands do not, and those who wait can go.

The server is stopped (SIGSTOP): it takes connections and calls, and answers none. Whatever touches
its mount then waits in the kernel, perhaps for ever: so here everything is done by processes, each
with a limit, and behind it the mount's own process is killed, which lets all go.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from nfslab.machine import mounts
from nfslab.targets.local import LocalTarget
from nfslab.targets.path import PathTarget

from tests.cli.serving import Served, serving
from tests.machine import needs
from tests.stopping import stop

pytestmark = needs.fuse

HANG_S = 120.0
"""Of a command, too: one that waits for the server never ends."""
EXPERIMENT = """
[experiment]
name = "small"
title = "Small"
repetitions = 1
[targets.storage]
kind = "local"
path = "{path}"
[workload]
kind = "files"
data = "storage"
phases = ["block_write"]
file_size = "1M"
"""


@dataclass
class Ended:
    """A command that came to its end."""

    code: int
    out: str
    err: str


@dataclass
class Dead:
    """A mount whose server stands still."""

    place: Path
    state: Path
    pid: int
    """The mount's process."""
    server: Served
    readers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def run(self, *arguments: object, state: Path | None = None) -> Ended:
        """`nfslab ARGUMENTS`; where it does not end, the mount is ended and the test fails."""
        environment = os.environ | {"NFSLAB_STATE": str(state or self.state)}
        argv = [sys.executable, "-m", "nfslab", *map(str, arguments)]
        # Not run(): that would wait without a limit for a process that cannot be killed.
        process = subprocess.Popen(
            argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )
        try:
            out, err = process.communicate(timeout=HANG_S)
        except subprocess.TimeoutExpired:
            self.end()
            process.kill()
            process.communicate(timeout=HANG_S)
            pytest.fail(f"nfslab {' '.join(map(str, arguments))} hangs")
        return Ended(process.returncode, out, err)

    def reader(self, name: str = "file") -> subprocess.Popen[bytes]:
        """A program that waits in the mount: it asks the server for a name."""
        reader = subprocess.Popen(["cat", self.place / name], stderr=subprocess.PIPE)
        self.readers.append(reader)
        until(lambda: waits_in_fuse(reader.pid) or reader.poll() is not None)
        assert reader.poll() is None
        return reader

    def end(self) -> None:
        """All that waits is let go: /dev/fuse is closed with the process."""
        try:
            os.kill(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            return


def waits_in_fuse(pid: int) -> bool:
    """Does the kernel wait for an answer in the name of this process (fs/fuse/dev.c)?"""
    return Path(f"/proc/{pid}/wchan").read_bytes() == b"request_wait_answer"


def until(done: Callable[[], bool]) -> None:
    limit = time.monotonic() + HANG_S
    while not done():
        assert time.monotonic() < limit
        time.sleep(0.005)


def options(server: Served, *more: str) -> str:
    return ",".join([f"port={server.port},mountport={server.port}", *more])


def is_mounted(place: Path) -> bool:
    return f" {place} " in Path("/proc/self/mountinfo").read_text()


@contextmanager
def dead_mount(folder: Path) -> Iterator[Dead]:
    place, state = folder / "dead", folder / "state"
    place.mkdir()
    with serving("--memory") as server:
        argv = [sys.executable, "-m", "nfslab", "mount", "127.0.0.1:/export", str(place), "--json"]
        made = subprocess.run(
            [*argv, "-o", options(server, "hard,actimeo=0")],
            env=os.environ | {"NFSLAB_STATE": str(state)},
            capture_output=True, text=True, timeout=HANG_S, check=True,
        )  # fmt: skip
        dead = Dead(place, state, json.loads(made.stdout)["pid"], server)
        try:
            (place / "file").write_text("text")
            stop(server.process.pid)
            yield dead
        finally:
            dead.end()
            server.process.send_signal(signal.SIGCONT)
            for reader in dead.readers:
                reader.kill()
                reader.communicate(timeout=HANG_S)
            if is_mounted(place):
                umount = [sys.executable, "-m", "nfslab", "umount", str(place), "--lazy"]
                subprocess.run(umount, timeout=HANG_S, check=False, capture_output=True)


@pytest.fixture
def dead(tmp_path: Path) -> Iterator[Dead]:
    with dead_mount(tmp_path) as made:
        yield made


def test_force_ends_it_and_who_waits_gets_an_error(dead: Dead) -> None:
    reader = dead.reader()
    done = dead.run("umount", dead.place, "--force")
    assert done.code == 0, done.err
    assert not is_mounted(dead.place)
    said = reader.communicate(timeout=HANG_S)[1]
    # EIO from the mount's process; where that had no processor for 3 s, the kernel's word.
    errors = (errno.EIO, errno.ECONNABORTED, errno.ENOTCONN)
    assert any(os.strerror(number).encode() in said for number in errors), said
    assert dead.server.process.poll() is None, "nobody asked the server"


def test_force_by_a_link_that_leads_there(dead: Dead, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(dead.place)
    assert dead.run("umount", tmp_path / "link", "--force").code == 0
    assert not is_mounted(dead.place)


def test_force_ends_it_where_its_process_stands_still_too(dead: Dead) -> None:
    reader = dead.reader()
    stop(dead.pid)
    done = dead.run("umount", dead.place, "--force")
    assert done.code == 0, done.err
    assert not is_mounted(dead.place)
    assert reader.wait(timeout=HANG_S) == 1, "the kernel let it go"


def test_lazy_takes_it_out_of_sight(dead: Dead) -> None:
    reader = dead.reader()
    done = dead.run("umount", dead.place, "--lazy")
    assert done.code == 0, done.err
    assert not is_mounted(dead.place)
    assert reader.poll() is None, "it waits until the server is back"
    dead.server.process.send_signal(signal.SIGCONT)
    assert reader.wait(timeout=HANG_S) == 0


@pytest.mark.parametrize("known", [True, False], ids=["by the journal", "of another state folder"])
def test_other_mounts_are_not_held_up(
    dead: Dead, tmp_path: Path, known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = dead.state if known else tmp_path / "other state"
    asked, real = tmp_path / "asked", shutil.which("stat")
    tool = tmp_path / "tools" / "stat"
    tool.parent.mkdir()
    tool.write_text(f'#!/bin/sh\necho "$@" >>"{asked}"\nexec {real} "$@"\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}:{os.environ['PATH']}")
    dead.reader()
    assert dead.run("umount", "--stale", state=state).code == 0
    other = tmp_path / "other"
    other.mkdir()
    with serving("--memory") as server:
        argv = ["127.0.0.1:/export", other, "-o", options(server)]
        made = dead.run("mount", *argv, state=state)
        assert made.code == 0, made.err
        (other / "file").write_text("text")
        assert (other / "file").read_text() == "text"
        done = dead.run("umount", other, state=state)
        assert done.code == 0, done.err
    assert is_mounted(dead.place), "it has a process, and is not stale"
    # Mounts of other tests may be asked about: only this one's place counts.
    about_it = asked.exists() and str(dead.place) in asked.read_text()
    assert about_it == (not known), "whose mount it is stands in the journal"


def test_experiments_start_beside_it(dead: Dead, tmp_path: Path) -> None:
    plan = tmp_path / "small.toml"
    plan.write_text(EXPERIMENT.format(path=tmp_path))
    assert dead.run("run", plan, "--dry-run").code == 0
    done = dead.run("run", plan, "--results", tmp_path / "results")
    assert done.code == 0, done.err
    assert "1 of 1 runs good" in done.out + done.err


def test_a_target_on_it_is_refused(
    dead: Dead, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mounts, "ANSWER_LIMIT_S", 0.5)
    (tmp_path / "link").symlink_to(dead.place)
    guard = threading.Timer(HANG_S, dead.end)
    guard.start()
    try:
        for kind in (LocalTarget, PathTarget):
            parameters = kind.Parameters.model_validate({"path": str(tmp_path / "link" / "folder")})
            target = kind("storage", parameters)
            assert target.free_bytes() is None
            usable = target.check()
            assert not usable.ok
            assert "does not answer" in usable.reason
    finally:
        guard.cancel()


def test_nothing_is_mounted_on_it(dead: Dead) -> None:
    argv = ["127.0.0.1:/export", dead.place / "below", "-o", options(dead.server)]
    done = dead.run("mount", *argv)
    assert done.code == 1
    assert f"nfslab umount --force {dead.place}" in done.err


def test_a_reader_that_is_killed_ends_and_the_mount_stays(dead: Dead) -> None:
    one, other = dead.reader(), dead.reader()
    one.kill()
    assert one.wait(timeout=HANG_S) == -signal.SIGKILL
    assert is_mounted(dead.place)
    assert other.poll() is None
    dead.server.process.send_signal(signal.SIGCONT)
    assert other.wait(timeout=HANG_S) == 0, "which waited on, has its answer"

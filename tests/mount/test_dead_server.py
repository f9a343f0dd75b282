"""A server that stands still under a hard mount: our commands do not, and those who wait can go.

The server is stopped (SIGSTOP): it takes connections and calls, and answers none. Whatever touches
its mount then waits in the kernel, perhaps for ever: so here everything is done by processes, each
with a limit, and behind it the mount's own process is killed, which lets all go.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
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
from tests.waiting import until

pytestmark = needs.fuse


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

    def run(self, *arguments: object) -> Ended:
        """`nfslab ARGUMENTS`."""
        environment = os.environ | {"NFSLAB_STATE": str(self.state)}
        argv = [sys.executable, "-m", "nfslab", *map(str, arguments)]
        process = subprocess.Popen(
            argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )
        out, err = process.communicate()
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
            capture_output=True, text=True, check=True,
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
                reader.wait()
                assert reader.stderr is not None
                reader.stderr.close()
            if is_mounted(place):
                umount = [sys.executable, "-m", "nfslab", "umount", str(place), "--lazy"]
                subprocess.run(umount, check=False, capture_output=True)


@pytest.fixture
def dead(tmp_path: Path) -> Iterator[Dead]:
    with dead_mount(tmp_path) as made:
        yield made


@pytest.mark.system
def test_force_ends_it_and_who_waits_gets_an_error(
    dead: Dead, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And meanwhile a target on it is refused: by a link that leads there, as the command is."""
    monkeypatch.setattr(mounts, "ANSWER_LIMIT_S", 0.5)
    link = tmp_path / "link"
    link.symlink_to(dead.place)
    for kind in (LocalTarget, PathTarget):
        target = kind("x", kind.Parameters.model_validate({"path": str(link / "folder")}))
        assert target.free_bytes() is None
        usable = target.check()
        assert (usable.ok, "does not answer" in usable.reason) == (False, True)
    reader = dead.reader()
    done = dead.run("umount", link, "--force")
    assert done.code == 0, done.err
    assert not is_mounted(dead.place)
    said = reader.communicate()[1]
    # EIO from the mount's process; where that had no processor for 3 s, the kernel's word.
    errors = (errno.EIO, errno.ECONNABORTED, errno.ENOTCONN)
    assert any(os.strerror(number).encode() in said for number in errors), said
    assert dead.server.process.poll() is None, "nobody asked the server"


@pytest.mark.long
def test_lazy_takes_it_out_of_sight_and_who_is_killed_ends(dead: Dead) -> None:
    reader, killed = dead.reader(), dead.reader()
    killed.kill()
    assert killed.wait() == -signal.SIGKILL
    done = dead.run("umount", dead.place, "--lazy")
    assert done.code == 0, done.err
    assert not is_mounted(dead.place)
    assert reader.poll() is None, "it waits until the server is back"
    dead.server.process.send_signal(signal.SIGCONT)
    assert reader.wait() == 0

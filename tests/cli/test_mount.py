"""`nfslab mount` and `nfslab umount` as users have them: in processes of their own."""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from nfslab._core import CoreError, Mount, Server, unmount

from tests.machine import needs
from tests.waiting import until

pytestmark = [needs.fuse, pytest.mark.system]


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(json.dumps({"store": "memory"})) as running:
        yield running


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "a place"
    folder.mkdir()
    yield folder
    with suppress(CoreError):  # nothing is mounted there
        unmount(folder, "lazy")


def run(*arguments: object, state: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "nfslab", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"NFSLAB_STATE": str(state)},
    )


def ports(server: Server, *more: str) -> str:
    return ",".join([f"port={server.port},mountport={server.port}", *more])


def test_a_mount_stays_behind_until_it_is_unmounted(
    server: Server, place: Path, tmp_path: Path
) -> None:
    options = ports(server, "rsize=64k", "soft")
    state = tmp_path / "state"
    made = run("mount", "127.0.0.1:/export", place, "-o", options, "--json", state=state)
    assert made.returncode == 0, made.stderr
    said = json.loads(made.stdout)
    assert said["options"]["rsize"] == "65536"
    assert "soft" in said["options"]
    assert said["options"]["read_ahead_kb"] == "1024"
    (place / "file").write_text("text")
    assert (place / "file").read_text() == "text"
    with (place / "file").open():
        busy = run("umount", place, state=state)
        assert busy.returncode == 1
        assert "--lazy" in busy.stderr
    done = run("umount", place, state=state)
    assert done.returncode == 0, done.stderr
    assert not (place / "file").exists()
    again = run("umount", place, state=state)
    assert again.returncode == 1
    assert "no mount of nfslab" in again.stderr


@pytest.mark.long
def test_what_a_killed_mount_leaves_is_removed(server: Server, place: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    asked = ["mount", "127.0.0.1:/export", place, "-o", ports(server), "--json"]
    for clean in (["umount", "--stale"], asked):
        made = run(*asked, state=state)
        assert made.returncode == 0, made.stderr
        os.kill(json.loads(made.stdout)["pid"], signal.SIGKILL)
        # The process is nobody's child here: the mount says when it is gone.
        until(lambda: not _answers(place))
        cleaned = run(*clean, state=state)
        assert cleaned.returncode == 0, cleaned.stderr
    assert run("umount", place, state=state).returncode == 0
    assert not list((state / "journals").glob("*.jsonl"))


def _answers(place: Path) -> bool:
    try:
        os.statvfs(place)
    except OSError:
        return False
    return True


def test_errors_are_told_in_the_foreground_and_from_behind(
    server: Server, place: Path, tmp_path: Path
) -> None:
    given = ("-o", ports(server))
    for arguments, code, words in [
        (["127.0.0.1:/none", place, *given], 1, "MNT3ERR_"),
        (["127.0.0.1:/export", place / "none", *given, "--foreground"], 1, "no such folder"),
        (["127.0.0.1:/export", place, "-o", "rsise=8k", "--foreground"], 2, "rsize"),
    ]:
        said = run("mount", *arguments, state=tmp_path / "state")
        assert (said.returncode, said.stdout) == (code, ""), said.stderr
        assert words in said.stderr


@contextmanager
def saying(reply: Callable[[bytes], bytes]) -> Iterator[int]:
    """A server of one's own at this port: for each call what `reply` makes of its transaction
    id."""
    over = threading.Event()

    def answer(stream: socket.socket) -> None:
        with stream, suppress(OSError):  # a client that waits no longer resets the connection
            while call := stream.recv(1 << 16):
                body = reply(call[4:8])
                stream.sendall(struct.pack(">I", 0x80000000 | len(body)) + body)

    def serve() -> None:
        while True:
            stream, _ = listener.accept()
            if over.is_set():
                stream.close()
                return
            threading.Thread(target=answer, args=(stream,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            over.set()
            socket.create_connection(listener.getsockname()).close()
            thread.join()


def of_version_4_only(xid: bytes) -> bytes:
    """PROG_MISMATCH, from 4 to 4 (RFC 5531 section 9)."""
    return xid + struct.pack(">IIIIIII", 1, 0, 0, 0, 2, 4, 4)


@pytest.mark.parametrize(
    ("reply", "waits", "words"),
    [
        (
            of_version_4_only,
            "",
            "PROG_MISMATCH (it serves versions 4 to 4 of that program)\n  fix: Have the ",
        ),
        pytest.param(
            lambda xid: xid + bytes(3),
            ",timeo=5,retrans=1",
            "mounting /export",
            marks=pytest.mark.long,
        ),
    ],
    ids=["another version", "no reply of RPC"],
)
def test_a_server_that_is_none_for_us_is_one_clear_line(
    place: Path, tmp_path: Path, reply: Callable[[bytes], bytes], waits: str, words: str
) -> None:
    with saying(reply) as port:
        options = f"port={port},mountport={port},soft{waits}"
        said = run("mount", "127.0.0.1:/export", place, "-o", options, state=tmp_path / "state")
    assert (said.returncode, said.stdout) == (1, "")
    what = said.stderr.splitlines()[0]
    assert what.startswith("nfslab: ")
    assert words in said.stderr, said.stderr
    assert "Traceback" not in said.stderr
    assert not os.path.ismount(place)


def test_a_signal_ends_the_foreground_and_its_mount(
    server: Server, place: Path, tmp_path: Path
) -> None:
    argv = [sys.executable, "-m", "nfslab", "mount", "127.0.0.1:/export", str(place)]
    argv += ["-o", ports(server), "--foreground"]
    environment = os.environ | {"NFSLAB_STATE": str(tmp_path / "state")}
    with subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        assert str(place) in process.stdout.readline()
        process.terminate()
        process.communicate()
    assert process.returncode == 130
    assert not os.path.ismount(place)


def test_the_object_mounts_counts_and_records(server: Server, place: Path) -> None:
    mount = Mount("127.0.0.1:/export", place, ports(server))
    try:
        recorder = mount.recorder()
        recorder.start(interval_ns=0)
        (place / "f").write_bytes(b"x" * 100)
        recorder.stop()  # what was gathered is handed over
        assert len(recorder.calls()) >= 2
        # The kernel tells of a close (RELEASE) behind it.
        until(lambda: not mount.counters()["open_files"])
        assert dict(mount.effective_options())["vers"] == "3"
        assert mount.wait(0.0) is False
        with (place / "f").open("rb"), pytest.raises(CoreError) as busy:
            mount.unmount()
        assert busy.value.kind == "busy"
    finally:
        mount.unmount("force")
    assert mount.wait() is True
    with pytest.raises(CoreError, match="gone"):
        mount.counters()

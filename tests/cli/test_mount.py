"""`nfslab mount` and `nfslab umount` as users have them: in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
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
    assert again.returncode == 2
    assert "no mount of nfslab" in again.stderr


def test_errors_are_told_in_the_foreground_and_from_behind(
    server: Server, place: Path, tmp_path: Path
) -> None:
    given = ("-o", ports(server))
    for arguments, code, words in [
        (["127.0.0.1:/none", place, *given], 1, "MNT3ERR_"),
        (["127.0.0.1:/export", place / "none", *given, "--foreground"], 2, "no such folder"),
        (["127.0.0.1:/export", place, "-o", "rsise=8k", "--foreground"], 2, "rsize"),
    ]:
        said = run("mount", *arguments, state=tmp_path / "state")
        assert (said.returncode, said.stdout) == (code, ""), said.stderr
        assert words in said.stderr


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
    assert process.returncode == 0
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

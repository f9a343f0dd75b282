"""Whatever is killed, nothing is left; and what is told of a guest that is lost."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from nfslab.machine.resources import recover

from tests.vm.guests import cached_kernels, refused

pytestmark = [
    pytest.mark.skipif(bool(refused()), reason=refused() or "it can"),
    pytest.mark.long,
    pytest.mark.guest,
]
LIMIT_S = 300
END_MS = 60_000
NEVER_ENDS = "echo up; exec sleep 100000"


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where this guest's journal is, and no other's."""
    monkeypatch.setenv("NFSLAB_STATE", str(tmp_path / "state"))
    return tmp_path / "state"


def words(*command: str, options: tuple[str, ...] = ()) -> list[str]:
    asked = ["--kernel", cached_kernels()[0], *options]
    return [sys.executable, "-m", "nfslab", "vm", "run", *asked, "--", *command]


@contextmanager
def up(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A guest whose command has begun, and never ends."""
    argv = words("sh", "-c", NEVER_ENDS)
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, cwd=folder, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "up\n"
            yield process
        finally:
            process.kill()


def started(state: Path) -> dict[str, int]:
    """What the journal says was started: name -> process id."""
    (journal,) = (state / "journals").glob("*.jsonl")
    records = [json.loads(line) for line in journal.read_text().splitlines()[1:]]
    commands = {one["id"]: one["what"].get("command", "") for one in records if "kind" in one}
    found = {}
    for record in records:
        if record["op"] == "bind" and "pid" in record["what"]:
            command = commands[record["id"]]
            name = "qemu" if "qemu-system" in command.split()[0] else "share"
            if name == "share":
                name = "root" if "source=/ " in f"{command} " else "work"
            found[name] = record["what"]["pid"]
    assert set(found) == {"qemu", "root", "work"}
    return found


@contextmanager
def all_end(pids: dict[str, int]) -> Iterator[None]:
    """Within the block something is done that ends them all."""
    watched = {name: os.pidfd_open(pid) for name, pid in pids.items()}
    try:
        yield
        for name, descriptor in watched.items():
            poller = select.poll()
            poller.register(descriptor, select.POLLIN)
            assert poller.poll(END_MS), f"{name} lives on"
    finally:
        for descriptor in watched.values():
            os.close(descriptor)


def test_nfslab_is_killed(state: Path, tmp_path: Path) -> None:
    with up(tmp_path) as process:
        with all_end(started(state)):
            process.kill()
        process.wait(LIMIT_S)
    told = " ".join(recover())
    assert "removed /" in told, "the folder of sockets and console"
    assert list((state / "journals").glob("*.jsonl")) == []


@pytest.mark.parametrize("name", ["qemu", "root", "work"])
def test_a_part_of_the_machine_is_killed(name: str, state: Path, tmp_path: Path) -> None:
    with up(tmp_path) as process:
        pids = started(state)
        with all_end(pids):
            os.kill(pids[name], signal.SIGKILL)
        out, err = process.communicate(timeout=LIMIT_S)
    assert (process.returncode, out) == (1, "")
    assert "virtual machine" in err
    if name != "qemu":
        assert f"virtiofsd ({name})" in err
    assert list((state / "journals").glob("*.jsonl")) == []


def test_interrupted(state: Path, tmp_path: Path) -> None:
    with up(tmp_path) as process:
        with all_end(started(state)):
            process.send_signal(signal.SIGINT)
        process.communicate(timeout=LIMIT_S)
    assert process.returncode == 130
    assert list((state / "journals").glob("*.jsonl")) == []


def lost(folder: Path, command: str, *options: str) -> subprocess.CompletedProcess[str]:
    argv = words("sh", "-c", command, options=options)
    return subprocess.run(
        argv, cwd=folder, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )


def test_a_panic_is_told_with_the_end_of_the_console(state: Path, tmp_path: Path) -> None:
    done = lost(tmp_path, "echo before; echo c >/proc/sysrq-trigger; sleep 1000")
    assert (done.returncode, done.stdout) == (1, "before\n")
    assert "Kernel panic - not syncing: sysrq triggered crash" in done.stderr
    assert list((state / "journals").glob("*.jsonl")) == []


def test_what_takes_the_memory_is_ended_and_the_guest_is_not(tmp_path: Path, state: Path) -> None:
    """137: 128 + SIGKILL, as a shell tells it."""
    done = lost(tmp_path, "tail /dev/zero; echo $? >code; exit 3", "--memory", "512M")
    assert done.returncode == 3, done.stderr
    assert (tmp_path / "code").read_text() == "137\n"
    assert state.exists()

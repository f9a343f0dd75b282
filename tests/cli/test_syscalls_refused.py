"""`nfslab syscalls` where it cannot, or not by the best way: what it says, and its exit code.

Another user is made with setpriv: without any capability but that of reading files, since the
interpreter may lie in root's home.
"""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from nfslab.evidence.syscalls.ways import shim_missing
from nfslab.machine.processes import status_of

from tests.cli.invocation import nfslab
from tests.cli.watching import PATIENCE_S, watched_syncer
from tests.machine import needs

USER = 65534
ONLY_READING = [
    "setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups",
    "--inh-caps=-all,+dac_read_search", "--ambient-caps=-all,+dac_read_search",
    "--bounding-set=-all,+dac_read_search",
]  # fmt: skip
COMMAND = [sys.executable, "-m", "nfslab", "syscalls"]
TEXT = "101 1700000000.000100 fdatasync(3</db/bank-wal>) = 0 <0.000400>\n"


def said(command: Sequence[object], **more: object) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"HOME": "/tmp", "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [str(word) for word in command], text=True, check=False, cwd="/", env=environment,
        timeout=PATIENCE_S, stdin=subprocess.DEVNULL,
        **({"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | more),
    )  # fmt: skip


@contextmanager
def running(*command: str) -> Iterator[subprocess.Popen[str]]:
    """A process that ends with its standard input."""
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/"
    )
    try:
        yield process
    finally:
        process.communicate(timeout=PATIENCE_S)


@needs.root
@needs.setpriv
def test_another_users_process_without_permission() -> None:
    with running("cat") as process:
        answer = said([*ONLY_READING, *COMMAND, "--pid", process.pid, "--duration", "1s"])
    assert answer.returncode == 1
    assert answer.stdout == ""
    assert "not by eBPF: " in answer.stderr
    assert f"/proc/PID/io of {process.pid} " in answer.stderr
    assert "  fix: " in answer.stderr


@needs.root
@needs.setpriv
def test_ones_own_process_without_permission_has_its_totals() -> None:
    """The last way, and it says which others were tried."""
    with running(*ONLY_READING, "cat") as writer:
        found = json.loads(_watched_while(writer, "--json"))
        text = _watched_while(writer)
    assert re.search(rf"^ *proc_io +syscw +{LINES}$", text, re.M), text
    assert found["way"] == "views"
    assert [way for way, _ in found["why_not"]] == ["ebpf", "shim", "strace"]
    assert found["figures"]["proc_io.syscw"] == LINES


LINES = 40


def _line(writer: subprocess.Popen[str]) -> None:
    """It has written one, and the kernel has counted that, which it does when the line is there
    already (vfs_write): then it sleeps until the next one."""
    assert writer.stdin is not None
    assert writer.stdout is not None
    writer.stdin.write("x\n")
    writer.stdin.flush()
    assert writer.stdout.readline() == "x\n"
    deadline = time.monotonic() + PATIENCE_S
    while (status := status_of(writer.pid)) is not None and status.state != "S":
        assert time.monotonic() < deadline, status


def _watched_while(writer: subprocess.Popen[str], *options: str) -> str:
    """What is printed of a `cat` that writes so many lines meanwhile, one after the other."""
    _line(writer)  # it runs
    command = [*ONLY_READING, *COMMAND, "--pid", str(writer.pid), *options]
    watch = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd="/",
        env=os.environ | {"HOME": "/tmp", "PYTHONDONTWRITEBYTECODE": "1"},
    )  # fmt: skip
    with watch:
        assert watch.stderr is not None
        # Said when it has begun, behind each way that was tried.
        assert any(text.startswith("watching by ") for text in iter(watch.stderr.readline, ""))
        for _ in range(LINES):
            _line(writer)
        watch.send_signal(signal.SIGINT)
        out, _ = watch.communicate(timeout=PATIENCE_S)
    return out


@needs.root
@needs.setpriv
@pytest.mark.skipif(bool(shim_missing()), reason=shim_missing() or "there is one")
def test_ones_own_command_without_permission_is_preloaded() -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        os.chmod(folder, 0o777)
        write = f"dd if=/dev/zero of={folder}/x-wal bs=512 count=3 conv=fdatasync"
        answer = said([*ONLY_READING, *COMMAND, "--json", "--", *write.split()])
    assert answer.returncode == 0, answer.stderr
    assert "a preloaded library" in answer.stderr
    found = json.loads(answer.stdout)
    assert [way for way, _ in found["why_not"]] == ["ebpf"]
    (series,) = found["series"]
    assert (series["class"], series["call"], series["calls"]) == ("SQLite WAL", "fdatasync", 1)


@needs.root
@needs.setpriv
def test_a_way_that_is_not_permitted_is_refused_with_what_would_be() -> None:
    answer = said([*ONLY_READING, *COMMAND, "--way", "ebpf", "--", "true"])
    assert answer.returncode == 1
    what, why, fix = answer.stderr.splitlines()
    assert "eBPF" in what
    assert "eBPF" in why
    assert "CAP_BPF" in fix
    assert "leave --way out" in fix


@needs.ebpf
def test_a_process_that_ends_ends_the_watching(tmp_path: Path) -> None:
    with watched_syncer(tmp_path) as (syncer, watching):
        syncer.sync(5)
        syncer.end()
        out, _ = watching.communicate(timeout=PATIENCE_S)
    assert watching.returncode == 0
    (series,) = json.loads(out)["series"]
    assert (series["class"], series["call"]) == ("SQLite rollback journal", "fsync")
    assert series["calls"] == 5


def test_a_thread_is_no_process_and_its_process_is_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    over, began = threading.Event(), threading.Event()
    thread = threading.Thread(target=lambda: (began.set(), over.wait(PATIENCE_S)))
    thread.start()
    began.wait(PATIENCE_S)
    try:
        answer = nfslab(capsys, "syscalls", "--pid", thread.native_id)
    finally:
        over.set()
        thread.join()
    assert answer.code == 2
    assert f"--pid {os.getpid()}" in answer.err
    assert f"fix: --pid {os.getpid()}" in answer.err


@pytest.mark.parametrize(
    ("program", "what", "fix"),
    [
        ("", "the command is an empty text", "give a program after --"),
        ("/no/such/program", "'/no/such/program' was not found", "give its path"),
        ("/tmp", "/tmp is a folder", "give a program"),
    ],
)
def test_what_is_no_program(
    capsys: pytest.CaptureFixture[str], program: str, what: str, fix: str
) -> None:
    answer = nfslab(capsys, "syscalls", "--", program)
    assert answer.code == 2
    assert what in answer.err
    assert fix in answer.err


def test_a_program_without_permission_to_be_one(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\n", "utf-8")
    answer = nfslab(capsys, "syscalls", "--", program)
    assert answer.code == 2
    assert f"{program} cannot be executed" in answer.err
    assert f"fix: chmod +x {program}" in answer.err


def test_an_unknown_process(capsys: pytest.CaptureFixture[str]) -> None:
    answer = nfslab(capsys, "syscalls", "--pid", 2**22 + 1)  # beyond the greatest pid_max
    assert answer.code == 2
    assert str(2**22 + 1) in answer.err


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "calls.txt"
    path.write_text(TEXT, "utf-8")
    return path


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_an_output_that_is_full(text: Path, options: list[str]) -> None:
    with open("/dev/full", "w", encoding="ascii") as full:
        answer = said([*COMMAND, "--read", text, *options], stdout=full)
    assert answer.returncode == 1
    assert answer.stderr.splitlines() == [
        "nfslab: the output cannot be written",
        "  why: No space left on device",
        "  fix: make room where it goes, or send it elsewhere",
    ]


def _small_files() -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))


@pytest.mark.parametrize(("option", "name"), [("--html", "page.html"), ("--parquet", "tables")])
def test_a_page_without_room_loses_nothing_of_what_was_seen(
    text: Path, option: str, name: str
) -> None:
    place = text.parent / "results" / name
    place.parent.mkdir()
    answer = said([*COMMAND, "--read", text, option, place], preexec_fn=_small_files)
    assert answer.returncode == 1
    assert "SQLite WAL, 1 x fdatasync" in answer.stdout
    what, why, fix = answer.stderr.splitlines()
    assert what == f"nfslab: cannot write {place}"
    assert why == "  why: File too large"
    assert fix.startswith("  fix: ")
    left = [path for path in place.parent.rglob("*") if path.is_file()]
    assert left == [], "nothing half written"


def test_a_page_never_takes_the_place_of_a_device(
    capsys: pytest.CaptureFixture[str], text: Path
) -> None:
    pipe = text.parent / "pipe"
    os.mkfifo(pipe)
    answer = nfslab(capsys, "syscalls", "--read", text, "--html", pipe)
    assert answer.code == 2
    assert str(pipe) in answer.err
    assert stat.S_ISFIFO(pipe.stat().st_mode)

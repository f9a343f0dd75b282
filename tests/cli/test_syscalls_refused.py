"""`nfslab syscalls` where it cannot, or not by the best way: what it says, and its exit code.

Another user is made with setpriv: without any capability but that of reading files, since the
interpreter may lie in root's home.
"""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from nfslab.evidence.syscalls.ways import shim_missing

from tests.cli.invocation import nfslab
from tests.machine import needs

USER = 65534
ONLY_READING = [
    "setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups",
    "--inh-caps=-all,+dac_read_search", "--ambient-caps=-all,+dac_read_search",
    "--bounding-set=-all,+dac_read_search",
]  # fmt: skip
COMMAND = [sys.executable, "-m", "nfslab", "syscalls"]


def said(command: Sequence[object], **more: object) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"HOME": "/tmp", "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [str(word) for word in command], text=True, check=False, cwd="/", env=environment,
        stdin=subprocess.DEVNULL,
        **({"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | more),
    )  # fmt: skip


@needs.root
@needs.setpriv
@pytest.mark.long
def test_a_way_that_is_not_permitted_is_refused_with_what_would_be() -> None:
    answer = said([*ONLY_READING, *COMMAND, "--way", "ebpf", "--", "true"])
    assert answer.returncode == 1
    what, why, fix = answer.stderr.splitlines()
    assert "eBPF" in what
    assert "eBPF" in why
    assert "CAP_BPF" in fix
    assert "leave --way out" in fix


def test_a_thread_is_no_process_and_its_process_is_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    over, began = threading.Event(), threading.Event()
    thread = threading.Thread(target=lambda: (began.set(), over.wait()))
    thread.start()
    began.wait()
    try:
        answer = nfslab(capsys, "syscalls", "--pid", thread.native_id)
    finally:
        over.set()
        thread.join()
    assert answer.code == 2
    assert f"--pid {os.getpid()}" in answer.err
    assert f"fix: --pid {os.getpid()}" in answer.err


def test_what_is_no_program_and_no_process(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\n", "utf-8")
    for given, words in (
        (["--", ""], "give a program after --"),
        (["--", "/no/such/program"], "give its path"),
        (["--", "/tmp"], "/tmp is a folder"),
        (["--", program], f"fix: chmod +x {program}"),
        (["--pid", 2**22 + 1], str(2**22 + 1)),  # beyond the greatest pid_max
    ):
        answer = nfslab(capsys, "syscalls", *given)
        assert (answer.code, words in answer.err) == (2, True), answer


@pytest.mark.skipif(bool(shim_missing()), reason=f"no shim: {shim_missing()}")
@pytest.mark.long
@pytest.mark.system
def test_an_output_that_is_full() -> None:
    with open("/dev/full", "w", encoding="ascii") as full:
        answer = said([*COMMAND, "--way", "shim", "--json", "--", "true"], stdout=full)
    assert answer.returncode == 1
    assert answer.stderr.splitlines()[1:] == [
        "nfslab: the output cannot be written",
        "  why: No space left on device",
        "  fix: make room where it goes, or send it elsewhere",
    ]


def test_a_page_never_takes_the_place_of_a_device(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    answer = nfslab(capsys, "syscalls", "--html", pipe, "--", "true")
    assert answer.code == 2
    assert str(pipe) in answer.err
    assert stat.S_ISFIFO(pipe.stat().st_mode)


PROGRAM = """
import os, sys
file = os.open(sys.argv[1] + "/x-journal", os.O_RDWR | os.O_CREAT)
os.write(file, b"x")
os.fsync(file)
"""
MISSING = "No such file or directory (os error 2)"
WITHOUT_TRACEFS = "hide /sys/kernel/tracing; hide /sys/kernel/debug"
LOCKED = """hide /sys/kernel/security
echo "none integrity [confidentiality]" > /sys/kernel/security/lockdown"""

hidden = [
    pytest.mark.long, needs.ebpf, needs.root, needs.setpriv, needs.program("unshare"),
    pytest.mark.skipif(bool(shim_missing()), reason=f"no shim: {shim_missing()}"),
]  # fmt: skip


def on_a_hidden_machine(test: Any) -> Any:
    """Each is made in a mount namespace of its own, where empty file systems hide what this
    machine has."""
    for mark in hidden:
        test = mark(test)
    return test


def there(hiding: str, *command: object) -> subprocess.CompletedProcess[str]:
    """Runs it where this is hidden."""
    script = f'set -e\nhide() {{ mount -t tmpfs none "$1"; }}\n{hiding}\nexec "$@"'
    argv = ["unshare", "--mount", "sh", "-c", script, "sh", *map(str, command)]
    return subprocess.run(
        argv, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )


def watched(folder: Path, hiding: str, *capabilities: str) -> tuple[str, list[list[str]], str]:
    """The way that was used, why not those before it, and what was said of it meanwhile."""
    answer = there(
        hiding, *capabilities, sys.executable, "-m", "nfslab", "syscalls", "--json", "--",
        sys.executable, "-S", "-c", PROGRAM, folder,
    )  # fmt: skip
    assert answer.returncode == 0, answer.stderr
    found = json.loads(answer.stdout)
    (series,) = found["series"]
    assert (series["call"], series["calls"]) == ("fsync", 1)
    return found["way"], found["why_not"], answer.stderr


@on_a_hidden_machine
@pytest.mark.parametrize(
    ("hiding", "capabilities", "reason"),
    [
        (
            "hide /sys/kernel/btf", [],
            "the kernel's type information (BTF) cannot be read: "
            f"/sys/kernel/btf/vmlinux: {MISSING}",
        ),
        (
            WITHOUT_TRACEFS, ["setpriv", "--bounding-set=-sys_admin"],
            "the tracepoints of the kernel cannot be reached: "
            f"/sys/kernel/tracing: {MISSING}; /sys/kernel/debug/tracing: {MISSING}; "
            "a mount of its own: Operation not permitted (os error 1)",
        ),
        (
            LOCKED, ["setpriv", "--bounding-set=-all"],
            'the kernel is locked down ("confidentiality"): '
            "it then refuses programs that read its memory, and its tracepoints",
        ),
        (
            "", ["setpriv", "--bounding-set=-all"],
            "Linux does not let this user load an eBPF program: "
            "Operation not permitted (os error 1)",
        ),
    ],
    ids=["no BTF", "no tracefs, no right to mount it", "lockdown", "no capability"],
)  # fmt: skip
def test_the_next_way_is_taken_and_named(
    tmp_path: Path, hiding: str, capabilities: list[str], reason: str
) -> None:
    way, why_not, said = watched(tmp_path, hiding, *capabilities)
    assert (way, why_not) == ("shim", [["ebpf", reason]])
    assert said.splitlines()[:2] == [
        f"not by eBPF: {reason}", "watching by a preloaded library, level sync",
    ]  # fmt: skip

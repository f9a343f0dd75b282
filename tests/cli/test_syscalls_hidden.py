"""`nfslab syscalls` on machines that lack what eBPF needs: each is made in a mount namespace of its
own, where empty file systems hide what this machine has. The next way is taken, and it is named,
with the reason against the one before.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from nfslab.evidence.syscalls.ways import shim_missing

from tests.machine import needs

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

pytestmark = [
    needs.ebpf, needs.root, needs.setpriv,
    pytest.mark.skipif(shutil.which("unshare") is None, reason="needs unshare"),
    pytest.mark.skipif(bool(shim_missing()), reason=f"no shim: {shim_missing()}"),
]  # fmt: skip


def there(hiding: str, *command: object) -> subprocess.CompletedProcess[str]:
    """Runs it where this is hidden."""
    script = f'set -e\nhide() {{ mount -t tmpfs none "$1"; }}\n{hiding}\nexec "$@"'
    argv = ["unshare", "--mount", "sh", "-c", script, "sh", *map(str, command)]
    return subprocess.run(
        argv, capture_output=True, text=True, check=False, timeout=120, stdin=subprocess.DEVNULL
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


def test_a_tracefs_that_is_not_mounted_is_mounted_where_nobody_sees_it(tmp_path: Path) -> None:
    way, why_not, _ = watched(tmp_path, WITHOUT_TRACEFS)
    assert (way, why_not) == ("ebpf", [])


def test_what_the_kernel_grants_counts_and_not_what_a_file_says(tmp_path: Path) -> None:
    way, _, _ = watched(tmp_path, LOCKED)
    assert way == "ebpf"


def test_a_process_that_runs_has_its_totals_only(tmp_path: Path) -> None:
    answer = there(
        "hide /sys/kernel/btf", sys.executable, "-m", "nfslab", "syscalls", "--pid", os.getpid(),
        "--duration", "0.1s", "--json",
    )  # fmt: skip
    assert answer.returncode == 0, answer.stderr
    found = json.loads(answer.stdout)
    assert found["way"] == "views"
    assert [way for way, _ in found["why_not"]] == ["ebpf", "shim", "strace"]
    answer = there(
        "hide /sys/kernel/btf", sys.executable, "-m", "nfslab", "syscalls", "--pid", os.getpid(),
        "--way", "ebpf",
    )  # fmt: skip
    assert answer.returncode == 1
    assert "CONFIG_DEBUG_INFO_BTF" in answer.stderr


def test_the_doctor_says_what_is_hidden() -> None:
    answer = there("hide /sys/kernel/btf", sys.executable, "-m", "nfslab", "doctor", "--json")
    probes = {probe["name"]: probe for probe in json.loads(answer.stdout)["probes"]}
    ebpf = probes["eBPF"]
    assert not ebpf["ok"]
    assert "BTF" in ebpf["found"]
    assert "CONFIG_DEBUG_INFO_BTF" in ebpf["fix"]
    assert not probes["BTF"]["ok"]
    assert probes["preload shim"]["ok"]

"""One guest, booted once: what its command sees, says and leaves."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from nfslab.vm.kernel import cache_folder

from tests.vm.guests import cached_kernels, refused

pytestmark = pytest.mark.skipif(bool(refused()), reason=refused() or "it can")
LIMIT_S = 300
CODE = """
import json, os, pathlib, sys
from nfslab.machine.emulation import is_emulated
outside = pathlib.Path(sys.argv[2])
outside.write_text("changed in the guest")
pathlib.Path("results").mkdir()
pathlib.Path("results/seen.json").write_text(json.dumps({
    "release": os.uname().release,
    "emulated": is_emulated(),
    "folder": os.getcwd(),
    "words": sys.argv[1:],
    "given": os.environ.get("NFSLAB_TEST_GIVEN"),
    "state": os.environ["NFSLAB_STATE"],
    "outside": outside.read_text(),
    "lower": [line.split()[3] for line in open("/proc/mounts") if line.split()[1] == "/"],
    "modules": sorted(os.listdir("/lib/modules/" + os.uname().release)),
}))
print("to stdout")
print("to stderr", file=sys.stderr)
open("/dev/stdout", "w").write("opened again\\n")
# What is left behind must not keep the guest up.
os.spawnlp(os.P_NOWAIT, "sleep", "sleep", "1000")
sys.exit(41)
"""
WORD = 'it\'s "$HOME" `x` \\ \n*'


@dataclass(frozen=True)
class Ran:
    """What came of it."""

    code: int
    out: str
    err: str
    folder: Path
    outside: Path


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    folder, elsewhere = tmp_path_factory.mktemp("work it"), tmp_path_factory.mktemp("elsewhere")
    outside = elsewhere / "file"
    outside.write_text("as it was")
    argv = [sys.executable, "-m", "nfslab", "vm", "run", "--kernel", cached_kernels()[0], "--"]
    done = subprocess.run(
        [*argv, sys.executable, "-c", CODE, WORD, str(outside)],
        cwd=folder,
        env=os.environ | {"NFSLAB_TEST_GIVEN": WORD},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    return Ran(done.returncode, done.stdout, done.stderr, folder, outside)


@pytest.fixture(scope="module")
def seen(ran: Ran) -> dict[str, object]:
    assert (ran.folder / "results/seen.json").exists(), ran.err
    content = json.loads((ran.folder / "results/seen.json").read_text())
    assert isinstance(content, dict)
    return content


def test_its_code_and_its_outputs_are_ours(ran: Ran) -> None:
    assert (ran.code, ran.out) == (41, "to stdout\nopened again\n")
    *ours, theirs = ran.err.splitlines()
    assert theirs == "to stderr"
    assert ours
    assert all(line.startswith("nfslab: ") for line in ours)


def test_the_kernel_is_the_one_asked_for(seen: dict[str, object]) -> None:
    assert seen["release"] == cached_kernels()[0]
    assert {"modules.dep", "kernel"} <= set(map(str, seen["modules"]))  # type: ignore[call-overload]


@pytest.mark.long
@pytest.mark.guest
def test_a_kernel_by_its_path_with_modules_of_its_own(tmp_path: Path) -> None:
    """As somebody has who built them; what the guest has as its modules is that folder."""
    release = cached_kernels()[0]
    kept = cache_folder() / "kernels" / release
    kernel, modules = tmp_path / "my kernel", tmp_path / "modules"
    shutil.copy(kept / "vmlinux", kernel)
    shutil.copytree(kept / "modules" / "lib" / "modules" / release, modules)
    (modules / "mine").write_text("of this test\n")
    argv = [sys.executable, "-m", "nfslab", "vm", "run", "--kernel", str(kernel)]
    inside = (
        f"uname -r; cat /lib/modules/{release}/mine; modprobe nfs && grep -cw nfs /proc/modules"
    )
    done = subprocess.run(
        [*argv, "--modules", str(modules), "--", "sh", "-c", inside],
        cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    seen, mine, loaded = done.stdout.splitlines()
    assert (seen, mine) == (release, "of this test")
    assert int(loaded) > 0


def test_folder_words_and_environment_arrive_unchanged(ran: Ran, seen: dict[str, object]) -> None:
    assert seen["folder"] == str(ran.folder.resolve())
    assert seen["words"] == [WORD, str(ran.outside)]
    assert seen["given"] == WORD
    assert seen["state"] != os.environ.get("NFSLAB_STATE")


def test_what_is_written_elsewhere_vanishes(ran: Ran, seen: dict[str, object]) -> None:
    assert seen["outside"] == "changed in the guest"
    assert ran.outside.read_text() == "as it was"
    assert re.search(r"\bupperdir=", str(seen["lower"]))


def test_an_emulated_guest_knows_it(ran: Ran, seen: dict[str, object]) -> None:
    assert seen["emulated"] is ("(KVM)" not in ran.err)
    assert ("no performance data" in ran.err) is seen["emulated"]


def test_nothing_is_left(ran: Ran) -> None:
    """Neither a process with the working folder in its arguments nor a folder of sockets."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        assert f"source={ran.folder}".encode() not in words

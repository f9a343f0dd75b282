"""README.md's "Needed", what of it CI's fresh pass sees, and what .ci/fresh hides."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FRESH = ROOT / ".ci" / "fresh"


def programs() -> dict[str, str]:
    """Program -> the word of the README that brings it."""
    lines = (ROOT / ".ci" / "needed").read_text("utf-8").splitlines()
    return dict(line.split() for line in lines if not line.startswith("#"))


def test_the_readme_names_what_the_fresh_pass_may_see() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    (needed,) = re.findall(r"^Needed: (.*?)\n\n", text, re.MULTILINE | re.DOTALL)
    first, _, _ = needed.partition("No root")
    words = set(re.findall(r"[\w-]+", first))
    assert set(programs().values()) <= words
    # And nothing is called needed that brings none of them.
    packages = {
        "bash",
        "coreutils",
        "findutils",
        "grep",
        "sed",
        "util-linux",
        "Python",
        "Rust",
        "gcc",
    }
    assert packages & words == set(programs().values())


@pytest.mark.skipif(shutil.which("cargo") is None, reason="no Rust")
def test_a_fresh_machine_has_these_programs_and_a_home_of_its_own(tmp_path: Path) -> None:
    """Whatever else this one has: a program beside the needed ones, HOME, what the caller set."""
    beside = tmp_path / "beside"
    beside.mkdir()
    (beside / "fio").write_text("#!/bin/sh\n", "utf-8")
    (beside / "fio").chmod(0o755)
    environment = os.environ | {
        "PATH": f"{beside}:{os.environ['PATH']}", "NFSLAB_EBPF": "0", "XDG_STATE_HOME": "/x",
        "CARGO_TARGET_DIR": "/x",
    }  # fmt: skip
    script = (
        'ls "$PATH"; echo --; echo "$HOME"; type -P fio; '
        'echo "${NFSLAB_EBPF-}${XDG_STATE_HOME-}${CARGO_TARGET_DIR-}"; '
        "cargo --version; python3 -c 'import sys; print(sys.version_info[:2])'; cc --version"
    )
    done = subprocess.run(
        [FRESH, tmp_path / "machine", "bash", "-c", script],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    listed, _, said = done.stdout.partition("--\n")
    assert set(listed.split()) == programs().keys()
    home, empty, cargo, python, compiler, *_ = said.splitlines()
    assert (home, empty) == (str(tmp_path / "machine" / "home"), "")
    assert cargo.startswith("cargo 1.")
    assert python.startswith("(3, ")
    assert compiler


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for a mount namespace")
def test_what_is_found_by_its_folder_is_hidden_from_the_command_alone(tmp_path: Path) -> None:
    place = Path("/usr/sbin")
    before = sorted(place.iterdir())
    done = subprocess.run(
        [FRESH, tmp_path / "machine", "bash", "-c", f"ls -A {place}"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if "can still be seen" in done.stderr:
        pytest.skip(done.stderr.strip())
    assert (done.returncode, done.stdout) == (0, "")
    assert sorted(place.iterdir()) == before

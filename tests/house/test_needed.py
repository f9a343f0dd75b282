"""README.md's "Needed" beside CI's minimal Debian, and the programs of which CI hides half."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.machine import needs

ROOT = Path(__file__).resolve().parents[2]
CI = ROOT / ".ci"
LOOKED_FOR = re.compile(r"""\b(?:which|_program)\(\s*["']([\w.-]+)["']""")
# Brought by what is needed (util-linux, coreutils, gcc, Rust), or by no package that CI installs.
NOT_OPTIONAL = {
    "cargo", "cc", "fincore", "gcc", "nsenter", "setpriv", "stat", "unshare",
    "apt-cache", "bindfs", "dpkg-deb", "fuse-nfs", "go-tpc", "nfsiostat", "nfstrace", "node",
    "pg_config",
}  # fmt: skip


def pairs(name: str) -> list[list[str]]:
    """Returns the two words of each line of a list in .ci."""
    lines = (CI / name).read_text("utf-8").splitlines()
    return [line.split() for line in lines if not line.startswith("#")]


def test_the_minimal_debian_has_what_the_readme_calls_needed() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    (needed,) = re.findall(r"^Needed: (.*?)\n\n", text, re.MULTILINE | re.DOTALL)
    first, _, _ = needed.partition("No root")
    words = set(re.findall(r"[\w-]+", first))
    ours = {word for word, _ in pairs("needed")}
    assert ours <= words
    # What the README lists or has installed by name is in the root, and nothing else.
    (installed,) = re.findall(r"`apt-get install ([^`]*)`", first)
    (listed,) = re.findall(r"Linux with (.*?) \(", first, re.DOTALL)
    assert (
        set(installed.split()) | set(re.findall(r"[\w-]+", listed)) - {"and"} | {"Python"} == ours
    )


def test_every_program_that_is_looked_for_can_be_hidden() -> None:
    found = {
        name
        for folder in ("python/nfslab", "tests", "benches")
        for path in (ROOT / folder).rglob("*.py")
        for name in LOOKED_FOR.findall(path.read_text("utf-8"))
    }
    optional = [program for program, _ in pairs("optional")]
    assert optional == sorted(set(optional))
    assert found - NOT_OPTIONAL <= set(optional)


@pytest.mark.system
@needs.mount
def test_a_hidden_program_is_absent_for_the_command_alone() -> None:
    here = {program for program, _ in pairs("optional") if shutil.which(program)}
    shown = [
        subprocess.run(
            [CI / "halves", "7", "bash", "-c", f"type -P {' '.join(sorted(here))}; true"],
            capture_output=True, text=True, check=True,
        ).stdout
        for _ in range(2)
    ]  # fmt: skip
    assert shown[0] == shown[1]
    seed, half, *paths = shown[0].splitlines()
    hidden = set(half.partition(": ")[2].partition(": ")[2].split())
    assert seed == ".ci/halves: seed 7"
    assert {Path(path).name for path in paths} == here - hidden
    assert all(shutil.which(program) for program in here)

"""The launcher `nfslab` on a machine that cannot build the core: what is wrong, and what helps."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def started(folder: Path, rustc: str) -> subprocess.CompletedProcess[str]:
    """A checkout without an environment, with this script for `rustc`."""
    for name in ("nfslab", "Cargo.toml", "requirements.txt"):
        shutil.copy(ROOT / name, folder)
    programs = folder / "bin"
    programs.mkdir()
    for name, script in (("cargo", "exit 0"), ("rustc", rustc)):
        (programs / name).write_text(f"#!/bin/sh\n{script}\n")
        (programs / name).chmod(0o755)
    path = f"{programs}:{os.environ['PATH']}"
    return subprocess.run(
        [folder / "nfslab", "--help"], capture_output=True, text=True, env={"PATH": path}
    )


@pytest.mark.parametrize(
    ("rustc", "what", "fix"),
    [
        ("echo no toolchain >&2; exit 1", "rustc does not run", "rustup default stable"),
        ("echo 'rustc 1.63.0 (Debian)'", "Rust 1.63.0 is too old", "rustup update stable"),
    ],
)
def test_rust_that_cannot_be_used(tmp_path: Path, rustc: str, what: str, fix: str) -> None:
    done = started(tmp_path, rustc)
    assert done.returncode == 1
    assert what in done.stderr
    assert fix in done.stderr
    assert not (tmp_path / ".venv").exists(), "nothing is made before it is known to be of use"

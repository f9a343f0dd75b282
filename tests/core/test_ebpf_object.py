"""The eBPF object that is shipped is what its source makes: compiled anew where clang is."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "crates" / "syscalls" / "bpf"
missing = [name for name in ("clang", "llvm-strip", "llvm-readelf") if not shutil.which(name)]
pytestmark = pytest.mark.skipif(
    bool(missing), reason=f"{', '.join(missing)} not installed (Debian: clang llvm)"
)


def make(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([folder / "make", *options], capture_output=True, text=True, check=False)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return shutil.copytree(FOLDER, tmp_path / "bpf")


def replaced(path: Path, old: str, new: str) -> None:
    text = path.read_text("utf-8")
    assert text.count(old) == 1
    path.write_text(text.replace(old, new), "utf-8")


@pytest.mark.system
def test_what_is_shipped_is_what_the_source_makes() -> None:
    done = make(FOLDER, "--check")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.long
def test_an_object_of_another_source_is_refused(copy: Path) -> None:
    """One figure that the programs count by, and nothing else; then a byte of the object."""
    assert make(copy).returncode == 0
    replaced(copy / "watch.bpf.c", "thread->counted = 0;", "thread->counted = 1;")
    done = make(copy, "--check")
    assert done.returncode == 1
    assert "is not what bpf/watch.bpf.c makes" in done.stderr
    assert "fix: crates/syscalls/bpf/make" in done.stderr
    replaced(copy / "watch.bpf.c", "thread->counted = 1;\n\t\tfigure(EXITED)",
             "thread->counted = 0;\n\t\tfigure(EXITED)")  # fmt: skip
    assert make(copy, "--check").returncode == 0
    damaged = bytearray((copy / "watch.o").read_bytes())
    damaged[len(damaged) // 2] ^= 1
    (copy / "watch.o").write_bytes(damaged)
    assert make(copy, "--check").returncode == 1


@pytest.mark.long
def test_without_a_compiler_it_says_what_to_install(
    copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLANG", "/nonexistent/clang")
    done = make(copy)
    assert done.returncode == 2
    assert "apt-get install clang llvm" in done.stderr

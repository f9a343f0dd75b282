"""The launcher `nfslab`: where it finds its folder, when it builds, and what helps if it cannot."""

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


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """One whose environment is ready, with a Python that tells its arguments."""
    folder = tmp_path / "a checkout"
    python = folder / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\necho python "$@"\n')
    python.chmod(0o755)
    (folder / "crates" / "one" / "tests").mkdir(parents=True)
    sources = ["crates/one/lib.rs", "crates/one/tests/a.rs", "Cargo.lock", "pyproject.toml"]
    for name in sources:
        (folder / name).write_text("")
    for name in ("nfslab", "Cargo.toml", "requirements.txt"):
        shutil.copy(ROOT / name, folder)
    (folder / ".venv" / "nfslab.ready").write_text(str(folder.resolve()))
    for path in folder.rglob("*"):
        made = 1e9 + (path.name == "nfslab.ready")
        os.utime(path, (made, made))
    return folder


def test_it_finds_its_folder_however_it_is_called(checkout: Path) -> None:
    parent = checkout.parent
    (parent / "link").symlink_to(checkout / "nfslab")
    (parent / "folder link").symlink_to(checkout)
    (parent / "elsewhere" / checkout.name).mkdir(parents=True)
    ways = [
        (parent, [str(checkout / "nfslab")]),
        (parent, ["./a checkout/nfslab"]),
        (parent, ["a checkout/nfslab"]),
        (parent, ["./link"]),
        (parent, ["./folder link/nfslab"]),
        (checkout, ["./nfslab"]),
        (checkout, ["bash", "nfslab"]),
        (checkout / "crates", ["../nfslab"]),
    ]
    env = {**os.environ, "CDPATH": str(parent / "elsewhere")}
    for cwd, command in ways:
        done = subprocess.run(
            [*command, "a b", "c"], cwd=cwd, env=env, capture_output=True, text=True
        )
        assert done.stdout == "python -m nfslab a b c\n", (command, done.stderr)


@pytest.mark.parametrize(
    ("changed", "builds"),
    [
        ("crates/one/lib.rs", True),
        ("Cargo.lock", True),
        ("requirements.txt", True),
        ("crates/one/tests/a.rs", False),
        ("nfslab", False),
    ],
)
def test_it_builds_when_what_the_core_is_made_of_changed(
    checkout: Path, changed: str, builds: bool
) -> None:
    (checkout / changed).touch()
    programs = checkout.parent / "bin"
    programs.mkdir()
    for name, script in (("cargo", "exit 0"), ("rustc", "exit 1")):
        (programs / name).write_text(f"#!/bin/sh\n{script}\n")
        (programs / name).chmod(0o755)
    path = f"{programs}:{os.environ['PATH']}"
    done = subprocess.run([checkout / "nfslab"], capture_output=True, text=True, env={"PATH": path})
    assert ("rustc does not run" in done.stderr) == builds
    assert (done.stdout == "python -m nfslab\n") == (not builds)


def test_the_first_cluster_installs_what_one_machine_does_not_need(checkout: Path) -> None:
    shutil.copy(ROOT / "requirements-cluster.txt", checkout)
    programs = checkout.parent / "bin"
    programs.mkdir()
    installer = f'echo "$@" >>"{programs}/installed"'
    for name, script in (
        ("cargo", "exit 0"),
        ("rustc", "echo rustc 999.0.0"),
        ("uv", installer),
    ):
        (programs / name).write_text(f"#!/bin/sh\n{script}\n")
        (programs / name).chmod(0o755)
    env = {"PATH": f"{programs}:{os.environ['PATH']}"}

    def said(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [checkout / "nfslab", *words], capture_output=True, text=True, env=env
        )

    assert said("run", "cluster").stderr == ""
    assert not (programs / "installed").exists()
    first = said("cluster", "check")
    assert "what several machines need" in first.stderr
    assert first.stdout == "python -m nfslab cluster check\n"
    assert (programs / "installed").read_text().count("requirements-cluster.txt") == 1
    assert said("cluster", "check").stderr == ""
    assert (programs / "installed").read_text().count("requirements-cluster.txt") == 1


def test_what_the_core_is_built_without_is_said_in_one_line(checkout: Path) -> None:
    """As cargo prints it, amid what it says besides."""
    (checkout / "crates/one/lib.rs").touch()
    maturin = checkout / ".venv" / "bin" / "maturin"
    maturin.write_text(
        "#!/bin/sh\n"
        "echo 'warning: unused variable: `left out`'\n"
        "echo 'warning: nfslab-syscalls@0.1.0: eBPF is left out: NFSLAB_EBPF=0 was set'\n"
        "echo 'warning: nfslab-syscalls@0.1.0: the preload shim is left out: cc: no (gcc)' >&2\n"
        "echo 'Finished'\n"
    )
    maturin.chmod(0o755)
    programs = checkout.parent / "bin"
    programs.mkdir()
    for name, script in (("cargo", "exit 0"), ("rustc", "echo rustc 999.0.0")):
        (programs / name).write_text(f"#!/bin/sh\n{script}\n")
        (programs / name).chmod(0o755)
    env = {"PATH": f"{programs}:{os.environ['PATH']}"}
    done = subprocess.run([checkout / "nfslab"], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    told = [line for line in done.stderr.splitlines() if "left out" in line]
    assert told == [
        "nfslab: eBPF is left out: NFSLAB_EBPF=0 was set; "
        "the preload shim is left out: cc: no (gcc)"
    ]


@pytest.mark.parametrize("slim", [False, True])
def test_the_build_folder_stays_unless_it_is_not_wanted(checkout: Path, slim: bool) -> None:
    (checkout / "crates/one/lib.rs").touch()
    maturin = checkout / ".venv" / "bin" / "maturin"
    maturin.write_text("#!/bin/sh\nmkdir -p target/release\n")
    maturin.chmod(0o755)
    programs = checkout.parent / "bin"
    programs.mkdir()
    for name, script in (("cargo", "exit 0"), ("rustc", "echo rustc 999.0.0")):
        (programs / name).write_text(f"#!/bin/sh\n{script}\n")
        (programs / name).chmod(0o755)
    env = {"PATH": f"{programs}:{os.environ['PATH']}"} | ({"NFSLAB_SLIM": "1"} if slim else {})
    done = subprocess.run([checkout / "nfslab"], capture_output=True, text=True, env=env)
    assert done.stdout == "python -m nfslab\n", done.stderr
    assert (checkout / "target").exists() != slim
    (told,) = [line for line in done.stderr.splitlines() if "on disk" in line]
    assert ("NFSLAB_SLIM" in told) != slim


def test_a_python_that_would_be_removed_is_not_used(checkout: Path) -> None:
    """That of an active .venv which has to be made anew: it once was removed, and then started."""
    (checkout / ".venv" / "nfslab.ready").unlink()
    active = checkout / ".venv" / "bin"
    (active / "python3").write_text("#!/bin/sh\nexit 0\n")
    (active / "python3").chmod(0o755)
    tools = checkout / "tools"
    tools.mkdir()
    for name in ("bash", "cat", "dirname", "find", "readlink"):
        found = shutil.which(name)
        assert found is not None
        (tools / name).symlink_to(found)
    done = subprocess.run(
        [checkout / "nfslab", "--help"], capture_output=True, text=True,
        env={"PATH": f"{active}:{tools}"},
    )  # fmt: skip
    assert done.returncode == 1
    assert "no Python 3.11 or newer" in done.stderr
    assert (active / "python3").exists()

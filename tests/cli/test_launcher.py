"""The launcher `nfslab`: where it finds its folder, when it builds, and what helps if it cannot."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.system
ROOT = Path(__file__).resolve().parents[2]
NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be another user")


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
    return made_checkout(tmp_path / "a checkout")


def made_checkout(folder: Path) -> Path:
    python = folder / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\necho python "$@"\n')
    python.chmod(0o755)
    (folder / "crates" / "one" / "tests").mkdir(parents=True)
    (folder / "python" / "nfslab").mkdir(parents=True)
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


def test_it_tells_how_it_was_called(checkout: Path) -> None:
    """What can be pasted: its name where PATH finds this very file by it."""
    python = checkout / ".venv" / "bin" / "python"
    python.write_text('#!/bin/sh\necho "$NFSLAB_CALLED"\n')
    bin = checkout.parent / "bin"
    bin.mkdir()
    (bin / "nfslab").symlink_to(checkout / "nfslab")
    ways = [
        (checkout, ["./nfslab"], "./nfslab"),
        (checkout, ["bash", "nfslab"], "./nfslab"),
        (checkout / "crates", ["../nfslab"], "../nfslab"),
        (checkout.parent, [str(checkout / "nfslab")], str(checkout / "nfslab")),
        (checkout.parent, ["bash", "-c", "nfslab"], "nfslab"),
        (checkout.parent, ["bin/nfslab"], "bin/nfslab"),
    ]
    env = {**os.environ, "PATH": f"{bin}:{os.environ['PATH']}"}
    for cwd, command, said in ways:
        done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True)
        assert done.stdout == f"{said}\n", (command, done.stderr)


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


def built(checkout: Path, maturin: str, **more: str) -> str:
    """Starts it after a change of the core, with this script for maturin; what it said."""
    # File systems count in ticks of the kernel: within one of them nothing is newer than the stamp.
    later = (checkout / ".venv" / "nfslab.ready").stat().st_mtime + 60
    os.utime(checkout / "crates/one/lib.rs", (later, later))
    python = checkout / ".venv" / "bin" / "python"
    python.write_text(f'#!/bin/sh\n[ "$1" != -c ] || exec {shlex.quote(sys.executable)} "$@"\n')
    (checkout / ".venv" / "bin" / "maturin").write_text(f"#!/bin/sh\n{maturin}\n")
    (checkout / ".venv" / "bin" / "maturin").chmod(0o755)
    programs = checkout.parent / "bin"
    programs.mkdir(exist_ok=True)
    for name, script in (("cargo", "exit 0"), ("rustc", "echo rustc 999.0.0")):
        (programs / name).write_text(f"#!/bin/sh\n{script}\n")
        (programs / name).chmod(0o755)
    env = {"PATH": f"{programs}:{os.environ['PATH']}"} | more
    done = subprocess.run([checkout / "nfslab"], capture_output=True, text=True, env=env)
    assert (done.returncode, done.stdout) == ("fail" in maturin, ""), done.stderr
    return done.stderr


MAKES = (
    "mkdir -p target/release/deps; cd target/release; echo 1 >deps/lib; ln deps/lib; chmod 755 lib"
)
#: Files of the build folder: name, time to the nanosecond, mode, links.
LISTS = "find target/release -type f -printf '%P %T@ %m %n\\n' | sort >listed"


@pytest.mark.long
def test_the_build_folder_is_packed_until_the_next_build(checkout: Path) -> None:
    release, packed = checkout / "target/release", checkout / "target/release.tar.zst"
    built(checkout, f"{MAKES}; cd ../..; {LISTS}")
    before = (checkout / "listed").read_text()
    assert len(before.splitlines()) == 2
    assert packed.exists()
    assert not release.exists()
    built(checkout, f"{LISTS}; test ! -e target/release.tar.zst")
    assert (checkout / "listed").read_text() == before
    assert packed.exists()
    assert not release.exists()
    # A packed one that cannot be read is as none.
    packed.write_bytes(packed.read_bytes()[:50])
    built(checkout, f"test ! -e target/release && {MAKES}")
    assert {entry.name for entry in packed.parent.iterdir()} == {packed.name}
    # For work on the core it is opened, and stays.
    built(checkout, "true", NFSLAB_DEV="1")
    built(checkout, "true")
    assert {entry.name for entry in packed.parent.iterdir()} == {release.name}


def test_a_build_that_fails_is_told_and_done_again(checkout: Path) -> None:
    built(checkout, MAKES)
    assert "could not be made (Rust core" in built(checkout, "echo fail; exit 1")
    (checkout / "crates/one/lib.rs").write_text("mended")
    assert "done" in built(checkout, MAKES.replace("ln", "ln -f"))


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


@needs_root
@pytest.mark.parametrize(
    ("spoil", "words", "said", "fix"),
    [
        (lambda _: None, [], "", ""),
        (
            lambda folder: (folder / "root").chmod(0o700),
            [],
            "cannot be executed by you\n  why: it is {0}/root/python, and {0}/root is open to root",
            "rm -r {0}/.venv && {0}/nfslab --set-up-only",
        ),
        (
            lambda folder: (folder / "root" / "python").unlink(),
            [],
            "cannot be executed by you\n  why: it is {0}/root/python, which is not there any more",
            "rm -r {0}/.venv && {0}/nfslab --set-up-only",
        ),
        (
            lambda folder: (folder / "Cargo.lock").touch(),
            [],
            "is older than what it is made of, and you may not renew it\n  why: {0}/.venv belongs",
            "as root: {0}/nfslab --set-up-only",
        ),
        (lambda _: None, ["cluster"], "lacks what this needs besides", "{0}/nfslab cluster --help"),
        (
            lambda folder: (folder / ".venv").chmod(0o700),
            [],
            "is closed to you",
            "chmod -R go+rX {0}/.venv",
        ),
        (lambda folder: shutil.rmtree(folder / ".venv"), [], "is not made yet", "--set-up-only"),
    ],
)
def test_what_root_made_serves_another_user_or_says_why_not(
    scratch: Path, spoil: Callable[[Path], object], words: list[str], said: str, fix: str
) -> None:
    folder = made_checkout(scratch / "checkout").resolve()
    python = folder / ".venv" / "bin" / "python"
    (folder / "root").mkdir()
    python.rename(folder / "root" / "python")
    python.symlink_to(folder / "root" / "python")
    spoil(folder)
    done = subprocess.run(
        [*NOBODY, folder / "nfslab", *words], capture_output=True, text=True, cwd="/"
    )
    if said:
        assert done.returncode == 1, done.stdout
        assert said.format(folder) in done.stderr
        assert fix.format(folder) in done.stderr
    else:
        assert done.stdout == "python -m nfslab\n", done.stderr


def set_up(
    folder: Path, pythons: dict[str, str], **environment: str
) -> subprocess.CompletedProcess[str]:
    """A set-up that downloads and builds nothing; of each Python, what is closed to others."""
    programs = folder.parent / "programs"
    for name, script in (
        ("cargo", "exit 0"),
        ("rustc", "echo rustc 999.0.0"),
        ("uv", "exit 0"),
        *(
            (f"{place}/python3", f'[ "$1" = -c ] && printf "%s\\n" "$0" venv "{closed}"\n'
             f'[ "$2" = venv ] && mkdir -p "$3/bin" "$3/lib" && cp "$0" "$3/bin/python" && '
             f'cp "$0" "$3/bin/maturin" && echo "$0" >"$3/made by"; exit 0')
            for place, closed in pythons.items()
        ),
    ):  # fmt: skip
        (programs / name).parent.mkdir(parents=True, exist_ok=True)
        (programs / name).write_text(f"#!/bin/sh\n{script}\n")
        (programs / name).chmod(0o755)
    places = ":".join(str(programs / name) for name in (".", *pythons))
    env = {"HOME": str(folder.parent), "PATH": f"{places}:{os.environ['PATH']}"} | environment
    return subprocess.run(
        [folder / "nfslab", "--set-up-only"], capture_output=True, text=True, env=env, umask=0o077
    )


def test_the_python_that_all_may_execute_is_taken_and_all_may_read(checkout: Path) -> None:
    shutil.rmtree(checkout / ".venv")
    done = set_up(checkout, {"private": "/root", "for all": ""})
    assert done.returncode == 0, done.stderr
    assert (checkout / ".venv" / "made by").read_text().endswith("/for all/python3\n")
    made = [checkout / ".venv", *(checkout / ".venv").rglob("*")]
    wanted = 0o044 if os.geteuid() == 0 else 0
    assert {path.stat().st_mode & 0o044 for path in made} == {wanted}, "umask 077"
    assert "other users cannot" not in done.stderr


@needs_root
def test_a_python_that_others_may_not_execute_is_said(checkout: Path) -> None:
    shutil.rmtree(checkout / ".venv")
    private = checkout.parent / "programs" / "private" / "python3"
    done = set_up(checkout, {"private": "/root"}, NFSLAB_PYTHON=str(private))
    assert done.returncode == 0, done.stderr
    assert "other users cannot use this environment: /root" in done.stderr


def test_after_the_first_set_up_it_says_how_to_call_it_from_anywhere(checkout: Path) -> None:
    shutil.rmtree(checkout / ".venv")
    done = set_up(checkout, {"for all": ""})
    (said,) = [line for line in done.stderr.splitlines() if "from any folder: " in line]
    words = shlex.split(said.partition("from any folder: ")[2])
    place = "/usr/local/bin" if os.geteuid() == 0 else f"{checkout.parent}/.local/bin"
    assert words[-4:] == ["ln", "-s", str(checkout / "nfslab"), f"{place}/nfslab"]
    again = set_up(checkout, {"for all": ""})
    assert again.stderr == ""
    shutil.rmtree(checkout / ".venv")
    (checkout.parent / "programs" / "nfslab").symlink_to(checkout / "nfslab")
    assert "from any folder" not in set_up(checkout, {"for all": ""}).stderr


@pytest.mark.parametrize("open_to", ["all", "root"])
def test_a_python_tells_what_is_closed_to_others(
    scratch: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], open_to: str
) -> None:
    """The launcher's own lines, as root who works in a checkout that is open to all."""
    _, _, rest = (ROOT / "nfslab").read_text("utf-8").partition("judged='")
    lines, _, _ = rest.partition("'")
    private = scratch / "home" / "python"
    private.mkdir(parents=True)
    (scratch / "home").chmod(0o700 if open_to == "root" else 0o755)
    executable = private / "python3"
    executable.write_text("")
    executable.chmod(0o755)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "__file__", str(private / "os.py"))
    monkeypatch.setattr(sys, "_base_executable", str(executable))
    monkeypatch.setattr(sys, "argv", ["-c", str(scratch)])
    exec(lines, {})
    told = capsys.readouterr().out.splitlines()
    assert told == [
        sys.executable, "venv", str(scratch / "home") if open_to == "root" else "",
    ]  # fmt: skip

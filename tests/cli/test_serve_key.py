"""`nfslab serve DIR` keeps the key of its handles where its user alone may read it."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from nfslab._core import CoreError, Server

if TYPE_CHECKING:
    from pathlib import Path

LIMIT_S = 120


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "state"
    monkeypatch.setenv("NFSLAB_STATE", str(folder))
    return folder


@pytest.fixture
def export(tmp_path: Path) -> Path:
    folder = tmp_path / "export"
    folder.mkdir()
    return folder


def serve(folder: Path) -> subprocess.Popen[str]:
    argv = [sys.executable, "-m", "nfslab", "serve", str(folder), "--port", "0", "--json"]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def key_of(process: subprocess.Popen[str]) -> tuple[dict[str, Any], str]:
    """What it says of its key when it is ready, and on standard error until its end."""
    assert process.stdout is not None
    ready = json.loads(process.stdout.readline())
    process.terminate()
    _, told = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0, told
    key: dict[str, Any] = ready["handle_key"]
    return key, told


def only_key(state: Path) -> Path:
    (key,) = (state / "handle-keys").glob("*.key")
    return key


def test_the_key_is_its_users_alone_and_outlives_the_server(state: Path, export: Path) -> None:
    first, told = key_of(serve(export))
    path = only_key(state)
    assert (first["origin"], first["file"], told) == ("made", str(path), "")
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    key = path.read_bytes()
    assert len(key) == 16
    # The same folder by another way of writing it.
    link = export.parent / "link"
    link.symlink_to(export)
    again, told = key_of(serve(link))
    assert (again["origin"], told) == ("kept", "")
    assert only_key(state).read_bytes() == key
    assert sorted(os.listdir(path.parent)) == sorted([path.name, "lock"])


def test_each_folder_has_a_key_of_its_own(state: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        assert key_of(serve(tmp_path / name))[0]["origin"] == "made"
    one, other = (state / "handle-keys").glob("*.key")
    assert one.read_bytes() != other.read_bytes()


def test_servers_that_start_at_once_have_one_key(state: Path, export: Path) -> None:
    servers = [serve(export) for _ in range(4)]
    origins = sorted(key_of(server)[0]["origin"] for server in servers)
    assert origins == ["kept", "kept", "kept", "made"]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o666])
def test_a_key_that_others_could_read_is_made_anew(state: Path, export: Path, mode: int) -> None:
    key_of(serve(export))
    path = only_key(state)
    key = path.read_bytes()
    path.chmod(mode)
    anew, told = key_of(serve(export))
    assert anew["origin"] == "made anew"
    assert f"{mode:04o}" in anew["why"]
    # One sentence, which names the file.
    assert told.count("\n") == 1
    assert str(path) in told
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_bytes() != key
    assert key_of(serve(export))[0]["origin"] == "kept"


def asked(export: Path, key_file: Path) -> dict[str, Any]:
    with Server(
        json.dumps({"store": "directory", "path": str(export), "key_file": str(key_file)})
    ) as server:
        key: dict[str, Any] = server.model()["handle_key"]
        return key


def test_what_is_no_key_is_made_anew(tmp_path: Path, export: Path) -> None:
    folder = tmp_path / "keys"
    path = folder / "k"
    assert asked(export, path)["origin"] == "made"
    for wrong in (b"", b"x" * 15, b"x" * 17, b"x" * (1 << 20)):
        path.write_bytes(wrong)
        assert asked(export, path)["origin"] == "made anew"
        assert len(path.read_bytes()) == 16
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(b"0123456789abcdef")
    elsewhere.chmod(0o600)
    path.unlink()
    path.symlink_to(elsewhere)
    assert asked(export, path)["origin"] == "made anew"
    assert not path.is_symlink()
    assert elsewhere.read_bytes() == b"0123456789abcdef"
    path.unlink()
    os.mkfifo(path, 0o600)
    assert asked(export, path)["origin"] == "made anew"
    # What a server left that was killed while it wrote.
    path.unlink()
    (folder / "k.new").write_bytes(b"half")
    assert asked(export, path)["origin"] == "made"


def test_a_folder_open_to_others_is_closed(tmp_path: Path, export: Path) -> None:
    folder = tmp_path / "keys"
    folder.mkdir()
    folder.chmod(0o777)
    asked(export, folder / "k")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give files to somebody else")
def test_what_somebody_else_owns_is_not_believed(tmp_path: Path, export: Path) -> None:
    folder = tmp_path / "keys"
    path = folder / "k"
    asked(export, path)
    os.chown(path, 1234, -1)
    anew = asked(export, path)
    assert anew["origin"] == "made anew"
    assert "1234" in anew["why"]
    assert path.stat().st_uid == 0
    os.chown(folder, 1234, -1)
    with pytest.raises(CoreError) as refused:
        asked(export, path)
    assert "1234" in str(refused.value.why)


def test_without_a_file_handles_end_with_the_server(export: Path) -> None:
    for store in ({"store": "directory", "path": str(export)}, {"store": "memory"}):
        with Server(json.dumps(store)) as server:
            assert server.model()["handle_key"] == {"origin": "of this start"}
    with pytest.raises(CoreError):
        Server(json.dumps({"store": "memory", "key_file": "/nowhere/k"}))

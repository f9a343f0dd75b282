"""The key of a served folder's handles: where its user alone may read it, and for how long."""

from __future__ import annotations

import json
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from nfslab._core import CoreError, Server

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.system


@pytest.fixture
def export(tmp_path: Path) -> Path:
    folder = tmp_path / "export"
    folder.mkdir()
    return folder


def asked(export: Path, key_file: Path) -> dict[str, Any]:
    with Server(
        json.dumps({"store": "directory", "path": str(export), "key_file": str(key_file)})
    ) as server:
        key: dict[str, Any] = server.model()["handle_key"]
        return key


def test_the_key_is_its_users_alone_and_outlives_the_server(tmp_path: Path, export: Path) -> None:
    path = tmp_path / "keys" / "k"
    first = asked(export, path)
    assert (first["origin"], first["file"]) == ("made", str(path))
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    key = path.read_bytes()
    assert len(key) == 16
    assert asked(export, path)["origin"] == "kept"
    assert path.read_bytes() == key
    assert sorted(os.listdir(path.parent)) == ["k", "lock"]
    assert asked(export, path.with_name("other"))["origin"] == "made"
    assert path.with_name("other").read_bytes() != key
    for mode in (0o640, 0o604, 0o620, 0o666):
        path.chmod(mode)
        anew = asked(export, path)
        assert (anew["origin"], f"{mode:04o}" in anew["why"]) == ("made anew", True)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert path.read_bytes() != key, "others could read it"
    assert asked(export, path)["origin"] == "kept"


def test_servers_that_start_at_once_have_one_key(tmp_path: Path, export: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        found = [pool.submit(asked, export, tmp_path / "k") for _ in range(4)]
    origins = sorted(one.result()["origin"] for one in found)
    assert origins == ["kept", "kept", "kept", "made"]


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

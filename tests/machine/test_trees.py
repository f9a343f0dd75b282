"""Removing folders: everything inside, nothing outside."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from nfslab.errors import RunFailed
from nfslab.machine import trees
from nfslab.machine.resources import Resources
from nfslab.machine.trees import names_token, remove_tree
from nfslab.machine.users import unprivileged_user

from tests.machine import needs


def test_the_token_must_be_in_the_path() -> None:
    assert names_token(Path("/var/tmp/nfslab-00ff-x/inside"), "00ff")
    assert not names_token(Path("/var/tmp/nfslab"), "00ff")
    assert not names_token(Path("/var/tmp"), "")


def test_everything_inside_goes_and_links_are_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (outside / "deep").mkdir(parents=True)
    (outside / "file").write_text("kept")
    tree = tmp_path / "tree"
    (tree / "a" / "b").mkdir(parents=True)
    (tree / "a" / "b" / "file").write_text("x")
    (tree / "link").symlink_to(outside)
    (tree / "broken").symlink_to("nowhere")
    (tree / "hard").hardlink_to(outside / "file")
    os.mkfifo(tree / "fifo")
    assert remove_tree(tree) is True
    assert not tree.exists()
    assert (outside / "file").read_text() == "kept"
    assert (outside / "deep").is_dir()
    assert remove_tree(tree) is False


def test_a_link_on_the_way_is_refused(tmp_path: Path) -> None:
    real = tmp_path / "real"
    (real / "tree").mkdir(parents=True)
    (tmp_path / "link").symlink_to(real)
    with pytest.raises(OSError, match="Not a directory"):
        remove_tree(tmp_path / "link" / "tree")
    assert (real / "tree").is_dir()


def test_a_folder_its_owner_has_closed_goes_too(tmp_path: Path) -> None:
    closed = tmp_path / "tree" / "closed"
    closed.mkdir(parents=True)
    (closed / "file").write_text("x")
    closed.chmod(0)
    assert remove_tree(tmp_path / "tree") is True


def test_a_bottomless_tree_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trees, "DEPTH_MAX", 5)
    (tmp_path / "tree" / "/".join("abcdefgh")).mkdir(parents=True)
    with pytest.raises(RunFailed, match="levels deep"):
        remove_tree(tmp_path / "tree")


@needs.root
@needs.setpriv
@pytest.mark.system
def test_where_root_may_not_the_owner_may(
    scratch: Path, resources: Resources, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on an NFS export that squashes root: mkdir, chown and unlink are refused to it."""
    user = unprivileged_user()
    assert user is not None
    shared = scratch / "shared"
    shared.mkdir()
    shared.chmod(0o1777)

    def squashed(*arguments: object, **options: object) -> None:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(os, "chown", squashed)
        entry = resources.make_directory(shared / resources.name, owner=user)
    facts = entry.path.stat()
    assert facts.st_uid == user
    assert stat.S_IMODE(facts.st_mode) == 0o700
    (entry.path / "file").write_text("x")
    with monkeypatch.context() as patch:
        patch.setattr(trees, "_remove", squashed)
        assert "removed" in entry.undo()
    assert not entry.path.exists()
    with monkeypatch.context() as patch:
        patch.setattr(os, "chown", squashed)
        shared.chmod(0o755)
        with pytest.raises(PermissionError):
            resources.make_directory(shared / resources.name, owner=user)
    assert list(shared.iterdir()) == []
    assert resources.close() == []

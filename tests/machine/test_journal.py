"""Journals: whole or torn, locked or abandoned, on a full disk."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest
from nfslab.errors import NfslabError, RunFailed
from nfslab.machine import journal as journals
from nfslab.machine.journal import Journal, is_alive, parse
from nfslab.machine.resources import Entry, Resources

HEADER = {"nfslab_journal": 1, "token": "00112233445566ff", "pid": 1, "start_ticks": 1}
LINES = [
    HEADER,
    {"op": "intent", "id": 1, "kind": "directory", "what": {"path": "/a"}},
    {"op": "intent", "id": 2, "kind": "process", "what": {"command": "x"}},
    {"op": "bind", "id": 2, "what": {"pid": 77, "start_ticks": 5}},
    {"op": "release", "id": 1},
]


def encoded(lines: list[dict[str, object]]) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def test_open_entries_are_those_without_a_release() -> None:
    content = parse(encoded(LINES))
    assert content is not None
    assert [(e.number, e.kind, e.what) for e in content.open] == [
        (2, "process", {"command": "x", "pid": 77, "start_ticks": 5})
    ]


def test_a_journal_cut_anywhere_means_its_whole_lines() -> None:
    """A kill or a power loss may cut the file at any byte."""
    text = encoded(LINES)
    ends = [i + 1 for i, byte in enumerate(text) if byte == ord("\n")]
    for cut in range(len(text) + 1):
        whole = sum(end <= cut for end in ends)
        # A line without its newline is whole as well if all its characters are there.
        whole += (cut + 1) in ends
        content = parse(text[:cut])
        if whole == 0:
            assert content is None
            continue
        expected = parse(encoded(LINES[:whole]))
        assert content is not None
        assert expected is not None
        assert [e.what for e in content.open] == [e.what for e in expected.open], cut


def test_a_foreign_or_newer_file_is_not_understood() -> None:
    assert parse(b"hello\n") is None
    assert parse(b"") is None
    assert parse(encoded([HEADER | {"nfslab_journal": 2}])) is None


def test_a_live_journal_cannot_be_adopted_a_closed_one_can(state: Path) -> None:
    state.mkdir()
    journal = Journal.create(state / "journals", "00112233445566ff", "x")
    assert Journal.adopt(journal.path) is None
    journal.append({"op": "intent", "id": 1, "kind": "mount", "what": {}}, durable=True)
    journal.close()
    adopted = Journal.adopt(journal.path)
    assert adopted is not None
    content = adopted.read()
    assert content is not None
    assert len(content.open) == 1
    assert content.header["pid"] == os.getpid()
    assert is_alive(content.header)
    assert not is_alive(content.header | {"start_ticks": 1}), "a reused process id"
    assert not is_alive(content.header | {"boot_id": "another"}), "after a reboot"
    adopted.remove()
    assert Journal.adopt(journal.path) is None


def test_appending_after_a_torn_line_starts_a_new_one(state: Path) -> None:
    state.mkdir()
    path = state / "00112233445566ff.jsonl"
    path.write_bytes(encoded(LINES)[:-5])
    adopted = Journal.adopt(path)
    assert adopted is not None
    content = adopted.read()
    assert content is not None
    assert [e.number for e in content.open] == [1, 2]
    adopted.append({"op": "release", "id": 2}, durable=False)
    again = adopted.read()
    assert again is not None
    assert [e.number for e in again.open] == [1]
    adopted.close()


def test_an_unborn_journal_is_removed(state: Path) -> None:
    folder = state / "journals"
    folder.mkdir(parents=True)
    unborn = folder / f"{journals.UNBORN}00112233445566ff"
    unborn.write_text('{"half')
    journals.remove_unborn(folder)
    assert not unborn.exists()


def test_an_idle_journal_does_not_grow(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journals, "COMPACT_BYTES", 4000)
    with Resources("busy") as resources:
        path = state / "journals" / f"{resources.token}.jsonl"
        header = path.stat().st_size
        sizes = []
        for _ in range(100):
            resources.process(None, ["x" * 100]).release()
            sizes.append(path.stat().st_size)
        assert max(sizes) > 5 * header, "it grew at all"
        assert max(sizes) < journals.COMPACT_BYTES + 1000
        content = parse(path.read_bytes())
        assert content is not None
        assert content.open == []
    assert not path.exists()


def test_the_state_folder_must_be_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NFSLAB_STATE", str(tmp_path / "file"))
    (tmp_path / "file").write_text("")
    with pytest.raises(NfslabError) as failed:
        journals.state_folder()
    assert "NFSLAB_STATE" in failed.value.fix
    monkeypatch.delenv("NFSLAB_STATE")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home"))
    assert journals.state_folder() == tmp_path / "home" / "nfslab"
    (tmp_path / "home" / "nfslab").chmod(0o777)
    fallback = Path(f"/var/tmp/nfslab-{os.geteuid()}")
    there_before = fallback.exists()
    assert journals.state_folder() == fallback, "others may write to the first one"
    if not there_before:
        fallback.rmdir()


def test_on_a_full_disk_nothing_is_made_and_the_journal_stays_whole(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last write that finds some room is a short one, as write(2) has it."""
    real, room = os.write, 4000

    def write(descriptor: int, data: bytes) -> int:
        nonlocal room
        if not room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        done = real(descriptor, data[:room])
        room -= done
        return done

    with Resources("full") as resources:
        path = state / "journals" / f"{resources.token}.jsonl"
        entries: list[Entry] = []
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", write)
            with pytest.raises(RunFailed, match="cannot write the journal"):
                entries.extend(resources.process(None, ["y" * 150]) for _ in range(1000))
            assert len(entries) > 10
            with pytest.raises(RunFailed, match="cannot write the journal"):
                resources.process(None, ["none"])
        assert path.read_bytes().endswith(b"\n")
        content = parse(path.read_bytes())
        assert content is not None
        assert len(content.open) == len(entries)
        resources.process(None, ["again"]).release()
    assert not path.exists()


def test_a_journal_that_cannot_be_begun_leaves_nothing(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a file, nor one that is open and locked for as long as the process lives."""

    def failing(folder: Path) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(folder))

    state.mkdir()
    monkeypatch.setattr(journals, "fsync_path", failing)
    before = os.listdir("/proc/self/fd")
    with pytest.raises(RunFailed, match="cannot write the journal"):
        Journal.create(state / "journals", "00112233445566ff", "x")
    assert os.listdir("/proc/self/fd") == before
    assert os.listdir(state / "journals") == [".lock"]


def test_a_journal_that_cannot_be_removed_lets_its_lock_go(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(path: Path, missing_ok: bool = False) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    with monkeypatch.context() as patch:
        resources = Resources("on a disk that became read-only", state=state)
        patch.setattr(Path, "unlink", failing)
        (told,) = resources.close()
    assert "could not remove the journal" in told
    adopted = Journal.adopt(state / "journals" / f"{resources.token}.jsonl")
    assert adopted is not None
    adopted.remove()

"""Journals of files that are read side by side: none is left behind, few are held, and one that is
half written, damaged or not there gives an error or reading in a row, and no other figure.
"""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from nfslab.captures import side_by_side
from nfslab.captures.analysis import Asked
from nfslab.captures.followed import Followed
from nfslab.captures.pool import Pool
from nfslab.captures.side_by_side import NotSideBySide, read_side_by_side
from nfslab.captures.stretches import DoNotFitError, Stretch
from nfslab.cluster.here import AgentHere
from nfslab.errors import NfslabError, RunFailed

from tests.captures.test_side_by_side import (
    Watched,
    busy,
    cut,
    files,
    many_processors,
    same,
    watched,
)  # fmt: skip
from tests.cli.invocation import nfslab

__all__ = ["busy", "files", "many_processors", "watched"]
STALLS = Asked(("operations", "clients", "stalls", "points"))


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Path]:
    """A folder that is as empty at the end as it was."""
    made = tmp_path / "spool"
    made.mkdir()
    yield made
    assert not list(made.iterdir())


def rows_too(tmp_path: Path, *, by_file: bool = False) -> Asked:
    return Asked(STALLS.lenses, calls=tmp_path / "calls", calls_by_file=by_file)


def interrupt(*_: Any) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("by_file", [False, True])
@pytest.mark.parametrize("where", ["_hear", "is_done"])
def test_an_interruption_leaves_no_process_no_journal_and_no_rows(
    where: str,
    by_file: bool,
    files: list[Path],
    spool: Path,
    tmp_path: Path,
    watched: Watched,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """While others read, and while the last journals are played."""
    monkeypatch.setattr(Pool if where == "_hear" else Followed, where, interrupt)
    with pytest.raises(KeyboardInterrupt):
        read_side_by_side(files, rows_too(tmp_path, by_file=by_file), 2, spool=spool)
    assert len(watched.started) == 2
    assert all(process.poll() is not None for process in watched.started)
    assert list(tmp_path.iterdir()) == [spool]


def test_who_is_killed_leaves_journals_until_the_next_start(files: list[Path], spool: Path) -> None:
    """At its first progress, which a process tells after 16 MiB."""
    program = """if True:
        import os, signal, sys
        from pathlib import Path
        from nfslab.captures.analysis import Asked
        from nfslab.captures.side_by_side import read_side_by_side
        spool, *files = map(Path, sys.argv[1:])
        kill = lambda state: os.kill(os.getpid(), signal.SIGKILL)
        read_side_by_side(files, Asked(("operations", "stalls")), 2, kill, spool=spool)
    """
    command = [sys.executable, "-c", program, str(spool), *map(str, files)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    assert list(spool.glob("*/*"))
    read_side_by_side(files, STALLS, 2, spool=spool)


def test_a_half_journal_of_a_lost_process_is_not_taken(
    files: list[Path], spool: Path, watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell, told = AgentHere.tell, []

    def half(agent: AgentHere, name: str, **content: Any) -> None:
        told.append(Path(content["journal"]))
        if len(told) > 1:
            tell(agent, name, **content)
            return
        told[0].write_bytes(b"half a journal")
        watched.started[0].kill()

    monkeypatch.setattr(AgentHere, "tell", half)
    same(read_side_by_side(files, STALLS, 2, spool=spool), files, STALLS)
    assert len(told) == len(set(told)) == 3


def test_a_spool_without_room_is_named(
    files: list[Path], spool: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A process may write no file of more than 1 MiB; a journal of these has 3."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, hard))
    try:
        rows = ["--calls", tmp_path / "calls.parquet"]
        said = nfslab(capsys, "trace", "--workers", 2, "--spool", spool, *rows, *files)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert said.code == 1
    assert str(spool) in said.err
    assert "--spool" in said.err
    assert list(tmp_path.iterdir()) == [spool]


def test_a_spool_that_cannot_be_made_is_told(
    files: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    said = nfslab(capsys, "trace", "--workers", 2, "--spool", "/proc", *files)
    assert (said.code, "--spool" in said.err) == (1, True)


def test_rows_that_cannot_be_written_end_it(
    files: list[Path], spool: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("nfslab.captures.parquet.write_calls", full)
    with pytest.raises(RunFailed, match="cannot write the calls") as refused:
        read_side_by_side(files, rows_too(tmp_path), 2, spool=spool)
    assert refused.value.why == "No space left on device"
    assert list(tmp_path.iterdir()) == [spool]


Damage = Callable[[Path], object]


def replaced(journal: Path, make: Callable[[Path], object]) -> None:
    journal.unlink()
    make(journal)


def hostile(damage: Damage, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a process says it wrote is something else."""
    take = Followed.take

    def taken(followed: Followed, task: Stretch, part: bytes) -> None:
        damage(followed._journals[task])
        take(followed, task, part)

    monkeypatch.setattr(Followed, "take", taken)


@pytest.mark.parametrize(
    "damage", [Path.unlink, lambda it: replaced(it, os.mkfifo), lambda it: replaced(it, Path.mkdir)]
)
def test_a_journal_that_is_no_file_is_no_answer(
    damage: Damage, files: list[Path], spool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hostile(damage, monkeypatch)
    with pytest.raises(RunFailed, match="no answer that can be taken") as refused:
        read_side_by_side(files, STALLS, 2, spool=spool)
    assert "it left no journal" in refused.value.why


@pytest.mark.parametrize(
    "damage",
    [
        lambda it: it.write_bytes(b""),
        lambda it: it.write_bytes(it.read_bytes()[:-1]),
        lambda it: it.write_bytes(b"\xff" * 100),
        lambda it: it.write_bytes(random.Random(1).randbytes(100_000)),
    ],
)
def test_a_journal_that_is_none_is_read_in_a_row(
    damage: Damage, files: list[Path], spool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hostile(damage, monkeypatch)
    with pytest.raises(NotSideBySide):
        read_side_by_side(files, STALLS, 2, spool=spool)


@pytest.mark.parametrize("seed", range(20))
def test_any_bytes_within_a_journal_crash_nothing(
    seed: int, files: list[Path], spool: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    drawn = random.Random(seed)

    def damage(journal: Path) -> None:
        content = bytearray(journal.read_bytes())
        for _ in range(drawn.choice((1, 10, 1000))):
            content[drawn.randrange(len(content))] = drawn.randrange(256)
        journal.write_bytes(content)

    hostile(damage, monkeypatch)
    said = "nothing"
    try:
        read_side_by_side(files, rows_too(tmp_path), 2, spool=spool)
    except (NfslabError, NotSideBySide) as error:
        said = str(error)
    assert "panicked" not in said


def test_what_follows_already_is_not_read_again_alone(
    busy: bytes, spool: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first parts fit each other, and both together do not fit the third."""
    join, made = side_by_side._join, []

    def refused(one: bytes, other: bytes) -> bytes:
        if one in made:
            raise DoNotFitError("it looks back behind both")
        made.append(join(one, other))
        return made[-1]

    monkeypatch.setattr(side_by_side, "_join", refused)
    paths = cut(busy, tmp_path, 8)
    with pytest.raises(NotSideBySide, match="looks back behind both"):
        read_side_by_side(paths, STALLS, 1, spool=spool)


class Threads:
    """Instead of the core's."""

    def __init__(self, *_: Any) -> None:
        self.waits: list[bytes] = []

    def follow(self, part: bytes, _journal: Path) -> None:
        self.waits.append(part)

    def waiting(self) -> int:
        return len(self.waits)


def test_files_are_begun_while_few_journals_are_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nfslab._core.Following", Threads)
    followed = Followed(STALLS, 2, tmp_path)
    threads: Any = followed.lenses
    tasks = [Stretch(number, number + 1) for number in range(100)]

    def read(task: Stretch) -> None:
        Path(followed.order(task)["journal"]).write_text(json.dumps(task.first))
        followed.take(task, b"%d" % task.first)

    def begun() -> int:
        count = 0
        while followed.may_begin(task := tasks[followed._begun]):
            read(task)
            count += 1
        return count

    assert begun() == 6
    # The second one has to be read again, with the third.
    assert followed.give_up(Stretch(1, 3))
    assert sorted(path.read_text() for path in tmp_path.iterdir()) == ["0", "3", "4", "5"]
    assert followed.may_begin(Stretch(1, 3))
    read(Stretch(1, 3))
    followed.go_on(lambda task: task.first < 4)
    assert threads.waits == [b"0", b"1", b"3"]
    assert not followed.give_up(Stretch(3, 5))
    assert begun() == 1
    threads.waits.clear()
    assert followed.is_done()
    assert begun() == 3

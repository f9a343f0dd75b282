"""After any crash the next start loses nothing, counts nothing half, and ends with the plan.

One experiment runs once, and every state is kept that a kill or a loss of power may leave on disk
(`tests.crash_states`): before each operation on its results and journals, within each write, with
and without what was not synced. Each is laid down and the experiment started on it.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from nfslab.errors import NfslabError
from nfslab.experiment import provenance, shared
from nfslab.experiment import session as sessions
from nfslab.experiment.plan import planned_runs
from nfslab.experiment.reading import read_experiment
from nfslab.experiment.session import Options, run_experiment
from nfslab.experiment.stop import Stop
from nfslab.machine import journal as journals
from nfslab.machine import mounts, processes, undo
from nfslab.machine.journal import Journal
from nfslab.machine.processes import Identity
from nfslab.results import store
from nfslab.results.catalogue import newest_attempts, read_every_run
from nfslab.results.checksums import CHECKSUMS

from tests.crash_states import Failing, Recorder, State, Tree, lay_down, tree_of
from tests.experiment.fakes import give_passes
from tests.experiment.session_support import (
    Told,
    left_behind,
    only_folder,
    processes_of_state,
    records,
)
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nfslab.experiment.plan import PlannedRun
    from nfslab.results.records import CatalogueLine, Metric

LAUNCHER = Path(__file__).with_name("launcher.py")
FILE = """\
[experiment]
name = "test"
repetitions = {repetitions}
seed = 7
collectors = ["watcher"]

[limits]
drop_page_cache = false

[targets.one]
kind = "folder"
path = "{folder}"

[workload]
kind = "formula"
data = "one"

[[axes]]
parameter = "workload.clients"
values = {clients}
"""


class Known(BaseException):
    """What a start would go on from has been gone on from before."""


class Watching(Told):
    """Knows which runs were told to be finished, and looks when cleaning up is over."""

    def __init__(self, cleaned: Callable[[], None] = lambda: None) -> None:
        super().__init__()
        self.finished: set[str] = set()
        self.cleaned = cleaned

    def begin(self, total: int, done: int, left_s: float | None) -> None:
        self.cleaned()

    def run_ended(
        self,
        run: PlannedRun,
        line: CatalogueLine,
        primary: tuple[str, Metric] | None,
        left_s: float | None,
    ) -> None:
        self.finished.add(line.run_id)


class Walk:
    """An experiment in a folder, and its start on whatever a crash has left."""

    def __init__(self, base: Path, blocks: int, points: int) -> None:
        self.base = base
        self.blocks = blocks
        text = FILE.format(folder=base / "places", repetitions=blocks, clients=[1, 2][:points])
        self.file = base / "test.toml"
        self.file.write_text(text)
        for folder in (base / "places", base / "cache", base / "home"):
            folder.mkdir(exist_ok=True)
        self.gone_on_from: set[State] = set()

    def record(self, *, until_cleaned: bool = False) -> Recorder:
        """Every state that a crash may leave of a start; what was sealed stays, whole."""

        def look_at(crash: str, left: Tree, live: Tree) -> None:
            kept = sealed_files(left)
            assert kept.items() <= sealed_files(live).items(), f"half a run counts: {crash}"
            assert before.items() <= kept.items(), f"a run is lost: {crash}"
            for run_id in view.finished:
                assert any(f"/{run_id}/" in name for name in kept), f"{run_id} is lost: {crash}"
                whole = {n: c for n, c in sealed_files(live).items() if f"/{run_id}/" in n}
                assert whole.items() <= kept.items(), f"{run_id} is not whole: {crash}"

        before = sealed_files(tree_of(str(self.base)))
        view = Watching(self.end if until_cleaned else lambda: None)
        recorder = Recorder(self.base, look_at)
        with recorder.watched():
            self.run(view)
        return recorder

    def end(self) -> None:
        raise Known

    def run(self, view: Watching) -> None:
        """Starts the experiment."""
        try:
            run_experiment(Options(file=self.file, results=self.file.parent / "results"), view)
        except Known:
            return

    def start_on(self, state: State, crash: str) -> None:
        """Starts on what a crash left: it cleans up, goes on, and ends with the plan."""
        lay_down(self.base, state)

        def cleaned() -> None:
            tree = tree_of(str(self.base))
            assert sealed_files(dict(state)).items() <= tree.items(), f"a run is lost: {crash}"
            assert left(tree) == [], crash
            found = tuple(sorted(tree.items()))
            if found in self.gone_on_from:
                raise Known
            self.gone_on_from.add(found)

        view = Watching(cleaned)
        self.run(view)
        assert "could not" not in view.text, crash
        if view.finished:
            self.require_plan()

    def start_on_each(self, recorder: Recorder) -> None:
        """Starts on every state that was recorded."""
        for state, crash in recorder.states.items():
            self.start_on(state, crash)

    def require_plan(self, *, with_failed: bool = False) -> None:
        """Exactly the planned runs are there, each with its own figure; nothing else is left."""
        experiment = read_experiment(self.file)
        planned = planned_runs(experiment.points, self.blocks, "blocks", seed=7)
        folder = only_folder(self.file)
        found = records(folder)
        good = [r for r in found if r.status == "ok"]
        assert with_failed or good == found
        assert with_failed or {r.run_id for r in good} == {run.run_id for run in planned}
        measured = sorted((r.point_id, r.block) for r in good)
        assert measured == sorted((run.point.point_id, run.block) for run in planned)
        assert len({r.position for r in found}) == len(found)
        assert all(r.metrics["rate_per_s"].value == 100.0 * r.factors["clients"] for r in good)
        assert all((folder.runs_path / r.run_id / CHECKSUMS).is_file() for r in found)
        catalogue = folder.catalogue("whole")
        assert (catalogue.damaged, catalogue.partial) == ({}, [])
        assert {line.status for line in newest_attempts(catalogue.lines)} == {"ok"}
        assert read_every_run(folder.path)[0].lines == catalogue.lines
        assert left(tree_of(str(self.base))) == []


def left(tree: Tree) -> list[str]:
    """Whatever a start has to clean up."""
    marks = ("/nfslab-", "/.partial-", "/.writing-", "/journals/")
    return [n for n in tree if any(mark in n for mark in marks) and not n.endswith("/.lock")]


def most(recorder: Recorder) -> State:
    """The state with something to clean up in most places, and most of it."""

    def amount(state: State) -> tuple[int, int]:
        names = left(dict(state))
        return len({name.partition("/")[0] for name in names}), len(names)

    return max(recorder.states, key=amount)


def sealed_files(tree: Tree) -> Tree:
    """Whatever is in a run's folder under its final name."""
    return {n: c for n, c in tree.items() if "/runs/b" in n and n.startswith("results/")}


@pytest.fixture
def walk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int, int], Walk]]:
    """Of so many blocks and points, in memory where there is a file system in memory.

    Whoever is recorded is dead for whoever comes after. What a start asks of the machine and of the
    experiment's file is asked once."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else tmp_path
    base = Path(tempfile.mkdtemp(prefix="nfslab-test-", dir=memory)).resolve()
    monkeypatch.setenv("NFSLAB_STATE", str(base / "home" / "state"))
    monkeypatch.setattr(shared, "CACHE_PLACES", (base / "cache",))
    monkeypatch.setattr(journals, "identity_of", lambda pid: Identity(pid, 1))
    monkeypatch.setattr(processes, "all_statuses", list)
    monkeypatch.setattr(provenance, "_told_commit", ("0" * 40, False))
    monkeypatch.setattr(Stop, "__enter__", lambda stop: stop)
    table = [mount for mount in mounts.mounts() if base.is_relative_to(mount.mount_point)]
    monkeypatch.setattr(mounts, "mounts", lambda: table)
    machine = provenance.fingerprint()
    monkeypatch.setattr(provenance, "fingerprint", lambda: machine)
    read = functools.cache(sessions.read_options)
    monkeypatch.setattr(sessions, "read_options", read)
    yield lambda blocks, points: Walk(base, blocks, points)
    shutil.rmtree(base)


def test_after_a_crash_at_any_operation_the_next_start_ends_with_the_plan(
    walk: Callable[[int, int], Walk],
) -> None:
    two_by_two = walk(2, 2)
    recorder = two_by_two.record()
    two_by_two.require_plan()
    two_by_two.start_on_each(recorder)
    assert any(crash.startswith("killed within") for crash in recorder.states.values())
    assert any(crash.startswith("power") for crash in recorder.states.values())
    # A start that cleans up crashes, too: after the crash that leaves most.
    lay_down(two_by_two.base, most(recorder))
    again = two_by_two.record(until_cleaned=True)
    assert any("unlink places/" in operation for operation in again.seen)
    two_by_two.start_on_each(again)


def unsynced(*_arguments: object) -> None:
    """Stands for what syncs, and does not."""


def made(folder: Path, mode: int = 0o777) -> None:
    """Makes a folder that a loss of power may take away."""
    folder.mkdir(mode, parents=True, exist_ok=True)


PLANTED: dict[str, tuple[object, str, object]] = {
    "an intent is not synced": (
        Journal, "append",
        lambda journal, record, durable: journal._write(journals._line(record)),
    ),
    "a journal's name is not synced": (journals, "fsync_path", unsynced),
    "the journals' folder is not synced": (journals, "make_folders", made),
    "a removal is not synced before its journal goes": (undo, "fsync_path", unsynced),
    "a run's tables are not synced": (store, "fsync_tree", unsynced),
    "a run's name is not synced": (store, "fsync_path", unsynced),
    "the results' folder is not synced": (store, "make_folders", made),
    "a record is written where it will be": (store, "write_durably", Path.write_bytes),
    "what is half written stays": (store.ExperimentFolder, "clean_partials", lambda folder: []),
    "an unborn journal stays": (journals, "remove_unborn", unsynced),
}  # fmt: skip


@pytest.mark.parametrize("defect", PLANTED)
def test_a_planted_defect_is_found(
    walk: Callable[[int, int], Walk], monkeypatch: pytest.MonkeyPatch, defect: str
) -> None:
    one = walk(1, 1)
    monkeypatch.setattr(*PLANTED[defect])
    with pytest.raises((AssertionError, NfslabError)):
        one.start_on_each(one.record())


@pytest.mark.parametrize("for_good", [False, True], ids=["once", "from then on"])
@pytest.mark.parametrize("crashed", [False, True], ids=["anew", "after a crash"])
def test_after_an_operation_that_failed_the_next_start_ends_with_the_plan(
    walk: Callable[[int, int], Walk], *, crashed: bool, for_good: bool
) -> None:
    """Each in turn: it is told in our own words, and no run is lost."""
    one = walk(1, 1)
    begin = most(one.record()) if crashed else tuple(sorted(tree_of(str(one.base)).items()))
    number = 0
    while True:
        number += 1
        lay_down(one.base, begin)
        failing = Failing(one.base, number, for_good=for_good)
        with failing.watched(), contextlib.suppress(NfslabError):
            # After a crash it is the cleaning up that is of interest.
            one.run(Watching(one.end if crashed else lambda: None))
        if len(failing.seen) < number:
            return
        try:
            kept = sealed_files(tree_of(str(one.base)))
            one.run(Watching())
            assert kept.items() <= sealed_files(tree_of(str(one.base))).items()
            one.require_plan(with_failed=True)
        except BaseException as error:
            error.add_note(f"after operation {number}: {failing.seen[number - 1]}")
            raise


@pytest.mark.system
def test_a_killed_process_leaves_what_the_next_one_ends(
    experiment_file: Callable[..., Path], tmp_path: Path
) -> None:
    """kill -9 within its second run, with a server up and a folder full."""
    passes = tmp_path / "passes"
    give_passes(passes, 1)
    more = f'data = "one"\nchild = true\npasses = "{passes}"'
    path = experiment_file(
        ('data = "one"', more), ("repetitions = 3", "repetitions = 1"), ("[1, 2, 4]", "[1]")
    )
    words = [sys.executable, str(LAUNCHER), "run", str(path)]
    state = tmp_path / "state"
    environment = os.environ | {"NFSLAB_STATE": str(state)}
    with subprocess.Popen(words, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL) as first:
        until(
            lambda: (
                (
                    len(list(tmp_path.glob("results/*/runs/b*"))) == 1
                    and list(tmp_path.glob("places/*/data.dat")) != []
                )
                or first.poll() is not None
            )
        )
        first.kill()
    assert first.returncode == -signal.SIGKILL
    (finished,) = tmp_path.glob("results/*/runs/b*/run.json")
    written = finished.read_bytes()
    assert len(list(tmp_path.glob("results/*/runs/.partial-*"))) == 1
    assert left_behind(tmp_path) != []
    give_passes(passes, 1)
    second = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert second.returncode == 0, second.stderr
    assert finished.read_bytes() == written
    found = records(only_folder(path))
    assert len({(r.point_id, r.block) for r in found}) == len(found) == 2
    assert {r.status for r in found} == {"ok"}
    assert left_behind(tmp_path) == []
    assert processes_of_state(state) == []

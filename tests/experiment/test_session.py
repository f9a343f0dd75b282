"""Going on where a call was left: nothing is measured twice, nothing half counts."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from nfslab.errors import ResultsError, UsageError
from nfslab.experiment import session as session_module
from nfslab.experiment.stop import TimeOver
from nfslab.experiment.summary import summarise, summary_lines
from nfslab.results.store import ExperimentFolder

from tests.experiment.fakes import EVENTS
from tests.experiment.session_support import left_behind, only_folder, read_json, records, run

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulated_clock import SimulatedClock

    Write = Callable[..., Path]

PLANNED = 18  # 2 x 3 points, 3 repetitions
SMALL = ("values = [1, 2, 4]", "values = [2]")
"""2 points."""


def test_a_whole_experiment(experiment_file: Write, tmp_path: Path) -> None:
    path = experiment_file()
    session, told = run(path)
    folder = only_folder(path)
    assert folder.path.name == f"test-{folder.record.identity[:8]}"
    assert (folder.path / "experiment.toml").read_bytes() == path.read_bytes()
    found = records(folder)
    assert len(found) == session.made == PLANNED
    assert [r.position for r in found] == list(range(PLANNED))
    # Every point once in every block, blocks one after the other, as planned.
    assert [r.block for r in found] == [0] * 6 + [1] * 6 + [2] * 6
    assert {(r.point_id, r.block) for r in found} == {
        (p.point_id, block) for p in folder.record.points for block in range(3)
    }
    planned = [(run.point.point_id, run.block) for run in session.planned]
    assert [(r.point_id, r.block) for r in found] == planned
    assert left_behind(tmp_path) == []
    assert "18 runs; about" in told.text


def test_the_same_file_again_makes_nothing(experiment_file: Write) -> None:
    path = experiment_file()
    run(path)
    EVENTS.clear()
    session, _ = run(path)
    assert session.made == 0
    assert EVENTS == []
    assert len(records(only_folder(path))) == PLANNED


def test_only_what_is_missing_is_made(experiment_file: Write) -> None:
    path = experiment_file()
    run(path)
    folder = only_folder(path)
    gone = [folder.sealed_runs()[4], folder.sealed_runs()[11]]
    for line in gone:
        shutil.rmtree(folder.runs_path / line.run_id)
    session, _ = run(path)
    assert session.made == 2
    assert {line.run_id for line in gone} <= {r.run_id for r in records(only_folder(path))}
    # They were carried out last, and their place says so.
    assert sorted(r.position for r in records(only_folder(path)))[-2:] == [18, 19]


def test_more_repetitions_extend_the_same_experiment(experiment_file: Write) -> None:
    path = experiment_file(SMALL)
    run(path)
    session, _ = run(path, repetitions=4)
    assert session.made == 2
    folder = only_folder(path)
    assert folder.record.repetitions == 4
    assert {r.block for r in records(folder)} == {0, 1, 2, 3}
    # Fewer ask for nothing, and take nothing away.
    session, _ = run(path, repetitions=1)
    assert (session.made, only_folder(path).record.repetitions) == (0, 4)


def test_a_drawn_seed_is_kept(experiment_file: Write) -> None:
    path = experiment_file(SMALL, ("seed = 7\n", ""))
    run(path, repetitions=1)
    before = only_folder(path).record.seed
    run(path, repetitions=2)
    assert only_folder(path).record.seed == before


def test_other_words_are_taken_over(experiment_file: Write) -> None:
    run(experiment_file(SMALL))
    path = experiment_file(SMALL, ('name = "test"', 'name = "test"\ntitle = "A title"'))
    session, _ = run(path)
    assert session.made == 0
    assert only_folder(path).record.title == "A title"


def test_a_changed_file_is_another_experiment(experiment_file: Write) -> None:
    run(experiment_file(SMALL), repetitions=1)
    before = only_folder(experiment_file(SMALL)).path
    path = experiment_file(SMALL, ('data = "one"', 'data = "one"\nsize = "2M"'))
    _, told = run(path, repetitions=1)
    assert len(list((path.parent / "results").iterdir())) == 2
    assert f"--continue {before} " in told.text


def test_continue_goes_on_with_a_changed_file_and_says_so(experiment_file: Write) -> None:
    path = experiment_file()
    run(path, repetitions=1)
    folder = only_folder(path)
    changed = experiment_file(("values = [1, 2, 4]", "values = [1, 2, 8]"))
    session, _ = run(changed, repetitions=1, continue_in=folder.path)
    assert session.made == 2  # the points with 8 clients
    record = only_folder(changed).record
    assert record.identity == folder.record.identity
    (note,) = read_json(folder.path / "experiment.json")["notes"]
    assert "changed file" in note
    assert len(record.points) == 8  # those with 4 clients stay
    (clients,) = [axis for axis in record.axes if axis.name == "clients"]
    assert clients.levels == [1, 2, 8, 4]


def test_continue_refuses_other_axes(experiment_file: Write) -> None:
    path = experiment_file()
    run(path, repetitions=1)
    other = experiment_file(('parameter = "workload.clients"', 'parameter = "workload.size"'))
    with pytest.raises(UsageError, match="cannot be continued"):
        run(other, continue_in=only_folder(path).path)


def test_new_begins_beside_the_old(experiment_file: Write) -> None:
    path = experiment_file(SMALL)
    run(path, repetitions=1)
    run(path, repetitions=1, new=True)
    run(path, repetitions=1, new=True)
    names = sorted(p.name.rpartition("-")[0] for p in (path.parent / "results").iterdir())
    assert names == ["test", "test-2", "test-3"]
    # Without --new the newest one goes on.
    session, _ = run(path, repetitions=2)
    assert session.folder.record.name == "test-3"
    assert session.made == 2


def test_a_changed_machine_begins_anew_unless_told(
    experiment_file: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = experiment_file(SMALL)
    run(path, repetitions=1)
    first = only_folder(path)
    from nfslab.experiment import provenance

    changed = provenance.fingerprint() | {"kernel": "9.9.9-planted"}
    monkeypatch.setattr(provenance, "fingerprint", lambda: changed)
    _, told = run(path, repetitions=1)
    assert "9.9.9-planted" in told.text
    assert len(list((path.parent / "results").iterdir())) == 2
    session, _ = run(path, repetitions=2, continue_in=first.path)
    assert session.made == 2
    notes = read_json(first.path / "experiment.json")["notes"]
    assert "9.9.9-planted" in notes[0]


def failing(experiment_file: Write, value: str = "measure") -> Path:
    return experiment_file(
        (
            'parameter = "workload.clients"\nvalues = [1, 2, 4]',
            f'parameter = "workload.fail"\nvalues = ["", "{value}"]',
        ),
        ("repetitions = 3", "repetitions = 2"),
    )


def test_failed_runs_are_tried_again_as_a_further_attempt(experiment_file: Write) -> None:
    path = failing(experiment_file)
    session, _ = run(path)
    assert summarise(session).exit_code == 1
    run(path)
    attempts = sorted(r.attempt for r in records(only_folder(path)) if r.status == "failed")
    assert attempts == [1] * 4 + [2] * 4
    session, _ = run(path, keep_failed=True)
    assert session.made == 0
    summary = summarise(session)
    # Only the newest attempt of each counts.
    assert (summary.ok, len(summary.failures)) == (4, 4)
    assert {entry["attempt"] for entry in summary.failures} == {2}


def test_the_summary_shows_medians_and_failures(experiment_file: Write) -> None:
    path = failing(experiment_file)
    session, _ = run(path)
    text = "\n".join(summary_lines(summarise(session), "nfslab run x"))
    assert "median rate_per_s" in text
    assert "the connection was lost" in text
    assert re.search(r"\b4 of 8 .*\b4 .*\b0 ", text)
    assert f"nfslab report {session.folder.path}" in text
    rows = {point.factors["fail"]: point for point in summarise(session).points}
    assert (rows[""].median, rows[""].n) == (100.0, 2)
    assert (rows["measure"].median, rows["measure"].n) == (None, 0)


def test_points_that_cannot_run_refuse_the_file(experiment_file: Write) -> None:
    path = experiment_file(
        ('[targets.two]\nkind = "folder"', '[targets.two]\nkind = "folder"\ncannot = "no magnets"')
    )
    with pytest.raises(UsageError, match="3 of 6 configurations") as caught:
        run(path)
    assert "no magnets" in str(caught.value)
    assert "buy one" in str(caught.value)
    assert EVENTS == []
    assert not (path.parent / "results").exists()


def test_points_that_cannot_run_are_left_out_when_asked(experiment_file: Write) -> None:
    path = experiment_file(
        ('[targets.two]\nkind = "folder"', '[targets.two]\nkind = "folder"\ncannot = "no magnets"')
    )
    session, told = run(path, skip_unavailable=True, repetitions=1)
    assert session.made == 3
    assert "3 points (target two: no magnets)" in told.text
    record = read_json(session.folder.path / "experiment.json")
    assert len(record["points"]) == 3
    assert [entry["factors"]["data"] for entry in record["skipped"]] == ["two"] * 3
    assert "no magnets" in record["skipped"][0]["reasons"][0]


def test_a_point_that_was_measured_stays_when_it_cannot_run_any_more(
    experiment_file: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nfslab.machine.availability import Availability

    from tests.experiment.fakes import FolderTarget

    path = experiment_file()
    run(path, repetitions=1)
    check = FolderTarget.check

    def broken(self: FolderTarget) -> Availability:
        return Availability(False, "it broke") if self.name == "two" else check(self)

    monkeypatch.setattr(FolderTarget, "check", broken)
    session, _ = run(path, repetitions=2, skip_unavailable=True)
    assert session.made == 3
    record = read_json(session.folder.path / "experiment.json")
    assert len(record["points"]) == 6
    assert len(record["skipped"]) == 3


def test_nothing_that_can_run_is_refused_even_when_skipping(experiment_file: Write) -> None:
    path = experiment_file(
        ('[targets.one]\nkind = "folder"', '[targets.one]\nkind = "folder"\nfree = "4k"'),
        ('[targets.two]\nkind = "folder"', '[targets.two]\nkind = "folder"\ncannot = "no magnets"'),
    )
    with pytest.raises(UsageError, match="experiment") as caught:
        run(path, skip_unavailable=True)
    assert "space on one" in str(caught.value)


def test_the_time_of_a_call_is_over_and_the_next_goes_on(
    experiment_file: Write, leap: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is over in the middle of the third run."""
    from tests.experiment.fakes import FormulaWorkload

    path = experiment_file(
        ("drop_page_cache = false", "drop_page_cache = false\nexperiment_s = 600"),
        ('data = "one"', 'data = "one"\nmeasure_s = 0.1'),
    )
    measure = FormulaWorkload.measure

    def measured(self: FormulaWorkload, context: Any) -> Any:
        if EVENTS.count("measure") == 2:
            leap(1000)
        return measure(self, context)

    monkeypatch.setattr(FormulaWorkload, "measure", measured)
    with pytest.raises(TimeOver, match="is over") as caught:
        run(path)
    assert caught.value.exit_code == 1
    assert len(records(only_folder(path))) == 2
    assert f"2 of {PLANNED} runs are kept" in str(caught.value)
    assert "nfslab run" in caught.value.fix
    unlimited = experiment_file(('data = "one"', 'data = "one"\nmeasure_s = 0.1'))
    session, _ = run(unlimited, repetitions=1)
    assert session.folder.path == only_folder(path).path


def test_a_run_with_a_flipped_bit_is_made_again(experiment_file: Write) -> None:
    path = experiment_file()
    run(path, repetitions=1)
    folder = only_folder(path)
    line = folder.sealed_runs()[0]
    record = folder.runs_path / line.run_id / "provenance.json"
    content = bytearray(record.read_bytes())
    content[len(content) // 2] ^= 1
    record.write_bytes(content)
    session, told = run(path, repetitions=1)
    assert session.made == 1
    assert f"run {line.run_id} " in told.text


def test_a_damaged_run_is_made_again_under_another_name(experiment_file: Write) -> None:
    path = experiment_file()
    run(path, repetitions=1)
    folder = only_folder(path)
    line = folder.sealed_runs()[0]
    (folder.runs_path / line.run_id / "run.json").write_text("{")
    (folder.path / "catalogue.jsonl").unlink()
    session, told = run(path, repetitions=1)
    assert session.made == 1
    assert f"run {line.run_id} " in told.text
    again = {record.run_id for record in records(only_folder(path))}
    assert line.run_id.replace("-a1", "-a2") in again


def test_seconds_of_a_call_are_without_its_waiting(
    experiment_file: Write, simulated_clock: SimulatedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another experiment runs for 50 s."""
    waits = lambda *_args, **_named: simulated_clock.advance(50.0)  # noqa: E731
    monkeypatch.setattr(session_module, "_await_turn", waits)
    session, _ = run(experiment_file(), repetitions=1)
    assert 0 <= session.seconds < 50


def test_a_second_runner_is_refused(experiment_file: Write) -> None:
    path = experiment_file()
    run(path, repetitions=1)
    with only_folder(path).lock(), pytest.raises(ResultsError):
        run(path, repetitions=2)


def test_results_of_a_newer_version_are_refused_and_left_alone(experiment_file: Write) -> None:
    path = experiment_file()
    run(path, repetitions=1)
    record = only_folder(path).path / "experiment.json"
    newer = record.read_text().replace('"schema_version": 1', '"schema_version": 999', 1)
    record.write_text(newer)
    with pytest.raises(ResultsError, match="newer nfslab"):
        run(path)
    assert record.read_text() == newer


def test_a_full_results_folder_ends_the_call_and_keeps_what_is_there(
    experiment_file: Write, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = experiment_file()
    begin = ExperimentFolder.begin_run
    calls: list[str] = []

    def full(self: ExperimentFolder, run_id: str) -> Any:
        from nfslab.errors import RunFailed

        calls.append(run_id)
        if len(calls) > 4:
            raise RunFailed("cannot begin run", why="No space left on device", fix="make room")
        return begin(self, run_id)

    with monkeypatch.context() as patch:
        patch.setattr(ExperimentFolder, "begin_run", full)
        with pytest.raises(ResultsError, match="4 of 18 runs") as caught:
            run(path)
    assert "make room" in caught.value.fix
    assert left_behind(tmp_path) == []
    session, _ = run(path)
    assert session.made == 14


def test_samples_that_cannot_be_stored_fail_the_run(
    experiment_file: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nfslab.errors import RunFailed
    from nfslab.results.store import PartialRun

    def full(self: PartialRun, kind: str, name: str, table: Any, host: Any) -> str:
        raise RunFailed(f"cannot write the table {name}", why="No space left on device")

    monkeypatch.setattr(PartialRun, "write_table", full)
    path = experiment_file()
    run(path, repetitions=1)
    found = records(only_folder(path))
    assert len(found) == 6
    assert {(r.status, r.failure_phase) for r in found} == {("failed", "seal")}
    assert all("No space left" in r.reason and not r.metrics for r in found)


def test_the_logs_of_a_run_without_room_for_tables_are_kept(
    experiment_file: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nfslab.errors import RunFailed
    from nfslab.results.store import PartialRun

    write = PartialRun.write_table

    def full(self: PartialRun, kind: Any, name: str, table: Any, host: Any) -> str:
        if kind == "evidence":
            raise RunFailed("cannot write", why="No space left on device")
        return write(self, kind, name, table, host)

    monkeypatch.setattr(PartialRun, "write_table", full)
    path = experiment_file(('data = "one"', 'data = "one"\nfail = "defect"'))
    run(path, repetitions=1)
    folder = only_folder(path)
    for record in records(folder):
        sealed = folder.runs_path / record.run_id
        assert (sealed / "logs" / "traceback.log").exists()
        assert list((sealed / "samples").iterdir()) == []
        assert [evidence.tables for evidence in record.evidence] == [[]]


def test_checks_that_break_down_do_not_cost_the_measurement(
    experiment_file: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nfslab.experiment import sealing

    def broken(*arguments: Any, **options: Any) -> Any:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(sealing, "validity_checks", broken)
    path = experiment_file()
    run(path, repetitions=1)
    for record in records(only_folder(path)):
        assert record.status == "ok"
        assert record.metrics["rate_per_s"].value == 100.0 * record.factors["clients"]
        (check,) = [check for check in record.checks if check.name == "validity"]
        assert check.verdict == "unknown"
        assert "ZeroDivisionError: planted" in check.message


def test_no_memory_limit_can_be_a_level(experiment_file: Write) -> None:
    from nfslab.experiment.reading import read_experiment

    path = experiment_file()
    path.write_text(
        path.read_text() + '[[axes]]\nparameter = "limits.memory"\nvalues = ["64M", "none"]\n'
    )
    experiment = read_experiment(path)
    assert [p.setup.limits.memory for p in experiment.points[:2]] == [64 << 20, None]
    assert experiment.axis_records[-1].levels == ["64M", "none"]
    assert not experiment.axis_records[-1].numeric


def test_a_debug_build_publishes_nothing(
    experiment_file: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nfslab import _core

    monkeypatch.setattr(_core, "build_info", lambda: {"profile": "debug"})
    with pytest.raises(UsageError, match="debug build"):
        run(experiment_file())


def test_the_cache_of_a_call_is_reachable_and_gone_afterwards(
    experiment_file: Write, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from tests.experiment.fakes import FormulaWorkload

    seen: list[tuple[Path, int]] = []
    prepare = FormulaWorkload.prepare

    def watch(self: Any, context: Any) -> None:
        seen.append((context.cache, context.cache.stat().st_mode & 0o777))
        prepare(self, context)

    monkeypatch.setattr(FormulaWorkload, "prepare", watch)
    run(experiment_file(), repetitions=1)
    assert len(seen) == 6
    ((cache, mode),) = set(seen)
    assert mode == 0o711
    assert not cache.exists()

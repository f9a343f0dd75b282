"""One run: the order of its steps, what its record holds, and every way it can fail."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from nfslab.experiment import execution
from nfslab.results.emulation import is_stamped
from nfslab.results.outcomes import Outcomes

from tests.experiment.fakes import EVENTS, FormulaWorkload
from tests.experiment.session_support import (
    left_behind,
    only_folder,
    records,
    run,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from nfslab.results.records import RunRecord

    Write = Callable[..., Path]

ONE_POINT = (
    ('values = ["one", "two"]', 'values = ["one"]'),
    ("values = [1, 2, 4]", "values = [2]"),
    ("repetitions = 3", "repetitions = 1"),
    ('data = "one"', 'data = "one"\nlog = "two"'),
)


def single(experiment_file: Write, *changes: tuple[str, str]) -> RunRecord:
    """The record of the only run of an experiment."""
    path = experiment_file(*ONE_POINT, *changes)
    run(path)
    (record,) = records(only_folder(path))
    return record


def workload(text: str) -> tuple[str, str]:
    return ('data = "one"', f'data = "one"\n{text}')


def test_the_steps_of_a_run_are_in_order(experiment_file: Write, tmp_path: Path) -> None:
    record = single(experiment_file)
    assert EVENTS == [
        "up one",
        "up two",
        "prepare",
        "watch",
        "measure",
        "unwatch",
        "verify",
        "finish",
        "down two",
        "down one",
    ]
    assert record.status == "ok"
    assert left_behind(tmp_path) == []
    # A phase is noted when it ends, so an inner one comes before its outer one.
    assert [phase.name for phase in record.phases] == [
        "targets up",
        "provenance",
        "prepare/load",
        "prepare",
        "collectors on",
        "measure",
        "verify",
        "finish",
        "targets down",
        "targets down",
    ]


@pytest.mark.usefixtures("real_provenance")
def test_the_record_holds_what_was_measured_and_where(experiment_file: Write) -> None:
    path = experiment_file(*ONE_POINT)
    run(path)
    folder = only_folder(path)
    (record,) = records(folder)
    metric = record.metrics["rate_per_s"]
    assert (metric.value, metric.unit, metric.primary) == (200.0, "1/s", True)
    assert record.factors == {"data": "one", "clients": 2}
    assert record.settings == {"workload.data": "one", "workload.clients": 2}
    assert record.parameters["workload"]["log"] == "two"
    assert set(record.places) == {"data", "log"}
    assert record.places["log"].target == "two"
    assert record.durability is not None
    assert record.durability.level == "unknown"
    assert record.page_cache["dropped"] == "no"
    assert record.commands == [["formula", "2"]]
    assert "a formula stood in for a measurement" in record.notes
    checks = {check.name: check.verdict for check in record.checks}
    assert checks["sum"] == "ok"
    assert checks["clock_steps"] in ("ok", "warning")
    (evidence,) = record.evidence
    assert (evidence.status, evidence.tables) == ("ok", ["evidence/watched.parquet"])
    sealed = folder.runs_path / record.run_id
    assert (sealed / "samples" / "operations.parquet").stat().st_size > 0
    assert (sealed / "evidence" / "watched.parquet").stat().st_size > 0
    assert (sealed / "provenance.json").stat().st_size > 1000


def test_runs_of_one_block_share_their_seed(experiment_file: Write) -> None:
    path = experiment_file()
    run(path)
    seeds: dict[int, set[float]] = {}
    for record in records(only_folder(path)):
        seeds.setdefault(record.block, set()).add(record.metrics["seed"].value)
    assert [len(values) for values in seeds.values()] == [1, 1, 1]
    assert len(set.union(*seeds.values())) == 3


def test_a_target_in_two_roles_comes_up_once(experiment_file: Write) -> None:
    path = experiment_file(*ONE_POINT[:3], workload('log = "one"'))
    run(path)
    assert EVENTS.count("up one") == EVENTS.count("down one") == 1


@pytest.mark.parametrize(
    ("fail", "phase", "reason", "steps"),
    [
        ("prepare", "prepare", "the fake server does not start", ["prepare", "finish"]),
        ("enospc", "prepare", "No space left on device (/planted)", ["prepare", "finish"]),
        (
            "measure",
            "measure",
            "the connection was lost",
            ["prepare", "watch", "measure", "unwatch", "finish"],
        ),
        (
            "verify",
            "verify",
            "cannot verify",
            ["prepare", "watch", "measure", "unwatch", "verify", "finish"],
        ),
        (
            "violate",
            "verify",
            "the run's own checks failed: the sums differ",
            ["prepare", "watch", "measure", "unwatch", "verify", "finish"],
        ),
        (
            "defect",
            "measure",
            "ZeroDivisionError: planted",
            ["prepare", "watch", "measure", "unwatch", "finish"],
        ),
    ],
)
def test_what_fails_is_taken_down_and_sealed_with_its_reason(
    experiment_file: Write, tmp_path: Path, fail: str, phase: str, reason: str, steps: list[str]
) -> None:
    record = single(experiment_file, workload(f'fail = "{fail}"'))
    assert record.status == "failed"
    assert record.reason.startswith(reason)
    assert record.failure_phase == phase
    assert ["up one", "up two", *steps, "down two", "down one"] == EVENTS
    assert left_behind(tmp_path) == []


def test_a_teardown_that_fails_hides_neither_error_nor_steps(
    experiment_file: Write, tmp_path: Path
) -> None:
    path = experiment_file(
        *ONE_POINT,
        workload('fail = "measure"'),
        ('[targets.two]\nkind = "folder"', '[targets.two]\nkind = "folder"\ndown_fails = true'),
    )
    run(path)
    (record,) = records(only_folder(path))
    assert record.reason.startswith("the connection was lost")
    assert EVENTS[-3:] == ["finish", "down two", "down one"]
    assert any("the fake target does not go down" in note for note in record.notes)
    # What the target did not remove itself, the journal did.
    assert left_behind(tmp_path) == []


def test_a_good_run_whose_teardown_fails_stays_good_with_a_warning(
    experiment_file: Write, tmp_path: Path
) -> None:
    record = single(experiment_file, workload('fail = "finish"'))
    assert record.status == "ok"
    (check,) = [c for c in record.checks if c.name == "teardown"]
    assert check.verdict == "warning"
    assert "the fake server does not stop" in check.message
    assert left_behind(tmp_path) == []


def test_a_target_that_vanishes_fails_its_runs_only(experiment_file: Write, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    places = f'path = "{tmp_path / "places"}"'
    path = experiment_file(
        (
            f'[targets.two]\nkind = "folder"\n{places}',
            f'[targets.two]\nkind = "folder"\nfree = "1G"\npath = "{gone}"',
        ),
    )
    gone.rmdir()
    run(path)
    by_status: dict[str, set[Any]] = {}
    for record in records(only_folder(path)):
        by_status.setdefault(record.status, set()).add(record.factors["data"])
    assert by_status == {"ok": {"one"}, "failed": {"two"}}


def test_a_target_that_is_too_small_fails_before_it_is_filled(
    experiment_file: Write, tmp_path: Path
) -> None:
    record = single(
        experiment_file,
        workload('size = "1P"'),
        ('[targets.one]\nkind = "folder"', '[targets.one]\nkind = "folder"\nfree = "8P"'),
        ('[targets.two]\nkind = "folder"', '[targets.two]\nkind = "folder"\nfree = "8P"'),
    )
    assert record.status == "failed"
    assert "target 'one'" in record.reason
    assert "prepare" not in EVENTS


def test_a_time_limit_fails_the_run_and_the_experiment_goes_on(
    experiment_file: Write, leap: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    measure = FormulaWorkload.measure

    def measured(self: FormulaWorkload, context: Any) -> Any:
        if self.parameters.fail == "hang":
            leap(1000)
        return measure(self, context)

    monkeypatch.setattr(FormulaWorkload, "measure", measured)
    path = experiment_file(
        ('values = ["one", "two"]', 'values = ["one"]'),
        ("repetitions = 3", "repetitions = 1"),
        (
            'parameter = "workload.clients"\nvalues = [1, 2, 4]',
            'parameter = "workload.fail"\nvalues = ["", "hang"]',
        ),
        ("drop_page_cache = false", "drop_page_cache = false\nrun_s = 600"),
    )
    run(path)
    outcomes = {r.factors["fail"]: r for r in records(only_folder(path))}
    assert outcomes[""].status == "ok"
    assert outcomes["hang"].status == "failed"
    assert "limits.run_s" in outcomes["hang"].reason
    assert outcomes["hang"].failure_phase == "measure"


def collector(text: str) -> tuple[str, str]:
    return ("[workload]", f"[collectors.watcher]\n{text}\n\n[workload]")


@pytest.mark.parametrize(
    ("text", "status", "reason"),
    [
        ("absent = true", "unavailable", "nothing to watch here"),
        ('fails = "start"', "failed", "did not start: the watcher does not start"),
        ('fails = "stop"', "failed", "the watcher does not stop"),
        ('fails = "silently"', "failed", "saw nothing: nothing came"),
    ],
)
def test_a_collector_that_does_not_work(
    experiment_file: Write, text: str, status: str, reason: str
) -> None:
    optional = single(experiment_file, collector(text))
    assert optional.status == "ok"
    (evidence,) = optional.evidence
    assert (evidence.status, evidence.tables) == (status, [])
    assert reason in evidence.reason


def test_evidence_of_which_some_is_missing_is_kept_and_said(experiment_file: Write) -> None:
    (evidence,) = single(experiment_file, collector('fails = "partly"')).evidence
    assert (evidence.status, evidence.reason) == ("incomplete", "a part came")
    assert evidence.tables


@pytest.mark.parametrize("fails", ["stop", "partly"])
def test_a_required_collector_that_does_not_work_fails_the_run(
    experiment_file: Write, fails: str
) -> None:
    record = single(experiment_file, collector(f'fails = "{fails}"\nrequired = true'))
    assert record.status == "failed"
    assert "'watcher'" in record.reason


def test_the_experiment_may_choose_the_metric_shown_first(experiment_file: Write) -> None:
    record = single(experiment_file, ('name = "test"', 'name = "test"\nprimary = "seed"'))
    assert [name for name, m in record.metrics.items() if m.primary] == ["seed"]


def test_a_metric_that_is_not_there_cannot_be_first(experiment_file: Write) -> None:
    record = single(experiment_file, ('name = "test"', 'name = "test"\nprimary = "tps"'))
    assert [name for name, m in record.metrics.items() if m.primary] == ["rate_per_s"]
    assert any("'tps'" in note for note in record.notes)


Write = Callable[..., Path]


@pytest.mark.parametrize("here", [True, False])
def test_every_run_is_stamped_or_none(
    here: bool, experiment_file: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execution, "is_emulated", lambda: here)
    file = experiment_file(("values = [1, 2, 4]", "values = [2]"))
    run(file)
    outcomes = Outcomes(only_folder(file))
    assert outcomes.counted
    assert {is_stamped(line.flags) for line in outcomes.catalogue.lines} == {here}

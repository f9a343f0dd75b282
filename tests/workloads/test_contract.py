"""What every registered workload has to do: the contract of `nfslab.workloads.base`."""

from __future__ import annotations

import inspect
import json
import math
import uuid
from pathlib import Path
from typing import Any, get_args

import pytest
from nfslab.errors import RunFailed
from nfslab.experiment.reading import read_experiment
from nfslab.machine.availability import Availability
from nfslab.machine.processes import find_ours
from nfslab.results.records import CheckRecord, Metric
from nfslab.shipped import template_files
from nfslab.workloads.base import Workload
from nfslab.workloads.registry import WORKLOADS, workload_class
from pydantic import ValidationError

from tests.workloads.run_context import Run, run_of

LEAST: dict[str, Any] = {
    "duration": "1s", "seconds": "1s", "warm_up": "0s", "scale": 1, "warehouses": 1, "clients": 1,
    "terminals": 2, "threads": 1, "size": "1M", "file_size": "1M", "random_operations": 20,
    "connections": 4, "directories": 1, "files": 60, "load": 200, "bytes_per_op": None,
    "engine": "sqlite", "cache": "warm",
}  # fmt: skip
"""By parameters' names: what makes the run of a template as small as can be."""
every_workload = pytest.mark.parametrize("kind", list(WORKLOADS))
RUN_ELSEWHERE = {"pgbench", "tpcb", "tpcc", "web"}
"""In the system lane these run in their own files."""
every_run = pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=[pytest.mark.long] * (kind in RUN_ELSEWHERE)) for kind in WORKLOADS],
)


def parameters_of(kind: str) -> dict[str, Any]:
    """Those of the template's first point, made small; each target is a place of its own."""
    cls = workload_class(kind)
    point = read_experiment(template_files()[kind]).points[0]
    given: dict[str, Any] = dict(point.setup.resolved()["workload"])
    del given["kind"]
    fields = cls.Parameters.model_fields
    for name, value in LEAST.items():
        # One that is a word in this workload (a load of the web's) stays, or none of its words.
        a_word = isinstance(value, int) and isinstance(given.get(name), str)
        words = get_args(fields[name].annotation) if name in fields else ()
        lacks = all(isinstance(word, str) for word in words) and value not in words
        if name in fields and not a_word and not (words and lacks):
            given[name] = value
    return {name: value for name, value in given.items() if value is not None}


def make(kind: str) -> Workload:
    cls = workload_class(kind)
    return cls.of(cls.Parameters(**parameters_of(kind)))


def name() -> str:
    return f"contract-{uuid.uuid4().hex[:8]}"


def places(work: Workload, scratch: Path) -> dict[str, Path]:
    """One place for each role that has a target (as the runner does it)."""
    return {r: scratch / name() for r in work.roles if getattr(work.parameters, r) is not None}


@every_workload
def test_the_class_says_what_it_is(kind: str) -> None:
    cls = workload_class(kind)
    assert issubclass(cls, Workload)
    assert not inspect.isabstract(type(make(kind)))
    assert cls.kind == kind
    assert cls.summary
    assert "\n" not in cls.summary
    assert cls.roles
    assert set(cls.roles) <= set(cls.Parameters.model_fields)


@every_workload
def test_parameters_are_strict_and_come_back_from_json(kind: str) -> None:
    """The resolved parameters go into the record, and have to mean the same when read."""
    cls, given = workload_class(kind), parameters_of(kind)
    parameters = cls.Parameters(**given)
    dumped = json.loads(json.dumps(parameters.model_dump(mode="json")))
    assert cls.Parameters(**dumped) == parameters
    with pytest.raises(ValidationError):
        cls.Parameters(**given, no_such_parameter=1)
    with pytest.raises(ValidationError):
        cls.Parameters(**{k: v for k, v in given.items() if k != "data"})


@every_workload
def test_estimates_are_numbers_one_can_plan_with(kind: str) -> None:
    work = make(kind)
    assert 0 < work.estimate_s() < 3600
    needed = work.estimate_bytes()
    assert set(needed) <= set(work.roles)
    assert all(isinstance(size, int) and size >= 0 for size in needed.values())


@every_workload
def test_finish_is_harmless_when_nothing_was_started(kind: str, scratch: Path) -> None:
    work = make(kind)
    with run_of(work, scratch, name=name(), places=places(work, scratch)) as run:
        work.finish(run.context)
        work.finish(run.context)


def one_run(work: Workload, run: Run) -> dict[str, Metric]:
    work.prepare(run.context)
    outcome = work.measure(run.context)
    checks = outcome.checks + work.verify(run.context, outcome)
    work.finish(run.context)
    assert all(isinstance(check, CheckRecord) for check in checks)
    # That a generator was late is right to say (judged in tests/offered).
    broken = {check.name for check in checks if check.verdict == "violation"}
    assert broken <= {"offered_load"}, checks
    for title, table in outcome.samples.items():
        assert title.replace("_", "").isalnum()
        assert table.num_rows > 0
        if "t_ns" in table.column_names:
            assert str(table.schema.field("t_ns").type) == "int64"
            assert min(table["t_ns"].to_pylist()) >= 0
    return outcome.metrics


@pytest.mark.system
@every_run
def test_a_run_whose_time_is_over_leaves_nothing_and_the_next_yields_metrics(
    kind: str, scratch: Path
) -> None:
    """One object runs twice: the first time nobody waits for it to be done."""
    work = make(kind)
    for answer in (type(work).available(), work.check()):
        assert isinstance(answer, Availability)
        if not answer.ok:
            pytest.skip(f"{kind}: {answer.reason}")
    with run_of(work, scratch, name=name(), places=places(work, scratch)) as run:
        work.prepare(run.context)
        limit, run.deadline = run.deadline, 0.0
        with pytest.raises(RunFailed):
            work.measure(run.context)
        run.deadline = limit
        work.finish(run.context)
        assert find_ours(run.context.resources.token) == []
    with run_of(work, scratch, name=name(), places=places(work, scratch)) as run:
        metrics = one_run(work, run)
        timed = run.context.timed
        assert 0 < timed.start_ns < timed.end_ns
        assert run.context.commands, "a person can do the same by hand"
        assert all(isinstance(word, str) for argv in run.context.commands for word in argv)
        assert find_ours(run.context.resources.token) == []
    assert [m.primary for m in metrics.values()].count(True) == 1
    for title, metric in metrics.items():
        assert math.isfinite(metric.value), title
        assert metric.unit, title
        assert metric.better in ("higher", "lower", None)
    assert next(metric for metric in metrics.values() if metric.primary).value > 0

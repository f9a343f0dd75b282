"""What every registered workload has to do: the contract of `nfslab.workloads.base`."""

from __future__ import annotations

import inspect
import json
import math
import uuid
from pathlib import Path
from typing import Any

import pytest
from nfslab.errors import NfslabError, RunFailed
from nfslab.machine.availability import Availability
from nfslab.machine.processes import find_ours
from nfslab.results.records import CheckRecord, Metric
from nfslab.workloads.base import Workload
from nfslab.workloads.registry import WORKLOADS, workload_class
from pydantic import ValidationError

from tests.workloads.run_context import Run, run_of

SMALL: dict[str, dict[str, Any]] = {
    "pgbench": {"data": "disk", "transactions": 10},
    "tpcb": {"data": "disk", "engine": "sqlite", "duration": 1},
    "tpcc": {"data": "disk", "terminals": 2, "duration": 1},
    "tpcc/mariadb": {"data": "disk", "engine": "mariadb", "terminals": 2, "duration": 1},
    "sql": {"data": "disk", "query": "clustered_range", "size": "1M"},
    "files": {"data": "disk", "file_size": "256k", "seeks": 20, "phases": "block_write,seeks"},
    "sfs": {"data": "disk", "load": 200, "files": 600, "warm_up": "0s", "duration": "1.5s"},
    "web": {
        "data": "disk",
        "load": "closed",
        "connections": 4,
        "directories": 1,
        "warm_up": "0.1s",
        "duration": "1.5s",
    },
    "storage": {"data": "disk", "work": "files"},
    "command": {
        "data": "disk",
        "argv": ["sh", "-c", 'echo speed 42 >&1; echo x > "$1/made"', "sh", "{data}"],
        "metrics": [{"name": "speed", "pattern": "^speed (\\d+)", "unit": "1/s"}],
    },
}
"""The least parameters of a run of each workload; what is counted in a window has one longer than
a busy machine takes its processors away."""

LONG: dict[str, dict[str, Any]] = {
    "pgbench": {"data": "disk", "duration": 3600},
    "tpcb": {"data": "disk", "engine": "sqlite", "duration": 3600},
    "tpcc": {"data": "disk", "duration": 3600},
    "tpcc/mariadb": {"data": "disk", "engine": "mariadb", "duration": 3600},
    "sql": {
        "data": "disk",
        "query": "full_scan",
        "size": "1M",
        "cache": "warm",
        "executions": 1_000_000,
    },
    "files": {"data": "disk", "file_size": "1M", "seeks": 1_000_000_000, "phases": "seeks"},
    "sfs": {"data": "disk", "load": 200, "files": 60, "duration": "3600s"},
    "web": {
        "data": "disk",
        "load": "closed",
        "connections": 4,
        "directories": 1,
        "duration": "3600s",
    },
    "storage": {"data": "disk", "work": "commit", "seconds": 3600},
    "command": {"data": "disk", "argv": ["sleep", "3600"]},
}
"""A run that has to be ended."""

every_workload = pytest.mark.parametrize("kind", list(WORKLOADS))
every_way = pytest.mark.parametrize("kind", [*WORKLOADS, "tpcc/mariadb"])
"""KIND/WAY: one that another class does, by its parameters."""
every_run = pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=pytest.mark.long) if kind.startswith("tpcc") else kind
        for kind in [*WORKLOADS, "tpcc/mariadb"]
    ],
)
"""The same of what runs: `tpcc` loads tables of 100 MB, and goes pgbench's and sysbench's way."""


def make(kind: str, parameters: dict[str, dict[str, Any]] = SMALL) -> Workload:
    cls = workload_class(kind.partition("/")[0])
    return cls(cls.Parameters(**parameters[kind]))


def usable(kind: str) -> Workload:
    work = make(kind)
    answer = work.check()
    if not answer.ok:
        pytest.skip(f"{kind}: {answer.reason}")
    return work


def name() -> str:
    return f"contract-{uuid.uuid4().hex[:8]}"


def places(work: Workload, scratch: Path) -> dict[str, Path]:
    """One place for each role that has a target (as the runner does it)."""
    return {r: scratch / name() for r in work.roles if getattr(work.parameters, r) is not None}


@every_workload
def test_the_class_says_what_it_is(kind: str) -> None:
    cls = workload_class(kind)
    assert issubclass(cls, Workload)
    assert not inspect.isabstract(cls)
    assert cls.kind == kind
    assert cls.summary
    assert "\n" not in cls.summary
    assert cls.roles
    assert set(cls.roles) <= set(cls.Parameters.model_fields)
    answer = cls.available()
    assert isinstance(answer, Availability)
    assert answer.ok or answer.reason


@every_workload
def test_parameters_are_strict_and_come_back_from_json(kind: str) -> None:
    """The resolved parameters go into the record, and have to mean the same when read."""
    cls = workload_class(kind)
    parameters = cls.Parameters(**SMALL[kind])
    dumped = json.loads(json.dumps(parameters.model_dump(mode="json")))
    assert cls.Parameters(**dumped) == parameters
    with pytest.raises(ValidationError):
        cls.Parameters(**SMALL[kind], no_such_parameter=1)
    with pytest.raises(ValidationError):
        cls.Parameters(**{k: v for k, v in SMALL[kind].items() if k != "data"})


@every_way
def test_estimates_are_numbers_one_can_plan_with(kind: str) -> None:
    work = make(kind)
    assert 0 < work.estimate_s() < 3600
    needed = work.estimate_bytes()
    assert set(needed) <= set(work.roles)
    assert all(isinstance(size, int) and size >= 0 for size in needed.values())


@every_way
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
    # That a generator was late is right to say of a busy machine (judged in tests/offered).
    broken = {check.name for check in checks if check.verdict == "violation"}
    assert broken <= {"offered_load"}, checks
    for title, table in outcome.samples.items():
        assert title.replace("_", "").isalnum()
        assert table.num_rows > 0
        if "t_ns" in table.column_names:
            assert str(table.schema.field("t_ns").type) == "int64"
            assert min(table["t_ns"].to_pylist()) >= 0
    return outcome.metrics


@every_run
def test_a_run_yields_metrics_and_leaves_nothing(kind: str, scratch: Path) -> None:
    work = usable(kind)
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
    primary = next(metric for metric in metrics.values() if metric.primary)
    assert primary.value > 0


@every_run
def test_one_workload_object_may_run_twice(kind: str, scratch: Path) -> None:
    work = usable(kind)
    for _ in range(2):
        with run_of(work, scratch, name=name(), places=places(work, scratch)) as run:
            one_run(work, run)


@every_run
def test_a_run_whose_time_is_over_ends_at_once_and_leaves_nothing(kind: str, scratch: Path) -> None:
    """Far behind the end of its time the work would be done; nobody waits for it (pytest's own
    limit is the deadline)."""
    import time

    usable(kind)
    work = make(kind, LONG)
    with run_of(work, scratch, name=name(), places=places(work, scratch)) as run:
        work.prepare(run.context)
        run.deadline = time.monotonic() + 0.5
        with pytest.raises(NfslabError) as caught:
            work.measure(run.context)
        assert isinstance(caught.value, RunFailed)
        run.deadline = time.monotonic() + 600
        work.finish(run.context)
        assert find_ours(run.context.resources.token) == []

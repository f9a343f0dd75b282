"""Experiments of offered load by hand: every run's achieved load and response time as given."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from nfslab.results.records import (
    AxisRecord,
    DurabilityRecord,
    ExperimentRecord,
    Metric,
    PointRecord,
    RunRecord,
)
from nfslab.results.store import ExperimentFolder

from tests.report.synthetic import EPOCH_NS, without_fsync

Answers = Mapping[int, int]
"""Response in ns -> how many took that long."""
OPERATIONS: Final[Mapping[str, tuple[float, Answers]]] = {
    "READ": (0.75, {2_000_000: 150, 5_000_000: 120, 10_000_000: 30}),
    "WRITE": (0.25, {8_000_000: 100}),
}
REASON = "the run's own checks failed: the generator was late\n  why: violated: offered_load"


@dataclass(frozen=True)
class Planted:
    """One run: what was achieved, its mean response; p99 is twice the mean."""

    achieved: float
    mean_ms: float
    failed: bool = False
    reason: str = REASON
    operations: Mapping[str, tuple[float, Answers]] = field(default_factory=lambda: OPERATIONS)
    """Operation -> share asked, its answers."""
    little: float = 1.0
    """Outstanding over achieved x mean response."""
    arrived: float | None = None
    """Of an open load; None: not kept."""


@dataclass(frozen=True)
class NoMeasurement:
    """A run that failed before it measured anything."""

    reason: str = "the server went away"


Runs = Mapping[tuple[int, float], Sequence[Planted | NoMeasurement]]


def write_loads(
    results: Path, runs: Runs, *, reference: dict[str, Any] | None = None, fixed: bool = False
) -> Path:
    """`runs`: (threads, offered load) -> its repetitions; `fixed`: the one load is no axis."""
    levels = [sorted({key[place] for key in runs}) for place in (0, 1)]
    parameters = ["targets.server.threads", "workload.load"]
    axes = [
        AxisRecord(
            name=name, parameters=[parameter], levels=list(values),
            values=[[value] for value in values], numeric=True,
        )
        for name, parameter, values in zip(("threads", "load"), parameters, levels, strict=True)
    ]  # fmt: skip
    workload: dict[str, Any] = {"kind": "sfs", "mix": "laddis"}
    if fixed:
        workload["load"] = levels[1][0]
        del axes[1]
    points = []
    for index, (threads, load) in enumerate(runs):
        digest = hashlib.sha256(f"{threads}/{load}".encode()).hexdigest()[:8]
        settings = {parameters[0]: threads, parameters[1]: float(load)}
        factors = {"threads": threads, "load": load}
        if fixed:
            del settings["workload.load"], factors["load"]
        points.append(PointRecord(point_id=digest, index=index, factors=factors, settings=settings))
    record = ExperimentRecord(
        name="loads", title="Threads under load", identity=hashlib.sha256(b"loads").hexdigest(),
        seed=1, order="blocks", repetitions=max(map(len, runs.values())), axes=axes,
        points=points, resolved={"targets": {}, "workload": workload},
        reference=reference or {}, created_unix_ns=EPOCH_NS, command=["nfslab", "run", "loads"],
        nfslab_version="0.1.0",
    )  # fmt: skip
    position = 0
    with without_fsync():
        folder = ExperimentFolder.create(results, record, b"# planted\n")
        for point, repetitions in zip(points, runs.values(), strict=True):
            for block, planted in enumerate(repetitions):
                offered = workload.get("load", point.settings.get("workload.load"))
                _write_run(folder, record, point, block, position, planted, offered)
                position += 1
    return folder.path


def _write_run(
    folder: ExperimentFolder,
    record: ExperimentRecord,
    point: PointRecord,
    block: int,
    position: int,
    planted: Planted | NoMeasurement,
    offered: float,
) -> None:
    run = folder.begin_run(f"b{block:03}-{point.point_id}-a1")
    failed = isinstance(planted, NoMeasurement) or planted.failed
    metrics = {}
    if isinstance(planted, Planted):
        metrics = _metrics(planted, offered)
        if not failed:
            run.write_table("samples", "operations", operations_table(planted.operations))
            run.write_table("samples", "histograms", histograms_table(planted.operations))
    run.seal(
        RunRecord(
            run_id=run.run_id, experiment=record.name, identity=record.identity,
            point_id=point.point_id, point_index=point.index, block=block, position=position,
            factors=point.factors, settings=point.settings,
            parameters={"workload": {"kind": "sfs"}}, status="failed" if failed else "ok",
            reason=planted.reason if failed else "", failure_phase="verify" if failed else "",
            started_unix_ns=EPOCH_NS + position * 10**9, duration_ns=10**9, metrics=metrics,
            durability=DurabilityRecord(level="stable"),
        ),
        {"kernel": {"release": "6.1.0"}},
    )  # fmt: skip


def _metrics(planted: Planted, offered: float) -> dict[str, Metric]:
    outstanding = planted.achieved * planted.mean_ms / 1e3 * planted.little
    asked = offered if planted.arrived is None else min(offered, planted.arrived)
    saturated = float(planted.achieved < 0.98 * asked)
    arrived = {}
    if planted.arrived is not None:
        arrived["arrived_ops_per_s"] = Metric(value=planted.arrived, unit="1/s")
    return arrived | {
        "achieved_ops_per_s": Metric(
            value=planted.achieved, unit="1/s", better="higher", primary=True
        ),
        "saturated": Metric(value=saturated, unit="1", better="lower"),
        "outstanding_mean": Metric(value=outstanding, unit="1", better="lower"),
        "response_mean_ms": Metric(value=planted.mean_ms, unit="ms", better="lower"),
        "response_p99_ms": Metric(value=2 * planted.mean_ms, unit="ms", better="lower"),
    }


def operations_table(operations: Mapping[str, tuple[float, Answers]]) -> pa.Table:
    """As the workload writes it, as far as reports read it."""
    answers = [one for _, one in operations.values()]
    numbers = [sum(one.values()) for one in answers]
    sums = [sum(latency * n for latency, n in one.items()) for one in answers]
    return pa.table(
        {
            "operation": list(operations),
            "share": [share for share, _ in operations.values()],
            "answered": pa.array(numbers, pa.int64()),
            "unexpected": pa.array([0] * len(operations), pa.int64()),
            "mean_ns": pa.array(
                [s / n if n else None for s, n in zip(sums, numbers, strict=True)], pa.float64()
            ),
            "max_ns": pa.array([max(one, default=None) for one in answers], pa.float64()),
        }
    )


def histograms_table(operations: Mapping[str, tuple[float, Answers]]) -> pa.Table:
    """As the workload writes it."""
    from nfslab._core import Histogram

    rows: list[tuple[str, int, int, int]] = []
    for name, (_, answers) in operations.items():
        histogram = Histogram()
        for latency_ns, times in answers.items():
            for _ in range(times):
                histogram.record(latency_ns)
        rows += [(name, *bucket) for bucket in histogram.buckets()]
    names = ("phase", "low_ns", "high_ns", "count")
    types = (pa.string(), pa.int64(), pa.int64(), pa.int64())
    return pa.table(
        {
            name: pa.array([row[place] for row in rows], kind)
            for place, (name, kind) in enumerate(zip(names, types, strict=True))
        }
    )

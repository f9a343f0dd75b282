"""Experiments of any design, without samples: to see how figures arrange several axes."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from nfslab.results.records import (
    AxisRecord,
    CheckRecord,
    DurabilityRecord,
    ExperimentRecord,
    Metric,
    PointRecord,
    RunRecord,
)
from nfslab.results.store import ExperimentFolder

from tests.report.synthetic import EPOCH_NS, without_fsync


def write_design(
    results: Path,
    axes: Mapping[str, Sequence[Any]],
    truth: Callable[..., float],
    *,
    repetitions: int = 4,
    metric: str = "tps",
    unit: str = "1/s",
    seed: int = 5,
    name: str = "design",
    created_unix_ns: int = EPOCH_NS,
    commit: str = "",
    kernel: str = "6.1.0",
    checks: Sequence[CheckRecord] = (),
) -> Path:
    """All combinations of `axes`; every run is `truth(**levels)` with 3 % of noise."""
    random = np.random.default_rng(seed)
    records = [
        AxisRecord(
            name=name,
            parameters=[f"workload.{name}"],
            levels=list(levels),
            values=[[level] for level in levels],
            numeric=all(isinstance(level, int | float) for level in levels),
        )
        for name, levels in axes.items()
    ]
    points = []
    for index, levels in enumerate(itertools.product(*axes.values())):
        factors = dict(zip(axes, levels, strict=True))
        settings = {f"workload.{name}": level for name, level in factors.items()}
        digest = hashlib.sha256(json.dumps(settings).encode()).hexdigest()[:8]
        points.append(PointRecord(point_id=digest, index=index, factors=factors, settings=settings))
    record = ExperimentRecord(
        name=name,
        title=f"{metric} over {', '.join(axes)}",
        identity=hashlib.sha256(repr(axes).encode()).hexdigest(),
        seed=seed,
        order="blocks",
        repetitions=repetitions,
        axes=records,
        points=points,
        resolved={"targets": {}, "workload": {"kind": "command"}},
        created_unix_ns=created_unix_ns,
        nfslab_commit=commit,
        command=["nfslab", "run", "design.toml"],
        nfslab_version="0.1.0",
    )
    with without_fsync():
        folder = ExperimentFolder.create(results, record, b"# synthetic\n")
        position = 0
        for block in range(repetitions):
            for i in random.permutation(len(points)).tolist():
                value = truth(**points[i].factors) * float(np.exp(random.normal(0.0, 0.03)))
                _run(
                    folder,
                    record,
                    points[i],
                    block,
                    position,
                    Metric(value=value, unit=unit, better="higher", primary=True),
                    metric,
                    kernel,
                    checks,
                )
                position += 1
    return folder.path


def _run(
    folder: ExperimentFolder,
    record: ExperimentRecord,
    point: PointRecord,
    block: int,
    position: int,
    value: Metric,
    metric: str,
    kernel: str,
    checks: Sequence[CheckRecord],
) -> None:
    run = folder.begin_run(f"b{block:03}-{point.point_id}-a1")
    run.seal(
        RunRecord(
            run_id=run.run_id,
            experiment=record.name,
            identity=record.identity,
            point_id=point.point_id,
            point_index=point.index,
            block=block,
            position=position,
            factors=point.factors,
            settings=point.settings,
            parameters={"workload": {"kind": "command"}},
            status="ok",
            started_unix_ns=EPOCH_NS + position * 10**9,
            duration_ns=10**9,
            metrics={metric: value},
            checks=list(checks),
            durability=DurabilityRecord(level="stable"),
        ),
        {"kernel": {"release": kernel}},
    )

"""The workload `storage`: several kinds of work with one figure."""

from __future__ import annotations

from pathlib import Path

import pytest
from nfslab.cli.trial import NAMES
from nfslab.workloads.storage import RATE, WORKS, StorageParameters, StorageWorkload

from tests.workloads.run_context import run_of


def test_the_command_names_all_kinds_of_work() -> None:
    assert tuple(WORKS) == NAMES


@pytest.mark.parametrize(
    ("kind", "moved"),
    [
        pytest.param("files", 16384, marks=pytest.mark.system),
        pytest.param("large", 2**20, marks=pytest.mark.long),
        pytest.param("commit", 8192, marks=pytest.mark.long),
        pytest.param("reads", 8192, marks=pytest.mark.long),
    ],
)
def test_the_rate_is_the_other_workloads_figure(kind: str, moved: int, scratch: Path) -> None:
    """Bytes that were moved over the time they took, by the phase's own record."""
    work = StorageWorkload.of(StorageParameters(data="disk", work=kind))  # type: ignore[arg-type]
    if not work.check().ok:
        pytest.skip(work.check().reason)
    with run_of(work, scratch, name=kind, places={"data": scratch / f"{kind}-data"}) as run:
        work.prepare(run.context)
        outcome = work.measure(run.context)
    (phase,) = outcome.samples["phases"].to_pylist()
    rate = outcome.metrics[RATE]
    assert rate.value == pytest.approx(phase["bytes"] / moved / (phase["wall_ns"] / 1e9))
    assert [name for name, metric in outcome.metrics.items() if metric.primary] == [RATE]
    assert WORKS[kind].metric in outcome.metrics

"""The collector mountstats on a file with known counters, and on one that goes wrong."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from nfslab.errors import RunFailed
from nfslab.evidence.collector import Evidence
from nfslab.evidence.mountstats.collector import (
    COUNTS,
    MountstatsCollector,
    MountstatsParameters,
    nfs_mounts,
)
from nfslab.workloads.base import RunContext

from tests.collectors.planted_mountstats import Planted
from tests.workloads.run_context import command_run

LONG = MountstatsParameters(interval=60)
"""No reading by itself: those of the start, the timed part, and the end."""


@pytest.fixture
def context() -> Iterator[RunContext]:
    with command_run() as made:
        yield made


@pytest.fixture
def planted(context: RunContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Planted:
    return Planted(tmp_path / "mountstats", context.places["data"], monkeypatch)


READ = [10, 12, 1, 1000, 90000, 5, 40, 50, 1]
LATER = [15, 17, 1, 1500, 130000, 6, 60, 80, 1]
LAST = [25, 28, 2, 2500, 230000, 9, 95, 140, 3]


def watched(context: RunContext, planted: Planted, last_age: int = 14) -> Evidence:
    """READ before it is watched, LATER at the start of the timed part, LAST at its end."""
    planted.say(11, READ=READ)
    collector = MountstatsCollector(LONG)
    collector.start(context)
    planted.say(12, READ=LATER, WRITE=[1] * 9)
    with context.timed():
        planted.say(last_age, READ=LAST, WRITE=[1] * 9)
    return collector.stop()


def target_of(context: RunContext) -> str:
    return context.places["data"].target


def test_totals_are_of_the_timed_part(context: RunContext, planted: Planted) -> None:
    totals = watched(context, planted).summary["mounts"][target_of(context)]
    assert totals["operations"] == [
        {"operation": "READ"}
        | dict(zip(COUNTS, [a - b for a, b in zip(LAST, LATER, strict=True)], strict=True))
    ], "the WRITE was before it"
    (transport,) = totals["transports"]
    assert (transport["sends"], transport["slots_max"]) == (2, 14)
    assert totals["wall_s"] > 0


def test_rows_add_up_to_all_that_was_counted(context: RunContext, planted: Planted) -> None:
    evidence = watched(context, planted)
    rows = evidence.tables["mountstats_operations"].to_pylist()
    reads = [row for row in rows if row["operation"] == "READ"]
    assert len(reads) == 2
    for column, name in enumerate(COUNTS):
        assert sum(row[name] for row in reads) == LAST[column] - READ[column]
    # A reading lies before the timed part, which begins at 0, and one after it.
    assert reads[0]["t_ns"] < 0 < reads[1]["t_ns"]
    series = evidence.tables["mountstats_series"].to_pylist()
    assert series[1]["round_trip_ms"] == pytest.approx(3.5)
    assert series[1]["queue_ms"] == pytest.approx(0.3)
    assert series[1]["again_per_s"] == pytest.approx(series[1]["calls_per_s"] / 10)
    assert evidence.cpu_s is not None
    assert evidence.wall_s is not None
    assert 0 < evidence.cpu_s < evidence.wall_s


def test_a_mount_made_anew_has_no_totals(context: RunContext, planted: Planted) -> None:
    evidence = watched(context, planted, last_age=2)
    assert evidence.summary["mounts"] == {target_of(context): {}}
    (note,) = evidence.summary["notes"]
    assert "anew" in note
    assert any(note in one for one in context.notes)


def test_what_cannot_be_read_ends_it_and_keeps_what_there_was(
    context: RunContext, planted: Planted
) -> None:
    planted.say(11, READ=READ)
    collector = MountstatsCollector(LONG)
    collector.start(context)
    planted.say(12, READ=LATER)
    with context.timed():
        begun = f"device a mounted on {planted.point} with fstype nfs statvers=1.1"
        planted.file.write_text(f"{begun}\n\tage:\tx\n")
    evidence = collector.stop()
    assert "line 2" in evidence.summary["incomplete"]
    assert evidence.tables["mountstats_operations"].num_rows == 1


def test_a_reading_without_the_mount_is_refused(context: RunContext, planted: Planted) -> None:
    planted.point = "/elsewhere"
    planted.say()
    with pytest.raises(RunFailed, match="no use") as told:
        MountstatsCollector(LONG).start(context)
    assert "none of the run's mounts" in told.value.why


def test_it_reads_by_itself(context: RunContext, planted: Planted) -> None:
    """The timed part waits for two readings of its thread: a bounded wait, no time is assumed."""
    planted.say(11, READ=READ)
    collector = MountstatsCollector(MountstatsParameters(interval=0.05))
    collector.start(context)
    watch: Any = collector._watch
    with context.timed():
        while watch._readings < 4:
            context.remaining_s()
    assert collector.stop().summary["readings"] >= 5


def test_places_on_one_mount_are_watched_once(context: RunContext, planted: Planted) -> None:
    place = context.places["data"]
    assert nfs_mounts({"data": place, "wal": place}) == {place.target: str(place.mount_point)}
    place.filesystem = "ext4"
    assert nfs_mounts({"data": place}) == {}
    answer = MountstatsCollector(LONG).applies(context)
    assert (answer.ok, answer.moot) == (False, True)

"""Causes that figures beside the parts tell: named where both differ, and where one does, not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from nfslab.evidence.anatomy.parts import CallFacts
from nfslab.evidence.postgres.kind import WAITS_TABLE
from nfslab.evidence.syscalls.facts import LevelFacts
from nfslab.findings import filling_cache
from nfslab.findings.registry import findings_of
from nfslab.results.records import (
    CheckRecord,
    DurabilityRecord,
    EvidenceRecord,
    Metric,
)

from tests.findings.pairs import US, anatomy, compared_sides

BLOCKS = 6
LONGER_NS = 600 * US
USUAL = {
    "wal_fsync": 300 * US, "group_commit_wait": 200 * US, "wal_write": 30 * US,
    "buffer_read": 100 * US, "running/run_queue": 60 * US, "running/on_cpu": 200 * US,
    "client": 400 * US,
}  # fmt: skip
FILES = {
    "program": 100 * US, "kernel": 50 * US,
    "storage/server processing": 300 * US, "storage/reply transit": 50 * US,
}  # fmt: skip
SERIES = {
    "base": (LevelFacts(0, 900, 400_000, 4e5),),
    "new": (LevelFacts(0, 57, 400_000, 4e5), LevelFacts(57, 800, 5_100_000, 5.1e6)),
}


def counted(**views: dict[str, float]) -> dict[str, Any]:
    """A record with PostgreSQL's counters over 1,000 transactions."""
    summary = {"deltas": views}
    return {
        "metrics": {"transactions": Metric(value=1000, unit="1")},
        "evidence": [EvidenceRecord(collector="postgres", summary=summary)],
    }


def others(share: float) -> dict[str, Any]:
    """A record with the check of competing load."""
    values = {"others_during": share, "steal_during": 0.0}
    check = CheckRecord(name="busy_machine", verdict="ok", message="", values=values)
    return {"checks": [check]}


def keeps(level: Any) -> dict[str, Any]:
    """A record with its durability."""
    return {"durability": DurabilityRecord(level=level)}


def at(**targets: str) -> dict[str, Any]:
    """A record with its places."""
    return {"places": {role: SimpleNamespace(target=name) for role, name in targets.items()}}


@dataclass(frozen=True)
class Planted:
    """What differs besides one part, which is longer."""

    part: str
    base: Mapping[str, Any] = field(default_factory=dict)
    """Of the record."""
    new: Mapping[str, Any] = field(default_factory=dict)
    usual: Mapping[str, float] = field(default_factory=lambda: USUAL)
    facts: tuple[Mapping[str, Any], Mapping[str, Any]] = ({}, {})
    """Of the anatomy, of base and new."""
    by_reason: bool = True


WRITES = tuple(
    CallFacts(
        operation=name,
        per_operation=number,
        bytes_mean=8500,
        parts_ns={"server processing": 50 * US},
    )
    for name, number in (("WRITE", 1.0), ("GETATTR", 0.2))
)
PLANTED = {
    "checkpoint": Planted(
        "wal_fsync", counted(pg_stat_bgwriter={"checkpoints_timed": 0, "checkpoints_req": 0}),
        counted(pg_stat_bgwriter={"checkpoints_timed": 0, "checkpoints_req": 3})),
    "full_page_writes": Planted(
        "wal_fsync", counted(pg_stat_wal={"wal_fpi": 0, "wal_bytes": 600_000}),
        counted(pg_stat_wal={"wal_fpi": 1500, "wal_bytes": 12_000_000})),
    "durability": Planted("wal_fsync", keeps("volatile"), keeps("stable")),
    "shared_device": Planted("group_commit_wait", at(wal="a", data="b"), at(wal="a", data="a")),
    "noisy_neighbour": Planted("running/run_queue", others(0.02), others(0.6)),
    "client_memory": Planted(
        "buffer_read", {"memory_limit": {"limit_bytes": 4 << 30}},
        {"memory_limit": {"limit_bytes": 64 << 20}}),
    "client_cpu": Planted("program", usual=FILES, by_reason=False),
    "nvram_full": Planted(
        "storage/server processing", usual=FILES,
        facts=({"stable_levels_ns": (20_000,)}, {"stable_levels_ns": (21_000, 900_000)})),
    "serial_writes": Planted(
        "storage/server processing", usual=FILES,
        facts=({"writes_at_once": 6.5, "calls": WRITES}, {"writes_at_once": 1.0, "calls": WRITES})),
    "autovacuum": Planted("buffer_read"),
    "filling_cache": Planted("wal_fsync"),
}  # fmt: skip


@pytest.fixture
def folders(tmp_path: Path) -> dict[str, Path]:
    """Of both points, with samples of the server's processes: two autovacuum workers, or none."""
    made = {}
    for label, workers in (("base", 0), ("new", 2)):
        kinds = ["client backend"] + ["autovacuum worker"] * bool(workers)
        rows = [
            {"t_ns": tick, "backend_type": kind, "wait_event_type": "", "wait_event": "",
             "state": "active", "backends": workers if "auto" in kind else 4}
            for tick in range(0, 10**9, 10**8) for kind in kinds
        ]  # fmt: skip
        made[label] = tmp_path / label
        (made[label] / "evidence").mkdir(parents=True)
        table = pa.Table.from_pylist(rows).replace_schema_metadata({"nfslab.format": "1"})
        pq.write_table(table, made[label] / "evidence" / f"{WAITS_TABLE}.parquet")
    return made


def found_of(planted: Planted, *, same_part: bool = False, same_figures: bool = False,
             folders: Mapping[str, Path] = {}) -> list[Any]:  # fmt: skip
    """Findings; without the longer part, or without what differs beside it."""
    rng = np.random.default_rng(1)
    longer = {} if same_part else {planted.part: planted.usual[planted.part] + LONGER_NS}
    sides = {}
    for which, (label, parts) in enumerate(
        (("base", planted.usual), ("new", dict(planted.usual) | longer))
    ):
        noisy = [
            {path: ns * float(np.exp(rng.normal(0, 0.03))) for path, ns in parts.items()}
            for _ in range(BLOCKS)
        ]
        facts = planted.facts[0 if same_figures else which]
        sides[label] = [anatomy(one, frozenset()).model_copy(update=dict(facts)) for one in noisy]
    records = {"base": planted.base, "new": planted.base if same_figures else planted.new}
    where = {"base": folders["base"], "new": folders["base" if same_figures else "new"]}
    return findings_of(compared_sides(sides, records=records, folders=where))


@pytest.mark.parametrize("cause", PLANTED)
def test_the_part_and_the_figure_name_it(
    cause: str, folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    planted = PLANTED[cause]
    if cause == "filling_cache":
        monkeypatch.setattr(filling_cache, "_levels", lambda run: SERIES[run.folder.name])
    if cause != "autovacuum":
        folders = {label: folder.parent / "none" / label for label, folder in folders.items()}
    first = found_of(planted, folders=folders)[0]
    assert first.cause == cause
    assert first.effect_ns == pytest.approx(LONGER_NS, rel=0.1)
    assert bool(first.because) == planted.by_reason
    assert cause not in {one.cause for one in found_of(planted, same_part=True, folders=folders)}
    if planted.by_reason:
        alone = found_of(planted, same_figures=True, folders=folders)
        assert cause not in {one.cause for one in alone}


def test_autovacuum_competes_with_the_client_program(folders: dict[str, Path]) -> None:
    """For the processors: the client's time is longer, and the workers tell why."""
    first = found_of(Planted("client"), folders=folders)[0]
    assert (first.cause, first.effect_ns) == ("autovacuum", pytest.approx(LONGER_NS, rel=0.1))
    for without in ({"same_part": True}, {"same_figures": True}):
        found = found_of(Planted("client"), folders=folders, **without)
        assert "autovacuum" not in {one.cause for one in found}


def test_slower_transactions_alone_are_not_for_whole_pages(tmp_path: Path) -> None:
    """A page is written whole once after each checkpoint: fewer transactions have more each."""
    few = {"pg_stat_wal": {"wal_fpi": 900, "wal_bytes": 8_000_000}}
    many = {"pg_stat_wal": {"wal_fpi": 1100, "wal_bytes": 12_000_000}}
    base, new = counted(**many), counted(**few)
    base["metrics"] = {"transactions": Metric(value=4000, unit="1")}
    nowhere = {"base": tmp_path / "base", "new": tmp_path / "new"}
    found = found_of(Planted("wal_fsync", base, new), folders=nowhere)
    assert {one.cause for one in found} == {"log_sync"}


def test_writes_that_are_few_of_the_calls_are_not_the_cause(folders: dict[str, Path]) -> None:
    asked = tuple(
        CallFacts(
            operation=name, per_operation=n, bytes_mean=300, parts_ns={"server processing": 50 * US}
        )
        for name, n in (("WRITE", 0.1), ("GETATTR", 3.0))
    )
    facts = ({"writes_at_once": 6.5, "calls": asked}, {"writes_at_once": 1.0, "calls": asked})
    found = found_of(
        Planted("storage/server processing", usual=FILES, facts=facts), folders=folders
    )
    assert "serial_writes" not in {one.cause for one in found}

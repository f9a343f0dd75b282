"""PostgreSQL's evidence: how waits are counted, flushes of both kinds of server, the panel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nfslab.evidence.postgres import kind as module
from nfslab.evidence.postgres.kind import OTHER_WAITS, RUNNING, PostgresEvidence, wait_name

from tests.evidence.runs import found_of, sealed_run

S = 1_000_000_000


@pytest.mark.parametrize(
    ("event_type", "event", "state", "counted"),
    [
        ("IO", "WALSync", "active", "IO: WALSync"),
        ("", "", "active", RUNNING),
        ("", "", "idle", None),
        ("Activity", "WalWriterMain", "", None),
        ("Client", "ClientRead", "idle", None),
        ("Client", "ClientRead", "idle in transaction", "Client: ClientRead"),
        ("", "", "", None),
    ],
)
def test_how_a_backend_is_counted(
    event_type: str, event: str, state: str, counted: str | None
) -> None:
    assert wait_name(event_type, event, state) == counted


def wait(event: str, backends: float) -> dict[str, Any]:
    return {
        "backend_type": "client backend", "wait_event_type": "IO", "wait_event": event,
        "state": "active", "mean_backends": backends,
    }  # fmt: skip


SUMMARY = {
    "version": "17.1", "samples": 10, "missed_ticks": 0,
    "waits": [wait("WALSync", 3.0), wait("DataFileRead", 1.0)],
    "deltas": {"pg_stat_wal": {"wal_sync": 50, "wal_sync_time": 100.0}},
}  # fmt: skip


def test_flushes_are_counted_by_transaction(tmp_path: Path) -> None:
    kind = PostgresEvidence()
    facts = kind.facts(sealed_run(tmp_path, "postgres", SUMMARY, metrics={"transactions": 100}))
    assert facts is not None
    assert (facts.log_flushes, facts.flushes_per_transaction) == (50, 0.5)
    assert facts.log_flush_time_ms == 100.0
    assert facts.deltas == {"pg_stat_wal.wal_sync": 50, "pg_stat_wal.wal_sync_time": 100.0}
    assert [one.wait for one in facts.waits] == ["IO: WALSync", "IO: DataFileRead"]


def test_version_18_has_them_in_the_rows_of_its_log() -> None:
    rows = {
        "client backend/wal/normal": {"fsyncs": 3.0, "fsync_time": 6.0},
        "walwriter/wal/normal": {"fsyncs": 1.0},
        "client backend/relation/normal": {"fsyncs": 9.0},
    }
    assert module.log_flushes({"pg_stat_io": rows}) == (4.0, 6.0)
    assert module.log_flushes({}) == (None, None)


def test_the_mean_flush_is_that_of_all_flushes_together(tmp_path: Path) -> None:
    kind = PostgresEvidence()
    few = SUMMARY | {"deltas": {"pg_stat_wal": {"wal_sync": 10, "wal_sync_time": 80.0}}}
    runs = [
        sealed_run(tmp_path / "a", "postgres", SUMMARY),
        sealed_run(tmp_path / "b", "postgres", few),
    ]
    section = kind.section(found_of({"x=1": [(run, kind.facts(run)) for run in runs]}))
    assert section is not None
    assert section.tables[0].rows[0][-1].value == (100.0 + 80.0) / (50 + 10)


@pytest.mark.parametrize(("spent_ms", "shown_ms"), [(0.00185, None), (0.499, None), (0.5, 0.01)])
def test_a_mean_that_the_servers_clock_cuts_off_is_withheld(
    tmp_path: Path, spent_ms: float, shown_ms: float | None
) -> None:
    """1.85 us for 50 flushes is 37 ns each: what is left of times below a microsecond."""
    kind = PostgresEvidence()
    deltas = {"pg_stat_wal": {"wal_sync": 50, "wal_sync_time": spent_ms}}
    run = sealed_run(tmp_path, "postgres", SUMMARY | {"deltas": deltas})
    facts = kind.facts(run)
    assert facts is not None
    figures = kind.at_point([facts])
    assert figures is not None
    assert figures.mean_ms == shown_ms
    section = kind.section(found_of({"x=1": [(run, facts)]}))
    assert section is not None
    assert section.tables[0].rows[0][-1].value == (shown_ms or "")
    assert (f"x=1: {module.CUT_OFF}" in section.notes) == (shown_ms is None)


def test_counters_that_were_reset_are_withheld(tmp_path: Path) -> None:
    summary = SUMMARY | {
        "deltas": {"pg_stat_wal": {"wal_sync": -7}, "pg_stat_database": {"xact_commit": 9}},
        "resets": ["pg_stat_wal.*", "pg_stat_wal.wal_sync"],
    }
    facts = PostgresEvidence().facts(sealed_run(tmp_path, "postgres", summary))
    assert facts is not None
    assert facts.log_flushes is None
    assert facts.deltas == {"pg_stat_database.xact_commit": 9}
    assert "pg_stat_wal" in facts.incomplete


def test_rare_waits_are_one_band_and_no_backend_is_lost(tmp_path: Path) -> None:
    events = [f"Wait{k}" for k in range(module.WAITS_MOST + 3)]
    tables = {
        "postgres_waits": {
            "t_ns": [0] * (len(events) + 2),
            "backend_type": ["client backend"] * (len(events) + 2),
            "wait_event_type": ["IO"] * len(events) + ["", "Activity"],
            "wait_event": [*events, "", "Main"],
            "state": ["active"] * (len(events) + 1) + [""],
            "backends": [*range(len(events), 0, -1), 5, 7],
        }
    }
    (panel,) = PostgresEvidence().panels(sealed_run(tmp_path, tables=tables))
    labels = [series.label for series in panel.series]
    assert labels[0] == RUNNING
    assert labels[-1] == OTHER_WAITS
    assert len(labels) == module.WAITS_MOST + 1
    total = sum(float(np.asarray(series.y)[0]) for series in panel.series)
    assert total == sum(range(len(events) + 1)) + 5, "idle processes do not count"

"""Sealed runs made up for tests of one kind of evidence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from nfslab.evidence.base import Facts, Found, RunFacts, SealedRun
from nfslab.results.records import EvidenceRecord, HostRecord, Metric, RunRecord
from nfslab.results.upgrade import stamp_table


def sealed_run(
    folder: Path,
    collector: str = "",
    summary: dict[str, Any] | None = None,
    tables: dict[str, dict[str, Any]] | None = None,
    metrics: dict[str, float] | None = None,
    hosts: dict[str, HostRecord] | None = None,
) -> SealedRun:
    """A run with these tables of evidence, summary and metrics (operations a second or so)."""
    (folder / "evidence").mkdir(parents=True, exist_ok=True)
    for name, columns in (tables or {}).items():
        table = stamp_table(pa.table(columns), (hosts or {}).get("server"))
        pq.write_table(table, folder / "evidence" / f"{name}.parquet")
    evidence = [EvidenceRecord(collector=collector, summary=summary)] if summary else []
    record = RunRecord.model_construct(
        run_id=folder.name,
        block=0,
        started_unix_ns=0,
        load=None,
        operations="transactions",
        evidence=evidence,
        metrics={
            name: Metric(value=value, unit="1", better="higher")
            for name, value in (metrics or {}).items()
        },
        parameters={},
        hosts=hosts or {},
    )
    return SealedRun(folder, record)


def found_of(points: dict[str, list[tuple[SealedRun, Facts]]]) -> Found[Any]:
    """Label of a point -> its runs with their facts."""
    runs = [
        RunFacts(run, point, block, f"{label}, repetition {block + 1}", facts)
        for point, (label, same) in enumerate(points.items())
        for block, (run, facts) in enumerate(same)
    ]
    return Found("made", runs, list(points))

"""Profiles planted in run folders, as the collector `profile` leaves them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from nfslab.results.checksums import write_checksums

HZ = 100
PERIOD = 10_000_000
Row = tuple[str, str, int, int]
"""(class, stack "process;frame;frame", kernel frames, samples)."""


def write_profile(run: Path, rows: Iterable[Row], **values: Any) -> None:
    """A table of stacks, and the collector's record in run.json; 10 s of two CPUs at 100 Hz."""
    listed = list(rows)
    folder = run / "evidence"
    folder.mkdir(exist_ok=True)
    table = pa.table(
        {
            "t_ns": pa.array(range(len(listed)), pa.int64()),
            "class": [row[0] for row in listed],
            "process": [row[1].split(";")[0] for row in listed],
            "stack": [row[1] for row in listed],
            "frames": [row[1].count(";") for row in listed],
            "kernel_frames": [row[2] for row in listed],
            "samples": [row[3] for row in listed],
            "weight": [row[3] * PERIOD for row in listed],
        }
    )
    pq.write_table(table, folder / "profile_stacks.parquet")
    busy = sum(row[3] for row in listed if row[0] != "idle")
    summary = {
        "scope": "machine", "kernel": True, "event": "cpu-clock", "frequency_hz": HZ,
        "call_graph": "fp", "cpus": 2, "window_s": 10.0, "samples": busy,
        "idle_share": 1 - busy / (2 * 10 * HZ), "idle_by": "samples",
        "busiest_thread": {"process": "postgres", "thread": "7", "share_of_a_cpu": 0.2},
        "perf_share_of_a_cpu": 0.0012, "notes": [], "remarks": [],
    } | values  # fmt: skip
    path = run / "run.json"
    record = json.loads(path.read_text())
    record["evidence"] = [one for one in record["evidence"] if one["collector"] != "profile"]
    record["evidence"].append(
        {
            "collector": "profile", "status": "ok", "reason": "",
            "tables": ["evidence/profile_stacks.parquet"], "summary": summary,
            "cpu_s": 0.012, "wall_s": 10.0,
        }
    )  # fmt: skip
    path.write_text(json.dumps(record))
    write_checksums(run)

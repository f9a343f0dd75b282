"""A capture's analysis as evidence of a run: tables over time, a summary, and all of it.

* `capture_rpc`: calls entering and completing, the queue, bytes, retransmissions, in the bins of
  the core's lens `rpcstat`.
* `capture_operations`: each operation's rate and latencies, in the slices of the lens `blocks`.
* `capture_stalls`: stalls, pauses and losses, named.
* `capture_analysis`: everything that the core found, as it handed it over (JSON and long
  columns): a report shows a run's capture from it, without the packets.

Times are t_ns, nanoseconds since the start of the timed part; figures over time stand at the
end of their bin, as those of the collector `system` do.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from nfslab import clock
from nfslab.captures.analysis import CaptureAnalysis
from nfslab.captures.spelling import operation
from nfslab.results.evidence_tables import has_evidence, read_evidence

if TYPE_CHECKING:
    from pathlib import Path

    from nfslab._core import OperationRow

NS_PER_S = 1e9
NS_PER_MS = 1e6
CONTENT = "content"
"""Name of the row of `capture_analysis` that is the JSON object."""
ANALYSIS_TABLE = "capture_analysis"
SUMMARY_OPERATIONS = 64
RATES = (
    "sent_calls", "answered_calls", "sent_bytes", "answered_bytes", "read_bytes", "written_bytes",
    "retransmissions", "duplicate_replies",
)  # fmt: skip
VALUES = ("queue_mean", "queue_max", "slots_max")
STALL = (
    "length_ns", "kind", "scope", "server", "client", "outstanding_peak", "retransmissions",
    "evidence",
)  # fmt: skip


def tables(capture: CaptureAnalysis, zero_ns: int) -> dict[str, pa.Table]:
    """The evidence tables; `zero_ns` is the start of the timed part, since 1970."""
    made = {
        "capture_rpc": _rpc(capture, zero_ns),
        "capture_operations": _operations(capture, zero_ns),
        "capture_stalls": _stalls(capture, zero_ns),
        ANALYSIS_TABLE: analysis_table(capture, zero_ns),
    }
    return {name: table for name, table in made.items() if table is not None and table.num_rows}


def _rpc(capture: CaptureAnalysis, zero_ns: int) -> pa.Table | None:
    section = capture.content.get("rpcstat")
    if not section or not section["bins"]:
        return None
    width_ns, bins = section["bin_ns"], section["bins"]
    ends = section["origin_ns"] + width_ns * np.arange(1, bins + 1, dtype=np.int64)
    columns: dict[str, Any] = {"t_ns": ends - zero_ns}
    for name in RATES:
        columns[f"{name}_per_s"] = capture.column(f"rpcstat/{name}") * (NS_PER_S / width_ns)
    for name in VALUES:
        columns[name] = capture.column(f"rpcstat/{name}").astype(np.float64)
    return pa.table({name: pa.array(values) for name, values in columns.items()})


def _operations(capture: CaptureAnalysis, zero_ns: int) -> pa.Table | None:
    section = capture.content.get("blocks")
    if not section or section["origin_ns"] is None:
        return None
    slices = section["slices"]
    width_ns = slices["width_ns"]
    rows: list[dict[str, Any]] = []
    for number in range(slices["count"]):
        end_ns = section["origin_ns"] + (number + 1) * width_ns - zero_ns
        for row in slices["operations"]:
            if row["calls"][number]:
                rows.append(
                    {
                        "t_ns": end_ns,
                        "operation": operation(row),
                        "calls_per_s": row["calls"][number] * NS_PER_S / width_ns,
                        "mean_ms": _ms(row["mean_ns"][number]),
                        "p50_ms": _ms(row["p50_ns"][number]),
                        "p99_ms": _ms(row["p99_ns"][number]),
                    }
                )
    figures = ("calls_per_s", "mean_ms", "p50_ms", "p99_ms")
    kinds: dict[str, Any] = {"t_ns": pa.int64(), "operation": pa.string()}
    kinds |= dict.fromkeys(figures, pa.float64())
    return pa.Table.from_pylist(rows, schema=pa.schema(kinds))


def _ms(value_ns: float | None) -> float | None:
    return None if value_ns is None else value_ns / NS_PER_MS


def _stalls(capture: CaptureAnalysis, zero_ns: int) -> pa.Table | None:
    section = capture.content.get("stalls")
    rows = []
    for gap in sorted(section["gaps"] if section else (), key=lambda gap: gap["begin_ns"]):
        known = dict[str, Any](gap)
        rows.append({"t_ns": gap["begin_ns"] - zero_ns} | {name: known[name] for name in STALL})
    return pa.Table.from_pylist(rows) if rows else None


def analysis_table(capture: CaptureAnalysis, zero_ns: int) -> pa.Table:
    """One row for the JSON, one for each long column; all at the time of the last packet (of the
    analysis, where there was none)."""
    last_ns = capture.content["last_ns"]
    end_ns = (clock.wall_ns() if last_ns is None else last_ns) - zero_ns
    parts = [(CONTENT, "json", json.dumps(capture.content, separators=(",", ":")).encode())]
    parts += [(name, dtype, data) for name, (dtype, data) in capture.blobs.items()]
    names, kinds, data = zip(*parts, strict=True)
    return pa.table(
        {
            "t_ns": pa.array([end_ns] * len(parts), pa.int64()),
            "name": pa.array(names, pa.string()),
            "dtype": pa.array(kinds, pa.string()),
            "data": pa.array(data, pa.large_binary()),
        }
    )


def stored_analysis(run: Path, label: str) -> CaptureAnalysis | None:
    """What `tables` stored of a run, as it was; None when the run has no capture. ResultsError."""
    if not has_evidence(run, ANALYSIS_TABLE):
        return None
    rows = read_evidence(run, ANALYSIS_TABLE, ["name", "dtype", "data"]).to_pylist()
    content = next((json.loads(row["data"]) for row in rows if row["name"] == CONTENT), None)
    if content is None:
        return None
    blobs = {row["name"]: (row["dtype"], row["data"]) for row in rows if row["name"] != CONTENT}
    return CaptureAnalysis([label], content, blobs, from_files=False)


def summary(capture: CaptureAnalysis) -> dict[str, Any]:
    """What a report shows without opening the tables."""
    content = capture.content
    rows = [row for row in content["operations"] if row["calls"]]
    shown = sorted(rows, key=lambda row: -row["calls"])[:SUMMARY_OPERATIONS]
    stalls = content.get("stalls")
    return {
        "packets": content["packets"],
        "bytes": content["bytes"],
        "calls": capture.calls,
        "unanswered": sum(row["unanswered"] for row in capture.outer),
        "retransmissions": sum(row["retransmissions"] for row in capture.outer),
        "lost_bytes": content["lost"]["bytes"],
        "lost_gaps": content["lost"]["gaps"],
        "operations": {operation(row): _operation(row) for row in shown},
        "stalls": stalls["totals"] if stalls else {},
        "anomalies": {entry["kind"]: entry["count"] for entry in content["anomalies"]},
    }


def _operation(row: OperationRow) -> dict[str, float | None]:
    found = {f"{key}_ms": _ms(row["latency_ns"][key]) for key in ("mean", "p50", "p99", "max")}
    return {"calls": row["calls"], **found}

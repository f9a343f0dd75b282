"""Reads captures with the product, and compares what it says with the generator's truth."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from nfslab._core import Trace

from tests.trace.generator import files, rpc
from tests.trace.generator.capture import Capture, TrueCall, Truth, truth
from tests.trace.generator.flows import Packet

PROGRAMS = {
    rpc.NFS: "NFS", rpc.MOUNT: "MOUNT", rpc.PORTMAP: "PORTMAP", rpc.NLM: "NLM", rpc.NSM: "NSM",
    rpc.NFSACL: "NFSACL", rpc.CALLBACK: "NFS4_CALLBACK",
}  # fmt: skip
#: Statuses that the generator uses, as the RFCs spell them.
STATUSES = {
    ("NFS", 2): {0: "NFS_OK", 2: "NFSERR_NOENT"},
    ("NFS", 3): {0: "NFS3_OK", 2: "NFS3ERR_NOENT", 5: "NFS3ERR_IO", 10008: "NFS3ERR_JUKEBOX"},
    ("NFS", 4): {0: "NFS4_OK", 2: "NFS4ERR_NOENT", 10008: "NFS4ERR_DELAY"},
    ("NFS4_CALLBACK", 1): {0: "NFS4_OK"},
    ("MOUNT", 1): {0: "0"},  # a UNIX error number (RFC 1094 appendix A)
    ("MOUNT", 3): {0: "MNT3_OK", 13: "MNT3ERR_ACCES"},
    ("NLM", 4): {0: "NLM4_GRANTED", 1: "NLM4_DENIED"},
    ("NSM", 1): {0: "STAT_SUCC"},
    ("NFSACL", 3): {0: "NFS3_OK"},
}


@dataclass(frozen=True)
class Found:
    """What the product found in a capture."""

    summary: dict[str, Any]
    rows: list[dict[str, Any]]

    @property
    def anomalies(self) -> dict[str, int]:
        return {entry["kind"]: entry["count"] for entry in self.summary["anomalies"]}

    def operation(self, name: str, program: str = "NFS") -> dict[str, Any]:
        """The table's one row of this operation."""
        (row,) = (
            row
            for row in self.summary["operations"]
            if row["operation"] == name and row["program_name"] == program
        )
        return row


def read(*inputs: Path | tuple[str, int]) -> Found:
    """Rows and summary of captures read as one."""
    trace = Trace(list(inputs), json.dumps({"columns": True}))
    rows: list[dict[str, Any]] = []
    for batch in pa.RecordBatchReader.from_stream(trace.batches()):
        rows += batch.to_pylist()
    summary, _blobs = trace.finish()
    return Found(json.loads(summary), rows)


def written(
    capture: Capture, folder: Path, form: files.Format | None = None, name: str = "capture.pcap",
    frames: list[Packet] | None = None,
) -> tuple[Path, Truth]:  # fmt: skip
    """Writes a capture; its path and its truth."""
    form = form or files.Format()
    capture.link_bytes = form.link_bytes
    frames = capture.frames() if frames is None else frames
    if not form.nanoseconds:
        frames = [replace(frame, time_ns=frame.time_ns // 1000 * 1000) for frame in frames]
    data = files.encode(frames, form, capture.snaplen)
    return files.write(folder / name, data, form.compression), truth(capture, frames)


def expected(call: TrueCall, *, path: bool = True) -> dict[str, Any]:
    """The row that a call should give; fields that are a matter of taste are not in it."""
    planned, body = call.exchange, call.exchange.body
    program = PROGRAMS[body.program]
    first, reply = call.sends[0], call.replies[0] if call.replies else None
    row: dict[str, Any] = {
        "call_first_ns": first.first_ns, "call_last_ns": first.last_ns,
        "reply_first_ns": reply and reply.first_ns, "reply_last_ns": reply and reply.last_ns,
        "client": planned.client.host, "client_port": planned.client.port,
        "server": planned.server.host, "server_port": planned.server.port,
        "transport": planned.transport, "xid": planned.xid, "program": program,
        "version": body.version, "operation": body.operation,
        "sends": len(call.sends), "replies": len(call.replies), "user": planned.auth.user,
        "frame_call": first.first_frame, "frame_reply": reply and reply.first_frame,
    }  # fmt: skip
    if reply is None:
        row["status"] = None
    elif body.status is None:
        row["status"] = "SUCCESS"
    else:
        row["status"] = STATUSES[program, body.version][body.status]
    if body.operations:
        row["operations"] = " ".join(body.operations)
    if body.handle is not None:
        row["file_handle"] = body.handle.hex()
        if path and body.path is not None:
            row["path"] = body.path
    for name in ("offset", "count"):
        if getattr(body, name) is not None:
            row[name] = getattr(body, name)
    row["bytes"] = (body.bytes_read if reply else 0) + body.bytes_written
    return row


def differences(
    found: Sequence[dict[str, Any]], calls: Sequence[TrueCall], columns: Iterable[str] = (),
    *, path: bool = True,
) -> list[str]:  # fmt: skip
    """How the rows differ from the truth, in order; `columns`: only these."""
    only = set(columns)
    out = []
    if len(found) != len(calls):
        missing = Counter(call.exchange.xid for call in calls)
        missing.subtract(row["xid"] for row in found)
        out.append(f"{len(found)} rows, {len(calls)} calls: {dict(+missing)} {dict(-missing)}")
        return out
    for number, (row, call) in enumerate(zip(found, calls, strict=True)):
        for name, value in expected(call, path=path).items():
            if (not only or name in only) and row[name] != value:
                operation = call.exchange.body.operation
                out.append(f"row {number} {operation} {name}: {row[name]!r}, not {value!r}")
    return out


def assert_same(found: Found, true: Truth, columns: Iterable[str] = (), path: bool = True) -> None:
    """Rows, extent and loss are those of the truth."""
    wrong = differences(found.rows, true.calls, columns, path=path)
    assert not wrong, "\n".join(wrong[:20])
    summary = found.summary
    extent = {name: summary[name] for name in ("packets", "bytes", "first_ns", "last_ns", "lost")}
    lost = {"bytes": true.lost_bytes, "gaps": true.lost_gaps}
    assert extent == {
        "packets": true.packets, "bytes": true.bytes, "first_ns": true.first_ns,
        "last_ns": true.last_ns, "lost": lost,
    }, f"{extent} {true.packets} {true.bytes} {true.first_ns} {true.last_ns} {lost}"  # fmt: skip

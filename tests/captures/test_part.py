"""`--from`, `--to`: the figures of a part, against the packets and calls that lie in it."""

from __future__ import annotations

import gzip
import json
import struct
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from nfslab._core import Trace

CAPTURES = sorted(Path(__file__).parent.glob("**/*.pcap.gz"))
HEADER_BYTES = 24
MAGIC_NS = 0xA1B23C4D
OF_PACKETS = ("not_ip", "malformed_ip", "truncated_headers", "length_exceeds_frame", "not_tcp_udp")
"""What is odd about a packet by itself."""


def records(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Time in ns and the whole record of each packet (pcap, of this byte order)."""
    (magic,) = struct.unpack("<I", data[:4])
    unit_ns = 1 if magic == MAGIC_NS else 1000
    at = HEADER_BYTES
    while at < len(data):
        seconds, part, captured, _ = struct.unpack("<IIII", data[at : at + 16])
        yield seconds * 10**9 + part * unit_ns, data[at : at + 16 + captured]
        at += 16 + captured


def read(path: Path, window_ns: tuple[int, int] | None) -> tuple[dict[str, Any], list[Any]]:
    """What the core finds, and the calls with the time of their sending."""
    trace = Trace([path], json.dumps({"columns": True, "window_ns": window_ns}))
    names = ("program", "version", "operation", "call_first_ns")
    rows = []
    for batch in pa.RecordBatchReader.from_stream(trace.batches()):
        rows += batch.select(names).to_pylist()
    return json.loads(trace.finish()[0]), rows


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.name)
@pytest.mark.parametrize("share", [(0.0, 0.4), (0.3, 0.7), (0.6, 2.0)])
def test_the_figures_are_those_of_what_lies_in_it(
    capture: Path, share: tuple[float, float], tmp_path: Path
) -> None:
    data = gzip.decompress(capture.read_bytes())
    packets = list(records(data))
    first_ns = packets[0][0]
    length_ns = max(time_ns for time_ns, _ in packets) - first_ns
    from_ns, to_ns = (round(length_ns * one) for one in share)
    inside = [raw for time_ns, raw in packets if from_ns <= time_ns - first_ns < to_ns]
    alone = tmp_path / "alone.pcap"
    alone.write_bytes(data[:HEADER_BYTES] + b"".join(inside))
    (part, of_part), (whole, of_whole) = (read(capture, one) for one in ((from_ns, to_ns), None))
    expected, _ = read(alone, None)
    for name in ("packets", "bytes", "captured_bytes", "truncated_packets"):
        assert part[name] == expected[name], name
    odd = [{one["kind"]: one["count"] for one in found["anomalies"]} for found in (part, expected)]
    for kind in OF_PACKETS:
        assert odd[0].get(kind) == odd[1].get(kind), kind
    # Calls are those sent in it, whenever their reply came.
    sent = [row for row in of_whole if from_ns <= row["call_first_ns"] - first_ns < to_ns]
    key = lambda row: (row["program"], row["version"], row["operation"])  # noqa: E731
    assert Counter(map(key, of_part)) == Counter(map(key, sent))
    assert part["calls"] == len(sent)
    assert (part["first_ns"], part["duration_ns"]) == (whole["first_ns"], whole["duration_ns"])


def test_parts_that_follow_each_other_add_up() -> None:
    capture = CAPTURES[0].parent / "v3_udp_stalls_retrans.pcap.gz"
    whole, _ = read(capture, None)
    cuts = [0, whole["duration_ns"] // 3, whole["duration_ns"] * 2 // 3, 1 << 62]
    parts = [read(capture, cut)[0] for cut in pairwise(cuts)]
    for name in ("packets", "bytes", "captured_bytes", "calls"):
        assert sum(part[name] for part in parts) == whole[name], name
    assert sum(part["lost"]["gaps"] for part in parts) == whole["lost"]["gaps"]

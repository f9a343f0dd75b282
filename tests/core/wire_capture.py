"""What tcpdump takes from the loopback interface, read back as calls by transaction id."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from nfslab._core import Trace
from nfslab.captures import tool as tools

from tests.cli.serving import null
from tests.waiting import until

MARK = 0x4D41524B
"""A transaction id: behind it nothing more comes."""


@contextmanager
def captured(path: Path, port: int) -> Iterator[None]:
    """tcpdump on the loopback interface; all that was sent in the block is in the file."""
    answer = tools.available("tcpdump")
    if not answer.ok:
        pytest.skip(f"{answer.reason}: {answer.fix}")
    # Not --immediate-mode: its buffer has a slot of the snapshot length (256 KiB) for each packet,
    # 128 of them in 32 MiB, which a tcpdump without a processor loses in a moment.
    command = ["tcpdump", "-i", "lo", "-s", "0", "-U", "-B", "65536"]
    command += ["--time-stamp-precision", "nano", "-Z", "root", "-w", str(path), "port", str(port)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as tcpdump:
        try:
            assert tcpdump.stderr is not None
            while "listening on" not in (line := tcpdump.stderr.readline()):
                assert line, "tcpdump ended"
            yield
            assert null(port, MARK) == 0
            until(lambda: path.read_bytes().count(MARK.to_bytes(4)) >= 2)
            tcpdump.send_signal(signal.SIGINT)
            said = tcpdump.stderr.read()
            assert "\n0 packets dropped by kernel" in said, said
        finally:
            tcpdump.kill()


def of_the_wire(path: Path) -> dict[int, dict[str, Any]]:
    """Calls of the capture by transaction id: operations of NFS and MOUNT, no id twice."""
    trace = Trace([path], json.dumps({"lenses": ["operations"], "columns": True}))
    rows = pa.RecordBatchReader.from_stream(trace.batches()).read_all().to_pylist()
    summary = json.loads(trace.finish()[0])
    assert summary["lost"] == {"bytes": 0, "gaps": 0}
    # Packets of two CPUs may come out of order, and where CPUs are busy a tail loss probe may send
    # one again that is only late (RFC 8985 section 7); nothing else may be odd.
    usual = {"time_went_back", "tcp_retransmission"}
    assert {odd["kind"] for odd in summary["anomalies"]} <= usual
    found = {row["xid"]: row for row in rows}
    assert len(found) == len(rows)
    return found

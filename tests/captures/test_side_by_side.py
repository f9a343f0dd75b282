"""`--workers`: files read by a process each give what reading them in a row gives, to the byte."""

from __future__ import annotations

import gzip
import json
import struct
from pathlib import Path

import pytest
from nfslab.captures.analysis import Asked, read_captures
from nfslab.captures.side_by_side import read_side_by_side

from tests.captures.test_part import HEADER_BYTES, records
from tests.cli.invocation import nfslab

CAPTURE = Path(__file__).parent / "linux61_pgbench_v3.pcap.gz"
LENSES = ("operations", "clients")
NO_IP = b"\x88\xb5"
SIZE_BYTES = 36 << 20
"""With frames that are no IP between the packets: files have to be of some MiB."""
LENGTH_S = 4000
"""The capture is drawn out to it: a call is settled 120 s after its reply."""


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Three files, given in another order, of which the last one ends within a packet."""
    whole = gzip.decompress(CAPTURE.read_bytes())
    packets = [bytearray(record) for _, record in records(whole)]
    frame = bytes(12) + NO_IP + bytes(SIZE_BYTES // len(packets))
    for number, packet in enumerate(packets):
        at_us = LENGTH_S * 10**6 * number // len(packets)
        instant = (1_700_000_000 + at_us // 10**6, at_us % 10**6)
        struct.pack_into("<II", packet, 0, *instant)
        packet += struct.pack("<IIII", *instant, len(frame), len(frame)) + frame
    paths = []
    for number in range(3):
        some = packets[len(packets) * number // 3 : len(packets) * (number + 1) // 3]
        paths.append(tmp_path / f"{number}.pcap")
        paths[-1].write_bytes(whole[:HEADER_BYTES] + b"".join(some))
    paths[-1].write_bytes(paths[-1].read_bytes()[:-5])
    return paths[::-1]


@pytest.mark.system
def test_two_workers_give_the_tables_of_one(files: list[Path]) -> None:
    found, alone = read_side_by_side(files, LENSES, 2), read_captures(files, Asked(LENSES))
    for analysis in (found, alone):
        assert analysis.content.pop("analysis_cpu_ns") > 0
    assert json.dumps(found.content) == json.dumps(alone.content)
    assert (found.blobs, found.names) == (alone.blobs, alone.names)
    assert found.calls > 0


@pytest.mark.parametrize("more", [["--quick", "--calls"], ["--calls"], ["--quick", "--by", "file"]])
def test_what_is_not_put_together_of_parts_one_process_makes(
    more: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = [*more, str(tmp_path / "calls.parquet")] if more[-1] == "--calls" else more
    said = nfslab(capsys, "trace", "--workers", 2, *more, CAPTURE, CAPTURE)
    assert (said.code, said.err.count("read by one process, here: only --quick")) == (0, 1)


def test_one_file_is_not_read_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    said = nfslab(capsys, "trace", "--quick", "--workers", 2, CAPTURE)
    assert (said.code, "one file" in said.err) == (0, True)

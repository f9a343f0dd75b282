"""`--workers`: files read by a process each give what reading them in a row gives, to the byte."""

from __future__ import annotations

import gzip
import json
import struct
from pathlib import Path

import pytest
from nfslab.captures import followed
from nfslab.captures.analysis import Asked, read_captures
from nfslab.captures.side_by_side import read_side_by_side
from nfslab.evidence.capture.collector import LENSES
from nfslab.storage.file_classes import read_file_classes

from tests.captures.test_part import HEADER_BYTES, records
from tests.cli.invocation import nfslab

CAPTURE = Path(__file__).parent / "linux61_pgbench_v3.pcap.gz"
ALL = Asked(LENSES, [("mine", "*/base/*"), *read_file_classes()])
NO_IP = b"\x88\xb5"
SIZE_BYTES = 36 << 20
"""With frames that are no IP between the packets: files have to be of some MiB."""
LENGTH_S = 4000
"""The capture is drawn out to it: a call is settled 120 s after its reply."""


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Three files, given in another order, of which the last one ends within a packet."""
    monkeypatch.setattr(followed, "LEAST_PROCESSORS", 1 << 20)
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
def test_two_workers_give_the_tables_and_rows_of_one(
    files: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found, alone = read_side_by_side(files, ALL, 2), read_captures(files, ALL)
    for analysis in (found, alone):
        assert analysis.content.pop("analysis_cpu_ns") > 0
    assert json.dumps(found.content) == json.dumps(alone.content)
    assert (found.blobs, found.names) == (alone.blobs, alone.names)
    assert found.calls > 0
    written = []
    for workers in (1, 2):
        rows = tmp_path / f"{workers}.parquet"
        said = nfslab(capsys, "trace", "--calls", rows, "--workers", workers, *files)
        assert (said.code, "one process is faster" in said.err) == (0, workers == 2), said.err
        assert "read by one process" not in said.err, "what was asked for is taken"
        written.append(rows.read_bytes())
    assert written[0] == written[1]


def test_one_file_is_not_read_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    said = nfslab(capsys, "trace", "--quick", "--workers", 2, CAPTURE)
    assert (said.code, "one file" in said.err) == (0, True)

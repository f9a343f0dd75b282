"""Counts of calls are those of tshark's own summary; what each call is, crates/trace compares."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.trace.reading import read

CAPTURES = Path(__file__).resolve().parents[1] / "captures"


def srt_counts(path: Path, program: str) -> dict[str, int]:
    """Calls per procedure by `-z rpc,srt`: lines "INDEX NAME CALLS ..." behind the program's."""
    found, here = {}, False
    for line in path.read_text().splitlines():
        if line.startswith("Filter: "):
            here = line == f"Filter: {program}"
        match = re.match(r"^\s*\d+\s+(\w+)\s+(\d+)\s+[\d.]+\s", line)
        if here and match:
            found[match[1]] = int(match[2])
    return found


@pytest.mark.parametrize("name", ["v3_tcp_q1", "v3_tcp_ipv6_q4", "v3_tcp_rpcfrag", "v3_udp"])
def test_counts_are_those_of_tshark_srt(name: str) -> None:
    ours = read(CAPTURES / f"{name}.pcap.gz")
    for program, section in (("NFS", "nfs.procedure_v3"), ("MOUNT", "mount.procedure_v3")):
        theirs = srt_counts(CAPTURES / f"{name}.srt.txt", section)
        assert theirs
        assert theirs == {
            row["operation"]: row["answered"]
            for row in ours.summary["operations"]
            if row["program_name"] == program
        }

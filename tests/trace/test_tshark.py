"""Against tshark, where tshark is right; and where it is known to be wrong, against the truth.

tshark times a call from the last byte of its last segment to the last byte of its first reply:
`reply_last_ns - call_last_ns` here. All comparisons are exact, call by call.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.trace.reading import read

CAPTURES = Path(__file__).resolve().parents[1] / "captures"
TSHARK = shutil.which("tshark")
tshark = pytest.mark.skipif(TSHARK is None, reason="tshark is not installed")
#: `nfs_opnum4` of RFC 8881 section 16.2.3 and RFC 7862 section 15, from OP_ACCESS = 3 on.
OPCODE_NAMES = """ACCESS CLOSE COMMIT CREATE DELEGPURGE DELEGRETURN GETATTR GETFH LINK LOCK LOCKT
LOCKU
LOOKUP LOOKUPP NVERIFY OPEN OPENATTR OPEN_CONFIRM OPEN_DOWNGRADE PUTFH PUTPUBFH PUTROOTFH READ
READDIR READLINK REMOVE RENAME RENEW RESTOREFH SAVEFH SECINFO SETATTR SETCLIENTID
SETCLIENTID_CONFIRM VERIFY WRITE RELEASE_LOCKOWNER BACKCHANNEL_CTL BIND_CONN_TO_SESSION EXCHANGE_ID
CREATE_SESSION DESTROY_SESSION FREE_STATEID GET_DIR_DELEGATION GETDEVICEINFO GETDEVICELIST
LAYOUTCOMMIT LAYOUTGET LAYOUTRETURN SECINFO_NO_NAME SEQUENCE SET_SSV TEST_STATEID WANT_DELEGATION
DESTROY_CLIENTID RECLAIM_COMPLETE ALLOCATE COPY COPY_NOTIFY DEALLOCATE IO_ADVISE LAYOUTERROR
LAYOUTSTATS OFFLOAD_CANCEL OFFLOAD_STATUS READ_PLUS SEEK WRITE_SAME CLONE"""
OPCODES = OPCODE_NAMES.split()


@dataclass(frozen=True)
class Message:
    """An RPC message as tshark lists it."""

    frame: int
    xid: int
    is_call: bool
    program: int
    procedure: int
    time_ns: int | None


def fields(path: Path, names: list[str], display: str) -> Iterator[list[list[str]]]:
    """Values of each field, for each frame that passes the filter."""
    command = [str(TSHARK), "-n", "-r", str(path), "-Y", display, "-T", "fields", "-E",
               "separator=;", "-E", "aggregator=,"]  # fmt: skip
    for name in names:
        command += ["-e", name]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    for line in done.stdout.splitlines():
        yield [part.split(",") if part else [] for part in line.split(";")]


def messages(path: Path) -> list[Message]:
    """All messages; frames with calls and replies mixed are not expected."""
    found = []
    names = ["frame.number", "rpc.xid", "rpc.msgtyp", "rpc.program", "rpc.procedure", "rpc.time"]
    for frame, xids, kinds, programs, procedures, times in fields(path, names, "rpc.xid"):
        is_call = kinds[0] == "0"
        assert kinds == [kinds[0]] * len(xids), frame
        for index, xid in enumerate(xids):
            seconds = None if is_call or len(times) != len(xids) else times[index]
            found.append(
                Message(
                    int(frame[0]), int(xid, 16), is_call, int(programs[index]),
                    int(procedures[index]), None if seconds is None else nanoseconds(seconds),
                )
            )  # fmt: skip
    return found


def nanoseconds(seconds: str) -> int:
    whole, _, rest = seconds.partition(".")
    return int(whole) * 10**9 + int(rest.ljust(9, "0"))


@pytest.mark.system
@tshark
@pytest.mark.parametrize("name", ["v3_tcp_ipv6_q4", "v41_slots8"])
def test_calls_and_times_are_those_of_tshark(name: str) -> None:
    path = CAPTURES / f"{name}.pcap.gz"
    theirs, ours = messages(path), read(path)
    calls = Counter(message.xid for message in theirs if message.is_call)
    assert calls == Counter(row["xid"] for row in ours.rows for _ in range(row["sends"]))
    times = {message.xid: message.time_ns for message in theirs if not message.is_call}
    compared = 0
    for row in ours.rows:
        if times.get(row["xid"]) is None or calls[row["xid"]] > 1:
            continue
        assert row["reply_last_ns"] - row["call_last_ns"] == times[row["xid"]], row
        compared += 1
    assert compared > 0.99 * len(ours.rows)


@pytest.mark.system
@tshark
def test_operations_of_compounds_are_those_of_tshark() -> None:
    path = CAPTURES / "v41_slots8.pcap.gz"
    theirs = {}
    for frame, opcodes in fields(path, ["frame.number", "nfs.opcode"], "rpc.msgtyp == 0 && nfs"):
        theirs[int(frame[0])] = " ".join(OPCODES[int(opcode) - 3] for opcode in opcodes)
    rows = [row for row in read(path).rows if row["operations"] is not None]
    per_frame = Counter(row["frame_call"] for row in rows)
    alone = [row for row in rows if per_frame[row["frame_call"]] == 1]
    # A call that spans segments is listed by tshark at its last one.
    compared = [row for row in alone if row["frame_call"] in theirs]
    assert len(compared) > 0.9 * len(rows)
    assert [row["operations"] for row in compared] == [
        theirs[row["frame_call"]] for row in compared
    ]


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

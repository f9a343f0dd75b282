"""`nfslab trace` where it cannot do what it is asked: bad captures, bad usage, interruption."""

from __future__ import annotations

import gzip
import os
import signal
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.invocation import nfslab
from tests.trace import scenes
from tests.trace.generator import companions, files
from tests.trace.generator.capture import Capture
from tests.trace.reading import written
from tests.waiting import until

CAPTURES = Path(__file__).resolve().parents[1] / "captures"
STALLS = CAPTURES / "v3_udp_stalls_retrans.pcap.gz"


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """A kernel capture, decompressed: to be cut and damaged."""
    path = tmp_path / "kernel.pcap"
    path.write_bytes(gzip.decompress((CAPTURES / "linux61_pgbench_v3.pcap.gz").read_bytes()))
    return path


def other_traffic(folder: Path) -> Path:
    """DNS-shaped datagrams and a TCP connection of another protocol."""
    made = Capture(1)
    flow = made.udp()
    made.converse(flow, companions.portmap())
    frames = made.frames()
    data = bytearray(files.encode(frames, files.Format()))
    path = folder / "other.pcap"
    # Without the RPC messages' second word (CALL or REPLY) nothing in it is RPC.
    at = 24
    while at < len(data):
        (length,) = struct.unpack_from("<I", data, at + 8)
        start = at + 16 + 14 + 20 + 8
        data[start : at + 16 + length] = b"\x07" * (at + 16 + length - start)
        at += 16 + length
    path.write_bytes(data)
    return path


BAD = ("missing", "folder", "empty", "text", "header only", "link type", "no nfs", "gzip cut")


@pytest.mark.parametrize("what", BAD)
def test_bad_input_is_a_sentence_with_a_fix(
    what: str, plain: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bad.pcap"
    header = plain.read_bytes()[:24]
    if what == "folder":
        path.mkdir()
    elif what == "empty":
        path.touch()
    elif what == "text":
        path.write_text("#!/bin/sh\necho this is no capture\n")
    elif what == "header only":
        path.write_bytes(header)
    elif what == "link type":
        path.write_bytes(header[:20] + struct.pack("<I", 105) + plain.read_bytes()[24:])
    elif what == "no nfs":
        path = other_traffic(tmp_path)
    elif what == "gzip cut":
        path.write_bytes(gzip.compress(b"no capture either " * 500)[:60])
    code, words = {
        "missing": (2, "No such file"),
        "folder": (2, "is a folder"),
        "empty": (1, "is empty"),
        "text": (1, "is not a packet capture"),
        "header only": (1, "no packet"),
        "link type": (1, "link type 105"),
        "no nfs": (1, "has no NFS in it"),
        "gzip cut": (1, "bad.pcap"),
    }[what]
    said = nfslab(capsys, "trace", path)
    assert (said.code, said.out) == (code, ""), said.err
    assert words in said.err
    assert "fix: " in said.err
    assert "Traceback" not in said.err


def test_what_there_is_instead_of_nfs_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = nfslab(capsys, "trace", other_traffic(tmp_path))
    assert "UDP datagrams without RPC" in said.err
    assert "udp 2049" in said.err
    mount = Capture(1)
    mount.converse(mount.udp(), companions.mount(scenes.v3_tree()))
    path, truth = written(mount, tmp_path, name="mount.pcap")
    said = nfslab(capsys, "trace", path)
    assert said.code == 1
    assert f"{len(truth.calls)} calls of MOUNTv3" in said.err


def test_a_file_that_is_cut_is_read_as_far_as_it_goes(
    plain: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = plain.read_bytes()
    plain.write_bytes(data[: len(data) * 2 // 3])
    said = nfslab(capsys, "trace", plain)
    assert (said.code, said.err) == (0, "")
    assert "captures that end within a packet" in said.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "Missing argument"),
        (["--compare"], "nothing to compare with"),
        (["--from", "5", "--to", "4"], "--to is not behind --from"),
        (["--from", "soon"], "is not a duration"),
        (["--class", "nonsense"], "is not NAME=PATTERN"),
        (["--class", "bad=[", "--by", "class"], "bad"),
        (["--json", "--by", "file"], "--json has all tables"),
        (["--html", "/nonexistent/page.html"], "there is no folder"),
        (["--calls", "/nonexistent/calls.parquet"], "there is no folder"),
        (["--html", "/"], "is a folder"),
        (["--calls", str(Path(__file__).parent)], "is a folder"),
        (["--html", STALLS], "would overwrite the capture"),
        (["--calls", STALLS], "would overwrite the capture"),
        (["--html", "both", "--calls", "both"], "the same file"),
        (["-", "-"], "standard input"),
        (["--from", "-1"], "is not between 0 and"),
        (["--to", "1e30"], "is not between 0 and"),
        (["--to", "nan"], "is not a duration"),
        (["--top", "0"], "--top"),
    ],
)
def test_bad_usage_ends_with_2(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    captures = [STALLS] if arguments else []
    said = nfslab(capsys, "trace", *captures, *arguments)
    assert (said.code, said.out) == (2, ""), said.err
    assert words in said.err


def test_a_window_without_calls_says_how_long_the_capture_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    said = nfslab(capsys, "trace", STALLS, "--from", "1h")
    assert said.code == 1
    assert "--from" in said.err


def test_calls_that_cannot_be_written_are_an_error(
    plain: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # A folder that takes no new files, whoever asks.
    for option in ("--calls", "--html"):
        said = nfslab(capsys, "trace", plain, option, "/proc/new-file")
        # Whom its mode keeps out is told before anything is read.
        code = 1 if os.access("/proc", os.W_OK) else 2
        assert (said.code, said.out) == (code, "")
        assert "cannot write" in said.err
        assert option in said.err


@pytest.mark.system
def test_a_signal_ends_it_with_130(plain: Path, tmp_path: Path) -> None:
    """It waits for a pipe that says nothing more: the hardest place to be interrupted in."""
    calls = tmp_path / "calls.parquet"
    command = [sys.executable, "-m", "nfslab", "trace", "-", "--calls", str(calls)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        process.stdin.write(plain.read_bytes())
        process.stdin.flush()
        temporary = tmp_path / f".writing-calls.parquet-{process.pid}"
        until(lambda: temporary.exists() or process.poll() is not None)
        process.send_signal(signal.SIGTERM)
        # The pipe is open all the time: nothing but the signal can end it.
        code = process.wait()
        assert process.stdout is not None
        assert process.stderr is not None
        said = process.stderr.read()
        assert code == 130, said
        assert process.stdout.read() == b""
        assert b"interrupted" in said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kernel.pcap"]

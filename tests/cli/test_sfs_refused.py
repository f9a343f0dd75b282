"""`nfslab sfs` where something is wrong: a clear line, the right exit code, the rest goes on."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.invocation import nfslab
from tests.cli.serving import PATIENCE_S, Served, refusing, serving

SHORT = ("--files", "60", "--time", "0.3s", "--warm-up", "0.1s")
SET = '[file_set]\nfile_sizes_bytes = {"4096" = 1}\n'


def at(served: Served) -> list[str]:
    return ["127.0.0.1:/export", "-o", f"port={served.port},mountport={served.port}"]


def test_a_read_only_export_says_the_way_out(capsys: pytest.CaptureFixture[str]) -> None:
    with serving("--memory", "--read-only") as served:
        said = nfslab(capsys, "sfs", *at(served), "--load", "100", *SHORT)
    assert said.code == 1
    assert "NFS3ERR_ROFS" in said.err
    assert "  fix: " in said.err


def test_no_room_for_the_file_set(capsys: pytest.CaptureFixture[str]) -> None:
    with serving("--memory", "--size", "1M") as served:
        said = nfslab(capsys, "sfs", *at(served), "--load", "100", *SHORT)
    assert said.code == 1
    assert "NFS3ERR_NOSPC" in said.err
    assert "file_set.bytes_per_op_per_s" in said.err


def test_no_such_export_and_no_such_port(capsys: pytest.CaptureFixture[str]) -> None:
    with serving("--memory") as served:
        other = ["127.0.0.1:/other", *at(served)[1:]]
        said = nfslab(capsys, "sfs", *other, "--load", "100", *SHORT)
        assert said.code == 1
        assert "127.0.0.1:/other" in said.err
        assert "MNT3ERR_NOENT" in said.err
    with refusing() as port:
        gone = ["127.0.0.1:/export", "-o", f"port={port},mountport={port}"]
        said = nfslab(capsys, "sfs", *gone, "--load", "100", *SHORT)
    assert said.code == 1
    assert "Connection refused" in said.err
    assert "mountport" in said.err


def test_a_server_that_is_killed_in_the_middle_and_the_rest_of_the_ladder() -> None:
    command = [sys.executable, "-m", "nfslab", "sfs"]
    with serving("--memory") as served:
        command += [*at(served), "--load", "200,300", "--files", "60", "--warm-up", "0s"]
        command += ["--time", "600s", "--silence", "5s", "--json"]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            assert process.stderr is not None
            while "[1/2] 200 ops/s: measure" not in (line := process.stderr.readline()):
                assert line
            served.process.send_signal(signal.SIGKILL)
            served.process.wait()
            served.ended = {}
            out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1
    middle, rest = json.loads(out)["points"]
    assert not middle["valid"]
    assert "server_gone" in [reason["kind"] for reason in middle["reasons"]]
    assert middle["ended"] == "silent"
    assert middle["little"]["residual_ns"] == 0
    assert (rest["valid"], rest["failed"]) == (False, "io")
    assert "2 of 2 points" in err


def test_a_mix_that_does_not_sum_to_100_is_normalised_and_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mix = tmp_path / "ninety.toml"
    mix.write_text(f"[mix]\nGETATTR = 60\nLOOKUP = 30\n{SET}")
    said = nfslab(capsys, "sfs", "memory", "--load", "200", *SHORT, "--mix", mix)
    assert re.search(r"^the mix .*\b90\b.*\b100\b", said.out, re.MULTILINE)
    assert "66.7 %" in said.out


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (f"[mix]\nRENAME = 1\n{SET}", "mix = RENAME"),
        (f"[mix]\nGETATTR = 0\n{SET}", "no value has a weight above 0"),
        (f"[mix]\nGETATTR = -1\n{SET}", "negative"),
        (f"[mix]\nREAD = 1\n{SET}", "has READ and no table [read_sizes_bytes]"),
        (f"[mix]\nWRITE = 1\n{SET}", "add [write_sizes_bytes], a weight for each size: 8192 = 1"),
        (f'[mix]\nGETATTR = "many"\n{SET}', "GETATTR = 'many' is no weight"),
        (f"apend_share = 1\n[mix]\nGETATTR = 1\n{SET}", "did you mean append_share"),
        (f"threads = 4\n[mix]\nGETATTR = 1\n{SET}", "unknown key 'threads'"),
        (f"[mix]\nGETATTR = 1\n{SET}bogus = 1\n", "unknown field `bogus`"),
        ("[mix\n", "cannot read the mix"),
        (f"{SET}", "is not whole"),
    ],
)
def test_mixes_that_are_none(
    text: str, complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mix = tmp_path / "mine.toml"
    mix.write_text(text)
    said = nfslab(capsys, "sfs", "null", "--load", "100", *SHORT, "--mix", mix)
    assert said.code == 2
    assert complaint in said.err
    assert "Traceback" not in said.err


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["host:/a", "--load", "fast"], "'fast' is no load"),
        (["host:/a", "--load", "-5"], "'-5' is no load"),
        (["host:/a", "--load", ""], "'' is no load"),
        (["host:/a", "--load", "900..300:300"], "goes down"),
        (["host:/a", "--load", "300..900"], "is no range; write FROM..TO:STEP"),
        (["host:/a", "--load", "300..900:0"], "not above 0"),
        (["host:/a", "--load", "1..1000000:1"], "at most 1000"),
        (["host:/a", "--load", "100", "--lode", "3"], "No such option '--lode'"),
        (["host:/a", "--load", "100", "--generators", "0"], "--generators"),
        (["127.0.0.1:/a", "-o", "prot=udp", "--load", "100"], "did you mean 'proto'"),
        (["127.0.0.1", "--load", "100"], "write HOST:/EXPORT"),
        (["null", "--load", "100", "--files", "60", "--time", "0s"], "measure_s = 0"),
        (["host:/a", "--load", "100", "--time", "soon"], "is not a duration"),
        (["host:/a", "--load", "100", "--silence", "never"], "is not a duration"),
        (["--load", "100"], "Missing argument 'TARGET...'"),
    ],
)
def test_usage(arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = nfslab(capsys, "sfs", *arguments)
    assert said.code == 2
    assert complaint in said.err
    assert "Traceback" not in said.err


def test_a_host_that_nobody_knows(capsys: pytest.CaptureFixture[str]) -> None:
    said = nfslab(capsys, "sfs", "no.such.host.invalid:/a", "--load", "100")
    assert said.code == 1
    assert "'no.such.host.invalid'" in said.err

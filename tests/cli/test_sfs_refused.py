"""`nfslab sfs` where something is wrong: a clear line, the right exit code, the rest goes on."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from nfslab._core import Server

from tests.cli.invocation import nfslab
from tests.cli.serving import refusing, serving
from tests.waiting import until

SHORT = ("--files", "60", "--time", "0.3s", "--warm-up", "0.1s")
SET = '[file_set]\nfile_sizes_bytes = {"4096" = 1}\n'


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def at(port: int, export: str = "/export") -> list[str]:
    return [f"127.0.0.1:{export}", "-o", f"port={port},mountport={port}"]


@pytest.mark.system
def test_what_a_server_refuses_is_said_with_the_way_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    read_only, small = {"read_only": True}, {"memory_bytes": 1 << 20}
    for more, export, words in (
        (read_only, "/export", "NFS3ERR_ROFS"),
        (small, "/export", "NFS3ERR_NOSPC"),
        ({}, "/other", "MNT3ERR_NOENT"),
    ):
        with Server(json.dumps({"store": "memory"} | more)) as server:
            said = nfslab(capsys, "sfs", *at(server.port, export), "--load", "100", *SHORT)
        assert (said.code, words in said.out, "fix: " in said.out) == (1, True, True), said
    with refusing() as port:
        said = nfslab(capsys, "sfs", *at(port), "--load", "100", *SHORT)
    assert (said.code, "Connection refused" in said.out, "mountport" in said.out) == (1, True, True)


@pytest.mark.long
def test_a_server_that_is_killed_in_the_middle_and_the_rest_of_the_ladder(here: Path) -> None:
    command = [sys.executable, "-m", "nfslab", "sfs"]
    with serving("--memory") as served:
        command += [*at(served.port), "--load", "200,300", "--files", "60", "--warm-up", "0s"]
        command += ["--time", "600s", "--silence", "5s", "--json"]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:

            def is_measured() -> bool:
                told = here.glob("results/*/runs/*/logs/progress")
                return any("measure" in file.read_text() for file in told)

            until(lambda: is_measured() or process.poll() is not None)
            served.process.send_signal(signal.SIGKILL)
            served.process.wait()
            served.ended = {}
            out, err = process.communicate()
    assert process.returncode == 1
    middle, rest = json.loads(out)["points"]
    assert not middle["valid"]
    assert "server_gone" in [reason["kind"] for reason in middle["reasons"]]
    assert middle["ended"] == "silent"
    assert middle["little"]["residual_ns"] == 0
    assert (rest["valid"], rest["failed"]) == (False, True)
    assert "FAILED" in err


MIXES = [
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
]


@pytest.mark.system
def test_what_the_core_refuses_is_bad_usage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mix = tmp_path / "mine.toml"
    with Server(json.dumps({"store": "null"})) as server:
        asked = ["sfs", *at(server.port), "--calibration", "--load", "100", "--files", "60"]
        for text, complaint in MIXES:
            mix.write_text(text)
            said = nfslab(capsys, *asked, "--mix", mix)
            assert (said.code, complaint in said.err) == (2, True), (text, said)
        for more, complaint in (
            (["--time", "0s"], "duration: Input should be greater than 0"),
            (["-o", "prot=udp"], "did you mean 'proto'"),
        ):
            said = nfslab(capsys, *asked, *more)
            assert (said.code, complaint in said.err) == (2, True), said
        mix.write_text(f"[mix]\nGETATTR = 60\nLOOKUP = 30\n{SET}")
        said = nfslab(capsys, *asked, *SHORT, "--mix", mix)
    assert re.search(r"^the mix .*\b90\b.*\b100\b", said.out, re.MULTILINE), "normalised, and said"


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
        (["127.0.0.1", "--load", "100"], "write HOST:/EXPORT"),
        (["host:/a", "--load", "100", "--time", "soon"], "is not a duration"),
        (["host:/a", "--load", "100", "--silence", "never"], "is not a duration"),
        (["--load", "100"], "Missing argument 'TARGET...'"),
        (["host:/a"], "one of --load and --find"),
        (["host:/a", "--load", "0"], "not above 0"),
        (["host:/a", "--load", "1", "--find", "mean<1ms"], "one of --load and --find"),
        (["host:/a", "--find", "fast"], "is no goal"),
        (["host:/a", "--find", "mean<1ms", "--precision", "0"], "above 0"),
        (["host:/a", "--load", "1", "--mix", "sfs4"], "did you mean sfs3"),
        (["nohost", "--load", "1"], "no export"),
        (["null", "memory", "--load", "1"], "stand alone"),
        (["host:/a", "--load", "1,2", "--calls", "x.parquet"], "one load"),
        (["host:/a", "--load", "1", "--files", "1", "--bytes-per-op", "1k"], "exclude"),
        (["host:/a", "--load", "1", "--verify", "2"], "between 0 and 1"),
        (["host:/a", "--load", "1", "--html", "/no/such/folder/x"], "/no/such/folder"),
        (["a:/b"] * 5 + ["--load", "1"], "4 mounts at most"),
        (["null", "--load", "1", "--prepare-only"], "of a server that stays"),
    ],
)
def test_usage(arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = nfslab(capsys, "sfs", *arguments)
    assert said.code == 2
    assert complaint in said.err
    assert "Traceback" not in said.err


@pytest.mark.system
@pytest.mark.parametrize(
    ("hosts", "says"),
    [("0", "hosts"), ("a,b", "named hosts are machines of a section [cluster]")],
)
def test_hosts_that_cannot_be(hosts: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = nfslab(capsys, "sfs", "memory", "--load", "100", "--hosts", hosts)
    assert (said.code, says in said.err) == (2, True), said.err


@pytest.mark.system
def test_a_host_that_nobody_knows(capsys: pytest.CaptureFixture[str]) -> None:
    said = nfslab(capsys, "sfs", "no.such.host.invalid:/a", "--load", "100")
    assert said.code == 1
    assert "'no.such.host.invalid'" in said.err

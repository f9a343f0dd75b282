"""`nfslab serve`: ready line and last line, clean ends, records, options, bad input."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.cli.invocation import nfslab
from tests.cli.serving import PATIENCE_S, ask, call, command, null, serving
from tests.machine import needs

FILES = 50


def test_a_folder_is_served_to_a_foreign_client(tmp_path: Path) -> None:
    if shutil.which("nfs-cat") is None:
        pytest.skip("nfs-cat is not installed (libnfs-utils)")
    content = os.urandom(300_000)
    (tmp_path / "data").write_bytes(content)
    with serving(tmp_path) as served:
        assert served.ready["model"]["store"] == "directory"
        assert served.ready["model"]["model"] is None
        done = subprocess.run(
            ["nfs-cat", served.url("/data")], capture_output=True, check=True, timeout=PATIENCE_S
        )
        assert done.stdout == content
        ended = served.end()
    assert served.code == 0
    assert ended["event"] == "ended"
    assert ended["counters"]["calls"] == ended["counters"]["replies"] > 0


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_a_signal_ends_it_cleanly_and_frees_the_port(number: int, code: int) -> None:
    with serving("--memory") as served, socket.create_connection(("127.0.0.1", served.port)):
        assert null(served.port) == 0
        served.end(number)
        assert served.code == code
        assert "Traceback" not in served.err
        with socket.create_server(("127.0.0.1", served.port)):
            pass


def test_records_are_one_row_for_each_call_with_its_model_beside(tmp_path: Path) -> None:
    path = tmp_path / "calls.parquet"
    began_ns = time.monotonic_ns()
    with serving("--null", "--delay", "2ms", "--seed", 7, "--records", path) as served:
        for xid in range(100, 130):
            assert null(served.port, xid) == 0
        assert not path.exists(), "it gets its name when it is whole"
        ended = served.end(signal.SIGINT)
    assert ended["records"] == {"file": str(path), "rows": 30}
    assert [p.name for p in tmp_path.iterdir()] == ["calls.parquet"]
    table = pq.read_table(path)
    rows = table.to_pylist()
    assert [row["xid"] for row in rows] == list(range(100, 130))
    assert {(row["operation"], row["outcome"], row["status"]) for row in rows} == {
        ("NULL", "answered", 0)
    }
    for row in rows:
        instants = [row[n] for n in ("received_ns", "started_ns", "finished_ns", "sent_ns")]
        assert began_ns < instants[0]
        assert instants == sorted(instants)
        assert row["sent_ns"] - row["received_ns"] >= 2_000_000
    stated = json.loads(table.schema.metadata[b"nfslab.server"])
    assert stated["model"]["delay_ns"] == 2_000_000
    assert stated["model"]["seed"] == 7


def test_records_without_a_call_are_a_table_without_rows(tmp_path: Path) -> None:
    path = tmp_path / "calls.parquet"
    with serving("--memory", "--records", path):
        pass
    table = pq.read_table(path)
    assert table.num_rows == 0
    assert "received_ns" in table.column_names


def test_every_option_of_the_model_is_in_effect_as_it_was_asked() -> None:
    asked = (
        "--memory --threads 4 --service-time 200us --service-time WRITE=1ms --spread exponential "
        "--disk disks=3,seek=8ms,rate=20M/s,order=elevator,hit=90%,dirty=64M,commit=2ms,"
        "metadata=8k "
        "--nvram 32M --bandwidth 1Gbit --delay 1ms --jitter 50us --loss 1% "
        "--duplicate-replies 0.02 --stall 10s:500ms --stall 1m:1s --seed 11"
    )
    with serving(*asked.split()) as served:
        model = served.ready["model"]["model"]
    assert model == {
        "threads": 4, "service_ns": 200_000, "service_by_operation_ns": {"WRITE": 1_000_000},
        "spread": "exponential",
        "disk": {
            "positioning_ns": 8_000_000, "rate_bytes_per_s": 20 << 20, "order": "elevator",
            "read_hit_ratio": 0.9, "dirty_limit_bytes": 64 << 20, "commit_ns": 2_000_000,
            "metadata_bytes": 8192, "disks": 3, "cache_bytes": None,
        },
        "nvram_bytes": 32 << 20, "bandwidth_bytes_per_s": 125_000_000, "delay_ns": 1_000_000,
        "jitter_ns": 50_000, "loss": 0.01, "duplicate": 0.02,
        "stalls": [[10 * 10**9, 500 * 10**6], [60 * 10**9, 10**9]], "seed": 11,
    }  # fmt: skip


def test_names_are_stable_unless_the_user_gives_that_up(tmp_path: Path) -> None:
    for arguments, stable in (((), "true"), (("--unsafe-async-names",), "false")):
        with serving(tmp_path, *arguments) as served:
            assert served.ready["model"]["store_settings"]["stable_names"] == stable
    refused = subprocess.run(
        command("--memory", "--unsafe-async-names"), capture_output=True, text=True, check=False
    )
    assert refused.returncode == 2
    assert "goes with DIR" in refused.stderr


def test_a_read_only_export_refuses_changes_and_squash_is_stated(tmp_path: Path) -> None:
    with serving(tmp_path, "--read-only", "--squash", "root", "--no-udp") as served:
        model = served.ready["model"]
        assert (model["read_only"], model["squash"], model["udp"]) == (True, "root", False)
        with socket.create_connection(("127.0.0.1", served.port)) as stream:
            path = b"/export\0"
            mounted = ask(stream, call(1, 100005, 3, 1, b"\0\0\0\x07" + path))
            length = int.from_bytes(mounted[28:32])
            handle = mounted[28 : 32 + length]
            # MKDIR of "x" with no attribute set (RFC 1813 section 3.3.9).
            made = ask(stream, call(2, 100003, 3, 9, handle + b"\0\0\0\x01x\0\0\0" + bytes(24)))
        assert int.from_bytes(made[24:28]) == 30, "NFS3ERR_ROFS"
    assert list(tmp_path.iterdir()) == []


IN_A_NAMESPACE = """
import json, socket, subprocess, sys
from tests.cli.serving import ask, call, serving
for words in (["link", "set", "lo", "up"], *(["addr", "add", f"{one}/32", "dev", "lo"]
              for one in ("198.51.100.1", "198.51.100.2", "198.51.100.3"))):
    subprocess.run(["ip", *words], check=True)
told = {}
with serving("--memory", "--bind", "198.51.100.1", "--allow", "198.51.100.2") as served:
    for source in ("198.51.100.2", "198.51.100.3"):
        with socket.create_connection(("198.51.100.1", served.port), 60, (source, 0)) as stream:
            try:
                told[source] = len(ask(stream, call(1, 100003, 3, 0)))
            except (AssertionError, OSError):
                told[source] = 0
    told["calls"] = served.end()["counters"]["calls"]
print(json.dumps(told))
"""


@needs.root
@pytest.mark.skipif(
    shutil.which("unshare") is None or shutil.which("ip") is None, reason="needs unshare and ip"
)
def test_a_client_that_is_not_listed_is_turned_away() -> None:
    """In a network namespace: every address of loopback may ask."""
    said = subprocess.run(
        ["unshare", "--net", sys.executable, "-c", IN_A_NAMESPACE],
        capture_output=True, text=True, check=False, timeout=PATIENCE_S,
        cwd=Path(__file__).parents[2],
    )  # fmt: skip
    if "unshare failed" in said.stderr:
        pytest.skip(said.stderr.strip())
    assert said.returncode == 0, said.stderr
    assert json.loads(said.stdout) == {"198.51.100.2": 24, "198.51.100.3": 0, "calls": 1}


def test_what_a_person_sees(tmp_path: Path) -> None:
    with subprocess.Popen(
        command("--memory", "--port", 0, "--stall", "5s:1s"), stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(5)]
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()
    assert process.returncode == 130
    assert lines[0].startswith("serving memory as 127.0.0.1:/export, port ")
    port = lines[0].split("port ")[1].split(",")[0]
    assert "--stall 5s:1s" in lines[2]
    assert f"mountport={port} 127.0.0.1:/export" in lines[3]
    assert rest == "ended: no call came\n"


def taken() -> tuple[socket.socket, int]:
    listener = socket.create_server(("127.0.0.1", 0))
    return listener, listener.getsockname()[1]


def test_bad_input_is_one_clear_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "file"
    file.touch()
    listener, port = taken()
    cases: list[tuple[tuple[object, ...], int, str, str]] = [
        ((), 2, "say what to serve", "nfslab serve /srv/data"),
        ((tmp_path, "--memory"), 2, "one of DIR, --memory, --null", ""),
        ((tmp_path / "none",), 2, f"cannot serve {tmp_path}/none", "there is no such folder"),
        ((file,), 2, f"cannot serve {file}", "it is not a folder"),
        (("--memory", "--port", port), 1, f"cannot listen on 127.0.0.1:{port}", "another port"),
        (("--memory", "--bind", "0.0.0.0"), 2, "to other machines", "--allow"),
        (("--memory", "--bind", "here"), 2, "no IP address", "127.0.0.1"),
        (("--memory", "--allow", "10.0.0.0/40"), 2, "10.0.0.0/40", ""),
        (("--memory", "--loss", "2"), 2, "not between 0 and 1", ""),
        (("--memory", "--nvram", "1M"), 2, "needs a disk", ""),
        (("--memory", "--disk", "sek=1ms"), 2, "did you mean seek=", ""),
        (("--memory", "--service-time", "WRIT=1ms"), 2, "did you mean WRITE", ""),
        (("--memory", "--stall", "1s"), 2, "not AT:FOR", ""),
        (("--memory", "--seed", "3"), 2, "plants nothing", ""),
        (("--memory", "--client-memory", "1M"), 2, "1048576 were given", "146800640 bytes"),
        (("--memory", "--records", tmp_path), 2, "is a folder", "FILE.parquet"),
        (("--memory", "--records", tmp_path / "a" / "b"), 2, "there is no folder", ""),
    ]  # fmt: skip
    with listener:
        for arguments, code, what, more in cases:
            given = arguments if "--port" in arguments else (*arguments, "--port", 0)
            said = nfslab(capsys, "serve", *given)
            assert said.code == code, (arguments, said)
            assert what in said.err, (arguments, said.err)
            assert more in said.err, (arguments, said.err)
            assert "Traceback" not in said.err
    assert list(tmp_path.iterdir()) == [file]


def test_without_a_portmapper_registration_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    # In namespaces of its own there is none, whatever the machine has; only root can make them.
    alone = ["unshare", "-n", "-m", "sh", "-c"]
    there = 'mount -t tmpfs tmpfs /run && ip link set lo up && exec "$@"'
    try:
        tried = subprocess.run([*alone, there, "sh", "true"], capture_output=True, check=False)
        possible = tried.returncode == 0
    except OSError:
        possible = False
    if possible:
        argv = command("--memory", "--port", 0, "--register")
        done = subprocess.run(
            [*alone, there, "sh", *argv], capture_output=True, text=True, check=False,
            timeout=PATIENCE_S,
        )  # fmt: skip
        code, err = done.returncode, done.stderr
    else:
        for place in (Path("/run/rpcbind.sock"), Path("/var/run/rpcbind.sock")):
            if place.exists():
                pytest.skip(f"a portmapper is here ({place}), and no namespace without one")
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", 111)) == 0:
                pytest.skip("a portmapper is here (port 111), and no namespace without one")
        said = nfslab(capsys, "serve", "--memory", "--port", 0, "--register")
        code, err = said.code, said.err
    assert code == 1
    assert "no portmapper answers" in err
    assert "rpcbind" in err

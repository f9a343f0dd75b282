"""`nfslab serve`: what it asks of the core, what it says, its ends, records, bad input."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar

import pyarrow.parquet as pq
import pytest
from nfslab import _core
from nfslab.machine import offered_counters

from tests.cli.invocation import nfslab
from tests.cli.serving import ask, call, null, serving
from tests.machine import needs

Capture = pytest.CaptureFixture[str]


class PlantedServer:
    """In place of the core's: Ctrl-C comes while it serves."""

    asked: ClassVar[list[dict[str, Any]]] = []
    key: ClassVar[dict[str, str]] = {"origin": "kept"}

    def __init__(self, text: str) -> None:
        self.asked.append(json.loads(text))
        self.address, self.port = self.asked[-1]["listen"][0].replace(":0", ":4711"), 4711

    def model(self) -> dict[str, Any]:
        asked = self.asked[-1]
        settings = {"stable_names": "true"}
        return {"handle_key": dict(self.key), "store_settings": settings, "workers": 2} | asked

    def wait(self, _seconds: float) -> bool:
        os.kill(os.getpid(), signal.SIGINT)
        return False

    def counters(self) -> dict[str, int]:
        return {"calls": 1234, "replies": 0}

    def stop(self) -> None:
        return


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[dict[str, Any]]:
    """What the core is asked for."""
    monkeypatch.setenv("NFSLAB_STATE", str(tmp_path / "state"))
    monkeypatch.setattr(_core, "Server", PlantedServer)
    monkeypatch.setattr(PlantedServer, "asked", [])
    monkeypatch.setattr(offered_counters, "offered", lambda _read: contextlib.nullcontext())
    return PlantedServer.asked


def test_every_option_of_the_model_is_asked_of_the_core(
    planted: list[dict[str, Any]], capsys: Capture
) -> None:
    given = (
        "--memory --port 0 --threads 4 --service-time 200us --service-time WRITE=1ms "
        "--spread exponential --disk disks=3,seek=8ms,rate=20M/s,order=elevator,hit=90%,dirty=64M,"
        "commit=2ms,metadata=8k --nvram 32M --bandwidth 1Gbit --delay 1ms --jitter 50us --loss 1% "
        "--duplicate-replies 0.02 --stall 10s:500ms --stall 1m:1s --seed 11"
    )
    assert nfslab(capsys, "serve", *given.split()).code == 0
    (asked,) = planted
    assert asked["model"] == {
        "threads": 4, "service_ns": 200_000, "service_by_operation_ns": {"WRITE": 1_000_000},
        "spread": "exponential",
        "disk": {
            "positioning_ns": 8_000_000, "rate_bytes_per_s": 20 << 20, "order": "elevator",
            "read_hit_ratio": 0.9, "dirty_limit_bytes": 64 << 20, "commit_ns": 2_000_000,
            "metadata_bytes": 8192, "disks": 3,
        },
        "nvram_bytes": 32 << 20, "bandwidth_bytes_per_s": 125_000_000, "delay_ns": 1_000_000,
        "jitter_ns": 50_000, "loss": 0.01, "duplicate": 0.02,
        "stalls": [[10 * 10**9, 500 * 10**6], [60 * 10**9, 10**9]], "seed": 11,
    }  # fmt: skip


def test_a_folder_and_who_may_use_it_are_asked_of_the_core(
    planted: list[dict[str, Any]], tmp_path: Path, capsys: Capture
) -> None:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "one")
    more = ["--bind", "10.0.0.1", "--allow", "10.0.0.0/8", "--read-only", "--squash", "root"]
    more += ["--no-udp", "--unsafe-async-names", "--threads", 3, "--client-memory", "1G"]
    nfslab(capsys, "serve", tmp_path / "one", *more)
    nfslab(capsys, "serve", tmp_path / "link", "--bind", "::1", "--export", "/vol")
    nfslab(capsys, "serve", tmp_path / "other")
    one, link, other = planted
    assert one.items() >= {
        "store": "directory", "path": str(tmp_path / "one"), "listen": ["10.0.0.1:2049"],
        "allow": ["10.0.0.0/8"], "read_only": True, "squash": "root", "udp": False,
        "secure": "all", "unsafe_async_names": True, "workers": 3, "client_memory_bytes": 1 << 30,
        "record_room": 0, "export": "/export",
    }.items()  # fmt: skip
    assert (link["listen"], link["export"], link["udp"]) == (["[::1]:2049"], "/vol", True)
    assert (link["unsafe_async_names"], link["read_only"]) == (False, False)
    # Root's own rights are nobody's by NFS, unless root says so.
    assert (link["squash"], other["squash"]) == (
        ("root",) * 2 if os.geteuid() == 0 else ("none",) * 2
    )
    nfslab(capsys, "serve", tmp_path / "other", "--squash", "none", "--insecure")
    assert (planted[-1]["squash"], planted[-1]["secure"]) == ("none", "none")
    nfslab(capsys, "serve", "--memory")
    assert planted[-1]["squash"] == "none"
    nfslab(capsys, "serve", tmp_path / "other", "--of-a-run")
    of_a_run = planted[-1]
    assert (of_a_run["squash"], of_a_run["secure"], of_a_run["hidden"]) == ("none", "local", True)
    assert len(bytes.fromhex(of_a_run["export"].removeprefix("/"))) * 8 == 128
    # One key for each folder, whatever way it was written.
    assert one["key_file"] == link["key_file"] != other["key_file"]
    assert Path(one["key_file"]).parent == tmp_path / "state" / "handle-keys"
    nfslab(capsys, "serve", "--null", "--size", "1M")
    assert (planted[-1]["store"], planted[-1]["file_bytes"]) == ("null", 1 << 20)


def test_what_a_person_sees(
    planted: list[dict[str, Any]], capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    said = nfslab(capsys, "serve", "--memory", "--port", 0, "--stall", "5s:1s")
    assert said.out.splitlines() == [
        "serving memory as 127.0.0.1:/export, port 4711, NFSv3 over TCP and UDP",
        "  open to you and root of this machine, as any user id (AUTH_SYS)",
        "  store: memory, stable_names true, workers 2",
        "  service model: --stall 5s:1s",
        "  mount -t nfs -o vers=3,nolock,proto=tcp,port=4711,mountport=4711 127.0.0.1:/export /mnt",
        "  Ctrl-C ends it",
        "ended: 1,234 calls",
    ]
    anew = {"origin": "made anew", "why": "its mode was 0640", "file": "/state/key"}
    monkeypatch.setattr(PlantedServer, "key", anew)
    said = nfslab(capsys, "serve", "--memory", "--json", "--bind", "::1")
    (told,) = [line for line in said.err.splitlines() if "0640" in line]
    assert "/state/key" in told
    ready, ended = map(json.loads, said.out.splitlines())
    assert (ready["event"], ready["port"], ready["handle_key"]) == ("ready", 4711, anew)
    assert ended == {"event": "ended", "counters": {"calls": 1234, "replies": 0}}
    open_to_all = nfslab(capsys, "serve", "--memory", "--bind", "0.0.0.0", "--allow", "10.0.0.0/8")
    assert "10.0.0.0/8 (a port below 1024: root)" in open_to_all.out
    insecure = nfslab(capsys, "serve", "--memory", "--insecure")
    assert "  warning: open to every user of this machine, as any user id" in insecure.out


def test_a_server_that_ends_by_itself_is_exit_code_1(
    planted: list[dict[str, Any]], capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PlantedServer, "wait", lambda *_: True)
    assert nfslab(capsys, "serve", "--memory").code == 1


def test_bad_input_is_one_clear_line(tmp_path: Path, capsys: Capture) -> None:
    cases: list[tuple[tuple[object, ...], str]] = [
        ((), "nfslab serve /srv/data"),
        ((tmp_path, "--memory"), "one of DIR, --memory, --null"),
        (("--memory", "--bind", "0.0.0.0"), "--allow"),
        (("--memory", "--bind", "here"), "127.0.0.1"),
        (("--memory", "--unsafe-async-names"), "goes with DIR"),
        ((tmp_path, "--size", "1M"), "goes with --memory"),
        (("--memory", "--loss", "2"), "not between 0 and 1"),
        (("--memory", "--disk", "sek=1ms"), "did you mean seek="),
        (("--memory", "--service-time", "WRIT=1ms"), "did you mean WRITE"),
        (("--memory", "--stall", "1s"), "not AT:FOR"),
        (("--memory", "--control"), "--json"),
    ]
    for arguments, words in cases:
        said = nfslab(capsys, "serve", *arguments, "--port", 0)
        assert (said.code, words in said.err) == (2, True), (arguments, said)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.system
def test_what_the_core_refuses_is_one_clear_line(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "file"
    file.touch()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        cases: list[tuple[tuple[object, ...], int, str]] = [
            ((tmp_path / "none",), 2, "there is no such folder"),
            ((file,), 2, "it is not a folder"),
            (("--memory", "--port", port), 1, f"cannot listen on 127.0.0.1:{port}"),
            (("--memory", "--allow", "10.0.0.0/40"), 2, "10.0.0.0/40"),
            (("--memory", "--nvram", "1M"), 2, "needs a disk"),
            (("--memory", "--client-memory", "1M"), 2, "146800640 bytes"),
            (("--memory", "--records", tmp_path), 2, "FILE.parquet"),
            (("--memory", "--records", tmp_path / "a" / "b"), 2, "there is no folder"),
        ]
        for arguments, code, words in cases:
            given = arguments if "--port" in arguments else (*arguments, "--port", 0)
            said = nfslab(capsys, "serve", *given)
            assert (said.code, words in said.err) == (code, True), (arguments, said)
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.system
def test_a_folder_is_served_and_recorded_and_the_port_is_free_afterwards(tmp_path: Path) -> None:
    folder, path = tmp_path / "folder", tmp_path / "calls.parquet"
    folder.mkdir()
    content = os.urandom(300_000)
    (folder / "data").write_bytes(content)
    with serving(folder, "--delay", "2ms", "--seed", 7, "--records", path) as served:
        for xid in range(100, 130):
            assert null(served.port, xid) == 0
        if shutil.which("nfs-cat"):  # a foreign client (libnfs)
            asked = ["nfs-cat", served.url("/data")]
            assert subprocess.run(asked, capture_output=True, check=True).stdout == content
        assert not path.exists(), "it gets its name when it is whole"
        ended = served.end()
        assert served.code == 0
        with socket.create_server(("127.0.0.1", served.port)):
            pass
    table = pq.read_table(path)
    rows = [row for row in table.to_pylist() if row["operation"] == "NULL"][:30]
    assert (ended["event"], ended["records"]["rows"]) == ("ended", table.num_rows)
    assert ended["counters"]["calls"] == ended["counters"]["replies"] == table.num_rows >= 30
    assert [row["xid"] for row in rows] == list(range(100, 130))
    assert {(row["outcome"], row["status"]) for row in rows} == {("answered", 0)}
    for row in rows:
        instants = [row[n] for n in ("received_ns", "started_ns", "finished_ns", "sent_ns")]
        assert instants == sorted(instants)
        assert row["sent_ns"] - row["received_ns"] >= 2_000_000
    stated = json.loads(table.schema.metadata[b"nfslab.server"])
    assert (stated["store"], stated["model"]["delay_ns"]) == ("directory", 2_000_000)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["calls.parquet", "folder"]


@pytest.mark.system
def test_a_read_only_export_refuses_changes_and_ctrl_c_ends_it(tmp_path: Path) -> None:
    with serving(tmp_path, "--read-only", "--squash", "root", "--no-udp") as served:
        with socket.create_connection(("127.0.0.1", served.port)) as stream:
            mounted = ask(stream, call(1, 100005, 3, 1, b"\0\0\0\x07" + b"/export\0"))
            length = int.from_bytes(mounted[28:32])
            handle = mounted[28 : 32 + length]
            # MKDIR of "x" with no attribute set (RFC 1813 section 3.3.9).
            made = ask(stream, call(2, 100003, 3, 9, handle + b"\0\0\0\x01x\0\0\0" + bytes(24)))
        assert int.from_bytes(made[24:28]) == 30, "NFS3ERR_ROFS"
        served.end(signal.SIGINT)
    assert (served.code, "Traceback" in served.err) == (0, False)
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
@needs.program("unshare", "ip")
@pytest.mark.long
def test_a_client_that_is_not_listed_is_turned_away() -> None:
    """In a network namespace: every address of loopback may ask."""
    said = subprocess.run(
        ["unshare", "--net", sys.executable, "-c", IN_A_NAMESPACE],
        capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    if "unshare failed" in said.stderr:
        pytest.skip(said.stderr.strip())
    assert said.returncode == 0, said.stderr
    assert json.loads(said.stdout) == {"198.51.100.2": 24, "198.51.100.3": 0, "calls": 1}

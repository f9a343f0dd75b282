"""The Linux kernel's own NFS, client and server, for real: options in effect, counters, bytes.

Where this kernel has neither, test_in_guests.py (--long) runs this file in a virtual machine.
"""

from __future__ import annotations

import json
import os
import random
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from nfslab.errors import NfslabError, RunFailed, UsageError
from nfslab.hosts.base import Hosts, Link
from nfslab.hosts.local import LocalHost
from nfslab.machine import nfs_mounts
from nfslab.machine.mounts import mounts
from nfslab.machine.nfsd_threads import least_threads
from nfslab.machine.processes import all_statuses, descendants_of
from nfslab.machine.resources import Resources, recover
from nfslab.mounts.kernel import KernelMount
from nfslab.servers.knfsd import IO_MODES, TRACKER, KernelServer, KernelServerParameters
from nfslab.storage.mountstats import MountCounts, counts_at, read_counts, since
from nfslab.targets.base import Place
from nfslab.targets.nfs import NfsTarget

from tests.disk import DISK
from tests.hosts.here import HERE
from tests.machine import needs

ROOT = Path(__file__).parent.parent.parent


def missing() -> str:
    for part in (KernelMount, KernelServer):
        if not (usable := part.available()).ok:
            return usable.reason
    return ""


_skipped = pytest.mark.skipif(bool(missing()), reason=missing() or "it can")


def kernel(test: Any) -> Any:
    """Needs the kernel's client and server, and is long as a guest is."""
    return pytest.mark.long(_skipped(test))


without_min_threads = pytest.mark.skipif(
    least_threads() is not None, reason="this kernel's nfsd has min_threads"
)
without_io_modes = pytest.mark.skipif(
    (IO_MODES / "io_cache_read").exists(), reason="this kernel's nfsd has modes of reading"
)


def target(scratch: Path, name: str = "share", **parameters: object) -> NfsTarget:
    given = {"server": "knfsd", "client": "kernel", "directory": str(scratch)} | parameters
    return NfsTarget(name, NfsTarget.Parameters.model_validate(given))


@contextmanager
def up(
    scratch: Path, resources: Resources, hosts: Hosts = HERE, **parameters: object
) -> Iterator[Place]:
    one = target(scratch, **parameters)
    place = one.up(resources, hosts)
    try:
        yield place
    finally:
        one.down(place)
    assert list(scratch.iterdir()) == []


def counts(place: Place) -> MountCounts:
    found = counts_at(read_counts(), str(place.mount_point))
    assert found is not None
    return found


@dataclass(frozen=True)
class Nfsd:
    """A kernel's server that is up for several tests, as one of somebody else's."""

    folder: Path
    control: Path
    """Where the kernel is told of threads and sockets (nfsd(7))."""
    port: int
    mount_port: int

    def target(self, scratch: Path, name: str = "share", **parameters: object) -> NfsTarget:
        given = parameters | {"server": "127.0.0.1:/"}
        ports = [f"port={self.port}", f"mountport={self.mount_port}"]
        return target(scratch, name, **given, mount_options=ports)

    @contextmanager
    def up(self, scratch: Path, resources: Resources, **parameters: object) -> Iterator[Place]:
        one = self.target(scratch, **parameters)
        place = one.up(resources, HERE)
        try:
            yield place
        finally:
            one.down(place)
        assert list(scratch.iterdir()) == list(self.folder.iterdir()) == []


@pytest.fixture(scope="class")
def nfsd() -> Iterator[Nfsd]:
    with kernel_server() as running:
        yield running


@contextmanager
def kernel_server() -> Iterator[Nfsd]:
    folder = Path(tempfile.mkdtemp(prefix="nfslab-test-", dir=DISK))
    folder.chmod(0o755)
    (folder / "state").mkdir()
    server = KernelServer(KernelServerParameters(), "knfsd")
    with Resources("several tests", state=folder / "state") as resources:
        own = resources.make_directory(folder / resources.name, mode=0o755).path
        server.start(own, resources, host=LocalHost(), link=Link())
        try:
            control = own / f"{resources.name}-nfsd"
            yield Nfsd(own / "export", control, server.port(), server.port("mountport"))
        finally:
            server.stop()
    shutil.rmtree(folder)


@kernel
class TestOneServer:
    @pytest.mark.parametrize(
        ("version", "rsize", "wsize", "ac"),
        [("3", 4096, 65536, True), ("4.0", 262144, 8192, False), ("4.2", 262144, 8192, True)],
    )
    def test_options_are_in_effect(
        self, nfsd: Nfsd, scratch: Path, resources: Resources, version: str, rsize: int,
        wsize: int, ac: bool,
    ) -> None:  # fmt: skip
        asked = {"vers": version, "rsize": rsize, "wsize": wsize, "ac": ac}
        with nfsd.up(scratch, resources, **asked) as place:
            [seen] = [one for one in mounts() if one.mount_point == place.mount_point]
            assert seen.filesystem == ("nfs" if version == "3" else "nfs4")
            assert (seen.option("vers"), seen.option("rsize")) == (version, str(rsize))
            assert seen.option("wsize") == str(wsize)
            assert (seen.option("noac") is None) is ac
            nfs = place.facts["nfs"]
            assert (nfs["transports"], nfs["transport_protocols"]) == (1, ["tcp"])
            assert f"rsize={rsize}" in nfs["options_reported"]
            assert "port=" not in nfs["options_reported"]
            before = counts(place)
            data = random.Random(5).randbytes(200_000)
            with (place.path / "file").open("wb", buffering=0) as file:
                assert file.write(data) == len(data)
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            with (place.path / "file").open("rb", buffering=0) as file:
                assert file.read() == data
            moved = since(counts(place), before)
            assert moved is not None
            # How the bytes went: no request holds more than rsize or wsize.
            assert moved.operations["WRITE"].calls >= -(-len(data) // wsize)
            reads = [moved.operations[name].calls for name in ("READ", "READ_PLUS")
                     if name in moved.operations]  # fmt: skip
            assert sum(reads) >= -(-len(data) // rsize)
            [stored] = nfsd.folder.glob("*/file")
            assert stored.read_bytes() == data

    @needs.program("tcpdump")
    @pytest.mark.parametrize("version", ["3", "4.2"])
    def test_mountstats_and_a_capture_count_the_same(
        self, nfsd: Nfsd, scratch: Path, resources: Resources, tmp_path: Path, version: str
    ) -> None:
        """Operation by operation; the capture is read by `nfslab trace`."""
        with nfsd.up(scratch, resources, vers=version, wsize="16k", rsize="16k") as place:
            file, table = tmp_path / "capture.pcap", tmp_path / "calls.parquet"
            before = settled(place)
            with captured(file, nfsd.port):
                small_load(place.path)
                moved = since(settled(place), before)
        assert moved is not None
        trace = [sys.executable, "-m", "nfslab", "trace", str(file), "--calls", str(table)]
        done = subprocess.run([*trace, "--json"], check=True, capture_output=True, text=True)
        assert json.loads(done.stdout)["lost"] == {"bytes": 0, "gaps": 0}
        rows = pq.read_table(table, columns=["program", "operation", "operations"]).to_pylist()
        seen = Counter(
            row["operation"]
            for row in rows
            # A session is kept alive by a SEQUENCE alone (4.0: RENEW), which is of no mount.
            if row["program"] == "NFS" and row["operations"] not in ("SEQUENCE", "RENEW")
        )
        told = Counter[str]()
        for name, one in moved.operations.items():
            told[SAME_ON_THE_WIRE.get(name, name) if version != "3" else name] += one.calls
        assert +told == seen
        assert sum(told.values()) > 60


@kernel
def test_further_options_settings_and_the_server_are_as_asked(
    scratch: Path, resources: Resources
) -> None:
    slots = Path("/sys/module/sunrpc/parameters/tcp_max_slot_table_entries")
    subprocess.run(["modprobe", "-a", "nfs", "nfsd"], check=True)
    before = {file: file.read_text() for file in (slots, TRACKER) if file.exists()}
    asked = {
        "vers": "4.1", "nconnect": 3, "actimeo": 7, "lookupcache": "pos", "cto": False,
        "hard": False, "sync": True, "sec": "sys", "read_ahead": "256k", "threads": 3,
        "tcp_max_slot_table_entries": 64, "mount_options": ["nosharecache"],
        "nfs_versions": ["3", "4.1"], "export_wdelay": False, "proto": "tcp", "timeo": 70,
        "retrans": 4,
    }  # fmt: skip
    with up(scratch, resources, **asked) as place:
        nfs = place.facts["nfs"]
        shown = nfs["options_reported"].split(",")
        for option in (
            "vers=4.1", "nconnect=3", "acregmin=7", "acregmax=7", "acdirmin=7", "acdirmax=7",
            "lookupcache=pos", "nocto", "soft", "sync", "sec=sys", "nosharecache", "timeo=70",
            "retrans=4",
        ):  # fmt: skip
            assert option in shown
        assert (nfs["transports"], nfs["read_ahead_kb"]) == (3, 256)
        assert nfs["tcp_max_slot_table_entries"] == 64
        assert slots.read_text().strip() == "64"
        served = nfs["served"]
        assert (served["threads"], served["nfs_versions"]) == (3, ["3", "4.1"])
        assert {"no_wdelay", "sync", "rw"} <= set(served["export"].split(","))
        with pytest.raises(RunFailed, match="runs already"):
            target(scratch, "second").up(resources, HERE)
    assert {file: file.read_text() for file in before} == before


@kernel
@pytest.mark.parametrize(
    ("parameters", "error", "words"),
    [
        ({"vers": "4.2", "rsize": 1000}, RunFailed, "rsize=1000: in effect is rsize=4096"),
        ({"vers": "4.2", "mount_options": ["acregmin=soon"]}, UsageError, "acregmin"),
        ({"vers": "4.2", "nfs_versions": ["3"]}, RunFailed, "vers=4.2"),
        ({"export_options": ["sometimes"]}, RunFailed, "sometimes"),
        pytest.param({"min_threads": 2}, RunFailed, "min_threads", marks=without_min_threads),
        pytest.param({"io_read": "direct"}, RunFailed, "io_cache_read", marks=without_io_modes),
    ],
)  # fmt: skip
def test_what_is_not_as_asked_fails_and_is_named(
    scratch: Path,
    resources: Resources,
    parameters: dict[str, object],
    error: type[NfslabError],
    words: str,
) -> None:
    with pytest.raises(error) as told, up(scratch, resources, **parameters):
        pass
    assert words in f"{told.value} {told.value.why} {told.value.fix}"
    assert list(scratch.iterdir()) == []
    assert resources.close() == []


@kernel
@needs.fuse
def test_our_client_on_the_kernels_server(scratch: Path, resources: Resources) -> None:
    with up(scratch, resources, client="user", rsize="16k", wsize="16k") as place:
        data = random.Random(6).randbytes(300_001)
        (place.path / "file").write_bytes(data)
        with (place.path / "file").open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            assert file.read() == data
        (place.path / "file").rename(place.path / "other")
        [stored] = scratch.glob("*/export/data/*")
        assert (stored.name, stored.read_bytes()) == ("other", data)


@kernel
@pytest.mark.parametrize("store", ["memory", "directory"])
def test_the_kernels_client_on_the_embedded_server(
    scratch: Path, resources: Resources, store: str
) -> None:
    with up(scratch, resources, server="embedded", store=store, wsize="32k") as place:
        [seen] = [one for one in mounts() if one.mount_point == place.mount_point]
        assert (seen.option("vers"), seen.option("wsize")) == ("3", "32768")
        data = random.Random(7).randbytes(500_003)
        (place.path / "file").write_bytes(data)
        with (place.path / "file").open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            assert file.read() == data


BUSY_RUN = """
import os, sys
from pathlib import Path
from nfslab.machine.resources import Resources
from tests.hosts.here import HERE
from tests.mount.test_kernel_nfs import target
resources = Resources("a run that is killed")
place = target(Path(sys.argv[1]), server=sys.argv[2], tcp_max_slot_table_entries=77).up(
    resources, HERE)
file = (place.path / "file").open("wb", buffering=0)
file.write(bytes(3_000_000))
print("up", flush=True)
while True:
    file.write(bytes(100_000))
    file.seek(0)
"""


@kernel
@pytest.mark.parametrize("server", ["knfsd", "embedded"])
def test_a_kill_leaves_nothing(
    scratch: Path, state: Path, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither mount nor server nor settings. The embedded server dies with its run, here before
    it: the run is killed while it waits for it, and cannot end before its mount is gone."""
    subprocess.run(["modprobe", "-a", "nfs", "nfsd"], check=True)
    slots = Path("/sys/module/sunrpc/parameters/tcp_max_slot_table_entries")
    before = {file: file.read_text() for file in (slots, TRACKER) if file.exists()}
    run = subprocess.Popen(
        [sys.executable, "-c", BUSY_RUN, str(scratch), server],
        stdout=subprocess.PIPE, text=True, cwd=ROOT,
    )  # fmt: skip
    assert run.stdout is not None
    assert run.stdout.readline() == "up\n"
    assert slots.read_text().strip() == "77"
    if server == "embedded":
        below = descendants_of([run.pid], all_statuses(), 100)
        words = {pid: Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0") for pid in below}
        (serving,) = [pid for pid, said in words.items() if b"serve" in said]
        os.kill(serving, signal.SIGKILL)
    run.send_signal(signal.SIGKILL)
    if server == "knfsd":
        run.wait()
    # Of the embedded server no answer comes; of the other the answer is waited for.
    if server == "embedded":
        monkeypatch.setattr(nfs_mounts, "ANSWER_LIMIT_S", 1)
    told = recover()
    run.wait()
    run.stdout.close()
    assert not [sentence for sentence in told if "could not" in sentence], told
    assert not [one for one in mounts() if scratch in one.mount_point.parents]
    assert list(scratch.iterdir()) == []
    assert {file: file.read_text() for file in before} == before
    assert list((state / "journals").glob("*.jsonl")) == []


SAME_ON_THE_WIRE = {
    "OPEN_NOATTR": "OPEN", "SERVER_CAPS": "GETATTR", "FSINFO": "GETATTR", "STATFS": "GETATTR",
    "PATHCONF": "GETATTR",
}  # fmt: skip
"""Procedures of the client's (nfs4_procedures) that are the same operation of a COMPOUND."""


def small_load(folder: Path) -> None:
    """Creates, writes, syncs, reads past the cache, names, removals."""
    data = random.Random(8).randbytes(160_000)
    for number in range(5):
        with (folder / f"f{number}").open("wb", buffering=0) as file:
            file.write(data)
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        assert (folder / f"f{number}").read_bytes() == data
    (folder / "f0").rename(folder / "renamed")
    (folder / "folder").mkdir()
    assert not (folder / "none").exists()
    os.chmod(folder / "f1", 0o600)
    assert len(list(folder.iterdir())) == 6
    for number in range(1, 5):
        (folder / f"f{number}").unlink()
    os.statvfs(folder)


def settled(place: Place) -> MountCounts:
    """Counts when no call is outstanding: a CLOSE goes on after close(2) has returned."""
    last = counts(place)
    while True:
        time.sleep(0.2)
        now = counts(place)
        if now.total("sends") == now.total("receives") and now.operations == last.operations:
            return now
        last = now


@contextmanager
def captured(file: Path, port: int) -> Iterator[None]:
    """tcpdump on loopback, from before to after: a mark of ours in the capture says that it is."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as marks:
        marks.bind(("127.0.0.1", 0))
        own = marks.getsockname()
        argv = ["tcpdump", "-i", "lo", "-U", "-B", "65536", "-s", "0", "-w", str(file)]
        argv += [f"tcp port {port} or udp port {own[1]}"]
        tool = subprocess.Popen(argv, stderr=subprocess.DEVNULL)

        def until_seen() -> None:
            mark = secrets.token_bytes(16)
            while not (file.exists() and mark in file.read_bytes()):
                marks.sendto(mark, own)
                time.sleep(0.1)

        try:
            until_seen()
            yield
            until_seen()
        finally:
            tool.send_signal(signal.SIGINT)
            tool.wait()

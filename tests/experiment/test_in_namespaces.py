"""Whole runs by workers of a cluster, each in a network namespace with an address of its own."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from nfslab.cluster.namespaces import NamespacesHere
from nfslab.experiment.run_hosts import RunHosts
from nfslab.experiment.spread_run import SpreadExecution
from nfslab.hosts.base import Link
from nfslab.machine.journal import state_folder
from nfslab.machine.resources import recover
from nfslab.mounts.fuse import FuseMount

from tests.cluster.clusters import (
    QUIET_S,
    Cluster,
    Watched,
    children_of,
    device_of_namespace,
    on_a_bridge,
    patient,
)
from tests.cluster.hearing import PATIENCE_S
from tests.experiment.session_support import left_behind, only_folder, processes_with, records, run
from tests.experiment.spread_support import calls_sent, made, require_measured, written

if TYPE_CHECKING:
    from collections.abc import Callable

    from nfslab.machine.resources import Resources

usable = NamespacesHere.available()
pytestmark = pytest.mark.skipif(not usable.ok, reason=usable.reason)
NAMES = ("load1", "load2", "load3")
CLIENT = '[client]\nhost = "local"\n'
PACKETS = 100
"""More than what keeps a connection alive sends within a test."""
TWICE = ("repetitions = 1", "repetitions = 2")
FILES = """\
[workload]
kind = "files"
data = "server"
file_size = "8M"
files = 6
check_every = 1
"""
Places = dict[str, tuple[list[str], Link]]


@pytest.fixture
def places() -> Iterator[Places]:
    with on_a_bridge(NAMES) as found:
        yield found


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """Its scheduler alone, which listens on all addresses."""
    patient(monkeypatch, QUIET_S)
    made = Cluster(tmp_path, host="", silence_s=QUIET_S)
    try:
        yield made
    finally:
        made.close()
        # As the next start on each host does.
        recover()


def join(cluster: Cluster, places: Places, name: str, **env: str) -> None:
    before, addresses = places[name]
    cluster.worker(name, before=before, addresses=addresses, env=env)


def file(tmp_path: Path, cluster: Cluster, *changes: tuple[str, str]) -> Path:
    section = f'scheduler = "{cluster.address}"\ncertificates = "{cluster.folder}"'
    client = (CLIENT, f"[cluster]\n{section}\n[client]\n")
    return written(tmp_path, client, *changes, hosts=json.dumps(NAMES))


def nothing_of_it_is_left(tmp_path: Path) -> bool:
    """Beside the journals of the workers and of the namespaces, which go on."""
    return not [one for one in left_behind(tmp_path) if "/journals/" not in one]


def all_join(cluster: Cluster, places: Places) -> None:
    for name in NAMES:
        join(cluster, places, name)


def handed_over(part: Path) -> Counter[int]:
    """Calls by NFS procedure that the processes of one host counted, read without the runner."""
    found: Counter[int] = Counter()
    for one in (part / "parts").iterdir():
        rows = json.loads(json.loads(one.read_bytes())["sums"])["measured"]["operations"]
        found.update({number: row["calls"] for number, row in enumerate(rows) if row["calls"]})
    return found


def test_what_three_machines_sent_is_what_the_server_counted(
    cluster: Cluster, places: Places, tmp_path: Path
) -> None:
    all_join(cluster, places)
    record, sealed = made(file(tmp_path, cluster))
    require_measured(record)
    served: dict[str, Counter[int]] = {}
    counted: Counter[str] = Counter()
    for call in pq.read_table(sealed / "evidence" / "nfs_server_calls.parquet").to_pylist():
        served.setdefault(call["client"].rpartition(":")[0], Counter())[call["procedure"]] += 1
        counted[call["operation"]] += 1
    sent = calls_sent(sealed)
    assert {name: counted[name] for name in sent} == sent, "operation by operation"
    assert sum(sent.values()) > 300
    # The same of each host, whom the server knows by its address.
    assert len(served) == len(NAMES)
    assert [one.name for one in record.client_hosts] == list(NAMES)
    for one in record.client_hosts:
        assert (one.kind, one.address) == ("cluster", places[one.name][1].client)
        own = handed_over(sealed / one.folder)
        assert {number: served[one.address][number] for number in own} == own
        assert one.share is not None
        assert 0 < one.share < 1
    assert sum(one.share or 0 for one in record.client_hosts) == pytest.approx(1)
    assert nothing_of_it_is_left(tmp_path)


def below(pid: int) -> list[int]:
    """All processes that it or one of those started, but for those that are ending."""
    found = []
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for child in children_of(pid):
            found += [child, *below(child)]
    return found


def mounts_of_runs() -> set[str]:
    """Mount points of nfslab's client, whoever made them."""
    rows = [row.split() for row in Path("/proc/self/mounts").read_text().splitlines()]
    return {row[1] for row in rows if row[2] == "fuse.nfslab"}


def await_load(device: str) -> None:
    """Until so much came over that device that it is more than signs of life."""
    packets = Path(f"/sys/class/net/{device}/statistics/rx_packets")
    deadline = time.monotonic() + PATIENCE_S
    enough = int(packets.read_text()) + PACKETS
    while int(packets.read_text()) < enough:
        assert time.monotonic() < deadline, "there is no load"
        time.sleep(0.01)


class Once:
    """Does something in the timed part of the first run, once the load of that host runs."""

    def __init__(self, device: str, act: Callable[[], object], patch: pytest.MonkeyPatch) -> None:
        waits = RunHosts.await_all
        self.is_done = False

        def meddled(clients: RunHosts, event: str, *more: Any, **named: Any) -> None:
            if event == "measured" and not self.is_done:
                await_load(device)
                act()
                self.is_done = True
            waits(clients, event, *more, **named)

        patch.setattr(RunHosts, "await_all", meddled)


class Cut:
    """The link of one host is cut while its load runs, and is there again for the next run."""

    def __init__(
        self, name: str, cluster: Cluster, places: Places, patch: pytest.MonkeyPatch
    ) -> None:
        self.name = name
        self._state = state_folder()
        self._workers = cluster.workers
        self._before = mounts_of_runs()
        self._device = device_of_namespace(places[name][0])
        self.at_s = 0.0
        """By the wall clock, as files are stamped."""
        self._loading: list[Watched] = []
        self.processes = self.outlived = 0
        """Of all hosts when it was cut; those of them that had not ended before the next run."""
        self.mounts: set[str] = set()
        self.own_mounts: set[str] = set()
        self.left: set[str] = set()
        """Of all hosts then, of the lost one, and those that were left for the next run."""
        begins = SpreadExecution._bring_up_hosts

        def mended(execution: SpreadExecution, resources: Resources) -> None:
            if self.at_s:
                self.outlived = sum(not one.ends() for one in self._loading)
                self.left = mounts_of_runs() - self._before
                self._set("up")
            begins(execution, resources)

        Once(self._device, self._cut, patch)
        patch.setattr(SpreadExecution, "_bring_up_hosts", mended)

    def _cut(self) -> None:
        pids = {name: below(worker.pid) for name, worker in self._workers.items()}
        everyone = {pid for some in pids.values() for pid in some}
        self.mounts = mounts_of_runs() - self._before
        for mount in self.mounts:
            token = token_of(mount)
            # Who serves it is nobody's child.
            everyone |= set(processes_with(token))
            if runner_of(self._state, token) in pids[self.name]:
                self.own_mounts.add(mount)
        for pid in everyone:
            with contextlib.suppress(ProcessLookupError):
                self._loading.append(Watched(pid))
        self.processes = len(self._loading)
        self._set("down")
        self.at_s = time.time()

    def _set(self, state: str) -> None:
        subprocess.run(["ip", "link", "set", self._device, state], check=True)


def token_of(mount: str) -> str:
    """That of the run on one host which made it."""
    (token,) = re.findall("nfslab-([0-9a-f]{16})-", mount)
    return token


def runner_of(state: Path, token: str) -> int:
    """The process whose journal that is."""
    lines = (state / "journals" / f"{token}.jsonl").read_text().splitlines()
    pid: int = json.loads(lines[0])["pid"]
    return pid


def cut_and_mended(path: Path, cut: Cut) -> None:
    """Two runs: the first is lost with that host and by its name, the second goes well."""
    run(path)
    folder = only_folder(path)
    first, second = records(folder)
    sealed_s = (folder.runs_path / first.run_id / "run.json").stat().st_mtime
    print(f"from the cut to the sealed record: {sealed_s - cut.at_s:.1f} s")
    assert (first.status, first.failure_phase) == ("failed", "measure")
    named = [name for name in NAMES if name in first.reason]
    assert named == [cut.name], first.reason
    assert "the network between is gone" in first.reason
    # Agents and generators, also of the host that nobody could tell.
    assert cut.processes >= 2 * len(NAMES)
    assert cut.outlived == 0
    require_measured(second)
    assert [one.name for one in second.client_hosts] == list(NAMES)


@pytest.mark.long
def test_a_cut_link_fails_the_run_by_its_name_and_the_next_goes_well(
    cluster: Cluster, places: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    all_join(cluster, places)
    cut = Cut("load2", cluster, places, monkeypatch)
    cut_and_mended(file(tmp_path, cluster, TWICE, ('duration = "2s"', 'duration = "8s"')), cut)
    assert nothing_of_it_is_left(tmp_path)


@pytest.mark.long
def test_a_cut_link_leaves_no_mount_on_other_hosts(
    cluster: Cluster, places: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not FuseMount.available().ok:
        pytest.skip(FuseMount.available().reason)
    all_join(cluster, places)
    cut = Cut("load2", cluster, places, monkeypatch)
    path = file(tmp_path, cluster, TWICE, ('client = "none"\n', ""), ("100ms", "1ms"))
    path.write_text(path.read_text().partition("[workload]")[0] + FILES)
    cut_and_mended(path, cut)
    assert len(cut.mounts) == len(NAMES)
    assert len(cut.own_mounts) == 1
    assert cut.left <= cut.own_mounts
    # What stayed on the lost host goes with the next start there.
    recover()
    assert not cut.mounts & mounts_of_runs()
    assert nothing_of_it_is_left(tmp_path)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Of one host: room for what a worker and an agent write."""
    place = tmp_path / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=16m", "none", str(place)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"cannot mount here: {done.stderr.strip()}")
    yield place
    # Lazily: a test that failed may have left somebody on it.
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill(disk: Path) -> None:
    """To its last byte."""
    with (disk / "filler").open("wb", buffering=0) as filler:
        while os.statvfs(disk).f_bavail:
            filler.write(bytes(1 << 12))


@pytest.mark.long
@pytest.mark.parametrize("when", ["before it begins", "while it runs"])
def test_a_host_whose_disk_is_full_fails_the_run_by_its_name(
    when: str,
    cluster: Cluster,
    places: Places,
    small_disk: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in NAMES:
        small = {"TMPDIR": str(small_disk)} if name == "load2" else {}
        join(cluster, places, name, **small)
    if when == "before it begins":
        fill(small_disk)
    else:
        Once(device_of_namespace(places["load2"][0]), lambda: fill(small_disk), monkeypatch)
    path = file(tmp_path, cluster)
    record, _ = made(path)
    assert record.status == "failed"
    assert [name for name in NAMES if name in record.reason] == ["load2"]
    assert os.strerror(errno.ENOSPC) in record.reason
    assert not list(small_disk.rglob("agent-*"))
    assert nothing_of_it_is_left(tmp_path)
    # With room again the same call makes what is missing.
    (small_disk / "filler").unlink()
    run(path)
    *_, last = records(only_folder(path))
    require_measured(last)

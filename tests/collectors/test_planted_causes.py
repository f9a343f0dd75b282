"""What is planted in the embedded server is found in the right part of each call's latency.

Lower bounds are exact: the model is never early. Which part is the largest depends on what else
the machine does: that is asked of planted records (tests/results/planted_calls.py).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from nfslab import clock
from nfslab.evidence.collector import CollectorParameters
from nfslab.evidence.nfs_server import collector as nfs_server
from nfslab.evidence.nfs_server.breakdown import ALL, PARTS, take_apart
from nfslab.evidence.nfs_server.collector import NfsServerCollector
from nfslab.evidence.rpc.collector import RpcCollector, RpcCollectorParameters
from nfslab.machine.resources import Resources
from nfslab.targets.base import Place
from nfslab.targets.nfs import NfsTarget
from nfslab.workloads.command import CommandParameters, CommandWorkload

from tests.cli.invocation import nfslab
from tests.hosts.here import HERE
from tests.workloads.run_context import Run, run_of, scratch_folder

MS = 1_000_000
SECOND = 10**9
FILES = 8
PIECE_BYTES = 1 << 14
PIECES = 12


@dataclass
class Recorded:
    """A mount of ours on a server of ours, and whoever records their calls."""

    run: Run
    target: NfsTarget
    place: Place
    clients: RpcCollector
    servers: NfsServerCollector


@contextmanager
def recorded(tmp_path: Path, **parameters: object) -> Iterator[Recorded]:
    """From now on, with some files there."""
    usable = NfsTarget.available()
    if not usable.ok:
        pytest.skip(usable.reason)
    work = CommandWorkload(CommandParameters(data="disk", argv=["true"]))
    with scratch_folder() as scratch, run_of(work, tmp_path) as run:
        given = {"directory": str(scratch), "store": "memory", "ac": False} | parameters
        target = NfsTarget("share", NfsTarget.Parameters.model_validate(given))
        with Resources("a test", state=run.root / "state") as resources:
            place = target.up(resources, HERE)
            for n in range(FILES):
                # One is read and written; of the others attributes alone are asked for.
                (place.path / f"file{n}").write_bytes(bytes(0 if n else PIECE_BYTES * PIECES))
            target.offer(place, run.context.services)
            clients = RpcCollector(RpcCollectorParameters(calls=True))
            servers = NfsServerCollector(CollectorParameters())
            clients.start(run.context)
            servers.start(run.context)
            run.context.timed.start_ns = clock.monotonic_ns()
            yield Recorded(run, target, place, clients, servers)
            target.down(place)


@dataclass
class Calls:
    """Each call's parts, ns, by the instants of both records as they stand."""

    parts: dict[str, list[dict[str, int]]]
    """By operation."""
    served: list[dict[str, Any]]

    def each(self, operation: str, *parts: str) -> list[int]:
        """Of each call these parts together. When a reply leaves is the model's, when its making
        ends is the machine's: what was planted to delay it is in `service` and `sending`."""
        return [sum(call[part] for part in parts) for call in self.parts[operation]]

    def least(self, operation: str, part: str) -> int:
        return min(self.each(operation, part))


def watched(load: Callable[[Path], None], tmp_path: Path, **parameters: object) -> Calls:
    """The load on a fresh mount of a fresh server; means are those of its calls, one by one."""
    with recorded(tmp_path, **parameters) as one:
        load(one.place.path)
        seen = one.servers.stop().tables | one.clients.stop().tables
    served = seen[nfs_server.TABLE].to_pylist()
    calls = Calls(_parts(seen["rpc_calls"].to_pylist(), served), served)
    found = take_apart(seen["rpc_calls"], seen[nfs_server.TABLE])
    # What was begun before, or is still under way, alone is in one record only.
    assert sum(found.left_out.values()) <= 2, found.left_out
    assert found.negative == {}
    assert [row.operation for row in found.rows if row.operation not in calls.parts] == []
    for row in found.rows:
        mine = calls.parts[row.operation]
        assert row.summary.calls == len(mine) > 0
        for part, mean_ns in zip(PARTS, row.summary.mean_ns, strict=True):
            assert mean_ns == pytest.approx(sum(call[part] for call in mine) / len(mine), abs=1e-3)
    return calls


def _parts(
    clients: list[dict[str, Any]], served: list[dict[str, Any]]
) -> dict[str, list[dict[str, int]]]:
    by_xid = {row["xid"]: row for row in served}
    found: dict[str, list[dict[str, int]]] = {ALL: []}
    for client in clients:
        if (server := by_xid.get(client["xid"])) is None:
            continue
        instants = [client["enqueued_ns"], client["sent_first_ns"]]
        instants += [server[f"{name}_ns"] for name in ("received", "started", "finished", "sent")]
        instants += [client["completed_ns"]]
        parts = {part: b - a for part, (a, b) in zip(PARTS, pairwise(instants), strict=True)}
        for operation in (ALL, client["operation"]):
            found.setdefault(operation, []).append(parts)
    return found


def reading(folder: Path) -> None:
    """One file, a piece at a time, past the page cache."""
    with (folder / "file0").open("rb", buffering=0) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
        for n in reversed(range(PIECES)):
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            assert len(os.pread(file.fileno(), PIECE_BYTES, n * PIECE_BYTES)) == PIECE_BYTES


def asking(folder: Path, times: int = 40) -> None:
    """Attributes of one file, again and again."""
    for _ in range(times):
        os.stat(folder / "file0")


def asking_at_once(folder: Path) -> None:
    """Attributes, by as many as there are files."""
    together = threading.Barrier(FILES)

    def ask(n: int) -> None:
        together.wait()
        for _ in range(4):
            os.stat(folder / f"file{n}")

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(FILES)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


PLANTED_MS = 20
PLANTED_NS = PLANTED_MS * MS


@pytest.mark.long
def test_a_delay_is_sending(tmp_path: Path) -> None:
    calls = watched(partial(asking, times=10), tmp_path, delay=f"{PLANTED_MS}ms")
    assert min(calls.each(ALL, "service", "sending")) >= PLANTED_NS
    for part in PARTS:
        assert part == "sending" or calls.least(ALL, part) < PLANTED_NS, part


@pytest.mark.long
def test_too_few_workers_are_waiting_and_enough_are_not(tmp_path: Path) -> None:
    for threads in (1, 2 * FILES):
        asked = {"service_time": [f"{PLANTED_MS}ms"], "threads": threads}
        calls = watched(asking_at_once, tmp_path / f"{threads}", **asked)
        assert calls.least(ALL, "service") >= PLANTED_NS
        started_ns = sorted(row["started_ns"] for row in calls.served)
        shortest_ns = min(other - one for one, other in pairwise(started_ns))
        if threads == 1:
            # They come together, and each begins when the one before has had its time.
            assert shortest_ns >= PLANTED_NS
            assert max(calls.each(ALL, "waiting")) >= PLANTED_NS
        else:
            assert shortest_ns < PLANTED_NS
            assert calls.least(ALL, "waiting") < PLANTED_NS


@pytest.mark.long
def test_a_narrow_wire_is_the_way_there_of_writes_and_sending_of_reads(tmp_path: Path) -> None:
    def writing(folder: Path) -> None:
        with (folder / "file0").open("r+b", buffering=0) as file:
            for n in range(8):
                os.pwrite(file.fileno(), bytes([n]) * PIECE_BYTES, n * PIECE_BYTES)
                os.fsync(file.fileno())

    # 16 KiB at 1 MiB/s are 15.6 ms.
    least_ns = PIECE_BYTES * SECOND // (1 << 20)
    calls = watched(writing, tmp_path / "writing", bandwidth="1024k")
    assert min(calls.each("WRITE", "way there")) >= least_ns
    assert min(calls.each("WRITE", "service", "sending")) < least_ns
    calls = watched(reading, tmp_path / "reading", bandwidth="1024k")
    assert min(calls.each("READ", "service", "sending")) >= least_ns
    assert calls.least("READ", "way there") < least_ns


EXPERIMENT = """
[experiment]
name = "parts"
repetitions = 1
collectors = ["rpc", "nfs_server"]

[collectors.rpc]
calls = true

[targets.share]
kind = "nfs"
directory = "DIRECTORY"
store = "memory"
service_time = ["READ=MILLISECONDS"]

[workload]
kind = "files"
data = "share"
file_size = "512k"
phases = ["block_write", "block_read"]
"""


@pytest.mark.system
def test_an_experiment_says_where_its_calls_time_went(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    usable = NfsTarget.available()
    if not usable.ok:
        pytest.skip(usable.reason)
    monkeypatch.setenv("NFSLAB_STATE", str(tmp_path / "state"))

    with scratch_folder() as scratch:
        text = EXPERIMENT.replace("DIRECTORY", str(scratch))
        file, results = tmp_path / "parts.toml", tmp_path / "results"
        file.write_text(text.replace("MILLISECONDS", f"{PLANTED_MS}ms"))
        ran = nfslab(capsys, "run", file, "--results", results)
        assert ran.code == 0, ran
        assert list(scratch.iterdir()) == []
    (folder,) = results.iterdir()
    (run,) = (folder / "runs").iterdir()
    said = nfslab(capsys, "show", folder, run.name).out
    assert all(part in said for part in PARTS), said
    assert sorted(path.name for path in run.iterdir() if path.is_dir()) == [
        "evidence", "logs", "samples",
    ]  # fmt: skip
    marked = nfslab(capsys, "report", folder, "--markdown")
    assert "Where a call's time goes" in marked.out
    slow = "SELECT min(finished_ns - started_ns) FROM evidence_nfs_server_calls"
    asked = nfslab(capsys, "query", folder, f"{slow} WHERE operation = 'READ'", "--csv")
    assert asked.code == 0, asked
    assert int(asked.out.splitlines()[1]) >= PLANTED_NS

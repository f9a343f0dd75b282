"""What is planted in the embedded server is found in the right part of a call's latency.

Lower bounds are exact: the model is never early. Which part is the largest depends on what else
the machine does: what is planted is made longer until it stands out.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from nfslab.evidence.collector import CollectorParameters
from nfslab.evidence.nfs_server import collector as nfs_server
from nfslab.evidence.nfs_server.breakdown import (
    ALL,
    PARTS,
    LatencyBreakdown,
    OperationBreakdown,
    take_apart,
)
from nfslab.evidence.nfs_server.collector import NfsServerCollector
from nfslab.evidence.rpc.collector import RpcCollector, RpcCollectorParameters
from nfslab.machine.resources import Resources
from nfslab.targets.base import Place
from nfslab.targets.nfs import NfsTarget
from nfslab.workloads.command import CommandParameters, CommandWorkload

from tests.cli.invocation import nfslab
from tests.hosts.here import HERE
from tests.standing_out import FACTORS, standing_out
from tests.workloads.run_context import Run, run_of, scratch_folder

MS = 1_000_000
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
                (place.path / f"file{n}").write_bytes(bytes(PIECE_BYTES * PIECES))
            target.offer(place, run.context.services)
            clients = RpcCollector(RpcCollectorParameters(calls=True))
            servers = NfsServerCollector(CollectorParameters())
            clients.start(run.context)
            servers.start(run.context)
            run.context.timed.start_ns = time.monotonic_ns()
            yield Recorded(run, target, place, clients, servers)
            target.down(place)


def watched(load: Callable[[Path], None], tmp_path: Path, **parameters: object) -> LatencyBreakdown:
    """The load on a fresh mount of a fresh server, its calls taken apart."""
    with recorded(tmp_path, **parameters) as one:
        load(one.place.path)
        seen = one.servers.stop().tables | one.clients.stop().tables
    found = take_apart(seen["rpc_calls"], seen[nfs_server.TABLE])
    assert found.calls > 0
    # What was begun before, or is still under way, alone is in one record only.
    assert sum(found.left_out.values()) <= 2, found.left_out
    assert found.negative == {}
    for row in found.rows:
        one_row = row.summary
        assert sum(one_row.mean_ns) == pytest.approx(one_row.whole_mean_ns, abs=1e-3)
    return found


def of(found: LatencyBreakdown, operation: str) -> OperationBreakdown:
    (row,) = (row for row in found.rows if row.operation == operation)
    return row


def mean_ns(row: OperationBreakdown, *parts: str) -> float:
    """Of these parts together. When a reply leaves is the model's, when its making ends is the
    machine's: what was planted to delay it is in the sum of `service` and `sending`."""
    return sum(row.summary.mean_ns[PARTS.index(part)] for part in parts)


def largest(row: OperationBreakdown) -> str:
    assert row.largest is not None
    return PARTS[row.largest[0]]


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
        for _ in range(12):
            os.stat(folder / f"file{n}")

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(FILES)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_a_slow_procedure_is_service_of_that_procedure(tmp_path: Path) -> None:
    def watch(ms: int) -> LatencyBreakdown:
        return watched(reading, tmp_path / f"{ms}", service_time=[f"READ={ms}ms"])

    def others_service_is_short(found: LatencyBreakdown) -> bool:
        return mean_ns(of(found, "GETATTR"), "service") < mean_ns(of(found, "READ"), "service") / 2

    ms, found = standing_out(
        [20 * n for n in FACTORS],
        watch,
        lambda found: largest(of(found, "READ")) == "service" and others_service_is_short(found),
    )
    assert largest(of(found, "READ")) == "service"
    assert mean_ns(of(found, "READ"), "service") >= ms * MS
    assert others_service_is_short(found), "that was not slowed"


def test_a_delay_is_sending(tmp_path: Path) -> None:
    def is_sending(found: LatencyBreakdown) -> bool:
        whole = of(found, ALL)
        short = mean_ns(whole, "sending") / 2
        return all(mean_ns(whole, part) < short for part in PARTS if part != "sending")

    ms, found = standing_out(
        [20 * n for n in FACTORS],
        lambda ms: watched(asking, tmp_path / f"{ms}", delay=f"{ms}ms"),
        is_sending,
    )
    assert is_sending(found)
    assert largest(of(found, ALL)) == "sending"
    assert mean_ns(of(found, ALL), "service", "sending") >= ms * MS
    assert found.rows[0].summary.whole_mean_ns >= ms * MS


def test_too_few_workers_are_waiting_and_enough_are_not(tmp_path: Path) -> None:
    def watch(ms: int) -> tuple[OperationBreakdown, OperationBreakdown]:
        few, enough = (
            watched(asking_at_once, tmp_path / f"{ms}-{n}", service_time=[f"{ms}ms"], threads=n)
            for n in (1, 16)
        )
        return of(few, ALL), of(enough, ALL)

    def only_few_wait(found: tuple[OperationBreakdown, OperationBreakdown]) -> bool:
        few, enough = found
        wait = largest(few) == "waiting" and largest(enough) == "service"
        return wait and mean_ns(enough, "waiting") < mean_ns(few, "waiting") / 2

    ms, found = standing_out([5 * n for n in FACTORS], watch, only_few_wait)
    few, enough = found
    assert (largest(few), largest(enough)) == ("waiting", "service")
    assert mean_ns(enough, "waiting") < mean_ns(few, "waiting") / 2
    for row in found:
        assert mean_ns(row, "service") >= ms * MS
    # It is the largest part, so each waited for one before it, and this one took `ms`.
    assert mean_ns(few, "waiting") >= ms * MS


def test_a_narrow_wire_is_the_way_there_of_writes_and_sending_of_reads(tmp_path: Path) -> None:
    def writing(folder: Path) -> None:
        with (folder / "file0").open("r+b", buffering=0) as file:
            for n in range(8):
                os.pwrite(file.fileno(), bytes([n]) * PIECE_BYTES, n * PIECE_BYTES)
                os.fsync(file.fileno())

    def watch(load: Callable[[Path], None], operation: str, kib_per_s: int) -> OperationBreakdown:
        folder = tmp_path / f"{operation}-{kib_per_s}"
        return of(watched(load, folder, bandwidth=f"{kib_per_s}k"), operation)

    # 16 KiB at 1 MiB/s are 16 ms.
    rates = [1024 // n for n in FACTORS]
    rate, wrote = standing_out(
        rates, lambda rate: watch(writing, "WRITE", rate), lambda row: largest(row) == "way there"
    )
    assert largest(wrote) == "way there"
    assert mean_ns(wrote, "way there") >= PIECE_BYTES / 1024 / rate * 1000 * MS
    rate, read = standing_out(
        rates, lambda rate: watch(reading, "READ", rate), lambda row: largest(row) == "sending"
    )
    assert largest(read) == "sending"
    assert mean_ns(read, "service", "sending") >= PIECE_BYTES / 1024 / rate * 1000 * MS


def test_with_nothing_planted_it_is_client_and_wire(tmp_path: Path) -> None:
    outside = ("client queue", "way there", "way back")

    def watch(times: int) -> OperationBreakdown:
        found = watched(lambda folder: asking(folder, times), tmp_path / f"{times}")
        return of(found, ALL)

    def is_outside(row: OperationBreakdown) -> bool:
        share = dict(zip(PARTS, row.summary.share, strict=True))
        return largest(row) in outside and sum(share[part] or 0 for part in outside) > 0.6

    # The more calls there are, the less is what held up one of them.
    _, whole = standing_out([400 * n for n in FACTORS], watch, is_outside)
    assert largest(whole) in outside
    assert is_outside(whole), dict(zip(PARTS, whole.summary.share, strict=True))


def test_a_server_killed_while_it_records_is_said_and_the_clients_record_kept(
    tmp_path: Path,
) -> None:
    # No reply is late within a minute; a killed server's connections end at once.
    with recorded(tmp_path, hard=False, timeo=600, retrans=0) as one:
        asking(one.place.path)
        server = one.target.server_of(one.place)
        assert server is not None
        assert server.process is not None
        server.process.stop(9)
        kept, lost = one.clients.stop(), one.servers.stop()
        assert one.run.context.services.rpc_recorders
    assert kept.tables["rpc_calls"].num_rows >= 40
    assert lost.tables == {}
    assert lost.summary["incomplete"] == "no server-side times of share"
    assert "signal 9" in lost.summary["notes"][0]


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


def test_an_experiment_says_where_its_calls_time_went(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    usable = NfsTarget.available()
    if not usable.ok:
        pytest.skip(usable.reason)
    monkeypatch.setenv("NFSLAB_STATE", str(tmp_path / "state"))

    def carried_out(ms: int) -> tuple[Path, Path, str]:
        """Its folder, its run's, and what is said of the run."""
        with scratch_folder() as scratch:
            text = EXPERIMENT.replace("DIRECTORY", str(scratch)).replace("MILLISECONDS", f"{ms}ms")
            file, results = tmp_path / f"parts-{ms}.toml", tmp_path / f"results-{ms}"
            file.write_text(text)
            ran = nfslab(capsys, "run", file, "--results", results)
            assert ran.code == 0, ran
            assert list(scratch.iterdir()) == []
        (folder,) = results.iterdir()
        (run,) = (folder / "runs").iterdir()
        return folder, run, nfslab(capsys, "show", folder, run.name).out

    where = "The largest part of the calls' time is service"
    ms, (folder, run, said) = standing_out(
        [20 * n for n in FACTORS], carried_out, lambda found: where in found[2]
    )
    assert where in said
    assert sorted(path.name for path in run.iterdir() if path.is_dir()) == [
        "evidence", "logs", "samples",
    ]  # fmt: skip
    marked = nfslab(capsys, "report", folder, "--markdown")
    assert "Where a call's time goes" in marked.out
    slow = "SELECT min(finished_ns - started_ns) FROM evidence_nfs_server_calls"
    asked = nfslab(capsys, "query", folder, f"{slow} WHERE operation = 'READ'", "--csv")
    assert asked.code == 0, asked
    assert int(asked.out.splitlines()[1]) >= ms * MS

"""A results folder: what is sealed is whole and stays, what is not sealed does not exist."""

from __future__ import annotations

import errno
import json
import math
import os
import resource
import signal
import stat
import subprocess
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from nfslab.errors import ResultsError, RunFailed
from nfslab.experiment.folders import existing_folders
from nfslab.results.durable import write_durably
from nfslab.results.records import (
    AxisRecord,
    CatalogueLine,
    CheckRecord,
    DurabilityRecord,
    EvidenceRecord,
    ExperimentRecord,
    Metric,
    PointRecord,
    RunRecord,
)
from nfslab.results.store import ExperimentFolder, PartialRun

from tests.crash_states import Recorder, lay_down
from tests.machine import needs

IDENTITY = "0123456789abcdef" * 4


def experiment_record(**changes: Any) -> ExperimentRecord:
    points = [
        PointRecord(point_id=f"{i:08x}", index=i, factors={"clients": i}, settings={"w.c": i})
        for i in range(3)
    ]
    axis = AxisRecord(
        name="clients", parameters=["w.c"], levels=[0, 1, 2], values=[[0], [1], [2]], numeric=True
    )
    fields: dict[str, Any] = {
        "name": "store-test",
        "identity": IDENTITY,
        "seed": 7,
        "order": "blocks",
        "repetitions": 2,
        "axes": [axis],
        "points": points,
        "resolved": {},
        "created_unix_ns": 1_700_000_000_000_000_000,
        "nfslab_version": "0.1.0",
    }
    return ExperimentRecord(**{**fields, **changes})


def run_record(block: int = 0, point: int = 0, attempt: int = 1, **changes: Any) -> RunRecord:
    fields: dict[str, Any] = {
        "run_id": f"b{block:03}-{point:08x}-a{attempt}",
        "experiment": "store-test",
        "identity": IDENTITY,
        "point_id": f"{point:08x}",
        "point_index": point,
        "block": block,
        "position": block * 3 + point,
        "attempt": attempt,
        "factors": {"clients": point},
        "settings": {"w.c": point},
        "parameters": {},
        "status": "ok",
        "started_unix_ns": 1_700_000_000_000_000_000 + block * 10**12 + point * 10**9 + attempt,
        "duration_ns": 10**9,
        "metrics": {"tps": Metric(value=100.0 + point, unit="1/s", better="higher", primary=True)},
        "durability": DurabilityRecord(level="stable"),
    }
    return RunRecord(**{**fields, **changes})


@pytest.fixture
def folder(tmp_path: Path) -> ExperimentFolder:
    return ExperimentFolder.create(tmp_path, experiment_record(), b"# as given\n")


def seal(folder: ExperimentFolder, record: RunRecord) -> CatalogueLine:
    run = folder.begin_run(record.run_id)
    run.write_table("samples", "transactions", pa.table({"t_ns": [1, 2, 3]}))
    (run.logs / "server.log").write_text("started\n")
    return run.seal(record, {"kernel": "6.1"})


def test_what_is_written_is_read_back(folder: ExperimentFolder, tmp_path: Path) -> None:
    line = seal(folder, run_record())
    again = ExperimentFolder.open(folder.path)
    assert folder.path.name == "store-test-01234567"
    assert (folder.path / "experiment.toml").read_bytes() == b"# as given\n"
    assert again.record == folder.record
    assert again.sealed_runs() == [line]
    assert again.run_record(line.run_id) == run_record()
    table = pq.read_table(folder.runs_path / line.run_id / "samples" / "transactions.parquet")
    assert table.column("t_ns").to_pylist() == [1, 2, 3]
    assert table.schema.metadata[b"nfslab.schema_version"] == b"1"
    compression = (
        pq.ParquetFile(folder.runs_path / line.run_id / "samples" / "transactions.parquet")
        .metadata.row_group(0)
        .column(0)
        .compression
    )
    assert compression == "ZSTD"
    assert existing_folders(tmp_path, IDENTITY) != []
    assert existing_folders(tmp_path, IDENTITY[:8] + "f" * 56) == []
    assert existing_folders(tmp_path / "nowhere", IDENTITY) == []


def test_an_experiment_is_created_once(folder: ExperimentFolder, tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match="already"):
        ExperimentFolder.create(tmp_path, experiment_record(), b"")


def test_a_creation_cut_off_is_taken_up_again(tmp_path: Path) -> None:
    folder = ExperimentFolder.create(tmp_path, experiment_record(), b"")
    (folder.path / "experiment.json").unlink()  # as if killed before its last step
    assert existing_folders(tmp_path, IDENTITY) == []
    assert ExperimentFolder.create(tmp_path, experiment_record(), b"").sealed_runs() == []


def test_a_damaged_experiment_is_not_measured_again(folder: ExperimentFolder) -> None:
    (folder.path / "experiment.json").write_text('{"schema_version": 1, "na')
    with pytest.raises(ResultsError, match="damaged"):
        existing_folders(folder.path.parent, IDENTITY)


def test_more_repetitions_extend_the_record(folder: ExperimentFolder) -> None:
    folder.update_record(experiment_record(repetitions=9))
    assert ExperimentFolder.open(folder.path).record.repetitions == 9
    with pytest.raises(ResultsError, match="another experiment"):
        folder.update_record(experiment_record(identity="f" * 64))


def test_odd_numbers_are_kept(folder: ExperimentFolder) -> None:
    metrics = {
        "nan": Metric(value=math.nan, unit="1"),
        "inf": Metric(value=math.inf, unit="1"),
        "negative": Metric(value=-0.1 - 0.2, unit="1"),
    }
    seal(folder, run_record(metrics=metrics))
    read = folder.run_record("b000-00000000-a1").metrics
    assert math.isnan(read["nan"].value)
    assert read["inf"].value == math.inf
    assert read["negative"].value == -0.1 - 0.2
    line = folder.sealed_runs()[0].metrics
    assert math.isnan(line["nan"])
    assert line["inf"] == math.inf
    text = (folder.path / "catalogue.jsonl").read_text()
    json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


def test_evidence_is_summed_up_beside_its_tables(folder: ExperimentFolder) -> None:
    record = run_record(evidence=[EvidenceRecord(collector="system", summary={"busy": 0.5})])
    seal(folder, record)
    path = folder.runs_path / record.run_id / "evidence" / "system.json"
    assert json.loads(path.read_text())["summary"] == {"busy": 0.5}


def test_a_line_carries_the_checks_that_did_not_pass(folder: ExperimentFolder) -> None:
    checks = [
        CheckRecord(name="steady", verdict="warning", message="m"),
        CheckRecord(name="littles-law", verdict="ok", message="m"),
        CheckRecord(name="clock", verdict="unknown", message="m"),
    ]
    assert seal(folder, run_record(checks=checks)).flags == ["steady:warning", "clock:unknown"]


@pytest.mark.parametrize("name", ["../x", "a/b", ".hidden", "", "a\n", "x" * 121])
def test_names_cannot_leave_the_folder(folder: ExperimentFolder, name: str) -> None:
    with pytest.raises(ResultsError, match="not a valid"):
        folder.begin_run(name)
    run = folder.begin_run("b000-00000000-a1")
    with pytest.raises(ResultsError, match="not a valid"):
        run.write_table("samples", name, pa.table({"a": [1]}))


def test_a_run_is_sealed_once(folder: ExperimentFolder) -> None:
    seal(folder, run_record())
    with pytest.raises(ResultsError, match="sealed already"):
        folder.begin_run("b000-00000000-a1")
    folder.begin_run("b000-00000001-a1")
    with pytest.raises(ResultsError, match="begun already"):
        folder.begin_run("b000-00000001-a1")


def test_a_record_of_another_run_is_refused(folder: ExperimentFolder) -> None:
    run = folder.begin_run("b001-00000001-a1")
    with pytest.raises(ResultsError, match="given to run"):
        run.seal(run_record(), {})


def test_partial_runs_are_not_counted_and_are_cleaned(folder: ExperimentFolder) -> None:
    seal(folder, run_record())
    run = folder.begin_run("b000-00000001-a1")
    run.write_table("samples", "transactions", pa.table({"a": [1]}))
    (folder.path / ".writing-experiment.json-1").write_text("cut off")
    assert [line.run_id for line in folder.sealed_runs()] == ["b000-00000000-a1"]
    assert folder.clean_partials() == ["b000-00000001-a1"]
    assert folder.clean_partials() == []
    left = sorted(path.name for path in folder.path.iterdir())
    assert left == [".lock", "catalogue.jsonl", "experiment.json", "experiment.toml", "runs"]
    assert len(folder.sealed_runs()) == 1


def test_a_discarded_run_never_was(folder: ExperimentFolder) -> None:
    folder.begin_run("b000-00000000-a1").discard()
    assert list(folder.runs_path.iterdir()) == []
    run = folder.begin_run("b000-00000000-a1")
    run.seal(run_record(), {})
    run.discard()  # after sealing: must not remove a finished run
    assert len(folder.sealed_runs()) == 1


def test_a_second_runner_is_told_who_holds_it(folder: ExperimentFolder) -> None:
    other = ExperimentFolder.open(folder.path)
    with folder.lock():
        with pytest.raises(ResultsError, match="in use") as caught, other.lock():
            pass
        assert f"process {os.getpid()}" in caught.value.why
        with pytest.raises(ResultsError, match="in use"):
            other.clean_partials()
        folder.clean_partials()  # the holder itself may
    with other.lock():
        pass


def test_a_crash_within_sealing_leaves_the_run_whole_or_not_at_all(tmp_path: Path) -> None:
    """Every state that a kill or a loss of power may leave of it."""
    base = tmp_path / "results"
    base.mkdir()
    folder = ExperimentFolder.create(base, experiment_record(), b"# as given\n")
    first, second = run_record(), run_record(block=1)
    seal(folder, first)
    recorder = Recorder(base, lambda _crash, _left, _live: None)
    with recorder.watched():
        seal(folder, second)
    sealed = 0
    for state, crash in recorder.states.items():
        lay_down(base, state)
        again = ExperimentFolder.open(folder.path)
        catalogue = again.catalogue("whole")
        assert catalogue.damaged == {}, crash
        names = [line.run_id for line in catalogue.lines]
        assert again.run_record(first.run_id) == first
        if second.run_id in names:
            sealed += 1
            assert again.run_record(second.run_id) == second
            table = again.runs_path / second.run_id / "samples" / "transactions.parquet"
            assert pq.read_table(table).num_rows == 3
        else:
            assert again.clean_partials() == catalogue.partial
        with again.lock():  # mends what the crash left in the catalogue
            pass
        catalogue = again.catalogue()
        assert (catalogue.missing_lines, catalogue.useless_lines, catalogue.partial) == (0, 0, [])
        assert [line.run_id for line in catalogue.lines] == names
    assert 0 < sealed < len(recorder.states)


def test_a_failing_fsync_leaves_no_run(
    folder: ExperimentFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """EIO at each fsync in turn: the run does not exist, the first one is untouched."""
    seal(folder, run_record())
    real, calls, fail_at = os.fsync, 0, 0

    def failing(descriptor: int) -> None:
        nonlocal calls
        calls += 1
        if calls == fail_at:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(descriptor)

    run: PartialRun
    for step in range(1, 200):
        calls, fail_at = 0, step
        monkeypatch.setattr(os, "fsync", real)
        run = folder.begin_run("b001-00000000-a1")
        run.write_table("samples", "transactions", pa.table({"a": [1]}))
        monkeypatch.setattr(os, "fsync", failing)
        reason = ""
        try:
            run.seal(run_record(block=1), {})
        except RunFailed as error:
            reason = error.why
        if reason:
            assert "Input/output error" in reason
            run.discard()
            assert [line.run_id for line in folder.sealed_runs()] == ["b000-00000000-a1"]
            assert folder.catalogue().partial == []
        else:
            break
    assert fail_at > 8
    # The append to the catalogue is the last step; its failure does not undo the run.
    assert len(folder.sealed_runs()) == 2


def _seal_with_little_room(folder: ExperimentFolder, rows: int) -> None:
    run = folder.begin_run("b001-00000000-a1")
    try:
        table = pa.table({"t_ns": [os.urandom(64) for _ in range(rows)]})
        run.write_table("samples", "transactions", table)
        run.seal(run_record(block=1), {})
    finally:
        run.discard()


def test_a_file_size_limit_fails_only_the_run(folder: ExperimentFolder) -> None:
    """RLIMIT_FSIZE stands for a quota: needs no root."""
    seal(folder, run_record())
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64 * 1024, before[1]))
    try:
        with pytest.raises(RunFailed, match="samples/") as caught:
            _seal_with_little_room(folder, 10_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert os.strerror(errno.EFBIG) in caught.value.why
    assert caught.value.fix
    assert [line.run_id for line in folder.sealed_runs()] == ["b000-00000000-a1"]
    assert list(folder.runs_path.glob(".*")) == []


@needs.mount
@pytest.mark.system
def test_a_full_disk_fails_only_the_run(tmp_path: Path) -> None:
    mount = tmp_path / "small"
    mount.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(mount)]
    mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    if mounted.returncode != 0:
        pytest.skip(f"cannot mount a tmpfs: {mounted.stderr.strip()}")
    try:
        folder = ExperimentFolder.create(mount, experiment_record(), b"")
        seal(folder, run_record())
        with pytest.raises(RunFailed) as caught:
            _seal_with_little_room(folder, 10_000)
        assert os.strerror(errno.ENOSPC) in caught.value.why
        # Room for the table, none for the record: sealing itself fails.
        run = folder.begin_run("b001-00000000-a1")
        filler = mount / "filler"
        with pytest.raises(OSError, match="No space"):
            filler.write_bytes(bytes(1024 * 1024))
        with pytest.raises(RunFailed, match="cannot seal") as caught:
            run.seal(run_record(block=1), {})
        assert os.strerror(errno.ENOSPC) in caught.value.why
        run.discard()
        filler.unlink()
        again = ExperimentFolder.open(folder.path)
        assert [line.run_id for line in again.sealed_runs()] == ["b000-00000000-a1"]
        assert again.run_record("b000-00000000-a1") == run_record()
        seal(again, run_record(block=1))
        assert len(again.sealed_runs()) == 2
    finally:
        subprocess.run(["umount", str(mount)], check=True)


def test_a_runs_folder_that_takes_nothing_is_named_with_the_cause(tmp_path: Path) -> None:
    """A dangling link in its place: nothing can be made below it, not even by root."""
    folder = ExperimentFolder.create(tmp_path, experiment_record(), b"")
    folder.runs_path.rmdir()
    folder.runs_path.symlink_to(tmp_path / "gone")
    with pytest.raises(RunFailed) as caught:
        folder.begin_run("b000-x-a1")
    assert caught.value.why == f"{folder.runs_path}: {os.strerror(errno.ENOENT)}"


def test_a_file_is_replaced_and_a_pipe_is_not(tmp_path: Path) -> None:
    file, pipe = tmp_path / "file", tmp_path / "pipe"
    file.write_bytes(b"old")
    write_durably(file, b"new")
    assert file.read_bytes() == b"new"
    os.mkfifo(pipe)
    with pytest.raises(FileExistsError) as caught:
        write_durably(pipe, b"new")
    assert caught.value.strerror == "it is there and is no regular file"
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "pipe"]

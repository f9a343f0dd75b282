"""`nfslab syscalls` as a person meets it: commands, processes, texts, bad usage, Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pyarrow.parquet as pq
import pytest
from nfslab.evidence.syscalls.watch import SyscallWatch
from nfslab.evidence.syscalls.ways import Asked, Subject, obstacle
from nfslab.workloads.pgbench.parameters import PgbenchParameters
from nfslab.workloads.pgbench.workload import PgbenchWorkload
from psycopg.conninfo import conninfo_to_dict

from tests.cli.invocation import nfslab
from tests.cli.watching import PATIENCE_S, ROUNDS, loads, watched_syncer
from tests.machine import needs
from tests.workloads.run_context import run_of, scratch_folder

PROGRAM = """
import os, sys
file = os.open(sys.argv[1] + "/bank-wal", os.O_RDWR | os.O_CREAT)
for n in range(20):
    os.pwrite(file, b"x" * 4096, n * 4096)
    os.fdatasync(file)
sys.exit(int(sys.argv[2]))
"""
SERVER = """
import mmap, os, socket, sys
folder = sys.argv[1]
page = os.open(folder + "/page.html", os.O_RDONLY)
near, far = socket.socketpair()
for n in range(50):
    assert os.sendfile(near.fileno(), page, 0, 5000) == 5000
    assert len(far.recv(5000, socket.MSG_WAITALL)) == 5000
copy = os.open(folder + "/copy.html", os.O_RDWR | os.O_CREAT)
assert os.copy_file_range(page, copy, 3000, 0, 0) == 3000
ends = os.pipe()
assert os.splice(page, ends[1], 2000, 3000) == 2000
assert os.splice(ends[0], copy, 2000, None, 3000) == 2000
mapped = mmap.mmap(copy, 5000)
mapped[:4] = b"html"
mapped.flush()
"""
TEXT = (
    '101 1700000000.000000 openat(AT_FDCWD, "/db/bank-wal", O_RDWR) = 3</db/bank-wal> <0.000010>\n'
    + "".join(
        f"101 1700000000.{n:03}000 pwrite64(3</db/bank-wal>, \"x\"..., 4096, {n * 4096}) = 4096 "
        f"<0.000020>\n101 1700000000.{n:03}100 fdatasync(3</db/bank-wal>) = 0 <0.000400>\n"
        for n in range(1, 58)
    )
    + "".join(
        f"101 1700000001.{n:03}000 fdatasync(3</db/bank-wal>) = 0 <0.005100>\n"
        for n in range(100)
    )
    + "101 1700000002.000000 +++ exited with 0 +++\n"
)  # fmt: skip


def run_it(folder: Path, *options: str, code: int = 0) -> list[object]:
    return [
        "syscalls", *options, "--", sys.executable, "-S", "-c", PROGRAM, str(folder), str(code)
    ]  # fmt: skip


def skip_without(way: str) -> None:
    reason, _ = obstacle(way, Asked(), Subject(argv=[sys.executable]))  # type: ignore[arg-type]
    if reason:
        pytest.skip(f"{way}: {reason}")


@pytest.mark.parametrize("way", ["ebpf", "shim", "strace"])
def test_a_commands_syncs_are_in_the_table(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, way: str
) -> None:
    skip_without(way)
    said = nfslab(capsys, *run_it(tmp_path, "--way", way, "--json"))
    assert said.code == 0
    found = json.loads(said.out)
    assert (found["way"], found["exit_code"]) == (way, 0)
    (series,) = found["series"]
    assert (series["class"], series["call"], series["calls"]) == ("SQLite WAL", "fdatasync", 20)
    assert 0 < series["p50_ns"] <= series["max_ns"]
    assert found["total"]["calls"]["fdatasync"]["calls"] == 20


@pytest.mark.parametrize("way", ["ebpf", "shim", "strace"])
def test_a_static_web_servers_sendfiles_are_reads_of_what_it_serves(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, way: str
) -> None:
    """50 pages by sendfile, a copy within the kernel, and a flush of mapped bytes."""
    skip_without(way)
    (tmp_path / "page.html").write_bytes(b"x" * 5000)
    program = ["--", sys.executable, "-S", "-c", SERVER, tmp_path]
    options = ["--way", way, "--level", "counts", "--by-file"]
    said = nfslab(capsys, "syscalls", *options, "--json", *program)
    assert said.code == 0, said.err
    found = json.loads(said.out)
    files = {row["name"]: row["calls"] for row in found["files"]}
    page, copy = (files[str(tmp_path / name)] for name in ("page.html", "copy.html"))
    done = [
        (calls[group]["calls"], calls[group]["errors"], calls[group]["bytes"])
        for calls, group in ((page, "reads"), (copy, "writes"))
    ]
    assert done == [(52, 0, 50 * 5000 + 3000 + 2000), (2, 0, 5000)]
    assert found["total"]["calls"]["msync"]["calls"] == 1
    mapped = found["total"]["calls"]["mmap"]["calls"]
    assert copy["mmap"]["calls"] == 1 <= mapped
    assert any(note.startswith(f"{mapped} x mmap: ") for note in found["notes"]), "not silent"


def test_a_command_that_fails_is_told_after_its_table(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    skip_without("strace")
    said = nfslab(capsys, *run_it(tmp_path, "--way", "strace", code=3))
    assert said.code == 1
    assert "SQLite WAL" in said.out
    assert "exit code 3" in said.err
    assert "watching by strace" in said.err


def test_tables_page_and_files_are_written(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    skip_without("shim")
    page, tables = tmp_path / "page.html", tmp_path / "tables"
    said = nfslab(
        capsys,
        *run_it(tmp_path, "--way", "shim", "--level", "events", "--by-file", "--html", str(page),
                "--parquet", str(tables)),
    )  # fmt: skip
    assert said.code == 0
    assert "Calls by file" in said.out
    assert str(tmp_path / "bank-wal") in page.read_text("utf-8")
    syncs = pq.read_table(tables / "syncs.parquet")
    assert syncs.num_rows == 20
    assert syncs["t_ns"].to_pylist() == sorted(syncs["t_ns"].to_pylist())
    events = pq.read_table(tables / "events.parquet").to_pylist()
    assert [row["offset"] for row in events if row["call"] == "pwrite64"] == [
        4096 * n for n in range(20)
    ]
    assert "SQLite WAL" in pq.read_table(tables / "files.parquet")["class"].to_pylist()


def test_a_text_of_strace_is_read_with_its_change(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    text = tmp_path / "calls.txt"
    text.write_text(TEXT, "utf-8")
    said = nfslab(capsys, "syscalls", "--read", text, "--level", "counts")
    assert said.code == 0
    assert "the first 57 calls take 400 µs, then 5.10 ms" in said.out
    assert "SQLite WAL" in said.out
    found = json.loads(
        nfslab(capsys, "syscalls", "--read", text, "--level", "counts", "--json").out
    )
    (row,) = found["classes"]
    assert row["calls"]["writes"]["calls"] == 57
    assert row["calls"]["writes"]["bytes"] == 57 * 4096
    assert row["calls"]["fdatasync"]["calls"] == 157
    (series,) = found["series"]
    assert [level["calls"] for level in series["levels"]] == [57, 100]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "say what is to be watched"),
        (["--pid", "1", "--read", "x"], "exclude each other"),
        (["--read", "x", "--way", "ebpf"], "--read only reads"),
        (["--lseek", "--pid", "1"], "--lseek needs a level"),
        (["--postgres", "/nowhere"], "no data directory"),
        (["--pid", "1", "--duration", "0s"], "above 0"),
        (["--pid", "1", "--by-relation"], "give --postgres"),
        (["--pid", "1", "--html", "/nowhere/x.html"], "/nowhere"),
        (["--", "no-such-program-here"], "was not found"),
        (["--read", "/nowhere/x.txt"], "cannot read"),
    ],
)
def test_bad_usage_says_what_to_do(
    capsys: pytest.CaptureFixture[str], options: list[str], words: str
) -> None:
    said = nfslab(capsys, "syscalls", *options)
    assert said.code == 2
    assert words in said.err


def test_a_text_that_is_none_of_strace(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    text = tmp_path / "poem.txt"
    text.write_text("a rose is a rose\n" * 50, "utf-8")
    said = nfslab(capsys, "syscalls", "--read", text)
    assert said.code == 2
    assert said.out == ""


def test_a_process_that_has_gone(capsys: pytest.CaptureFixture[str]) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait(PATIENCE_S)
    said = nfslab(capsys, "syscalls", "--pid", ended.pid)
    assert said.code == 2
    assert f"no process {ended.pid}" in said.err


def test_a_stale_postmaster_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "PG_VERSION").write_text("15\n", "utf-8")
    (tmp_path / "postmaster.pid").write_text(f"{os.getpid()}\n{tmp_path}\n", "utf-8")
    said = nfslab(capsys, "syscalls", "--postgres", tmp_path)
    assert said.code == 2
    assert "no PostgreSQL runs" in said.err


def session(conninfo: str, **more: str) -> psycopg.Connection[Any]:
    return psycopg.connect(conninfo, autocommit=True, **more)  # type: ignore[arg-type]


@needs.ebpf
def test_a_postgresql_by_its_data_directory(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside a second one, which is not mixed in."""
    parameters = PgbenchParameters(data="disk", transactions=1, clients=1)
    work, other = PgbenchWorkload(parameters), PgbenchWorkload(parameters)
    if not work.check().ok:
        pytest.skip(work.check().reason)
    with (
        scratch_folder() as root,
        run_of(work, root, name="one") as run,
        run_of(other, root, name="two") as second,
    ):
        work.prepare(run.context)
        other.prepare(second.context)
        servers = [one.context.services.postgres for one in (run, second)]
        with session(servers[0].conninfo) as mine, session(servers[1].conninfo) as theirs:
            for connection in (mine, theirs):
                connection.execute("create table written (number int)")
            insert = "insert into written select generate_series(1, 100)"
            with loads(monkeypatch, lambda: mine.execute(insert), lambda: theirs.execute(insert)):
                said = nfslab(
                    capsys, "syscalls", "--postgres", servers[0].data_directory,
                    "--level", "counts", "--by-file", "--json",
                )  # fmt: skip
    assert said.code == 0
    found = json.loads(said.out)
    paths = [row["name"] for row in found["files"] if row["name"].startswith(str(root))]
    assert paths
    assert all(path.startswith(str(root / "one")) for path in paths), paths
    (log,) = (row for row in found["classes"] if row["name"] == "PostgreSQL WAL")
    assert log["calls"]["fdatasync"]["calls"] >= ROUNDS


@needs.ebpf
def test_ctrl_c_ends_watching_and_shows_what_was_seen(tmp_path: Path) -> None:
    """The server goes on; the exit code is 0: it is the way to end."""
    with watched_syncer(tmp_path) as (syncer, watching):
        syncer.sync(200)
        watching.send_signal(signal.SIGINT)
        out, _ = watching.communicate(timeout=PATIENCE_S)
        assert syncer.process.poll() is None
    assert watching.returncode == 0
    (series,) = json.loads(out)["series"]
    assert (series["class"], series["call"]) == ("SQLite rollback journal", "fsync")
    assert series["calls"] == 200


@needs.ebpf
def test_ctrl_c_while_it_attaches_is_the_way_to_end_too(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    attach = SyscallWatch.attach

    def interrupted(watch: SyscallWatch) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        attach(watch)

    monkeypatch.setattr(SyscallWatch, "attach", interrupted)
    said = nfslab(capsys, "syscalls", "--pid", os.getpid(), "--json")
    assert said.code == 0, said.err
    assert json.loads(said.out)["way"] == "ebpf"


@needs.ebpf
def test_tables_have_their_names_and_without_a_connection_the_plain_class(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    work = PgbenchWorkload(PgbenchParameters(data="disk", transactions=10, clients=2))
    if not work.check().ok:
        pytest.skip(work.check().reason)
    with scratch_folder() as root, run_of(work, root, name="one") as run:
        work.prepare(run.context)
        service = run.context.services.postgres
        with session(service.conninfo, dbname="pgbench") as sql:

            def load() -> None:
                sql.execute("INSERT INTO pgbench_history (tid) VALUES (1)")
                sql.execute("CHECKPOINT")

            options = ["--postgres", service.data_directory, "--by-relation",
                       "--level", "counts", "--json"]  # fmt: skip
            with loads(monkeypatch, load):
                monkeypatch.setenv("PGUSER", conninfo_to_dict(service.conninfo)["user"])
                said = nfslab(capsys, "syscalls", *options)
                monkeypatch.setenv("PGUSER", "nobody_of_this_name")
                refused = nfslab(capsys, "syscalls", *options)
    assert said.code == refused.code == 0
    rows = {row["name"]: row for row in json.loads(said.out)["classes"]}
    # A checkpoint writes what was inserted before it.
    assert rows["pgbench.public.pgbench_history (table)"]["calls"]["writes"]["calls"] >= ROUNDS
    assert "PostgreSQL WAL" in rows
    assert "table" in refused.err
    found = json.loads(refused.out)
    assert any("nobody_of_this_name" in note for note in found["notes"])
    assert not [row for row in found["classes"] if "(table" in row["name"]]


PATTERN = """
import os, sys
log = os.open(sys.argv[1] + "/bank-wal", os.O_RDWR | os.O_CREAT)
data = os.open(sys.argv[1] + "/bank.db", os.O_RDWR | os.O_CREAT | os.O_DSYNC)
for n in range(30):
    os.pwrite(log, b"x" * 4096, n * 4096)
    os.pwrite(log, b"y" * 100, n * 4096 + 50)     # the page again
for n in (7, 3, 20, 3):
    os.pwrite(data, b"z" * 8192, n * 8192)
for n in range(28):
    os.pread(data, 8192, n * 8192)                # the last ones are beyond the end
"""
SMALL = 100


@pytest.mark.parametrize("way", ["ebpf", "shim", "strace"])
def test_sizes_and_offsets_over_time_are_those_of_the_program(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, way: str
) -> None:
    skip_without(way)
    tables = tmp_path / "tables"
    said = nfslab(
        capsys, "syscalls", "--way", way, "--level", "events", "--json", "--parquet", str(tables),
        "--", sys.executable, "-S", "-c", PATTERN, str(tmp_path),
    )  # fmt: skip
    assert said.code == 0
    rows = pq.read_table(tables / "accesses.parquet").to_pylist()
    assert [row["t_ns"] for row in rows] == sorted(row["t_ns"] for row in rows)
    log = [(row["kind"], row["place"], row["offset"], row["size"])
           for row in rows if row["class"] == "SQLite WAL"]  # fmt: skip
    wanted = []
    for n in range(30):
        # Behind the few bytes of the page that was written again.
        wanted += [("write", "forward" if n else "first", n * 4096, 4096),
                   ("write", "rewrite", n * 4096 + 50, SMALL)]  # fmt: skip
    assert log == wanted
    data = [(row["kind"], row["place"], row["offset"], row["size"])
            for row in rows if row["class"] == "SQLite database"]  # fmt: skip
    places = ("first", "backward", "forward", "backward")
    durable = [("synchronous write", place, n * 8192, 8192)
               for n, place in zip((7, 3, 20, 3), places, strict=True)]  # fmt: skip
    reads = [("read", "sequential" if n else "first", n * 8192, 8192) for n in range(21)]
    ends = [("read", "forward" if n > 21 else "sequential", n * 8192, 0) for n in range(21, 28)]
    assert data == durable + reads + ends
    # The totals of the kernel's programs (or the library, or the text) judge places by themselves.
    content = json.loads(said.out)
    totals = {row["name"]: row["calls"] for row in content["classes"]}
    for one in content["accesses"]:
        if one["class"].startswith("SQLite"):
            counted = totals[one["class"]]
            for place in ("first", "sequential", "rewrite", "forward", "backward"):
                assert one["places"][place] == sum(
                    counted.get(group, {"places": {place: 0}})["places"][place]
                    for group in ("reads", "writes")
                ), (one["class"], place)
            assert one["one_in"] == 1

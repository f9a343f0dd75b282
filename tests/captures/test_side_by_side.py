"""`--workers`: files read by a process each give what reading them in a row gives, to the byte:
all tables, long columns and rows; a process that is killed costs time alone; what cannot be put
together is read in a row, and said: two files where that helps, else all.
"""

from __future__ import annotations

import gzip
import json
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from nfslab.captures import followed
from nfslab.captures.analysis import Asked, CaptureAnalysis, read_captures
from nfslab.captures.side_by_side import NotSideBySide, read_side_by_side
from nfslab.cluster.base import Agent
from nfslab.cluster.here import AgentHere
from nfslab.errors import RunFailed
from nfslab.evidence.capture.collector import LENSES
from nfslab.machine import children
from nfslab.storage.file_classes import read_file_classes

from tests.captures.test_part import HEADER_BYTES, records
from tests.cli.invocation import nfslab
from tests.cluster.clusters import Cluster, patient
from tests.stopping import stop

ROOT = Path(__file__).resolve().parents[2]
CAPTURES = sorted(Path(__file__).parent.glob("*.pcap.gz"))
SIDE_BY_SIDE = [path for path in CAPTURES if "udp" not in path.name and "slots" not in path.name]
"""Calls of the others wait for a reply that never comes."""
QUICK = Asked(lenses=("operations",))
BY_CLIENT = Asked(lenses=("operations", "clients"))
ALL = Asked(LENSES, [("mine", "*/base/*"), *read_file_classes()])
PAYLOAD_BYTES = 16 + 14 + 20 + 32
"""A longer record has payload of TCP."""
CLIENTS = 16
ETHERNET, NO_IP = 1, b"\x88\xb5"
LENGTH_S = 4000
"""Captures are drawn out to it: a call is settled 120 s after its reply."""


def cut(capture: bytes, folder: Path, files: int) -> list[Path]:
    """The packets, drawn out in time, in so many files."""
    packets = [bytearray(record) for _, record in records(capture)]
    for number, packet in enumerate(packets):
        at_us = LENGTH_S * 10**6 * number // len(packets)
        struct.pack_into("<II", packet, 0, 1_700_000_000 + at_us // 10**6, at_us % 10**6)
    paths = []
    for number in range(files):
        some = packets[len(packets) * number // files : len(packets) * (number + 1) // files]
        paths.append(folder / f"{number}.pcap")
        paths[-1].write_bytes(capture[:HEADER_BYTES] + b"".join(some))
    return paths


def padded(capture: bytes, size_bytes: int = 36 << 20) -> bytes:
    """With frames between its packets that are no IP: files have to be of some MiB."""
    (link_type,) = struct.unpack("<I", capture[20:24])
    assert link_type == ETHERNET
    packets = [record for _, record in records(capture)]
    frame = bytes(12) + NO_IP + bytes(size_bytes // len(packets))
    head = struct.pack("<IIII", 0, 0, len(frame), len(frame))
    return capture[:HEADER_BYTES] + b"".join(packet + head + frame for packet in packets)


LEAST = followed.LEAST_PROCESSORS


@pytest.fixture(autouse=True)
def many_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there are, files are read side by side."""
    monkeypatch.setattr(followed, "LEAST_PROCESSORS", 1)


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A busy server's capture, 48 MB."""
    made = tmp_path_factory.mktemp("busy") / "whole.pcap"
    generator = ROOT / "benches" / "capture_generator.py"
    command = [sys.executable, str(generator), "small", "48M", "--out", str(made)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    found = made.read_bytes()
    made.unlink()
    return found


@pytest.fixture(scope="module")
def files(busy: bytes, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """It in two files."""
    return cut(busy, tmp_path_factory.mktemp("side-by-side"), 2)


def told(text: str) -> str:
    """The JSON, as it stands, without the processors' time."""
    content = json.loads(text)
    assert content.pop("analysis_cpu_ns") > 0
    assert content["calls"] > 0
    return json.dumps(content)


def in_a_row(paths: list[Path], asked: Asked = QUICK) -> str:
    return told(json.dumps(read_captures(paths, asked).content))


def same(found: CaptureAnalysis, paths: list[Path], asked: Asked) -> None:
    """All that reading in a row gives, but the processors' time."""
    alone = read_captures(paths, asked)
    assert told(json.dumps(found.content)) == told(json.dumps(alone.content))
    assert found.blobs == alone.blobs
    assert found.names == alone.names


class Watched:
    """The processes that were started."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.started: list[subprocess.Popen[bytes]] = []
        self.stops_first = False
        """Before it is told anything: it can have done nothing when it is killed."""
        begin = children.begin

        def begun(*words: Any, **options: Any) -> children.Child:
            child = begin(*words, **options)
            if self.stops_first and not self.started:
                stop(child.process.pid)
            self.started.append(child.process)
            return child

        monkeypatch.setattr(children, "begin", begun)


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    return Watched(monkeypatch)


def test_the_json_of_two_workers_is_that_of_one(
    files: list[Path], capsys: pytest.CaptureFixture[str], watched: Watched
) -> None:
    alone = nfslab(capsys, "trace", "--quick", "--json", *files)
    two = nfslab(capsys, "trace", "--quick", "--json", "--workers", 2, *files)
    assert (alone.code, two.code, two.err) == (0, 0, "")
    assert len(watched.started) == 2
    assert told(two.out) == told(alone.out)


def test_tables_by_client_of_two_workers_are_those_of_one(
    files: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    by = ["--by", "client", "--by", "user", "--by", "connection", "--by", "server"]
    quick = ["trace", "--quick", *by]
    two = nfslab(capsys, *quick, "--json", "--workers", 2, *files)
    assert (two.code, two.err) == (0, "")
    assert told(two.out) == in_a_row(files, BY_CLIENT)
    lists = json.loads(two.out)["clients"]
    assert [len(lists[name]) for name in ("clients", "by_connection")] == [CLIENTS, CLIENTS]
    text, of_one = (nfslab(capsys, *quick, *more, *files) for more in (["--workers", 2], []))
    assert text.out == of_one.out


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("path", SIDE_BY_SIDE, ids=lambda path: path.name.partition(".")[0])
def test_all_tables_of_shared_captures_are_those_of_reading_in_a_row(
    path: Path, workers: int, tmp_path: Path, watched: Watched
) -> None:
    """Given in another order; the last one ends within a packet."""
    paths = cut(padded(gzip.decompress(path.read_bytes())), tmp_path, 3)[::-1]
    paths[0].write_bytes(paths[0].read_bytes()[:-5])
    found = read_side_by_side(paths, ALL, workers)
    assert len(watched.started) == workers
    same(found, paths, ALL)
    kinds = {row["kind"] for row in found.content["anomalies"]}
    assert {"cut_at_end", "files_reordered"} <= kinds


@pytest.mark.parametrize("files", [2, 4])
def test_all_tables_of_a_busy_server_are_those_of_reading_in_a_row(
    files: int, busy: bytes, tmp_path: Path
) -> None:
    paths = cut(busy, tmp_path, files)
    same(read_side_by_side(paths, ALL, 2), paths, ALL)


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--quick", "--by", "client", "--by", "file"),
        ("--quick", "--calls", "calls.parquet"),
        ("--class", "wal=*/pg_wal/*", "--calls", "calls.parquet"),
        ("--calls", "calls/"),
    ],
)
def test_what_the_command_prints_and_writes_is_that_of_one_process(
    arguments: tuple[str, ...],
    compressed: bool,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    watched: Watched,
) -> None:
    """Named from the working folder, as a person does."""
    paths = cut(padded(gzip.decompress(SIDE_BY_SIDE[0].read_bytes())), tmp_path, 2)
    if compressed:
        for path in paths:
            path.write_bytes(gzip.compress(path.read_bytes(), 1))
    names = [f"../{path.name}" for path in paths]
    written: list[dict[str, bytes]] = []
    texts = []
    for workers in (1, 2):
        folder = tmp_path / str(workers)
        folder.mkdir()
        monkeypatch.chdir(folder)
        said = nfslab(capsys, "trace", *arguments, "--json", "--workers", workers, *names)
        assert (said.code, said.err) == (0, "")
        texts.append(told(said.out))
        parts = [path for path in folder.rglob("*") if path.is_file()]
        written.append({str(path.relative_to(folder)): path.read_bytes() for path in parts})
    assert texts[0] == texts[1]
    assert written[0] == written[1]
    assert len(written[0]) == ("--calls" in arguments) + ("calls/" in arguments)
    assert len(watched.started) == 2


def test_the_text_the_page_and_a_comparison_are_those_of_one_process(
    files: list[Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    watched: Watched,
) -> None:
    one, two = (
        nfslab(capsys, "trace", *more, "--by", "file", "--html", tmp_path / "page.html", *files)
        for more in ((), ("--workers", 2))
    )
    assert (two.code, two.out) == (0, one.out)
    assert len(watched.started) == 2
    monkeypatch.chdir(files[0].parent)
    compare = ("trace", "--compare", "--json", "*.pcap", "[01].pcap")
    found = [json.loads(nfslab(capsys, *compare, "--workers", n).out) for n in (1, 2)]
    for both in found:
        for capture in both["captures"]:
            del capture["analysis_cpu_ns"]
    assert json.dumps(found[0]) == json.dumps(found[1])
    assert len(watched.started) == 6


@pytest.mark.parametrize(("processors", "noted"), [(1, True), (3, True), (4, False), (64, False)])
def test_with_few_processors_here_one_process_makes_all_tables(
    processors: int,
    noted: bool,
    files: list[Path],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    watched: Watched,
) -> None:
    monkeypatch.setattr(followed, "LEAST_PROCESSORS", LEAST)
    monkeypatch.setattr(followed, "processors", lambda: processors)
    two = nfslab(capsys, "trace", "--json", "--workers", 2, *files)
    assert (two.code, "one process" in two.err) == (0, noted)
    assert told(two.out) == told(nfslab(capsys, "trace", "--json", *files).out)


@pytest.mark.parametrize("calls", [None, "calls.parquet", "calls/"])
def test_a_capture_that_cannot_be_read_is_told_in_the_words_of_one_process(
    calls: str | None,
    files: list[Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    capture = files[0].read_bytes()[:100_000]
    (tmp_path / "0.pcap").write_bytes(capture)
    (tmp_path / "text.pcap").write_text("no capture at all, but some words of English")
    (tmp_path / "empty.pcap").touch()
    (tmp_path / "link.pcap").write_bytes(capture[:20] + b"\xff\xff\0\0" + capture[24:])
    before = sorted(tmp_path.iterdir())
    rows = () if calls is None else ("--calls", calls)
    for name in ("text.pcap", "empty.pcap", "link.pcap"):
        one, two = (nfslab(capsys, "trace", "--workers", n, *rows, "0.pcap", name) for n in (1, 2))
        assert one.code == two.code == 1
        assert one.err == two.err
        assert name in one.err
        assert sorted(tmp_path.iterdir()) == before
    # As if it was right when it was looked at here: a process tells.
    for patch in ("nfslab._core", "nfslab.captures.analysis"):
        monkeypatch.setattr(f"{patch}.capture_order", lambda names: (names, 0), raising=False)
    of_process = nfslab(capsys, "trace", "--workers", 2, *rows, "link.pcap", "0.pcap")
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    one = nfslab(capsys, "trace", *rows, "link.pcap", "0.pcap")
    assert (of_process.code, of_process.err) == (one.code, one.err)
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("asked", [QUICK, BY_CLIENT, ALL])
def test_where_two_parts_do_not_fit_their_files_alone_are_read_again(
    asked: Asked, busy: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bytes of the fourth file's beginning are sent again at its end."""
    paths = cut(busy, tmp_path, 6)
    packets = [record for _, record in records(paths[3].read_bytes())]
    late = bytearray(next(one for one in packets[100:] if len(one) > PAYLOAD_BYTES))
    late[:8] = packets[-10][:8]
    packets.insert(-10, bytes(late))
    paths[3].write_bytes(busy[:HEADER_BYTES] + b"".join(packets))
    orders = []
    tell = AgentHere.tell

    def heard(agent: AgentHere, name: str, **content: Any) -> None:
        orders.append(content["files"])
        tell(agent, name, **content)

    monkeypatch.setattr(AgentHere, "tell", heard)
    notes: list[str] = []
    found = read_side_by_side(paths, asked, 2, note=notes.append)
    same(found, paths, asked)
    kinds = {entry["kind"] for entry in found.content["anomalies"]}
    assert "tcp_retransmission" in kinds
    names = [str(path) for path in paths]
    assert sorted(orders) == sorted([*([name] for name in names), names[2:4]])
    assert len(notes) == 1
    assert notes[0].startswith("2 of 6 files were read again")


def test_files_in_another_order_are_counted_as_such(files: list[Path]) -> None:
    found = read_side_by_side(files[::-1], QUICK, 2)
    assert told(json.dumps(found.content)) == in_a_row(files[::-1])
    kinds = {entry["kind"]: entry["count"] for entry in found.content["anomalies"]}
    assert kinds["files_reordered"] == 2


def test_a_worker_killed_half_way_costs_its_file_s_work_again(
    files: list[Path], watched: Watched
) -> None:
    watched.stops_first = True

    def kill(state: Any) -> None:
        assert 0 < state["read_bytes"] <= state["total_bytes"]
        watched.started[0].kill()

    found = read_side_by_side(files, QUICK, 2, kill)
    assert watched.started[0].returncode == -signal.SIGKILL
    assert len(watched.started) == 3
    assert told(json.dumps(found.content)) == in_a_row(files)


def test_a_file_that_ends_every_process_is_told(
    files: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(RunFailed, match="cannot be read") as refused:
        read_side_by_side(files, QUICK, 2)
    assert "ended 3 times" in refused.value.why


def test_an_interruption_leaves_no_process(files: list[Path], watched: Watched) -> None:
    def interrupt(_state: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        read_side_by_side(files, QUICK, 2, interrupt)
    assert [process.poll() for process in watched.started] == [0, 0]


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """Nobody is lost who is only slow, and a prime that gets no processor is not given up."""
    patient(monkeypatch)
    made = Cluster(tmp_path)
    for name in ("one", "two"):
        made.worker(name)
    yield made
    made.close()


def test_hosts_of_a_cluster_give_the_same(
    files: list[Path], cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    there = ["--cluster", cluster.address, "--certificates", cluster.folder]
    found = nfslab(capsys, "trace", "--quick", "--json", *there, *files)
    assert (found.code, found.err) == (0, "")
    assert told(found.out) == in_a_row(files)


def test_hosts_of_a_cluster_give_the_same_tables_and_rows(
    files: list[Path], cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    there = ["--cluster", cluster.address, "--certificates", cluster.folder]
    told_to = ["trace", "--json", *there, "--calls", tmp_path / "calls.parquet"]
    without = nfslab(capsys, *told_to, *files)
    assert (without.code, "--spool DIR" in without.err) == (2, True)
    spool = tmp_path / "spool"
    spool.mkdir()
    found = nfslab(capsys, *told_to, "--spool", spool, *files)
    assert (found.code, found.err) == (0, "")
    alone = tmp_path / "alone.parquet"
    one = nfslab(capsys, "trace", "--json", "--calls", alone, *files)
    assert told(found.out) == told(one.out)
    assert (tmp_path / "calls.parquet").read_bytes() == alone.read_bytes()
    assert not list(spool.iterdir())


def test_a_host_that_is_lost_costs_its_file_s_work_again(
    files: list[Path], cluster: Cluster
) -> None:
    worker = cluster.workers["one"]

    def kill(_state: Any) -> None:
        worker.kill()

    with cluster.connected() as there:
        one, _ = there.members
        begin = one.begin

        def begun(module: str) -> Agent:
            """It stands still before its agent is told anything."""
            agent = begin(module)
            stop(worker.pid)
            return agent

        one.begin = begun  # type: ignore[method-assign]
        found = read_side_by_side(files, QUICK, 2, kill, there.members)
    assert worker.wait() == -signal.SIGKILL
    assert told(json.dumps(found.content)) == in_a_row(files)


def test_without_any_host_left_nothing_is_read(files: list[Path], cluster: Cluster) -> None:
    with cluster.connected() as there:
        for worker in cluster.workers.values():
            worker.kill()
        with pytest.raises(RunFailed, match="no host is left"):
            read_side_by_side(files, QUICK, 2, None, there.members)


def test_what_does_not_settle_is_read_in_a_row(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capture = gzip.decompress((Path(__file__).parent / "v3_udp.pcap.gz").read_bytes())
    paths = cut(capture, tmp_path, 2)
    with pytest.raises(NotSideBySide, match="under way"):
        read_side_by_side(paths, QUICK, 2)
    two = nfslab(capsys, "trace", "--quick", "--json", "--workers", 2, *paths)
    assert two.code == 0
    assert two.err.startswith("nfslab: note: read by one process, here: what was under way")
    assert told(two.out) == in_a_row(paths)


@pytest.mark.parametrize("where", [("--to", "5000"), ("--from", "0")])
def test_a_part_of_the_time_is_read_in_a_row(
    where: tuple[str, str], files: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    said = nfslab(capsys, "trace", "--quick", "--json", "--workers", 2, *where, *files)
    assert (said.code, said.err.count("\n")) == (0, 1)
    assert "--from and --to" in said.err
    assert told(said.out) == told(nfslab(capsys, "trace", "--quick", "--json", *where, *files).out)


def test_one_file_and_a_missing_one(files: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    said = nfslab(capsys, "trace", "--quick", "--workers", 2, files[0])
    assert (said.code, "there is one file" in said.err) == (0, True)
    said = nfslab(capsys, "trace", "--quick", "--workers", 2, files[0], files[0].with_name("no"))
    assert said.code == 2
    assert "no" in said.err

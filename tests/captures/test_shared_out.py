"""`--workers` for all tables: each process reads all and makes some of them; what comes out is what
one process gives, to the byte, rows of the calls too. Killed, interrupted and lying processes.
"""

from __future__ import annotations

import base64
import gzip
import json
import random
import signal
import struct
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nfslab._core import trace_lenses
from nfslab.captures.analysis import Asked, CaptureAnalysis, read_captures
from nfslab.captures.pool import NotAnAnswerError, Pool
from nfslab.captures.shared_out import (
    ELEMENTS,
    decoded,
    put_together,
    read_shared_out,
)
from nfslab.captures.sharing import shares
from nfslab.errors import RunFailed
from nfslab.machine import children
from nfslab.storage.file_classes import read_file_classes

from tests.captures.test_part import HEADER_BYTES, records
from tests.captures.test_side_by_side import Cluster, Watched, cluster, told, watched
from tests.cli.invocation import nfslab
from tests.trace.generator.files import Format, encode, write
from tests.trace.scenes import everything

__all__ = ["cluster", "watched"]
HERE = Path(__file__).parent
CAPTURES = sorted(HERE.glob("*.pcap.gz"))
LENSES = tuple(name for name, *_ in trace_lenses())
LONG = HERE / "linux61_pgbench_v3.pcap.gz"


def same(one: CaptureAnalysis, other: CaptureAnalysis) -> None:
    texts = [json.dumps(it.content | {"analysis_cpu_ns": 0}) for it in (one, other)]
    assert texts[0] == texts[1]
    assert one.blobs == other.blobs
    assert one.names == other.names


def in_files(path: Path, folder: Path, files: int) -> list[Path]:
    """A capture's packets in so many files; the last one ends within a packet."""
    whole = gzip.decompress(path.read_bytes())
    packets = [record for _, record in records(whole)]
    found = []
    for number in range(files):
        some = packets[len(packets) * number // files : len(packets) * (number + 1) // files]
        found.append(folder / f"{number}.pcap")
        found[-1].write_bytes(whole[:HEADER_BYTES] + b"".join(some)[: -5 if number else None])
    return found


def spoilt(path: Path, to: Path) -> Path:
    """Packets are lost, doubled, cut; bits of them turned over."""
    drawn, whole = random.Random(7), gzip.decompress(path.read_bytes())
    out = [whole[:HEADER_BYTES]]
    for _, record in records(whole):
        packet = bytearray(record)
        match drawn.randrange(40):
            case 0:
                continue
            case 1:
                out.append(bytes(packet))
            case 2 if len(packet) > 100:
                packet[drawn.randrange(70, len(packet))] ^= 1 << drawn.randrange(8)
            case 3 if len(packet) > 120:
                del packet[110:]
                struct.pack_into("<I", packet, 8, len(packet) - 16)
        out.append(bytes(packet))
    to.write_bytes(b"".join(out))
    return to


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.name.partition(".")[0])
def test_all_tables_of_shared_captures_are_those_of_one_process(path: Path) -> None:
    asked = Asked(LENSES, read_file_classes())
    same(read_shared_out([path], asked, 3), read_captures([path], asked))


@pytest.mark.parametrize("workers", [1, 2, 3, 8, 20])
def test_with_any_number_of_processes_and_files(
    workers: int, tmp_path: Path, watched: Watched
) -> None:
    files = in_files(LONG, tmp_path, 3)[::-1]
    asked = Asked(LENSES, [("mine", "*/base/*"), *read_file_classes()])
    found = read_shared_out(files, asked, workers)
    same(found, read_captures(files, asked))
    kinds = {row["kind"] for row in found.content["anomalies"]}
    assert {"cut_at_end", "files_reordered"} <= kinds
    assert min(workers, 3) <= len(watched.started) <= min(workers, len(LENSES) - 1)


@pytest.mark.parametrize("window_ns", [None, (200_000_000, 700_000_000)])
def test_of_a_spoilt_capture_and_of_a_part(
    window_ns: tuple[int, int] | None, tmp_path: Path
) -> None:
    every = everything()
    made = write(tmp_path / "every", encode(every.frames(), Format(), every.snaplen))
    asked = Asked(LENSES, (), window_ns)
    for path in (spoilt(LONG, tmp_path / "spoilt.pcap"), made):
        same(read_shared_out([path], asked, 2), read_captures([path], asked))


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--from", "0.2", "--to", "0.6"),
        ("--quick", "--by", "client", "--by", "file"),
        ("--quick", "--by", "client", "--from", "0.1", "--calls", "calls.parquet"),
        ("--class", "wal=*/pg_wal/*", "--calls", "calls.parquet"),
        ("--calls", "calls/"),
    ],
)
def test_what_the_command_prints_and_writes_is_that_of_one_process(
    arguments: tuple[str, ...],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    watched: Watched,
) -> None:
    """Named from the working folder, as a person does."""
    in_files(LONG, tmp_path, 2)
    written: list[dict[str, Any]] = []
    texts = []
    for workers in (1, 2, 8):
        folder = tmp_path / str(workers)
        folder.mkdir()
        monkeypatch.chdir(folder)
        more = ("--json", "--workers", workers, "../0.pcap", "../1.pcap")
        said = nfslab(capsys, "trace", *arguments, *more)
        assert (said.code, said.err) == (0, "")
        texts.append(told(said.out))
        parts = [path for path in folder.rglob("*") if path.is_file()]
        written.append({str(path.relative_to(folder)): pq.read_table(path) for path in parts})
        for path in parts:
            of = json.loads(pq.read_schema(path).metadata[b"nfslab.calls.sources"])
            assert set(of) <= {"../0.pcap", "../1.pcap"}
    assert texts[0] == texts[1] == texts[2]
    assert written[0].keys() == written[1].keys() == written[2].keys()
    for name, table in written[0].items():
        assert table.num_rows > 0
        assert all(table.equals(other[name]) for other in written)
    assert bool(written[0]) == ("--calls" in arguments)
    assert watched.started


def test_the_text_the_page_and_a_comparison_are_those_of_one_process(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], watched: Watched
) -> None:
    plain = [tmp_path / f"{number}.pcap" for number in range(2)]
    for path, packed in zip(plain, CAPTURES, strict=False):
        path.write_bytes(gzip.decompress(packed.read_bytes()))
    one, two = (
        nfslab(capsys, "trace", *more, "--by", "file", "--html", tmp_path / "page.html", *plain)
        for more in ((), ("--workers", 2))
    )
    assert (two.code, two.out) == (0, one.out)
    started = len(watched.started)
    assert started == 2
    compare = ("trace", "--compare", "--json", *plain)
    found = [json.loads(nfslab(capsys, *compare, "--workers", n).out) for n in (1, 2)]
    for both in found:
        for capture in both["captures"]:
            del capture["analysis_cpu_ns"]
    assert json.dumps(found[0]) == json.dumps(found[1])
    assert len(watched.started) == started + 4


@pytest.mark.parametrize("calls", [None, "calls.parquet", "calls/"])
def test_a_capture_that_cannot_be_read_is_told_in_the_words_of_one_process(
    calls: str | None,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    in_files(LONG, tmp_path, 1)
    (tmp_path / "text.pcap").write_text("no capture at all, but some words of English")
    (tmp_path / "empty.pcap").touch()
    link = bytearray((tmp_path / "0.pcap").read_bytes())
    struct.pack_into("<I", link, 20, 0xFFFF)
    (tmp_path / "link.pcap").write_bytes(link)
    before = sorted(tmp_path.iterdir())
    rows = () if calls is None else ("--calls", calls)
    for name in ("text.pcap", "empty.pcap", "link.pcap"):
        one, several = (
            nfslab(capsys, "trace", "--workers", n, *rows, "0.pcap", name) for n in (1, 3)
        )
        assert one.code == several.code == 1
        assert one.err == several.err
        assert name in one.err
        assert sorted(tmp_path.iterdir()) == before
    # As if it was right when it was looked at here: a process tells.
    monkeypatch.setattr("nfslab._core.capture_order", lambda names: (names, 0))
    of_process = nfslab(capsys, "trace", "--workers", 3, *rows, "link.pcap")
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    one = nfslab(capsys, "trace", *rows, "link.pcap")
    assert (of_process.code, of_process.err) == (one.code, one.err)
    assert sorted(tmp_path.iterdir()) == before


def test_what_one_process_does_better_is_left_to_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], watched: Watched
) -> None:
    said = nfslab(capsys, "trace", "--json", "--workers", 2, LONG)
    assert (said.code, "would have to decompress" in said.err) == (0, True)
    missing = [nfslab(capsys, "trace", "--workers", n, tmp_path / "missing") for n in (1, 2)]
    assert [it.code for it in missing] == [2, 2]
    assert missing[1].err.endswith(missing[0].err)
    assert not watched.started


@pytest.mark.parametrize("calls", [False, True])
def test_a_process_that_is_killed_costs_its_work_again(
    calls: bool, tmp_path: Path, watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched.stops_first = True
    files = in_files(LONG, tmp_path, 2)
    asked = Asked(LENSES, calls=tmp_path / "calls.parquet" if calls else None)
    begin = children.begin

    def begun(*words: Any, **options: Any) -> children.Child:
        """The first one has its work by now. So small a capture may be read without progress."""
        child = begin(*words, **options)
        if len(watched.started) == 2:
            watched.started[0].kill()
        return child

    monkeypatch.setattr(children, "begin", begun)
    found = read_shared_out(files, asked, 3)
    assert watched.started[0].returncode == -signal.SIGKILL
    assert len(watched.started) == (3 if calls else 4)
    same(found, read_captures(files, Asked(LENSES)))
    assert (tmp_path / "calls.parquet").exists() == calls


@pytest.mark.parametrize("by_file", [False, True])
def test_an_interruption_leaves_no_process_and_no_rows(
    by_file: bool, tmp_path: Path, watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Asked(LENSES, calls=tmp_path / "calls", calls_by_file=by_file)

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    # So small a capture may be read without progress: then the first answer is interrupted.
    monkeypatch.setattr(Pool, "_hear", interrupt)
    with pytest.raises(KeyboardInterrupt):
        read_shared_out([LONG], asked, 2, interrupt)
    assert watched.started
    assert all(process.poll() is not None for process in watched.started)
    assert not list(tmp_path.iterdir())


def test_tables_that_end_every_process_are_told_and_no_rows_are_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", "/bin/false")
    with pytest.raises(RunFailed, match="cannot be read") as refused:
        read_shared_out([LONG], Asked(LENSES, calls=tmp_path / "calls.parquet"), 2)
    assert "ended 3 times" in refused.value.why
    assert not list(tmp_path.iterdir())


def test_a_capture_that_changes_meanwhile_is_not_shown(tmp_path: Path) -> None:
    """One process saw a packet more."""
    whole = gzip.decompress(LONG.read_bytes())
    path = tmp_path / "grows.pcap"
    found = []
    for lens, end in (("files", -5), ("stalls", None)):
        path.write_bytes(whole[:end])
        found.append(read_captures([path], Asked(("operations", lens))))
    with pytest.raises(RunFailed, match="changed while it was read"):
        put_together([str(path)], found)


def test_hosts_of_a_cluster_make_the_tables_and_rows_are_written_here(
    cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (path,) = in_files(LONG, tmp_path, 1)
    there = ["--cluster", cluster.address, "--certificates", cluster.folder]
    alone, calls = tmp_path / "alone.parquet", tmp_path / "calls.parquet"
    one = nfslab(capsys, "trace", "--json", "--calls", alone, path)
    found = nfslab(capsys, "trace", "--json", *there, "--calls", calls, path)
    assert (found.code, found.err) == (0, "")
    assert told(found.out) == told(one.out)
    assert pq.read_table(calls).equals(pq.read_table(alone))
    plain = nfslab(capsys, "trace", "--json", *there, "--workers", 2, path)
    assert told(plain.out) == told(nfslab(capsys, "trace", "--json", path).out)


@given(st.lists(st.sampled_from(LENSES), unique=True), st.integers(1, 20), st.booleans())
def test_each_table_is_made_once(lenses: list[str], workers: int, rows: bool) -> None:
    found = shares(lenses, workers, rows=rows)
    made = [name for share in found for name in share[1:]]
    assert sorted(made) == sorted(set(lenses) - {LENSES[0]})
    assert all(share[0] == LENSES[0] for share in found)
    assert 1 <= len(found) <= max(min(workers, len(made) + rows), 1)
    # The first one has the rows, and perhaps nothing else.
    assert all(len(share) > 1 for share in found[rows:]) or not made


def test_lenses_that_share_work_stay_together_where_that_is_not_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By hand: 10 + 10 and once 50 beside 60; three processes are no sooner done."""
    costs = [("operations", 0, {}), ("a", 10, {"it": 50}), ("b", 10, {"it": 50}), ("c", 70, {})]
    monkeypatch.setattr("nfslab._core.trace_lenses", lambda: costs)
    alone = {("operations", "c"), ("operations", "a", "b")}
    assert {
        tuple(sorted(it, key="operationsabc".find)) for it in shares("abc", 3, rows=False)
    } == alone
    assert {frozenset(it) for it in shares("abc", 2, rows=False)} == set(map(frozenset, alone))
    assert [sorted(it) for it in shares("abc", 1, rows=False)] == [["a", "b", "c", "operations"]]


def test_every_lens_but_the_table_tells_its_cost() -> None:
    assert [name for name, cost, _ in trace_lenses() if cost == 0] == ["operations"]


@pytest.fixture(scope="module")
def answer() -> dict[str, Any]:
    """What an honest process says of two lenses."""
    found = read_captures([CAPTURES[0]], Asked(("operations", "rpcstat", "points")))
    blobs = {
        name: [kind, base64.b64encode(it).decode()] for name, (kind, it) in found.blobs.items()
    }
    return {"text": json.dumps(found.content), "blobs": blobs}


SHARE = ("operations", "rpcstat", "points")


def decode(said: dict[str, Any]) -> CaptureAnalysis:
    return decoded(json.loads(json.dumps(said)), SHARE, ["it"], checked=True)


def test_an_honest_answer_is_taken(answer: dict[str, Any]) -> None:
    found = decode(answer)
    assert found.content == json.loads(answer["text"])
    assert {kind for kind, _ in found.blobs.values()} <= ELEMENTS.keys()
    assert {
        name: [kind, base64.b64encode(it).decode()] for name, (kind, it) in found.blobs.items()
    } == answer["blobs"]


@pytest.mark.parametrize(
    "change",
    [
        {"text": None}, {"text": 3}, {"text": ""}, {"text": "[]"}, {"text": "null"},
        {"text": "[" * 100_000}, {"text": '{"a":' * 100_000}, {"text": "9" * 10_000},
        {"blobs": None}, {"blobs": []}, {"blobs": {"stalls/x": ["|u1", ""]}},
        {"blobs": {"rpcstat/x": ["|O", ""]}}, {"blobs": {"rpcstat/x": ["<i8", "AAAA"]}},
        {"blobs": {"rpcstat/x": ["|u1", "no base64"]}}, {"blobs": {"rpcstat/x": ["|u1", "é"]}},
        {"blobs": {"rpcstat/x": ["|u1"]}}, {"blobs": {"rpcstat/x": {"|u1": 1}}},
    ],
)  # fmt: skip
def test_what_is_no_answer_is_refused(answer: dict[str, Any], change: dict[str, Any]) -> None:
    with pytest.raises(NotAnAnswerError):
        decode(answer | change)


@pytest.mark.parametrize(
    "change",
    [
        {"packets": "many"}, {"packets": 1 << 70}, {"packets": None}, {"packets": 1.5},
        {"stalls": {}}, {"unheard_of": 1}, {"operations": [{}]}, {"anomalies": [[1]]},
        {"lost": {"bytes": float("nan"), "gaps": 0}}, {"inputs": [1]},
    ],
)  # fmt: skip
def test_content_of_another_form_is_refused(answer: dict[str, Any], change: dict[str, Any]) -> None:
    content = json.loads(answer["text"]) | change
    with pytest.raises(NotAnAnswerError):
        decode(answer | {"text": json.dumps(content)})
    content = json.loads(answer["text"])
    del content["rpcstat"]
    with pytest.raises(NotAnAnswerError, match="other tables"):
        decode(answer | {"text": json.dumps(content)})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.data())
def test_any_value_anywhere_is_refused_or_has_the_declared_form(
    answer: dict[str, Any], data: st.DataObject
) -> None:
    content: Any = json.loads(answer["text"])
    at: Any = content
    while True:
        places = list(at) if isinstance(at, dict) else list(range(len(at)))
        place = data.draw(st.sampled_from(places))
        if not (isinstance(at[place], dict | list) and at[place] and data.draw(st.booleans())):
            break
        at = at[place]
    at[place] = data.draw(JSON)
    said = {"text": json.dumps(content), "blobs": data.draw(JSON)}
    try:
        found = decode(said)
    except NotAnAnswerError:
        return
    assert set(SHARE) <= found.content.keys()
    assert json.dumps(found.content) == said["text"]


def test_a_host_that_tells_something_else_is_named(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lying(said: Any, *_: Any, **__: Any) -> CaptureAnalysis:
        raise NotAnAnswerError("it told no tables")

    monkeypatch.setattr("nfslab.captures.shared_out.decoded", lying)
    with pytest.raises(RunFailed, match="no answer that can be taken") as refused:
        read_shared_out([LONG], Asked(LENSES), 2)
    assert "here: it told no tables" in refused.value.why
    assert all(process.poll() is not None for process in watched.started)

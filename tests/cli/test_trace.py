"""`nfslab trace`: the report, the JSON contract, side by side, bad input, interruption."""

from __future__ import annotations

import gzip
import io
import itertools
import json
import random
import re
import shlex
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from nfslab.cli.trace import _show as show_progress
from nfslab.display.numbers import quantity
from nfslab.display.progress import Progress

from tests.cli.invocation import nfslab
from tests.trace import scenes
from tests.trace.generator import files, nfs3, rpc
from tests.trace.generator.capture import Capture
from tests.trace.reading import written

CAPTURES = Path(__file__).resolve().parents[1] / "captures"
STALLS = CAPTURES / "v3_udp_stalls_retrans.pcap.gz"
KERNEL_V3 = CAPTURES / "linux61_pgbench_v3.pcap.gz"
KERNEL_V42 = CAPTURES / "linux61_pgbench_v42.pcap.gz"

COLUMNS = [
    "call_first_ns", "call_last_ns", "reply_first_ns", "reply_last_ns", "client", "server",
    "transport", "xid", "program", "version", "operation", "operations", "status", "sends",
    "replies", "user", "file_handle", "path", "offset", "count", "bytes", "frame_call",
    "frame_reply",
]  # fmt: skip
"""The contract of the issue, in its order."""


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """A kernel capture, decompressed: to be cut, joined and damaged."""
    path = tmp_path / "kernel.pcap"
    path.write_bytes(gzip.decompress(KERNEL_V3.read_bytes()))
    return path


def paced(seed: int, latency_ns: int, seconds: float = 2.0) -> Capture:
    """GETATTRs and READs, one at a time; the READs take `latency_ns` and a half more or less."""
    made = Capture(seed)
    root = scenes.v3_tree(1)
    node = root.children[0].children[0]
    flow = made.tcp()
    rng = random.Random(seed)
    until_ns = made.now_ns + round(seconds * 1e9)
    while made.now_ns < until_ns:
        for body, wait_ns in ((nfs3.getattr_(node), 300_000), (nfs3.read(node, 0, 64), latency_ns)):
            planned = [made.exchange(flow, body)]
            made.send(flow, planned)
            made.now_ns += round(wait_ns * rng.uniform(0.5, 1.5))
            made.send(flow, planned, replies=True)
            made.now_ns += 200_000
    return made


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("trace.txt", [STALLS.name]),
        ("trace_v42.txt", [KERNEL_V42.name, "--by", "class", "--by", "user"]),
        ("trace_compare.txt", ["--compare", KERNEL_V3.name, KERNEL_V42.name]),
    ],
)
def test_the_text(
    name: str,
    arguments: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    snapshot: Callable[[str, str], None],
) -> None:
    monkeypatch.chdir(CAPTURES)  # names are as wide everywhere
    said = nfslab(capsys, "trace", *arguments, "--top", "5")
    assert (said.code, said.err) == (0, "")
    snapshot(name, said.out)


def test_a_closer_look_shows_the_stall_alone(capsys: pytest.CaptureFixture[str]) -> None:
    whole = json.loads(nfslab(capsys, "trace", "--json", STALLS).out)
    look = whole["stalls"]["closer_look"][0]
    span = [f"{look[side] / 1e9:.9f}" for side in ("from_ns", "to_ns")]
    said = nfslab(capsys, "trace", "--json", STALLS, "--from", span[0], "--to", span[1])
    part = json.loads(said.out)
    assert 0 < part["packets"] < whole["packets"] / 2
    count = [sum(row["calls"] for row in found["operations"]) for found in (part, whole)]
    assert 0 < count[0] < count[1] / 2
    assert part["stalls"]["gaps"][0]["length_ns"] == whole["stalls"]["gaps"][0]["length_ns"]


def test_figures_of_a_part_are_those_of_its_time(capsys: pytest.CaptureFixture[str]) -> None:
    begin, end = 2.0, 6.0
    part = ["--from", str(begin), "--to", str(end)]
    content = json.loads(nfslab(capsys, "trace", "--json", STALLS, *part).out)
    calls = sum(row["calls"] for row in content["operations"])
    text = nfslab(capsys, "trace", STALLS, *part).out
    assert re.search(rf"^{calls} calls\b.*\b2\.000 to 6\.000 s\b", text, re.MULTILINE)
    assert re.search(rf"^calls sent +{quantity(calls / (end - begin), '1/s')}$", text, re.MULTILINE)
    # The second stop lasted 2.502 s (the captures' README).
    assert re.search(r"^The server .*\b2\.50 s\b.*\b63 %", text, re.MULTILINE)
    # A closer look at a part counts from the capture's first frame, as --from does.
    whole = json.loads(nfslab(capsys, "trace", "--json", STALLS).out)
    longest = [found["stalls"]["closer_look"][0] for found in (whole, content)]
    assert longest[0] == longest[1], "the same stop, at the same seconds"
    slowest = content["stalls"]["closer_look"][1]
    assert begin * 1e9 <= slowest["from_ns"] < slowest["to_ns"] <= end * 1e9
    (command,) = [line for line in text.splitlines() if line.startswith("longest gap: ")]
    again = shlex.split(command.split(": nfslab trace ")[1])
    (stall,) = re.findall(r"^S\d+ .*", nfslab(capsys, "trace", *again).out, re.MULTILINE)
    assert "2.50 s" in stall


@pytest.mark.parametrize("path", [KERNEL_V3, KERNEL_V42], ids=lambda path: path.name)
def test_errors_have_their_status_whoever_met_them(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = json.loads(nfslab(capsys, "trace", "--json", path).out)
    rows = content["operations"]
    # tshark: five replies with status 2 (nfs.nfsstat3 == 2, nfs.nfsstat4 == 2) in each.
    (name,) = {status for row in rows for status in row["errors"]}
    assert name in ("NFS3ERR_NOENT", "NFS4ERR_NOENT")
    lists = {"clients": content["clients"], "servers": content["clients"],
             "users": content["clients"], "classes": content["files"]}  # fmt: skip
    for list_name, section in lists.items():
        met = [row["errors_by_status"].get(name, 0) for row in section[list_name]]
        assert sum(met) == 5, list_name
        assert met == [row["errors"] for row in section[list_name]]
    files = content["files"]
    rest = [files["rest"], files["without_file"]]
    assert sum(row["errors_by_status"].get(name, 0) for row in files["list"] + rest) == 5
    for row in content["clients"]["clients"] + files["classes"]:
        assert sum(count for _, _, count in row["histogram"]) == row["latencies"]
    # PUTFH and the like name no COMPOUND: the contract's object all the same.
    for row in rows:
        values = [row["latency_ns"][q] for q in ("min", "mean", "p50", "p90", "p99", "p999", "max")]
        assert values.count(None) == (0 if row["latencies"] else 7), row["operation"]
    said = nfslab(capsys, "trace", path, "--by", "client").out
    assert f"{name} 5" in said.split("By client")[1]


def test_quick_gives_the_same_table_and_no_other(capsys: pytest.CaptureFixture[str]) -> None:
    whole = json.loads(nfslab(capsys, "trace", "--json", STALLS).out)
    quick = json.loads(nfslab(capsys, "trace", "--json", "--quick", STALLS).out)
    for other in ("clients", "files", "rpcstat", "stalls", "access", "network"):
        assert whole.pop(other)
    for found in (whole, quick):
        assert found.pop("analysis_cpu_ns") > 0
    assert (whole.pop("files_named") > 0, quick.pop("files_named")) == (True, 0)
    assert quick == whole
    said = nfslab(capsys, "trace", "--quick", STALLS)
    assert (said.code, said.err) == (0, "")
    assert "NFSv3 GETATTR" in said.out
    for option in (["--compare", STALLS], ["--html", "page.html"]):
        refused = nfslab(capsys, "trace", "--quick", *option, STALLS)
        assert refused.code == 2
        assert f"leave --quick or {option[0]} out" in refused.err


@pytest.mark.parametrize(("by", "lens"), [("client", "clients"), ("class", "files")])
def test_quick_tables_by_something_are_those_of_the_whole_report(
    by: str, lens: str, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = json.loads(nfslab(capsys, "trace", "--json", STALLS).out)
    quick = json.loads(nfslab(capsys, "trace", "--json", "--quick", "--by", by, STALLS).out)
    assert {"operations", lens} <= set(quick)
    assert not {"clients", "files", "rpcstat", "stalls", "access", "network"} - {lens} & set(quick)
    assert (quick["operations"], quick[lens]) == (whole["operations"], whole[lens])
    of_all, alone = (
        nfslab(capsys, "trace", *quickly, "--by", by, STALLS).out.split("\nBy ")[1]
        for quickly in ([], ["--quick"])
    )
    assert of_all.startswith(alone)


@pytest.mark.system
def test_standard_input_and_several_files_are_one_capture(
    plain: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = json.loads(nfslab(capsys, "trace", "--json", plain).out)
    piped = subprocess.run(
        [sys.executable, "-m", "nfslab", "trace", "--json", "-"],
        input=plain.read_bytes(), capture_output=True, check=False,
    )  # fmt: skip
    assert (piped.returncode, piped.stderr) == (0, b"")
    assert json.loads(piped.stdout)["operations"] == whole["operations"]
    piped = subprocess.run(
        [sys.executable, "-m", "nfslab", "trace", "-"],
        input=plain.read_bytes(), capture_output=True, check=True,
    )  # fmt: skip
    last = piped.stdout.decode().splitlines()[-1]
    assert re.fullmatch(r"slowest stretch: [\d.]+ s to [\d.]+ s", last), "no command for a stream"
    parts = _split(plain, tmp_path, 3)
    rotated = json.loads(nfslab(capsys, "trace", "--json", *parts).out)
    for name in ("packets", "bytes", "first_ns", "last_ns", "lost", "operations"):
        assert rotated[name] == whole[name], name


def _split(path: Path, folder: Path, parts: int) -> list[Path]:
    """The packets of a pcap file in several files, as a capture tool rotates them."""
    data = path.read_bytes()
    order = "<" if data[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1") else ">"
    at, records = 24, []
    while at < len(data):
        (length,) = struct.unpack_from(f"{order}I", data, at + 8)
        records.append(data[at : at + 16 + length])
        at += 16 + length
    each = -(-len(records) // parts)
    made = []
    for number in range(parts):
        file = folder / f"part{number}.pcap"
        file.write_bytes(data[:24] + b"".join(records[number * each : (number + 1) * each]))
        made.append(file)
    return made


def test_calls_are_a_table_with_the_columns_of_the_contract(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "calls.parquet"
    said = nfslab(capsys, "trace", STALLS, "--calls", file)
    assert (said.code, said.err) == (0, "")
    assert said.out.rstrip().endswith(f"calls: {file}")
    table = pq.read_table(file)
    assert table.column_names[: len(COLUMNS)] == COLUMNS
    content = json.loads(nfslab(capsys, "trace", "--json", STALLS).out)
    assert table.num_rows == content["calls"]
    assert list(tmp_path.iterdir()) == [file], "nothing half written stays"


def test_tables_by_client_server_file_and_class(
    capsys: pytest.CaptureFixture[str],
) -> None:
    by = [part for name in ("client", "server", "user", "file", "class") for part in ("--by", name)]
    said = nfslab(capsys, "trace", STALLS, *by, "--top", 5, "--class", "small=**/small/*")
    assert (said.code, said.err) == (0, "")
    sections = said.out.split("\nBy ")
    assert [section.split("\n")[0] for section in sections[1:]] == [
        "client", "server", "user", "file", "class",
    ]  # fmt: skip
    assert "/srv/nfs/exports/one/small/f14 " in sections[4]
    assert any(line.startswith("small ") for line in sections[5].splitlines())
    assert "--top N" in sections[4]


def test_every_output_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, calls = tmp_path / "page.html", tmp_path / "calls.parquet"
    said = nfslab(capsys, "trace", "--json", STALLS, "--html", page, "--calls", calls)
    assert (said.code, said.err) == (0, "")
    assert json.loads(said.out)["calls"] == pq.read_table(calls).num_rows
    assert sorted(tmp_path.iterdir()) == [calls, page], "nothing half written stays"
    text = page.read_text()
    assert text.startswith("<!DOCTYPE html>")
    assert text.rstrip().endswith("</html>")
    nfslab(capsys, "trace", "--compare", KERNEL_V3, KERNEL_V42, "--html", page)
    assert "NFSv3/NFSv4 WRITE" in page.read_text()


def test_a_capture_does_not_differ_from_itself(capsys: pytest.CaptureFixture[str]) -> None:
    said = nfslab(capsys, "trace", "--compare", "--json", KERNEL_V3, KERNEL_V3)
    assert (said.code, said.err) == (0, "")
    content = json.loads(said.out)
    assert [capture["packets"] for capture in content["captures"]]
    figures = content["comparison"]["figures"]
    assert figures
    for figure in figures:
        assert figure["ratio"] in (None, pytest.approx(1.0))
        assert figure["verdict"].startswith(("inconclusive", "significance unknown"))


def test_a_planted_slowness_is_shown_and_only_that(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before, _ = written(paced(1, 1_000_000), tmp_path, name="before.pcap")
    after, _ = written(paced(2, 1_500_000), tmp_path, name="after.pcap")
    said = nfslab(capsys, "trace", "--compare", "--json", before, after)
    assert (said.code, said.err) == (0, "")
    found = {
        (figure["operation"], figure["figure"]): figure
        for figure in json.loads(said.out)["comparison"]["figures"]
    }
    read = found["READ", "median latency"]
    assert read["by_blocks"]
    assert read["verdict"] == "slower"
    assert read["interval"]["low"] < 1.5 < read["interval"]["high"]
    for figure in ("median latency", "mean latency"):
        assert found["GETATTR", figure]["verdict"] == "inconclusive"
    assert "slower" in nfslab(capsys, "trace", "--compare", before, after).out


def test_a_stall_that_lies_in_few_blocks_is_not_hidden(
    capsys: pytest.CaptureFixture[str],
) -> None:
    without = CAPTURES / "v3_udp.pcap.gz"

    def mean(path: Path) -> str:
        (row,) = [line for line in nfslab(capsys, "trace", path).out.splitlines()
                  if line.startswith("NFSv3 GETATTR ")]  # fmt: skip
        return re.findall(r"[\d.]+ [µm]s", row)[1]

    said = nfslab(capsys, "trace", "--compare", without, STALLS)
    told = f"NFSv3 GETATTR {mean(without)} and {mean(STALLS)}"
    (note,) = [line for line in said.out.splitlines() if told in line]
    assert "WRITE" not in note, "no WRITE waited for the stopped server"
    content = json.loads(nfslab(capsys, "trace", "--compare", "--json", without, STALLS).out)
    tables = [{row["operation"]: row for row in one["operations"]} for one in content["captures"]]
    for figure in content["comparison"]["figures"]:
        if figure["figure"] == "mean latency":
            means = [table[figure["operation"]]["latency_ns"]["mean"] for table in tables]
            assert [figure["whole_base"], figure["whole_new"]] == means
    said = nfslab(capsys, "trace", "--compare", "--json", KERNEL_V3, KERNEL_V42)
    notes = json.loads(said.out)["comparison"]["notes"]
    assert not [note for note in notes if note.startswith("mean latency")]


def test_two_versions_of_nfs_are_compared_by_the_operations_names(
    capsys: pytest.CaptureFixture[str],
) -> None:
    said = nfslab(capsys, "trace", "--compare", KERNEL_V3, KERNEL_V42)
    assert (said.code, said.err) == (0, "")
    row = r"^NFSv3/NFSv4 WRITE +median latency +\S+ +16, 19 "
    assert re.search(row, said.out, flags=re.MULTILINE)
    only = dict(re.findall(r"^only in (\S+): (.*)", said.out, flags=re.MULTILINE))
    assert only == {
        str(KERNEL_V3): "NFSv3 CREATE",
        str(KERNEL_V42): "NFSv4 CLOSE, NFSv4 OPEN, NFSv4 READ",
    }
    said = nfslab(capsys, "trace", "--compare", "--json", KERNEL_V42, KERNEL_V3)
    figures = json.loads(said.out)["comparison"]["figures"]
    # Calls are those that both captures' tables count.
    write = next(f for f in figures if (f["operation"], f["figure"]) == ("WRITE", "median latency"))
    assert (write["version"], write["by_blocks"]) == (4, True)


def test_too_few_blocks_have_no_significance(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # 3 ms: four blocks at most.
    first, _ = written(paced(1, 100_000, 0.003), tmp_path, name="a.pcap")
    second, _ = written(paced(2, 900_000, 0.003), tmp_path, name="b.pcap")
    said = nfslab(capsys, "trace", "--compare", "--json", first, second)
    comparison = json.loads(said.out)["comparison"]
    assert comparison["figures"]
    for figure in comparison["figures"]:
        assert figure["verdict"].startswith("significance unknown")
        assert figure["interval"] is None
    assert "GETATTR" in comparison["notes"][0]


def test_a_quoted_pattern_is_one_capture(
    plain: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _split(plain, tmp_path, 3)
    said = nfslab(capsys, "trace", "--compare", "--json", plain, tmp_path / "part*.pcap")
    one, other = json.loads(said.out)["captures"]
    assert one["packets"] == other["packets"]


def imported(*arguments: str) -> set[str]:
    """Modules that `nfslab trace` of a small capture has imported at its end."""
    code = (
        "import sys\n"
        f"sys.argv = ['nfslab', 'trace', {str(STALLS)!r}, *{arguments!r}]\n"
        "from nfslab.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print('LOADED', *sys.modules)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(run.stdout.splitlines()[-1].split()[1:])


HEAVY = {"asyncio", "duckdb", "importlib.metadata", "jinja2", "pandas", "psycopg", "pydantic",
         "rich", "scipy", "pyarrow.compute", "pyarrow.dataset"}  # fmt: skip


@pytest.mark.system
def test_nothing_is_imported_that_is_not_used(tmp_path: Path) -> None:
    """A tiny capture takes no longer than Python's start, click and the core."""
    mine = {"nfslab.captures.parquet", "nfslab.storage.file_classes"}
    needless = {"numpy", "pyarrow", "glob", "tomllib", "subprocess", *mine}
    assert imported("--quick") & (HEAVY | needless) == set()
    assert imported("--by", "client") & {*HEAVY, "numpy", "pyarrow"} == set()
    loaded = imported("--quick", "--json", "--calls", str(tmp_path / "calls.parquet"))
    assert "pyarrow.parquet" in loaded
    assert loaded & HEAVY == set()


@pytest.mark.parametrize(("total_bytes", "has_time_left"), [(None, False), (20 << 20, True)])
def test_progress_has_calls_and_of_a_pipe_no_time_left(
    total_bytes: int | None, has_time_left: bool
) -> None:
    shown, clock = io.StringIO(), itertools.count()
    with Progress(shown, every_s=0.5, clock=lambda: float(next(clock))) as progress:
        for read_bytes in (1 << 20, 10 << 20):
            state = {"read_bytes": read_bytes, "total_bytes": total_bytes}
            show_progress(progress, "-", {**state, "frames": 700, "calls": 12})
    last = shown.getvalue().splitlines()[-1]
    assert "12 calls" in last
    assert ("left" in last) == has_time_left


QUIET = "No stall, no loss and nothing retransmitted was found."


def test_calls_inside_tls_are_said_in_front(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = Capture(7)
    flow = made.tcp()
    flow.burst(made.now_ns, True, [rpc.marked(rpc.tls_probe(77))])
    flow.burst(made.now_ns + 1000, False, [rpc.marked(rpc.tls_grant(77))])
    sealed = b"\x16\x03\x01\x10\x00" + b"\xaa" * 4096
    flow.burst(made.now_ns + 3000, True, [sealed])
    path, _true = written(made, tmp_path)
    said = nfslab(capsys, "trace", path)
    assert (said.code, said.err) == (0, "")
    assert "RPC went inside TLS on 1 connection (4.00 KiB): those calls cannot be seen" in said.out
    assert QUIET not in said.out


def test_encrypted_replies_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made, _flow = scenes.v3_mix(5, 60, auth=rpc.GssAuth(service=rpc.SVC_PRIVACY))
    path, true = written(made, tmp_path)
    text = nfslab(capsys, "trace", path).out
    assert f"The status of all {len(true.calls)} replies cannot be read" in text
    rows = json.loads(nfslab(capsys, "trace", "--json", path).out)["operations"]
    assert sum(row["unreadable"] for row in rows) == len(true.calls)


def test_a_capture_of_one_direction_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made, flow = scenes.v3_mix(3, 60)
    flow.segments = [segment for segment in flow.segments if segment.from_client]
    path, true = written(made, tmp_path)
    text = nfslab(capsys, "trace", path).out
    assert f"{len(true.calls)} calls" in text
    assert "without a reply" not in text
    assert "There is no reply at all" in text


def test_bytes_that_hold_no_packet_are_not_nothing_lost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made, _flow = scenes.v3_mix(3, 200)
    data = files.encode(made.frames(), files.Format())
    junk = bytes(range(256)) * 40
    path = files.write(tmp_path / "junk.pcap", data + junk)
    content = json.loads(nfslab(capsys, "trace", "--json", path).out)
    line = nfslab(capsys, "trace", path).out.splitlines()[1]
    assert content["skipped_bytes"] == len(junk)
    assert line.endswith("; 10 KiB of the input passed over, since no packet could be made out")


def test_missing_fragments_are_lost_bytes_in_gaps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = Capture(10)
    flow = made.udp()
    nodes = scenes.v3_tree().children[0].children
    planned = made.converse(flow, [nfs3.read(node, 0, 8192) for node in nodes])
    (_first, second, *_rest) = [
        packet for packet in flow.made if packet.datagram is planned[0].replies[0]
    ]
    flow.made = [packet for packet in flow.made if packet is not second]
    path, _true = written(made, tmp_path)
    line = nfslab(capsys, "trace", path).out.splitlines()[1]
    missing = len(second.ip) - 20
    assert line.endswith(f"; the capture lacks {quantity(missing, 'B')} in 1 gap")

"""The table per operation: every number recounted from the generator's truth."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path

from nfslab._core import Trace

from tests.trace import scenes
from tests.trace.generator.capture import TrueCall
from tests.trace.reading import PROGRAMS, STATUSES, read, written

#: Largest relative error of a quantile that comes from a histogram.
QUANTILE_ERROR = 0.01


def groups(calls: list[TrueCall]) -> dict[tuple[str, int, str], list[TrueCall]]:
    made: dict[tuple[str, int, str], list[TrueCall]] = defaultdict(list)
    for call in calls:
        body = call.exchange.body
        key = (PROGRAMS[body.program], body.version)
        made[(*key, body.operation)].append(call)
    return made


def test_the_table_alone_is_the_one_of_all_lenses(tmp_path: Path) -> None:
    path, _true = written(scenes.everything(9), tmp_path)
    trace = Trace([path], json.dumps({"lenses": ["operations"]}))
    alone = json.loads(trace.finish()[0])
    everything = read(path).summary
    assert alone["operations"] == everything["operations"]
    assert alone["anomalies"] == everything["anomalies"]
    assert alone["files_named"] == 0 < everything["files_named"]  # not learned: not asked for


def check(row: dict, calls: list[TrueCall]) -> None:
    """One row of a protocol without COMPOUNDs."""
    body = calls[0].exchange.body
    assert row["calls"] == len(calls)
    assert row["answered"] == sum(bool(call.replies) for call in calls)
    assert row["unanswered"] == sum(not call.replies for call in calls)
    assert row["retransmissions"] == sum(len(call.sends) - 1 for call in calls)
    assert row["duplicate_replies"] == sum(max(0, len(call.replies) - 1) for call in calls)
    assert row["bytes_read"] == sum(call.exchange.body.bytes_read for call in calls)
    assert row["bytes_written"] == sum(call.exchange.body.bytes_written for call in calls)
    errors = Counter(
        STATUSES[PROGRAMS[body.program], body.version][call.exchange.body.status]
        for call in calls
        if call.exchange.body.status
    )
    assert row["errors"] == dict(errors)
    latencies(row, calls)


def latencies(row: dict, calls: list[TrueCall]) -> None:
    true = sorted(latency for call in calls if (latency := call.latency_ns) is not None)
    found = row["latency_ns"]
    assert (found["min"], found["max"]) == (true[0], true[-1])
    assert abs(found["mean"] - sum(true) / len(true)) <= 1
    for name, share in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999)):
        below = true[max(0, -(-int(share * len(true) * 1000) // 1000) - 2)]
        above = true[min(len(true) - 1, int(share * len(true)) + 1)]
        assert below * (1 - QUANTILE_ERROR) <= found[name] <= above * (1 + QUANTILE_ERROR), name


def test_rows_of_version_3_are_those_of_the_truth(tmp_path: Path) -> None:
    made, _flow = scenes.v3_mix(21, 3000, depth=8, largest=2000)
    path, true = written(made, tmp_path)
    found = read(path)
    expected = groups(true.calls)
    assert len(found.summary["operations"]) == len(expected)
    for (program, _version, operation), calls in expected.items():
        check(found.operation(operation, program), calls)


def test_compounds_are_counted_as_calls_and_as_operations(tmp_path: Path) -> None:
    path, true = written(scenes.everything(), tmp_path)
    found = read(path)
    compounds = [
        call for call in true.calls
        if call.exchange.body.program == 100003 and call.exchange.body.operations
    ]  # fmt: skip
    rows = {
        row["operation"]: row for row in found.summary["operations"]
        if (row["program_name"], row["version"]) == ("NFS", 4)
    }  # fmt: skip
    row = rows["COMPOUND"]
    assert row["calls"] == row["answered"] == len(compounds)
    latencies(row, compounds)
    inside = Counter(name for call in compounds for name in call.exchange.body.operations)
    counted = {name: row["calls"] for name, row in rows.items() if name not in ("COMPOUND", "NULL")}
    assert counted == dict(inside)
    for name in ("READ", "WRITE", "OPEN", "LOOKUP", "COPY"):
        named = [call for call in compounds if call.exchange.body.operation == name]
        latencies(rows[name], named)
    assert rows["LOOKUP"]["errors"] == {"NFS4ERR_NOENT": 1}
    assert rows["READ"]["errors"] == {"NFS4ERR_DELAY": 1}
    read_bytes = sum(call.exchange.body.bytes_read for call in compounds)
    assert rows["READ"]["bytes_read"] + rows["READ_PLUS"]["bytes_read"] == read_bytes
    assert found.operation("CB_RECALL", "NFS4_CALLBACK")["calls"] == 2

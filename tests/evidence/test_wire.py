"""What the network took: two captures of planted calls, on two clocks, taken apart exactly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from nfslab.evidence.base import SealedRun
from nfslab.evidence.wire.joined import COLUMNS, PARTS, HostOnWire, WireFacts, joined
from nfslab.evidence.wire.kind import WireEvidence

from tests.evidence.runs import found_of, sealed_run

US = 1_000
WALL_C, WALL_S = 1_700_000_000_000_000_000, 1_700_000_033_000_000_000
"""Wall clocks of the two hosts: each has its own."""
TYPES: dict[str, Any] = {
    "client_port": pa.uint16(),
    "xid": pa.uint32(),
    "sends": pa.uint16(),
    "replies": pa.uint16(),
    "client": pa.string(),
    "operation": pa.string(),
}


def call(xid: int, at_ns: int, parts: tuple[int, ...], **more: Any) -> tuple[dict[str, Any], ...]:
    """The client's and the server's row of a call that begins at `at_ns` of the run."""
    sending, there, served, reply, back = parts
    same = {"client": "10.0.0.2", "client_port": 700, "xid": xid, "operation": "READ",
            "sends": 1, "replies": 1} | more  # fmt: skip
    last = at_ns + sending
    received = last + there
    answered = received + served
    sent = answered + reply
    client = same | {
        "t_ns": at_ns, "call_first_ns": WALL_C + at_ns, "call_last_ns": WALL_C + last,
        "reply_first_ns": WALL_C + answered + back, "reply_last_ns": WALL_C + sent + back,
    }  # fmt: skip
    server = same | {
        "t_ns": at_ns + there, "call_first_ns": WALL_S + at_ns + there,
        "call_last_ns": WALL_S + received, "reply_first_ns": WALL_S + answered,
        "reply_last_ns": WALL_S + sent,
    }  # fmt: skip
    return client, server


def table(rows: list[dict[str, Any]]) -> pa.Table:
    fields = [(name, TYPES.get(name, pa.int64())) for name in COLUMNS]
    return pa.Table.from_pylist(rows, schema=pa.schema(fields))


def of(calls: list[tuple[dict[str, Any], ...]], error_ns: int = 0) -> HostOnWire:
    client, server = (table([pair[side] for pair in calls]) for side in (0, 1))
    return joined("load1", client, server, error_ns)


SMALL = (0, 40 * US, 300 * US, 10 * US, 50 * US)
LARGE = (900 * US, 60 * US, 100 * US, 0, 30 * US)


def test_each_part_is_what_was_planted() -> None:
    calls = [call(n, n * 1000 * US, SMALL) for n in range(9)]
    calls.append(call(9, 9_000 * US, LARGE, operation="WRITE"))
    found = of(calls, error_ns=7)
    assert (found.calls, found.left_out, found.contradicted_ns) == (10, {}, 0)
    rows = {row.operation: row for row in found.rows}
    assert tuple(rows["READ"].summary.mean_ns) == SMALL
    assert tuple(rows["WRITE"].summary.mean_ns) == LARGE
    assert tuple(rows["all calls"].summary.mean_ns) == tuple(
        (9 * small + large) / 10 for small, large in zip(SMALL, LARGE, strict=True)
    )
    assert len(PARTS) == len(SMALL)
    assert rows["READ"].ways_p50_ns == 90 * US
    assert [row.operation for row in found.rows] == ["all calls", "READ", "WRITE"]


def test_what_is_not_one_call_on_both_sides_is_counted_and_left_out() -> None:
    good = call(1, 0, SMALL)
    again = call(2, 0, SMALL, sends=2)
    unanswered, _ = call(3, 0, SMALL)
    unanswered |= {"reply_last_ns": None, "reply_first_ns": None}
    only_here, _ = call(4, 0, SMALL)
    twice = call(5, 0, SMALL)
    before, there = call(6, -1, SMALL)
    other_port = call(1, 0, LARGE, client_port=701)
    other_client = call(1, 0, LARGE, client="10.0.0.3")
    client = table([good[0], again[0], unanswered, only_here, twice[0], before, other_port[0]])
    server = table([good[1], again[1], twice[1], twice[1], there, other_port[1], other_client[1]])
    found = joined("load1", client, server, 0)
    assert found.calls == 2, "told apart by port, and by address"
    assert found.left_out == {
        "not answered": 1,
        "sent or answered more than once": 1,
        "not in the server's capture": 1,
        "with an id that is there more than once": 1,
    }
    assert found.total == 6, "of the timed part"


@pytest.mark.parametrize(
    ("off_us", "error_us", "contradicted_us"),
    [(0, 0, 0), (30, 30, 0), (45, 5, 0), (45, 4, 1), (-70, 5, 15)],
)
def test_clocks_that_calls_disprove_are_found(
    off_us: int, error_us: int, contradicted_us: int
) -> None:
    """Ways of 40 and 50 us cannot hide clocks that are further apart than they and the error."""
    calls = [call(n, n * 1000 * US, SMALL) for n in range(5)]
    for _, server in calls:
        server["t_ns"] -= off_us * US
    found = of(calls, error_us * US)
    whole = found.rows[0]
    assert whole.summary.mean_ns[PARTS.index("request transit")] == (40 - off_us) * US
    assert whole.summary.mean_ns[PARTS.index("reply transit")] == (50 + off_us) * US
    assert whole.ways_p50_ns == 90 * US, "whatever the clocks are"
    # Only what is below zero by more than the error may be: 45 - 40 = 5, 70 - 50 = 20.
    assert found.contradicted_ns == contradicted_us * US


def section_of(tmp_path: Path, host: HostOnWire) -> Any:
    run: SealedRun = sealed_run(tmp_path / "run", "capture_server", {})
    section = WireEvidence().section(found_of({"all": [(run, WireFacts(hosts=(host,)))]}))
    assert section is not None
    return section


def test_the_ways_are_told_with_the_error_of_the_clocks(tmp_path: Path) -> None:
    section = section_of(tmp_path, of([call(n, n, SMALL) for n in range(3)], 7 * US))
    (said,) = section.sentences
    assert "90 µs (40 µs request, 50 µs reply, ±7 µs)" in said
    assert section.notes == []


def test_no_way_is_told_where_the_clocks_are_disproved(tmp_path: Path) -> None:
    calls = [call(n, n, SMALL) for n in range(3)]
    for _, server in calls:
        server["t_ns"] -= 60 * US
    section = section_of(tmp_path, of(calls, 7 * US))
    (said,) = section.sentences
    assert said.endswith("400 µs the network took 90 µs.")
    assert "by 13 µs at least" in section.notes[0]
    (table,) = section.tables
    titles = [column.title for column in table.columns]
    shown = {title: {row[n].text for row in table.rows} for n, title in enumerate(titles)}
    assert shown["request transit"] == shown["reply transit"] == {"–"}
    assert shown["both transits, p50"] == {"90 µs"}


def test_a_part_of_the_calls_is_no_word_on_all(tmp_path: Path) -> None:
    calls = [call(n, n, SMALL) for n in range(3)]
    client = table([*(one for one, _ in calls), call(9, 5, LARGE)[0]])
    server = table([one for _, one in calls])
    section = section_of(tmp_path, joined("load1", client, server, 0))
    assert section.sentences == []
    assert section.notes == ["all, repetition 1, load1: left out 1 not in the server's capture."]


def test_captures_without_a_common_call_are_a_problem(tmp_path: Path) -> None:
    client, _ = call(1, 0, SMALL)
    _, server = call(2, 0, SMALL)
    section = section_of(tmp_path, joined("load1", table([client]), table([server]), 0))
    (problem,) = section.problems
    assert problem.startswith("all, repetition 1, load1: no call is in both captures.")


def test_what_is_longer_at_the_server_than_its_round_trip_has_no_parts() -> None:
    """Both ways together are below zero: no clock that is off does that."""
    longer = [call(n, n, (0, 40 * US, 300 * US, 0, -90 * US), operation="WRITE") for n in range(3)]
    found = of([*longer, call(3, 0, SMALL)], 500 * US)
    assert [row.operation for row in found.rows] == ["all calls", "READ"]
    assert list(found.left_out.values()) == [3]
    assert of(longer).rows == ()

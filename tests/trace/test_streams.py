"""TCP in every shape: any split, order, duplication and loss, against the truth of the frames."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.trace import scenes
from tests.trace.generator import nfs3
from tests.trace.generator.capture import Capture, Truth
from tests.trace.generator.flows import Segment, any_pieces, full_segments
from tests.trace.reading import Found, assert_same, differences, read, written

SLOW = settings(
    max_examples=15, deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)  # fmt: skip


def swapped(rng: random.Random, distance: int, share: float) -> Callable[..., list[Segment]]:
    """Some segments travel up to `distance` places."""

    def change(segments: list[Segment]) -> list[Segment]:
        keys = [
            (index + (rng.randint(1, distance) + 0.5 if rng.random() < share else 0), index)
            for index in range(len(segments))
        ]
        # The handshake stays in front.
        keys[:3] = [(-1, index) for index in range(3)]
        return [segments[index] for _key, index in sorted(keys)]

    return change


def repeated(rng: random.Random, share: float) -> Callable[..., list[Segment]]:
    """Some segments are sent again: alone, or with bytes of the one before (overlap)."""

    def change(segments: list[Segment]) -> list[Segment]:
        out: list[Segment] = []
        for segment in segments:
            out.append(segment)
            if not segment.data or rng.random() >= share:
                continue
            again = replace(segment, ident=(segment.ident + 1) & 0xFFFF)
            before = next(
                (s for s in reversed(out[:-1])
                 if s.from_client == segment.from_client
                 and s.data and s.offset + len(s.data) == segment.offset),
                None,
            )  # fmt: skip
            if before is not None and rng.random() < 0.5:
                size = rng.randint(1, len(before.data))
                data = before.data[-size:] + segment.data[: rng.randint(1, len(segment.data))]
                again = replace(again, offset=segment.offset - size, data=data)
            out.append(again)
        return out

    return change


@SLOW
@given(seed=st.integers(0, 2**32), largest=st.sampled_from([1, 3, 17, 100, 700, 3000, 20000]))
def test_any_split_gives_the_same_calls(tmp_path: Path, seed: int, largest: int) -> None:
    calls = 12 if largest < 20 else 60
    made, _flow = scenes.v3_mix(
        seed, calls, cut=any_pieces(largest), largest=20 * min(largest, 400)
    )
    path, true = written(made, tmp_path)
    found = read(path)
    assert_same(found, true)
    assert found.anomalies == {}


@SLOW
@given(
    seed=st.integers(0, 2**32), distance=st.integers(1, 12), again=st.sampled_from([0, 0.1, 0.5])
)
def test_any_order_within_the_window_gives_the_same_calls(
    tmp_path: Path, seed: int, distance: int, again: float
) -> None:
    rng = random.Random(seed)
    made, flow = scenes.v3_mix(seed, 40, cut=any_pieces(900), depth=8)
    if again:
        flow.change(repeated(rng, again))
    flow.change(swapped(rng, distance, 0.3))
    path, true = written(made, tmp_path)
    found = read(path)
    instants = {"call_last_ns", "reply_last_ns"}  # the record's end came later than its last byte
    expected = {name for name in found.rows[0] if name not in instants}
    by_xid = sorted(found.rows, key=lambda row: row["frame_call"] * 2**32 + row["xid"])
    calls = sorted(
        true.calls, key=lambda call: call.sends[0].first_frame * 2**32 + call.exchange.xid
    )
    assert differences(by_xid, calls, expected, path=False) == []
    assert found.summary["lost"] == {"bytes": 0, "gaps": 0}


@pytest.mark.parametrize(
    "fragments", [(0,), (1,), (4, 4, 4), (24, 0, 80), (28,), (40, 40, 40), (120,)]
)
def test_records_of_several_fragments(tmp_path: Path, fragments: tuple[int, ...]) -> None:
    made = Capture(3)
    folder = scenes.v3_tree().children[0]
    flow = made.tcp(cut=any_pieces(700))
    bodies = [nfs3.write(node, 0, 5000) for node in folder.children]
    bodies += [nfs3.read(node, 0, 5000) for node in folder.children]
    # The shortest messages here are the calls of READ, 120 bytes: no split is longer.
    made.converse(flow, bodies, depth=3, fragments=fragments)
    path, true = written(made, tmp_path)
    found = read(path)
    assert_same(found, true, path=False)
    assert found.anomalies == {}


def test_many_records_in_one_segment(tmp_path: Path) -> None:
    made, _flow = scenes.v3_mix(4, 400, cut=any_pieces(64_000), depth=150, largest=200)
    path, true = written(made, tmp_path)
    assert max(len(p.ip) for p in made.frames()) > 10_000
    assert_same(read(path), true)


def test_sequence_numbers_that_wrap(tmp_path: Path) -> None:
    made = Capture(5)
    folder = scenes.v3_tree().children[0]
    flow = made.tcp(first_sequence=(2**32 - 20_000, 2**32 - 3), cut=any_pieces(1448))
    bodies = [nfs3.write(node, 0, 9000) for node in folder.children]
    made.converse(flow, bodies + [nfs3.read(node, 0, 9000) for node in folder.children], depth=3)
    path, true = written(made, tmp_path)
    found = read(path)
    assert_same(found, true, path=False)
    assert found.anomalies == {}


def test_a_port_used_by_several_connections_in_turn(tmp_path: Path) -> None:
    made = Capture(6)
    folder = scenes.v3_tree().children[0]
    for number, close in enumerate(["fin", "reset", "nothing", "fin"]):
        flow = made.tcp(first_sequence=(1000 + number * 7, 5000 + number * 9))
        made.converse(flow, [nfs3.read(node, 0, 3000) for node in folder.children], depth=2)
        if close != "nothing":
            flow.close(made.now_ns, reset=close == "reset")
        made.now_ns += 1_000_000_000
    path, true = written(made, tmp_path)
    found = read(path)
    assert_same(found, true, path=False)
    assert len({row["connection"] for row in found.rows}) == 4


def lossy(
    seed: int, share: float, tmp_path: Path, depth: int = 4, run: int = 1
) -> tuple[Found, Truth, Capture]:
    """A capture in which segments with data are missing that the peer acknowledged."""
    made, flow = scenes.v3_mix(seed, 300, depth=depth, largest=9000, cut=full_segments)
    rng = random.Random(seed)
    gone: set[int] = set()
    for index, segment in enumerate(flow.segments):
        if index > 20 and segment.data and rng.random() < share:
            gone.update(range(index, index + rng.randint(1, run)))
    flow.segments = [s for index, s in enumerate(flow.segments) if index not in gone]
    path, true = written(made, tmp_path)
    return read(path), true, made


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("share", "run"), [(0.01, 1), (0.05, 1), (0.02, 6), (0.2, 1)])
def test_behind_a_hole_every_whole_call_is_found(
    tmp_path: Path, seed: int, share: float, run: int
) -> None:
    found, true, made = lossy(seed, share, tmp_path, depth=(1, 4, 50)[seed % 3], run=run)
    assert true.lost_bytes > 0
    assert found.summary["lost"] == {"bytes": true.lost_bytes, "gaps": true.lost_gaps}
    rows = {row["xid"]: row for row in found.rows}
    assert len(rows) == len(found.rows), "no call is found twice"
    assert set(rows) <= {planned.xid for planned in made.exchanges}, "no call is made up"
    missed, wrong = [], []
    for call in true.calls:
        row = rows.get(call.exchange.xid)
        if not call.sends[0].whole:
            continue  # its header may be known, or not
        if row is None:
            missed.append(call.exchange.xid)
            continue
        if call.replies and call.replies[0].whole:
            wrong += differences([row], [call], path=False)
    assert missed == []
    assert wrong == []


def test_a_capture_that_begins_in_the_middle(tmp_path: Path) -> None:
    for seed in range(6):
        made, _flow = scenes.v3_mix(seed, 60, largest=9000, depth=4)
        frames = made.frames()
        frames = frames[random.Random(seed).randrange(5, len(frames) // 2) :]
        path, true = written(made, tmp_path, frames=frames)
        found = read(path)
        rows = {row["xid"]: row for row in found.rows}
        for call in true.calls:
            if call.sends[0].whole:
                row = rows[call.exchange.xid]
                if call.replies and call.replies[0].whole:
                    assert differences([row], [call], path=False) == []
        assert set(rows) <= {planned.xid for planned in made.exchanges}


def test_a_port_of_another_protocol_is_no_obstacle(tmp_path: Path) -> None:
    made, flow = scenes.v3_mix(3, 50)
    assert flow.client.port == 705  # AgentX
    path, true = written(made, tmp_path)
    assert_same(read(path), true)


def test_other_traffic_is_passed_over(tmp_path: Path) -> None:
    made, _flow = scenes.v3_mix(3, 50)
    rng = random.Random(3)
    web = made.tcp()
    web = replace(web, client=replace(web.client, port=44000), server=replace(web.server, port=80))
    made.flows[-1] = web
    for _ in range(40):
        web.burst(made.now_ns, rng.random() < 0.5, [rng.randbytes(rng.randint(1, 9000))])
        made.now_ns += 100_000
    path, true = written(made, tmp_path)
    found = read(path)
    assert_same(found, true)
    assert found.anomalies["tcp_not_rpc"] == 1

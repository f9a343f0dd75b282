"""Captures as evidence: every call is decoded, counted once and drawn; what a section says."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nfslab.captures.analysis import Asked, CaptureAnalysis, read_captures
from nfslab.display.figures import Heat, Lines, Points, Stacked
from nfslab.evidence.capture import verdict
from nfslab.evidence.capture.calls import NO_REPLY, calls_figures, panel_calls
from nfslab.evidence.capture.figures import latencies, rpcstat, split
from nfslab.evidence.capture.kind import CaptureEvidence, facts_of
from nfslab.evidence.capture.places import network
from nfslab.evidence.capture.section import capture_section, page_sections
from nfslab.evidence.capture.stored import ANALYSIS_TABLE, analysis_table
from nfslab.report.html.document import render_html
from nfslab.report.markdown import render_markdown
from nfslab.results.evidence_tables import evidence_path

from tests.cli.invocation import nfslab
from tests.evidence.made_captures import (
    AGAIN,
    FIRST_NS,
    NAMES,
    PANELS,
    STEP_NS,
    UNANSWERED,
    Calls,
    analysis_of,
    centre_s,
    density_section,
    gap,
    make_calls,
)
from tests.evidence.runs import found_of, sealed_run
from tests.report.synthetic import Recipe, write_pgbench
from tests.trace import scenes
from tests.trace.generator import nfs3
from tests.trace.generator.capture import Capture
from tests.trace.reading import written

STALLS = [(120.0, 1.2), (360.0, 2.5), (480.0, 0.7)]


def stalled(**more: Any) -> CaptureAnalysis:
    calls = make_calls(5_000, stalls=STALLS, unanswered=0.002)
    gaps = [gap("server_stalled", begin, length) for begin, length in STALLS]
    return analysis_of(calls, gaps=gaps, **more)


def figure_of(capture: CaptureAnalysis, which: int = 0, view: int = 0) -> Any:
    made = calls_figures(capture, "capture", lambda: capture, 600.0)
    return made[which].views[view].load()


def test_calls_that_could_be_split_are_not_called_all() -> None:
    """60 of 3,261: a figure of these alone, and no share in the table of points."""
    whole = make_calls(3_261)
    parts = ("request", "network", "server", "reply")
    row: dict[str, Any] = {f"{part}_ns": {"mean": 1_000.0} for part in parts}
    row |= {f"{part}_share": 0.25 for part in parts} | {"operation": "all", "calls": 60}
    for calls, label in ((60, "all calls that could be split"), (whole.time_ns.size, "all calls")):
        capture = analysis_of(whole)
        capture.content["network"] = {"operations": [row | {"calls": calls}]}
        figure = split([capture], "all")
        assert figure is not None
        bars = figure.views[0].load()
        assert isinstance(bars, Stacked)
        assert [(one.label, one.hint) for one in bars.wholes] == [
            (label, f"{calls:,} of 3,261 calls")
        ]


@pytest.mark.parametrize(("split_calls", "shown"), [(60, None), (3_000, 0.25)])
def test_shares_of_few_calls_are_in_no_table_of_points(
    tmp_path: Path, split_calls: int, shown: float | None
) -> None:
    """A quarter of the time of 60, or of 3,000, of 3,261 calls was in the network."""
    parts = ("request", "network", "server", "reply")
    row: dict[str, Any] = {f"{part}_ns": {"mean": 1_000.0} for part in parts}
    row |= {f"{part}_share": 0.25 for part in parts}
    capture = analysis_of(make_calls(3_261))
    capture.content["network"] = {"operations": [row | {"operation": "all", "calls": split_calls}]}
    facts = facts_of(capture, {})
    runs = [(sealed_run(tmp_path / name, "capture", {}), facts) for name in ("one", "two")]
    section = CaptureEvidence().section(found_of({"x=1": runs}))
    assert section is not None
    titles = [column.title for column in section.tables[0].columns]
    cells = dict(zip(titles, section.tables[0].rows[0], strict=True))
    expected = "" if shown is None else shown
    assert [cells[f"in the {place}"].value for place in ("network", "server")] == [expected] * 2


def test_a_server_of_less_than_no_time_is_told_with_the_network(tmp_path: Path) -> None:
    """The round trip is estimated longer than most calls took: 318 % of their time, and -218 %."""
    names = {"request": 0, "network": 3_180.0, "server": -2_180.0, "reply": 0}
    row: dict[str, Any] = {f"{part}_ns": {"mean": ns, "p99": ns} for part, ns in names.items()}
    row |= {f"{part}_share": ns / 1_000 for part, ns in names.items()}
    row |= {"operation": "all", "calls": 90, "server_negative": 80, "whole_ns": {"mean": 1_000.0}}
    capture = analysis_of(make_calls(100))
    left_out = dict.fromkeys(("udp", "sent_again", "no_round_trip", "only_upper_bound"), 0)
    capture.content["network"] = {
        "operations": [row], "not_split": left_out, "capture_point": {"place": "at the client"},
    }  # fmt: skip
    facts = facts_of(capture, {})
    assert facts.split == {"request": 0.0, "network and server": 1.0, "reply": 0.0}
    figure = split([capture], "all")
    assert figure is not None
    bars = figure.views[0].load()
    assert isinstance(bars, Stacked)
    assert list(bars.wholes[0].parts) == pytest.approx([0, 1e-6, 0, 0])
    table = network(capture.content["network"])
    assert table is not None
    assert [cell.text for cell in table.rows[0][3:9]] == [
        "0 ns", "1 µs with server", "–", "0 ns", "0 ns", "–",
    ]  # fmt: skip
    said = [one for one in verdict.sentences(capture, []) if "of the time of" in one]
    assert said == [
        "Seen at the client, of the time of 90 of 100 calls 100 % passed in network and server, "
        "which its round trips do not tell apart (request 0 %, reply 0 %)."
    ]


def test_every_call_is_decoded() -> None:
    calls = make_calls(20_000, stalls=STALLS, unanswered=0.001, again=0.002)
    capture = analysis_of(calls)
    for index, name in enumerate(PANELS):
        mine = calls.panel == index
        found = panel_calls(capture, name)
        assert np.array_equal(found.sent_s, calls.step[mine] * STEP_NS / 1e9)
        assert np.array_equal(found.code, calls.code[mine])
        assert np.array_equal(found.flags, np.where(calls.again[mine], AGAIN, 0))
        assert found.frame is not None
        assert np.array_equal(found.frame, calls.frame[mine])
        if name == "others":
            assert found.operation is not None
            assert np.array_equal(found.operation, calls.operation[mine])
        else:
            assert found.operation is None


def test_a_long_capture_loses_no_step() -> None:
    """Beyond 2^32 steps (12 hours), gaps of three and more bytes."""
    step = np.array([0, 1, 127, 128, 16_384, 2**31, 2**32 + 5, 2**33])
    n = step.size
    frames = np.array([9, 5, 7, 7, 2**31, 3, 2**32 - 1, 1])
    calls = Calls(
        step * STEP_NS, np.full(n, 250_000), np.zeros(n, np.int64), np.zeros(n, np.bool_), frames
    )
    found = panel_calls(analysis_of(calls, duration_s=2**33 * STEP_NS / 1e9), "READ")
    assert np.array_equal(found.sent_s, step * STEP_NS / 1e9)
    assert found.frame is not None
    assert found.frame.tolist() == frames.tolist()


def test_each_call_is_one_point() -> None:
    calls = make_calls(20_000, stalls=STALLS, unanswered=0.001, again=0.002)
    drawing = figure_of(analysis_of(calls, gaps=[gap("server_stalled", *STALLS[1])]))
    assert isinstance(drawing, Points)
    sizes = {cloud.label: len(np.asarray(cloud.x)) for cloud in drawing.clouds}
    assert sum(sizes.values()) == calls.step.size
    unanswered = calls.latency_ns < 0
    assert sizes[NO_REPLY] == int(unanswered.sum())
    assert sizes["retransmitted"] == int((calls.again & ~unanswered).sum())
    plain = (calls.panel == 0) & ~unanswered & ~calls.again
    read = next(cloud for cloud in drawing.clouds if cloud.label == "READ")
    assert np.asarray(read.y) == pytest.approx(centre_s(calls.code[plain]), rel=1e-9)
    assert np.array_equal(read.extra["frame"][0], calls.frame[plain])
    again = next(cloud for cloud in drawing.clouds if cloud.label == "retransmitted")
    names = [NAMES[k] if k >= 4 else PANELS[k] for k in calls.operation[calls.again & ~unanswered]]
    assert sorted(again.extra["operation"][0]) == sorted(names)
    highest = max(float(np.max(cloud.y)) for cloud in drawing.clouds)
    assert drawing.y.high is not None
    assert highest <= drawing.y.high
    assert [(band.low, band.high) for band in drawing.bands] == [(360.0, 362.5)]


def test_times_run_from_the_first_packet() -> None:
    capture = stalled()
    capture.content["first_ns"] = FIRST_NS - 250_000_000
    drawing = figure_of(capture)
    assert [band.low for band in drawing.bands] == [120.25, 360.25, 480.25]
    first = min(float(np.min(cloud.x)) for cloud in drawing.clouds)
    assert first >= 0.25
    load = rpcstat(capture, "capture", lambda: capture, 600.0)
    assert load is not None
    lines = load.views[0].load()
    assert isinstance(lines, Lines)
    width_s = capture.content["rpcstat"]["bin_ns"] / 1e9
    assert np.asarray(lines.panels[0].series[0].x)[0] == pytest.approx(0.25 + width_s / 2)


def test_cells_count_every_answered_call() -> None:
    shift = 14
    calls = make_calls(30_000, stalls=STALLS, unanswered=0.001, again=0.002)
    capture = analysis_of(calls, points=density_section(calls, shift))
    figures = calls_figures(capture, "capture", lambda: capture, 600.0)
    heat = figures[1]
    assert [view.choice[0] for view in heat.views] == list(PANELS)
    read = heat.views[0].load()
    assert isinstance(read, Heat)
    mine = (calls.panel == 0) & (calls.latency_ns >= 0)
    cells = np.asarray(read.cells)
    assert cells.sum() == int(mine.sum())
    x = np.asarray(read.x_edges)
    counted = np.histogram(calls.step[mine] * STEP_NS / 1e9, x)[0]
    assert np.array_equal(cells.sum(axis=0), counted)
    edges_s = np.asarray(read.y_edges)
    assert np.all(np.diff(edges_s) > 0)
    assert np.array_equal(cells.sum(axis=1), np.histogram(centre_s(calls.code[mine]), edges_s)[0])
    points = figures[0].views[0].load()
    assert isinstance(points, Points)
    sizes = {cloud.label: len(np.asarray(cloud.x)) for cloud in points.clouds}
    assert sizes[NO_REPLY] == int((calls.code == UNANSWERED).sum())
    assert sizes["retransmitted"] == int((calls.again & (calls.latency_ns >= 0)).sum())


def test_stalls_are_named_the_longest_first() -> None:
    section = capture_section(stalled(), "capture")
    said = " ".join(section.sentences)
    assert re.search(r"\bserver stalled 3 .*\b4\.40 s\b", said)
    assert said.index("(S2)") < said.index("(S1)") < said.index("(S3)")
    table = next(one for one in section.tables if one.look is not None)
    assert [row[0].text for row in table.rows] == ["S1", "S2", "S3"]
    assert table.rows[1][2].value == "359.750000..362.750000"
    assert "nfslab trace made.pcap --from 359.800000 --to 362.700000" in section.notes[-1]


def test_what_is_missing_is_a_problem_and_what_is_odd_a_note() -> None:
    odd = [{"kind": "not_ip", "count": 7}, {"kind": "fragments_lost", "count": 3}]
    section = capture_section(stalled(lost={"bytes": 4096, "gaps": 2}, anomalies=odd), "capture")
    assert ["4 KiB" in section.problems[0], "3 datagrams" in section.problems[1]] == [True, True]
    assert "7 frames" in section.notes[0]
    quiet = capture_section(analysis_of(make_calls(2_000), lost={"bytes": 9, "gaps": 1}), "capture")
    assert "no loss" not in " ".join(quiet.sentences)


def test_a_missing_lens_leaves_its_part_out() -> None:
    capture = stalled()
    for lens in ("points", "rpcstat", "stalls"):
        del capture.content[lens]
    section = capture_section(capture, "capture", load=lambda: capture)
    assert [figure.id for figure in section.figures] == ["capture-latencies"]


def test_a_capture_without_calls_makes_a_section() -> None:
    empty = analysis_of(make_calls(1))
    empty.content["operations"] = []
    empty.content["points"]["panels"] = []
    empty.content["rpcstat"]["bins"] = 0
    section = capture_section(empty, "capture", load=lambda: empty)
    assert "No NFS call was captured" in section.sentences[0]
    assert section.figures == []


def test_two_captures_share_their_scales() -> None:
    both = [
        analysis_of(make_calls(3_000, seed=1), "a"),
        analysis_of(make_calls(3_000, seed=2, slower=30), "b", duration_s=900.0),
    ]
    together, first, second = page_sections(both, None)
    drawn = {figure.id: figure.views[0].load() for figure in together.figures}
    lines = drawn["all-latencies"]
    assert isinstance(lines, Lines)
    assert [series.label for series in lines.panels[0].series] == ["a", "b"]
    for section in (first, second):
        points = section.figures[0].views[0].load()
        assert isinstance(points, Points)
        assert points.x.high == 900.0


def test_histograms_hold_all_calls() -> None:
    capture = stalled()
    figure = latencies([capture], "capture")
    assert figure is not None
    lines = figure.views[0].load()
    assert isinstance(lines, Lines)
    for panel in lines.panels:
        shares = np.asarray(panel.series[0].y)
        assert shares.sum() == pytest.approx(1.0)
        assert np.all(np.diff(np.asarray(panel.series[0].x)) > 0)
        assert shares[-1] == 0.0


def stored(folder: Path, capture: CaptureAnalysis) -> Any:
    """A run with the evidence of this capture."""
    table = analysis_table(capture, FIRST_NS)
    made = {ANALYSIS_TABLE: dict(zip(table.column_names, table.columns, strict=True))}
    return sealed_run(folder, "capture", {"kernel_dropped_packets": 3, "notes": ["said"]}, made)


def test_a_run_s_capture_is_what_a_file_s_is(tmp_path: Path) -> None:
    capture = stalled(blocks=None)
    kind = CaptureEvidence()
    run = stored(tmp_path / "run-1", capture)
    assert kind.present(run)
    facts = kind.facts(run)
    assert facts is not None
    assert facts == facts_of(capture, run.summary("capture"))
    assert facts.calls == 5_000
    assert facts.stalls["server_stalled"].time_ns == 4_400_000_000
    assert facts.kernel_dropped_packets == 3
    assert kind.Facts.model_validate(facts.model_dump(mode="json")) == facts
    section = kind.section(found_of({"x=1": [(run, facts)]}))
    assert section is not None
    file = capture_section(
        replace(capture, names=["x=1, repetition 1 (run-1)"]), "c", load=lambda: capture
    )
    assert list(section.sentences) == list(file.sentences)
    ours, theirs = section.figures[0].views[0].load(), file.figures[0].views[0].load()
    assert isinstance(ours, Points)
    assert isinstance(theirs, Points)
    assert [c.label for c in ours.clouds] == [c.label for c in theirs.clouds]
    assert np.array_equal(ours.clouds[0].x, theirs.clouds[0].x)
    assert "said" in section.notes


def test_all_runs_are_in_the_tables_and_some_are_parts(tmp_path: Path) -> None:
    kind = CaptureEvidence()
    runs = []
    for k in range(14):
        capture = analysis_of(make_calls(100 + k), gaps=[gap("server_stalled", 100.0, 1.0)])
        run = stored(tmp_path / f"run-{k}", capture)
        runs.append((run, kind.facts(run)))
    section = kind.section(found_of({"x=1": runs}))  # type: ignore[dict-item]
    assert section is not None
    (row,) = section.tables[0].rows
    titles = [column.title for column in section.tables[0].columns]
    assert row[titles.index("runs")].value == 14
    assert row[titles.index("calls")].value == 106.5
    assert row[titles.index("server stalled")].value == 14
    assert len(section.parts) == 12
    assert section.notes[0].startswith("2 more runs")
    ids = [figure.id for part in section.parts for figure in part.figures]
    assert len(set(ids)) == len(ids)


def test_bytes_of_rpc_and_timeouts_of_tcp_are_drawn_over_time(tmp_path: Path) -> None:
    made = Capture(3)
    flow, node = made.tcp(), scenes.v3_tree().children[0].children[0]
    made.converse(flow, [nfs3.getattr_(node)] * 20)
    last = made.exchange(flow, nfs3.getattr_(node))
    made.send(flow, [last])
    # Sent again by TCP after 300 ms of silence: a timeout (Linux's shortest is 200 ms).
    made.now_ns += 300_000_000
    first = [segment for segment in flow.segments if segment.data][-1]
    flow.segments.append(replace(first, time_ns=made.now_ns, ident=first.ident + 1))
    made.now_ns += 200_000
    made.send(flow, [last], replies=True)
    path, _true = written(made, tmp_path)
    capture = read_captures([path], Asked())
    figure = rpcstat(capture, "capture", lambda: capture, 1.0)
    assert figure is not None
    lines = figure.views[0].load()
    assert isinstance(lines, Lines)
    shown = {panel.key: {s.label: np.asarray(s.y) for s in panel.series} for panel in lines.panels}
    assert shown["again"]["timeouts of the client's TCP"].sum() == 1
    assert "timeouts of the server's TCP" not in shown["again"], "there were none"
    # Bytes of all messages, without their record marks.
    width_s = capture.content["rpcstat"]["bin_ns"] / 1e9
    for label, messages in (
        ("calls sent", [call.call for call in made.exchanges]),
        ("replies", [call.reply for call in made.exchanges]),
    ):
        sum_bytes = shown["messages"][label].sum() * width_s
        assert sum_bytes == pytest.approx(sum(map(len, messages)))


def test_a_capture_that_cannot_be_read_is_named_in_every_output(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_pgbench(tmp_path, Recipe(clients=(1,), repetitions=2, samples=False))
    run = folder.runs_path / folder.sealed_runs()[0].run_id
    evidence_path(run, ANALYSIS_TABLE).write_bytes(b"PAR1 and nothing more")
    said = rf"{run.name}: \S*capture_analysis\.parquet cannot be read: "
    page = unescape(render_html(folder.path))
    assert re.search(said, page[page.index('<section id="capture"') :])
    assert re.search(said, render_markdown(folder.path).replace("\\", ""))
    shown = nfslab(capsys, "show", folder.path, run.name)
    assert shown.code == 0
    assert re.search(said, shown.out)

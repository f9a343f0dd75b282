"""Where a call's time goes: planted parts in every output, by point and by run."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path

import pytest
from nfslab.display.figures import Stacked
from nfslab.display.sections import Section
from nfslab.evidence.found import PARTS_MOST, find, section_of
from nfslab.evidence.nfs_server.breakdown import PARTS
from nfslab.evidence.nfs_server.kind import NfsServerEvidence, sentences
from nfslab.report.analysis import analyse, render_json
from nfslab.report.html.document import render_html
from nfslab.report.markdown import render_markdown
from nfslab.results.store import ExperimentFolder

from tests.cli.invocation import nfslab
from tests.report.synthetic import Recipe, write_pgbench
from tests.results.planted_calls import both, write_calls

MS = 1_000_000
RECIPE = Recipe(clients=(1, 5), repetitions=2, samples=False)
SLOW_SERVICE = (0, 1 * MS, 0, 6 * MS, 1 * MS, 2 * MS)
WAITING = (0, 0, 3 * MS, 1 * MS, 0, 0)


def planted(folder: ExperimentFolder) -> list[Path]:
    """Every run of the first point: ten READs of 10 ms, one GETATTR that waits, one sent twice."""
    first = folder.sealed_runs()[0].point_id
    runs = [folder.runs_path / line.run_id for line in folder.sealed_runs()
            if line.point_id == first]  # fmt: skip
    calls = [both(n, n, *SLOW_SERVICE) for n in range(10)]
    calls += [both(0, 10, *WAITING, operation="GETATTR", procedure=1)]
    calls += [both(0, 11, *WAITING, sends=2)]
    for _, server in calls:
        server.pop("sends", None)
    for run in runs:
        write_calls(run, calls)
    return runs


@pytest.fixture
def folder(tmp_path: Path) -> ExperimentFolder:
    return write_pgbench(tmp_path, RECIPE)


def breakdown(folder: ExperimentFolder) -> Section:
    kind = NfsServerEvidence()
    section = section_of(kind, find(kind, analyse(folder.path)))
    assert section is not None
    return section


def test_the_section_has_what_was_planted(folder: ExperimentFolder) -> None:
    planted(folder)
    section = breakdown(folder)
    part = section.parts[0]
    read, getattr_ = part.tables[0].rows[1:]
    assert [cell.value for cell in read[1:]][:8] == [10, 10 * MS, *SLOW_SERVICE]
    assert [cell.value for cell in getattr_[1:]][:8] == [1, 4 * MS, *WAITING]
    assert part.notes == ["Left out: 1 retransmitted."]
    bars = part.figures[0].views[0].load()
    assert isinstance(bars, Stacked)
    assert [one.label for one in bars.parts] == list(PARTS)
    assert [one.label for one in bars.wholes] == ["calls taken apart", "READ", "GETATTR"]
    assert list(bars.wholes[1].parts) == pytest.approx([ns / 1e9 for ns in SLOW_SERVICE])
    by_point = section.figures[0].views[0].load()
    assert isinstance(by_point, Stacked)
    # Both blocks of the point: 2 x (10 x 6 ms + 1 ms) of service over 22 calls.
    assert [one.parts[3] for one in by_point.wholes] == pytest.approx([0.122 / 22])
    note = section.tables[0].note
    assert "22 of 24 calls" in note, "one of each run's twelve was sent twice"
    assert "call-parts-section" in render_html(folder.path)


def test_few_of_the_calls_are_not_said_to_be_all(folder: ExperimentFolder) -> None:
    """60 of 3,261 are in both records: no word on where the time of all went."""
    run = planted(folder)[0]
    pairs = [both(n, n, *SLOW_SERVICE) for n in range(60)]
    clients = [both(n, n, *WAITING)[0] for n in range(60, 3261)]
    others = [both(n, n + 10_000, *WAITING)[1] for n in range(60, 3261)]
    write_calls(run, pairs + list(zip(clients, others, strict=True)))
    found = find(NfsServerEvidence(), analyse(folder.path)).runs
    facts = next(one.facts for one in found if one.run.run_id == run.name)
    assert (facts.calls, facts.total) == (60, 3261)
    (said,) = sentences(facts)
    assert said.startswith("60 of 3,261 calls")
    assert "largest" not in said


def test_ways_of_less_than_no_time_are_told_as_one(folder: ExperimentFolder) -> None:
    """The server's clock is 10 ms ahead: of 4.6 ms a way takes -9 ms (-196 %)."""
    runs = planted(folder)
    for run in runs:
        calls = [both(n, n, 0, 12 * MS, 1 * MS, 600_000, 0, -9 * MS) for n in range(9)]
        write_calls(run, [*calls, both(0, 9, *WAITING, operation="GETATTR", procedure=1)])
    section = breakdown(folder)
    part = section.parts[0]
    read, getattr_ = part.tables[0].rows[1:]
    assert [cell.value for cell in read[1:]][2:8] == [0, 3 * MS, 1 * MS, 600_000, 0, 0]
    assert (read[4].text, read[8].text) == ("3 ms (65.2 %)", "–")
    assert getattr_[8].text == "–", "of all calls: they have the same clocks"
    assert "spends most in both transits: " in part.sentences[0]
    assert any("the request transit holds both" in note for note in part.notes)
    assert "the request transit holds both" in section.tables[0].note
    assert section.tables[0].rows[0][-2].text == "–"
    for figure in (section.figures[0], part.figures[0]):
        bars = figure.views[0].load()
        assert isinstance(bars, Stacked)
        assert min(min(one.parts) for one in bars.wholes) == 0
    found = json.loads(render_json(folder.path))["latency_breakdown"]
    assert found[0]["operations"][1]["parts"]["reply transit"]["share"] is None


def test_kinds_that_are_longer_at_the_server_than_their_round_trip_are_left_out(
    folder: ExperimentFolder,
) -> None:
    run = planted(folder)[0]
    calls = [both(n, n, 0, -2 * MS, 0, 9 * MS, 0, -3 * MS) for n in range(4)]
    write_calls(run, [*calls, both(0, 4, *WAITING, operation="GETATTR", procedure=1)])
    found = find(NfsServerEvidence(), analyse(folder.path)).runs
    facts = next(one.facts for one in found if one.run.run_id == run.name)
    assert [row.operation for row in facts.rows] == ["all calls", "GETATTR"]
    assert list(facts.left_out.values()) == [4]


def test_by_one_clock_nothing_waits_before_it_was_sent(folder: ExperimentFolder) -> None:
    """As nfsd's tracepoints tell: of a connection before the call, of the send when it is over."""
    run = planted(folder)[0]
    write_calls(run, [both(n, n, 0, -1 * MS, 3 * MS, 1 * MS, 1 * MS, -MS // 2) for n in range(4)])
    found = find(NfsServerEvidence(), analyse(folder.path)).runs
    facts = next(one.facts for one in found if one.run.run_id == run.name)
    assert facts.left_out == {}
    assert list(facts.rows[0].summary.mean_ns) == [0, 0, 2 * MS, 1 * MS, MS // 2, 0]


def test_json_has_every_run(folder: ExperimentFolder) -> None:
    runs = planted(folder)
    found = json.loads(render_json(folder.path))["latency_breakdown"]
    assert [one["run"] for one in found] == sorted(run.name for run in runs)
    operation = found[0]["operations"][1]
    assert (operation["operation"], operation["calls"]) == ("READ", 10)
    assert operation["parts"]["server processing"]["share"] == pytest.approx(0.6)
    assert found[0]["left_out"] == {"retransmitted": 1}


def test_markdown_and_the_terminal_say_it_too(
    folder: ExperimentFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    run = planted(folder)[0]
    text = render_markdown(folder.path)
    row = next(line for line in text.splitlines() if line.startswith("| placement=")
               and "909 µs" in line)  # fmt: skip
    # Both runs of the point: 2 x (10 x 10 ms + 4 ms) over 22 calls.
    assert [cell.strip() for cell in row.split("|")][3:8] == [
        "2", "22", "9.45 ms", "0 ns (0 %)", "909 µs (9.62 %)",
    ]  # fmt: skip
    assert "Left out: 1 retransmitted" in text
    said = nfslab(capsys, "show", folder.path, run.name)
    assert said.code == 0
    assert "A call spends most in server processing" in said.out
    assert re.search(r"GETATTR +1 +4 ms .* waiting \(75 %\)", said.out)


def test_without_both_records_nothing_is_said(
    folder: ExperimentFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = planted(folder)
    for run in runs:
        (run / "evidence" / "nfs_server_calls.parquet").unlink()
    assert "call-parts-section" not in render_html(folder.path)
    assert "call's time" not in render_markdown(folder.path)
    assert "call's time" not in nfslab(capsys, "show", folder.path, runs[0].name).out


def test_what_cannot_be_read_or_joined_is_named(
    folder: ExperimentFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    broken, empty = planted(folder)
    (broken / "evidence" / "rpc_calls.parquet").write_bytes(b"PAR1 and nothing more")
    client, _ = both(0, 1, *WAITING)
    _, server = both(0, 2, *WAITING)
    write_calls(empty, [(client, server)])
    page = unescape(render_html(folder.path))
    assert f"{broken.name}: " in page
    assert "no call could be taken apart. Left out: 1 not in the server's record." in page
    assert f"{broken.name}: ".replace("_", "\\_") in render_markdown(folder.path)
    assert (
        "rpc_calls.parquet cannot be read" in nfslab(capsys, "show", folder.path, broken.name).out
    )
    assert "no call could be taken apart" in nfslab(capsys, "show", folder.path, empty.name).out


def test_tables_are_of_all_runs_and_parts_of_some(tmp_path: Path) -> None:
    folder = write_pgbench(
        tmp_path, Recipe(clients=(1,), repetitions=PARTS_MOST + 2, samples=False, evidence=False)
    )  # fmt: skip
    planted(folder)
    section = breakdown(folder)
    assert len(section.parts) == PARTS_MOST
    assert section.notes[0].startswith("2 more runs")
    row = section.tables[0].rows[0]
    assert [cell.value for cell in row[2:4]] == [PARTS_MOST + 2, 11 * (PARTS_MOST + 2)]


def test_two_targets_have_a_sentence_each(folder: ExperimentFolder) -> None:
    run = planted(folder)[0]
    calls = [
        both(0, 1, *SLOW_SERVICE, target="data"),
        both(0, 2, *WAITING, target="log"),
    ]
    write_calls(run, calls)
    found = find(NfsServerEvidence(), analyse(folder.path)).runs
    one = next(one for one in found if one.run.run_id == run.name)
    of_data, of_log = sentences(one.facts)
    assert of_data.startswith("A call of data spends most in server processing: 60 %")
    assert of_log.startswith("A call of log spends most in waiting: 75 %")

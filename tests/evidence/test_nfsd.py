"""The collector nfsd on saved readings of a real server, to what a report says of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from nfslab.errors import RunFailed
from nfslab.evidence.collector import Evidence
from nfslab.evidence.nfsd.collector import NfsdCollector, NfsdParameters
from nfslab.evidence.nfsd.kind import NfsdEvidence, NfsdFacts
from nfslab.workloads.base import RunContext

from tests.collectors.planted_nfsd import Planted
from tests.evidence.runs import found_of, sealed_run
from tests.simulated_clock import SimulatedClock
from tests.storage.test_nfsd import difference
from tests.workloads.run_context import command_run

LONG = NfsdParameters(interval=60)
"""No reading by itself: those of the start, the timed part, and the end."""
KERNEL = "6.12"


@pytest.fixture
def context() -> Iterator[RunContext]:
    with command_run() as made:
        yield made


@pytest.fixture
def planted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, simulated_clock: SimulatedClock
) -> Planted:
    """Its interval is never over: it is read at the ends of the timed part."""
    monkeypatch.setattr(simulated_clock, "wait", lambda event, _seconds=None: event.wait())
    return Planted(tmp_path / "proc", monkeypatch)


def watched(context: RunContext, planted: Planted, last: str = "end") -> Evidence:
    planted.say(KERNEL, "start")
    collector = NfsdCollector(LONG)
    assert collector.applies(context).ok
    collector.start(context)
    with context.timed():
        planted.say(KERNEL, last)
    return collector.stop()


def test_totals_are_what_was_counted(context: RunContext, planted: Planted) -> None:
    moved = difference(KERNEL)
    evidence = watched(context, planted)
    summary = evidence.summary
    assert summary["server"]["calls"] == moved.server.calls
    calls = {(one["version"], one["operation"]): one["calls"] for one in summary["operations"]}
    assert calls == {key: count for key, count in moved.by_operation().items() if count}
    rows = evidence.tables["nfsd_operations"].to_pylist()
    assert {(one["version"], one["operation"]): one["calls"] for one in rows} == calls
    # One reading before the timed part, one at its start, one at its end.
    quiet, series = evidence.tables["nfsd_series"].to_pylist()
    assert quiet["calls_per_s"] == 0
    assert series["calls_per_s"] * summary["wall_s"] == pytest.approx(moved.server.calls)
    ratio = series["written_bytes_per_s"] / series["calls_per_s"]
    assert ratio == pytest.approx(moved.server.written_bytes / moved.server.calls)
    assert evidence.tables["nfsd_pools"].num_rows == 2


def test_a_report_says_what_went_wrong_first(
    context: RunContext, planted: Planted, tmp_path: Path
) -> None:
    evidence = watched(context, planted)
    evidence.summary["server"] |= {"cache_hits": 7, "bad_calls": 2}
    tables = {name: table.to_pydict() for name, table in evidence.tables.items()}
    kind = NfsdEvidence()
    run = sealed_run(tmp_path / "run", "nfsd", evidence.summary, tables)
    facts = kind.facts(run)
    assert isinstance(facts, NfsdFacts)
    assert kind.Facts.model_validate(facts.model_dump(mode="json")) == facts
    section = kind.section(found_of({"x=1": [(run, facts)]}))
    assert section is not None
    assert "7 calls had come before" in section.sentences[0]
    assert "2 calls were refused" in section.sentences[1]
    server, operations, pools = section.tables
    (row,) = server.rows
    moved = difference(KERNEL).server
    assert row[3].value == pytest.approx(moved.calls / evidence.summary["wall_s"])
    most = max((count, name) for (_, name), count in difference(KERNEL).by_operation().items())
    assert most[0] in [cells[2].value for cells in operations.rows]
    assert [cells[2].value for cells in pools.rows] == [4]
    panels = {panel.key: panel for panel in kind.panels(run)}
    assert set(panels) == {"nfsd_calls", "nfsd_bytes", "nfsd_cache", "nfsd_pools"}


def test_counters_that_went_down_have_no_totals(context: RunContext, planted: Planted) -> None:
    planted.say(KERNEL, "end")
    collector = NfsdCollector(LONG)
    collector.start(context)
    with context.timed():
        planted.say(KERNEL, "start")
    evidence = collector.stop()
    assert evidence.summary["server"] == {}
    assert any("went down" in note for note in context.notes)


def test_a_text_of_another_form_is_refused_or_ends_it(
    context: RunContext, planted: Planted
) -> None:
    planted.say(KERNEL, "start")
    statistics = planted.folder / "nfsd"
    collector = NfsdCollector(LONG)
    collector.start(context)
    with context.timed():
        statistics.write_text(statistics.read_text().replace("rc ", "rc x"))
    assert "line 1" in collector.stop().summary["incomplete"]
    with pytest.raises(RunFailed, match="no use"):
        NfsdCollector(LONG).start(context)


def test_without_a_server_it_has_nothing_to_watch(
    context: RunContext, planted: Planted, tmp_path: Path
) -> None:
    answer = NfsdCollector(LONG).applies(context)
    assert (answer.ok, answer.moot) == (False, True)
    kind: Any = NfsdEvidence()
    assert kind.facts(sealed_run(tmp_path / "run")) is None

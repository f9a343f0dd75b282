"""Captures whose cause is known, as their writers planted it: no sentence says another one."""

from __future__ import annotations

from pathlib import Path

import pytest
from nfslab.captures import causes
from nfslab.captures.analysis import Asked, CaptureAnalysis, read_captures
from nfslab.evidence.capture import gaps, verdict
from nfslab.evidence.capture.section import capture_section

from tests.trace.simulation.judged import said

CAPTURES = Path(__file__).parent / "verdicts"


def analysed(name: str) -> CaptureAnalysis:
    return read_captures([CAPTURES / f"{name}.pcap.zst"], Asked())


def rows(analysis: CaptureAnalysis, column: str) -> int:
    return sum(row[column] for row in analysis.content["operations"])


def test_health_checks_that_begin_with_the_same_transaction_ids_are_calls_of_their_own() -> None:
    analysis = analysed("health")
    assert analysis.calls == 150
    assert rows(analysis, "retransmissions") == 0
    assert rows(analysis, "answered") == 150
    assert not {"network_loss", "server_stalled"} & set(said(analysis))


def test_a_cut_reply_is_no_stall() -> None:
    """The client is idle for a second behind replies whose front the snapshot length cut."""
    analysis = analysed("phantom")
    assert causes.fronts_cut(analysis)
    assert not {"server_stalled", "unanswered", "network_loss"} & set(said(analysis))
    text = " ".join(verdict.sentences(analysis, gaps.gaps(analysis)))
    assert "tcpdump without -s" in text, "what to do about it"


def test_a_call_that_is_never_answered_is_outstanding_all_through() -> None:
    analysis = analysed("never")
    found = said(analysis)
    assert "unanswered" in found
    assert "client_idle" not in found
    (call,) = causes.unanswered(analysis)
    assert call["kind"] == "READ"
    tables = {table.title: table for table in capture_section(analysis, "never").tables}
    (row,) = tables["Calls never answered"].rows
    assert row[0].text == "READ"


def test_pauses_at_random_have_no_period() -> None:
    assert "period" not in said(analysed("false_period"))


def test_a_lost_reply_over_udp_is_one_thing_only() -> None:
    """The server had answered in a millisecond: the network lost it, and no server stalled."""
    analysis = analysed("u_lostrep")
    assert rows(analysis, "retransmissions") == 1
    assert not {"server_stalled", "server_process_slow"} & set(said(analysis))


@pytest.mark.parametrize("cause", ["server_stalled", "client_idle", "unanswered"])
def test_one_direction_tells_of_no_stall(cause: str) -> None:
    analysis = analysed("oneway_c")
    assert causes.one_way(analysis)
    assert cause not in said(analysis)

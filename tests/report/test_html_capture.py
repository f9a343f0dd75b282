"""The captures' page without a browser: what it says, what it embeds, what it leaves out."""

from __future__ import annotations

import json
import re
import struct
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nfslab.captures.analysis import Asked, read_captures
from nfslab.report.html.capture import capture_sections, render_capture_page
from nfslab.report.html.capture.series import rpcstat
from nfslab.report.html.columns import unpack

from tests.report.made_captures import (
    FIRST_NS,
    PANELS,
    analysis_of,
    density_section,
    gap,
    make_calls,
)
from tests.trace import scenes
from tests.trace.generator import nfs3
from tests.trace.generator.capture import Capture
from tests.trace.reading import written

STALLS = [(120.0, 1.2), (360.0, 2.5), (480.0, 0.7)]


def stalled(**more: Any) -> Any:
    calls = make_calls(5_000, stalls=STALLS, unanswered=0.002)
    gaps = [gap("server_stalled", begin, length) for begin, length in STALLS]
    return analysis_of(calls, gaps=gaps, **more)


def text_of(page: str) -> str:
    body = page[page.index("<body>") : page.index('<script type="text/plain"')]
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", body)))


def data_of(page: str, name: str) -> bytes:
    found = re.search(rf'id="data-{re.escape(name)}">([^<]*)<', page)
    assert found, f"no data named {name}"
    return unpack(found[1])


def test_the_verdict_names_the_stalls_with_their_lengths() -> None:
    text = text_of(render_capture_page([stalled()]))
    assert "The server stalled 3 times, 4.400 s in all (0.73 % of the capture)" in text
    longest_first = "2.500 s at 360.00 s (S2), 1.200 s at 120.00 s (S1), 0.700 s at 480.00 s (S3)"
    assert longest_first in text
    assert text.index("The server stalled") < text.index("Operations")


def test_a_quiet_capture_says_so() -> None:
    text = text_of(render_capture_page([analysis_of(make_calls(2_000))]))
    assert "2,000 calls in 600.000 s, all answered." in text
    assert "No stall, no loss and nothing sent again was found." in text
    assert "No stall, pause or loss above the thresholds was found." in text


def test_a_capture_with_holes_does_not_say_that_nothing_was_lost() -> None:
    text = text_of(
        render_capture_page([analysis_of(make_calls(2_000), lost={"bytes": 9, "gaps": 1})])
    )
    assert "no loss" not in text
    assert "Of what was captured: no stall, and nothing sent again." in text
    assert "The capture lacks 9 B" in text


def test_losses_come_before_notes() -> None:
    page = render_capture_page(
        [
            stalled(
                lost={"bytes": 4096, "gaps": 2},
                anomalies=[{"kind": "not_ip", "count": 7}, {"kind": "fragments_lost", "count": 3}],
            )
        ]
    )
    text = text_of(page)
    places = [text.index(word) for word in ("lacks 4 KiB", "3 datagrams", "7 frames")]
    assert places == sorted(places)


def test_a_closer_look_comes_with_its_command() -> None:
    text = text_of(render_capture_page([stalled()]))
    assert "nfslab trace made.pcap --from 359.800000 --to 362.700000" in text


def test_foreign_text_becomes_no_markup() -> None:
    name = '<img src=x onerror="alert(1)">.pcap'
    evil = gap("server_stalled", 1.0, 2.0, evidence="</script><b>x</b>")
    page = render_capture_page([analysis_of(make_calls(100), name, gaps=[evil])])
    assert "<img" not in page
    assert "<b>x" not in page
    assert "&lt;img src=x onerror=" in page


def test_the_byte_columns_are_embedded_unchanged() -> None:
    analysis = stalled()
    page = render_capture_page([analysis])
    for panel in PANELS:
        chunk = data_of(page, f"captures-0-{panel}")
        (size,) = struct.unpack_from("<I", chunk)
        header, body = json.loads(chunk[4 : 4 + size]), chunk[4 + size :]
        streams = header["lists"]["calls"]["streams"]

        def column(name: str, body: bytes = body, streams: Any = streams) -> bytes:
            start, length = streams[name]
            return body[start : start + length]

        assert column("steps") == analysis.blobs[f"points/{panel}.steps"][1]
        assert column("frames") == analysis.blobs[f"points/{panel}.frames"][1]
        words = np.frombuffer(analysis.blobs[f"points/{panel}.words"][1], "<u2")
        planes = np.frombuffer(column("words"), np.uint8).reshape(2, -1)
        assert np.array_equal(planes[0] | planes[1].astype(np.uint16) << 8, words)
        assert ("operations" in streams) == (panel == "others")


def test_a_missing_lens_leaves_its_part_out() -> None:
    analysis = stalled()
    for lens in ("points", "rpcstat", "stalls"):
        del analysis.content[lens]
    page = render_capture_page([analysis])
    assert 'data-figure="latencies"' in page
    assert 'data-figure="calls"' not in page
    assert 'data-figure="rpcstat"' not in page


def test_a_capture_without_calls_makes_a_page() -> None:
    empty = analysis_of(make_calls(1))
    empty.content["operations"] = []
    empty.content["points"]["panels"] = []
    empty.content["rpcstat"]["bins"] = 0
    text = text_of(render_capture_page([empty]))
    assert "No NFS call was captured: 2 packets." in text


def test_sections_for_a_run_are_folded_and_have_names_of_their_own() -> None:
    made = capture_sections([stalled()], "run-7")
    html = str(made.html)
    assert set(made.chunks) == {
        "run-7", "run-7-0-rpcstat", *(f"run-7-0-{panel}" for panel in PANELS),
    }  # fmt: skip
    assert html.count('data-capture="run-7"') == 3
    assert "<h2" not in html
    assert "<details><summary>Operations: 7 rows</summary>" in html


def test_the_latency_axis_holds_all_captures() -> None:
    quick, slow = make_calls(3_000, seed=1), make_calls(3_000, seed=2, slower=30)
    page = render_capture_page([analysis_of(quick, "a"), analysis_of(slow, "b")])
    low, high = json.loads(data_of(page, "captures"))["points"]["domain"]
    for calls in (quick, slow):
        latencies = calls.latency_ns[calls.latency_ns >= 0] / 1e9
        assert low <= np.log10(latencies.min())
        assert np.log10(latencies.max()) <= high


def test_beyond_the_bound_cells_are_embedded() -> None:
    calls = make_calls(5_000)
    page = render_capture_page([analysis_of(calls, points=density_section(calls, 14))])
    payload = json.loads(data_of(page, "captures"))
    density = payload["captures"][0]["points"]["density"]
    assert density["column_s"] == pytest.approx(0.16384)
    chunk = data_of(page, "captures-0-READ")
    (size,) = struct.unpack_from("<I", chunk)
    header = json.loads(chunk[4 : 4 + size])
    assert set(header["lists"]) == {"slowest", "marked", "sample"}
    read = calls.panel == 0
    cells = set(zip(calls.step[read] >> 14, calls.code[read] // 32, strict=True))
    again = {(column, 129) for column in calls.step[read & calls.again] >> 14}
    assert header["grid"]["filled"] == len(cells | again)


def test_times_run_from_the_first_packet() -> None:
    analysis = stalled()
    analysis.content["first_ns"] = FIRST_NS - 250_000_000
    payload = json.loads(data_of(render_capture_page([analysis]), "captures"))
    capture = payload["captures"][0]
    assert capture["points"]["offset_s"] == 0.25
    assert [band["from_s"] for band in capture["gaps"]] == [120.25, 360.25, 480.25]
    assert payload["time"]["domain"] == [0.0, 600.25]


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
    figure, _frames, _chunks = rpcstat([capture], "captures")
    assert figure is not None
    shown = {s["column"]: (p["title"], s["label"]) for p in figure["panels"] for s in p["series"]}
    assert shown["tcp_client_timeouts"] == (
        "Sent again, in each bin", "timeouts of the client's TCP",
    )  # fmt: skip
    assert "tcp_server_timeouts" not in shown, "there were none"
    assert capture.column("rpcstat/tcp_client_timeouts").sum() == 1
    # Bytes of all messages, without their record marks.
    for name, messages in (
        ("sent_bytes", [call.call for call in made.exchanges]),
        ("answered_bytes", [call.reply for call in made.exchanges]),
    ):
        assert shown[name][0] == "RPC bytes"
        assert capture.column(f"rpcstat/{name}").sum() == sum(map(len, messages))

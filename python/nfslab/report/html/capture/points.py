"""Calls as points -> chunks of the page: the core's byte columns, compressed as they are.

The lens `points` of the core gives, for each panel, all calls as byte columns, or counts in
cells with lists of single calls (crates/trace, lens `points`, says how both are coded). They
go into one chunk a panel without being decoded: `assets/src/capture/points.js` reads them.
Only the 16-bit words are laid out in byte planes here, which deflate packs better.

Limits: frame numbers are left out when a page would hold more calls than `FRAMES_MOST`; the
page says so.
"""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any

import numpy as np

from nfslab.report.html.columns import pack

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nfslab.captures.analysis import CaptureAnalysis

FRAMES_MOST = 5_000_000
"""Calls of all captures up to which each carries its frame number (about 1.3 bytes each)."""
ORDER = ("READ", "WRITE", "COMMIT", "GETATTR", "others")
"""Panels from the top; what else the core has follows."""
NS = 1_000_000_000
QUARTERS = 4
"""The latency axis ends at whole quarters of a decade."""
ROOM = 0.04
"""Above the largest latency: its mark has to fit."""


def section(analysis: CaptureAnalysis) -> Mapping[str, Any] | None:
    """The lens's section; None when it did not run or saw no call."""
    found = analysis.content.get("points")
    return found if found and found["panels"] else None


def panel_names(captures: Sequence[CaptureAnalysis]) -> list[str]:
    """Panels that hold a call in any capture."""
    present = {p["name"] for c in captures if (s := section(c)) for p in s["panels"]}
    known = [name for name in ORDER if name in present]
    return known + sorted(present - set(known))


def latency_domain(captures: Sequence[CaptureAnalysis]) -> list[float]:
    """log10 seconds around all latencies, in whole quarters of a decade."""
    low, high = np.inf, -np.inf
    for capture in captures:
        found = section(capture)
        if found is None:
            continue
        codes = found["codes"]
        for panel in found["panels"]:
            if panel["latency_ns"] is None:
                continue
            least, most = panel["latency_ns"]["min"], panel["latency_ns"]["max"]
            low = min(low, max(least, codes["low_ns"]))
            high = max(high, min(max(most, codes["low_ns"]), codes["high_ns"]))
    if not np.isfinite(low):
        return [-5.0, 0.0]
    a, b = np.log10(low) - 9.0, np.log10(high) - 9.0
    a = float(np.floor(a * QUARTERS - 0.1) / QUARTERS)
    b += ROOM * (b - a)
    return [a, max(float(np.ceil(b * QUARTERS) / QUARTERS), a + 0.5)]


def content(
    analysis: CaptureAnalysis, prefix: str, with_frames: bool
) -> tuple[dict[str, Any], dict[str, str]]:
    """(the capture's part of the payload, chunks by name)."""
    found = section(analysis)
    if found is None:
        return {"codes": NO_CODES, "step_s": 1e-5, "offset_s": 0.0, "operations": [],
                "calls": 0, "density": None, "chunks": {}}, {}  # fmt: skip
    origin_ns = int(analysis.content["first_ns"])
    chunks = {}
    names = {}
    for panel in found["panels"]:
        name = f"{prefix}-{panel['name']}"
        names[panel["name"]] = name
        chunks[name] = pack(_chunk(analysis, found, panel, with_frames and found["frames"]))
    density = found.get("density")
    return {
        "codes": found["codes"],
        "step_s": found["step_ns"] / NS,
        "offset_s": (found["origin_ns"] - origin_ns) / NS,
        "operations": found["operations"],
        "calls": found["calls"],
        "density": density
        and {
            "column_s": density["column_ns"] / NS,
            "first_s": (density["first_column_ns"] - origin_ns) / NS,
            "codes_per_row": density["codes_per_row"],
            "sample_one_in": density["sample_one_in"],
        },
        "chunks": names,
    }, chunks


NO_CODES = {
    "low_ns": 1000,
    "high_ns": 100 * NS,
    "steps": 4093,
    "below": 0,
    "above": 4094,
    "unanswered": 4095,
}
"""For a capture without calls: any scale does."""


class _Streams:
    """Byte columns one after the other, with their places."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.size = 0

    def add(self, data: bytes) -> list[int]:
        place = [self.size, len(data)]
        self.parts.append(data)
        self.size += len(data)
        return place


def _chunk(
    analysis: CaptureAnalysis, found: Mapping[str, Any], panel: Mapping[str, Any], frames: bool
) -> bytes:
    streams = _Streams()
    name = panel["name"]
    header: dict[str, Any] = {"panel": panel, "lists": {}}
    if found["kept"] == "all":
        header["lists"]["calls"] = _list(analysis, f"points/{name}", streams, frames)
    else:
        for kind in ("slowest", "marked", "sample"):
            header["lists"][kind] = _list(analysis, f"points/{name}.{kind}", streams, frames)
        cells = analysis.blobs[f"points/{name}.cells"][1]
        numbers = int(np.count_nonzero(np.frombuffer(cells, np.uint8) < 0x80))
        header["grid"] = {
            "columns": found["density"]["columns"],
            "rows": found["density"]["rows"],
            "filled": numbers // 2,
            "cells": streams.add(cells),
        }
    text = json.dumps(header, separators=(",", ":"), allow_nan=False).encode()
    return b"".join([struct.pack("<I", len(text)), text, *streams.parts])


def _list(
    analysis: CaptureAnalysis, prefix: str, streams: _Streams, frames: bool
) -> dict[str, Any]:
    words = np.frombuffer(analysis.blobs[f"{prefix}.words"][1], "<u2")
    planes = words.view(np.uint8).reshape(-1, 2).T.tobytes()
    places = {
        "steps": streams.add(analysis.blobs[f"{prefix}.steps"][1]),
        "words": streams.add(planes),
    }
    for name in ("frames", "operations"):
        data = analysis.blobs.get(f"{prefix}.{name}")
        if data is not None and (name != "frames" or frames):
            places[name] = streams.add(data[1])
    return {"n": int(words.size), "streams": places}

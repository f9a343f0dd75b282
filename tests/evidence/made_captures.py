"""Analyses of captures made up by numpy: every number is known, no capture is read.

    calls = make_calls(100_000, stalls=[(120.0, 1.5)])
    analysis = analysis_of(calls)

The byte columns are coded here a second time, apart from the core's code, so that tests of
the page read what the contract says and not what one program happens to write.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from nfslab.captures.analysis import CaptureAnalysis
from numpy.typing import NDArray

FIRST_NS = 1_700_000_000_000_000_000
STEP_NS = 10_000
LOW_NS, HIGH_NS, STEPS = 1_000, 100_000_000_000, 4093
BELOW, ABOVE, UNANSWERED = 0, STEPS + 1, STEPS + 2
AGAIN, ERROR = 1 << 12, 1 << 13
PANELS = ("READ", "WRITE", "COMMIT", "GETATTR", "others")
OTHERS = ("LOOKUP", "ACCESS", "READDIRPLUS")
NAMES = ("READ", "WRITE", "COMMIT", "GETATTR", *OTHERS)


@dataclass(frozen=True)
class Calls:
    """Calls in the order of time."""

    time_ns: NDArray[np.int64]
    """From the first packet."""
    latency_ns: NDArray[np.int64]
    """-1: no reply."""
    operation: NDArray[np.int64]
    """Index into NAMES."""
    again: NDArray[np.bool_]
    frame: NDArray[np.int64]

    @property
    def panel(self) -> NDArray[np.int64]:
        return np.minimum(self.operation, len(PANELS) - 1)

    @property
    def step(self) -> NDArray[np.int64]:
        return self.time_ns // STEP_NS

    @property
    def code(self) -> NDArray[np.int64]:
        return np.where(self.latency_ns < 0, UNANSWERED, codes(self.latency_ns))


def codes(latency_ns: NDArray[np.int64]) -> NDArray[np.int64]:
    """Latency codes: 4093 equal steps of the logarithm from 1 µs to 100 s."""
    share = np.log10(np.maximum(latency_ns, 1) / LOW_NS) / np.log10(HIGH_NS / LOW_NS)
    inside = 1 + np.clip(np.floor(share * STEPS).astype(np.int64), 0, STEPS - 1)
    found: NDArray[np.int64] = np.where(
        latency_ns < LOW_NS, BELOW, np.where(latency_ns >= HIGH_NS, ABOVE, inside)
    )
    return found


def centre_s(code: NDArray[np.int64]) -> NDArray[np.float64]:
    """The latency that stands for a code, seconds."""
    found: NDArray[np.float64] = 10 ** (-6 + (code - 0.5) * 8 / STEPS)
    return found


def make_calls(
    n: int,
    *,
    duration_s: float = 600.0,
    stalls: list[tuple[float, float]] | None = None,
    seed: int = 1,
    slower: float = 1.0,
    unanswered: float = 0.0,
    again: float = 0.0,
) -> Calls:
    """Calls with two modes of latency (cache and disk), a busy spell and stalls.

    `stalls`: (begin, length) in seconds; what would have been answered within waits to its end.
    """
    rng = np.random.default_rng(seed)
    time_s = np.sort(rng.uniform(0, duration_s, n))
    operation = rng.choice(len(NAMES), n, p=[0.5, 0.23, 0.05, 0.15, 0.04, 0.02, 0.01])
    cached = rng.random(n) < np.array([0.6, 0.7, 0.0, 0.98, 0.9, 0.9, 0.5])[operation]
    base = np.where(cached, np.array([1.2, 3, 10, 0.9, 1, 1, 4])[operation] * 1e-4, 4e-3)
    latency_s = slower * base * np.exp(rng.normal(0, np.where(cached, 0.3, 0.6), n))
    busy = np.exp(-(((time_s - 0.37 * duration_s) / (0.012 * duration_s)) ** 2))
    latency_s *= 1 + 8 * busy
    for begin, length in stalls or []:
        end = begin + length
        held = (time_s < end) & (time_s + latency_s > begin)
        latency_s[held] = np.maximum(latency_s[held], end - time_s[held] + base[held])
    latency_ns = (latency_s * 1e9).astype(np.int64)
    sent_again = (rng.random(n) < again) | (latency_s > 1.1)
    latency_ns[rng.random(n) < unanswered] = -1
    frame = 1 + 2 * np.arange(n) + rng.integers(0, 2, n)
    return Calls((time_s * 1e9).astype(np.int64), latency_ns, operation, sent_again, frame)


def varints(values: NDArray[np.int64]) -> bytes:
    """LEB128, vectorised."""
    values = np.asarray(values, dtype=np.uint64)
    length = np.ones(values.size, dtype=np.int64)
    for k in range(1, 10):
        length += values >= np.uint64(1) << np.uint64(7 * k)
    place = np.concatenate([[0], np.cumsum(length)])
    out = np.zeros(int(place[-1]), dtype=np.uint8)
    for k in range(10):
        here = length > k
        part = (values[here] >> np.uint64(7 * k)) & np.uint64(127)
        more = (length[here] > k + 1).astype(np.uint64) << np.uint64(7)
        out[place[:-1][here] + k] = (part | more).astype(np.uint8)
    return out.tobytes()


def zigzag(values: NDArray[np.int64]) -> NDArray[np.int64]:
    found: NDArray[np.int64] = (values << 1) ^ (values >> 63)
    return found


def point_blobs(
    calls: Calls, which: NDArray[np.bool_], prefix: str
) -> dict[str, tuple[str, bytes]]:
    """Byte columns of some calls."""
    step, frame = calls.step[which], calls.frame[which]
    words = calls.code[which] | np.where(calls.again[which], AGAIN, 0)
    found = {
        "steps": ("|u1", varints(np.diff(step, prepend=0))),
        "words": ("<u2", words.astype("<u2").tobytes()),
        "frames": ("|u1", varints(zigzag(np.diff(frame, prepend=0)))),
    }
    if prefix.split("/")[-1].startswith("others"):
        found["operations"] = ("|u1", calls.operation[which].astype(np.uint8).tobytes())
    return {f"{prefix}.{name}": blob for name, blob in found.items()}


def panel_facts(calls: Calls, index: int) -> dict[str, Any]:
    mine = calls.panel == index
    latency = calls.latency_ns[mine]
    answered = latency[latency >= 0]
    return {
        "name": PANELS[index],
        "calls": int(mine.sum()),
        "answered": int(answered.size),
        "unanswered": int(latency.size - answered.size),
        "sent_again": int(calls.again[mine].sum()),
        "errors": 0,
        "below": 0,
        "above": 0,
        "negative": 0,
        "latency_ns": {"min": int(answered.min()), "max": int(answered.max())}
        if answered.size
        else None,
    }


def points_section(calls: Calls) -> tuple[dict[str, Any], dict[str, tuple[str, bytes]]]:
    """All calls, one by one."""
    blobs = {}
    panels = [panel_facts(calls, k) for k in range(len(PANELS)) if (calls.panel == k).any()]
    for panel in panels:
        which = calls.panel == PANELS.index(panel["name"])
        blobs.update(point_blobs(calls, which, f"points/{panel['name']}"))
    return _points_json(calls, panels, "all"), blobs


def _points_json(calls: Calls, panels: list[dict[str, Any]], kept: str) -> dict[str, Any]:
    return {
        "kept": kept,
        "calls": int(calls.time_ns.size),
        "origin_ns": FIRST_NS,
        "step_ns": STEP_NS,
        "codes": {
            "low_ns": LOW_NS, "high_ns": HIGH_NS, "steps": STEPS,
            "below": BELOW, "above": ABOVE, "unanswered": UNANSWERED,
        },
        "frames": True,
        "far_times": 0,
        "operations": list(NAMES),
        "panels": panels,
    }  # fmt: skip


def density_section(
    calls: Calls, shift: int, one_in: int = 64, slowest: int = 1000
) -> tuple[dict[str, Any], dict[str, tuple[str, bytes]]]:
    """Counts in cells: columns of 2**shift steps, rows of 32 codes."""
    columns, rows = 4096, 130
    blobs = {}
    panels = []
    for index in range(len(PANELS)):
        mine = calls.panel == index
        if not mine.any():
            continue
        column, code = calls.step[mine] >> shift, calls.code[mine]
        row = np.where(code == UNANSWERED, rows - 2, code // 32)
        cells = np.bincount(column * rows + row, minlength=columns * rows)
        again = calls.again[mine]
        cells += np.bincount(column[again] * rows + rows - 1, minlength=columns * rows)
        filled = np.nonzero(cells)[0]
        gaps = np.diff(filled, prepend=-1) - 1
        pairs = np.stack([gaps, cells[filled]], axis=1).ravel()
        name = PANELS[index]
        blobs[f"points/{name}.cells"] = ("|u1", varints(pairs))
        answered = mine & (calls.latency_ns >= 0)
        threshold = np.sort(calls.code[answered])[-min(slowest, int(answered.sum()))]
        lists = {
            "slowest": answered & (calls.code >= threshold),
            "marked": mine & (calls.again | (calls.latency_ns < 0)),
            "sample": mine & (np.arange(mine.size) % one_in == 0),
        }
        for kind, which in lists.items():
            blobs.update(point_blobs(calls, which, f"points/{name}.{kind}"))
        panels.append(
            {
                **panel_facts(calls, index),
                "slowest_from_code": int(threshold),
                **{kind: int(which.sum()) for kind, which in lists.items()},
                "marked_one_in": 1,
            }
        )
    section = _points_json(calls, panels, "density")
    section["density"] = {
        "columns": columns,
        "rows": rows,
        "codes_per_row": 32,
        "column_ns": STEP_NS << shift,
        "first_column_ns": FIRST_NS,
        "sample_one_in": one_in,
    }
    return section, blobs


def operation_rows(calls: Calls) -> list[dict[str, Any]]:
    """The per-operation table."""
    rows = []
    for index, name in enumerate(NAMES):
        mine = calls.operation == index
        if not mine.any():
            continue
        answered = np.sort(calls.latency_ns[mine & (calls.latency_ns >= 0)])
        edges = np.unique((16 * 2 ** (np.arange(0, 30 * 16) / 16)).astype(np.int64))
        counts = np.histogram(answered, edges)[0]
        rank = {q: max(0, int(np.ceil(answered.size * p)) - 1) for q, p in QUANTILES.items()}
        rows.append(
            {
                "program": 100003, "program_name": "NFS", "version": 3, "operation": name,
                "calls": int(mine.sum()), "answered": int(answered.size),
                "unanswered": int(mine.sum() - answered.size),
                "retransmissions": int(calls.again[mine].sum()), "duplicate_replies": 0,
                "errors": {}, "bytes_read": int(mine.sum()) * 8192 if index == 0 else 0,
                "bytes_written": int(mine.sum()) * 8192 if index == 1 else 0,
                "latency_ns": {
                    "min": int(answered[0]), "mean": int(answered.mean()),
                    "max": int(answered[-1]), **{q: int(answered[k]) for q, k in rank.items()},
                } if answered.size else dict.fromkeys(("min", "mean", "max", *QUANTILES)),
                "latencies": int(answered.size), "negative_latencies": 0,
                "quantile_relative_error": 0.01, "rpc_refused": 0, "unreadable": 0,
                "histogram": [
                    [int(a), int(b), int(c)]
                    for a, b, c in zip(edges[:-1], edges[1:], counts, strict=True) if c
                ],
            }
        )  # fmt: skip
    return rows


QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999}


NO_SEGMENT = {
    **dict.fromkeys(("segments", "retransmitted_segments", "retransmitted_bytes"), 0),
    **dict.fromkeys(("timeouts", "out_of_order", "zero_windows"), 0),
    **dict.fromkeys(("in_flight_max_bytes", "window_min_bytes")),
}


def rpcstat_section(
    calls: Calls, duration_ns: int
) -> tuple[dict[str, Any], dict[str, tuple[str, bytes]]]:
    """Calls sent, answered and waiting in bins of time."""
    bin_ns = max(1_000_000, duration_ns // 2000)
    n = duration_ns // bin_ns + 1
    answered = calls.latency_ns >= 0
    reply_ns = (calls.time_ns + calls.latency_ns)[answered]
    sent = np.bincount(calls.time_ns // bin_ns, minlength=n)[:n]
    back = np.bincount(np.minimum(reply_ns // bin_ns, n - 1), minlength=n)[:n]
    queue = np.maximum(np.cumsum(sent) - np.cumsum(back), 0)
    again = np.bincount(calls.time_ns[calls.again] // bin_ns, minlength=n)[:n]
    columns: dict[str, NDArray[Any]] = {
        "sent_calls": sent.astype("<i8"),
        "answered_calls": back.astype("<i8"),
        "read_bytes": (back * 8192).astype("<i8"),
        "written_bytes": (back * 4096).astype("<i8"),
        "queue_max": queue.astype("<i8"),
        "queue_mean": (queue * 0.7).astype("<f8"),
        "retransmissions": again.astype("<i8"),
        "slots_max": np.zeros(n, "<i8"),
    }
    section = {
        "origin_ns": FIRST_NS,
        "bin_ns": int(bin_ns),
        "bins": int(n),
        "columns": [{"name": k, "dtype": v.dtype.str, "unit": "calls"} for k, v in columns.items()],
        "totals": {
            "calls": int(sent.sum()), "answered": int(back.sum()), "callbacks": 0,
            "unanswered": int(sent.sum() - back.sum()), "retransmissions": int(again.sum()),
            "duplicate_replies": 0, "sent_bytes": 0, "answered_bytes": 0, "lost_bytes": 0,
            "read_bytes": int(back.sum()) * 8192, "written_bytes": int(back.sum()) * 4096,
            "answered_by_kind": {}, "tcp": {"client": NO_SEGMENT, "server": NO_SEGMENT},
        },
        "queue": {
            "mean": float(queue.mean()), "max": int(queue.max()), "slots_max": 0,
            "late_calls": 0, "not_counted": 0,
        },
        "little": {
            "queue_integral_ns": 0, "answered_latency_ns": 0, "unanswered_wait_ns": 0,
            "unanswered_in_queue": 0, "negative_latencies": 0, "agrees": True,
        },
        "timeout_ns": 0,
    }  # fmt: skip
    blobs = {f"rpcstat/{k}": (v.dtype.str, v.tobytes()) for k, v in columns.items()}
    return section, blobs


def gap(kind: str, begin_s: float, length_s: float, **more: Any) -> dict[str, Any]:
    """A gap as the lens `stalls` tells it."""
    begin_ns, length_ns = FIRST_NS + round(begin_s * 1e9), round(length_s * 1e9)
    return {
        "kind": kind, "scope": "server", "server": "10.0.0.1:2049", "client": None,
        "begin_ns": begin_ns, "end_ns": begin_ns + length_ns, "length_ns": length_ns,
        "not_longer_than_ns": length_ns + 1_000_000, "open": False, "outstanding_at_begin": 3,
        "outstanding_peak": 8, "calls_sent": 5, "retransmissions": 4, "tcp_retransmissions": 0,
        "zero_windows": 0, "lost_bytes": 0, "frame_before": 1000, "frame_after": 1234,
        "evidence": f"server 10.0.0.1 answered nothing for {length_s:.3f} s", **more,
    }  # fmt: skip


def stalls_section(gaps: list[dict[str, Any]]) -> dict[str, Any]:
    """The lens's section for these gaps."""
    kinds = ("server_stalled", "client_paused", "network_loss", "capture_loss", "client_waited")
    totals = {
        kind: {
            "count": sum(g["kind"] == kind for g in gaps),
            "time_ns": sum(g["length_ns"] for g in gaps if g["kind"] == kind),
        }
        for kind in kinds
    }
    longest = max(gaps, key=lambda g: g["length_ns"], default=None)
    looks = [] if longest is None else [
        {
            "what": f"longest gap: {longest['kind'].replace('_', ' ')}",
            "from_ns": longest["begin_ns"] - FIRST_NS - 200_000_000,
            "to_ns": longest["end_ns"] - FIRST_NS + 200_000_000,
        }
    ]  # fmt: skip
    rule = {"floor_ns": 0, "factor": 8, "usual_quantile": 0.99, "settle_ns": 0}
    return {"rule": {**rule, "kept_of_each_kind": 10}, "totals": totals, "servers": [],
            "clients": [], "gaps": gaps, "throughput_cycle": None, "throughput_bin_ns": 0,
            "slowest_stretch": None, "closer_look": looks,
            "messages_not_followed": 0}  # fmt: skip


def analysis_of(
    calls: Calls,
    name: str = "made.pcap",
    *,
    duration_s: float = 600.0,
    gaps: list[dict[str, Any]] | None = None,
    points: tuple[dict[str, Any], dict[str, tuple[str, bytes]]] | None = None,
    anomalies: list[dict[str, Any]] | None = None,
    lost: dict[str, int] | None = None,
    **more: Any,
) -> CaptureAnalysis:
    """An analysis with the sections that a page needs."""
    duration_ns = round(duration_s * 1e9)
    section, blobs = points or points_section(calls)
    stats, more_blobs = rpcstat_section(calls, duration_ns)
    content = {
        "packets": 2 * int(calls.time_ns.size),
        "bytes": 400 * int(calls.time_ns.size),
        "first_ns": FIRST_NS,
        "last_ns": FIRST_NS + duration_ns,
        "calls": int(calls.time_ns.size),
        "lost": lost or {"bytes": 0, "gaps": 0},
        "anomalies": anomalies or [],
        "operations": operation_rows(calls),
        "points": section,
        "rpcstat": stats,
        "stalls": stalls_section(gaps or []),
        **more,
    }
    return CaptureAnalysis([name], content, {**blobs, **more_blobs})

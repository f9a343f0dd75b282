"""The page's section "System calls and syncs": the curve of successive syncs, how they are spread,
what they wait for, sizes and offsets of single accesses (`accesses`), and the tables of
`syscall_tables`.

Flow: `nfslab.report.syscalls` -> payloads of the figures, tables. The page computes nothing:
levels, changes, quantiles and shares stand in the payload. All curves of a section share one
scale of latency. Points are bounded (`POINTS_ALL` in a section, `POINTS_SERIES` a series): of a
longer series one call in k is drawn, and the slowest of each k; the figure says so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from nfslab.evidence.syscalls.accesses import accesses_of
from nfslab.evidence.syscalls.sync_blocks import PARTS
from nfslab.evidence.syscalls.sync_steps import STEPS
from nfslab.report.html.accesses import POINTS_ALL as ACCESSES_ALL
from nfslab.report.html.accesses import accesses_figure
from nfslab.report.html.columns import pack_json
from nfslab.report.html.grid import quantile_grid
from nfslab.report.html.syscall_tables import tables_of
from nfslab.report.html.wording import quantity
from nfslab.report.syscalls import BLOCK_WORDS, STEP_WORDS, facts, sentences

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nfslab.evidence.syscalls.sync_series import SyncSeries
    from nfslab.report.html.capture.cells import Table
    from nfslab.report.shown_runs import ShownRuns
    from nfslab.report.syscalls import WatchedCalls
    from nfslab.statistics.latency_parts import PartsSummary

NS: Final = 1e9
SERIES_MOST: Final = 8
POINTS_ALL: Final = 60_000
POINTS_SERIES: Final = 12_000
LABELS_MOST: Final = 8
"""Changes of one series whose labels are drawn; all have a line."""
PAD: Final = 0.06
STEP_COLOURS: Final = ("c5", "c1", "c3", "c8")
BLOCK_COLOURS: Final = ("c3", "c1", "c6", "c8")
EXPLAINED: Final = (
    "Every call that makes bytes durable, timed from its entry to its return, in the order of the "
    "calls. Levels are medians between changes; a change is one that noise gives in at most one "
    "series of a hundred, and of a quarter or more in the median."
)


@dataclass(slots=True)
class RunSection:
    """One run (or watch)."""

    label: str
    sentences: list[str]
    tables: list[Table]
    facts: list[str]
    figure: str = ""
    """Name of the data of the curve; empty without a sync."""
    splits: list[str] = field(default_factory=list)
    """Names of the data of stacked bars."""
    accesses: str = ""
    """Name of the data of sizes and offsets over time; empty without a single access."""


@dataclass(slots=True)
class CallsSection:
    """Everything of the section; no runs: there is none."""

    runs: list[RunSection] = field(default_factory=list)
    explained: str = EXPLAINED
    left_out: int = 0
    problems: list[str] = field(default_factory=list)
    chunks: dict[str, str] = field(default_factory=dict)


def calls_section(
    found: ShownRuns[WatchedCalls], name: str, label: Callable[[int, int], str]
) -> CallsSection:
    """Of an experiment's runs; `label` gets point and block."""
    made = CallsSection(left_out=found.left_out, problems=list(found.problems))
    domain = latency_domain([run.found for run in found.runs])
    for number, run in enumerate(found.runs):
        key = f"syncs-{number}"
        made.runs.append(
            run_section(
                made.chunks,
                run.found,
                key,
                name,
                label(run.point, run.block),
                domain,
                runs=len(found.runs),
            )
        )
    return made


def run_section(
    chunks: dict[str, str],
    calls: WatchedCalls,
    key: str,
    name: str,
    label: str,
    domain: list[float] | None = None,
    *,
    runs: int = 1,
    by_file: bool = False,
) -> RunSection:
    """One run's part, of so many in the page; its data goes into `chunks`, named `key`..."""
    section = RunSection(label, sentences(calls), tables_of(calls, by_file=by_file), facts(calls))
    series = [one for one in calls.found.series if one.calls][:SERIES_MOST]
    if series:
        section.figure = key
        whole = domain or latency_domain([calls])
        chunks[key] = pack_json(
            _curve(series, name, POINTS_ALL // runs, whole, len(calls.found.series))
        )
    rows: list[tuple[str, Any]] = []
    if calls.steps is not None:
        rows.append(("steps", _steps_split(calls, name)))
    if calls.blocks is not None:
        rows.append(("blocks", _blocks_split(calls, name)))
    for what, payload in rows:
        if payload["split"]["rows"]:
            section.splits.append(f"{key}-{what}")
            chunks[f"{key}-{what}"] = pack_json(payload)
    accesses = accesses_of(calls.tables, by_file=by_file) if calls.tables is not None else None
    if accesses is not None and accesses.groups:
        section.accesses = f"{key}-accesses"
        payload = accesses_figure(chunks, accesses, section.accesses, name, ACCESSES_ALL // runs)
        chunks[section.accesses] = pack_json(payload)
    return section


def latency_domain(all_calls: Sequence[WatchedCalls]) -> list[float]:
    """log10 of seconds, over all series that are drawn."""
    values = [
        int(value)
        for calls in all_calls
        for one in calls.found.series[:SERIES_MOST]
        if one.calls
        for value in (one.latency_ns.min(), one.latency_ns.max())
    ]
    if not values:
        return [-6.0, 0.0]
    low, high = (math.log10(max(value, 1) / NS) for value in (min(values), max(values)))
    pad = max(PAD * (high - low), 0.1)
    return [low - pad, high + pad]


def _curve(
    series: Sequence[SyncSeries], name: str, room: int, domain: list[float], of: int
) -> dict[str, Any]:
    share = max(200, min(POINTS_SERIES, room // len(series)))
    drawn = [_series(one, share) for one in series]
    return {
        "name": name,
        "captures": [],
        "syncs": {
            "series": drawn,
            "left_out": of - len(series),
            "calls_domain": [0.0, max(one.calls for one in series) * (1 + PAD / 2)],
            "time_domain": _time_domain(series),
            "domain": domain,
            "quantiles": quantile_grid(),
            "nines_domain": [
                -0.02,
                max(1.0, math.log10(max(10, *(s.calls for s in series)))) * 1.02,
            ],
        },
    }


def _time_domain(series: Sequence[SyncSeries]) -> list[float]:
    last_s = max(int(one.t_ns.max()) for one in series) / NS
    return [0.0, max(last_s, 1e-6) * (1 + PAD / 2)]


def _series(one: SyncSeries, most: int) -> dict[str, Any]:
    """Points, levels and changes of one series."""
    import numpy as np

    rows, stride = _drawn(one, most)
    seconds = np.maximum(one.latency_ns, 1) / NS
    changes = []
    for i, level in enumerate(one.steps.levels[1:]):
        before = one.steps.levels[i]
        text = (
            f"after {level.start:,}: {quantity(before.median_ns, 'ns')} → "
            f"{quantity(level.median_ns, 'ns')}"
        )
        changes.append(
            {
                "call": level.start + 0.5,
                "t": (int(one.t_ns[level.start - 1]) + int(one.t_ns[level.start])) / 2 / NS,
                "label": text if i < LABELS_MOST else "",
                "p": one.steps.p_values[i],
            }
        )
    return {
        "label": f"{one.file_class}, {one.what}",
        "calls": one.calls,
        "stride": stride,
        "call": (rows + 1).tolist(),
        "t": [round(value, 6) for value in (one.t_ns[rows] / NS).tolist()],
        "y": [round(value, 4) for value in np.log10(seconds[rows]).tolist()],
        "levels": [
            {
                "calls": [level.start + 0.5, level.end + 0.5],
                "t": [int(one.t_ns[level.start]) / NS, int(one.t_ns[level.end - 1]) / NS],
                "median_s": level.median_ns / NS,
                "n": level.calls,
            }
            for level in one.steps.levels
        ],
        "changes": changes,
        "quantiles_s": _quantiles(one),
    }


def _drawn(one: SyncSeries, most: int) -> tuple[Any, int]:
    """Rows that are drawn: all, or one in k and the slowest of each k."""
    import numpy as np

    n = one.calls
    if n <= most:
        return np.arange(n), 1
    stride = math.ceil(2 * n / most)
    firsts = np.arange(0, n, stride)
    whole = n // stride * stride
    slowest = one.latency_ns[:whole].reshape(-1, stride).argmax(axis=1) + firsts[: n // stride]
    return np.unique(np.concatenate([firsts, slowest])), stride


def _quantiles(one: SyncSeries) -> list[float | None]:
    """At the page's grid; None beyond what so many calls can tell."""
    from nfslab.statistics.quantile_estimator import quantiles, samples_needed

    grid = quantile_grid()
    made = quantiles(one.latency_ns, grid)
    return [
        found.value / NS if q in (0, 1) or one.calls >= samples_needed(q) else None
        for q, found in zip(grid, made, strict=True)
    ]


def _steps_split(calls: WatchedCalls, name: str) -> dict[str, Any]:
    rows = calls.steps.rows if calls.steps is not None else []
    bars = [_bar(f"{r.what}, {r.file_class} · {r.target}", r.summary) for r in rows]
    words = [STEP_WORDS[step] for step in STEPS]
    caption = (
        "Shares of the syncs' summed time, by the WRITEs and COMMITs of the same file that were "
        "under way; an instant at which several were counts for the first of these."
    )
    return _split(name, "What syncs on NFS wait for", caption, words, STEP_COLOURS, bars)


def _blocks_split(calls: WatchedCalls, name: str) -> dict[str, Any]:
    rows = calls.blocks.rows if calls.blocks is not None else []
    bars = [_bar(f"{r.what}, {r.file_class}", r.summary) for r in rows]
    words = [BLOCK_WORDS[part] for part in PARTS]
    caption = (
        "Shares of the syncs' summed time, by the requests that the file's disks were busy with."
    )
    return _split(name, "What syncs on local disks wait for", caption, words, BLOCK_COLOURS, bars)


def _split(
    name: str, title: str, caption: str, words: Sequence[str], colours: Sequence[str],
    rows: list[dict[str, Any]],
) -> dict[str, Any]:  # fmt: skip
    parts = [{"label": w, "colour": c} for w, c in zip(words, colours, strict=True)]
    split = {"title": title, "caption": caption, "parts": parts, "rows": rows[:SERIES_MOST]}
    return {"name": name, "captures": [], "split": split}


def _bar(label: str, one: PartsSummary) -> dict[str, Any]:
    return {
        "label": label,
        "shares": [part or 0.0 for part in one.share],
        "means_s": [mean / NS for mean in one.mean_ns],
        "whole_s": one.whole_mean_ns / NS,
        "calls": one.calls,
    }

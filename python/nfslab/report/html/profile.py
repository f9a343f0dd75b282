"""The page's section "Where the CPU time goes": bars by point, a flame graph, functions.

Flow: `nfslab.report.profile` (one merged profile a point) -> bars of who had the CPUs (idle with
them), the tree of the flame graph in one chunk a point, tables. Weights, scales and errors stand
in the payload; the page adds up weights of frames that a reader searches for.

Decisions. The tree is pruned here: frames below `LEAST_SHARE` of what was not idle are left out (a
pixel is about as much), at most `FRAMES_MOST` a point; what was left out is counted and said. A
chunk has the tree in preorder as columns: depth, name, weight, kernel; so a page with tens of
thousands of frames stays small and quick.

Limits: `ROOM_BYTES` for all trees; points beyond have their tables only, and are counted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from nfslab.evidence.profile.stacks import tree_of
from nfslab.report.html.capture.cells import Cell, Column, Table, count, share, text
from nfslab.report.html.columns import ChunkWriter, pack, pack_json
from nfslab.report.profile import EXPLAINED, compared, sentences

if TYPE_CHECKING:
    from collections.abc import Callable

    from nfslab.report.profile import FoundProfiles, PointProfile

FIGURE: Final = "profile"
BARS: Final = "profile-bars"
TITLE: Final = "Where the CPU time goes"
LEAST_SHARE: Final = 0.0005
FRAMES_MOST: Final = 20_000
ROOM_BYTES: Final = 3_000_000
FUNCTIONS_SHOWN: Final = 30
POINTS_COMPARED: Final = 8
PARTS: Final = (
    ("run, user", "cpu-user"),
    ("run, kernel", "cpu-system"),
    ("nfslab", "c3"),
    ("kernel threads, interrupts", "cpu-irq"),
    ("other processes", "c7"),
    ("perf", "c5"),
    ("idle", "wait-other"),
)
"""Parts of a bar with the names of their colours."""
BARS_CAPTION: Final = (
    "Who had the CPUs in the timed part, by samples; all counted runs of a point together. Beside "
    "each bar the CPU time that it is of."
)


@dataclass(slots=True)
class PointSection:
    """One point: what is said, its table."""

    label: str
    sentences: list[str]
    functions: Table
    notes: list[str]


@dataclass(slots=True)
class ProfileSection:
    """Everything of the section; no points: there is none."""

    points: list[PointSection] = field(default_factory=list)
    bars: str = ""
    flame: str = ""
    compared: Table | None = None
    explained: str = EXPLAINED
    cost: str = ""
    left_out: int = 0
    problems: list[str] = field(default_factory=list)
    chunks: dict[str, str] = field(default_factory=dict)


def profile_section(found: FoundProfiles, name: str, label: Callable[[int], str]) -> ProfileSection:
    """The section of these points. `name`: of the experiment, for saved pictures."""
    made = ProfileSection(left_out=found.left_out, problems=list(found.unread()))
    shown = [(one, label(one.point) or "all runs") for one in found.points]
    if not shown:
        return made
    made.bars = BARS
    made.chunks[BARS] = pack_json({"name": name, "captures": [], "split": _split(shown)})
    flame = _flame(shown, made)
    made.chunks[FIGURE] = pack_json({"name": name, "captures": [], "flame": flame})
    made.flame = FIGURE if flame["points"] else ""
    for one, title in shown:
        made.points.append(PointSection(title, sentences(one), _functions(one), one.notes))
    if len(shown) > 1:
        made.compared = _compared(shown[:POINTS_COMPARED])
    made.cost = _cost(found)
    return made


def _split(shown: list[tuple[PointProfile, str]]) -> dict[str, Any]:
    """The payload of the bars, as the figure `split` takes it."""
    rows = []
    for one, label in shown:
        shares = _part_shares(one)
        rows.append(
            {
                "label": label,
                "shares": shares,
                "means_s": [share * one.cpu_s for share in shares],
                "whole_s": one.cpu_s,
                "calls": one.samples,
            }
        )
    return {
        "title": "Who had the CPUs",
        "caption": BARS_CAPTION,
        "parts": [{"label": label, "colour": colour} for label, colour in PARTS],
        "rows": rows,
        "words": {"count": "samples", "whole": "CPU time", "part": "time"},
    }


def _part_shares(one: PointProfile) -> list[float]:
    """As `PARTS`."""
    classes = one.class_shares()
    whole = {klass: user + kernel for klass, (user, kernel) in classes.items()}
    user, kernel = classes.get("run", (0.0, 0.0))
    return [
        user,
        kernel,
        whole.get("nfslab", 0.0),
        whole.get("kernel threads", 0.0) + whole.get("interrupts", 0.0),
        whole.get("other", 0.0),
        whole.get("perf", 0.0),
        1.0 - one.busy_share,
    ]


def _flame(shown: list[tuple[PointProfile, str]], made: ProfileSection) -> dict[str, Any]:
    """Payload of the flame graph; its trees become chunks of the section."""
    points = []
    room = ROOM_BYTES
    for number, (one, label) in enumerate(shown):
        tree = tree_of(one.stacks.found, LEAST_SHARE, FRAMES_MOST)
        if not tree.rows:
            continue
        writer = ChunkWriter()
        names: dict[str, int] = {}
        rows = tree.rows
        header = {
            "depth": writer.counts([row.depth for row in rows]),
            "name": writer.counts([names.setdefault(row.name, len(names)) for row in rows]),
            "weight": writer.counts([row.weight for row in rows]),
            "kernel": writer.counts([int(row.kernel) for row in rows]),
        }
        chunk = pack(writer.finish({**header, "names": list(names)}))
        if len(chunk) > room:
            made.problems.append(f"{label}: no room for its flame graph in this file.")
            continue
        room -= len(chunk)
        key = f"{FIGURE}-{number}"
        made.chunks[key] = chunk
        points.append(
            {
                "label": label,
                "chunk": key,
                "samples": one.samples,
                "runs": one.stacks.runs,
                "frames": len(rows),
                "left_out": tree.left_out_frames,
                "least_share": tree.least_weight / tree.total_weight,
                "weight": tree.total_weight,
                "busy_share": one.busy_share,
                "whole_machine": one.whole_machine,
                "cpu_s": one.cpu_s,
                "functions": [
                    [it.name, it.kernel, one.self_share(it), one.total_share(it)]
                    for it in one.functions[:FUNCTIONS_SHOWN]
                ],
            }
        )
    return {"points": points}


def _functions(one: PointProfile) -> Table:
    rows = []
    for function in one.functions[:FUNCTIONS_SHOWN]:
        if not function.self_weight:
            break
        own = one.self_share(function)
        rows.append(
            [
                text(function.name, "code"),
                text("kernel" if function.kernel else "user"),
                count(function.self_samples),
                share(own),
                _error(one.error(own)),
                share(one.total_share(function)),
                share(one.machine_share(function)),
            ]
        )
    of = "all CPU time" if one.whole_machine else "the processes' CPU time"
    columns = [
        Column("function", numeric=False),
        Column("where", numeric=False),
        Column("samples", hint="in which it was running itself"),
        Column("self", hint=f"share of {of}"),
        Column("± 95 %", hint="of the share, from the number of samples"),
        Column("total", hint="with all that it called"),
        Column("self, all processes", hint="those of others with it"),
    ]
    left = sum(bool(function.self_weight) for function in one.functions) - len(rows)
    note = f"{left:,} more functions: evidence/profile_stacks.parquet has all." if left else ""
    return Table(title="Functions", columns=columns, rows=rows, note=note)


def _error(value: float) -> Cell:
    found = share(value)
    return Cell(f"± {found.text}", found.value)


def _compared(shown: list[tuple[PointProfile, str]]) -> Table:
    columns = [Column("function", numeric=False), Column("where", numeric=False)]
    columns += [Column(label) for _, label in shown]
    rows = [
        [
            text(function.name, "code"),
            text("kernel" if function.kernel else "user"),
            *map(share, shares),
        ]
        for function, shares in compared([one for one, _ in shown])
    ]
    return Table(title="Functions by point (their own time)", columns=columns, rows=rows)


def _cost(found: FoundProfiles) -> str:
    """What recording cost, over all runs."""
    shares = [
        one["perf_share_of_a_cpu"]
        for point in found.points
        for one in point.summaries
        if one.get("perf_share_of_a_cpu") is not None
    ]
    if not shares:
        return ""
    first = found.points[0].summaries[0]
    return (
        f"Recorded with {first['event']} at {first['frequency_hz']} Hz a CPU, call graphs by "
        f"{first['call_graph']}; perf itself took {max(shares):.2%} of one CPU at most while it "
        "recorded. What the sampled work loses by each interrupt is not in that."
    )

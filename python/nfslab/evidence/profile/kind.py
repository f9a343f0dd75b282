"""The evidence `profile` in reports: who had the CPUs, by point; a flame graph; functions.

Sums, sentences and tables are of the facts of all counted runs. The flame graph reads the stacks of
a point's runs when a page is written; it is pruned here: frames below `LEAST_SHARE` of what was not
idle are left out (a pixel is about as much), at most `FRAMES_MOST` a point, and counted.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

from nfslab.display.cells import count, share, text
from nfslab.display.figures import Axis, Figure, Flame, Part, Stacked, View, Whole
from nfslab.display.numbers import counted, percent
from nfslab.display.sections import Cell, Column, Section, Table
from nfslab.evidence.base import ColumnSpec, EvidenceKind, TableSpec
from nfslab.evidence.found import by_point
from nfslab.evidence.profile.facts import ProfileFacts, profile_facts
from nfslab.evidence.profile.points import PointProfile, as_content, compared, sentences
from nfslab.evidence.profile.stacks import ROWS_MAX, TABLE, Stacks, read_stacks, tree_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nfslab.evidence.base import Facts, Found, RunFacts, SealedRun

EXPLAINED: Final = (
    "Samples of what each CPU was doing (perf). Run: all that nfslab started, the workload and its "
    "servers; nfslab: itself, also where its core makes the load. Functions are those of the run "
    "and of the kernel's threads. Self: the function itself was running; total: it or what it "
    "called."
)
LEAST_SHARE: Final = 0.0005
FRAMES_MOST: Final = 20_000
FUNCTIONS_SHOWN: Final = 30
POINTS_COMPARED: Final = 8
POINTS_MOST: Final = 24
"""Points that have a part of their own."""
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
FLAME_COLOURS: Final = (("process", "c8"), ("user", "cpu-user"), ("kernel", "cpu-system"))
BARS_CAPTION: Final = (
    "Who had the CPUs in the timed part, by samples; all counted runs of a configuration "
    "together. Beside "
    "each bar the CPU time that it is of."
)
FLAME_CAPTION: Final = (
    "Each frame is a function, as wide as the time in which it, or what it called, was running; "
    "what it called stands below it. From left to right frames are in the order of their names."
)


class ProfileEvidence(EvidenceKind[ProfileFacts]):
    """Where the CPU time went."""

    kind: ClassVar[str] = "profile"
    title: ClassVar[str] = "Where the CPU time goes"
    tables: ClassVar[tuple[TableSpec, ...]] = (
        TableSpec(
            TABLE,
            (
                ColumnSpec("t_ns", "int64", "ns"),
                ColumnSpec("class", "string"),
                ColumnSpec("process", "string"),
                ColumnSpec("stack", "string"),
                ColumnSpec("frames", "int32"),
                ColumnSpec("kernel_frames", "int32"),
                ColumnSpec("samples", "int64"),
                ColumnSpec("weight", "int64"),
            ),
        ),
    )
    Facts: ClassVar[type[Facts]] = ProfileFacts
    json_key: ClassVar[str] = "profiles"

    def facts(self, run: SealedRun) -> ProfileFacts | None:
        """Sums over the stacks of one run."""
        return profile_facts(run)

    def content(self, found: Found[ProfileFacts]) -> list[dict[str, Any]]:
        """One entry a point."""
        return as_content([profile for profile, _ in points_of(found)])

    def section(self, found: Found[ProfileFacts]) -> Section | None:
        """Of one point flat; of several with a part for each."""
        points = points_of(found)
        shown = points[:POINTS_MOST]
        parts = [
            Section(one.label, sentences=sentences(one), tables=[_functions(one)], notes=one.notes)
            for one, _ in shown
        ]
        figures = [_bars([profile for profile, _ in points]), _flames(shown)]
        notes = _cost([profile for profile, _ in points])
        if left := len(points) - len(shown):
            more = counted(left, "more configuration")
            notes.append(f"{more} with a profile: `nfslab show` has runs.")
        whole = Section(
            self.title, "profile-section", EXPLAINED, figures=figures, notes=notes, parts=parts
        )
        if len(points) > 1:
            table = _compared([profile for profile, _ in shown][:POINTS_COMPARED])
            return replace(whole, tables=[table])
        one = parts[0]
        return replace(
            whole, sentences=one.sentences, tables=one.tables, notes=[*one.notes, *notes], parts=()
        )


def points_of(
    found: Found[ProfileFacts],
) -> list[tuple[PointProfile, Sequence[RunFacts[ProfileFacts]]]]:
    """The profile of each point with the runs that it is of."""
    return [
        (PointProfile(label, [run.facts for run in runs]), runs)
        for _, label, runs in by_point(found)
    ]


def _bars(points: Sequence[PointProfile]) -> Figure:
    wholes = [
        Whole(
            one.label,
            [part * one.cpu_s for part in _part_shares(one)],
            hint=f"{one.samples:,} samples",
        )
        for one in points
    ]
    parts = [Part(label, colour) for label, colour in PARTS]
    drawing = Stacked(Axis("CPU time", "s"), parts, wholes)
    return Figure.of("profile-bars", "Who had the CPUs", BARS_CAPTION, drawing)


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


def _flames(
    points: Sequence[tuple[PointProfile, Sequence[RunFacts[ProfileFacts]]]],
) -> Figure:
    views = [
        View(
            partial(_flame, [run.run for run in runs]),
            (profile.label,),
            f"{counted(profile.samples, 'sample')} of {counted(len(runs), 'run')}; frames of less "
            f"than {percent(LEAST_SHARE)} of them are left out.",
        )
        for profile, runs in points
    ]
    return Figure(
        "profile-flame", "What the CPUs did", FLAME_CAPTION, views, choices=("Point",), rank=2
    )


def _flame(runs: Sequence[SealedRun]) -> Flame | None:
    """Stacks of these runs as one tree; runs beyond `ROWS_MAX` rows are not in it."""
    stacks, rows = Stacks(), 0
    for run in runs:
        if rows > ROWS_MAX:
            break
        read = read_stacks(run.folder)
        rows += len(read)
        stacks.merge(read)
    frames = tree_of(stacks.found, LEAST_SHARE, FRAMES_MOST)
    if not frames:
        return None
    names: dict[str, int] = {}
    return Flame(
        depth=[row.depth for row in frames],
        name=[names.setdefault(row.name, len(names)) for row in frames],
        names=list(names),
        weight=[row.weight for row in frames],
        colour=[0 if row.depth == 0 else 2 if row.kernel else 1 for row in frames],
        colours=FLAME_COLOURS,
        what="weight of samples",
    )


def _functions(one: PointProfile) -> Table:
    shown = [f for f in one.functions[:FUNCTIONS_SHOWN] if f.self_weight]
    of = "all CPU time" if one.whole_machine else "the processes' CPU time"
    left = sum(function.self_weight > 0 for function in one.functions) - len(shown)
    note = f"{left:,} more functions: evidence/profile_stacks.parquet has all." if left else ""
    return Table.of("Functions", shown, [
        (Column("function", numeric=False), lambda f: text(f.name)),
        (Column("where", numeric=False), lambda f: text("kernel" if f.kernel else "user")),
        (Column("samples", hint="in which it was running itself"), lambda f: count(f.self_samples)),
        (Column("self", hint=f"share of {of}"), lambda f: share(one.share(f.self_weight))),
        (Column("± 95 %", hint="of the share, from the number of samples"),
         lambda f: _error(one.error(one.share(f.self_weight)))),
        (Column("total", hint="with all that it called"),
         lambda f: share(one.share(f.total_weight))),
        (Column("self, all processes", hint="those of others with it"),
         lambda f: share(one.share(f.machine_self_weight))),
    ], note=note)  # fmt: skip


def _error(error: float) -> Cell:
    return Cell(f"± {percent(error)}", error)


def _compared(points: Sequence[PointProfile]) -> Table:
    columns = [Column("function", numeric=False), Column("where", numeric=False)]
    columns += [Column(one.label) for one in points]
    rows = [
        [text(function.name), text("kernel" if function.kernel else "user"), *map(share, shares)]
        for function, shares in compared(points)
    ]
    return Table("Functions by configuration (their own time)", columns, rows)


def _cost(points: Sequence[PointProfile]) -> list[str]:
    """What recording cost, over all runs."""
    shares = [
        one["perf_share_of_a_cpu"]
        for point in points
        for one in point.summaries
        if one.get("perf_share_of_a_cpu") is not None
    ]
    if not shares:
        return []
    first = points[0].summaries[0]
    return [
        f"Recorded with {first['event']} at {first['frequency_hz']} Hz a CPU, call graphs by "
        f"{first['call_graph']}; perf itself took {percent(max(shares))} of one CPU at most while "
        "it recorded. What the sampled work loses by each interrupt is not in that."
    ]

"""Requests on a web server (the workload `web`), by kind and class, and connections that conform.

The workload's own samples feed it: `web_kinds`, `web_classes`, `web_steps`, `web_errors`. What a
request took of the storage is other collectors' (`storage`).
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any, ClassVar, Final

from nfslab.display import cells
from nfslab.display.figures import Axis, Bar, Bars, Figure, Lines, Panel, Rule, Series
from nfslab.display.sections import Column, Section, Table
from nfslab.evidence.base import EvidenceKind, Facts
from nfslab.evidence.found import by_point
from nfslab.evidence.over_time import middle
from nfslab.evidence.same import POINT, RUNS, Same, median, total
from nfslab.evidence.web.costs import costs_tables
from nfslab.evidence.web.storage import StorageFacts, storage_of
from nfslab.results.evidence_tables import evidence_path, sample_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nfslab.display.sections import Cell, Shown
    from nfslab.evidence.base import Found, RunFacts, SealedRun

WORKLOAD: Final = "web"
KINDS: Final = {
    "static_get": "static GET",
    "dynamic_get": "dynamic GET",
    "cgi_get": "CGI-like GET",
    "ad_get": "ad GET",
    "post": "POST",
}
CLASSES: Final = ("0.1 to 0.9 KB", "1 to 9 KB", "10 to 90 KB", "100 to 900 KB")
INTRO: Final = (
    "What the load's connections saw in the timed part: latency is from the planned instant of a "
    "request to the last byte of its reply. Medians over the runs of a configuration; counts of "
    "all runs."
)
LINES_NOTE: Final = (
    "On lines latency is mostly the line's own: a reply of 90 KB needs 1.8 s at 400,000 bit/s."
)
CAPTION: Final = "All steps of all runs; a step above the line of its share conformed."
LEAST_SHARE: Final = 0.95
"""Where parameters of a run do not tell."""
POINTS_OPEN: Final = 4
"""Of more points the table by kind, with a row for each, is closed at first."""
VERDICTS: Final = {"good": "conforms", "bad": "does not", "invalid": "the generator was the limit"}


class Requests(Facts):
    """Of one kind of request, or one class of file."""

    name: str
    done: int
    failed: int | None
    """None: not counted by class."""
    bytes: int
    mean_ns: float | None
    p50_ns: float | None
    p99_ns: float | None
    p999_ns: float | None
    max_ns: float | None


class Step(Facts):
    """So many connections on lines, tried."""

    connections: int
    conforming: int
    verdict: str
    searched: bool


class WebFacts(Facts):
    """Of a run."""

    kinds: tuple[Requests, ...]
    classes: tuple[Requests, ...]
    steps: tuple[Step, ...]
    errors: dict[str, int]
    least_share: float
    """Of the connections, how many had to conform."""
    server_cpu_ns: float | None = None
    """A request."""
    client_cpu_ns: float | None = None
    """Of the generator."""
    storage: StorageFacts | None = None
    """None: nobody watched."""

    @property
    def calls(self) -> dict[str, float] | None:
        """NFS calls of a request, by operation."""
        return None if self.storage is None else self.storage.nfs


class WebEvidence(EvidenceKind[WebFacts]):
    """What the clients of a web server saw."""

    kind: ClassVar[str] = "web"
    title: ClassVar[str] = "Web requests"
    Facts: ClassVar[type[Facts]] = WebFacts
    version: ClassVar[int] = 2

    def present(self, run: SealedRun) -> bool:
        """Of every run of the workload."""
        return evidence_path(run.folder, "web_kinds", "samples").is_file()

    def facts(self, run: SealedRun) -> WebFacts | None:
        """Of its samples. ResultsError."""
        if not self.present(run):
            return None
        errors: dict[str, int] = {}
        for row in sample_rows(run.folder, "web_errors"):
            errors[row["error"]] = errors.get(row["error"], 0) + row["count"]
        workload = run.record.parameters.get("workload", {})
        return WebFacts(
            kinds=tuple(
                _requests(row, KINDS[row["kind"]]) for row in sample_rows(run.folder, "web_kinds")
            ),
            classes=tuple(
                _requests(row, CLASSES[row["class"]])
                for row in sample_rows(run.folder, "web_classes")
            ),
            steps=tuple(
                Step(**{name: row[name] for name in Step.model_fields})
                for row in sample_rows(run.folder, "web_steps")
            ),
            errors=errors,
            least_share=workload.get("conforming_share", LEAST_SHARE),
            server_cpu_ns=_cpu_ns(run, "server"),
            client_cpu_ns=_cpu_ns(run, "client"),
            storage=storage_of(run),
        )

    def section(self, found: Found[WebFacts]) -> Section | None:
        """By kind, by class, by number of connections."""
        if not found.runs:
            return None
        on_lines = any(run.facts.steps for run in found.runs)
        few = len(by_point(found)) <= POINTS_OPEN
        tables = [
            *costs_tables(found),
            _requests_table("By kind of request", found, lambda facts: facts.kinds, True, few),
            _requests_table("By class of file", found, lambda facts: facts.classes, False, False),
        ]
        if on_lines:
            tables.append(_steps_table(found))
        return Section(
            self.title,
            anchor=self.kind,
            intro=INTRO,
            sentences=[said for run in found.runs if (said := _edge(run))],
            tables=tables,
            figures=[_lines_figure(found) if on_lines else _latency_figure(found)],
            notes=[*([LINES_NOTE] if on_lines else []), *_errors(found)],
        )


def _cpu_ns(run: SealedRun, whose: str) -> float | None:
    metric = run.record.metrics.get(f"{whose}_cpu_us_per_request")
    return None if metric is None else metric.value * 1e3


def _requests(row: dict[str, Any], name: str) -> Requests:
    numbers = {key: row.get(key) for key in Requests.model_fields if key != "name"}
    return Requests.model_validate({"name": name} | numbers)


def _same(
    found: Found[WebFacts], of: Callable[[WebFacts], Sequence[Requests]]
) -> list[Same[Requests]]:
    """A row for each name at each point, where anything was asked for."""
    made = []
    for _, label, runs in by_point(found):
        for rows in zip(*(of(run.facts) for run in runs), strict=True):
            if any(one.done or one.failed for one in rows):
                made.append(Same(label, rows, name=rows[0].name))
    return made


def _requests_table(
    title: str,
    found: Found[WebFacts],
    of: Callable[[WebFacts], Sequence[Requests]],
    failed: bool,
    open: bool,
) -> Table:
    name: Shown[Same[Any]] = (Column("requests", False), lambda one: cells.text(one.name))
    errors: Shown[Same[Any]] = (
        Column("failed"),
        lambda one: cells.count(_failed(one), "severe" if _failed(one) else ""),
    )
    columns: list[Shown[Same[Any]]] = [
        POINT, RUNS, name,
        (Column("done"), total(lambda one: one.done)),
        *([errors] if failed else []),
        (Column("bytes"), median(lambda one: one.bytes, "B")),
        (Column("mean"), median(lambda one: one.mean_ns, "ns")),
        (Column("p50"), median(lambda one: one.p50_ns, "ns")),
        (Column("p99"), median(lambda one: one.p99_ns, "ns")),
        (Column("p99.9"), median(lambda one: one.p999_ns, "ns")),
        (Column("max", hint="the largest of all runs"), _largest),
    ]  # fmt: skip
    return Table.of(title, _same(found, of), columns, open=open)


def _failed(one: Same[Requests]) -> int:
    return sum(run.failed or 0 for run in one.runs)


def _largest(one: Same[Requests]) -> Cell:
    known = [run.max_ns for run in one.runs if run.max_ns is not None]
    return cells.quantity(max(known) if known else None, "ns")


def _steps_table(found: Found[WebFacts]) -> Table:
    """Numbers of connections that were tried, by point."""
    made: list[Same[Step]] = []
    for _, label, runs in by_point(found):
        steps = sorted(
            (step for run in runs for step in run.facts.steps), key=lambda step: step.connections
        )
        for _, some in groupby(steps, key=lambda step: step.connections):
            made.append(Same(label, list(some)))
    return Table.of("By connections", made, [
        POINT,
        (Column("connections"), lambda one: cells.count(one.runs[0].connections)),
        (Column("tried", hint="loads, in all runs"), lambda one: cells.count(len(one.runs))),
        (Column("conforming"), median(lambda step: step.conforming / step.connections, "share")),
        (Column("verdict", False), lambda one: cells.text(
            ", ".join(sorted({VERDICTS[step.verdict] for step in one.runs}))
        )),
    ], open=False)  # fmt: skip


def _edge(run: RunFacts[WebFacts]) -> str:
    """What a search found, between which two numbers; empty without one.

    A number that conformed for a short step may not have for a longer one: the timed part has the
    one that was found.
    """
    tried = [step for step in run.facts.steps if step.searched]
    found = next((step.connections for step in run.facts.steps if not step.searched), 0)
    bad = [step for step in tried if step.verdict == "bad" and step.connections > found]
    below = [step for step in tried if step.verdict == "good" and step.connections <= found]
    if not bad or not below:
        return ""
    most = max(below, key=lambda step: step.connections)
    least = min(bad, key=lambda step: step.connections)
    return (
        f"{run.label}: of {most.connections:,} connections {most.conforming:,} conformed, enough; "
        f"of {least.connections:,} only {least.conforming:,} did."
    )


def _lines_figure(found: Found[WebFacts]) -> Figure:
    series = []
    for _, label, runs in by_point(found):
        steps = sorted(
            (step for run in runs for step in run.facts.steps), key=lambda step: step.connections
        )
        numbers = [float(step.connections) for step in steps]
        shares = [step.conforming / step.connections for step in steps]
        series.append(Series(label, numbers, shares, draw="dots"))
    least = sorted({run.facts.least_share for run in found.runs})
    rules = [Rule(share, "y", f"{share:.0%}") for share in least]
    panel = Panel("Conforming connections", Axis("share", "1", low=0.0), series, rules)
    x = Axis("connections", "1", low=0.0)
    title = "Share of connections that conform"
    return Figure.of("web-conforming", title, CAPTION, Lines(x, [panel]))


def _latency_figure(found: Found[WebFacts]) -> Figure:
    """The 99th percentile of each kind, by point."""
    bars = []
    for row in _same(found, lambda facts: facts.kinds):
        p99_ns = middle(run.p99_ns for run in row.runs)
        if p99_ns is not None:
            bars.append(Bar(row.point, p99_ns / 1e9, group=row.name))
    return Figure.of(
        "web-latency",
        "Latency by kind of request",
        "99th percentiles, medians over the runs.",
        Bars(Axis("p99", "s"), bars),
    )


def _errors(found: Found[WebFacts]) -> list[str]:
    return [
        f"{run.label}: failed "
        + ", ".join(f"{count:,} x {error}" for error, count in run.facts.errors.items())
        + "."
        for run in found.runs
        if run.facts.errors
    ]

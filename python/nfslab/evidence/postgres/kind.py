"""PostgreSQL under load: facts, section and panel of the collector `postgres`.

Facts are the mean number of backends by what they waited for in the timed part, and the counters'
differences. Flushes of the log are in pg_stat_wal up to version 17; from 18 on they are in
pg_stat_io, in the rows of the object "wal" ("backend type/wal/context").

The server adds up times in whole microseconds, and cuts off the rest: of each flush up to version
15, of each of a process's reports since. A mean below `LEAST_MEAN_MS` may be off by a tenth and
more (37 ns were told of flushes in memory): it is withheld. So is every counter of a view that
was reset while it was watched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from nfslab.display import cells, numbers
from nfslab.display.figures import Axis, Panel, Series
from nfslab.display.sections import Column, Section, Table
from nfslab.evidence.base import ColumnSpec, EvidenceKind, Facts, TableSpec
from nfslab.evidence.over_time import NS, middle, read_rows, thinned
from nfslab.evidence.postgres.exact_waits import TIMES_TABLE
from nfslab.evidence.postgres.sql_waits import WAITS_TABLE
from nfslab.evidence.same import at_points, median

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from numpy.typing import NDArray
    from pydantic import BaseModel

    from nfslab.display.sections import Cell
    from nfslab.evidence.base import Found, SealedRun
    from nfslab.evidence.same import Same

    Floats = NDArray[np.float64]

WAITS_MOST: Final = 8
"""Waits with a band (a row of a point) of their own; the rest is one band."""
RUNNING: Final = "running (no wait)"
OTHER_WAITS: Final = "other"
COLOURS: Final = {RUNNING: "wait-running", OTHER_WAITS: "wait-other"}
LEAST_MEAN_MS: Final = 0.01
"""Ten times what may be cut off each flush."""
CUT_OFF: Final = (
    "the mean time of a flush is withheld: it is below 10 us, of which the server cuts off whole "
    "microseconds"
)
NOTE: Final = (
    "Active backends, by what they waited for; idle ones are left out (of samples of memory: all "
    "that wait for their client)."
)


class WaitFacts(Facts):
    """One wait of active backends."""

    wait: str
    mean_backends: float


class PostgresFacts(Facts):
    """One run."""

    version: str
    samples: int
    missed_ticks: int
    waits: tuple[WaitFacts, ...]
    """The most first."""
    log_flushes: float | None
    log_flush_time_ms: float | None
    """Of all flushes together; None: the server did not take it."""
    flushes_per_transaction: float | None
    deltas: dict[str, float]
    """Counter ("pg_stat_wal.wal_bytes") -> its difference over the timed part."""
    incomplete: str
    """Why the figures are not whole; empty: they are."""


class FlushFigures(Facts):
    """Flushes of the write-ahead log at one point, over the counted runs that have them."""

    runs: int
    flushes_per_transaction: float | None
    """Median over the runs."""
    mean_ms: float | None
    """Time of all flushes over their number; None where the server did not time them, or where
    what it cuts off matters (`LEAST_MEAN_MS`)."""


class PostgresEvidence(EvidenceKind[PostgresFacts]):
    """Wait events and counters of the PostgreSQL under load."""

    kind: ClassVar[str] = "postgres"
    title: ClassVar[str] = "What PostgreSQL did"
    tables: ClassVar[tuple[TableSpec, ...]] = (
        TableSpec(
            WAITS_TABLE,
            (
                ColumnSpec("t_ns", "int64", "ns"),
                ColumnSpec("over_ns", "int64", "ns", optional=True),
                *(
                    ColumnSpec(name, "string")
                    for name in ("backend_type", "wait_event_type", "wait_event", "state")
                ),
                ColumnSpec("backends", "double", "1"),
            ),
        ),
        TableSpec(
            "postgres_counters",
            (
                ColumnSpec("t_ns", "int64", "ns"),
                ColumnSpec("name", "string"),
                ColumnSpec("value", "double"),
            ),
        ),
        TableSpec(
            TIMES_TABLE,
            (
                ColumnSpec("t_ns", "int64", "ns"),
                ColumnSpec("pid", "int32"),
                *(
                    ColumnSpec(name, "string")
                    for name in ("backend_type", "kind", "wait_event_type", "wait_event")
                ),
                ColumnSpec("ns", "int64", "ns"),
            ),
        ),
    )
    Facts: ClassVar[type[Facts]] = PostgresFacts
    version: ClassVar[int] = 2
    point_key: ClassVar[str] = "fsync"
    point_columns: ClassVar[tuple[Column, ...]] = (
        Column("log flushes a transaction"),
        Column("mean flush"),
    )

    def present(self, run: SealedRun) -> bool:
        """The collector's summary is enough."""
        return bool(run.summary("postgres"))

    def facts(self, run: SealedRun) -> PostgresFacts | None:
        """Of the collector's summary."""
        summary = run.summary("postgres")
        reset = {name.partition(".")[0] for name in summary.get("resets", [])}
        deltas = {v: found for v, found in summary.get("deltas", {}).items() if v not in reset}
        incomplete = [summary.get("incomplete", "")]
        if reset:
            incomplete.append(f"reset while it was watched: {', '.join(sorted(reset))}")
        flushes, spent_ms = log_flushes(deltas)
        transactions = run.record.metrics.get(run.record.operations)
        per_transaction = None
        if flushes is not None and transactions is not None and transactions.value > 0:
            per_transaction = flushes / transactions.value
        return PostgresFacts(
            version=summary.get("version", ""),
            samples=summary.get("samples", 0),
            missed_ticks=summary.get("missed_ticks", 0),
            waits=_waits(summary.get("waits", [])),
            log_flushes=flushes,
            log_flush_time_ms=spent_ms or None,
            flushes_per_transaction=per_transaction,
            deltas=dict(_flat("", deltas)),
            incomplete="; ".join(filter(None, incomplete)),
        )

    def at_point(self, runs: Sequence[PostgresFacts]) -> FlushFigures | None:
        """Flushes of the log, as the server counted them."""
        known = [run for run in runs if run.log_flushes is not None]
        if not known:
            return None
        return FlushFigures(
            runs=len(known),
            flushes_per_transaction=middle(run.flushes_per_transaction for run in known),
            mean_ms=None if _is_cut_off(known) else _mean_flush_ms(known),
        )

    def point_cells(self, figures: BaseModel | None) -> Sequence[Cell]:
        """How many a transaction, how long each took."""
        found = figures if isinstance(figures, FlushFigures) else None
        return [
            cells.quantity(found.flushes_per_transaction if found else None, "1"),
            cells.quantity(found.mean_ms if found else None, "ms"),
        ]

    def section(self, found: Found[PostgresFacts]) -> Section | None:
        """Waits and flushes of the log by point."""
        points = at_points(found)
        tables = [self._flush_table(points), _wait_table(points)]
        tables = [table for table in tables if table.rows]
        why = ((run.label, run.facts.incomplete) for run in found.runs)
        incomplete = [f"{label}: not whole: {reason}" for label, reason in why if reason]
        incomplete += [f"{at.point}: {CUT_OFF}" for at in points if _is_cut_off(at.runs)]
        if not tables and not incomplete:
            return None
        return Section(
            self.title,
            anchor=self.kind,
            intro="From PostgreSQL's own views; medians over the runs of a configuration.",
            sentences=_sentences(points),
            tables=tables,
            notes=[*incomplete, NOTE],
        )

    def panels(self, run: SealedRun) -> Sequence[Panel]:
        """Active backends by their wait."""
        t_s, waits = read_waits(run)
        if not waits:
            return ()
        weight = {name: float(values[t_s >= 0].sum()) for name, values in waits.items()}
        named = sorted((n for n in waits if n != RUNNING), key=lambda name: (-weight[name], name))
        if len(named) > WAITS_MOST:
            rare = named[WAITS_MOST - 1 :]
            named = [*named[: WAITS_MOST - 1], OTHER_WAITS]
            waits[OTHER_WAITS] = np.sum([waits[name] for name in rare], axis=0)
        series = []
        for name in [RUNNING] * (RUNNING in waits) + named:
            times, values = thinned(t_s, waits[name])
            series.append(
                Series(name, times, values, draw="stack_steps", colour=COLOURS.get(name, ""))
            )
        axis = Axis("", "1", low=0.0)
        return [Panel("PostgreSQL backends by wait", axis, series, key="waits")]

    def _flush_table(self, points: Sequence[Same[PostgresFacts]]) -> Table:
        known = [(at, figures) for at in points if (figures := self.at_point(at.runs))]
        note = "Medians over the runs; the mean time is that of all flushes that the server timed."
        flushes = median(lambda run: run.log_flushes, "1")
        return Table.of("Flushes of the log", known, [
            (Column("configuration", False), lambda row: cells.text(row[0].point)),
            (Column("runs"), lambda row: cells.count(row[1].runs)),
            (Column("log flushes"), lambda row: flushes(row[0])),
            ([Column("a transaction"), Column("mean time of a flush")],
             lambda row: self.point_cells(row[1])),
        ], note=note)  # fmt: skip


def _mean_flush_ms(runs: Sequence[PostgresFacts]) -> float | None:
    """As the server's clock has it: time of all flushes that it timed over their number."""
    timed = [run for run in runs if run.log_flush_time_ms and run.log_flushes]
    flushes = sum(run.log_flushes or 0.0 for run in timed)
    return sum(run.log_flush_time_ms or 0.0 for run in timed) / flushes if flushes else None


def _is_cut_off(runs: Sequence[PostgresFacts]) -> bool:
    mean_ms = _mean_flush_ms(runs)
    return mean_ms is not None and mean_ms < LEAST_MEAN_MS


def read_waits(run: SealedRun) -> tuple[Floats, dict[str, Floats]]:
    """(times in s, wait -> backends at each); nothing without the table. ResultsError."""
    none: Floats = np.zeros(0)
    texts = ("wait_event_type", "wait_event", "state")
    rows = read_rows(run, WAITS_TABLE, ["t_ns", *texts, "backends"])
    if rows is None:
        return none, {}
    times, place = np.unique(rows["t_ns"].to_numpy(), return_inverse=True)
    keys = list(zip(*(rows[name].to_pylist() for name in texts), strict=True))
    names = {key: wait_name(*key) for key in dict.fromkeys(keys)}
    which = {name: k for k, name in enumerate(dict.fromkeys(n for n in names.values() if n))}
    row_of = {key: -1 if name is None else which[name] for key, name in names.items()}
    at = np.asarray([row_of[key] for key in keys], dtype=np.int64)
    wide = np.zeros((len(which), times.size))
    active = at >= 0
    np.add.at(wide, (at[active], place[active]), rows["backends"].to_numpy()[active])
    return times / NS, dict(zip(which, wide, strict=True))


def wait_name(event_type: str | None, event: str | None, state: str | None) -> str | None:
    """How a sampled backend is counted: by its wait, as running, or (None) as idle."""
    if event_type == "Activity" or state == "idle" or (event_type == "Client" and not state):
        return None
    if not event_type:
        return RUNNING if state == "active" else None
    return f"{event_type}: {event}" if event else event_type


def log_flushes(deltas: Mapping[str, Any]) -> tuple[float | None, float | None]:
    """(flushes of the log, their time in ms; 0 where the server did not take it), as the server
    counted them over the timed part; (None, None): it did not say."""
    wal = deltas.get("pg_stat_wal")
    if isinstance(wal, dict) and isinstance(wal.get("wal_sync"), int | float):
        return float(wal["wal_sync"]), float(wal.get("wal_sync_time") or 0.0)
    rows = deltas.get("pg_stat_io")
    if not isinstance(rows, dict):
        return None, None
    mine = [row for name, row in rows.items() if "wal" in str(name).split("/")]
    mine = [row for row in mine if isinstance(row, dict) and "fsyncs" in row]
    if not mine:
        return None, None
    return (
        float(sum(row["fsyncs"] for row in mine)),
        float(sum(row.get("fsync_time") or 0.0 for row in mine)),
    )


def _waits(rows: Sequence[Mapping[str, Any]]) -> tuple[WaitFacts, ...]:
    sums: dict[str, float] = {}
    for row in rows:
        name = wait_name(row["wait_event_type"], row["wait_event"], row["state"])
        if name is not None:
            sums[name] = sums.get(name, 0.0) + row["mean_backends"]
    ordered = sorted(sums.items(), key=lambda item: -item[1])
    return tuple(WaitFacts(wait=name, mean_backends=mean) for name, mean in ordered)


def _flat(path: str, value: Any) -> Any:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _flat(f"{path}.{key}" if path else str(key), item)
    elif isinstance(value, int | float):
        yield path, float(value)


def _mean_waits(runs: Sequence[PostgresFacts]) -> list[tuple[str, float]]:
    """Medians over the runs (a run that never saw a wait has 0 of it), the most first."""
    names = dict.fromkeys(one.wait for run in runs for one in run.waits)
    tables = [{one.wait: one.mean_backends for one in run.waits} for run in runs]
    found = [(name, middle(table.get(name, 0.0) for table in tables) or 0.0) for name in names]
    return sorted((one for one in found if one[1] > 0), key=lambda one: -one[1])


def _sentences(points: Sequence[Same[PostgresFacts]]) -> list[str]:
    said = []
    for at in points:
        waits = [one for one in _mean_waits(at.runs) if one[0] != RUNNING]
        if waits:
            wait, backends = waits[0]
            said.append(f"{at.point}: most waited for {wait}, {numbers.number(backends)} backends.")
    return said


def _wait_table(points: Sequence[Same[PostgresFacts]]) -> Table:
    rows = [
        [cells.text(at.point), cells.text(wait), cells.quantity(backends, "1")]
        for at in points
        for wait, backends in _mean_waits(at.runs)[:WAITS_MOST]
    ]
    columns = [Column("configuration", False), Column("wait", False), Column("backends, mean")]
    return Table("Waits of active backends", columns, rows, open=False)

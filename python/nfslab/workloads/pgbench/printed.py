"""Reading the report that pgbench prints at its end.

Purpose: the number that a person knows (tps as pgbench states it), and an account of the
run that is independent of the transaction log, against which the log is checked. All
lines of pgbench 13 to 18 are known; `--progress` with an interval that never comes makes
pgbench keep detailed statistics, so that "latency average" is the mean of the measured
latencies and not clients / tps. What each command takes is read by `statements`.

pgbench has to run with LC_ALL=C: otherwise the decimal point follows the locale.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from nfslab.errors import RunFailed
from nfslab.workloads.pgbench.statements import HEADING, CommandReport, read_statements

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class ScriptReport:
    """What pgbench says of one of several scripts."""

    name: str
    processed: int
    """Transactions that were carried through (without failed and skipped ones)."""


@dataclass(frozen=True, slots=True)
class PrintedReport:
    """What pgbench printed; None for lines that this run (or this version) does not have."""

    processed: int
    tps: float
    connections_included: bool
    """True with --connect: the time of connecting is part of tps."""
    failed: int = 0
    skipped: int = 0
    late: int | None = None
    retries: int | None = None
    latency_mean_ms: float | None = None
    latency_measured: bool = False
    """The mean is that of measured latencies (there is a deviation beside it)."""
    lag_mean_ms: float | None = None
    initial_connect_ms: float | None = None
    connect_mean_ms: float | None = None
    scripts: list[ScriptReport] = field(default_factory=list)
    """Of several; of one there is none."""
    statements: list[list[CommandReport]] = field(default_factory=list)
    """The commands of each script, also of one."""

    @property
    def measured_s(self) -> float:
        """Seconds that tps refers to; pgbench prints tps with six decimals."""
        return self.processed / self.tps


NUMBER: Final = r"(-?[0-9]+(?:\.[0-9]+)?)"
LINES: Final[dict[str, re.Pattern[str]]] = {
    "processed": re.compile(r"^number of transactions actually processed: (\d+)(?:/\d+)?\s*$"),
    "failed": re.compile(r"^number of failed transactions: (\d+) "),
    "skipped": re.compile(r"^number of transactions skipped: (\d+) "),
    "late": re.compile(rf"^number of transactions above the {NUMBER} ms latency limit: (\d+)"),
    "retries": re.compile(r"^total number of retries: (\d+)\s*$"),
    "latency_mean_ms": re.compile(rf"^latency average = {NUMBER} ms"),
    "latency_stddev_ms": re.compile(rf"^latency stddev = {NUMBER} ms"),
    "lag_mean_ms": re.compile(rf"^rate limit schedule lag: avg {NUMBER} \(max {NUMBER}\) ms"),
    "initial_connect_ms": re.compile(rf"^initial connection time = {NUMBER} ms"),
    "connect_mean_ms": re.compile(rf"^average connection time = {NUMBER} ms"),
    "tps": re.compile(rf"^tps = {NUMBER} \((.*)\)"),
}
SCRIPT: Final = re.compile(r"^SQL script (\d+): (.*)$")
SCRIPT_COUNT: Final = re.compile(r"^ - (\d+) transactions \(")
SCRIPT_PROCESSED: Final = re.compile(r"^ - number of transactions actually processed: (\d+)")


def read_printed_report(text: str) -> PrintedReport:
    """Read pgbench's standard output; RunFailed when the report is not whole."""
    found: dict[str, re.Match[str]] = {}
    tps: dict[str, float] = {}
    # Not splitlines: commands may hold what it takes for the end of a line.
    lines = text.split("\n")
    for line in lines:
        if SCRIPT.match(line) or HEADING.match(line):
            break
        for name, pattern in LINES.items():
            if match := pattern.match(line):
                if name == "tps":
                    tps[match[2]] = float(match[1])
                else:
                    found[name] = match

    def number(name: str, group: int = 1) -> float | None:
        return float(found[name][group]) if name in found else None

    def count(name: str, group: int = 1) -> int | None:
        return int(found[name][group]) if name in found else None

    processed = count("processed")
    if processed == 0 and not tps:
        raise RunFailed(
            "no transaction ended in pgbench's time",
            why="it printed that it processed 0",
            fix="give it more: workload.duration",
        )
    if processed is None or not tps:
        raise RunFailed(
            "pgbench printed no complete report",
            why=" | ".join(text.strip().splitlines()[-3:]) or "it printed nothing",
            fix="see logs/pgbench.log of the run",
        )
    with_connections, rate = _rate(tps)
    return PrintedReport(
        processed=processed,
        tps=rate,
        connections_included=with_connections,
        failed=count("failed") or 0,
        skipped=count("skipped") or 0,
        late=count("late", 2),
        retries=count("retries"),
        latency_mean_ms=number("latency_mean_ms"),
        latency_measured="latency_stddev_ms" in found,
        lag_mean_ms=number("lag_mean_ms"),
        initial_connect_ms=number("initial_connect_ms"),
        connect_mean_ms=number("connect_mean_ms"),
        scripts=_scripts(lines),
        statements=read_statements(lines),
    )


def _rate(tps: dict[str, float]) -> tuple[bool, float]:
    """The rate without the time of connecting, where pgbench states it.

    Versions up to 13 print both; 14 and newer print the one that applies.
    """
    for note, value in tps.items():
        if note.startswith(("without initial connection", "excluding connections")):
            return False, value
    return True, next(iter(tps.values()))


def _scripts(lines: Sequence[str]) -> list[ScriptReport]:
    """Counts per script, printed when there are several.

    Up to version 16, " - N transactions (" are those carried through; later ones count
    all there and print those carried through in a line of their own.
    """
    reports: list[ScriptReport] = []
    name: str | None = None
    for line in lines:
        if match := SCRIPT.match(line):
            name = match[2]
        elif name is not None and (match := SCRIPT_COUNT.match(line)):
            reports.append(ScriptReport(name, int(match[1])))
        elif name is not None and (match := SCRIPT_PROCESSED.match(line)):
            reports[-1] = ScriptReport(name, int(match[1]))
    return reports

"""`nfslab list`: which experiments there are, and how far they have come."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nfslab.cli.arguments import print_json
from nfslab.display.called import as_called
from nfslab.display.numbers import counted, interval, p_value, quantity, relative
from nfslab.display.terminal import date, printable, table
from nfslab.errors import ResultsError
from nfslab.quantities import format_duration

if TYPE_CHECKING:
    from nfslab.results.history import HistoryChange, Measured
    from nfslab.results.outcomes import Outcomes

DAMAGED_SHOWN = 5
"""Damaged runs of an experiment that are named; --json and `show` have all."""
DIFFERENCES_SHOWN = 6


@click.command(
    "list",
    epilog="""\b
Examples:
  nfslab list
  nfslab list results/placement-2001-1a2b3c4d --runs
  nfslab list /mnt/shared/results --json
  nfslab list --shipped
""",
)
@click.argument("results", type=click.Path(path_type=Path), default=Path("results"))
@click.option("--runs", "with_runs", is_flag=True, help="Also every run.")
@click.option(
    "--shipped",
    is_flag=True,
    help="The experiments that come with nfslab: their time, what they need.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(results: Path, with_runs: bool, shipped: bool, as_json: bool) -> None:
    """List the experiments in RESULTS (default: results), or the one that it is."""
    if shipped:
        _list_shipped(as_json)
    else:
        _list_results(results, with_runs, as_json)


def _list_shipped(as_json: bool) -> None:
    """What can be run by its name."""
    from nfslab.experiment.dry_run import shipped_experiments

    entries = shipped_experiments()
    if as_json:
        print_json(entries)
        return
    rows = [
        [
            entry["name"],
            str(entry["runs"]),
            format_duration(entry["seconds"]),
            ", ".join(entry["needs"]),
            "no" if entry["cannot_run"] else "yes",
            entry["title"],
        ]
        for entry in entries
    ]
    header = ["experiment", "runs", "about", "needs", "here", "what it shows"]
    click.echo(table(header, rows, right=(1, 2)))
    for entry in entries:
        for obstacle in entry["cannot_run"]:
            click.echo(f"{entry['name']} cannot run here: {obstacle}")
    more = "nfslab run EXPERIMENT --dry-run tells more; nfslab run EXPERIMENT runs it."
    click.echo(f"\n{as_called(more)}")


def _list_results(results: Path, with_runs: bool, as_json: bool) -> None:
    """What was run."""
    from nfslab.results.history import history_changes, measured
    from nfslab.results.outcomes import Outcomes, experiments_in
    from nfslab.results.store import RECORD, ExperimentFolder

    paths = [results] if (results / RECORD).is_file() else experiments_in(results)
    entries: list[dict[str, Any]] = []
    experiments: list[Measured] = []
    for path in paths:
        try:
            outcomes = Outcomes(ExperimentFolder.open(path))
            entry = _entry(outcomes)
            if (figures := measured(outcomes)) is not None:
                experiments.append(figures)
            if with_runs:
                entry["runs"] = _runs(outcomes)
        except ResultsError as error:
            entry = {"folder": path.name, "path": str(path), "problem": str(error)}
        entries.append(entry)
    changes = history_changes(experiments)
    since = {str(change.outcomes.folder.path): change for change in changes}
    for entry in entries:
        change = since.get(entry["path"])
        entry["changed"] = None if change is None else change.as_dict()
    if as_json:
        print_json(entries)
    elif not entries:
        click.echo(f"there is no experiment in {results}")
    else:
        _print(entries, with_runs)
        for change in changes:
            click.echo(_changed(change))


def _entry(outcomes: Outcomes) -> dict[str, Any]:
    """One experiment in short."""
    from nfslab.results.emulation import sentence

    record, catalogue = outcomes.record, outcomes.catalogue
    primary = outcomes.primary
    medians = [m for m in outcomes.medians(primary) if m is not None] if primary else []
    return {
        "folder": outcomes.folder.path.name,
        "path": str(outcomes.folder.path),
        "name": record.name,
        "title": record.title,
        "points": len(record.points),
        "planned": len(record.points) * record.repetitions,
        "ok": len(outcomes.counted),
        "emulated": sentence(outcomes),
        "failed": len(outcomes.newest) - len(outcomes.counted),
        "attempts": len(catalogue.lines),
        "damaged": len(catalogue.damaged),
        "damaged_runs": catalogue.damaged,
        "partial": len(catalogue.partial),
        "created_unix_ns": record.created_unix_ns,
        "primary": primary,
        "unit": outcomes.metrics[primary].unit if primary else "",
        "lowest_median": min(medians, default=None),
        "highest_median": max(medians, default=None),
    }


def _runs(outcomes: Outcomes) -> list[dict[str, Any]]:
    """Every sealed run in short."""
    from nfslab.results.selection import point_label

    labels = {point.point_id: point_label(point) for point in outcomes.points}
    in_figures = {line.run_id for line in outcomes.counted}
    primary = outcomes.primary or ""
    return [
        {
            "run_id": line.run_id,
            "point": labels.get(line.point_id, line.point_id),
            "block": line.block,
            "attempt": line.attempt,
            "status": line.status,
            "counted": line.run_id in in_figures,
            "value": line.metrics.get(primary),
            "flags": line.flags,
            "reason": line.reason,
            "started_unix_ns": line.started_unix_ns,
            "duration_s": line.duration_ns / 1e9,
        }
        for line in outcomes.catalogue.lines
    ]


def _print(entries: list[dict[str, Any]], with_runs: bool) -> None:
    header = ["experiment", "configurations", "runs", "failed", "begun", "primary metric (medians)"]
    rows = [
        [
            entry["folder"],
            str(entry["points"]),
            f"{entry['ok']}/{entry['planned']}",
            str(entry["failed"]),
            date(entry["created_unix_ns"]),
            _primary(entry),
        ]
        for entry in entries
        if "problem" not in entry
    ]
    if rows:
        click.echo(table(header, rows, right=(1, 2, 3)))
    for entry in entries:
        if "problem" in entry:
            click.echo(f"\n{printable(entry['problem'])}", err=True)
            continue
        if entry["emulated"]:
            click.echo(f"{entry['folder']}: {entry['emulated']}")
        for run_id, why in list(entry["damaged_runs"].items())[:DAMAGED_SHOWN]:
            click.echo(printable(f"{entry['folder']}: damaged: {run_id}: {why}"))
        for what in ("damaged", "partial"):
            if entry[what]:
                runs = counted(entry[what], f"{what} run")
                click.echo(f"{entry['folder']}: {runs} (see {as_called('`nfslab show`')})")
        if with_runs:
            _print_runs(entry)


def _changed(change: HistoryChange) -> str:
    """One change over time: when, by how much, what else changed."""
    before, after = change.experiments
    most = f" at {change.label}, which changed most" if change.points > 1 else ""
    what = "; ".join(
        f"{one.what}: {one.base} → {one.new}" for one in change.differences[:DIFFERENCES_SHOWN]
    )
    left = len(change.differences) - DIFFERENCES_SHOWN
    more = f"; and {left} more (--json)" if left > 0 else ""
    return printable(
        f"\nsince {change.outcomes.folder.path.name} "
        f"({date(change.outcomes.record.created_unix_ns)}): {change.metric} "
        f"changed by {relative(change.ratio)}{most} "
        f"({counted(before, 'experiment')} before, {after} from then on, "
        f"p {p_value(change.p_value)})"
        f"\n  with it changed: {what or 'nothing that is recorded'}{more}"
    )


def _primary(entry: dict[str, Any]) -> str:
    if entry["lowest_median"] is None:
        return "-"
    if entry["lowest_median"] == entry["highest_median"]:
        return f"{entry['primary']} {quantity(entry['lowest_median'], entry['unit'])}"
    low, high = entry["lowest_median"], entry["highest_median"]
    return f"{entry['primary']} {interval(low, high, entry['unit'])}"


def _print_runs(entry: dict[str, Any]) -> None:
    header = ["run", "configuration", "status", "begun", "took", entry["primary"] or "", "remarks"]
    rows = []
    for run in entry["runs"]:
        status = run["status"] if run["counted"] or run["status"] == "failed" else "not counted"
        remarks = ", ".join([run["reason"].split("\n")[0]] * bool(run["reason"]) + run["flags"])
        rows.append(
            [
                run["run_id"],
                run["point"],
                status,
                date(run["started_unix_ns"]),
                format_duration(run["duration_s"]),
                quantity(run["value"], entry["unit"]),
                remarks,
            ]
        )
    click.echo(f"\n{entry['folder']}")
    click.echo(table(header, rows, right=(4, 5)))

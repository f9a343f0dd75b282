"""`nfslab show`: one experiment, some of its points, or one run with all that is known."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import click

from nfslab.cli.arguments import bold, print_json
from nfslab.display.called import as_called
from nfslab.display.numbers import ABSENT, counted, interval, quantity
from nfslab.display.terminal import date, printable, section_lines, table
from nfslab.errors import UsageError
from nfslab.plugins import nearest
from nfslab.quantities import format_duration

if TYPE_CHECKING:
    from pathlib import Path

    from nfslab.results.outcomes import Outcomes
    from nfslab.results.records import RunRecord
    from nfslab.results.selection import Selection

LOG_TAIL_LINES = 20
LOG_TAIL_BYTES = 64 * 1024
MAX_LOGS = 20
"""Of a failed run: what is shown of its logs."""
MAX_POINTS_SHOWN = 200


@click.command(
    "show",
    epilog="""\b
Examples:
  nfslab show results/placement-2001-1a2b3c4d
  nfslab show "results/placement-2001-1a2b3c4d:placement=log apart,clients=10"
  nfslab show results/placement-2001-1a2b3c4d b003-5f86fce7-a1
""",
)
@click.argument("path")
@click.argument("run_id", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print the records as JSON.")
def command(path: str, run_id: str | None, as_json: bool) -> None:
    """Show the experiment (or the selection of it) at PATH, or one of its runs."""
    from nfslab.results.selection import parse_selection

    selection = parse_selection(path)
    if run_id is None:
        if as_json:
            print_json(_experiment_content(selection))
        else:
            _print_experiment(selection)
        return
    record, folder = _run(selection.outcomes, run_id)
    if as_json:
        print_json(record.model_dump())
    else:
        _print_run(record, folder)


def _experiment_content(selection: Selection) -> dict[str, Any]:
    outcomes = selection.outcomes
    ids = {outcomes.points[index].point_id for index in selection.points}
    lines = [line for line in outcomes.catalogue.lines if line.point_id in ids]
    return {
        "record": outcomes.record.model_dump(),
        "points": [outcomes.points[index].model_dump() for index in selection.points],
        "runs": [line.model_dump() for line in lines],
        "damaged": outcomes.catalogue.damaged,
        "partial": outcomes.catalogue.partial,
    }


def _print_experiment(selection: Selection) -> None:
    from nfslab.results.emulation import sentence

    outcomes = selection.outcomes
    record, catalogue = outcomes.record, outcomes.catalogue
    click.echo(f"{record.title or record.name}  ({selection.label})")
    if emulated := sentence(outcomes):
        click.echo(emulated)
    if record.description:
        click.echo(printable(record.description))
    done = f"{len(outcomes.counted)} of {len(record.points) * record.repetitions} planned runs ok"
    click.echo(
        f"begun {date(record.created_unix_ns)} with nfslab {record.nfslab_version}; {done}; "
        f"{'blocks' if record.order == 'blocks' else 'fixed order'}, seed {record.seed}"
    )
    for axis in record.axes:
        levels = ", ".join(str(level) for level in axis.levels[:30])
        click.echo(f"axis {axis.name} ({', '.join(axis.parameters)}): {levels}")
    if record.excluded:
        click.echo(f"{counted(record.excluded, 'combination')} excluded by the file")
    _print_points(selection)
    _print_point_sections(selection)
    _print_failures(selection)
    for run_id, reason in catalogue.damaged.items():
        click.echo(f"damaged: {run_id}: {printable(reason)}")
    for run_id in catalogue.partial:
        click.echo(f"begun and not finished: {run_id}")
    for note in (record.model_extra or {}).get("notes") or []:
        click.echo(f"note: {printable(str(note))}")
    if record.command:
        click.echo(f"again: {as_called(printable(shlex.join(record.command)))}")


def _print_points(selection: Selection) -> None:
    """One row a point: how many runs, and the primary metric."""
    from nfslab.results.selection import point_label

    outcomes = selection.outcomes
    primary = outcomes.primary
    failed: dict[str, int] = {}
    for line in outcomes.newest:
        failed[line.point_id] = failed.get(line.point_id, 0) + (line.status == "failed")
    summaries = outcomes.summaries(primary) if primary else []
    unit = outcomes.metrics[primary].unit if primary else ""
    rows = []
    for index in selection.points[:MAX_POINTS_SHOWN]:
        point = outcomes.points[index]
        summary = summaries[index] if summaries else None
        known = summary.interval if summary else None
        rows.append(
            [
                point.point_id,
                point_label(point),
                str(summary.n if summary else 0),
                str(failed.get(point.point_id, 0)),
                quantity(summary.median if summary else None, unit),
                interval(known.low, known.high, unit) if known else ABSENT,
            ]
        )
    header = [
        "configuration",
        "factors",
        "ok",
        "failed",
        f"{primary or 'metric'} (median)",
        "95 % interval",
    ]
    click.echo(f"\n{table(header, rows, right=(2, 3, 4))}")
    left = len(selection.points) - len(rows)
    click.echo(f"({left} more configurations: --json has all)\n" if left else "")


def _print_point_sections(selection: Selection) -> None:
    """What evidence of the workload's kind says of these points."""
    from nfslab.evidence.found import point_sections
    from nfslab.evidence.registry import evidence_kinds
    from nfslab.report.analysis import analyse, workload_kind

    workload = workload_kind(selection.outcomes)
    if not any(kind.workload == workload for kind in evidence_kinds()):
        return
    analysis = analyse(selection.outcomes.folder.path)
    for section in point_sections(analysis, selection.points):
        for line in section_lines(section, bold):
            click.echo(line)
        click.echo()


def _print_failures(selection: Selection) -> None:
    outcomes = selection.outcomes
    ids = {outcomes.points[index].point_id for index in selection.points}
    newest = {line.run_id for line in outcomes.newest}
    for line in outcomes.catalogue.lines:
        if line.status == "failed" and line.point_id in ids:
            again = "" if line.run_id in newest else " (made again since)"
            click.echo(f"failed: {line.run_id}{again}: {printable(line.reason)}")


def _run(outcomes: Outcomes, run_id: str) -> tuple[RunRecord, Path]:
    """The run of that name, or the only one whose name begins so."""
    known = [line.run_id for line in outcomes.catalogue.lines]
    known += list(outcomes.catalogue.damaged)
    found = [name for name in known if name == run_id] or [
        name for name in known if name.startswith(run_id)
    ]
    if len(found) != 1:
        guess = nearest(run_id, known)
        if len(found) > 1:
            fix = f"it begins {len(found)} of them: {', '.join(found[:5])}"
        else:
            fix = f"did you mean {guess}?" if guess else "`nfslab list --runs` lists them"
        raise UsageError(f"{outcomes.record.name} has no single run {run_id!r}", fix=fix)
    return outcomes.folder.run_record(found[0]), outcomes.folder.runs_path / found[0]


def _print_run(record: RunRecord, folder: Path) -> None:
    from nfslab.results.selection import scalar_paths

    factors = ", ".join(f"{name}={level}" for name, level in record.factors.items())
    click.echo(f"{record.run_id}: {record.status}  ({factors or 'no axes'})")
    click.echo(
        f"repetition {record.block + 1}, attempt {record.attempt}, "
        f"begun {date(record.started_unix_ns)}, took {format_duration(record.duration_ns / 1e9)}\n"
        f"{folder}"
    )
    if record.reason:
        where = f" in phase {record.failure_phase}" if record.failure_phase else ""
        click.echo(f"\nfailed{where}: {printable(record.reason)}")
    if record.metrics:
        rows = [
            [f"{name}{' *' if metric.primary else ''}", quantity(metric.value, metric.unit)]
            for name, metric in record.metrics.items()
        ]
        click.echo(f"\n{table(['metric', 'value'], rows, right=(1,))}")
    if record.checks:
        rows = [[check.name, check.verdict, check.message] for check in record.checks]
        click.echo(f"\n{table(['check', 'verdict', ''], rows)}")
    _print_places(record)
    if record.phases:
        rows = [[p.name, format_duration(p.duration_ns / 1e9)] for p in record.phases]
        click.echo(f"\n{table(['phase', 'took'], rows, right=(1,))}")
    for evidence in record.evidence:
        state = (
            evidence.status if evidence.status == "ok" else f"{evidence.status}: {evidence.reason}"
        )
        click.echo(f"collector {evidence.collector}: {printable(state)}")
    for note in record.notes:
        click.echo(f"note: {printable(note)}")
    rows = [[path, str(value)] for path, value in scalar_paths(record.parameters).items()]
    click.echo(f"\n{table(['parameter', 'value'], rows)}")
    _print_evidence(record, folder)
    if record.status == "failed":
        _print_logs(folder)


def _print_evidence(record: RunRecord, folder: Path) -> None:
    """What was seen beside the run, kind by kind."""
    from nfslab.evidence.base import SealedRun
    from nfslab.evidence.found import run_sections

    for section in run_sections(SealedRun(folder, record)):
        click.echo("\n" + "\n".join(section_lines(section, bold)))


def _print_places(record: RunRecord) -> None:
    if not record.places:
        return
    rows = [
        [
            role,
            f"{place.target} ({place.kind})",
            f"{place.filesystem} on {place.source}",
            place.mount_options,
            place.durability.level,
        ]
        for role, place in record.places.items()
    ]
    header = ["role", "target", "file system", "options in effect", "durability"]
    click.echo(f"\n{table(header, rows)}")
    for place in record.places.values():
        for reason in place.durability.reasons:
            click.echo(f"durability of {place.target}: {reason}")
    dropped = record.page_cache.get("dropped")
    if dropped:
        why = record.page_cache.get("reason")
        click.echo(f"page cache dropped: {dropped}{f' ({why})' if why else ''}")


def _print_logs(folder: Path) -> None:
    """The last lines of what the servers and programs of a failed run said."""
    logs = sorted((folder / "logs").glob("*.log"))[:MAX_LOGS]
    for log in logs:
        click.echo(f"\n--- last lines of {log}")
        for line in _tail(log):
            click.echo(printable(line))


def _tail(path: Path) -> list[str]:
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - LOG_TAIL_BYTES))
            content = file.read(LOG_TAIL_BYTES)
    except OSError as error:
        return [f"cannot be read: {error.strerror}"]
    return content.decode(errors="replace").splitlines()[-LOG_TAIL_LINES:]

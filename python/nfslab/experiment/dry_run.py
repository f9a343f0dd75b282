"""`--dry-run`: what would happen, in which order, how long, with how much space, and could it.

Nothing is made and nothing is written. When the experiment has begun before, what is
already there counts as done, and its runs make the estimate of time.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from nfslab.display.numbers import percent
from nfslab.experiment.folders import Wanted, find_folder
from nfslab.experiment.forecast import Forecast
from nfslab.experiment.plan import PlannedRun, blocks_now, missing_runs, planned_runs
from nfslab.experiment.preflight import Preflight, preflight
from nfslab.quantities import format_duration, format_size
from nfslab.results.groups import grouped

if TYPE_CHECKING:
    from nfslab.experiment.reading import Experiment
    from nfslab.experiment.session import Options
    from nfslab.experiment.setup import Point
    from nfslab.results.records import Stopping
    from nfslab.results.store import ExperimentFolder

MAX_ORDER_SHOWN = 60
"""Runs whose order is printed; `--json` has all of them."""
EXAMPLE_SEED = 0
"""Stands for a seed that will be drawn."""


@dataclass(frozen=True, slots=True)
class DryRun:
    """Everything that would happen."""

    experiment: Experiment
    points: list[Point]
    """Those that can run here (all of them, or without the skipped ones)."""
    planned: list[PlannedRun]
    missing: list[PlannedRun]
    seed: int | None
    """None: it will be drawn; the order shown is an example."""
    folder: str
    """Where it goes on; empty when a new folder would be begun."""
    notes: list[str]
    seconds: float
    most: tuple[int, float] | None
    """Runs and seconds at most; None where their number is given."""
    measured: bool
    preflight: Preflight
    refused: bool
    """The run itself would end at once, with exit code 2."""

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for `--json`."""
        return {
            "name": self.experiment.section.name,
            "identity": self.experiment.identity,
            "points": [
                {"point_id": p.point_id, "factors": p.factors, "settings": p.settings}
                for p in self.points
            ],
            "excluded": self.experiment.excluded,
            "repetitions": self.experiment.section.model_dump()["repetitions"],
            "seed": self.seed,
            "order": [
                {"run_id": r.run_id, "block": r.block, "point_id": r.point.point_id}
                for r in self.missing
            ],
            "planned": len(self.planned),
            "missing": len(self.missing),
            "folder": self.folder,
            "notes": self.notes,
            "seconds": self.seconds,
            "runs_most": None if self.most is None else self.most[0],
            "seconds_most": None if self.most is None else self.most[1],
            "seconds_from": "earlier runs" if self.measured else "the workload's estimate",
            "space": {
                name: {"needed_bytes": needed, "free_bytes": free}
                for name, (needed, free) in self.preflight.space.items()
            },
            "refused": self.refused,
            "cannot_run": [
                asdict(obstacle) | {"points": count}
                for obstacle, count in self.preflight.obstacles()
            ],
            "collectors": {
                name: {part: getattr(answer, part) for part in ("ok", "reason", "fix", "how")}
                for name, answer in self.preflight.collectors.items()
            },
            "warnings": [
                {"where": w.where, "what": w.what, "fix": w.fix} for w in self.experiment.warnings
            ],
        }


def dry_run(experiment: Experiment, options: Options) -> DryRun:
    """Ask everything that can be asked without making anything."""
    from nfslab.experiment.provenance import fingerprint

    wanted = Wanted(options.results, options.continue_in, options.new)
    folder, notes = find_folder(experiment, wanted, fingerprint())
    result = preflight(experiment.points)
    skip = options.skip_unavailable or experiment.section.skip_unavailable
    points = result.runnable if skip and result.runnable else experiment.points
    section = experiment.section
    seed = folder.record.seed if folder is not None else section.seed
    catalogue = folder.catalogue("whole") if folder is not None else None
    blocks = blocks_now(section, catalogue.lines if catalogue else ())
    drawn = EXAMPLE_SEED if seed is None else seed
    planned = planned_runs(points, blocks, section.order, drawn)
    forecast = Forecast(points)
    missing = planned
    if catalogue is not None:
        for line in catalogue.lines:
            forecast.learn(line)
        missing = missing_runs(
            planned,
            catalogue.lines,
            keep_failed=options.keep_failed,
            taken=set(catalogue.damaged),
        )
    last = blocks
    if section.stopping is not None and not _precise(folder, section.stopping):
        last = section.blocks[1]
    added = planned_runs(points, last, section.order, drawn)[len(planned) :]
    seconds = forecast.total_s(missing)
    return DryRun(
        experiment=experiment,
        points=list(points),
        planned=planned,
        missing=missing,
        seed=seed,
        folder=str(folder.path) if folder is not None else "",
        notes=[*notes, *result.notes],
        seconds=seconds,
        most=None
        if section.stopping is None
        else (len(missing) + len(added), seconds + forecast.total_s(added)),
        measured=forecast.measured,
        preflight=result,
        refused=result.refuses(skip=skip),
    )


def _precise(folder: ExperimentFolder | None, stopping: Stopping) -> bool:
    """Do the blocks that are there do?"""
    from nfslab.results.outcomes import Outcomes
    from nfslab.results.precision import precision_of

    precision = precision_of(Outcomes(folder), stopping) if folder is not None else None
    return precision is not None and precision.ended


def shipped_experiments() -> list[dict[str, Any]]:
    """The experiments that come with nfslab: time, what they need, and whether it is here."""
    from nfslab.experiment.reading import read_experiment
    from nfslab.shipped import experiment_files

    return [_in_short(read_experiment(file)) for file in experiment_files().values()]


def _in_short(experiment: Experiment) -> dict[str, Any]:
    """One experiment for a list; times are the workload's own estimate."""
    section, points = experiment.section, experiment.points
    runs = planned_runs(points, section.blocks[0], section.order, EXAMPLE_SEED)
    here = preflight(points)
    refused = here.refuses(skip=section.skip_unavailable)
    return {
        "name": section.name,
        "title": section.title,
        "runs": len(runs),
        "seconds": Forecast(points).total_s(runs),
        "needs": _needs(points),
        "cannot_run": [f"{o.part}: {o.reason}" for o, _ in here.obstacles()] if refused else [],
    }


def _needs(points: list[Point]) -> list[str]:
    """What not every machine has."""
    words: dict[str, None] = {}
    for setup in (point.setup for point in points):
        for target in setup.used_targets().values():
            words.update(dict.fromkeys(target.make().needs()))
        if setup.client.host == "namespace":
            words |= dict.fromkeys(("root", "network namespaces"))
        if setup.limits.memory is not None:
            words["memory cgroups"] = None
        if setup.machine.kernel is not None:
            words["a virtual machine"] = None
        if setup.client.kernel is not None:
            words |= dict.fromkeys(("root", "virtual machines"))
    return list(words)


def dry_run_lines(plan: DryRun) -> list[str]:
    """The same for people."""
    section = plan.experiment.section
    lines = [f"{section.name}: {section.title}" if section.title else section.name]
    lines += [f"warning: {line.strip()}" for w in plan.experiment.warnings for line in w.lines()]
    lines += plan.notes
    lines += ["", *_points(plan), ""]
    lines += _client_hosts(plan)
    lines += _order(plan)
    if plan.folder:
        done = len(plan.planned) - len(plan.missing)
        lines.append(f"goes on in {plan.folder}: {done} of {len(plan.planned)} runs are there")
    source = "earlier runs" if plan.measured else "the workload's own estimate"
    least, most = "", ""
    if plan.most is not None:
        least = "at least "
        most = f", at most {plan.most[0]} runs, about {format_duration(plan.most[1])}"
    lines.append(
        f"time: {least}{len(plan.missing)} runs, about {format_duration(plan.seconds)}{most} "
        f"(from {source})"
    )
    for name, (needed, free) in plan.preflight.space.items():
        room = "free space not known yet" if free is None else f"{format_size(free)} free"
        lines.append(f"space: {name} needs about {format_size(needed)}, {room}")
    lines += _abilities(plan)
    return lines


def _points(plan: DryRun) -> list[str]:
    """The points as a table, with what is excluded."""
    experiment = plan.experiment
    excluded = f", {experiment.excluded} excluded" if experiment.excluded else ""
    points = len(experiment.points)
    least, most = experiment.section.blocks
    many = f"{least}" if least == most else f"{least} to {most}"
    runs = f"{points * least}" if least == most else f"{points * least} to {points * most}"
    lines = [f"{points} configurations{excluded} x {many} repetitions = {runs} runs"]
    stopping = experiment.section.stopping
    if stopping is not None:
        lines.append(
            "repetitions are added until the widest interval of the primary metric is "
            f"±{percent(stopping.until)} of its ratio"
        )
    blocked = {p.point_id: obstacles for p, obstacles in plan.preflight.blocked}
    for point in experiment.points:
        mark = "  cannot run here" if point.point_id in blocked else ""
        lines.append(f"  {point.point_id}  {point.label()}{mark}")
    return lines


def _client_hosts(plan: DryRun) -> list[str]:
    """Who makes the load, where several hosts do it together."""
    from nfslab.experiment.members import KINDS

    found: dict[str, None] = {}
    setups = (point.setup for point in plan.points)
    for client, server in ((setup.client, setup.server) for setup in setups):
        if names := client.host_names:
            where = KINDS[client.host].said
            if client.kernel is not None:
                where += f" with kernel {client.kernel}"
            each = f"{client.processes} processes on each, {len(names) * client.processes} in all"
            found[f"client hosts: {len(names)} ({', '.join(names)}), {where}; {each}"] = None
            if server.is_elsewhere:
                found[f"servers: on {server.host_name}, one more of them"] = None
    return [*found, ""] if found else []


def _order(plan: DryRun) -> list[str]:
    """The order of the missing runs, block by block."""
    section = plan.experiment.section
    if section.order == "fixed":
        words = "in the order of the file"
    elif plan.seed is None:
        words = "random within each block; a seed will be drawn, this order is an example"
    else:
        words = f"random within each block, seed {plan.seed}"
    lines = [f"order ({words}):"]
    blocks = grouped((run.block, run.point.point_id) for run in plan.missing[:MAX_ORDER_SHOWN])
    lines += [f"  block {block + 1}: {' '.join(ids)}" for block, ids in blocks.items()]
    hidden = len(plan.missing) - MAX_ORDER_SHOWN
    if hidden > 0:
        lines.append(f"  ... and {hidden} more runs")
    if not plan.missing:
        lines.append("  nothing is missing")
    return lines


def _abilities(plan: DryRun) -> list[str]:
    """What cannot run here, and why."""
    lines = []
    for obstacle, count in plan.preflight.obstacles():
        lines.append(f"cannot run: {obstacle.part} ({count} configurations): {obstacle.reason}")
        if obstacle.fix:
            lines.append(f"  fix: {obstacle.fix}")
    for name, answer in plan.preflight.collectors.items():
        if not answer.ok:
            lines.append(f"collector {name} cannot work here: {answer.reason}")
        elif answer.how:
            lines.append(f"collector {name}: {answer.how}")
    if plan.refused:
        way = ", or leave these configurations out with --skip-unavailable"
        lines.append(f"nothing would be run: mend that{way if plan.preflight.runnable else ''}")
    if not plan.preflight.blocked:
        guest = plan.experiment.points[0].setup.machine.kernel is not None
        lines.append(
            "virtual machines can run here; what a run needs is asked in its own"
            if guest
            else "everything it uses can run here"
        )
    return lines

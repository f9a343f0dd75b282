"""One call of `nfslab run`: read, look whether it can be done, go on where it was left.

    read the file -> ask everything whether it can run here -> clean up after dead runners
    -> find or begin the folder -> lock it -> make every run that is missing -> sum up

What is finished is never touched again: each run is sealed by itself, so that a kill, a
full disk or a request to stop at any instant costs at most the run under way. A call that
finds nothing missing only sums up.
"""

from __future__ import annotations

import secrets
import shlex
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nfslab import clock
from nfslab.errors import Interrupted, NfslabError, ResultsError, RunFailed, UsageError
from nfslab.experiment.execution import Carrying, Execution
from nfslab.experiment.folders import (
    Wanted,
    begin_folder,
    find_folder,
    make_record,
    renewed_record,
)
from nfslab.experiment.forecast import Forecast
from nfslab.experiment.guest_run import GuestRun, kernels_of
from nfslab.experiment.multi_host_run import MultiHostRun
from nfslab.experiment.plan import (
    PlannedRun,
    blocks_now,
    missing_runs,
    next_position,
    planned_runs,
)
from nfslab.experiment.preflight import preflight, require_runnable, skipped_records
from nfslab.experiment.reading import Experiment, read_experiment
from nfslab.experiment.repetitions import repetitions_text
from nfslab.experiment.run_execution import RunExecution
from nfslab.experiment.shared import run_cache, warm_up
from nfslab.experiment.stop import Stop, TimeOver
from nfslab.machine.turn import Turn
from nfslab.quantities import format_duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nfslab.experiment.progress import View
    from nfslab.experiment.setup import Point
    from nfslab.results.store import ExperimentFolder

TURN_POLL_S = 0.5
OTHERS_TURN_S = 600.0
"""How long another user's experiment is waited for."""


@dataclass(frozen=True, slots=True)
class Options:
    """What was asked for on the command line."""

    file: Path
    settings: tuple[str, ...] = ()
    repetitions: int | dict[str, Any] | None = None
    """Of the file's `repetitions`: a number, or the table of those that are added as needed."""
    results: Path = Path("results")
    continue_in: Path | None = None
    new: bool = False
    keep_failed: bool = False
    skip_unavailable: bool = False
    anyway: bool = False
    """Beside another experiment of this machine."""
    called: tuple[str, ...] = ()
    """Words of the call up to the file, for "run it again"; default: nfslab run FILE."""

    def command(self) -> list[str]:
        """The command that runs the same again."""
        words = list(self.called) or ["nfslab", "run", str(self.file)]
        for setting in self.settings:
            words += ["--set", setting]
        if self.repetitions is not None:
            words += ["--repetitions", repetitions_text(self.repetitions)]
        if self.results != Path("results"):
            words += ["--results", str(self.results)]
        if self.continue_in is not None:
            words += ["--continue", str(self.continue_in)]
        if self.skip_unavailable:
            words.append("--skip-unavailable")
        return words


@dataclass(slots=True)
class Session:
    """What a call came to."""

    folder: ExperimentFolder
    planned: list[PlannedRun]
    made: int = 0
    """Runs made by this call."""
    seconds: float = 0.0
    """From the first of them on: without what it waited for its turn."""


def read_options(options: Options) -> Experiment:
    """The experiment that the options ask for, validated."""
    return read_experiment(options.file, options.settings, repetitions=options.repetitions)


def run_experiment(options: Options, view: View) -> Session:
    """Make every run that is missing.

    Raises `UsageError` before anything ran, `Interrupted` when asked to stop (finished
    runs are kept), `ResultsError` when results cannot be stored.
    """
    experiment = read_options(options)
    _refuse_debug_build()
    for warning in experiment.warnings:
        view.message("warning: " + " ".join(line.strip() for line in warning.lines()))
    result = preflight(experiment.points)
    points = require_runnable(
        result, skip=options.skip_unavailable or experiment.section.skip_unavailable
    )
    skipped = skipped_records(result.blocked)
    for obstacle, count in result.obstacles():
        view.message(f"left out: {count} points ({obstacle.part}: {obstacle.reason})")
    for note in result.notes:
        view.message(note)
    for name, answer in result.collectors.items():
        if not answer.ok:
            view.message(f"collector {name} cannot work here: {answer.reason}")
    with Stop(view.message) as stop, Turn() as turn:
        _await_turn(turn, stop, view, anyway=options.anyway)
        folder = _open_folder(options, experiment, skipped, view)
        with folder.lock():
            for run_id in folder.clean_partials():
                view.message(f"removed the half-written run {run_id}")
            return _go(options, experiment, folder, points, (stop, turn), view)


def _await_turn(turn: Turn, stop: Stop, view: View, *, anyway: bool) -> None:
    """Wait until no other experiment runs here; Interrupted when asked to stop meanwhile.

    Another user's is waited for so long at most: who never ends does not hold us up.
    """
    if turn.take():
        return
    holder = turn.holder()
    other = f"another experiment runs on this machine ({holder or 'whose, is not known'})"
    if anyway:
        turn.go_beside()
        view.message(f"{other}; going on beside it: runs are marked")
        return
    view.message(f"{other}; waiting until it has ended (--anyway goes on beside it, marked)")
    others_s = 0.0
    while not turn.take():
        if (holder := turn.holder()) is not None and not holder.is_ours:
            others_s += TURN_POLL_S
            if others_s > OTHERS_TURN_S:
                turn.go_beside()
                minutes = f"{OTHERS_TURN_S / 60:g} minutes"
                view.message(f"{holder} has not ended within {minutes}: going on beside it, marked")
                return
        clock.sleep(min(TURN_POLL_S, stop.remaining_s()))
    view.message("the other experiment has ended")


def _refuse_debug_build() -> None:
    """Figures of an unoptimised core are figures of the compiler."""
    from nfslab._core import build_info

    if build_info().get("profile") == "debug":
        raise UsageError(
            "the core of nfslab is a debug build: it publishes no figures",
            fix="build it with optimisation: maturin develop --release (or remove .venv, then: "
            "nfslab --set-up-only)",
        )


def _open_folder(
    options: Options, experiment: Experiment, skipped: list[dict[str, Any]], view: View
) -> ExperimentFolder:
    """The folder to work in, begun when there is none; cleans up after dead runners first."""
    from nfslab.experiment.provenance import fingerprint
    from nfslab.machine.resources import recover

    recover(lambda sentence: view.message(f"cleaned up after an earlier call: {sentence}"))
    machine = fingerprint()
    wanted = Wanted(options.results, options.continue_in, options.new)
    folder, notes = find_folder(experiment, wanted, machine)
    for note in notes:
        view.message(note)
    if folder is None:
        seed = experiment.section.seed
        record = make_record(
            experiment,
            seed=secrets.randbits(32) if seed is None else seed,
            command=options.command(),
            machine=machine,
            skipped=skipped,
        )
        return begin_folder(options.results, record, experiment.source.content)
    with folder.lock():
        done = max((line.block + 1 for line in folder.sealed_runs()), default=0)
        renewed = renewed_record(folder.record, experiment, notes, skipped, done)
        if renewed != folder.record:
            folder.update_record(renewed)
    return folder


def _go(
    options: Options,
    experiment: Experiment,
    folder: ExperimentFolder,
    points: Sequence[Point],
    ours: tuple[Stop, Turn],
    view: View,
) -> Session:
    """Make the missing runs, one after the other; then, where asked for, block after block."""
    stop, turn = ours
    record = folder.record
    catalogue = folder.catalogue("whole")
    blocks = blocks_now(experiment.section, catalogue.lines)
    planned = planned_runs(points, blocks, record.order, record.seed)
    for run_id, reason in catalogue.damaged.items():
        view.message(f"run {run_id} cannot be read and is made again: {reason}")
    missing = missing_runs(
        planned,
        catalogue.lines,
        keep_failed=options.keep_failed,
        taken=set(catalogue.damaged),
    )
    session = Session(folder, planned)
    forecast = Forecast(points)
    for line in catalogue.lines:
        forecast.learn(line)
    view.message(f"results: {folder.path}")
    view.begin(len(planned), len(planned) - len(missing), forecast.total_s(missing))
    position = next_position(catalogue.lines)
    limit_s = points[0].setup.limits.experiment_s
    primary = experiment.section.primary
    began_s = clock.monotonic()
    try:
        with ExitStack() as stack:
            if limit_s is not None:
                stack.enter_context(stop.deadline(limit_s, lambda: _time_over(limit_s)))
            if not missing:
                missing = _added_block(session, points, forecast, view)
            cache = stack.enter_context(run_cache(record.name)) if missing else Path()
            kernels = kernels_of(points, stop, view.message) if missing else {}
            if any(run.point.setup.machine.kernel is None for run in missing):
                warm_up()
            carrying = Carrying(
                folder, record, cache, stop, turn, view.phase, primary, kernels=kernels
            )
            while session.made < len(missing):
                run = missing[session.made]
                _require_time(stop, forecast, run, limit_s)
                view.run_begins(run)
                place = position + session.made
                execution = _execution(carrying, run, place)
                line = execution.execute()
                forecast.learn(line)
                session.made += 1
                left_s = forecast.total_s(missing[session.made :])
                view.run_ended(run, line, execution.primary_metric(), left_s)
                if session.made == len(missing):
                    missing += _added_block(session, points, forecast, view)
        session.seconds = clock.monotonic() - began_s
    except (Interrupted, RunFailed, ResultsError, OSError) as error:
        raise _explained(error, session, missing, options) from error
    finally:
        view.end()
    return session


def _execution(carrying: Carrying, run: PlannedRun, place: int) -> Execution:
    """Here, in a virtual machine, or by several client hosts."""
    if (asked := run.point.setup.machine.asked_kernel) is not None:
        return GuestRun(carrying, run, place, carrying.kernels[asked])
    if run.point.setup.client.hosts is not None:
        return MultiHostRun(carrying, run, place)
    return RunExecution(carrying, run, place)


def _added_block(
    session: Session, points: Sequence[Point], forecast: Forecast, view: View
) -> list[PlannedRun]:
    """The runs of one block more, where blocks are added and these do not do; the plan has it."""
    from nfslab.results.outcomes import Outcomes
    from nfslab.results.precision import precision_of, precision_sentence

    folder = session.folder
    record = folder.record
    if record.stopping is None:
        return []
    precision = precision_of(Outcomes(folder))
    if precision is None or precision.ended:
        return []
    blocks = record.repetitions + 1
    folder.update_record(record.model_copy(update={"repetitions": blocks}))
    runs = [
        run
        for run in planned_runs(points, blocks, record.order, record.seed)
        if run.block == record.repetitions
    ]
    session.planned += runs
    left_s = forecast.total_s(runs)
    view.message(precision_sentence(precision))
    view.more(len(runs), left_s)
    return runs


def _require_time(stop: Stop, forecast: Forecast, run: PlannedRun, limit_s: float | None) -> None:
    """Do not begin a run that will not be finished within the time of this call."""
    left_s = stop.remaining_s()
    if limit_s is not None and forecast.measured and forecast.run_s(run.point.point_id) > left_s:
        raise _time_over(limit_s)


def _time_over(limit_s: float | None) -> TimeOver:
    return TimeOver(f"the time limit of this call ({format_duration(limit_s or 0)}) is over")


def _explained(
    error: Exception, session: Session, missing: Sequence[PlannedRun], options: Options
) -> NfslabError:
    """The error with what was kept and how to go on."""
    left = len(missing) - session.made
    kept = (
        f"{len(session.planned) - left} of {len(session.planned)} runs are kept in "
        f"{session.folder.path}"
    )
    go_on = shlex.join(word for word in options.command() if word != "--new")
    if isinstance(error, Interrupted):
        what = error.what.partition(";")[0]
        again = type(error)(f"{what}; {kept}", fix=f"to go on: {go_on}")
        again.folder = session.folder.path
        return again
    if isinstance(error, NfslabError):
        fix = f"{error.fix}; then: {go_on}" if error.fix else f"to go on: {go_on}"
        return ResultsError(f"{error.what}; {kept}", why=error.why, fix=fix)
    return ResultsError(f"the results cannot be stored; {kept}", why=str(error), fix=go_on)

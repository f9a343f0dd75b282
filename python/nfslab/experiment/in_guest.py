"""What a guest does: one run, carried out by the ordinary runner, sealed in the working folder.

    python -m nfslab.experiment.in_guest FILE

FILE holds what the runner outside asks for (`AskedRun`, as JSON). On standard output it hears lines
of the protocol `machine.agent`: `begins`, each `phase`, `sealed`, or `error`. Whether the run is
good or failed stands in its record.
"""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict

from nfslab.errors import NfslabError
from nfslab.experiment.plan import PlannedRun
from nfslab.experiment.setup import Point, Setup
from nfslab.machine import agent
from nfslab.results.records import ExperimentRecord

if TYPE_CHECKING:
    from collections.abc import Callable

    from nfslab.experiment.execution import Carrying, Execution
    from nfslab.results.records import CatalogueLine

MODULE = "nfslab.experiment.in_guest"


class AskedRun(BaseModel):
    """One run, or a part of one, to be made by another process."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    record: ExperimentRecord
    point_id: str
    index: int
    factors: dict[str, Any]
    settings: dict[str, Any]
    resolved: dict[str, Any]
    """What is in force there."""
    block: int
    attempt: int
    position: int
    primary: str | None = None
    commit: tuple[str, str] | None = None
    """Of the checkout, from who reads the same files; None: it is found out there."""

    def run(self) -> PlannedRun:
        """As the runner wants it."""
        setup = Setup.of(self.resolved)
        point = Point(self.point_id, self.index, (), self.factors, self.settings, setup)
        return PlannedRun(point, self.block, self.attempt)


def asked_of(execution: Execution, resolved: dict[str, Any]) -> dict[str, Any]:
    """The fields of `AskedRun` for a run under way, but for the commit."""
    run, record = execution.run, execution.carrying.record
    same = {name: getattr(run.point, name) for name in ("point_id", "index", "factors", "settings")}
    trimmed = record.model_copy(update={"points": [], "axes": [], "resolved": {}})
    same |= {"record": trimmed, "resolved": resolved, "position": execution.position}
    return same | {"block": run.block, "attempt": run.attempt}


def carry_out(
    asked: AskedRun,
    folder: Path,
    tell: Callable[..., None],
    execution: Callable[[Carrying, PlannedRun, int], Execution] | None = None,
    shared: str | None = None,
) -> CatalogueLine:
    """Make the run and seal it in `folder/runs`; NfslabError when it cannot be stored.

    `shared`: the cache of the call, where it is on this machine.
    """
    from nfslab.experiment.execution import Carrying
    from nfslab.experiment.provenance import take_commit
    from nfslab.experiment.run_execution import RunExecution
    from nfslab.experiment.shared import run_cache, warm_up
    from nfslab.experiment.stop import Stop
    from nfslab.machine.turn import Turn
    from nfslab.results.store import ExperimentFolder

    if asked.commit is not None:
        take_commit(asked.commit)

    def phase(name: str) -> None:
        tell("phase", phase=name)

    cached = run_cache(asked.record.name) if shared is None else nullcontext(Path(shared))
    with Stop() as stop, Turn() as turn, cached as cache:
        turn.take()
        warm_up()
        tell("begins")
        results = ExperimentFolder(folder, asked.record)
        carrying = Carrying(
            results, asked.record, cache, stop, turn, phase, asked.primary, asked=False
        )
        line = (execution or RunExecution)(carrying, asked.run(), asked.position).execute()
        tell("sealed", status=line.status, reason=line.reason)
    return line


def main() -> int:
    """The exit code."""

    def tell(name: str, **content: Any) -> None:
        os.write(agent.STDOUT, agent.event(name, **content))

    try:
        carry_out(AskedRun.model_validate_json(Path(sys.argv[1]).read_bytes()), Path.cwd(), tell)
    except NfslabError as error:
        tell("error", **agent.error_content(error))
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())

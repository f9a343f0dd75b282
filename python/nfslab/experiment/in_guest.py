"""What a guest does: one run, carried out by the ordinary runner, sealed in the working folder.

    python -m nfslab.experiment.in_guest FILE

FILE holds what the runner outside asks for (`Asked`, pickled: the same nfslab reads it). On
standard output it hears lines of the protocol `machine.agent`: `begins`, each `phase`, `sealed`, or
`error`. Whether the run is good or failed stands in its record.
"""

from __future__ import annotations

import os
import pickle
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nfslab.errors import NfslabError
from nfslab.machine import agent

if TYPE_CHECKING:
    from collections.abc import Callable

    from nfslab.experiment.execution import Carrying, RunExecution
    from nfslab.experiment.plan import PlannedRun
    from nfslab.results.records import CatalogueLine, ExperimentRecord

MODULE = "nfslab.experiment.in_guest"


@dataclass(frozen=True, slots=True)
class Asked:
    """One run."""

    record: ExperimentRecord
    run: PlannedRun
    position: int
    primary: str | None
    commit: tuple[str, str] | None = None
    """Of the checkout, from who reads the same files; None: it is found out here."""


def carry_out(
    asked: Asked,
    folder: Path,
    tell: Callable[..., None],
    execution: Callable[[Carrying, PlannedRun, int], RunExecution] | None = None,
) -> CatalogueLine:
    """Make the run and seal it in `folder/runs`; NfslabError when it cannot be stored."""
    from nfslab.experiment.execution import Carrying, RunExecution
    from nfslab.experiment.provenance import take_commit
    from nfslab.experiment.shared import run_cache, warm_up
    from nfslab.experiment.stop import Stop
    from nfslab.machine.turn import Turn
    from nfslab.results.store import ExperimentFolder

    if asked.commit is not None:
        take_commit(asked.commit)

    def phase(name: str) -> None:
        tell("phase", phase=name)

    with Stop() as stop, Turn() as turn, run_cache(asked.record.name) as cache:
        turn.take()
        warm_up()
        tell("begins")
        results = ExperimentFolder(folder, asked.record)
        carrying = Carrying(
            results, asked.record, cache, stop, turn, phase, asked.primary, asked=False
        )
        line = (execution or RunExecution)(carrying, asked.run, asked.position).execute()
        tell("sealed", status=line.status, reason=line.reason)
    return line


def main() -> int:
    """The exit code."""

    def tell(name: str, **content: Any) -> None:
        os.write(agent.STDOUT, agent.event(name, **content))

    # Written by the runner that booted this guest, in a folder of its own.
    asked = pickle.loads(Path(sys.argv[1]).read_bytes())
    try:
        carry_out(asked, Path.cwd(), tell)
    except NfslabError as error:
        tell("error", **agent.error_content(error))
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())

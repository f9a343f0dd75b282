"""A process of the file workload, `python -m nfslab.workloads.files_part`, one of several:

    parent (`nfslab.machine.agent`)      this process
    files: its `config`            ──>   the phases (`nfslab._core.run_files`)
    go: `at_ns`                    <─>   at: `gate`, `phase`    wherever it waits for the others
                                   ──>   result: `result`
                                         between: progress: `state`; an error ends it

The parent's end of standard input is its life: when that closes, the work stops, and the files that
it made are removed. Alone, it is asked by a file: `... files_part CONFIG.json`.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from nfslab.machine.agent import Parent, ParentGone, child
from nfslab.machine.own_command import program

if TYPE_CHECKING:
    from collections.abc import Callable

LINE_MAX = 1 << 20
"""Bytes of a line; a configuration has some hundred."""


def work(parent: Parent) -> None:
    """From the configuration to the result."""
    from nfslab._core import run_files

    def progress(text: str) -> None:
        parent.say("progress", state=json.loads(text))
        if not parent.is_there():
            raise ParentGone

    def meet(gate: str, phase: str) -> int:
        parent.say("at", gate=gate, phase=phase)
        return int(parent.obey("go")["at_ns"])

    parent.say("ready")
    config: dict[str, Any] = parent.obey("files")["config"]
    result = json.loads(run_files(json.dumps(config), progress, meet))
    parent.say("result", result=result)


def alone(config: dict[str, Any], tell: Callable[[str], None]) -> Any:
    """The result of all phases."""
    from nfslab._core import run_files

    return json.loads(
        run_files(json.dumps(config), lambda text: tell(progress_words(json.loads(text))))
    )


def progress_words(state: dict[str, Any]) -> str:
    """How far a phase is."""
    return f"{state['phase'].replace('_', ' ')}: {state['done'] / max(state['total'], 1):.0%}"


if __name__ == "__main__":
    sys.exit(program(alone) if sys.argv[1:] else child(work, LINE_MAX))

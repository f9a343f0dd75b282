"""A point of one host, by a program of its own: `python -m nfslab.offered.measuring ASKED.json`.

Asked: the `plan`; how many `generators`, as processes; `calls`, a file for every call, or null; or
`prepare_only`. It prints the point's report with its histograms, or what became of the file set.
"""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nfslab.machine.own_command import program

if TYPE_CHECKING:
    from collections.abc import Callable

    from nfslab._core import Load

    Show = Callable[[dict[str, Any]], bool]
    """Told how far it is, by the core; false stops it."""


def work(asked: dict[str, Any], tell: Callable[[str], None]) -> Any:
    """The point, or its file set alone."""
    from nfslab._core import Load
    from nfslab.offered.processes import measured

    def show(state: dict[str, Any]) -> bool:
        tell(progress_words(state))
        return True

    plan = asked["plan"]
    if asked["prepare_only"]:
        return Load(json.dumps(plan)).prepare(show)
    if asked["generators"] > 1:
        report, load = measured(plan, asked["generators"], show)
    else:
        load = Load(json.dumps(plan))
        load.prepare(show)
        report = _run(load, asked["calls"], show)
    return report | {"histograms": histograms(load)}


def histograms(load: Load) -> dict[str, str]:
    """Those of a load, as base64."""
    found = load.histograms().items()
    return {name: base64.b64encode(one.to_v2()).decode() for name, one in found}


def progress_words(state: dict[str, Any]) -> str:
    """How far generator processes are; changes about once a second."""
    if state["stage"] == "prepare":
        return f"file set, {state['step']}: {state['done'] / max(state['total'], 1):.0%}"
    done_s, total_s = state["elapsed_ns"] / 1e9, state["total_ns"] / 1e9
    return f"{state['phase'].replace('_', ' ')}: {done_s:.0f} of {total_s:.0f} s"


def _run(load: Load, calls: str | None, show: Show) -> dict[str, Any]:
    """Measure, and write every call to a file if asked."""
    if calls is None:
        return load.run(show)
    from nfslab.servers.embedded_records import records_file

    file = records_file(Path(calls))
    file.begin(load.plan())

    def take(state: dict[str, Any]) -> bool:
        file.take(load.calls()[0])
        return show(state)

    report = load.run(take)
    columns, lost = load.calls()
    file.finish(columns)
    report["calls"] = {"file": file.path.name, "rows": file.rows, "lost": lost}
    return report


if __name__ == "__main__":
    sys.exit(program(work))

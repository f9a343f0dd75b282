"""Points of offered load, measured: one, a file set alone, or a search for the highest load."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any, Final

from nfslab.errors import Interrupted, RunFailed, of_core
from nfslab.offered.points import load_point
from nfslab.offered.search import Search
from nfslab.statistics.load_curve import load_curve

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from nfslab._core import Load
    from nfslab.offered.plans import Point
    from nfslab.offered.search import Goal

    Show = Callable[[dict[str, Any]], bool]
    """Told how far it is, by the core; false stops it."""
    Made = Callable[[dict[str, Any], Show], tuple[dict[str, Any], Load]]
    """A plan's point, made by others than this process: its report, and what has its histograms."""

USAGE_KINDS: Final = {"config", "file_set"}
SEARCH_START: Final = 1000.0


def measure_point(
    point: Point, calls: Path | None, show: Show, made: Made | None = None
) -> dict[str, Any]:
    """One point's report; one that could not be made has "failed" and its reason."""
    from nfslab._core import CoreError, Load
    from nfslab.offered.processes import PartFailed, measured

    plan = point.plan()
    try:
        if made is not None:
            try:
                report, load = made(plan, show)
            except RunFailed as error:
                raise PartFailed("hosts", error.what, error.why, error.fix) from error
        elif point.generators > 1:
            report, load = measured(plan, point.generators, show)
        else:
            load = Load(json.dumps(plan))
            load.prepare(show)
            report = _run(load, calls, show)
    except (CoreError, PartFailed) as error:
        if error.kind == "cancelled":
            raise Interrupted("stopped before the point was measured") from error
        if error.kind in USAGE_KINDS:
            raise of_core(error, USAGE_KINDS) from error
        text = f"{error.what}: {error.why}" if error.why else error.what
        return {
            "valid": False, "failed": error.kind, "achieved_ops_per_s": 0.0,
            "offered_ops_per_s": plan["load"]["rate_ops_per_s"], "response": {"mean_ns": None},
            "reasons": [{"kind": error.kind, "text": text}], "fix": error.fix,
        }  # fmt: skip
    report["histograms"] = {
        name: base64.b64encode(histogram.to_v2()).decode()
        for name, histogram in load.histograms().items()
    }
    return report


def prepare_point(point: Point, show: Show) -> dict[str, Any]:
    """The file set alone: what was found and made of it on each mount."""
    from nfslab._core import CoreError, Load

    plan = point.plan()
    try:
        made = Load(json.dumps(plan)).prepare(show)
    except CoreError as error:
        raise of_core(error, USAGE_KINDS) from error
    rate = plan["load"]["rate_ops_per_s"]
    return {"offered_ops_per_s": rate, "valid": True, "mounts": made}


def find(
    measured: Callable[[float, int, int | None], dict[str, Any]], goal: Goal, precision: float
) -> dict[str, Any]:
    """The highest load that meets the goal; RunFailed where a point cannot be measured."""
    search = Search(start=SEARCH_START, precision=precision)
    while (rate := search.next_load()) is not None:
        found = measured(rate, len(search.told) + 1, None)
        if found.get("failed"):
            raise RunFailed(
                "the search cannot go on",
                why=found["reasons"][0]["text"],
                fix=found["fix"] or "see to the server",
            )
        search.tell(rate, goal.verdict(found))
    return {
        "goal": str(goal),
        "found_ops_per_s": search.good,
        "missed_at_ops_per_s": search.bad,
        "generator_limit_ops_per_s": search.limited if search.bounded_by_generator else None,
        "points": len(search.told),
    }


def _run(load: Load, calls: Path | None, show: Show) -> dict[str, Any]:
    """Measure, and write every call to a file if asked."""
    if calls is None:
        return load.run(show)
    from nfslab.servers.embedded_records import records_file

    file = records_file(calls)
    file.begin(load.plan())

    def take(state: dict[str, Any]) -> bool:
        file.take(load.calls()[0])
        return show(state)

    report = load.run(take)
    columns, lost = load.calls()
    file.finish(columns)
    report["calls"] = {"file": str(calls), "rows": file.rows, "lost": lost}
    return report


def whole(result: dict[str, Any]) -> dict[str, Any]:
    """The result with the curve of its points."""
    result["curve"] = load_curve([load_point(point) for point in result["points"]]).as_dict()
    return result

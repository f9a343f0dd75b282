"""What programs on several client hosts said, put together by the unit."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from nfslab.errors import RunFailed
from nfslab.workloads.base import HostFigures, Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nfslab.context import HostPart
    from nfslab.results.records import Metric
    from nfslab.workloads.base import RunContext

OWN_METRICS: Final = frozenset({"wall_s", "user_s", "system_s"})


def together(context: RunContext, parts: Sequence[HostPart]) -> Outcome:
    """The metrics of all hosts' programs as one; RunFailed where one has another's not."""
    context.commands.extend(argv for part in parts for argv in part.record.commands)
    metrics: dict[str, Metric] = {}
    for name, first in parts[0].record.metrics.items():
        found = [part.record.metrics.get(name) for part in parts]
        values = [one.value for one in found if one is not None]
        if len(values) < len(parts):
            raise RunFailed(
                f"the metric {name!r} is not of every client host",
                why=", ".join(part.name for part, one in zip(parts, found, strict=True)
                              if one is None),
                fix="see what the program said there: hosts/NAME/logs of the run",
            )  # fmt: skip
        way, value = _together(name, first.unit, values)
        metrics[name] = first.model_copy(update={"value": value})
        context.notes.append(f"{name} of {len(parts)} client hosts: {way}")
    outcome = Outcome(metrics=metrics)
    rate = next((n for n, m in metrics.items() if m.primary and _is_rate(m.unit)), None)
    if rate is not None:
        outcome.by_host = {
            part.name: HostFigures(part.record.metrics[rate].value) for part in parts
        }
    return outcome


def _is_rate(unit: str) -> bool:
    return unit.endswith("/s")


def _together(name: str, unit: str, values: Sequence[float]) -> tuple[str, float]:
    """(how, the value) of one metric of several client hosts."""
    if name == "wall_s":
        return "the longest", max(values)
    if _is_rate(unit) or name in OWN_METRICS:
        return "the sum", math.fsum(values)
    return "the mean", math.fsum(values) / len(values)

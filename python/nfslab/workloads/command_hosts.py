"""What programs on several client hosts said, put together where it can be.

Rates and CPU times add up, the longest wall time is that of all. What else a program says (a
latency, a quantile, a count) may be anything: it stays each host's own.
"""

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

WALL: Final = "wall_s"
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
        if adds_up(name, first.unit):
            metrics[name] = first.model_copy(update={"value": math.fsum(values)})
        elif name == WALL:
            metrics[name] = first.model_copy(update={"value": max(values)})
        else:
            context.notes.append(f"{name} is each client host's own: hosts/NAME/run.json")
    outcome = Outcome(metrics=metrics)
    rate = next((n for n, m in metrics.items() if m.primary and _is_rate(m.unit)), None)
    if rate is not None:
        outcome.by_host = {
            part.name: HostFigures(part.record.metrics[rate].value) for part in parts
        }
    return outcome


def adds_up(name: str, unit: str) -> bool:
    """Over hosts that are at work at the same time."""
    return _is_rate(unit) or name in OWN_METRICS - {WALL}


def _is_rate(unit: str) -> bool:
    return unit.endswith("/s")

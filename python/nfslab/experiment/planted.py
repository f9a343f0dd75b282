"""Latency that the experiment itself plants: said with every figure that it is in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nfslab.display.numbers import quantity
from nfslab.results.records import CheckRecord

if TYPE_CHECKING:
    from nfslab.experiment.setup import Setup


def planted_latency(setup: Setup) -> list[CheckRecord]:
    """Of clients and servers of ours; a check that is a warning wherever there is some."""
    said = [
        f"calls to target {name} wait before they are sent ({delay})"
        for name, target in setup.used_targets().items()
        if (delay := getattr(target.parameters, "call_delay", None))
    ]
    delays = getattr(setup.workload.parameters, "planted_delay", {})
    said += [
        f"each {name} of the server waits {quantity(seconds, 's')}"
        for name, seconds in delays.items()
        if seconds > 0
    ]
    if not said:
        return []
    message = f"planted latency, which no storage has: {'; '.join(said)}"
    return [CheckRecord(name="planted", verdict="warning", message=message)]

"""All scenarios by name."""

from __future__ import annotations

from .adverse import ADVERSE
from .made import Made, Scenario
from .scenarios import FAILURES

ALL = {**FAILURES, **ADVERSE}
POINTS = ("client", "between", "server")


def scenario(name: str, point: str, seed: int) -> Scenario:
    """The capture of this name, point and seed."""
    return ALL[name](Made(name, point, seed))

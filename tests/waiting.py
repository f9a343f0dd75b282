"""Waiting for what a real process or thread will do, without a limit of our own.

How long something takes on a busy machine is no fact about the product. What never comes is ended
by pytest's time limit for a whole test, which says where it stood.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")

LOOK_S: Final = 0.01
NO_LIMIT_S: Final = 3600.0
"""For calls that ask for a limit: pytest ends the test before."""


def until(condition: Callable[[], T]) -> T:
    """Looks again and again; returns the condition's first value that is true."""
    while not (value := condition()):
        time.sleep(LOOK_S)
    return value

"""What an agent says, one event after the other."""

from __future__ import annotations

import weakref
from typing import Any

from nfslab.cluster.base import Agent

from tests.waiting import NO_LIMIT_S

_unheard: weakref.WeakKeyDictionary[Agent, list[dict[str, Any]]] = weakref.WeakKeyDictionary()


def heard(agent: Agent, name: str) -> dict[str, Any]:
    """The next event of that name; what came before it is of no interest, what came after it is."""
    waiting = _unheard.setdefault(agent, [])
    while True:
        while waiting:
            event = waiting.pop(0)
            if event["event"] == name:
                return event
        waiting += agent.events(NO_LIMIT_S)
        assert waiting, f"nothing was said within {NO_LIMIT_S} s"

"""What an agent says, one event after the other."""

from __future__ import annotations

import weakref
from typing import Any

from nfslab.cluster.base import Agent

PATIENCE_S = 60.0
_unheard: weakref.WeakKeyDictionary[Agent, list[dict[str, Any]]] = weakref.WeakKeyDictionary()


def heard(agent: Agent, name: str) -> dict[str, Any]:
    """The next event of that name; what came before it is of no interest, what came after it is."""
    waiting = _unheard.setdefault(agent, [])
    while True:
        while waiting:
            event = waiting.pop(0)
            if event["event"] == name:
                return event
        waiting += agent.events(PATIENCE_S)
        assert waiting, f"nothing was said within {PATIENCE_S} s"

"""What differs between client hosts that ought to be alike: machine, software, mounts in effect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from nfslab.results.catalogue import read_provenance
from nfslab.results.setup import setup_facts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from nfslab.context import HostPart

MOST: Final = 20
"""Differences told; the others are counted."""
OF_EACH: Final = frozenset({"inventory", "network", "environment"})
"""Sections of the machine in which every machine has its own: names, addresses, serial numbers."""


def differences(parts: Sequence[HostPart]) -> list[str]:
    """A text for each fact that is not the same on all hosts; empty where all are alike."""
    told = {part.name: dict(_flat(_facts(part), ())) for part in parts}
    names = dict.fromkeys(name for facts in told.values() for name in facts)
    found = []
    for name in names:
        by_value: dict[str, list[str]] = {}
        for host, facts in told.items():
            by_value.setdefault(facts.get(name, "nothing"), []).append(host)
        if len(by_value) > 1:
            values = ", ".join(f"{value} ({' '.join(hosts)})" for value, hosts in by_value.items())
            found.append(f"{name}: {values}")
    left = len(found) - MOST
    return found[:MOST] + ([f"and {left} more"] if left > 0 else [])


def _facts(part: HostPart) -> dict[str, Any]:
    facts = setup_facts(part.record, read_provenance(part.folder))
    machine = {name: one for name, one in facts["machine"].items() if name not in OF_EACH}
    return {"places": facts["places"], "machine": machine}


def _flat(content: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for name, value in content.items():
        if isinstance(value, dict):
            yield from _flat(value, (*path, str(name)))
        else:
            yield " ".join((*path, str(name))), str(value)

"""What differs between client hosts that ought to be alike: machine, software, mounts in effect."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from nfslab.experiment.provenance import MEMORY_STEP_BYTES
from nfslab.results.catalogue import read_provenance
from nfslab.results.setup import setup_facts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from nfslab.context import HostPart

MOST: Final = 20
"""Differences told; the others are counted."""
FIRST: Final = ("machine kernel release", "places", "machine software", "machine nfslab")
"""Beginnings of what is told before the rest: two machines may differ in far more than `MOST`."""
OF_EACH: Final = frozenset({"inventory", "network", "environment"})
"""Sections of the machine in which every machine has its own: names, addresses, serial numbers."""
OWN_ADDRESS: Final = "clientaddr"
"""A mount option in which every client has its own."""
OWN_DISK: Final = re.compile(r"(^| )(root|resume)=\S*")
"""Words of a kernel's command line in which every machine has its own."""


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
    return _in_turns(found)[:MOST] + ([f"and {left} more"] if left > 0 else [])


def _in_turns(found: Sequence[str]) -> list[str]:
    """The first of each sort, then the second of each, and so on; sorts as in `FIRST`."""
    seen = Counter[int]()
    order = []
    for text in found:
        sort = next((at for at, name in enumerate(FIRST) if text.startswith(name)), len(FIRST))
        order.append((seen[sort], sort, text))
        seen[sort] += 1
    return [text for _, _, text in sorted(order)]


def _facts(part: HostPart) -> dict[str, Any]:
    facts = setup_facts(part.record, read_provenance(part.folder))
    machine = {name: one for name, one in facts["machine"].items() if name not in OF_EACH}
    kernel, memory = machine.get("kernel"), machine.get("memory")
    if isinstance(kernel, dict) and "command_line" in kernel:
        machine["kernel"] = kernel | {"command_line": OWN_DISK.sub("", str(kernel["command_line"]))}
    if isinstance(memory, dict) and isinstance(total := memory.get("MemTotal_bytes"), int):
        # As a machine's fingerprint has it: equal modules leave slightly different amounts.
        steps = round(total / MEMORY_STEP_BYTES)
        machine["memory"] = memory | {"MemTotal_bytes": steps * MEMORY_STEP_BYTES}
    return {
        "places": {role: _by_option(place) for role, place in facts["places"].items()},
        "machine": machine,
    }


def _by_option(place: Mapping[str, Any]) -> dict[str, Any]:
    """A place with each mount option in effect as a fact of its own; an NFS mount's win."""
    nfs = dict(place.get("nfs", {}))
    texts = (place["mount options"], str(nfs.pop("options_reported", "")))
    pairs = (option.partition("=") for text in texts for option in text.split(",") if option)
    options = {name: value or "set" for name, _, value in pairs if name != OWN_ADDRESS}
    others = {name: one for name, one in place.items() if name not in ("mount options", "nfs")}
    return others | {"option": options, "nfs": nfs}


def _flat(content: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for name, value in content.items():
        if isinstance(value, dict):
            yield from _flat(value, (*path, str(name)))
        else:
            yield " ".join((*path, str(name))), str(value)

"""What was in effect during a run and ought to be the same for the next one.

From a run's record and its provenance those facts are taken that do not change by
themselves: mount options and server settings as read back, kernel, CPU, versions. Left out
is what differs between two runs of an unchanged machine (free memory, uptime, the load
before the start, loop devices made anew for each run, paths of the run's own folders).

Two runs with the same facts have the same *digest*. It stands in every line of the
catalogue, so that a change of the machine in the middle of ten thousand runs is seen
without opening ten thousand files.

Taken are the facts that are named here: something new in a provenance is not taken for a
change of the machine until somebody says that it is one.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nfslab.results.records import PlaceRecord, RunRecord

MACHINE_SECTIONS = (
    "kernel",
    "cpu",
    "firmware",
    "virtualisation",
    "clock",
    "software",
    "nfslab",
    "environment",
    "user",
    "inventory",
    "virtual_machine",
)
"""Sections of the provenance that describe the machine and its software."""

DRIFTING: dict[str, frozenset[str]] = {
    "kernel": frozenset({"uptime_s"}),
    "cpu": frozenset({"frequency_mhz_now", "frequencies_khz"}),
    "clock": frozenset({"maximum_error_us", "synchronised"}),
}
"""Entries of these sections that change by themselves."""

MEMORY_ENTRIES = ("MemTotal_bytes", "SwapTotal_bytes", "HugePages_Total", "Hugepagesize_bytes")

MADE_FOR_A_RUN = re.compile(r"(loop|md|dm-|zram)\d+")
"""Devices that a run makes for itself: another number each time says nothing."""

PORTS = re.compile(r",(mount)?port=\d+")
"""Of a server of the run: others each time."""

PLACE_FACTS = ("backend", "number_of_devices", "chunk_bytes", "loop_files", "profiles")
"""Facts of a place that were read back and are the same for every run there."""

NFS_FACTS = (
    "transports", "transport_protocols", "sec", "options_reported", "client", "server", "served",
)  # fmt: skip
SERVER_FACTS = ("version", "source", "settings")
ENGINES = {"postgresql": "PostgreSQL", "mariadb": "MariaDB", "sqlite": "SQLite"}
"""Name of a database's facts at a place -> as people write it."""


def setup_facts(record: RunRecord, provenance: Mapping[str, Any]) -> dict[str, Any]:
    """{"places": by role, "server": ..., "machine": ..., "disks": by device} of one run."""
    machine = _machine(provenance)
    if record.client_hosts:
        # As a set: another number of hosts that are alike is no other machine.
        machine["client hosts"] = sorted({host.setup for host in record.client_hosts})
    if record.server_host:
        machine["server host"] = record.server_host.setup
    return {
        "places": {role: _place(place) for role, place in record.places.items()},
        "server": server_facts(record),
        "machine": machine,
        "disks": _disks(provenance),
    }


def server_facts(record: RunRecord) -> dict[str, Any]:
    """What the workload's server said of itself: version, where from, settings in effect.

    A workload leaves it with the facts of the place where its data is.
    """
    for place in record.places.values():
        for key, engine in ENGINES.items():
            stated = place.facts.get(key)
            if isinstance(stated, dict):
                # Older results are PostgreSQL's, and do not say so.
                told = {} if key == "postgresql" else {"engine": engine}
                return told | {name: stated[name] for name in SERVER_FACTS if name in stated}
    return {}


def setup_digest(record: RunRecord, provenance: Mapping[str, Any]) -> str:
    """Twelve hex digits that differ when anything in `setup_facts` differs."""
    return _digest(setup_facts(record, provenance))


def machine_digest(provenance: Mapping[str, Any]) -> str:
    """The same of a machine and its software alone."""
    return _digest(_machine(provenance))


def _digest(facts: dict[str, Any]) -> str:
    canonical = json.dumps(facts, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(canonical.encode()).hexdigest()[:12]


def _place(place: PlaceRecord) -> dict[str, Any]:
    """A place without what belongs to one run (its folder, its loop device)."""
    facts: dict[str, Any] = {
        "target": place.target,
        "kind": place.kind,
        "filesystem": place.filesystem,
        "mount options": PORTS.sub("", place.mount_options),
        "durability": place.durability.level,
    }
    facts |= {name: place.facts[name] for name in PLACE_FACTS if name in place.facts}
    nfs = place.facts.get("nfs")
    if isinstance(nfs, dict):
        facts["nfs"] = {name: nfs[name] for name in NFS_FACTS if name in nfs}
    return facts


def _machine(provenance: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for section in MACHINE_SECTIONS:
        content = provenance.get(section)
        if isinstance(content, dict):
            drifting = DRIFTING.get(section, frozenset())
            content = {name: value for name, value in content.items() if name not in drifting}
        if content is not None and content != {}:
            found[section] = content
    memory = provenance.get("memory")
    if isinstance(memory, dict):
        found["memory"] = {name: memory[name] for name in MEMORY_ENTRIES if name in memory}
    network = provenance.get("network")
    if isinstance(network, dict):
        # Only what has a driver: containers come and go with interfaces of their own.
        found["network"] = {
            name: {key: value for key, value in link.items() if key != "operstate"}
            for name, link in network.items()
            if isinstance(link, dict) and "driver" in link
        }
    return found


def _disks(provenance: Mapping[str, Any]) -> dict[str, Any]:
    disks = provenance.get("disks")
    if not isinstance(disks, dict):
        return {}
    return {name: disk for name, disk in disks.items() if not MADE_FOR_A_RUN.fullmatch(name)}

"""Under which conditions the runs were made: places, machine, versions, collectors.

Everything is read back from the runs' own records. Where it was the same for all runs it
is said once; where it was not, every state is listed with the number of its runs, and
`validity` makes a warning of it.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

from nfslab.mounts.kernel_options import without_ports
from nfslab.report.model import PlaceInfo, SetupInfo
from nfslab.results.selection import scalar_paths

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nfslab.results.outcomes import Outcomes
    from nfslab.results.records import RunRecord

VERSIONS = {
    "kernel": "kernel.release",
    "distribution": "kernel.distribution",
    "Python": "software.python",
    "nfslab": "nfslab.version",
}
"""What is shown of the machine's software -> where it is in the provenance."""

_Place = tuple[str, str, str, str, str, str, tuple[str, ...]]
MAX_PLACES = 500
"""Distinct places listed; a matrix of targets and options has fewer."""


def places(records: Iterable[RunRecord]) -> list[PlaceInfo]:
    """The distinct places of the counted runs, most used first within each role.

    Facts are those on which all runs at the place agree (a loop device has another number
    each time); NFS options are without the ports, which a server of a run has anew.
    """
    found: dict[_Place, tuple[dict[str, Any], int]] = {}
    for record in records:
        for role, place in record.places.items():
            key = (
                role,
                place.target,
                place.kind,
                place.filesystem,
                without_ports(place.mount_options),
                place.durability.level,
                tuple(place.durability.reasons),
            )
            facts, runs = found.get(key, (place.facts, 0))
            if facts != place.facts:
                facts = {k: v for k, v in facts.items() if place.facts.get(k) == v}
            if key in found or len(found) < MAX_PLACES:
                found[key] = (facts, runs + 1)
    listed = [
        PlaceInfo(*key[:-1], list(key[-1]), facts, runs) for key, (facts, runs) in found.items()
    ]
    return sorted(listed, key=lambda place: (place.role, -place.runs, place.target))


def setups(outcomes: Outcomes) -> list[SetupInfo]:
    """The distinct states of the machine over the counted runs, most used first."""
    found: dict[str, tuple[dict[str, Any], int, str]] = {}
    for setup in outcomes.setups:
        key = repr(sorted(scalar_paths(setup.machine).items()))
        machine, runs, first = found.get(key, (setup.machine, 0, setup.lines[0].run_id))
        found[key] = (machine, runs + len(setup.lines), first)
    listed = [SetupInfo(*entry) for entry in found.values()]
    return sorted(listed, key=lambda setup: -setup.runs)


def server(outcomes: Outcomes) -> dict[str, list[str]]:
    """Fact of the workload's server -> its values over the counted runs, in order."""
    found: dict[str, dict[str, None]] = {}
    for setup in outcomes.setups:
        for path, value in scalar_paths(setup.server).items():
            found.setdefault(path, {})[str(value)] = None
    return {path: list(values) for path, values in found.items()}


def versions(
    machines: Sequence[SetupInfo], outcomes: Outcomes, records: Iterable[RunRecord]
) -> dict[str, str]:
    """What of software a reader asks for -> version; several are joined, none is hidden."""
    found: dict[str, dict[str, None]] = {}

    def add(name: str, value: Any) -> None:
        if value:
            found.setdefault(name, {})[str(value)] = None

    for setup in machines:
        facts = scalar_paths(setup.machine)
        for name, path in VERSIONS.items():
            add(name, facts.get(path))
        for path, value in facts.items():
            if path.startswith("software.programs."):
                add(path.removeprefix("software.programs."), value)
        add("commit", _short_commit(facts.get("nfslab.commit")))
    for host in (host for record in records for host in record.client_hosts):
        add("kernel of client hosts", host.facts.get("kernel"))
    for one in outcomes.setups:
        add(one.server.get("engine", "PostgreSQL"), one.server.get("version"))
    return {name: ", ".join(values) for name, values in found.items()}


def _short_commit(commit: Any) -> str:
    """Twelve digits, and whether the files had been changed."""
    digits, dash, changed = str(commit or "").partition("-")
    return digits[:12] + dash + changed


def collectors(records: Iterable[RunRecord]) -> dict[str, dict[str, Any]]:
    """Collector -> runs in which it worked, did not, why not, and what it cost."""
    found: dict[str, dict[str, Any]] = {}
    for record in records:
        for evidence in record.evidence:
            entry = found.setdefault(
                evidence.collector,
                {
                    **dict.fromkeys(("ok", "incomplete", "unavailable", "failed", "moot"), 0),
                    "reasons": [],
                    "cpu_s": 0.0,
                    "wall_s": 0.0,
                },
            )
            status, reason = evidence.status, evidence.reason
            if status == "ok" and (missing := evidence.summary.get("incomplete")):
                # A run of before this was noted.
                status, reason = "incomplete" if evidence.tables else "failed", str(missing)
            entry[status] += 1
            if reason and reason not in entry["reasons"]:
                entry["reasons"].append(reason)
            if evidence.cpu_s is not None and evidence.wall_s:
                entry["cpu_s"] += evidence.cpu_s
                entry["wall_s"] += evidence.wall_s
    for entry in found.values():
        entry["cpu_share"] = entry["cpu_s"] / entry["wall_s"] if entry["wall_s"] else None
    return found


def evidence_sums(records: Iterable[RunRecord]) -> dict[str, dict[str, dict[str, Any]]]:
    """Collector -> number it summed up ("pg_stat_wal.wal_sync") -> point -> n, median, min, max.

    Runs of one point alone are put together: over unlike points a median tells of none of them.
    """
    values: dict[str, dict[str, dict[str, list[float]]]] = {}
    for record in records:
        for evidence in record.evidence:
            of_collector = values.setdefault(evidence.collector, {})
            for path, value in scalar_paths(evidence.summary).items():
                if isinstance(value, int | float) and not isinstance(value, bool):
                    by_point = of_collector.setdefault(path, {})
                    by_point.setdefault(record.point_id, []).append(float(value))
    return {
        collector: {
            path: {point: _sums(runs) for point, runs in by_point.items()}
            for path, by_point in by_path.items()
        }
        for collector, by_path in values.items()
        if by_path
    }


def _sums(values: list[float]) -> dict[str, Any]:
    return {
        "n": len(values),
        "median": statistics.median(values),
        "minimum": min(values),
        "maximum": max(values),
    }

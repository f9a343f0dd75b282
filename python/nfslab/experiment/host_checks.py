"""Checks on a run of several client hosts: begun together? alike? and what each of them saw.

The start: each host's programs say when they were there to begin; the common start is an instant of
our clock. Skew counts with the error of the clocks' comparison, so a network that compares badly
cannot hide it. What it can do to the figures is bounded: a host that began later by d left out at
most d of the timed part, so the run is judged by that share of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nfslab.experiment.host_differences import differences
from nfslab.machine.journal import boot_id
from nfslab.results import emulation
from nfslab.results.records import CheckRecord

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nfslab.context import HostPart
    from nfslab.results.records import RunHostRecord

STAMP: Final = emulation.CHECK
SKEW_MAX_SHARE: Final = 0.01
"""Of the timed part: beyond it the hosts did not begin together, and the run does not count."""
OF_THE_MACHINE: Final = frozenset({"busy_machine", "another_experiment"})
"""What a host on this machine would say of the same processors."""
NS_PER_MS: Final = 1e6


def host_checks(
    records: Sequence[RunHostRecord],
    parts: Sequence[HostPart],
    timed_ns: int,
    server: RunHostRecord | None = None,
) -> list[CheckRecord]:
    """The start, the hosts beside each other, and what each host's own checks found."""
    checks = [start_skew(records, timed_ns, server), alike(parts)]
    for part, record in zip(parts, records, strict=True):
        checks += told_by(part, record)
    return checks


def told_by(part: HostPart, record: RunHostRecord) -> list[CheckRecord]:
    """What a host's own checks found to be wrong."""
    is_prime = record.facts.get("boot_id") == boot_id()
    return [
        check.model_copy(update={"message": f"{part.name}: {check.message}"})
        for check in part.record.checks
        if check.verdict in ("warning", "violation")
        and not (check.name in OF_THE_MACHINE and is_prime)
        # The whole run bears that stamp.
        and check.name != STAMP
    ]


def start_skew(
    records: Sequence[RunHostRecord], timed_ns: int, server: RunHostRecord | None = None
) -> CheckRecord:
    """Did all begin at the common start, as far as the clocks tell?

    An emulated processor runs when there is time for it: where one took part nobody can say.
    """
    found = _start_skew(records, timed_ns)
    hosts = [*records, *([server] if server else [])]
    slow = [one.name for one in hosts if one.facts.get("emulated")]
    if not slow:
        return found
    said = f"{', '.join(slow)}: emulated, so no start is judged ({found.message})"
    return found.model_copy(update={"verdict": "unknown", "message": said})


def _start_skew(records: Sequence[RunHostRecord], timed_ns: int) -> CheckRecord:
    unknown = [one.name for one in records if one.skew_ns is None]
    if unknown:
        return CheckRecord(
            name="start_skew",
            verdict="violation",
            message=f"{', '.join(unknown)}: nobody knows when its programs began",
        )

    def most(one: RunHostRecord) -> int:
        assert one.skew_ns is not None
        return abs(one.skew_ns) + one.clock.error_ns

    worst = max(records, key=most)
    skew_ns, error_ns = worst.skew_ns or 0, worst.clock.error_ns
    effect = most(worst) / timed_ns if timed_ns > 0 else None
    said = f"{worst.name} began {abs(skew_ns) / NS_PER_MS:.2f} ms "
    said += "behind" if skew_ns >= 0 else "before"
    said += f" the common start (clocks compared to {error_ns / NS_PER_MS:.2f} ms), the others less"
    if len(records) == 1:
        said = said.removesuffix(", the others less")
    if effect is not None:
        said += f": at most {effect:.2%} of its timed part"
    too_much = effect is not None and effect > SKEW_MAX_SHARE
    if too_much:
        said += f"; more than {SKEW_MAX_SHARE:.0%}: the hosts did not begin together"
    values = {one.name: {"skew_ns": one.skew_ns, "error_ns": one.clock.error_ns} for one in records}
    return CheckRecord(
        name="start_skew",
        verdict="unknown" if effect is None else "violation" if too_much else "ok",
        message=said,
        values={"hosts": values, "effect_share": effect, "limit_share": SKEW_MAX_SHARE},
    )


def alike(parts: Sequence[HostPart]) -> CheckRecord:
    """Kernel, versions, options in effect: the same on all of them?"""
    found = differences(parts)
    if not found:
        message = "the client hosts have the same kernel, versions and options in effect"
        return CheckRecord(name="hosts_alike", verdict="ok", message=message)
    message = "the client hosts differ: " + "; ".join(found)
    return CheckRecord(
        name="hosts_alike", verdict="warning", message=message, values={"differences": found}
    )

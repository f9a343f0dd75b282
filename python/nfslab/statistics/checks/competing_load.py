"""Was the machine doing something else? CPU used by others, and CPU that was never ours.

Shares are of all CPUs of the machine (0 to 1): `others` is what was busy but belongs
neither to the workload nor to nfslab; `steal` is what the hypervisor gave to other guests.
The limits are the smallest loads whose effect a comparison of storage layouts would notice;
both are warnings, since such a run is true, only not alone.
"""

from __future__ import annotations

from nfslab.statistics.checks.check import Check, known, unknown

NAME = "busy_machine"
OTHERS_LIMIT = 0.05
STEAL_LIMIT = 0.01
CLOCK_TICK_SLACK = 0.02
"""CPU times come in ticks of 10 ms: a share may come out slightly negative over short times."""


def check_competing_load(
    *,
    others_before: float | None,
    others_during: float | None,
    steal_during: float | None,
) -> Check:
    """Did other programs or other guests use the CPUs, before or during the run?

    Each argument is a share of all CPUs, None when it was not measured. What is known is
    judged even if the rest is not; with nothing known the verdict is "unknown".
    """
    shares = {
        "others_before": others_before,
        "others_during": others_during,
        "steal_during": steal_during,
    }
    limits = {
        "others_before": OTHERS_LIMIT,
        "others_during": OTHERS_LIMIT,
        "steal_during": STEAL_LIMIT,
    }
    words = {
        "others_before": "other programs used {} of the CPUs before the run",
        "others_during": "other programs used {} of the CPUs during the run",
        "steal_during": "the hypervisor kept back {} of the CPUs (steal)",
    }
    present = {label: share for label, share in shares.items() if share is not None}
    if not present or not known(*present.values()):
        return unknown(NAME, dict(shares))
    values: dict[str, float] = dict(present)
    values["others_limit"], values["steal_limit"] = OTHERS_LIMIT, STEAL_LIMIT
    impossible = [
        label
        for label, share in present.items()
        if not -CLOCK_TICK_SLACK <= share <= 1 + CLOCK_TICK_SLACK
    ]
    if impossible:
        text = ", ".join(f"{label} = {present[label]:.3f}" for label in impossible)
        return Check(NAME, "violation", f"shares of CPU outside 0 to 1: {text}", values)
    found = [
        words[label].format(f"{share:.1%}")
        for label, share in present.items()
        if share > limits[label]
    ]
    absent = [label for label, share in shares.items() if share is None]
    tail = f" (not measured: {', '.join(absent)})" if absent else ""
    if found:
        return Check(NAME, "warning", "; ".join(found) + tail, values)
    return Check(NAME, "ok", "the machine was otherwise idle" + tail, values)

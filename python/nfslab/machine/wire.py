"""What a network has that a veth pair has not: delay, loss, a rate, by the kernel's netem.

Each applies to what a device sends; both ends of a pair get it, so that it applies to each way. On
a device with a wire no packet is larger than the MTU: else one loss would be that of many packets.

Source: tc-netem(8), ip-link(8) (gso_max_segs).
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from nfslab.errors import RunFailed
from nfslab.machine.availability import Availability

if TYPE_CHECKING:
    from collections.abc import Callable

QUEUE_PACKETS: Final = 100_000
"""What may be on its way: 1.2 Gbit/s for a second. netem drops what is beyond."""
PRECISION: Final = 1e-3
"""Of what is read back: netem keeps a loss as a 32-bit fraction, times in ticks of 64 ns."""


TRIED: Final = "ip link set lo up && tc qdisc add dev lo root netem delay 1ms"
"""Works, in a network namespace that is gone at once, where the kernel has netem."""


@dataclass(frozen=True, slots=True)
class Wire:
    """Of each way."""

    delay_s: float = 0.0
    loss_percent: float = 0.0
    rate_bytes_per_s: int = 0
    """0: as fast as it goes."""

    def __bool__(self) -> bool:
        return bool(self.delay_s or self.loss_percent or self.rate_bytes_per_s)

    def arguments(self) -> list[str]:
        """Of tc-netem(8)."""
        said = ["limit", str(QUEUE_PACKETS)]
        if self.delay_s:
            said += ["delay", f"{round(self.delay_s * 1e6)}us"]
        if self.loss_percent:
            said += ["loss", f"{self.loss_percent:g}%"]
        if self.rate_bytes_per_s:
            said += ["rate", f"{self.rate_bytes_per_s * 8}bit"]
        return said


def lay(wire: Wire, device: str, run: Callable[..., str]) -> dict[str, Any]:
    """On a device; `run` starts a program where it is. What is in effect, read back; RunFailed."""
    run("ip", "link", "set", device, "gso_max_segs", "1")
    run("tc", "qdisc", "add", "dev", device, "root", "netem", *wire.arguments())
    [shown] = json.loads(run("tc", "-json", "qdisc", "show", "dev", device, "root"))
    options = shown["options"]
    found = Wire(
        delay_s=options.get("delay", {}).get("delay", 0.0),
        loss_percent=100 * options.get("loss-random", {}).get("loss", 0.0),
        rate_bytes_per_s=options.get("rate", {}).get("rate", 0),
    )
    for name, asked in asdict(wire).items():
        if abs(getattr(found, name) - asked) > PRECISION * asked:
            raise RunFailed(
                f"the wire on {device} is not as asked: {name} is {getattr(found, name)}",
                why=f"asked {asked}; tc shows {options}",
                fix="ask for what the kernel can do",
            )
    return asdict(found)


def missing(said: str) -> Availability:
    """What to do where `TRIED` failed with these words."""
    return Availability(
        False, f"this kernel has no netem: {said.strip()}",
        'use a stock kernel: [machine] kernel = "6.12"',
    )  # fmt: skip

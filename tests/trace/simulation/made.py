"""What is planted in simulated captures, and what is then true of them.

`may`: what is true, said or not. `must`: what the packets show well enough to be named; where it
is empty nothing can be told from that capture point. All else that is said is false.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.trace.generator.flows import Packet
from tests.trace.generator.link import Endpoint

from .hosts import Client, World
from .network import MS, US, Segment

CLIENT = Endpoint("10.1.0.1", 801)
SHORT = 65_535


@dataclass(frozen=True)
class Scenario:
    """A capture with its truth."""

    name: str
    point: str
    seed: int
    frames: list[Packet]
    may: frozenset[str] = frozenset()
    must: frozenset[str] = frozenset()
    snaplen: int = SHORT


@dataclass(eq=False)
class Made:
    """A world with its client, and what scenarios are drawn with."""

    name: str
    point: str
    seed: int
    rng: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.rng = random.Random(f"{self.name} {self.point} {self.seed}")

    def world(self, **options: object) -> World:
        delay = round(math.exp(self.rng.uniform(math.log(30), math.log(2_000)))) * US
        world = World(self.rng.getrandbits(32), self.point, delay)
        for name, value in options.items():
            setattr(world, name, value)
        if "threads" in options:
            world.__post_init__()
        return world

    def client(self, world: World, depth: int | None = None, **options: object) -> Client:
        """Calls with some thought between, so that a second is no more than a few hundred."""
        mean = self.rng.uniform(10, 25) * MS
        rng = world.rng
        defaults = {"think_ns": lambda: round(rng.expovariate(1 / mean))}
        return Client(
            world, CLIENT, depth or self.rng.choice([1, 1, 2, 4]), **{**defaults, **options}
        )

    def end(
        self, world: World, seconds: float, may: str = "", must: str = "", **other: object
    ) -> Scenario:
        known = frozenset(must.split())
        if self.name != "bufferbloat":
            # The median call takes 0.3 ms in the server, and the way 0.06 ms and more.
            may += " time_in_server"
        return Scenario(
            self.name, self.point, self.seed, world.run(seconds), known | set(may.split()), known,
            **other,  # type: ignore[arg-type]
        )  # fmt: skip


def lose_one(
    path_of: Callable[[World], object], begin_s: float, wanted: Callable[[Segment], bool]
) -> Callable[[World], list[int]]:
    """Has a path lose the first such packet from then on."""

    def plant(world: World) -> list[int]:
        path = path_of(world)
        done: list[int] = []

        def lost(segment: Segment, now_ns: int) -> bool:
            if now_ns < world.at(begin_s) or done or not wanted(segment):
                return False
            done.append(now_ns)
            return True

        path.lost = lost  # type: ignore[attr-defined]
        return done

    return plant


def has_data(segment: Segment) -> bool:
    return len(segment.data) > 0


def pauses(made: Made, draw: Callable[[random.Random], float], until: float) -> World:
    """After bursts of random length the client pauses."""
    world = made.world()
    rng = world.rng

    def think() -> int:
        if rng.random() < 0.04:
            return round(draw(rng) * 1e9)
        return round(rng.expovariate(1 / (2 * MS)))

    made.client(world, depth=1, think_ns=think)
    del until
    return world


def four(made: Made) -> tuple[World, list[Endpoint]]:
    """One client with four connections (nconnect=4)."""
    world = made.world()
    ends = [Endpoint(CLIENT.host, CLIENT.port + number) for number in range(4)]
    for end in ends:
        mean = made.rng.uniform(10, 25) * MS
        think = lambda mean=mean: round(world.rng.expovariate(1 / mean))  # noqa: E731
        Client(world, end, made.rng.choice([2, 3, 4]), think_ns=think)
    return world, ends


def joined(frames: list[Packet], port: int, most: int) -> list[Packet]:
    """Segments from a port that follow each other at once become one, as offload joins them."""
    out: list[Packet] = []
    for frame in frames:
        before = out[-1] if out else None
        if before is not None and follows(before.ip, frame.ip, port, most):
            head = 20 + (before.ip[32] >> 4) * 4
            data = before.ip[head:] + frame.ip[20 + (frame.ip[32] >> 4) * 4 :]
            ip = bytearray(before.ip[:head] + data)
            ip[2:4] = len(ip).to_bytes(2, "big")
            out[-1] = Packet(before.time_ns, bytes(ip))
        else:
            out.append(frame)
    return out


def follows(one: bytes, other: bytes, port: int, most: int) -> bool:
    if one[12:20] != other[12:20] or one[20:24] != other[20:24]:
        return False
    if int.from_bytes(one[20:22], "big") != port:
        return False
    first, second = 20 + (one[32] >> 4) * 4, 20 + (other[32] >> 4) * 4
    sequence = int.from_bytes(one[24:28], "big") + len(one) - first
    same = sequence & 0xFFFFFFFF == int.from_bytes(other[24:28], "big")
    return same and len(one) > first and len(other) > second and len(one) < most

"""Situations whose cause is known: experiments of one base and levels with something planted.

Each experiment has its base, the same again (nothing planted), a cause small and large, and, where
two go together, a pair. Magnitudes are drawn from the given generator: nothing can be tuned to
them.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from nfslab.findings.calls import Call

Settings = dict[str, Any]
Ends = tuple[float, float]
Make = Callable[[float], Settings]
Each = Callable[[float], dict[str, float]]
Byte = Callable[[float], float]
SMALL: Final = "small"
LARGE: Final = "large"


@dataclass(frozen=True)
class Level:
    """One point beside the base."""

    name: str
    causes: tuple[str, ...]
    """Planted; empty: nothing."""
    settings: Settings
    each_ns: Mapping[str, float] = field(default_factory=dict)
    """Kind of call ("": every kind) -> what was planted in one; empty: no such figure."""
    byte_ns: float = 0.0
    """Likewise for each byte of a call and its reply."""
    also: tuple[str, ...] = ()
    """Names that say the same of it as truly."""
    load: tuple[str, ...] = ()
    """Python programs that run beside the runs of this level, and beside no others."""

    def truth_ns(self, calls: Mapping[str, Call]) -> float | None:
        """By how much an operation with these calls is longer, by arithmetic; None: unknown."""
        if not self.each_ns and not self.byte_ns:
            return None
        return sum(
            one.per_operation
            * (self.each_ns.get(kind, self.each_ns.get("", 0.0)) + self.byte_ns * one.bytes_mean)
            for kind, one in calls.items()
        )

    @property
    def kind(self) -> str:
        """Of the situation: "alone", "pair", "nothing"."""
        return ("nothing", "alone", "pair")[len(self.causes)]


@dataclass(frozen=True)
class Planted:
    """An experiment."""

    name: str
    base: Settings
    """Parameters of the base."""
    levels: list[Level]
    collectors: Mapping[str, Settings] = field(
        default_factory=lambda: {"rpc": {"calls": True}, "nfs_server": {}, "system": {}}
    )

    def smaller(self) -> Planted:
        """With its base, nothing planted, and one cause alone."""
        return dataclasses.replace(self, levels=self.levels[:2])

    def text(self, blocks: int, seed: int) -> str:
        """The experiment's file."""
        names = sorted({name for level in self.levels for name in level.settings})
        fixed = {name: value for name, value in self.base.items() if name not in names}
        rows = [{}, *(level.settings for level in self.levels)]
        values = [[row.get(name, self.base[name]) for name in names] for row in rows]
        lines = [
            "[experiment]", f'name = "{self.name.replace("_", "-")}"', f"repetitions = {blocks}",
            f"seed = {seed}", f"collectors = {toml(list(self.collectors))}",
            "[limits]", "drop_page_cache = false",
            *section(fixed),
            *(line for name, one in self.collectors.items() if one
              for line in (f"[collectors.{name}]", *(f"{k} = {toml(v)}" for k, v in one.items()))),
            "[[axes]]", 'name = "plant"', f"parameters = {toml(names)}",
            f"values = {toml(values)}",
            f"labels = {toml(['base', *(level.name for level in self.levels)])}",
        ]  # fmt: skip
        return "\n".join(lines) + "\n"


def section(values: Settings) -> list[str]:
    """Tables of parameters by path."""
    tables: dict[str, list[str]] = {}
    for path, value in values.items():
        table, _, key = path.rpartition(".")
        tables.setdefault(table, []).append(f"{key} = {toml(value)}")
    return [line for name, rows in tables.items() for line in (f"[{name}]", *rows)]


def toml(value: Any) -> str:
    """JSON's texts, numbers and lists are TOML's."""
    return json.dumps(value)


def ms(value: float) -> str:
    """A time as options take it."""
    return f"{value * 1e3:.0f}us"


def nfs(**changed: Any) -> Settings:
    """A modelled server in memory, mounted."""
    return {f"targets.nfs.{name}": value for name, value in {
        "kind": "nfs", "server": "embedded", "store": "memory", "threads": 16,
        "service_time": ["500us"], "ac": False, "seed": 1,
    }.items()} | {f"targets.nfs.{name}": value for name, value in changed.items()}  # fmt: skip


def files(**changed: Any) -> Settings:
    """Synced writes at random places, by one thread."""
    usual = {
        "kind": "files", "data": "nfs", "phases": "random_write", "file_size": "512k",
        "block": 8192, "threads": 1, "random_operations": 1_000_000, "time_limit": "1s",
        "final_sync": False,
    }  # fmt: skip
    return {f"workload.{name}": value for name, value in (usual | changed).items()}


def t(**settings: Any) -> Settings:
    """Of the target."""
    return {f"targets.nfs.{name}": value for name, value in settings.items()}


class Draw:
    """Magnitudes, log-uniform."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def __call__(self, low: float, high: float) -> float:
        return float(np.exp(self.rng.uniform(np.log(low), np.log(high))))

    def sizes(
        self,
        cause: str,
        small: Ends,
        large: Ends,
        make: Make,
        each: Each | None = None,
        byte: Byte | None = None,
    ) -> list[Level]:
        """The cause alone, at two sizes; `each` and `byte` as `Level` has them."""
        made = []
        for size, ends in ((SMALL, small), (LARGE, large)):
            drawn = self(*ends)
            made.append(
                Level(
                    f"{cause}, {size}",
                    (cause,),
                    make(drawn),
                    each(drawn) if each else {},
                    byte(drawn) if byte else 0.0,
                )
            )
        return made


def pair(first: str, second: str, settings: Settings) -> Level:
    """Two causes at once."""
    return Level(f"{first} + {second}", (first, second), settings)


def again(cause: str) -> Level:
    """Nothing planted: the server's seed alone is another one."""
    return Level(f"again ({cause})", (), t(seed=2))

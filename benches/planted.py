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


def experiments(rng: np.random.Generator) -> list[Planted]:
    """All of them, with magnitudes drawn anew."""
    draw = Draw(rng)
    return [*_service(draw), *_wire(draw), *_client(draw), *_database(draw)]


def _service(draw: Draw) -> list[Planted]:
    """What the server does with a call."""
    mixed = nfs() | files(phases="seeks", seeks=1_000_000, drop_cache=False, file_size="64k")
    disk = "seek={},rate=1G"
    commits = nfs(
        service_time=["200us"], ac=True, store="directory", directory="/dev/shm", delay="0us"
    ) | files(sync_every=8, file_size="2M")
    nvram = nfs(service_time=["200us"], disk="rate=100M", nvram="64M") | files()
    pauses = nfs() | files(time_limit="2s")

    def stalls(each: float) -> Settings:
        return t(stall=[f"{at * 0.35:.2f}s:{each * 1e3:.0f}ms" for at in range(1, 60)])

    return [
        Planted("server_cpu", mixed | t(delay="0us"), [
            again("server_cpu"),
            *draw.sizes("server_cpu", (1, 2), (4, 8),
                        lambda d: t(service_time=[ms(0.5 + d)]), lambda d: {"": d * 1e6}),
            pair("server_cpu", "wire_latency",
                 t(service_time=[ms(0.5 + draw(1.5, 3))], delay=ms(draw(1.5, 3)))),
        ]),
        Planted("server_disk", mixed | t(disk=disk.format("200us"), delay="0us"), [
            again("server_disk"),
            *draw.sizes("server_disk", (15, 30), (40, 80),
                        lambda d: t(disk=disk.format(ms(0.2 + d)))),
            pair("server_disk", "wire_latency",
                 t(disk=disk.format(ms(draw(15, 30))), delay=ms(draw(1.5, 3)))),
        ]),
        Planted("commit_slow", commits | t(delay="0us"), [
            again("commit_slow"),
            *draw.sizes("commit_slow", (15, 25), (40, 80),
                        lambda d: t(service_time=["200us", f"COMMIT={ms(d)}"]),
                        lambda d: {"COMMIT": (d - 0.2) * 1e6}),
            pair("commit_slow", "wire_latency",
                 t(service_time=["200us", f"COMMIT={ms(draw(20, 30))}"], delay=ms(draw(3, 6)))),
        ]),
        Planted("nvram_full", nvram, [
            again("nvram_full"),
            *draw.sizes("nvram_full", (1, 1.3), (2, 4), lambda d: t(
                nvram="1M", disk=f"rate={2400 / d:.0f}k")),
        ]),
        Planted("server_threads", nfs(service_time=[ms(draw(3, 5))], delay="0us")
                | files(threads=6), [
            again("server_threads"),
            *draw.sizes("server_threads", (2, 2.9), (1, 1.9), lambda n: t(threads=int(n))),
            pair("server_threads", "wire_latency", t(threads=2, delay=ms(draw(4, 8)))),
        ]),
        Planted("server_stall", pauses | t(stall=[], delay="0us"), [
            again("server_stall"),
            *draw.sizes("server_stall", (0.1, 0.14), (0.18, 0.24), stalls),
            pair("server_stall", "wire_latency", stalls(draw(0.15, 0.2)) | t(delay=ms(draw(2, 4)))),
        ]),
    ]  # fmt: skip


def _wire(draw: Draw) -> list[Planted]:
    """What lies between."""
    mixed = nfs() | files(phases="seeks", seeks=1_000_000, drop_cache=False, file_size="64k")
    lost = nfs(proto="udp", timeo=1, loss=0.0) | files(time_limit="2s")
    return [
        Planted("wire_latency", mixed | t(delay="0us", disk="seek=200us,rate=1G"), [
            again("wire_latency"),
            *draw.sizes("wire_latency", (1.5, 3), (4, 8), lambda d: t(delay=ms(d)),
                        lambda d: {"": d * 1e6}),
            pair("wire_latency", "server_disk",
                 t(delay=ms(draw(1, 2)), disk=f"seek={ms(draw(15, 30))},rate=1G")),
        ]),
        Planted("bandwidth", mixed | t(bandwidth="100M/s"), [
            again("bandwidth"),
            pair("bandwidth", "server_cpu", t(
                bandwidth=f"{8.4e3 / draw(8, 12):.0f}k/s", service_time=[ms(draw(3, 6))])),
            *draw.sizes("bandwidth", (15, 30), (40, 80),
                        lambda d: t(bandwidth=f"{8.4e3 / d:.0f}k/s"),
                        byte=lambda d: 1e9 / (round(8.4e3 / d) * 1024) - 1e9 / (100 << 20)),
        ]),
        Planted("loss", lost | t(delay="0us"), [
            again("loss"),
            *draw.sizes("loss", (0.03, 0.05), (0.08, 0.12), lambda p: t(loss=round(p, 3))),
            pair("loss", "wire_latency", t(loss=round(draw(0.05, 0.08), 3), delay=ms(draw(2, 4)))),
        ]),
    ]  # fmt: skip


def _client(draw: Draw) -> list[Planted]:
    """What the client does."""
    blocks = nfs(service_time=["1ms"], threads=2, ac=True, wsize="512k", rsize="512k") | files(
        block=262144, file_size="2M"
    )
    reads = nfs(service_time=[ms(draw(0.3, 0.9))], ac=True) | files(
        phases="random_read", file_size="16M", drop_cache=False, check_every=0
    )
    checked = nfs(ac=True, rsize="1M") | files(
        phases="random_read", block=1 << 20, file_size="16M", drop_cache=False, check_every=0
    )
    serial = nfs(service_time=[ms(draw(0.8, 2))], ac=True, sync=False, wsize="64k") | files(
        phases="block_write", block=65536, file_size="32M", final_sync=True
    )
    return [
        Planted("slots", nfs(service_time=[ms(draw(3, 5))], mount_options=["max_requests=64"],
                             delay="0us") | files(threads=6), [
            again("slots"),
            pair("slots", "wire_latency",
                 t(mount_options=["max_requests=2"], delay=ms(draw(4, 8)))),
            *draw.sizes("slots", (2, 2.9), (1, 1.9),
                        lambda n: t(mount_options=[f"max_requests={int(n)}"])),
        ]),
        Planted("small_transfers", blocks | t(delay="0us"), [
            again("small_transfers"),
            *draw.sizes("small_transfers", (32, 63), (8, 31),
                        lambda k: t(wsize=f"{int(k / 4) * 4}k")),
            pair("small_transfers", "wire_latency",
                 t(wsize=f"{int(draw(8, 31) / 4) * 4}k", delay=ms(draw(2, 4)))),
        ]),
        Planted("attribute_cache", reads | {"workload.file_size": "256k"}, [
            again("attribute_cache"),
            Level("attribute_cache", ("attribute_cache",), t(ac=False)),
        ]),
        Planted("cold_data", reads | {"workload.file_size": "64M"}, [
            again("cold_data"),
            Level("cold_data", ("cold_data",), {"workload.drop_cache": True}),
        ]),
        Planted("client_cpu", checked | {"workload.time_limit": "3s"}, [
            again("client_cpu"),
            Level("client_cpu", ("client_cpu",), {"workload.check_every": 1}),
        ]),
        Planted("client_memory", reads | {"workload.file_size": "256M", "limits.memory": "2G"}, [
            again("client_memory"),
            *draw.sizes("client_memory", (110, 140), (70, 90),
                        lambda m: {"limits.memory": f"{m:.0f}M"}),
        ]),
        Planted("serial_writes", serial, [
            again("serial_writes"),
            Level("serial_writes", ("serial_writes",), t(sync=True)),
        ]),
    ]  # fmt: skip


def _database(draw: Draw) -> list[Planted]:
    """What PostgreSQL does, with its log on a modelled server, and its data on this disk."""
    pgbench = {"workload.kind": "pgbench", "workload.data": "disk", "workload.wal": "nfs",
               "workload.scale": 10, "workload.clients": 4, "workload.duration": "2s",
               "targets.disk.kind": "local", "targets.disk.path": "/var/tmp"}  # fmt: skip
    server = nfs(service_time=["300us"], ac=True)
    watched = {"postgres": {}, "fsync": {}, "rpc": {"calls": True}, "nfs_server": {}, "system": {}}
    pages = "workload.settings.full_page_writes"
    buffers = "workload.settings.shared_buffers"

    def delayed(call: str, each: float) -> Settings:
        return {f"workload.planted_delay.{call}": ms(each)}

    return [
        Planted("log_sync", server | pgbench | delayed("log_sync", 0), [
            again("log_sync"),
            *draw.sizes("log_sync", (3, 6), (10, 20), lambda d: delayed("log_sync", d)),
        ], watched),
        # The log's server is slow, and says so: the cause lies within the log's sync.
        Planted("server_of_log", server | pgbench, [
            again("server_cpu"),
            *draw.sizes("server_cpu", (3, 6), (10, 20), lambda d: t(service_time=[ms(d)])),
        ], watched),
        Planted("data_reads", server | pgbench | delayed("data_read", 0)
                | {"workload.builtin": "select-only", buffers: "1GB"}, [
            again("data_reads"),
            *draw.sizes("data_reads", (0.3, 0.6), (1, 3),
                        lambda d: delayed("data_read", d) | {buffers: "4MB"}),
        ], watched),
        Planted("row_locks", server | pgbench | {"workload.clients": 8}
                | t(service_time=["2ms"]), [
            again("row_locks"),
            *draw.sizes("row_locks", (2, 2.9), (1, 1.9),
                        lambda n: {"workload.scale": int(n)}),
        ], watched),
        Planted("full_page_writes", server | pgbench | t(bandwidth=f"{draw(4, 8) * 1000:.0f}k/s")
                | {pages: "off", "workload.settings.max_wal_size": "4GB"}, [
            again("full_page_writes"),
            Level("full_page_writes", ("full_page_writes",), {pages: "on"}),
        ], watched),
    ]  # fmt: skip

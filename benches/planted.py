"""Situations whose cause is known: what is planted in the server, on the way, in the client."""

from __future__ import annotations

from typing import Final

import numpy as np
from planted_database import database
from planted_machine import machine
from planting import LARGE, SMALL, Draw, Level, Planted, Settings, again, files, ms, nfs, pair, t

NOT_HERE: Final = {
    "connection_ceiling": "one connection's window over a known round trip needs a wire with a "
    "delay of its own (netem); a modelled delay holds no window",
    "documents": "below a real web server the reason for slow documents is named before them; they "
    "are planted in simulation, in tests/findings/test_web_causes.py",
    "web_server_cpu": "how much of a processor a web server takes for a request is nothing to set",
    "swapping": "the group of limits.memory is kept from swapping, and nothing else is planted "
    "in a machine's memory",
}
"""Causes that are planted elsewhere, or in simulation alone, and why."""


def experiments(rng: np.random.Generator) -> list[Planted]:
    """All of them, with magnitudes drawn anew."""
    draw = Draw(rng)
    return [*_service(draw), *_wire(draw), *_client(draw), *database(draw), *machine(draw)]


def _service(draw: Draw) -> list[Planted]:
    """What the server does with a call."""
    mixed = nfs() | files(phases="seeks", seeks=1_000_000, drop_cache=False, file_size="64k")
    disk = "seek={},rate=1G"
    commits = nfs(
        service_time=["200us"], ac=True, store="directory", directory="/dev/shm", delay="0us"
    ) | files(sync_every=8, file_size="2M", random_operations=800, time_limit="60s")
    # By number, not by time: the last COMMIT belongs to eight WRITEs, as each.
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
    reads = nfs(ac=True) | files(
        phases="random_read", file_size="16M", drop_cache=False, check_every=0
    )
    checked = nfs(ac=True, rsize="1M") | files(
        phases="random_read", block=1 << 20, file_size="16M", drop_cache=False, check_every=0
    )
    serial = nfs(ac=True, sync=False, wsize="64k") | files(
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
        # On or off: two sizes of what one call costs.
        *(Planted(f"attribute_cache_{size}", reads | {"workload.file_size": "256k"}
                  | t(service_time=[ms(draw(*ends))]), [
            again("attribute_cache"),
            Level(f"attribute_cache, {size}", ("attribute_cache",), t(ac=False)),
        ]) for size, ends in ((SMALL, (0.2, 0.4)), (LARGE, (1, 2)))),
        *(Planted(f"cold_data_{size}", reads | {"workload.file_size": "64M"}
                  | t(service_time=[ms(draw(*ends))]), [
            again("cold_data"),
            Level(f"cold_data, {size}", ("cold_data",), {"workload.drop_cache": True}),
        ]) for size, ends in ((SMALL, (0.2, 0.4)), (LARGE, (1, 2)))),
        Planted("client_cpu", checked | {"workload.time_limit": "3s"}, [
            again("client_cpu"),
            *draw.sizes("client_cpu", (2, 3.9), (1, 1.9),
                        lambda n: {"workload.check_every": int(n)}),
        ]),
        Planted("client_memory", reads | t(service_time=[ms(draw(0.3, 0.9))])
                | {"workload.file_size": "256M", "limits.memory": "2G"}, [
            again("client_memory"),
            *draw.sizes("client_memory", (110, 140), (70, 90),
                        lambda m: {"limits.memory": f"{m:.0f}M"}),
        ]),
        *(Planted(f"serial_writes_{size}", serial | t(service_time=[ms(draw(*ends))]), [
            again("serial_writes"),
            Level(f"serial_writes, {size}", ("serial_writes",), t(sync=True)),
        ]) for size, ends in ((SMALL, (0.5, 1)), (LARGE, (2, 4)))),
    ]  # fmt: skip

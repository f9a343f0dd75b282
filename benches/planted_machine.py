"""Situations whose cause is known: what competes with a database, or comes before it.

Its own storage is quick; what is planted is a load beside it, a beginning that is cold, a
generator that computes, more clients than processors, a job that stops everything now and then.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from planting import LARGE, SMALL, Draw, Level, Planted, Settings, again, ms, nfs, t

GENERATOR, WORK = (
    str(Path(__file__).parent / f"planted_{name}.sql") for name in ("generator", "work")
)
EVERY_S: Final = 0.6
"""Of a job that is periodic."""
TRIES: Final = 2.3
"""The logarithm of 10: random_zipfian(1, 10, s) tries 1 / (s - 1) times over it, near s = 1."""


def busy(each_s: float, every_s: float, before: str = "") -> tuple[str, ...]:
    """A program on each processor, which computes for so long at equal intervals."""
    loop = (
        f"while True:\n    end = time.monotonic() + {each_s}\n"
        f"    while time.monotonic() < end: pass\n    time.sleep({every_s - each_s})"
    )
    return tuple(
        f"import os, time\nos.sched_setaffinity(0, [{cpu}])\n{before}{loop}"
        for cpu in sorted(os.sched_getaffinity(0))
    )


def first(each_s: float, every_s: float) -> tuple[str, ...]:
    """The same before all other programs."""
    return busy(each_s, every_s, "os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))\n")


def machine(draw: Draw) -> list[Planted]:
    """Of a database in memory that reads, and one whose log is on a modelled server."""
    in_memory = nfs() | {
        "workload.kind": "pgbench", "workload.data": "disk", "workload.wal": "disk",
        "workload.scale": 5, "workload.duration": "2s",
        "targets.disk.kind": "local", "targets.disk.path": "/dev/shm",
    }  # fmt: skip
    log_over_nfs = nfs(service_time=["300us"], ac=True) | {
        "workload.kind": "pgbench", "workload.data": "disk", "workload.wal": "nfs",
        "workload.scale": 10, "workload.clients": 4, "workload.duration": "4s",
        "targets.disk.kind": "local", "targets.disk.path": "/var/tmp",
    }  # fmt: skip
    reads = {"workload.builtin": "select-only"}
    watched: dict[str, Settings] = {"postgres": {}, "fsync": {}, "system": {}}
    warm_up, delay = "workload.warm_up", "workload.planted_delay.data_read"
    return [
        # Threads of pgbench for each client: their own wait for one is no wait of the database.
        Planted("run_queue", in_memory | {
            "workload.clients": 1, "workload.threads": 32, "workload.scripts": [WORK]}, [
            again("run_queue"),
            *draw.sizes("run_queue", (4, 8), (16, 32), lambda n: {"workload.clients": int(n)}),
        ], watched),
        Planted("noisy_neighbour", in_memory | reads | {"workload.clients": 2}, [
            again("noisy_neighbour"),
            Level(f"noisy_neighbour, {SMALL}", ("noisy_neighbour",), t(seed=3),
                  load=busy(1, 1)),
            Level(f"noisy_neighbour, {LARGE}", ("noisy_neighbour",), t(seed=4),
                  load=busy(1, 1) * int(draw(2, 3.9))),
        ], watched),
        Planted("generator", in_memory | {
            "workload.clients": 4, "workload.scripts": [GENERATOR],
            "workload.variables.s": 2.0}, [
            again("generator"),
            *draw.sizes("generator", (150, 250), (300, 430), lambda tries: {
                "workload.variables.s": round(1 + 1 / (TRIES * tries), 6)}),
        ], watched),
        # All of what is read once, at the beginning, waits: which a warm-up has behind it.
        Planted("cold_start", in_memory | reads | {
            "workload.clients": 4, "workload.scale": 1, "workload.duration": "6s", warm_up: "4s",
            "workload.settings.shared_buffers": "1GB", delay: "500us"}, [
            again("cold_start"),
            *draw.sizes("cold_start", (1.8, 2.4), (3.6, 4.8),
                        lambda each: {warm_up: "0s", delay: ms(each)}),
        ], watched),
        # A job before which everything else waits, on all processors: it is a neighbour, too.
        Planted("periodic_job", log_over_nfs, [
            again("periodic_job"),
            *(Level(f"periodic_job, {size}", ("periodic_job",), t(seed=seed),
                    also=("noisy_neighbour",), load=first(draw(*ends), EVERY_S))
              for size, seed, ends in ((SMALL, 3, (0.13, 0.17)), (LARGE, 4, (0.2, 0.3)))),
        ], watched),
        # Of a server that does not tell of it: nobody watches there.
        Planted("periodic_server", log_over_nfs | t(stall=[]), [
            again("periodic_job"),
            *draw.sizes("periodic_job", (0.13, 0.17), (0.2, 0.3), lambda each: t(
                stall=[f"{at * EVERY_S:.2f}s:{each * 1e3:.0f}ms" for at in range(1, 60)])),
        ], watched),
    ]  # fmt: skip

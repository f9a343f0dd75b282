"""Situations whose cause is known: what is planted in PostgreSQL, its storage, its machine."""

from __future__ import annotations

from typing import Any

from planting import LARGE, SMALL, Draw, Level, Planted, Settings, again, ms, nfs, t


def database(draw: Draw) -> list[Planted]:
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
                | {pages: "off", "workload.settings.wal_compression": "off",
                   "workload.settings.max_wal_size": "4GB"}, [
            again("full_page_writes"),
            Level(f"full_page_writes, {SMALL}", ("full_page_writes",),
                  {pages: "on", "workload.settings.wal_compression": "pglz"}),
            Level(f"full_page_writes, {LARGE}", ("full_page_writes",), {pages: "on"}),
        ], watched),
        *_beside(draw, pgbench, watched),
    ]  # fmt: skip


def _beside(draw: Draw, pgbench: Settings, watched: dict[str, Settings]) -> list[Planted]:
    """Causes that a figure beside the parts tells."""

    def setting(**values: Any) -> Settings:
        return {f"workload.settings.{name}": value for name, value in values.items()}

    def stored(**changed: Any) -> Settings:
        """A server with a disk of its own, which makes stable what is committed."""
        return nfs(store="directory", directory="/dev/shm", ac=True, **changed)

    kept = nfs(store="directory", directory="/var/tmp", ac=True)
    unseen: dict[str, Settings] = {"postgres": {}, "fsync": {}, "system": {}}
    slower = ((SMALL, (25, 35)), (LARGE, (12, 18)))

    def disk(low: float, high: float) -> Settings:
        return {"service_time": ["300us"], "disk": f"seek=200us,rate={1000 * draw(low, high):.0f}k"}

    def both(low: float, high: float) -> Settings:
        """Two such servers, with disks alike."""
        mine = stored(**disk(low, high))
        return mine | {name.replace("nfs.", "data."): value for name, value in mine.items()}

    update = pgbench | {"workload.builtin": "simple-update", "workload.scale": 2}
    # Whole pages in the log would be a cause of their own.
    rare = setting(full_page_writes="off", max_wal_size="4GB", checkpoint_completion_target=0.1) | {
        "workload.wal_segment_size": "1M", "workload.duration": "5s"}  # fmt: skip
    often = setting(max_wal_size="2MB")
    return [
        *(Planted(f"durability_{size}", kept | pgbench | t(service_time=[ms(draw(*ends))])
                  | setting(synchronous_commit="off"), [
            again("durability"),
            Level(f"durability, {size}", ("durability",), setting(synchronous_commit="on")),
        ], watched) for size, ends in ((SMALL, (0.5, 1)), (LARGE, (3, 6)))),
        # Nobody watches at the server, which would tell that its memory is full. Small segments:
        # there is little to copy to a slow disk.
        Planted("filling_cache",
                nfs(service_time=["200us"], disk="rate=100M", nvram="64M", ac=True) | pgbench
                | {"workload.wal_segment_size": "1M"}, [
            again("filling_cache"),
            *draw.sizes("filling_cache", (1, 1.3), (2, 4), lambda d: t(
                nvram="512k", disk=f"rate={2400 / d:.0f}k")),
        ], unseen),
        Planted("database_locks", nfs(service_time=["300us"], ac=True) | pgbench
                | {"workload.clients": 16, "workload.planted_delay.log_write": ms(draw(0.5, 1.5))}
                | setting(wal_buffers="16MB"), [
            again("database_locks"),
            Level(f"database_locks, {SMALL}", ("database_locks",), setting(wal_buffers="64kB")),
            Level(f"database_locks, {LARGE}", ("database_locks",), setting(wal_buffers="32kB")),
        ], watched),
        # One falls into a run: two sizes of how long its pages keep the disk from the log.
        *(Planted(f"checkpoint_{size}", stored(**disk(*ends)) | update | rare
                  | {"workload.data": "nfs"}, [
            again("checkpoint"),
            Level(f"checkpoint, {size}", ("checkpoint",), often),
        ], watched) for size, ends in slower),
        # On storage as quick as memory it competes for the processors: it reads, sorts, counts
        # 300 rows of two million for each unit of the target.
        Planted("autovacuum", nfs() | pgbench
                | {"workload.wal": "disk", "targets.disk.path": "/dev/shm", "workload.scale": 20,
                   "workload.clients": 8, "workload.builtin": "simple-update",
                   "workload.duration": "5s"}
                | setting(autovacuum="off", autovacuum_naptime="1s", default_statistics_target=100,
                          autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=0,
                          autovacuum_analyze_scale_factor=0, autovacuum_analyze_threshold=0,
                          autovacuum_vacuum_cost_delay=0), [
            again("autovacuum"),
            *draw.sizes("autovacuum", (1000, 2000), (4000, 6000), lambda n: setting(
                autovacuum="on", default_statistics_target=int(n))),
        ], watched),
        # What a checkpoint writes of the data, which there is at the base as well.
        *(Planted(f"shared_device_{size}", both(*ends) | update | rare | often
                  | {"workload.data": "data"}, [
            again("shared_device"),
            Level(f"shared_device, {size}", ("shared_device",), {"workload.data": "nfs"}),
        ], watched) for size, ends in ((SMALL, (15, 20)), (LARGE, (10, 14)))),
    ]  # fmt: skip

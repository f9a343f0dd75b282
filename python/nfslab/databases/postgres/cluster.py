"""A loaded database cluster on a run's places: made there, or restored from a copy.

    fresh   initdb, server, the workload's tables, CHECKPOINT, shutdown: on the places, every run
    copy    the same once, elsewhere, kept in the experiment's cache as a template; every
            run gets a copy of it on its places

Either way a run begins from the same state: loaded and vacuumed, checkpointed, shut down
cleanly, written to stable storage. The template is keyed by everything that determines
its content (version, scale, ...), so points that differ in server settings share one.

The log of a template has as many segments ready for reuse as PostgreSQL keeps by default,
whatever the scale: how much a run has to create (16 MB of zeros each) depends on its own writing
alone. How a template is kept and copied: databases.shared.template.

Limits: the layout on the target is that of a copied cluster, less interleaved than that
of one that grew there: the run's notes say which it was.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from nfslab.databases.postgres.deployment import ROLE_NAME
from nfslab.databases.postgres.failures import full_target
from nfslab.databases.postgres.server import start_server
from nfslab.databases.shared.template import Loaded, copied, loaded_once
from nfslab.errors import RunFailed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nfslab.databases.base import Tables
    from nfslab.databases.postgres.deployment import PostgresDeployment
    from nfslab.databases.shared.settings import SettingValue
    from nfslab.targets.base import Place

SEGMENTS_READY: Final = 5
"""Log segments that a template has ready for reuse: PostgreSQL's default min_wal_size."""
DEFAULT_SEGMENT_BYTES: Final = 16 << 20
DEFAULT_BUFFERS_BYTES: Final = 128 << 20


@dataclass(frozen=True, slots=True)
class Shape:
    """Everything that determines what a loaded cluster contains."""

    postgres: str
    """Version and place of the programs: two builds need not agree on a file's layout."""
    tables: Tables
    data_checksums: bool | None
    wal_segment_bytes: int | None

    def loading_settings(self) -> dict[str, SettingValue]:
        """How a template's server runs: nothing of it has to survive a crash, and what is
        copied is written out at its end."""
        segment_mb = (self.wal_segment_bytes or DEFAULT_SEGMENT_BYTES) >> 20
        return {
            "fsync": False,
            "synchronous_commit": False,
            "full_page_writes": False,
            "autovacuum": False,
            "wal_level": "minimal",
            "max_wal_senders": 0,
            "min_wal_size": f"{SEGMENTS_READY * segment_mb}MB",
            "max_wal_size": f"{(SEGMENTS_READY + 1) * segment_mb}MB",
        }

    def record(self) -> dict[str, Any]:
        """As JSON, for a template's manifest."""
        return self.tables.record() | {
            "postgres": self.postgres,
            "data_checksums": self.data_checksums,
            "wal_segment_bytes": self.wal_segment_bytes,
        }


@dataclass(frozen=True, slots=True)
class ClusterPlace:
    """Where a cluster lives: its data directory, and its log's when that is apart."""

    data: Path
    wal: Path | None

    @property
    def wal_directory(self) -> Path:
        """Where the log's segments are."""
        return self.wal or self.data / "pg_wal"


def cluster_place(places: Mapping[str, Place]) -> ClusterPlace:
    """The folders on the run's places; the log is apart when its role has another place."""
    data = places["data"]
    wal = places.get("wal", data)
    apart = os.path.realpath(wal.path) != os.path.realpath(data.path)
    return ClusterPlace(data.path / "pgdata", wal.path / "pgwal" if apart else None)


def initialise(deployment: PostgresDeployment, place: ClusterPlace, shape: Shape) -> None:
    """initdb: an empty cluster, with nobody allowed in until the server's access file says so."""
    argv = [
        deployment.installation.program("initdb"),
        *("-D", str(place.data)),
        *("-U", ROLE_NAME),
        *("-E", "UTF8", "--no-locale"),
        *("--auth-local", "trust", "--auth-host", "reject"),
        "--no-sync",  # everything is written out when it is loaded
    ]
    if place.wal is not None:
        argv += ["--waldir", str(place.wal)]
    if shape.data_checksums is True:
        argv.append("--data-checksums")
    elif shape.data_checksums is False and deployment.installation.major >= 18:
        argv.append("--no-data-checksums")
    if shape.wal_segment_bytes is not None:
        argv += ["--wal-segsize", str(shape.wal_segment_bytes >> 20)]
    deployment.run(argv, log="initdb.log", user=deployment.user)


def load(
    deployment: PostgresDeployment,
    place: ClusterPlace,
    shape: Shape,
    settings: Mapping[str, SettingValue],
    places: Mapping[str, Place],
    *,
    ready_segments: int = 0,
) -> None:
    """initdb and the tables, checkpointed and shut down; the cluster is then at rest.

    `ready_segments`: so many segments of the log are filled, to be used again by the run.
    """
    from psycopg import sql

    initialise(deployment, place, shape)
    server = start_server(deployment, place.data, settings, places=places, log="load.log")
    try:
        with server.connect("postgres") as connection:
            name = sql.Identifier(deployment.database)
            connection.execute(sql.SQL("CREATE DATABASE {}").format(name))
        try:
            shape.tables.load(server)
            with server.connect() as connection:
                # VACUUM marks no row as visible whose commit is not in the log's file yet.
                connection.execute("CHECKPOINT")
                connection.execute("VACUUM (ANALYZE)")
                for _ in range(ready_segments + 1):
                    connection.execute("SELECT pg_logical_emit_message(false, 'nfslab', '')")
                    connection.execute("SELECT pg_switch_wal()")
                connection.execute("CHECKPOINT")
        except RunFailed as error:
            if full := full_target(error.why.splitlines(), places):
                raise full from error
            if not server.alive():
                raise server.death("PostgreSQL died while it was loaded", error.why) from error
            raise
        server.shut_down_cleanly()
    except BaseException:
        server.stop(hurry=True)
        raise
    deployment.synchronise(place.data)
    if place.wal is not None:
        deployment.synchronise(place.wal)


def change(
    deployment: PostgresDeployment,
    place: ClusterPlace,
    statements: Sequence[str],
    settings: Mapping[str, SettingValue],
    places: Mapping[str, Place],
) -> None:
    """These statements on a cluster at rest, by a server of its own; at rest again. RunFailed."""
    import psycopg

    server = start_server(deployment, place.data, settings, places=places, log="changes.log")
    try:
        with server.connect() as connection:
            for statement in statements:
                deployment.remaining_s()
                connection.execute(statement.encode())
        server.shut_down_cleanly()
    except psycopg.Error as error:
        server.stop(hurry=True)
        raise server.death("the loaded database could not be changed", str(error)) from error
    except BaseException:
        server.stop(hurry=True)
        raise


def within(memory_bytes: int) -> dict[str, SettingValue]:
    """Settings of a server that loads under a memory limit: buffers are memory that the kernel
    cannot take back."""
    part = min(DEFAULT_BUFFERS_BYTES, memory_bytes // 8) >> 10
    return {"shared_buffers": f"{part}kB", "maintenance_work_mem": f"{max(1024, part)}kB"}


def template(
    deployment: PostgresDeployment,
    cache: Path,
    shape: Shape,
    places: Mapping[str, Place],
    *,
    memory_bytes: int | None = None,
) -> tuple[Path, bool]:
    """The experiment's loaded cluster of this shape, and whether it was made just now.

    `memory_bytes`: the limit that it is loaded under, if any.
    """

    def build(folder: Path) -> dict[str, Path]:
        building = ClusterPlace(folder / "pgdata", None)
        settings = shape.loading_settings() | (within(memory_bytes) if memory_bytes else {})
        load(deployment, building, shape, settings, places, ready_segments=SEGMENTS_READY)
        return {"wal": building.data / "pg_wal", "data": building.data}

    return loaded_once(deployment, cache, Loaded("pgcluster", shape.record(), build))


def restore(
    deployment: PostgresDeployment, source: Path, place: ClusterPlace, places: Mapping[str, Place]
) -> None:
    """Copy a template onto the run's places, onto stable storage."""
    parts = {"data": place.data, "wal": place.wal_directory}
    user = copied(deployment, source, parts, places)
    if place.wal is not None:
        link = ["ln", "--symbolic", "--", str(place.wal), str(place.data / "pg_wal")]
        deployment.run(link, user=user)
    deployment.synchronise(place.data)

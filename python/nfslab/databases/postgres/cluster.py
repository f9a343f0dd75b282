"""A loaded database cluster on a run's places: made there, or restored from a copy.

    fresh   initdb, server, the workload's tables, CHECKPOINT, shutdown: on the places, every run
    copy    the same once, elsewhere, kept in the experiment's cache as a template; every
            run gets a copy of it on its places

Either way a run begins from the same state: loaded and vacuumed, checkpointed, shut down
cleanly, written to stable storage. The template is keyed by everything that determines
its content (version, scale, ...), so points that differ in server settings share one.

Decisions: the copy is made by cp(1) with `--reflink=never --sparse=never`. A reflink
would be quick, but the first write to every block would then measure copy-on-write; holes
would measure allocation. The log of a template has as many segments ready for reuse as
PostgreSQL keeps by default, whatever the scale: how much a run has to create (16 MB of
zeros each) depends on its own writing alone. The template is built with fsync off (it is
written out once at the end, before it gets its name) and where the server's user can go;
the cache itself may be out of its reach. A template is used only when its files and
bytes are those of its manifest.

Limits: the layout on the target is that of a copied cluster, less interleaved than that
of one that grew there: the run's notes say which it was.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from nfslab.databases.postgres.deployment import ROLE_NAME
from nfslab.databases.postgres.failures import full_target
from nfslab.databases.postgres.server import start_server
from nfslab.errors import RunFailed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nfslab.databases.base import Tables
    from nfslab.databases.postgres.deployment import Deployment
    from nfslab.databases.postgres.settings import SettingValue
    from nfslab.targets.base import Place

FILES_MAX: Final = 5_000_000
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

    def key(self) -> str:
        """A name for it: the same shape has the same key."""
        text = json.dumps(self.record(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


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


def initialise(deployment: Deployment, place: ClusterPlace, shape: Shape) -> None:
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
    deployment: Deployment,
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
    deployment: Deployment,
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
    deployment: Deployment,
    cache: Path,
    shape: Shape,
    places: Mapping[str, Place],
    *,
    memory_bytes: int | None = None,
) -> tuple[Path, bool]:
    """The experiment's loaded cluster of this shape, and whether it was made just now.

    `memory_bytes`: the limit that it is loaded under, if any.
    """
    final = cache / f"pgcluster-{shape.key()}"
    if _is_whole(final):
        return final, False
    if final.exists():
        shutil.rmtree(final)
    # Kept at their places by the journal until the template has its name.
    entry = deployment.resources.make_directory(
        _building_parent(cache, deployment.user) / f"{deployment.resources.name}-load",
        owner=deployment.user,
    )
    staging = deployment.resources.make_directory(
        cache / f".{deployment.resources.name}-template", mode=0o755
    )
    try:
        building = ClusterPlace(entry.path / "pgdata", None)
        settings = shape.loading_settings() | (within(memory_bytes) if memory_bytes else {})
        load(deployment, building, shape, settings, places, ready_segments=SEGMENTS_READY)
        _move(deployment, building.data / "pg_wal", staging.path / "wal")
        _move(deployment, building.data, staging.path / "data")
        files, size_bytes = _inventory(staging.path)
        manifest = {"files": files, "bytes": size_bytes, "shape": shape.record()}
        text = json.dumps(manifest, indent=1)
        (staging.path / "manifest.json").write_text(text, encoding="utf-8")
        deployment.synchronise(staging.path)
        staging.path.rename(final)
        deployment.synchronise(cache)
    finally:
        staging.undo()
        entry.undo()
    return final, True


def restore(
    deployment: Deployment, source: Path, place: ClusterPlace, places: Mapping[str, Place]
) -> None:
    """Copy a template onto the run's places, onto stable storage."""
    from nfslab.machine.users import reachable_by

    # On a network file system root may be nobody: then only the owner can write there.
    user = deployment.user
    if user is not None and not reachable_by(source / "data", user).ok:
        user = None
    copy = ["cp", "--archive", "--reflink=never", "--sparse=never", "--no-target-directory", "--"]
    wal = place.wal_directory
    try:
        deployment.run([*copy, str(source / "data"), str(place.data)], user=user)
        deployment.run([*copy, str(source / "wal"), str(wal)], user=user)
        if place.wal is not None:
            link = ["ln", "--symbolic", "--", str(place.wal), str(place.data / "pg_wal")]
            deployment.run(link, user=user)
            deployment.synchronise(place.wal)
        deployment.synchronise(place.data)
    except RunFailed as error:
        raise _copy_failure(error, places) from error


def _copy_failure(error: RunFailed, places: Mapping[str, Place]) -> RunFailed:
    """A full target by its role; anything else as it is."""
    for mark in ("No space left on device", "Disk quota exceeded"):
        if mark in error.why:
            wal = places.get("wal")
            role = "wal" if wal is not None and f"{wal.path}/pgwal" in error.why else "data"
            place = places[role]
            return RunFailed(
                f"the target {place.target!r} (role {role}) is full: {place.path}",
                why=f"{mark} while the loaded cluster was copied there",
                fix="free space there, take a larger target, or a smaller workload.scale",
            )
    return error


def _building_parent(cache: Path, user: int | None) -> Path:
    """Where a template is built: in the cache when the server's user can get there."""
    from nfslab.machine.users import reachable_by

    if user is None or reachable_by(cache, user).ok:
        return cache
    return Path("/var/tmp")


def _move(deployment: Deployment, source: Path, destination: Path) -> None:
    """Rename, or copy where that is another file system; cp and rm say what fails."""
    try:
        source.rename(destination)
    except OSError:
        deployment.run(
            ["cp", "--archive", "--no-target-directory", "--", str(source), str(destination)],
            record=False,
        )
        shutil.rmtree(source)


def _inventory(folder: Path) -> tuple[int, int]:
    """(files, bytes) below a template, without its manifest."""
    files = size_bytes = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            path = Path(parent, name)
            if path == folder / "manifest.json":
                continue
            files += 1
            size_bytes += path.lstat().st_size
            if files > FILES_MAX:
                raise RunFailed(
                    f"{folder} has more than {FILES_MAX} files",
                    fix="use a smaller scale or fewer partitions",
                )
    return files, size_bytes


def _is_whole(folder: Path) -> bool:
    """Are the files and bytes those that the manifest says?"""
    try:
        text = (folder / "manifest.json").read_text(encoding="utf-8")
        manifest: dict[str, Any] = json.loads(text)
    except (OSError, ValueError):
        return False
    return _inventory(folder) == (manifest.get("files"), manifest.get("bytes"))

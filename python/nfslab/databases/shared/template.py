"""A loaded database of an experiment: made once, kept in its cache, copied onto a run's places.

It is keyed by everything that determines its content (version, scale, ...), so points that differ
in a server's settings share one. It is built where the server's user can go (the cache itself may
be out of its reach) and used only when its files and bytes are those of its manifest.

Decision: the copy is made by cp(1) with `--reflink=never --sparse=never`. A reflink would be
quick, but the first write to every block would then measure copy-on-write; holes would measure
allocation.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from nfslab.errors import RunFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from nfslab.databases.shared.deployment import Deployment
    from nfslab.targets.base import Place
    from nfslab.workloads.base import RunContext

FILES_MAX: Final = 5_000_000


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a template is to hold."""

    name: str
    """Of its kind, for the folder."""
    record: Mapping[str, Any]
    """Everything that determines its content, as JSON."""
    build: Callable[[Path], Mapping[str, Path]]
    """Makes it in a folder, at rest: role ("data", "wal") -> what of it belongs there; one within
    another comes before that."""

    def key(self) -> str:
        """The same content has the same key."""
        text = json.dumps(self.record, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def loaded_once(deployment: Deployment, cache: Path, loaded: Loaded) -> tuple[Path, bool]:
    """The template, and whether it was made just now."""
    final = cache / f"{loaded.name}-{loaded.key()}"
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
        for role, path in loaded.build(entry.path).items():
            _move(deployment, path, staging.path / role)
        files, size_bytes = _inventory(staging.path)
        manifest = {"files": files, "bytes": size_bytes, "shape": dict(loaded.record)}
        text = json.dumps(manifest, indent=1)
        (staging.path / "manifest.json").write_text(text, encoding="utf-8")
        deployment.synchronise(staging.path)
        staging.path.rename(final)
        deployment.synchronise(cache)
    finally:
        staging.undo()
        entry.undo()
    return final, True


def on_places(
    context: RunContext,
    load: Literal["copy", "fresh"],
    *,
    fresh: Callable[[], None],
    once: Callable[[], tuple[Path, bool]],
    restore: Callable[[Path], object],
) -> None:
    """Loaded on the run's places, or a copy of the template that `once` gives; notes say which."""
    if load == "fresh":
        with context.phase("load"):
            fresh()
        context.notes.append("the database was loaded anew for this run")
        return
    with context.phase("load"):
        source, made = once()
    with context.phase("restore"):
        restore(source)
    context.notes.append(
        "the database is a copy of one that was loaded "
        + ("for this run" if made else "for an earlier run of this experiment")
    )


def copied(
    deployment: Deployment, source: Path, parts: Mapping[str, Path], places: Mapping[str, Place]
) -> int | None:
    """Copy a template's parts (role -> where to), onto stable storage; as which user it was."""
    from nfslab.machine.users import reachable_by

    # On a network file system root may be nobody: then only the owner can write there.
    user = deployment.user
    if user is not None and not reachable_by(source / "data", user).ok:
        user = None
    copy = ["cp", "--archive", "--reflink=never", "--sparse=never", "--no-target-directory", "--"]
    for role, path in parts.items():
        try:
            deployment.run([*copy, str(source / role), str(path)], user=user)
            deployment.synchronise(path)
        except RunFailed as error:
            raise _copy_failure(error, places, role if role in places else "data") from error
    return user


def _copy_failure(error: RunFailed, places: Mapping[str, Place], role: str) -> RunFailed:
    """A full target by its role; anything else as it is."""
    place = places[role]
    for mark in ("No space left on device", "Disk quota exceeded"):
        if mark in error.why:
            return RunFailed(
                f"the target {place.target!r} (role {role}) is full: {place.path}",
                why=f"{mark} while the loaded database was copied there",
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

"""Facts of sealed runs, kept beside them: computed once, read ever after.

    <experiment>/facts/<run id>/<kind>.json
    <experiment>/facts/<run id>/hosts/<name>/<kind>.json       of what a client host saw

A sealed run never changes, so what was computed of it stays true as long as it is computed in the
same way: the file names the version of the kind, the schema of the records, the instant at which
the run started (a run that was deleted and made again may have the same name), and the sizes of its
tables (one may be damaged, or come back from a copy). Anything else, and what does not have its
checksum, is computed anew. The cache may be deleted at any time, and a folder that cannot be
written goes without.
"""

from __future__ import annotations

import contextlib
import json
import os
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from pydantic import ValidationError

from nfslab.results.catalogue import HOSTS, RUNS
from nfslab.results.checksums import with_crc32, without_crc32
from nfslab.results.durable import TEMPORARY_PREFIX, to_json
from nfslab.results.records import SCHEMA_VERSION

if TYPE_CHECKING:
    from pathlib import Path

    from nfslab.evidence.base import EvidenceKind, Facts, SealedRun

    F = TypeVar("F", bound=Facts)

FACTS: Final = "facts"
"""Folder beside `runs`."""


def facts_of(kind: EvidenceKind[F], run: SealedRun) -> F | None:
    """The facts of a sealed run; None: it has none, or nothing to tell. ResultsError."""
    if not kind.present(run):
        return None
    path = _path(kind, run)
    identity = _identity(kind, run)
    known, found = _read(path, identity, kind)
    if known:
        return found
    found = kind.facts(run)
    _write(path, identity | {"facts": None if found is None else found.model_dump(mode="json")})
    return found


def changed_facts(folder: Path) -> list[Path]:
    """Returns files of this cache that are not what was written: they are never read."""
    files = sorted((folder / FACTS).rglob("*.json"))
    return [file for file in files if without_crc32(file.read_bytes()) is None]


def _path(kind: EvidenceKind[Any], run: SealedRun) -> Path | None:
    """None: the folder is in no experiment."""
    runs = run.folder.parent
    if runs.name == HOSTS and runs.parent.parent.name == RUNS:
        facts = runs.parent.parent.parent / FACTS
        return facts / run.run_id / HOSTS / run.folder.name / f"{kind.kind}.json"
    return runs.parent / FACTS / run.run_id / f"{kind.kind}.json" if runs.name == RUNS else None


def _identity(kind: EvidenceKind[Any], run: SealedRun) -> dict[str, Any]:
    return {
        "kind": kind.kind,
        "version": kind.version,
        "schema_version": SCHEMA_VERSION,
        "started_unix_ns": run.record.started_unix_ns,
        "tables": _sizes(run.folder / "evidence"),
    }


def _sizes(folder: Path) -> dict[str, int]:
    """Bytes of each file of evidence, by name."""
    try:
        with os.scandir(folder) as entries:
            return {entry.name: entry.stat().st_size for entry in entries}
    except OSError:
        return {}


def _read(
    path: Path | None, identity: dict[str, Any], kind: EvidenceKind[F]
) -> tuple[bool, F | None]:
    """Is it known, and what it is."""
    if path is None:
        return False, None
    try:
        text = path.read_bytes()
        plain = without_crc32(text)
        content = None if plain in (None, text) else json.loads(plain)
        if not isinstance(content, dict) or any(content.get(k) != v for k, v in identity.items()):
            return False, None
        facts = content["facts"]
        return True, None if facts is None else cast("F", kind.Facts.model_validate(facts))
    except (OSError, ValueError, KeyError, ValidationError):
        return False, None


def _write(path: Path | None, content: dict[str, Any]) -> None:
    """Whole or not at all. Not synced: what a crash leaves is read, or computed anew."""
    if path is None:
        return
    temporary = path.with_name(f"{TEMPORARY_PREFIX}{path.name}-{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(with_crc32(to_json(content)))
        temporary.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)

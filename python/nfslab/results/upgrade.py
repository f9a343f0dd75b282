"""Bringing records of an older schema up to date, and refusing those of a newer one.

Every record carries `schema_version`. A change that a reader could misunderstand raises
`SCHEMA_VERSION` and adds one step here: a function from version n to n + 1 on the plain
dictionary, before it is validated. Reading walks the chain in memory; the folder on disk
is not touched (a runner that extends an experiment writes the current version).

A record from a newer nfslab is refused, never half understood, with the version of
nfslab to use. A record without a version is refused too: no released nfslab ever wrote
one, so it is not ours or it is damaged.

Version 1 is the first, so no steps are registered yet; the tests walk the chain with
steps of their own.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from pydantic import BaseModel, ValidationError

from nfslab import __version__
from nfslab.errors import ResultsError, system_errors
from nfslab.results.checksums import CHANGED, without_crc32
from nfslab.results.records import SCHEMA_VERSION, ClockRecord, HostRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    import pyarrow as pa

    Step = Callable[[dict[str, Any]], dict[str, Any]]

RecordKind = Literal["experiment", "run"]
Record = TypeVar("Record", bound=BaseModel)

STEPS: dict[RecordKind, dict[int, Step]] = {"experiment": {}, "run": {}}
"""Kind of record -> version n -> the function that makes version n + 1 of it."""

MAX_RECORD_BYTES = 64 * 2**20
"""A record is some kilobytes; a larger file is damaged or not ours, and is not loaded."""

FROM_A_COPY: Final = "restore it from a copy; the other runs are not affected"

TABLE_VERSION_KEY = b"nfslab.schema_version"
"""Key of the schema version in the metadata of every Parquet file."""
TABLE_HOST_KEY = b"nfslab.host"
TABLE_CLOCK_KEY = b"nfslab.clock"
"""Keys of the host that its rows were seen on, and of that host's clock (`ClockRecord`)."""


def load_record(path: Path, kind: RecordKind) -> dict[str, Any]:
    """One JSON record of a results folder, as a dictionary of the current schema.

    Raises `ResultsError`: cannot be read, is no JSON object, is of another version.
    """
    with system_errors(f"cannot read {path}", "let this user read it, or restore it from a copy"):
        size_bytes = path.stat().st_size
        if size_bytes > MAX_RECORD_BYTES:
            raise ResultsError(
                f"{path} is no record of nfslab",
                why=f"it has {size_bytes} bytes; a record has at most {MAX_RECORD_BYTES}",
                fix="give a folder that nfslab wrote",
            )
        raw = path.read_bytes()
    try:
        content = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise ResultsError(
            f"{path} is damaged",
            why=f"not valid JSON: {error}",
            fix=FROM_A_COPY,
        ) from error
    if not isinstance(content, dict):
        raise ResultsError(
            f"{path} is damaged",
            why="it does not hold one JSON object",
            fix=FROM_A_COPY,
        )
    content = upgrade(content, kind, where=str(path))
    if kind == "experiment" and without_crc32(raw) is None:
        raise ResultsError(f"{path} is damaged", why=CHANGED, fix=FROM_A_COPY)
    return {name: value for name, value in content.items() if name != "crc32"}


def load_valid(path: Path, kind: RecordKind, model: type[Record]) -> Record:
    """The same as a record; raises `ResultsError` also where its content is none."""
    content = load_record(path, kind)
    try:
        return model.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ResultsError(
            f"{path} is damaged", why=f"{where}: {first['msg']}", fix=FROM_A_COPY
        ) from error


def upgrade(content: dict[str, Any], kind: RecordKind, *, where: str) -> dict[str, Any]:
    """`content` brought to this nfslab's schema; `where` names it in errors.

    Raises `ResultsError` when it is newer, or when no path leads up from its version.
    """
    version = content.get("schema_version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise ResultsError(
            f"{where} is no record of nfslab",
            why=f"its schema_version is {version!r}, not a whole number from 1",
            fix="give a folder that nfslab wrote",
        )
    if version > SCHEMA_VERSION:
        raise _newer(where, version, content)
    for step_from in range(version, SCHEMA_VERSION):
        step = STEPS[kind].get(step_from)
        if step is None:
            raise ResultsError(
                f"{where} cannot be brought up to date",
                why=f"no step leads from schema {step_from} to {step_from + 1}",
                fix="report this as a defect of nfslab; the folder was left as it is",
            )
        content = step(dict(content))
        content["schema_version"] = step_from + 1
    return _with_load(content) if kind == "run" else content


def _with_load(content: dict[str, Any]) -> dict[str, Any]:
    """Runs from before the shape of the load was recorded: then it was known of pgbench only."""
    workload = (content.get("parameters") or {}).get("workload") or {}
    if "load" in content or workload.get("kind") != "pgbench":
        return content
    rate = workload.get("rate")
    kind = "closed" if rate is None else "open"
    load = {"kind": kind, "clients": workload.get("clients"), "rate_per_s": rate}
    return {**content, "load": load, "operations": "transactions"}


def check_table(table_metadata: Mapping[bytes, bytes] | None, path: Path) -> None:
    """Refuse a Parquet file of a newer schema; the metadata is that of its schema."""
    raw = (table_metadata or {}).get(TABLE_VERSION_KEY)
    if raw is None:
        return  # written by another program (a person's own table): nothing to hold it to
    try:
        version = int(raw)
    except ValueError as error:
        raise ResultsError(
            f"{path} is damaged",
            why=f"its schema version is {raw!r}, not a number",
            fix=FROM_A_COPY,
        ) from error
    if version > SCHEMA_VERSION:
        raise _newer(str(path), version, {})


def stamp_table(table: pa.Table, host: HostRecord | None = None) -> pa.Table:
    """The same table with schema version, host and clock in its metadata, before it is written."""
    host = host or HostRecord()
    metadata = dict(table.schema.metadata or {})
    metadata[TABLE_VERSION_KEY] = str(SCHEMA_VERSION).encode()
    metadata[TABLE_HOST_KEY] = host.name.encode()
    metadata[TABLE_CLOCK_KEY] = host.clock.model_dump_json().encode()
    return table.replace_schema_metadata(metadata)


def table_host(table_metadata: Mapping[bytes, bytes] | None) -> HostRecord:
    """Where a table's rows were seen, with its clock; of older tables: this machine."""
    known = table_metadata or {}
    if TABLE_HOST_KEY not in known:
        return HostRecord()
    clock = ClockRecord.model_validate_json(known.get(TABLE_CLOCK_KEY, b"{}"))
    return HostRecord(name=known[TABLE_HOST_KEY].decode(), clock=clock)


def _newer(where: str, version: int, content: Mapping[str, Any]) -> ResultsError:
    """The error for results from the future, naming the nfslab to use when it is known."""
    writer = content.get("nfslab_version")
    use = f"nfslab {writer} or newer" if isinstance(writer, str) else "a newer nfslab"
    return ResultsError(
        f"{where} was written by a newer nfslab",
        why=f"its schema is {version}; nfslab {__version__} reads up to {SCHEMA_VERSION}",
        fix=f"use {use}; the folder was left as it is",
    )

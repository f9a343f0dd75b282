"""Which table or index a file of PostgreSQL's base/ is: asked of the catalog of the server.

    before watching   catalogs of all databases ──> path ──> relation ─┐
    after watching    again, of the databases whose files were seen ───┴─> classes of files

The server says itself where each relation lies (`pg_relation_filepath`: mapped catalogs, partitions
and tablespaces included). A relation gets a new file on TRUNCATE, VACUUM FULL, CLUSTER, REINDEX and
most of ALTER TABLE: what either reading knows is named, so that a REINDEX between them gives both
files to that index.

Decisions. Asked before the probes are there and after they are gone: what is asked is no part of
what is seen. Files are told by the end of their path (base/DATABASE/FILE, or a tablespace's
PG_VERSION/DATABASE/FILE), because a server in a container or on a mount has other paths before it,
and nothing but one server is watched. A path that belonged to two relations is nobody's. Under
root, a socket is asked as the server's user, whom `peer` in pg_hba.conf lets in.

Limits: databases (`DATABASES_MOST`) and relations (`RELATIONS_MOST`), said when reached; databases
that nobody may connect to; relations that were made and dropped, or had two new files, between the
readings. Temporary relations keep the class of temporary files, those of global/ theirs.

Source: "Database File Layout", "System Administration Functions" (PostgreSQL).
"""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from nfslab.errors import one_line

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from pathlib import Path

    import pyarrow as pa

CONNECT_LIMIT_S: Final = 30
STATEMENT_LIMIT_MS: Final = 10_000
DATABASES_MOST: Final = 200
RELATIONS_MOST: Final = 500_000
KINDS: Final = {
    "r": "table", "i": "index", "S": "sequence", "t": "TOAST table", "m": "materialised view",
}  # fmt: skip
"""pg_class.relkind of what has files."""
FORKS: Final = {
    "": "main", "fsm": "free space map", "vm": "visibility map", "init": "initialisation fork",
}  # fmt: skip
DATABASES: Final = (
    "SELECT oid, datname, quote_ident(datname) FROM pg_database WHERE datallowconn ORDER BY oid"
)
LOCATIONS: Final = "SELECT oid, pg_tablespace_location(oid) FROM pg_tablespace"
RELATIONS: Final = """
SELECT pg_relation_filepath(c.oid), c.oid, c.relkind, quote_ident(n.nspname),
       quote_ident(c.relname), quote_ident(t.relname), quote_ident(tn.nspname),
       quote_ident(o.relname)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_index i ON i.indexrelid = c.oid
LEFT JOIN pg_class t ON t.oid = i.indrelid
LEFT JOIN pg_class o ON o.reltoastrelid = CASE c.relkind WHEN 't' THEN c.oid ELSE i.indrelid END
LEFT JOIN pg_namespace tn ON tn.oid = o.relnamespace
WHERE c.relkind IN ('r', 'i', 'S', 't', 'm') AND c.relpersistence <> 't'
"""
"""Every relation with a file; the table of an index, the owner of a TOAST table (and its index)."""
FILE: Final = re.compile(
    r"(?:^|/)(?:pg_tblspc/(?P<tablespace>\d+)/)?"
    r"(?P<tail>(?:base|PG_[^/]+)/(?P<database>\d+)/\d+)"
    r"(?:_(?P<fork>fsm|vm|init))?(?:\.\d+)?(?: \(deleted\))?$"
)
"""A relation's file, its forks and segments; temporary ones begin with t."""


@dataclass(frozen=True, slots=True)
class Relation:
    """What has a file in base/."""

    database: int
    oid: int
    name: str
    """database.schema.relation, quoted as SQL does."""
    kind: str
    """One of `KINDS`."""
    of: str = ""
    """The table of an index, what a TOAST table is for."""

    def file_class(self, fork: str) -> str:
        """bench.public.accounts_pkey (index of accounts), with the fork if it is not the main."""
        told = f"{self.kind} of {self.of}" if self.of else self.kind
        return f"{self.name} ({told})" if not fork else f"{self.name} ({told}, {FORKS[fork]})"


@dataclass(slots=True)
class RelationNames:
    """What one server's catalog calls its files, read once or twice."""

    conninfo: str
    folder: Path | None = None
    """The data directory: its owner is asked as, under root."""
    notes: list[str] = field(default_factory=list)
    _relations: dict[tuple[int, int], Relation] = field(default_factory=dict)
    """By database and oid, with the name that was read last."""
    _owners: dict[str, set[tuple[int, int, str]]] = field(default_factory=dict)
    """End of a path -> database, oid, and the folder of its tablespace (empty: the server's)."""
    _locations: dict[int, str] = field(default_factory=dict)
    """Of tablespaces."""

    def read(self, databases: Collection[int] | None = None) -> None:
        """Add what the catalogs say now (of these databases only); a failure becomes a note."""
        import psycopg

        lacking = "files made meanwhile" if self._relations else "tables"
        if not self.conninfo:
            self._note(f"{lacking} have no names: postmaster.pid says no socket and no port")
            return
        try:
            with self._connected() as connection:
                self._locations |= dict(connection.execute(LOCATIONS).fetchall())
                found = connection.execute(DATABASES).fetchall()
        except (psycopg.Error, OSError) as error:
            self._note(
                f"{lacking} have no names: PostgreSQL does not let nfslab in "
                f"({one_line(error)}); PGUSER and PGPASSWORD may name somebody it does"
            )
            return
        wanted = [row for row in found if databases is None or row[0] in databases]
        if len(wanted) > DATABASES_MOST:
            self._note(f"the catalogs of {len(wanted) - DATABASES_MOST} databases are not read")
        for oid, name, quoted in wanted[:DATABASES_MOST]:
            try:
                with self._connected(name) as connection:
                    self._add(oid, quoted, connection)
            except (psycopg.Error, OSError) as error:
                self._note(f"the tables of the database {name} have no names: {one_line(error)}")

    def _add(self, oid: int, database: str, connection: Any) -> None:
        for row in connection.execute(RELATIONS):
            path, number, kind, schema, name, table, owner_schema, owner = row
            place = FILE.search(path or "")
            if place is None:  # no file (partitioned), or one of global/
                continue
            if len(self._relations) >= RELATIONS_MOST:
                self._note(f"the catalog has more than {RELATIONS_MOST:,} relations with files")
                return
            of = table or ""
            if owner is not None:
                of = f"{owner_schema}.{owner}"
                of = of if kind == "t" else f"TOAST of {of}"
            named = f"{database}.{schema}.{name}"
            location = self._locations.get(int(place["tablespace"] or 0), "")
            self._enter(place["tail"], Relation(oid, number, named, KINDS[kind], of), location)

    def _enter(self, tail: str, relation: Relation, location: str = "") -> None:
        who = (relation.database, relation.oid)
        self._relations[who] = relation
        self._owners.setdefault(tail, set()).add((*who, location))

    def find(self, path: str) -> tuple[Relation, str] | None:
        """The relation and fork (a key of `FORKS`) of a file; None when it is not known."""
        match = FILE.search(path)
        if match is None:
            return None
        found = list(self._owners.get(match["tail"], ()))
        if len(found) > 1:  # tablespaces number their files each for itself
            before = path[: match.start("tail")].rstrip("/")
            found = [one for one in found if one[2] and _is_in(before, one[2])]
        return (self._relations[found[0][:2]], match["fork"] or "") if len(found) == 1 else None

    def name(self, tables: dict[str, pa.Table], summary: dict[str, Any]) -> None:
        """After watching: read again, name the table `files`, what is to be said to the notes."""
        if (files := tables.get("files")) is not None:
            paths: Sequence[Any] = files["path"].to_pylist()
            matches = (FILE.search(path or "") for path in paths)
            self.read({int(match["database"]) for match in matches if match is not None})
            tables["files"] = self.named(files)
        else:
            self._note("tables have no names: no file was seen")
        summary["notes"] = [*summary["notes"], *self.notes]

    def named(self, files: pa.Table) -> pa.Table:
        """The files with their relation for a class, and what it is in columns of its own.

        `relation`, `relation_kind`, `fork` are null for all that is no relation. What is a file of
        base/ and nobody's keeps its class, and is counted in a note.
        """
        import pyarrow as pa

        paths: Sequence[Any] = files["path"].to_pylist()
        found = [self.find(path or "") for path in paths]
        classes = [
            old if one is None else one[0].file_class(one[1])
            for old, one in zip(files["class"].to_pylist(), found, strict=True)
        ]
        self._count_others(files["file_id"].to_pylist(), paths, found)
        at = files.column_names.index("class")
        made = files.set_column(at, "class", pa.array(classes, pa.string()))
        columns = {
            "relation": [None if one is None else one[0].name for one in found],
            "relation_kind": [None if one is None else one[0].kind for one in found],
            "fork": [None if one is None else FORKS[one[1]] for one in found],
        }
        for name, values in columns.items():
            made = made.append_column(name, pa.array(values, pa.string()))
        return made

    def _count_others(
        self, numbers: Sequence[Any], paths: Sequence[Any], found: Sequence[object | None]
    ) -> None:
        """Files that look like relations and are none that either reading knew."""
        known = {number for number, one in zip(numbers, found, strict=True) if one is not None}
        alike = {n for n, path in zip(numbers, paths, strict=True) if FILE.search(path or "")}
        if self._relations and (left := len(alike - known)):
            self._note(
                f"{left:,} files of base/ belong to no relation that the catalog had before or "
                "after (made and dropped between, or replaced twice): they keep the plain class"
            )

    @contextmanager
    def _connected(self, database: str = "") -> Iterator[Any]:
        import psycopg
        from psycopg.conninfo import make_conninfo

        with _as_owner(self.folder):
            connection = psycopg.connect(
                make_conninfo(self.conninfo, **({"dbname": database} if database else {})),
                autocommit=True,
                connect_timeout=CONNECT_LIMIT_S,
                application_name="nfslab",
                options=f"-c statement_timeout={STATEMENT_LIMIT_MS} -c jit=off",
            )
        with connection:
            yield connection

    def _note(self, note: str) -> None:
        if note not in self.notes:
            self.notes.append(note)


def _is_in(folder: str, location: str) -> bool:
    """Is this the tablespace's folder? Its path may be seen from elsewhere (a container)."""
    return folder == os.path.realpath(location) or folder.endswith(location)


@contextmanager
def _as_owner(folder: Path | None) -> Iterator[None]:
    """Root connects as the owner of the data directory, whom `peer` lets in."""
    owner = 0
    if folder is not None and os.geteuid() == 0:
        owner = folder.stat().st_uid
    if owner == 0:
        yield
        return
    # Of all threads of this process: nothing is watched while the catalog is read.
    os.seteuid(owner)
    try:
        yield
    finally:
        os.seteuid(0)

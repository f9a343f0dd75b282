"""Database engines by name: one line each, imported when first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nfslab.plugins import load_plugin

if TYPE_CHECKING:
    from nfslab.databases.base import Database

DATABASES: dict[str, str] = {
    "postgres": "nfslab.databases.postgres.database:PostgresDatabase",
    "mariadb": "nfslab.databases.mariadb.database:MariadbDatabase",
    "sqlite": "nfslab.databases.sqlite.database:SqliteDatabase",
}


def database_class(kind: str) -> type[Database]:
    """The class of an engine; `UsageError` names the nearest known one."""
    found: type[Database] = load_plugin(DATABASES, kind, what="database")
    return found

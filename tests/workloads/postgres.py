"""The PostgreSQLs of this machine, for tests of several folders."""

from __future__ import annotations

from typing import Final

import pytest
from nfslab.databases.postgres.database import PostgresDatabase
from nfslab.databases.postgres.installation import find_installation
from nfslab.errors import Unavailable

_usable = PostgresDatabase.available()
needs_postgres = pytest.mark.skipif(not _usable.ok, reason=_usable.reason or "usable")


def available(postgres: str) -> bool:
    """Is this one here?"""
    try:
        find_installation(postgres)
    except Unavailable:
        return False
    return _usable.ok


POSTGRES: Final = ("system", "embedded-16", "embedded")
"""Each prints and logs its own way."""
NEWEST: Final = next((name for name in reversed(POSTGRES) if available(name)), POSTGRES[-1])


def _one(name: str) -> object:
    there = pytest.mark.skipif(not available(name), reason=f"no PostgreSQL {name!r} here")
    # The one in the middle is like one of its neighbours.
    lane = pytest.mark.long if name == "embedded-16" else pytest.mark.system
    return pytest.param(name, marks=[there, lane])


every_postgres = pytest.mark.parametrize(
    "postgres", [_one(name) for name in POSTGRES], scope="module"
)
newest_postgres = pytest.mark.parametrize("postgres", [_one(NEWEST)], scope="module")
"""What does not depend on the version."""

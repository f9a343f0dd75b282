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


def _each(*quick: str) -> pytest.MarkDecorator:
    """Those that are not quick are asked in the long lane."""
    return pytest.mark.parametrize(
        "postgres",
        [
            pytest.param(
                name,
                marks=[
                    pytest.mark.skipif(not available(name), reason=f"no PostgreSQL {name!r} here"),
                    pytest.mark.system if name in quick else pytest.mark.long,
                ],
            )
            for name in POSTGRES
        ],
        scope="module",
    )


NEWEST: Final = next((name for name in reversed(POSTGRES) if available(name)), POSTGRES[-1])
every_postgres = _each("system", NEWEST)
"""The one in the middle is like one of its neighbours."""
newest_postgres = _each(NEWEST)
"""What does not depend on the version."""

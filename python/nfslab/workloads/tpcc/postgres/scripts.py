"""pgbench's scripts: the inputs of each transaction, and what is done with them.

    sql/inputs/NAME.sql      what a terminal draws: pgbench's variables
    sql/procedure/NAME.sql   one call of a procedure
    sql/statements/NAME.sql  a statement for each step

They are templates (jinja2), since an order has up to fifteen lines and pgbench has no loops.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Final

from nfslab.workloads.tpcc.postgres.pacing import paced

if TYPE_CHECKING:
    from collections.abc import Iterable

SQL: Final = Path(__file__).parent / "sql"


def script(name: str, calls: str) -> str:
    """Of a transaction, as pgbench reads it."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    templates = Environment(
        loader=FileSystemLoader(SQL), undefined=StrictUndefined, autoescape=False,
        trim_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip
    parts = ("inputs/common.sql", f"inputs/{name}.sql", f"{calls}/{name}.sql")
    text = "".join((SQL / part).read_text(encoding="utf-8") for part in parts)
    return templates.from_string(text).render().lstrip()


def write_scripts(folder: Path, names: Iterable[str], calls: str, think: float = 0) -> list[Path]:
    """Into a folder; their paths, in this order. `think`: of the keying and think times."""
    paths = []
    for name in names:
        paths.append(folder / f"{name}.sql")
        text = script(name, calls)
        text = paced(text, name, think) if think else text
        paths[-1].write_text(text, encoding="utf-8")
    return paths


def definition() -> str:
    """SHA-256 of all of it: tables, procedures, scripts."""
    found = hashlib.sha256()
    for file in sorted(SQL.rglob("*.sql")):
        found.update(f"{file.relative_to(SQL)}\0".encode() + file.read_bytes())
    return found.hexdigest()

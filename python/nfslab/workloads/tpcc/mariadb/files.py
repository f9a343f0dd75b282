"""The files that make tables, procedures and load on MariaDB."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

from nfslab.workloads.sysbench.client import SHARED

FOLDER: Final = Path(__file__).parent
SCRIPT: Final = FOLDER / "tpcc.lua"


def text(name: str) -> str:
    """Of one of them."""
    return (FOLDER / name).read_text(encoding="utf-8")


def procedures() -> list[str]:
    """Statements that make them; functions first."""
    files = sorted((FOLDER / "procedures").glob("*.sql"))
    return [file.read_text(encoding="utf-8") for file in files]


def definition() -> str:
    """SHA-256 of all of it: tables, procedures, script."""
    found = hashlib.sha256(SHARED.read_bytes() + SCRIPT.read_bytes())
    for file in sorted(FOLDER.rglob("*.sql")):
        found.update(f"{file.relative_to(FOLDER)}\0".encode() + file.read_bytes())
    return found.hexdigest()

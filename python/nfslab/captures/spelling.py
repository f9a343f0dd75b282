"""Names of a capture's protocols and operations as people read them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


def protocol(row: Mapping[str, Any]) -> str:
    """Such as NFSv3, MOUNTv3, program 300000 v1."""
    name, version = row.get("program_name"), row.get("version")
    if name is None:
        known = row.get("program")
        name = "other programs" if known is None else f"program {known}"
        return name if version is None else f"{name} v{version}"
    return f"{name}v{version}"


def operation(row: Mapping[str, Any]) -> str:
    """Such as NFSv3 READ."""
    return f"{protocol(row)} {row['operation']}"

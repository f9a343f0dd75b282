"""Names of a capture's protocols and operations as people read them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nfslab._core import BlockRow, OperationRow


def protocol(row: OperationRow | BlockRow) -> str:
    """Such as NFSv3, MOUNTv3, program 300000 v1."""
    name, version = row["program_name"], row["version"]
    if name is None:
        known = row["program"]
        name = "other programs" if known is None else f"program {known}"
        return name if version is None else f"{name} v{version}"
    return f"{name}v{version}"


def operation(row: OperationRow | BlockRow) -> str:
    """Such as NFSv3 READ."""
    return f"{protocol(row)} {row['operation']}"

"""A cluster's folder: its certificates, and the record by which a running one is found."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from nfslab.cluster.certificates import FILES
from nfslab.errors import UsageError
from nfslab.machine.journal import state_folder

if TYPE_CHECKING:
    from collections.abc import Sequence

RECORD: Final = "cluster.json"
LOG: Final = "scheduler.log"
MADE: Final = (*FILES, RECORD, LOG)


def default_folder() -> Path:
    """Where `nfslab cluster start` keeps certificates and record."""
    return state_folder() / "cluster"


def write_record(folder: Path, address: str, hosts: Sequence[str]) -> None:
    """What `nfslab cluster stop` and `check` know it by; `hosts`: those that have to be in it."""
    path = folder / RECORD
    text = json.dumps({"address": address, "hosts": list(hosts)})
    path.write_text(text, encoding="utf-8")


def recorded(folder: Path) -> dict[str, Any] | None:
    """The cluster that was started with this folder; None: none was."""
    try:
        found = json.loads((folder / RECORD).read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and "address" in found else None


def running_address(folder: Path, given: str | None) -> str:
    """The scheduler that is meant: the given one, or that of `nfslab cluster start`."""
    found = recorded(folder)
    if given is None and found is None:
        raise UsageError(
            "no cluster is running that was started here",
            why=f"there is no record of one in {folder}",
            fix="name hosts, --scheduler tls://HOST:PORT, or: nfslab cluster start HOST...",
        )
    return given or str((found or {})["address"])


def forget(folder: Path) -> None:
    """Remove what a cluster has in its folder, and the folder when nothing else is in it."""
    for name in MADE:
        (folder / name).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        folder.rmdir()

"""Runs that another machine sealed (a guest, a client host), before anything is made of them.

Nothing in them is trusted more than their form: checksums show accidents, records are validated,
and no code of theirs is ever run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nfslab.errors import RunFailed
from nfslab.results.catalogue import read_provenance, read_run
from nfslab.results.checksums import harm

if TYPE_CHECKING:
    from pathlib import Path

    from nfslab.results.records import RunRecord


def sealed_elsewhere(sealed: Path, by: str, fix: str) -> tuple[RunRecord, dict[str, Any]]:
    """Record and provenance of a run that `by` sealed; RunFailed when it is not whole."""
    if not sealed.is_dir() or sealed.is_symlink():
        raise RunFailed(f"{by} left no run behind", fix=fix)
    if harmed := harm(sealed, "whole"):
        raise RunFailed(f"what {by} wrote is damaged", why=harmed, fix=fix)
    return read_run(sealed), read_provenance(sealed)

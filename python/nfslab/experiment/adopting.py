"""Runs that another machine sealed (a guest, a host of a run), and what of them is the run's own.

Nothing in them is trusted more than their form: checksums show accidents, records are validated,
and no code of theirs is ever run.

What the server's host saw of the servers is the run's own; so is what a client host saw of the
client, where it is the only one: then the run is that of two machines, and all that joins client
and server is told of it as of a run on one. What is of one of several stays in `hosts/NAME`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nfslab.errors import RunFailed
from nfslab.results.catalogue import read_provenance, read_run
from nfslab.results.checksums import CHECKSUMS, harm
from nfslab.results.records import HostRecord
from nfslab.results.taken_tables import take_table

if TYPE_CHECKING:
    from pathlib import Path

    from nfslab.context import HostPart
    from nfslab.results.records import EvidenceRecord, RunHostRecord, RunRecord

EVIDENCE = "evidence"


def sealed_elsewhere(sealed: Path, by: str, fix: str) -> tuple[RunRecord, dict[str, Any]]:
    """Returns record and provenance of a run that `by` sealed; RunFailed when it is not whole."""
    if not sealed.is_dir() or sealed.is_symlink():
        raise RunFailed(f"{by} left no run behind", fix=fix)
    if harmed := harm(sealed, "whole"):
        raise RunFailed(f"what {by} wrote is damaged", why=harmed, fix=fix)
    return read_run(sealed), read_provenance(sealed)


def as_host(record: RunHostRecord) -> HostRecord:
    """Returns what a run keeps of the host on one of its sides."""
    return HostRecord(
        name=record.name, kind=record.kind, clock=record.clock_meanwhile, facts=record.facts
    )


def take_tables(run: Path, part: HostPart, host: HostRecord, moved_ns: int) -> list[EvidenceRecord]:
    """Moves what collectors that are the run's own left, `t_ns` later by `moved_ns`; RunFailed.

    Their records, for the run's.
    """
    import pyarrow as pa

    taken = part.record.evidence
    try:
        for evidence in taken:
            for table in evidence.tables:
                take_table(part.folder / table, run / table, host, moved_ns)
            for kept in (part.folder / EVIDENCE).glob(f"{evidence.collector}.*"):
                kept.rename(run / EVIDENCE / kept.name)
        if taken:
            # They were found to be right when they arrived; the run's own are of all files.
            (part.folder / CHECKSUMS).unlink(missing_ok=True)
    except (OSError, pa.ArrowException) as error:
        raise RunFailed(
            f"what {part.name} saw cannot be kept",
            why=str(error),
            fix="make room in the results folder",
        ) from error
    return taken

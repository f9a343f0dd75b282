"""Autovacuum at work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from nfslab.evidence.over_time import read_rows
from nfslab.evidence.postgres.sql_waits import WAITS_TABLE
from nfslab.findings.beside import FILE_PARTS, ReasonCause, beside
from nfslab.findings.noisy_neighbour import waiting_parts
from nfslab.results.coded_texts import integers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nfslab.evidence.anatomy.differences import Compared
    from nfslab.evidence.base import SealedRun
    from nfslab.findings.interventions import At

WORKER: Final = "autovacuum worker"
LEAST_MORE: Final = 0.1
"""Workers at work, on average."""


class Autovacuum(ReasonCause):
    """More of autovacuum's workers are at work."""

    cause: ClassVar[str] = "autovacuum"
    parts: ClassVar[tuple[str, ...]] = (*FILE_PARTS, "lwlock_waits")
    what: ClassVar[str] = "what autovacuum competes for: files, processors, light locks"
    confirm: ClassVar[str] = "set autovacuum = off for a run, on data of its own"
    depends: ClassVar[tuple[str, ...]] = ("workload.settings.autovacuum*",)

    def paths(self, pair: Compared) -> tuple[str, ...]:
        """And all in which something waits for a processor, the client program too."""
        waiting = [one for one in waiting_parts(pair) if one.partition("/")[0] not in self.parts]
        return (*self.parts, *waiting)

    def because(self, pair: Compared) -> str | None:
        """By samples of the server's processes."""
        workers = beside(pair, _workers)
        if workers is None or not workers.grew or workers.new - workers.base < LEAST_MORE:
            return None
        return (
            f"{workers.new:.2g} autovacuum workers at work on average instead of {workers.base:.2g}"
        )

    def remedy(self, at: At) -> Mapping[str, tuple[Any, Any]]:
        """Off, for a run on data of its own."""
        return at.setting("autovacuum", True, False)


def _workers(run: SealedRun) -> float | None:
    rows = read_rows(run, WAITS_TABLE, ["t_ns", "backend_type", "backends"])
    if rows is None or not rows.num_rows:
        return None
    looks = len(set(integers(rows["t_ns"]).tolist()))
    kinds = rows["backend_type"].to_pylist()
    numbers = rows["backends"].to_numpy().tolist()
    workers = sum(float(n) for kind, n in zip(kinds, numbers, strict=True) if kind == WORKER)
    return workers / looks

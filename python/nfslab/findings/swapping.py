"""Memory is swapped while the load runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from nfslab.display.numbers import quantity
from nfslab.evidence.over_time import read_samples, timed_mean
from nfslab.findings.beside import ReasonCause, beside
from nfslab.findings.noisy_neighbour import waiting_parts

if TYPE_CHECKING:
    from nfslab.evidence.anatomy.differences import Compared
    from nfslab.evidence.base import SealedRun

PAGING: Final = "system_vm"
SWAPPED_IN: Final = "swapped_in_bytes_per_s"
LEAST_BYTES_PER_S: Final = 1e6
"""Of pages that come back: fewer are of programs that nobody waits for."""
LEAST_PRESSURE: Final = 0.1
"""Of the time some task waits for memory (PSI "some")."""


class Swapping(ReasonCause):
    """Pages come back from swap, and tasks wait for memory."""

    cause: ClassVar[str] = "swapping"
    what: ClassVar[str] = "what waits where pages come back from swap"
    confirm: ClassVar[str] = "give more memory, or let the database and its clients take less of it"
    depends: ClassVar[tuple[str, ...]] = ("limits.memory", "workload.settings.shared_buffers")

    def paths(self, pair: Compared) -> tuple[str, ...]:
        """A page fault is in whatever part faults; a wait that storage has a name for is not."""
        return waiting_parts(pair)

    def because(self, pair: Compared) -> str | None:
        """By the kernel's counters and its pressure of memory."""
        pages, pressure = beside(pair, _swapped_in), beside(pair, _memory_pressure)
        if pages is None or pressure is None or not (pages.grew and pressure.grew):
            return None
        if pages.new < LEAST_BYTES_PER_S or pressure.new < LEAST_PRESSURE:
            return None
        return (
            f"{quantity(pages.new, 'B/s')} came back from swap instead of "
            f"{quantity(pages.base, 'B/s')}, and some task waited for memory {pressure.new:.0%} of "
            "the time"
        )


def _swapped_in(run: SealedRun) -> float | None:
    samples = read_samples(run, PAGING, [SWAPPED_IN])
    if samples is None or SWAPPED_IN not in samples.columns:
        return None
    return timed_mean(samples.t_s, samples.columns[SWAPPED_IN])


def _memory_pressure(run: SealedRun) -> float | None:
    found: float | None = (
        run.summary("system").get("pressure", {}).get("memory", {}).get("some_share")
    )
    return found

"""CPU time of a server whose processes come and go while they are read."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from nfslab.machine.processes import CLOCK_TICKS_PER_S, Identity, Status
from nfslab.workloads.pgbench import execution

POSTMASTER = 100


def status(pid: int, ticks: int, *, parent: int = POSTMASTER, waited: int = 0) -> Status:
    return Status(Identity(pid, 1), "postgres", "S", parent, 1, 1, ticks, 0, waited, 0)


class Kernel:
    """Answers of /proc, one reading after the other."""

    def __init__(self, waited: list[int], children: list[list[Status]]) -> None:
        self._waited: Iterator[int] = iter(waited)
        self._children = iter(children)

    def status_of(self, pid: int) -> Status | None:
        waited = next(self._waited, None)
        return None if waited is None else status(pid, 3, parent=1, waited=waited)

    def all_statuses(self) -> list[Status]:
        return [status(1, 99, parent=0), *next(self._children)]


def reading(monkeypatch: pytest.MonkeyPatch, kernel: Kernel) -> float | None:
    monkeypatch.setattr(execution, "status_of", kernel.status_of)
    monkeypatch.setattr(execution, "all_statuses", kernel.all_statuses)
    return execution.server_cpu_s(POSTMASTER)


def test_a_backend_that_ends_between_two_readings_is_not_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its 450 ticks are gone from the list before they are in the postmaster's account."""
    writer = status(102, 27)
    kernel = Kernel([0, 450, 450], [[writer], [writer]])
    assert reading(monkeypatch, kernel) == (3 + 27 + 450) / CLOCK_TICKS_PER_S


def test_living_backends_count_once(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel([8, 8], [[status(101, 450), status(102, 27)]])
    assert reading(monkeypatch, kernel) == (3 + 8 + 450 + 27) / CLOCK_TICKS_PER_S


def test_without_an_instant_between_ends_there_is_no_figure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    most = execution.READINGS_MOST
    kernel = Kernel(list(range(most + 1)), [[]] * most)
    assert reading(monkeypatch, kernel) is None
    assert reading(monkeypatch, Kernel([], [[]])) is None

"""Evidence of single mounts: its series, and its facts by point, mount and operation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from nfslab.evidence.base import ColumnSpec, Facts, TableSpec
from nfslab.evidence.found import by_point

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from nfslab.evidence.base import Found
    from nfslab.evidence.over_time import PanelSpec


class OfMount(Protocol):
    """Facts of a mount."""

    @property
    def target(self) -> str:
        """Its name in the experiment."""


class OfOperation(Protocol):
    """Facts of an operation."""

    @property
    def operation(self) -> str:
        """Its name in the protocol."""

    @property
    def calls(self) -> int:
        """How many were counted."""


F = TypeVar("F", bound=Facts)
M = TypeVar("M", bound=OfMount)
P = TypeVar("P", bound=OfOperation)


def series_table(
    name: str, panels: Sequence[PanelSpec], counts: Sequence[str] = (), *, optional: bool = False
) -> TableSpec:
    """A row for each time and mount, of what these panels draw; `counts` are whole numbers.

    `optional`: older tables lack some.
    """
    drawn = [
        ColumnSpec(column, "uint64" if column in counts else "double", panel.unit, optional)
        for panel in panels
        for column in panel.labels
    ]
    return TableSpec(
        name, (ColumnSpec("t_ns", "int64", "ns"), ColumnSpec("target", "string"), *drawn)
    )


def by_mount(found: Found[F], mounts: Callable[[F], Iterable[M]]) -> list[tuple[str, str, list[M]]]:
    """(point, target, its facts in every run)."""
    made = []
    for _, label, runs in by_point(found):
        targets: dict[str, list[M]] = {}
        for run in runs:
            for one in mounts(run.facts):
                targets.setdefault(one.target, []).append(one)
        made += [(label, target, same) for target, same in targets.items()]
    return made


def by_operation(operations: Iterable[P], most: int) -> list[tuple[str, list[P]]]:
    """(operation, its facts in every run) of one mount: so many, the most frequent first."""
    by_name: dict[str, list[P]] = {}
    for one in operations:
        by_name.setdefault(one.operation, []).append(one)
    ordered = sorted(by_name.items(), key=lambda item: -sum(one.calls for one in item[1]))
    return ordered[:most]

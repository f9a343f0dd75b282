"""Evidence of single mounts: its series, and its facts by point, mount and operation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from nfslab.evidence.base import ColumnSpec, Facts, TableSpec
from nfslab.evidence.same import Same, at_points
from nfslab.results.groups import grouped

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


def by_mount(found: Found[F], mounts: Callable[[F], Iterable[M]]) -> list[Same[M]]:
    """Each mount's facts in every run of a configuration."""
    made = []
    for point in at_points(found):
        targets = grouped((one.target, one) for run in point.runs for one in mounts(run))
        made += [Same(point.point, same, target) for target, same in targets.items()]
    return made


def by_operation(at: Same[Any], operations: Iterable[P], most: int) -> list[Same[P]]:
    """The operations at that point (of that mount): so many, the most frequent first."""
    by_name = grouped((one.operation, one) for one in operations)
    ordered = sorted(by_name.items(), key=lambda item: -sum(one.calls for one in item[1]))
    return [Same(at.point, same, at.target, name) for name, same in ordered[:most]]


def operations_of(mounts: Iterable[Same[Any]], most: int) -> list[Same[Any]]:
    """The operations of each of these mounts."""
    return [
        operation
        for mount in mounts
        for operation in by_operation(
            mount, (one for run in mount.runs for one in run.operations), most
        )
    ]

"""The sealed runs of an experiment as columns, one entry a run in each, in their order.

Figures are made of columns; an object for each run costs ten times as much as its line does in the
core. So there are two makings of the same: `PlainRows` of a catalogue's file that is plainly what
nfslab writes, and `LineRows` of lines that were validated one by one, whatever they came from.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from pydantic import TypeAdapter, ValidationError

from nfslab.results.core_tables import core_table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nfslab._core import CatalogueLines, Columns
    from nfslab.results.records import CatalogueLine

    Arrays = tuple[dict[str, Any], dict[str, Any]]

T = TypeVar("T")

_INTEGERS: Final = ("block", "position", "attempt", "started_unix_ns", "duration_ns")
_FACTORS: Final = TypeAdapter(list[dict[str, Any]])
"""As the lines' own model reads them."""


class Rows(Protocol):
    """Runs as columns. Lists and what is in them are not to be changed."""

    def __len__(self) -> int: ...

    def column(self, name: str) -> list[Any]:
        """A field of the lines, by its name; not `metrics`."""

    def metric_names(self) -> list[tuple[str, ...]]:
        """Of each run, in the order of its line."""

    def metric(self, name: str) -> list[float | None]:
        """Values of a metric; None for runs without it."""

    def arrays(self, metrics: Sequence[str]) -> Arrays | None:
        """(fields but `factors`, with `duration_s` for `duration_ns`; these metrics) as columns of
        Arrow; None where only lists are at hand."""

    def lines(self) -> list[CatalogueLine]:
        """The same as objects."""


class LineRows:
    """Columns of lines."""

    def __init__(self, lines: list[CatalogueLine]) -> None:
        self._lines = lines

    def __len__(self) -> int:
        return len(self._lines)

    def column(self, name: str) -> list[Any]:
        """As `Rows` has it."""
        return list(map(attrgetter(name), self._lines))

    def metric_names(self) -> list[tuple[str, ...]]:
        """As `Rows` has it."""
        return [tuple(line.metrics) for line in self._lines]

    def metric(self, name: str) -> list[float | None]:
        """As `Rows` has it."""
        return [line.metrics.get(name) for line in self._lines]

    def arrays(self, metrics: Sequence[str]) -> None:
        """As `Rows` has it."""

    def lines(self) -> list[CatalogueLine]:
        """As `Rows` has it."""
        return self._lines


class PlainRows:
    """Columns of a catalogue's file, through the core; objects are made when they are asked for."""

    def __init__(
        self,
        found: CatalogueLines,
        factors: Sequence[dict[str, Any]],
        validated: Callable[[], list[CatalogueLine]],
    ) -> None:
        """`factors`: of the core's distinct ones; `validated`: lines of the file, in its order."""
        self._found = found
        self._factors = factors
        self._validated = validated
        self._columns: dict[str, list[Any]] = {}
        self._order: list[int] | None = None

    @classmethod
    def read(cls, content: bytes, validated: Callable[[], list[CatalogueLine]]) -> PlainRows | None:
        """None where the file is not plain."""
        from nfslab._core import CatalogueLines

        found = CatalogueLines.read(content)
        if found is None:
            return None
        try:
            factors = _FACTORS.validate_json(f"[{','.join(found.factors()[0])}]")
        except ValidationError:
            return None
        return cls(found, factors, validated)

    def arrange(self, order: list[int]) -> None:
        """From now on only these of its runs, in this order."""
        self._order = None if order == list(range(len(self))) else order
        self._columns.clear()

    def __len__(self) -> int:
        return len(self._found) if self._order is None else len(self._order)

    def column(self, name: str) -> list[Any]:
        """As `Rows` has it."""
        if name not in self._columns:
            self._columns[name] = self._arranged(self._read(name))
        return self._columns[name]

    def metric_names(self) -> list[tuple[str, ...]]:
        """As `Rows` has it."""
        sets, codes = self._found.metric_sets()
        return self._arranged([sets[code] for code in codes])

    def metric(self, name: str) -> list[float | None]:
        """As `Rows` has it."""
        return self._arranged(self._found.metric(name))

    def arrays(self, metrics: Sequence[str]) -> Arrays:
        """As `Rows` has it."""
        fields = self._table(self._found.columns())
        return fields, self._table(self._found.metrics(metrics)) if metrics else {}

    def lines(self) -> list[CatalogueLine]:
        """As `Rows` has it."""
        return self._arranged(self._validated())

    def _table(self, columns: Columns) -> dict[str, Any]:
        table = core_table(columns)
        if self._order is not None:
            table = table.take(self._order)
        return dict(zip(table.column_names, table.columns, strict=True))

    def _read(self, name: str) -> list[Any]:
        if name in _INTEGERS:
            return self._found.integers(name)
        if name == "flags":
            return self._found.flags()
        if name == "factors":
            return [self._factors[code] for code in self._found.factors()[1]]
        return self._found.texts(name)

    def _arranged(self, column: list[T]) -> list[T]:
        return column if self._order is None else [column[row] for row in self._order]

"""The rows of the data set, the same for every engine; and sums of them, made without a database.

`items` has one row for each `id` from 0, loaded in that order:

    created   follows `id`, in disorder within NEAR rows: an index on it is correlated
    code      a permutation of 0 .. rows - 1 without any order: an index on it is not
    grp       one of GROUPS
    value     0 .. 999
    filler    FILLER letters and digits, drawn: no compression gets far

`parts` has a row for every fourth item (`item` = 4 `id`), with a `weight`.

Everything but `filler` is a function of `id`, so that the answer of a query is known exactly.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    Integers = NDArray[np.int64]

ROWS_PER_PAGE: Final = 55
"""Of `items` in PostgreSQL: 24 bytes of header, 5 integers, 1 + FILLER bytes, 4 of line pointer."""
PAGE: Final = 8192
NEAR: Final = 64
GROUPS: Final = 100
FILLER: Final = 99
ITEMS_PER_PART: Final = 4
CHUNK: Final = 2000 * ROWS_PER_PAGE
ITEMS: Final = ("id", "created", "code", "grp", "value", "filler")
PARTS: Final = ("id", "item", "weight")
MIX: Final = (0x9E3779B1, 0x85EBCA6B, 0xC2B2AE35)
"""Odd numbers."""
LETTERS: Final = np.frombuffer(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", dtype=np.uint8
)


def definition() -> str:
    """SHA-256 of what makes the rows."""
    return hashlib.sha256(Path(__file__).read_bytes()).hexdigest()


def rows_of(size_bytes: int) -> int:
    """How many rows of `items` fill so many bytes, in whole pages of PostgreSQL.

    It extends a table by several pages at a time: up to 63 more, which are empty, are at its end.
    """
    return size_bytes // PAGE * ROWS_PER_PAGE


@dataclass(frozen=True)
class Data:
    """So many rows of `items`."""

    rows: int

    @property
    def parts(self) -> int:
        """Rows of `parts`."""
        return -(-self.rows // ITEMS_PER_PART)

    @cached_property
    def _bits(self) -> int:
        return max(2, (self.rows - 1).bit_length())

    def code(self, ids: Integers) -> Integers:
        """The permutation: steps that are each one-to-one on whole bits, repeated where a result is
        no row (cycle walking)."""
        mask, shift = (1 << self._bits) - 1, (self._bits + 1) // 2
        found = np.array(ids, dtype=np.uint64)
        left = np.arange(found.size)
        while left.size:
            x = found[left]
            for odd in MIX:
                x = (x * np.uint64(odd) + np.uint64(1)) & np.uint64(mask)
                x ^= x >> np.uint64(shift)
            found[left] = x
            left = left[x >= self.rows]
        return found.astype(np.int64)

    def items(self, begin: int, end: int) -> dict[str, Any]:
        """Columns of the rows `begin` to `end` but the filler."""
        ids = np.arange(begin, min(end, self.rows), dtype=np.int64)
        code = self.code(ids)
        return {
            "id": ids,
            "created": ids + code % NEAR,
            "code": code,
            "grp": code % GROUPS,
            "value": (ids * 7919 + 13) % 1000,
        }

    def chunks(self) -> Iterator[dict[str, Any]]:
        """All rows of `items`, some at a time."""
        for begin in range(0, self.rows, CHUNK):
            yield self.items(begin, begin + CHUNK)

    def total(
        self,
        column: str,
        where: Callable[[dict[str, Any]], Any] | None = None,
    ) -> tuple[int, int]:
        """(count, sum of `column`) of the rows of `items` where `where` holds; None: of all."""
        count = total = 0
        for chunk in self.chunks():
            values = chunk[column] if where is None else chunk[column][where(chunk)]
            count, total = count + values.size, total + int(values.sum())
        return count, total

    def items_csv(self, most: int | None = None) -> Iterator[bytes]:
        """`items` as CSV, at most so many rows, some at a time."""
        rows = self.rows if most is None else min(most, self.rows)
        for begin in range(0, rows, CHUNK):
            columns = self.items(begin, min(begin + CHUNK, rows))
            yield _csv(columns | {"filler": _filler(begin, len(columns["id"]))})

    def parts_csv(self) -> Iterator[bytes]:
        """`parts` as CSV, some rows at a time."""
        for begin in range(0, self.parts, CHUNK):
            ids = np.arange(begin, min(begin + CHUNK, self.parts))
            yield _csv({"id": ids, "item": ids * ITEMS_PER_PART, "weight": weight(ids)})


def weight(parts: Integers) -> Integers:
    """Of the parts with these ids."""
    return parts * 31 % 100


def _filler(begin: int, count: int) -> Any:
    import pyarrow as pa

    drawn = np.random.default_rng(begin).integers(0, 64, count * FILLER, dtype=np.uint8)
    ends = np.arange(count + 1, dtype=np.int32) * FILLER
    offsets: Any = ends
    letters: Any = LETTERS[drawn]
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(letters))


def _csv(columns: dict[str, Any]) -> bytes:
    import pyarrow as pa
    import pyarrow.csv

    sink = pa.BufferOutputStream()
    plain = pyarrow.csv.WriteOptions(include_header=False, quoting_style="none")
    pyarrow.csv.write_csv(pa.table(columns), sink, plain)
    return bytes(sink.getvalue())

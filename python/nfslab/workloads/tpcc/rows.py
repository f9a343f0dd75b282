"""The rows of the nine tables as they are loaded (clause 4.3.3.1), as CSV for COPY.

They follow from a seed, table and warehouse alone, so that any thread may make any part.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.csv

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.random import Generator
    from numpy.typing import NDArray

ITEMS: Final = 100_000
DISTRICTS: Final = 10
CUSTOMERS: Final = 3_000
"""Of a district, and its first orders."""
DELIVERED: Final = 2_100
"""Of a district's first orders."""
NAME_CONSTANT: Final = 157
"""C of NURand for last names as they are loaded; the run's is 66 more (clause 2.1.6.1)."""
SYLLABLES: Final = (
    "BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING",
)  # fmt: skip
LAST_NAMES: Final = [
    SYLLABLES[n // 100] + SYLLABLES[n // 10 % 10] + SYLLABLES[n % 10] for n in range(1000)
]
CHARACTERS: Final = np.frombuffer(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789", dtype=np.uint8
)
FORMAT: Final = pyarrow.csv.WriteOptions(include_header=False, quoting_style="none")
TABLES: Final = ("item", "warehouse", "district", "stock", "customer", "history", "orders",
                 "new_order", "order_line")  # fmt: skip
LOADED: Final = datetime(2000, 1, 1, tzinfo=UTC).isoformat(sep=" ")
"""When the first orders were made: the same in every load, as all else."""


def csv(table: str, warehouse: int, seed: int) -> bytes:
    """All rows of a warehouse in a table (of `item`, which belongs to none: all rows)."""
    if table in ("orders", "new_order", "order_line"):
        columns = dict(_orders(_rng(seed, "orders", warehouse), warehouse))[table]
    else:
        columns = _MADE[table](_rng(seed, table, warehouse), warehouse)
    names = [str(number) for number in range(len(columns))]
    sink = pa.BufferOutputStream()
    pyarrow.csv.write_csv(pa.table(columns, names=names), sink, FORMAT)
    return bytes(sink.getvalue())


def _rng(seed: int, table: str, warehouse: int) -> Generator:
    return np.random.default_rng([seed, TABLES.index(table), warehouse])


def nurand(
    rng: Generator, most_or: int, least: int, most: int, constant: int, count: int
) -> NDArray[np.int64]:
    """Not uniform: some come more often (clause 2.1.6)."""
    drawn = rng.integers(0, most_or + 1, count) | rng.integers(least, most + 1, count)
    return (drawn + constant) % (most - least + 1) + least


def strings(rng: Generator, count: int, least: int, most: int, digits: bool = False) -> Any:
    """Letters and digits, or digits alone; lengths are drawn evenly."""
    return _strings(_characters(rng, count, least, most, digits))


def _characters(
    rng: Generator, count: int, least: int, most: int, digits: bool
) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    offsets = np.zeros(count + 1, dtype=np.int32)
    np.cumsum(rng.integers(least, most + 1, count), out=offsets[1:])
    known = CHARACTERS[52:] if digits else CHARACTERS
    return offsets, known[rng.integers(0, len(known), offsets[-1], dtype=np.uint8)]


def _strings(made: tuple[NDArray[np.int32], NDArray[np.uint8]]) -> Any:
    offsets: Any
    data: Any
    offsets, data = made
    return pa.StringArray.from_buffers(len(offsets) - 1, pa.py_buffer(offsets), pa.py_buffer(data))


def _data(rng: Generator, count: int) -> Any:
    """26 to 50 characters; a tenth of them have ORIGINAL somewhere."""
    offsets, data = _characters(rng, count, 26, 50, False)
    marked = rng.permutation(count)[: count // 10]
    mark = np.frombuffer(b"ORIGINAL", dtype=np.uint8)
    room = offsets[marked + 1] - offsets[marked] - len(mark)
    places = offsets[marked] + rng.integers(0, room + 1)
    data[places[:, None] + np.arange(len(mark))] = mark
    return _strings((offsets, data))


def _same(value: Any, count: int) -> Any:
    return pa.repeat(value, count)


def _chosen(values: list[str], places: NDArray[np.int64], missing: Any = None) -> Any:
    """Of each place its value; null where it is missing."""
    where: Any = pa.array(places, mask=missing)
    return pa.array(values).take(where)


def _address(rng: Generator, count: int) -> list[Any]:
    """Streets, city, state, zip (clause 4.3.2.7)."""
    streets = [strings(rng, count, 10, 20) for _ in range(3)]
    state = CHARACTERS[rng.integers(0, 26, 2 * count, dtype=np.uint8)]
    zip_code = CHARACTERS[52:][rng.integers(0, 10, (count, 9), dtype=np.uint8)]
    zip_code[:, 4:] = ord("1")
    ends = np.arange(count + 1, dtype=np.int32)
    return [*streets, _strings((ends * 2, state)), _strings((ends * 9, zip_code.reshape(-1)))]


def _item(rng: Generator, _: int) -> list[Any]:
    return [
        np.arange(1, ITEMS + 1),
        rng.integers(1, 10_001, ITEMS),
        strings(rng, ITEMS, 14, 24),
        rng.integers(100, 10_001, ITEMS) / 100,
        _data(rng, ITEMS),
    ]


def _warehouse(rng: Generator, warehouse: int) -> list[Any]:
    return [
        [warehouse], strings(rng, 1, 6, 10), *_address(rng, 1),
        rng.integers(0, 2_001, 1) / 10_000, [300_000],
    ]  # fmt: skip


def _district(rng: Generator, warehouse: int) -> list[Any]:
    n = DISTRICTS
    return [
        np.arange(1, n + 1), _same(warehouse, n), strings(rng, n, 6, 10), *_address(rng, n),
        rng.integers(0, 2_001, n) / 10_000, _same(30_000, n), _same(CUSTOMERS + 1, n),
    ]  # fmt: skip


def _stock(rng: Generator, warehouse: int) -> list[Any]:
    n = ITEMS
    return [
        np.arange(1, n + 1), _same(warehouse, n), rng.integers(10, 101, n),
        *(strings(rng, n, 24, 24) for _ in range(DISTRICTS)),
        _same(0, n), _same(0, n), _same(0, n), _data(rng, n),
    ]  # fmt: skip


def _customer(rng: Generator, warehouse: int) -> list[Any]:
    n = DISTRICTS * CUSTOMERS
    number = np.tile(np.arange(CUSTOMERS), DISTRICTS)
    name = np.where(number < 1000, number, nurand(rng, 255, 0, 999, NAME_CONSTANT, n))
    bad = np.zeros(n, dtype=bool)
    bad[rng.permutation(n)[: n // 10]] = True
    return [
        number + 1, _districts(), _same(warehouse, n), strings(rng, n, 8, 16), _same("OE", n),
        _chosen(LAST_NAMES, name), *_address(rng, n), strings(rng, n, 16, 16, digits=True),
        _same(LOADED, n), _chosen(["GC", "BC"], bad.astype(np.int64)),
        _same(50_000, n), rng.integers(0, 5_001, n) / 10_000, _same(-10, n), _same(10, n),
        _same(1, n), _same(0, n), strings(rng, n, 300, 500),
    ]  # fmt: skip


def _history(rng: Generator, warehouse: int) -> list[Any]:
    n = DISTRICTS * CUSTOMERS
    number = np.tile(np.arange(1, CUSTOMERS + 1), DISTRICTS)
    return [
        number, _districts(), _same(warehouse, n), _districts(), _same(warehouse, n),
        _same(LOADED, n), _same(10, n), strings(rng, n, 12, 24),
    ]  # fmt: skip


def _districts() -> NDArray[np.int64]:
    return np.repeat(np.arange(1, DISTRICTS + 1), CUSTOMERS)


def _orders(rng: Generator, warehouse: int) -> Iterator[tuple[str, list[Any]]]:
    """Orders and their lines, which have to agree."""
    n = DISTRICTS * CUSTOMERS
    district, number = _districts(), np.tile(np.arange(1, CUSTOMERS + 1), DISTRICTS)
    customer = np.concatenate([rng.permutation(CUSTOMERS) + 1 for _ in range(DISTRICTS)])
    delivered = number <= DELIVERED
    lines = rng.integers(5, 16, n)
    carrier = pa.array(rng.integers(1, 11, n), mask=~delivered)
    yield "orders", [
        number, district, _same(warehouse, n), customer, _same(LOADED, n), carrier, lines,
        _same(1, n),
    ]  # fmt: skip
    open_ = np.flatnonzero(~delivered)
    yield "new_order", [number[open_], district[open_], _same(warehouse, len(open_))]
    of = np.repeat(np.arange(n), lines)
    total = len(of)
    first = np.cumsum(lines) - lines
    amount = np.where(delivered[of], 0, rng.integers(1, 1_000_000, total)) / 100
    yield "order_line", [
        number[of], district[of], _same(warehouse, total), np.arange(total) - first[of] + 1,
        rng.integers(1, ITEMS + 1, total), _same(warehouse, total),
        _chosen([LOADED], np.zeros(total, np.int64), ~delivered[of]),
        _same(5, total), amount, strings(rng, total, 24, 24),
    ]  # fmt: skip


_MADE: Final[dict[str, Callable[[Generator, int], list[Any]]]] = {
    "item": _item, "warehouse": _warehouse, "district": _district, "stock": _stock,
    "customer": _customer, "history": _history,
}  # fmt: skip

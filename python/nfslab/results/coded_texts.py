"""Columns of Arrow as arrays: what grouping and comparing millions of rows needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def coded_texts(column: Any) -> tuple[list[str], NDArray[np.int64]]:
    """Distinct texts of an Arrow column, and for every row the index of its text."""
    coded = column.combine_chunks().dictionary_encode()
    names = ["" if name is None else str(name) for name in coded.dictionary.to_pylist()]
    return names, np.asarray(coded.indices.to_numpy(zero_copy_only=False), dtype=np.int64)


def integers(column: Any, *, missing: int | None = None) -> NDArray[np.int64]:
    """A column as 64-bit integers; nulls become `missing`, without it there are none."""
    if missing is not None:
        column = column.fill_null(missing)
    return np.asarray(column.to_numpy(), dtype=np.int64)


def unsigned(column: Any) -> NDArray[np.uint64]:
    """A copy for numbers that may have their highest bit set (of files); nulls become 0."""
    return np.array(column.fill_null(0).to_numpy(), dtype=np.uint64)

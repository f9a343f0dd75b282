"""Columns of texts as numbers: what grouping and comparing millions of rows needs."""

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

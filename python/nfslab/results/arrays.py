"""Lists of Python as Arrow's arrays, without `pyarrow.array`.

That imports pandas, to look whether it was given something of it: a quarter of a second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


def plain_array(values: Sequence[Any], kind: pa.DataType | None = None) -> pa.Array[Any]:
    """`pyarrow.array(values, kind)`, and its errors.

    Without importing pandas where values are texts, yes and no, or whole numbers without a kind
    or of int64, or numbers of float64; some of them may be None.
    """
    kinds = set(map(type, values)) - {type(None)}
    if kinds == {str} and kind is None:
        return _texts(values)
    if kinds == {bool} and kind is None:
        return _fixed(pa.bool_(), values, np.packbits(_filled(values, bool), bitorder="little"))
    if kinds == {int} and kind in (None, pa.int64()):
        try:
            return _fixed(pa.int64(), values, _filled(values, np.int64))
        except OverflowError:
            pass  # pyarrow knows what to make of it
    if kinds == {float} and kind in (None, pa.float64()):
        return _fixed(pa.float64(), values, np.array(values, dtype=float))
    return pa.array(values, kind)


def _filled(values: Sequence[Any], kind: type) -> NDArray[Any]:
    return np.array([value or 0 for value in values], dtype=kind)


def _fixed(kind: pa.DataType, values: Sequence[Any], content: NDArray[Any]) -> pa.Array[Any]:
    buffers = [_validity(values), pa.py_buffer(content.data)]
    return pa.Array.from_buffers(kind, len(values), buffers)


def _texts(values: Sequence[str | None]) -> pa.Array[Any]:
    coded = [(value or "").encode() for value in values]
    ends = np.cumsum([0, *map(len, coded)])
    if ends[-1] >= 2**31:
        return pa.array(values)
    offsets, content = pa.py_buffer(ends.astype(np.int32).data), pa.py_buffer(b"".join(coded))
    return pa.StringArray.from_buffers(len(values), offsets, content, _validity(values))


def _validity(values: Sequence[Any]) -> pa.Buffer | None:
    """A bit for each that is not None; nothing where none is."""
    if None not in values:
        return None
    there = [value is not None for value in values]
    return pa.py_buffer(np.packbits(there, bitorder="little").data)

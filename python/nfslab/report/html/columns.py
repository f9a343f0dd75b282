"""Columns of whole numbers in a chunk: small, quick to read, exact where counts are meant.

A chunk is: u32 (little endian) length of its JSON header, the header, the columns. Columns
are stored byte plane by byte plane, which deflate packs about a third better than interleaved
bytes. Codings:

- `counts`: exact whole numbers in the narrowest of u8, u16, u32 (f64 above, exact to 2^53);
- `measured`: a four-thousandth of the range from 0 (or the smallest value below it) to the
  largest, which no screen resolves; missing values stay missing;
- `fine`: a part of 2^32 of the range, so that zooming far into time still tells points apart;
- `relative`: floats to 1 in 8,000 of each, for logarithmic axes;
- `exact`: floats as they are (8 bytes).
"""

from __future__ import annotations

import base64
import json
import struct
import zlib
from typing import TYPE_CHECKING, Any, Literal, TypedDict

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


MEASURED_STEPS = 4000
FINE_STEPS = 2**32 - 2
RELATIVE_BITS = 12
"""Of a float's mantissa that are kept; zeros behind them pack to nothing."""
DEFLATE_LEVEL = 6
Kind = Literal["u8", "u16", "u32", "f32", "f64"]
_LIMITS: tuple[tuple[Literal["u8", "u16", "u32"], int], ...] = (
    ("u8", 2**8 - 1),
    ("u16", 2**16 - 1),
    ("u32", 2**32 - 1),
)
_STORED = {"u8": "<u1", "u16": "<u2", "u32": "<u4", "f32": "<f4", "f64": "<f8"}
_EXACT_MAX = 2**53


class ColumnSpec(TypedDict):
    """A column of a chunk, stored byte plane by byte plane.

    value = base + step * w; with `gaps` the largest number of the kind means "missing".
    `f32` and `f64` columns are the values themselves.
    """

    kind: Kind
    offset: int
    n: int
    step: float
    base: float
    gaps: bool


class ChunkWriter:
    """Collects columns; `finish` gives the chunk's bytes before compression."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def counts(self, values: ArrayLike, *, unit: int = 1) -> ColumnSpec:
        """Whole numbers, not negative, exactly. Raises `ValueError` for anything else.

        The page shows them as multiples of `unit`.
        """
        numbers = np.asarray(values)
        if numbers.dtype.kind not in "iu" or (numbers.size and int(numbers.min()) < 0):
            raise ValueError("counts are whole numbers, not negative")
        most = int(numbers.max()) if numbers.size else 0
        for kind, limit in _LIMITS:
            if most < limit:  # the largest number of a kind means "missing"
                return self._add(numbers, kind, step=unit)
        if most * unit > _EXACT_MAX:
            raise ValueError(f"{most * unit} is beyond what a page can count exactly")
        return self._add(numbers, "f64", step=unit)

    def exact(self, values: ArrayLike) -> ColumnSpec:
        """Floats as they are; NaN is missing."""
        return self._add(np.asarray(values, dtype=np.float64), "f64")

    def fine(self, values: ArrayLike) -> ColumnSpec:
        """Floats to a part of 2^32 of their range; NaN and infinities are missing."""
        numbers = np.asarray(values, dtype=np.float64)
        known = np.isfinite(numbers)
        low, high = _range(numbers[known])
        step = (high - low) / FINE_STEPS or 1.0
        whole = np.rint((np.where(known, numbers, low) - low) / step).astype(np.uint32)
        whole[~known] = 2**32 - 1
        return self._add(whole, "u32", step=step, base=low, gaps=True)

    def relative(self, values: ArrayLike) -> ColumnSpec:
        """Floats to 1 in 8,000 of each; NaN and what no float of 4 bytes can hold is missing."""
        with np.errstate(over="ignore"):
            short = np.asarray(values, dtype=np.float64).astype(np.float32)
        short[~np.isfinite(short)] = np.nan
        cut = 23 - RELATIVE_BITS
        bits = (short.view(np.uint32) + np.uint32(1 << (cut - 1))) >> np.uint32(cut)
        rounded = (bits << np.uint32(cut)).view(np.float32)
        return self._add(np.where(np.isnan(short), short, rounded), "f32")

    def measured(self, values: ArrayLike) -> ColumnSpec:
        """Floats to a four-thousandth of their range; NaN and infinities are missing."""
        return self.measured_rows(np.asarray(values, dtype=np.float64).reshape(1, -1))[0]

    def measured_rows(self, rows: NDArray[np.float64]) -> list[ColumnSpec]:
        """`measured` for every row of a matrix, at the cost of about one."""
        known = np.isfinite(rows)
        filled = np.where(known, rows, 0.0)
        low = filled.min(axis=1, initial=0.0)
        span = filled.max(axis=1, initial=0.0) - low
        step = np.where(span > 0, span / MEASURED_STEPS, 1.0)
        whole = np.rint((filled - low[:, None]) / step[:, None]).astype(np.uint16)
        whole[~known] = 2**16 - 1
        return [
            self._add(row, "u16", step=s, base=b, gaps=True)
            for row, s, b in zip(whole, step.tolist(), low.tolist(), strict=True)
        ]

    def finish(self, header: Any) -> bytes:
        """The chunk: header and columns."""
        text = json.dumps(header, separators=(",", ":"), allow_nan=False).encode()
        return b"".join([struct.pack("<I", len(text)), text, *self._parts])

    def _add(
        self,
        values: NDArray[Any],
        kind: Kind,
        *,
        step: float = 1.0,
        base: float = 0.0,
        gaps: bool = False,
    ) -> ColumnSpec:
        stored = np.ascontiguousarray(values.ravel(), dtype=_STORED[kind])
        width = stored.dtype.itemsize
        planes = stored.view(np.uint8).reshape(-1, width).T.tobytes()
        spec: ColumnSpec = {
            "kind": kind,
            "offset": self._size,
            "n": int(values.size),
            "step": step,
            "base": base,
            "gaps": gaps,
        }
        self._parts.append(planes)
        self._size += len(planes)
        return spec


def json_number(value: Any) -> float | None:
    """A finite float, or None: JSON has no NaN and no infinity."""
    if value is None:
        return None
    number = float(value)
    return number if number - number == 0.0 else None


def _range(known: NDArray[np.float64]) -> tuple[float, float]:
    return (float(known.min()), float(known.max())) if known.size else (0.0, 0.0)


def pack(content: bytes) -> str:
    """Raw deflate, then base64: what a page inflates with DecompressionStream."""
    compressor = zlib.compressobj(DEFLATE_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    return base64.b64encode(compressor.compress(content) + compressor.flush()).decode("ascii")


def pack_json(payload: Any) -> str:
    """A payload of the page."""
    return pack(json.dumps(payload, separators=(",", ":"), allow_nan=False).encode())


def unpack(text: str) -> bytes:
    """The inverse of `pack`, for tests and for reading a report back."""
    return zlib.decompress(base64.b64decode(text), -zlib.MAX_WBITS)

"""XDR by hand (RFC 4506): big-endian words, opaques padded to four bytes."""

from __future__ import annotations

import struct
from collections.abc import Iterable


def u32(*values: int) -> bytes:
    return struct.pack(f">{len(values)}I", *values)


def u64(*values: int) -> bytes:
    return struct.pack(f">{len(values)}Q", *values)


def fixed(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


def opaque(data: bytes | str) -> bytes:
    raw = data.encode() if isinstance(data, str) else data
    return u32(len(raw)) + fixed(raw)


def array(items: Iterable[bytes]) -> bytes:
    """A counted array of encoded elements."""
    listed = list(items)
    return u32(len(listed)) + b"".join(listed)


def linked(items: Iterable[bytes]) -> bytes:
    """A linked list: each element behind TRUE, FALSE at the end."""
    return b"".join(u32(1) + item for item in items) + u32(0)


def bitmap(*bits: int) -> bytes:
    """`bitmap4` (RFC 8881 section 3.3.7) with these bits set."""
    words = [0] * (max(bits) // 32 + 1 if bits else 0)
    for bit in bits:
        words[bit // 32] |= 1 << (bit % 32)
    return u32(len(words), *words)

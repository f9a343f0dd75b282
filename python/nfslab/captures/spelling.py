"""Figures of captures as people read them: latencies, instants, sizes, operations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

ABSENT = "-"
_UNITS = ((1e9, "s"), (1e6, "ms"), (1e3, "us"))


def latency(latency_ns: float | None) -> str:
    """Three digits and a unit: 812 ns, 12.3 us, 1.00 ms."""
    if latency_ns is None:
        return ABSENT
    if latency_ns < 0:
        return f"-{latency(-latency_ns)}"
    for factor, unit in _UNITS:
        if latency_ns >= 0.9995 * factor:
            return f"{latency_ns / factor:#.3g}".rstrip(".") + f" {unit}"
    return f"{latency_ns:.0f} ns"


def size(size_bytes: int | None) -> str:
    """Bytes; nothing for none, so that a table's eye falls on what there is."""
    from nfslab.quantities import format_size

    if size_bytes is None:
        return ABSENT
    return format_size(size_bytes) if size_bytes else ""


def count(number: int | None) -> str:
    """A count with its thousands apart; nothing for none."""
    if number is None:
        return ABSENT
    return f"{number:,}" if number else ""


def instant(time_ns: int, first_ns: int | None) -> str:
    """Seconds since the capture's first frame: what Wireshark shows as its time."""
    return f"{(time_ns - (first_ns or 0)) / 1e9:.6f}"


def seconds(span_ns: float) -> str:
    """A span of time to the millisecond, or shorter where it is short."""
    return f"{span_ns / 1e9:.3f} s" if abs(span_ns) >= 1e7 else latency(span_ns)


def protocol(row: Mapping[str, Any]) -> str:
    """Such as NFSv3, MOUNTv3, program 300000 v1."""
    name, version = row.get("program_name"), row.get("version")
    if name is None:
        known = row.get("program")
        name = "other programs" if known is None else f"program {known}"
        return name if version is None else f"{name} v{version}"
    return f"{name}v{version}"


def operation(row: Mapping[str, Any]) -> str:
    """Such as NFSv3 READ."""
    return f"{protocol(row)} {row['operation']}"

"""Histogram from Python: against numpy on the raw values, and its bytes against the format.

The decoder below follows the V2 description of HdrHistogram's Java sources
(AbstractHistogram.encodeIntoByteBuffer and ZigZagLEB128) and shares nothing with the core.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nfslab._core import CoreError, Histogram

HOUR_NS = 3_600_000_000_000


def zigzag_numbers(payload: bytes) -> Iterator[int]:
    at = 0
    while at < len(payload):
        value = shift = 0
        while True:
            byte = payload[at]
            at += 1
            if shift == 56:
                value |= byte << 56
                break
            value |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                break
        yield (value >> 1) ^ -(value & 1)


def decode_v2(data: bytes) -> tuple[dict[str, float], dict[int, int]]:
    """(header, {slot: count}) of compressed V2 bytes."""
    cookie, length = struct.unpack(">II", data[:8])
    assert cookie == 0x1C849314
    assert len(data) == 8 + length
    plain = zlib.decompress(data[8:])
    fields = ("cookie", "length", "offset", "digits", "low", "high", "ratio")
    header = dict(zip(fields, struct.unpack(">IIIIQQd", plain[:40]), strict=True))
    assert header["cookie"] == 0x1C849313
    assert len(plain) == 40 + header["length"]
    counts, slot = {}, 0
    for number in zigzag_numbers(plain[40:]):
        if number < 0:
            slot += -number
        else:
            if number:
                counts[slot] = number
            slot += 1
    return header, counts


def lowest_value(slot: int) -> int:
    """Lowest value of a slot with 3 digits (2,048 sub-buckets) and unit 1."""
    bucket, sub = divmod(slot, 1024)
    return sub if bucket == 0 else (sub + 1024) << (bucket - 1)


def test_bytes_follow_the_format() -> None:
    values = [1, 2, 2, 1000, 2047, 2048, 5000, 123_456_789, HOUR_NS]
    histogram = Histogram()
    histogram.record_many(np.array(values, dtype=np.int64))
    header, counts = decode_v2(histogram.to_v2())
    assert (header["digits"], header["low"], header["high"]) == (3, 1, HOUR_NS)
    assert (header["offset"], header["ratio"]) == (0, 1.0)
    lows = {lowest_value(slot): count for slot, count in counts.items()}
    assert lows == {low: count for low, _, count in histogram.buckets()}
    for value in values:
        assert sum(c for low, high, c in histogram.buckets() if low <= value <= high) >= 1
    assert sum(counts.values()) == len(values)


@given(st.lists(st.integers(1, HOUR_NS), min_size=1, max_size=200), st.integers(1, 99))
def test_quantiles_are_those_of_the_sorted_values(values: list[int], percent: int) -> None:
    histogram = Histogram()
    histogram.record_many(np.array(values, dtype=np.int64))
    quantile = percent / 100
    exact = int(np.quantile(np.array(values), quantile, method="inverted_cdf"))
    found = histogram.quantile(quantile)
    assert found is not None
    assert exact <= found <= exact * 1.001 + 1
    assert histogram.quantile(0) == min(values)
    assert histogram.quantile(1) == max(values)


def test_a_histogram_from_bytes_is_not_exact() -> None:
    histogram = Histogram(2)
    histogram.record_many(np.array([10, 100_000], dtype=np.int64))
    back = Histogram.from_v2(histogram.to_v2())
    assert not back.exact
    assert back.significant_digits == 2
    assert back.buckets() == histogram.buckets()
    histogram.add(back)
    assert not histogram.exact


@pytest.mark.parametrize("wrong", [np.array([1.5]), np.array([1], dtype=np.int32), b"1234"])
def test_only_int64_buffers_are_taken(wrong: object) -> None:
    with pytest.raises(BufferError):
        Histogram().record_many(wrong)  # type: ignore[arg-type]


def test_strided_buffers_are_read_right() -> None:
    histogram = Histogram()
    histogram.record_many(np.arange(1, 11, dtype=np.int64)[::3])
    assert histogram.buckets() == [(n, n, 1) for n in (1, 4, 7, 10)]


def test_errors_say_what_to_do() -> None:
    for make in (
        lambda: Histogram(0),
        lambda: Histogram(6),
        lambda: Histogram().quantile(1.5),
        lambda: Histogram().add(Histogram(2)),
        lambda: Histogram.from_v2(b"no histogram"),
        lambda: Histogram.from_v2(Histogram().to_v2()[:-1]),
    ):
        with pytest.raises(CoreError) as caught:
            make()
        assert caught.value.kind == "histogram"
        assert caught.value.why
        assert caught.value.fix

"""Lists as Arrow's arrays: the truth is `pyarrow.array`; and what never imports pandas."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nfslab.results.arrays import plain_array

KINDS = (
    st.text(), st.booleans(), st.integers(), st.integers(-(2**63), 2**63 - 1), st.floats(),
    st.integers(2**62, 2**64),
)  # fmt: skip


def outcome(make: Any, values: list[Any], kind: pa.DataType | None) -> str:
    """An array's type and values, NaNs and signs of zeros included; or what went wrong."""
    try:
        array = make(values, kind)
    except (pa.ArrowException, OverflowError, UnicodeError) as error:
        return type(error).__name__
    array.validate(full=True)
    return f"{array.type} {array.null_count} {array.to_pylist()!r}"


@pytest.mark.parametrize("kind", [None, pa.float64(), pa.int64(), pa.string()])
@given(data=st.data())
def test_the_same_as_pyarrow(kind: pa.DataType | None, data: st.DataObject) -> None:
    one = data.draw(st.sampled_from(KINDS))
    values = data.draw(st.lists(st.one_of(one, st.none()) if data.draw(st.booleans()) else one))
    assert outcome(plain_array, values, kind) == outcome(pa.array, values, kind)

"""Tables of evidence: which are there, which columns come, what is refused and in which words."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nfslab._core import ShimRecords
from nfslab.errors import ResultsError
from nfslab.results import evidence_tables
from nfslab.results.arrays import plain_array
from nfslab.results.bounded_rows import BoundedRows, RowBound
from nfslab.results.core_tables import core_table
from nfslab.results.evidence_tables import evidence_path, has_evidence, read_evidence
from nfslab.results.records import SCHEMA_VERSION
from nfslab.results.upgrade import TABLE_VERSION_KEY


def write(run: Path, name: str, table: pa.Table) -> Path:
    path = evidence_path(run, name)
    path.parent.mkdir(exist_ok=True)
    pq.write_table(table, path)
    return path


CALLS = pa.table({"t_ns": [1, 2, 3], "xid": [7, 8, 9], "target": ["a", "a", "b"]})


def test_all_the_tables_that_are_asked_for_are_there_or_not(tmp_path: Path) -> None:
    assert not has_evidence(tmp_path, "calls")
    path = write(tmp_path, "calls", CALLS)
    assert path == tmp_path / "evidence" / "calls.parquet"
    assert has_evidence(tmp_path, "calls")
    assert not has_evidence(tmp_path, "calls", "others")


def test_the_columns_are_those_asked_for(tmp_path: Path) -> None:
    write(tmp_path, "calls", CALLS)
    assert read_evidence(tmp_path, "calls").equals(CALLS)
    assert read_evidence(tmp_path, "calls", ["xid"]).to_pydict() == {"xid": [7, 8, 9]}
    found = read_evidence(tmp_path, "calls", ["xid"], optional=["target", "file_id"])
    assert found.column_names == ["xid", "target"]


def test_a_column_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = write(tmp_path, "calls", CALLS)
    with pytest.raises(ResultsError) as caught:
        read_evidence(tmp_path, "calls", ["xid", "file_id", "count"])
    assert caught.value.what == f"{path} cannot be read"
    assert "file_id, count" in caught.value.why
    assert caught.value.fix


def test_more_rows_than_are_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "calls", CALLS)
    assert read_evidence(tmp_path, "calls", rows_max=3).num_rows == 3
    with pytest.raises(ResultsError, match=r"calls\.parquet .*3 .* 2") as caught:
        read_evidence(tmp_path, "calls", rows_max=2)
    assert "nfslab query" in caught.value.fix
    monkeypatch.setattr(evidence_tables, "ROWS_MAX", 2)
    with pytest.raises(ResultsError, match="more than the 2"):
        read_evidence(tmp_path, "calls")


def test_a_damaged_or_missing_file_is_said(tmp_path: Path) -> None:
    path = write(tmp_path, "calls", CALLS)
    whole = path.read_bytes()
    for content in (b"", b"PAR1 and nothing more", whole[:-20], whole[:40] + whole[80:]):
        path.write_bytes(content)
        with pytest.raises(ResultsError, match=r"calls\.parquet") as caught:
            read_evidence(tmp_path, "calls")
        assert caught.value.why
    path.unlink()
    with pytest.raises(ResultsError, match=r"calls\.parquet"):
        read_evidence(tmp_path, "calls")


def test_a_table_of_a_newer_nfslab_is_refused(tmp_path: Path) -> None:
    newer = {TABLE_VERSION_KEY: str(SCHEMA_VERSION + 1).encode()}
    write(tmp_path, "calls", CALLS.replace_schema_metadata(newer))
    with pytest.raises(ResultsError, match="written by a newer nfslab"):
        read_evidence(tmp_path, "calls")


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


def batch(*values: int) -> pa.Table:
    return pa.table({"n": pa.array(values, pa.int64())})


def test_the_first_rows_are_kept_and_the_others_counted() -> None:
    rows = BoundedRows(5)
    assert rows.table() is None
    assert [rows.keep(batch(*v))["n"].to_pylist() for v in ((1, 2, 3), (), (4, 5, 6, 7), (8,))] == [
        [1, 2, 3], [], [4, 5], [],
    ]  # fmt: skip
    table = rows.table()
    assert table is not None
    assert table["n"].to_pylist() == [1, 2, 3, 4, 5]
    assert (rows.rows, rows.left_out) == (5, 3)


def test_without_a_bound_nothing_is_left_out() -> None:
    bound = RowBound(None)
    assert bound.within(batch(1, 2, 3)).num_rows == 3
    assert (bound.rows, bound.left_out) == (3, 0)
    record_batch = batch(1, 2, 3).to_batches()[0]
    assert RowBound(2).within(record_batch).num_rows == 2


def test_a_batch_without_columns_is_no_row() -> None:
    rows = BoundedRows(5)
    rows.keep(pa.table({}))
    assert rows.table() is None
    assert (rows.rows, rows.left_out) == (0, 0)


ALONE = """
import sys
from nfslab._core import ShimRecords
from nfslab.results.core_tables import core_table
table = core_table(ShimRecords(sys.argv[1], "counts").take()["syncs"])
assert core_table(table).schema.field("call").type == "string"
print("pandas" in sys.modules)
"""


def test_texts_are_texts_and_numbers_stay_as_they_are(tmp_path: Path) -> None:
    columns = ShimRecords(tmp_path, "counts").take()["syncs"]
    coded, plain = pa.table(columns), core_table(columns)
    assert pa.types.is_dictionary(coded.schema.field("call").type)
    assert plain.schema.field("call").type == pa.string()
    assert plain.column_names == coded.column_names
    assert plain.schema.field("start_ns").type == coded.schema.field("start_ns").type
    assert core_table(coded).equals(plain)


@pytest.mark.system
def test_pandas_is_not_imported(tmp_path: Path) -> None:
    command = [sys.executable, "-c", ALONE, str(tmp_path)]
    said = subprocess.run(command, capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "False"

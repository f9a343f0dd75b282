"""Tables of evidence: which are there, which columns come, what is refused and in which words."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from nfslab.errors import ResultsError
from nfslab.results import evidence_tables
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

"""`--calls DIR/`: a file of calls for each capture, read back by pyarrow, DuckDB and Dask."""

from __future__ import annotations

import gzip
import json
import struct
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from tests.captures.test_part import HEADER_BYTES, records
from tests.cli.invocation import nfslab

HERE = Path(__file__).parent


@pytest.fixture
def captures(tmp_path: Path) -> list[Path]:
    """Three files: the first packets of a capture, none but the header, the others."""
    whole = gzip.decompress((HERE / "linux61_pgbench_v3.pcap.gz").read_bytes())
    packets = [record for _, record in records(whole)]
    paths = [tmp_path / name for name in ("b.pcap", "none.pcap", "a.pcap")]
    for path, some in zip(paths, (packets[:401], [], packets[401:]), strict=True):
        path.write_bytes(whole[:HEADER_BYTES] + b"".join(some))
    return paths


def test_a_file_for_each_capture_with_the_calls_that_begin_in_it(
    captures: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, single = tmp_path / "calls", tmp_path / "calls.parquet"
    assert nfslab(capsys, "trace", "--quick", "--calls", f"{folder}/", *captures).code == 0
    assert nfslab(capsys, "trace", "--quick", "--calls", single, *captures).code == 0
    parts = sorted(folder.iterdir())
    assert [part.name for part in parts] == [f"part-0000{n}.parquet" for n in range(3)]
    tables = [pq.read_table(part) for part in parts]
    right = pq.read_table(single)
    assert pa.concat_tables(tables).to_pylist() == right.to_pylist()
    frames = [table["frame_call"].to_pylist() for table in tables]
    assert max(frames[0]) <= 401 < min(frames[2])
    assert frames[1] == []
    of_each = [json.loads(pq.read_schema(part).metadata[b"nfslab.calls.sources"]) for part in parts]
    assert of_each == [[str(path)] for path in captures]
    # As others read a set of files.
    assert ds.dataset(folder).count_rows() == right.num_rows
    (rows,) = duckdb.sql(f"SELECT count(*) FROM '{folder}/*.parquet'").fetchall()[0]
    assert rows == right.num_rows


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # of dask's own calls of pandas
def test_dask_reads_the_folder_as_one_table(
    captures: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frames = pytest.importorskip("dask.dataframe", reason="no dask with pandas (pip, group checks)")
    folder, single = tmp_path / "calls", tmp_path / "calls.parquet"
    for calls in (f"{folder}/", single):
        assert nfslab(capsys, "trace", "--quick", "--calls", calls, *captures).code == 0
    found = frames.read_parquet(folder).groupby("operation")["file_id"].agg(["size", "sum"])
    told = found.compute(scheduler="synchronous")
    right = pq.read_table(single, columns=["operation", "file_id"]).to_pylist()
    for operation in {row["operation"] for row in right}:
        ids = [row["file_id"] for row in right if row["operation"] == operation]
        assert tuple(told.loc[operation]) == (len(ids), sum(one or 0 for one in ids)), operation
    assert told["size"].sum() == len(right)


def test_files_are_in_the_order_in_which_they_are_read(
    captures: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "calls"
    folder.mkdir()
    first, _, last = captures
    assert nfslab(capsys, "trace", "--calls", folder, last, first).code == 0
    metadata = pq.read_schema(folder / "part-00000.parquet").metadata
    assert json.loads(metadata[b"nfslab.calls.sources"]) == [str(first)]


def test_a_folder_with_something_in_it_is_refused_and_a_failure_leaves_none(
    captures: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = nfslab(capsys, "trace", "--calls", tmp_path, *captures)
    assert (said.code, "something in it" in said.err) == (2, True)
    before = sorted(tmp_path.iterdir())
    damaged = bytearray(captures[2].read_bytes())
    struct.pack_into("<I", damaged, 20, 0xFFFF)  # no link type
    captures[2].write_bytes(damaged)
    said = nfslab(capsys, "trace", "--calls", f"{tmp_path / 'calls'}/", *captures)
    assert said.code == 1
    assert sorted(tmp_path.iterdir()) == before

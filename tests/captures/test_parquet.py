"""The file of calls, read back by pyarrow, pandas and DuckDB."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from nfslab.captures.analysis import Asked, read_captures
from nfslab.captures.parquet import SCHEMA_VERSION, write_calls

HERE = Path(__file__).parent

CONTRACT = [
    "call_first_ns",
    "call_last_ns",
    "reply_first_ns",
    "reply_last_ns",
    "client",
    "server",
    "transport",
    "xid",
    "program",
    "version",
    "operation",
    "operations",
    "status",
    "sends",
    "replies",
    "user",
    "file_handle",
    "path",
    "offset",
    "count",
    "bytes",
    "frame_call",
    "frame_reply",
]


def texts(values: list[str | None]) -> pa.DictionaryArray:
    """Texts as the core gives them, with a dictionary of their own."""
    return pa.array(values, pa.string()).dictionary_encode()


def two_batches() -> pa.RecordBatchReader:
    """Batches whose dictionaries differ, with nulls, and numbers at the ends of their types."""
    batches = [
        pa.record_batch(
            {
                "call_first_ns": pa.array([5, 2**63 - 1, -1], pa.int64()),
                "reply_first_ns": pa.array([None, 7, None], pa.int64()),
                "path": texts(["/a", None, "/b"]),
                "offset": pa.array([2**64 - 1, None, 0], pa.uint64()),
                "xid": pa.array([2**32 - 1, 0, 1], pa.uint32()),
                "sends": pa.array([1, 65535, 2], pa.uint16()),
            }
        ),
        pa.record_batch(
            {
                "call_first_ns": pa.array([6], pa.int64()),
                "reply_first_ns": pa.array([8], pa.int64()),
                "path": texts(["/c"]),
                "offset": pa.array([None], pa.uint64()),
                "xid": pa.array([2], pa.uint32()),
                "sends": pa.array([1], pa.uint16()),
            }
        ),
    ]
    return pa.RecordBatchReader.from_batches(batches[0].schema, batches)


def test_every_value_comes_back(tmp_path: Path) -> None:
    file = tmp_path / "calls.parquet"
    assert write_calls(two_batches(), file, sources=["a.pcap", "b.pcap"]) == 4
    expected: list[dict[str, Any]] = [row for batch in two_batches() for row in batch.to_pylist()]
    assert pq.read_table(file).to_pylist() == expected
    query = duckdb.sql(f"SELECT * FROM '{file}'")
    rows = [dict(zip(query.columns, row, strict=True)) for row in query.fetchall()]
    assert rows == expected


def test_what_the_file_says_of_itself(tmp_path: Path) -> None:
    file = tmp_path / "calls.parquet"
    write_calls(two_batches(), file, sources=["a.pcap"])
    metadata = pq.read_schema(file).metadata
    assert metadata[b"nfslab.calls.schema_version"] == str(SCHEMA_VERSION).encode()
    assert json.loads(metadata[b"nfslab.calls.sources"]) == ["a.pcap"]
    assert metadata[b"nfslab.version"]
    groups = pq.ParquetFile(file).metadata
    assert groups.num_row_groups == 2
    times = groups.row_group(1).column(0)
    assert times.statistics.min == times.statistics.max == 6
    assert "DELTA_BINARY_PACKED" in times.encodings


def many_rows(seed: int, rows: int) -> pa.RecordBatch:
    """Columns of every kind in which rows are alike, repeat, count on or are random, with nulls."""
    rng = np.random.default_rng(seed)

    def some(values: list[Any], share: float) -> list[Any]:
        """Without so many of them, row by row or fifty at once."""
        length = 50 if rng.random() < 0.5 else 1
        without = np.repeat(rng.random(rows // length + 1) < share, length)
        return [None if gone else value for value, gone in zip(values, without, strict=False)]

    def random(most: int) -> list[int]:
        return [int(value) for value in rng.integers(0, most, rows, np.uint64, endpoint=True)]

    words = [f"/data/é{number}" for number in range(900)]
    paths = [words[at] for at in rng.integers(0, 900, rows)]
    return pa.record_batch(
        {
            "call_first_ns": pa.array(np.cumsum(rng.integers(0, 10**6, rows)) - 10**9, pa.int64()),
            "reply_first_ns": pa.array(some(random(2**63 - 1), 0.1), pa.int64()),
            "last_send_ns": pa.nulls(rows, pa.int64()),
            "xid": pa.array(random(2**32 - 1), pa.uint32()),
            "offset": pa.array(some(random(2**64 - 1), 0.5), pa.uint64()),
            "count": pa.array(some([value << 50 for value in random(40)], 0.3), pa.uint64()),
            "file_id": pa.array(some(random(2**64 - 1), 0.01), pa.uint64()),
            "sends": pa.array(np.ones(rows), pa.uint16()),
            "server_port": pa.array(random(2**16 - 1), pa.uint16()),
            "user": pa.nulls(rows, pa.uint32()),
            "path": texts(some(paths, 0.2)),
            "operation": texts(["READ"] * rows),
            "marks": texts([None] * rows),
        }
    )


@pytest.mark.parametrize("rows", [1, 63, 64, 65, 127, 128, 129, 1000, 20_001])
def test_every_kind_of_column_comes_back(tmp_path: Path, rows: int) -> None:
    file = tmp_path / "calls.parquet"
    batch = many_rows(rows, rows)
    stream = pa.RecordBatchReader.from_batches(batch.schema, [batch, batch.slice(rows // 3)])
    assert write_calls(stream, file) == rows + rows - rows // 3
    expected = pa.Table.from_batches([batch, batch.slice(rows // 3)]).to_pydict()
    found = pq.read_table(file).to_pydict()
    query = duckdb.sql(f"SELECT * FROM '{file}'").to_arrow_table().to_pydict()
    for name in batch.schema.names:
        assert found[name] == expected[name], name
        assert query[name] == expected[name], name


def test_a_query_for_a_stretch_of_time_may_skip_row_groups(tmp_path: Path) -> None:
    """Lowest, highest and nulls of each row group's times are those of its rows."""
    file = tmp_path / "calls.parquet"
    batches = [many_rows(seed, 500) for seed in range(3)]
    write_calls(pa.RecordBatchReader.from_batches(batches[0].schema, batches), file)
    metadata = pq.ParquetFile(file).metadata
    for group, batch in enumerate(batches):
        for column in range(3):
            said, rows = metadata.row_group(group).column(column).statistics, batch.column(column)
            assert said.null_count == rows.null_count
            ends = [row for row in rows.to_pylist() if row is not None]
            assert said.has_min_max == bool(ends)
            assert not ends or (said.min, said.max) == (min(ends), max(ends))


def test_a_file_without_calls_has_its_columns(tmp_path: Path) -> None:
    file = tmp_path / "calls.parquet"
    schema = two_batches().schema
    assert write_calls(pa.RecordBatchReader.from_batches(schema, []), file) == 0
    assert pq.read_table(file).schema.equals(schema)
    assert duckdb.sql(f"SELECT * FROM '{file}'").columns == schema.names


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The calls of a real capture."""
    file = tmp_path_factory.mktemp("calls") / "calls.parquet"
    read_captures([HERE / "v3_tcp_q1.pcap.gz"], Asked(calls=file))
    return file


def test_columns_of_a_real_capture(calls: Path) -> None:
    names = pq.read_schema(calls).names
    assert names[: len(CONTRACT)] == CONTRACT
    text = pq.read_schema(calls).field("operation").type
    assert text == pa.dictionary(pa.int32(), pa.string())


def test_rows_of_a_real_capture_are_those_of_its_client(calls: Path) -> None:
    """The client wrote down each call: xid, procedure, port, sends, replies, seconds."""
    own = pd.read_csv(HERE / "v3_tcp_q1.client.csv", keep_default_na=False)  # NULL is a name
    found = duckdb.sql(
        f"SELECT xid, operation, client_port, sends, replies, call_first_ns, reply_first_ns "
        f"FROM '{calls}' WHERE program = 'NFS' ORDER BY call_first_ns"
    ).df()
    both = own.merge(found, on="xid", how="left")
    assert both["operation"].notna().all()
    assert (both["operation"] == both["proc"]).all()
    assert (both["client_port_x"] == both["client_port_y"]).all()
    assert (both["sends"] == both["n_sends"]).all()
    assert (both["replies"] == both["n_replies"]).all()
    # Its clock is read before the packet is sent and after the reply came.
    sent = both["call_first_ns"].to_numpy() / 1e9 - both["t_first_send"].to_numpy()
    assert np.abs(sent).max() < 0.05


def test_pandas_reads_texts_as_categories(calls: Path) -> None:
    frame = pd.read_parquet(calls)
    assert isinstance(frame["operation"].dtype, pd.CategoricalDtype)
    assert (frame["reply_first_ns"] - frame["call_first_ns"]).dropna().min() >= 0

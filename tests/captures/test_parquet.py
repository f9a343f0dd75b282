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

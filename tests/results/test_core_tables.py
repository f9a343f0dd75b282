"""Columns of the core as tables: their texts, and what reading them does not load."""

from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
import pytest
from nfslab._core import StraceReader
from nfslab.results.core_tables import core_table

TEXT = b"1 1.0 fsync(3</db/x-wal>) = 0 <0.1>\n1 2.0 fdatasync(3</db/x-wal>) = 0 <0.2>\n"

ALONE = f"""
import sys
from nfslab._core import StraceReader
from nfslab.results.core_tables import core_table
reader = StraceReader("counts")
reader.feed({TEXT!r})
reader.end()
table = core_table(reader.take()["syncs"])
assert table["call"].to_pylist() == ["fsync", "fdatasync"]
assert core_table(table.slice(0, 1)).num_rows == 1
print("pandas" in sys.modules)
"""


def test_texts_are_texts_and_numbers_stay_as_they_are() -> None:
    reader = StraceReader("counts")
    reader.feed(TEXT)
    reader.end()
    columns = reader.take()["syncs"]
    coded, plain = pa.table(columns), core_table(columns)
    assert pa.types.is_dictionary(coded.schema.field("call").type)
    assert plain.schema.field("call").type == pa.string()
    assert plain.column_names == coded.column_names
    assert plain.to_pylist() == coded.to_pylist()
    assert core_table(coded).equals(plain)


@pytest.mark.system
def test_pandas_is_not_imported() -> None:
    said = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "False"

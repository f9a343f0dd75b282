"""The benchmark of the file workload beside fio."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.benches.small_run import small, table_rows

pytestmark = pytest.mark.long


def test_a_whole_table(tmp_path: Path) -> None:
    if shutil.which("fio") is None:
        pytest.skip("fio is not installed")
    printed = small("files_vs_fio", "--directory", tmp_path)
    rows = table_rows(printed)
    assert len(rows) == 2 + 6
    assert {len(row) for row in rows} == {8}
    assert "fio-" in printed
    assert list(tmp_path.iterdir()) == []

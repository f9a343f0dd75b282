"""The benchmark of the web load generator."""

from __future__ import annotations

import shutil

import pytest

from tests.benches.small_run import by_first_cell, small

pytestmark = pytest.mark.long


def test_all_parts_have_figures() -> None:
    printed = small("web_load")
    rows = by_first_cell(printed)
    for client in ("nfslab", "nfslab, no byte compared", "nfslab, all bytes compared"):
        assert float(rows[client][1]) > 0
    for peer in ("wrk", "oha"):
        if shutil.which(peer):
            assert float(rows[peer][1]) > 0
        else:
            assert f"{peer} is not installed" in printed
    assert "load average" in printed
    assert float(rows["500"][4]) > 0
    assert float(rows["50"][1]) > 0
    assert rows["10"][0] == "10", "a fifth of what the limit allows conforms"

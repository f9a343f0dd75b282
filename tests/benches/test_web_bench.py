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
    # A fifth of what the limit allows conforms, but where somebody stands still for 0.4 s of the
    # 2 s; what conforms follows from the rates in any case.
    conforming, slowest, fastest = (int(cell.replace(",", "")) for cell in rows["10"][:3])
    assert 0 <= slowest <= fastest
    assert 0 <= conforming <= 10
    assert (conforming == 10) == (slowest >= 320_000)
    assert (conforming == 0) == (fastest < 320_000)

"""The benchmark of the workload `tpcc`, alone and beside go-tpc."""

from __future__ import annotations

import shutil

import pytest

from tests.benches.small_run import by_first_cell, postgres, small

pytestmark = [pytest.mark.long, postgres]
ONE_CORE = "nfslab, client and server on one core"


def test_our_half_alone() -> None:
    printed = small("tpcc", "--go-tpc", "")
    rows = by_first_cell(printed)
    # "nfslab" heads a row of either table; the last one stays.
    assert {"nfslab", ONE_CORE} < rows.keys()
    assert "go-tpc" not in rows
    assert rows["nfslab's tables, loaded"] == ["12 hold", "-"]
    assert rows["nfslab's tables, after running"] == ["11 hold", "-"]


def test_beside_go_tpc() -> None:
    if shutil.which("go-tpc") is None:
        pytest.skip("go-tpc is not in PATH: benches/tpcc.py says how to install it")
    rows = by_first_cell(small("tpcc"))
    assert all(
        float(rows[name][0].split()[0].replace(",", "")) > 0 for name in ("nfslab", "go-tpc")
    )
    for name in ("nfslab", "go-tpc"):
        assert rows[f"{name}'s tables, loaded"] == ["12 hold", "12 hold"]
        assert rows[f"{name}'s tables, after running"] == ["11 hold", "11 hold"]

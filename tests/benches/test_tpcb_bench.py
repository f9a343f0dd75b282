"""The benchmark of tpcb's client beside pgbench."""

from __future__ import annotations

import pytest
from nfslab.workloads.sysbench import client

from tests.benches.small_run import by_first_cell, postgres, small

pytestmark = [pytest.mark.long, postgres]


def test_both_clients_have_their_row() -> None:
    if not (answer := client.available("pgsql")).ok:
        pytest.skip(answer.reason)
    rows = by_first_cell(small("tpcb_clients"))
    for name in ("pgbench", "tpcb", "tpcb / pgbench"):
        assert all(float(cell) > 0 for cell in rows[name])

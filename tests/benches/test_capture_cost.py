"""The benchmark of the collector `capture`."""

from __future__ import annotations

import os
import shutil

import pytest
from nfslab.captures import tool as tools

from tests.benches.small_run import small, table_rows

pytestmark = pytest.mark.long


def test_every_call_is_decoded() -> None:
    answer = tools.available("auto")
    if not answer.ok:
        pytest.skip(f"{answer.reason}: {answer.fix}")
    if shutil.which("cargo") is None:
        pytest.skip("cargo is not installed: the load cannot be built")
    printed = small("capture_cost", "--transport", "tcp", "--transport", "udp")
    mounts = os.geteuid() == 0 and os.path.exists("/dev/fuse")
    assert ("tcp mount: skipped" in printed) is not mounts
    rows = table_rows(printed)
    # Over UDP there is no mount.
    assert len(rows) == 2 + 2 * (2 + mounts + 2)
    assert {len(row) for row in rows} == {9}
    for cells in rows[3::2]:
        assert cells[0].endswith(", captured")
        decoded, _, calls = cells[6].partition(" of ")
        # Every call from the first to the last, over both transports; a mount asks for attributes.
        assert calls == "2,000"
        if "mount" in cells[0]:
            assert 2000 <= int(decoded.replace(",", "")) < 2100
        else:
            assert decoded == calls
        assert cells[7] == "0"

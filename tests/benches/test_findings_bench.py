"""The benchmark of findings: its table, its matrix, its sentences."""

from __future__ import annotations

import pytest

from tests.benches.small_run import small
from tests.machine import needs

pytestmark = pytest.mark.long


@needs.fuse
def test_findings() -> None:
    said = small("findings", "--seed", 1)
    situations, matrix = said.split("\n| planted |", 1)
    assert len(situations.split("|---|---|---|---|---|---:|---:|---|")[1].strip().splitlines()) == 2
    assert "server_cpu" in matrix
    assert "Nothing planted: " in matrix

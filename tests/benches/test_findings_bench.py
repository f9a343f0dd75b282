"""The benchmark of findings: its table, its matrix, its sentences."""

from __future__ import annotations

import pytest
from nfslab.findings.registry import FINDINGS

from tests.benches.small_run import program, small
from tests.machine import needs


def test_every_cause_is_planted_or_it_is_said_why_not() -> None:
    lines = [line.split(": ", 1) for line in program("findings", "--list").splitlines()]
    said = [name.removeprefix("not here, ") for name, _ in lines if name.startswith("not here")]
    planted = [one for name, causes in lines for one in causes.split(", ") if name not in said
               and not name.startswith("not here")]  # fmt: skip
    assert {*planted, *said} == {*FINDINGS}
    assert not {*planted} & {*said}
    assert all(planted.count(cause) >= 2 for cause in planted), "at two sizes"


@pytest.mark.long
@needs.fuse
def test_findings() -> None:
    said = small("findings", "--seed", 1)
    situations, matrix = said.split("\n| planted |", 1)
    assert len(situations.split("|---|---|---|---|---|---:|---:|---|")[1].strip().splitlines()) == 2
    assert "server_cpu" in matrix
    assert "Nothing planted: " in matrix

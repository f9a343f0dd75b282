"""Running a benchmark small, as all tests of benchmarks do: does it still work, is its table whole?

No figure is judged: machines that test are busy.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from nfslab.machine.users import unprivileged_user
from nfslab.workloads.pgbench.workload import PgbenchWorkload

BENCHES = Path(__file__).resolve().parents[2] / "benches"
PATIENCE_S = 850
"""Below the time limit of a test, so that what it said so far is seen."""

_postgres = PgbenchWorkload.available()
postgres = pytest.mark.skipif(
    unprivileged_user() is None or not _postgres.ok,
    reason=_postgres.reason or "PostgreSQL needs a user besides root",
)


def small(name: str, *arguments: object) -> str:
    """What `benches/NAME.py --small ARGUMENTS` printed; it has to succeed."""
    return program(name, "--small", *arguments)


def program(name: str, *arguments: object) -> str:
    """What `benches/NAME.py ARGUMENTS` printed; it has to succeed."""
    done = subprocess.run(
        [sys.executable, BENCHES / f"{name}.py", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def table_rows(printed: str) -> list[list[str]]:
    """The cells of every row of its tables, headings and rules among them."""
    lines = [line for line in printed.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def by_first_cell(printed: str) -> dict[str, list[str]]:
    """First cell of each row -> the others."""
    return {first: rest for first, *rest in table_rows(printed)}

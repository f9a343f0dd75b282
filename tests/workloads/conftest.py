"""Shared by the tests of workloads: one scratch folder, so that databases are loaded once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.workloads.run_context import scratch_folder


@pytest.fixture(scope="session")
def scratch() -> Iterator[Path]:
    with scratch_folder() as root:
        yield root

"""What the targets' tests share."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from nfslab.machine.resources import Resources


@pytest.fixture
def resources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Resources]:
    """A run's resources in a state folder of this test."""
    monkeypatch.setenv("NFSLAB_STATE", str(tmp_path / "state"))
    with Resources("a test") as made:
        yield made


@pytest.fixture
def scratch() -> Iterator[Path]:
    """A folder that every user can enter (pytest's own are private to their owner)."""
    folder = Path(tempfile.mkdtemp(prefix="nfslab-test-", dir="/var/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)

"""For all tests of commands."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def no_lines_of_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """A simulated clock runs away while the core reads a capture: how far it is, is not told."""
    monkeypatch.setattr("nfslab.cli.trace.LINE_EVERY_S", None)

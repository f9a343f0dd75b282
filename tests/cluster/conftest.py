"""For all tests of clusters: nobody is lost who is only slow."""

from __future__ import annotations

import pytest

from tests.cluster.clusters import patient


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    patient(monkeypatch)

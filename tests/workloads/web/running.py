"""A run of the workload `web` for tests."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest
from nfslab.results.records import CheckRecord
from nfslab.workloads.base import Outcome
from nfslab.workloads.web.parameters import WebParameters
from nfslab.workloads.web.workload import WebWorkload

from tests.workloads.run_context import Run, run_of

SHORT = {"data": "disk", "directories": 2, "warm_up": "0.1s", "duration": "1s", "connections": 4}
WINDOW_S = 1


def workload(**values: Any) -> WebWorkload:
    return WebWorkload(WebParameters(**(SHORT | values)))


def run_web(scratch: Path, **values: Any) -> tuple[Outcome, dict[str, CheckRecord], Run]:
    """The whole way; skips where the server is not installed."""
    work = workload(**values)
    if not (usable := work.check()).ok:
        pytest.skip(usable.reason)
    name = f"web-{uuid.uuid4().hex[:8]}"
    with run_of(work, scratch, name=name, places={"data": scratch / f"{name}-data"}) as run:
        work.prepare(run.context)
        outcome = work.measure(run.context)
        outcome.checks += work.verify(run.context, outcome)
        return outcome, {check.name: check for check in outcome.checks}, run

"""Fakes in the registries, state and results in folders of the test's own."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from nfslab import clock
from nfslab.cluster.base import Member
from nfslab.evidence.registry import COLLECTORS
from nfslab.experiment import provenance, stop
from nfslab.machine import load, processes
from nfslab.targets.registry import TARGETS
from nfslab.workloads.registry import WORKLOADS

from tests.experiment import fakes
from tests.experiment.agents_in_memory import HostsInMemory, install
from tests.experiment.one_at_a_time import OneAtATime
from tests.lanes import lane_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

FILE = """\
[experiment]
name = "test"
repetitions = 3
seed = 7
collectors = ["watcher"]

[limits]
drop_page_cache = false

[targets.one]
kind = "folder"
path = "{folder}"

[targets.two]
kind = "folder"
path = "{folder}"

[workload]
kind = "formula"
data = "one"

[[axes]]
parameter = "workload.data"
values = ["one", "two"]

[[axes]]
parameter = "workload.clients"
values = [1, 2, 4]
"""


@pytest.fixture(autouse=True)
def _fakes(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[None]:
    """The fakes are registered during a test and forgotten after it."""
    registries = (COLLECTORS, TARGETS, WORKLOADS)
    before = [dict(registry) for registry in registries]
    fakes.register()
    for seen in (fakes.EVENTS, fakes.MET, fakes.SERVERS_DIE):
        seen.clear()
    monkeypatch.setenv("NFSLAB_STATE", str(tmp_path / "state"))
    # The real one watches the machine for a while before each run.
    monkeypatch.setattr(provenance, "provenance", lambda *_asked: {"planted": True})
    monkeypatch.setattr(provenance, "_told_commit", ("0" * 40, ""))
    if lane_of(request.node) == "unit":
        # It has no processes, and what others run here is nothing to it.
        monkeypatch.setattr(processes, "all_statuses", list)
        monkeypatch.setattr(load, "all_statuses", list)
    monkeypatch.setattr(Member, "patience", fakes.UNHURRIED)
    yield
    for registry, content in zip(registries, before, strict=True):
        registry.clear()
        registry.update(content)


REAL_PROVENANCE = provenance.provenance


@pytest.fixture
def real_provenance(_fakes: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine is looked at before each run, as outside of tests."""
    monkeypatch.setattr(provenance, "provenance", REAL_PROVENANCE)


@pytest.fixture
def hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HostsInMemory]:
    """Client hosts and a server's host in memory; the test's thread is the prime."""
    one_at_a_time = OneAtATime()
    with clock.replaced(one_at_a_time), one_at_a_time.running(monkeypatch):
        yield install(monkeypatch, one_at_a_time, tmp_path / "agents")


@pytest.fixture
def leap(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Lets so many seconds of limits go by at once: what a run takes here is no matter then."""
    leaps: list[float] = []
    leapt = SimpleNamespace(monotonic=lambda: clock.monotonic() + sum(leaps), sleep=clock.sleep)
    monkeypatch.setattr(stop, "clock", leapt)
    return leaps.append


@pytest.fixture
def experiment_file(tmp_path: Path) -> Callable[..., Path]:
    """Write an experiment file: the usual one with texts replaced, or a text of its own."""

    def write(*replacements: tuple[str, str], text: str = FILE, name: str = "test.toml") -> Path:
        folder = tmp_path / "places"
        folder.mkdir(exist_ok=True)
        content = text.replace("{folder}", str(folder))
        for old, new in replacements:
            assert old in content, f"{old!r} is not in the file"
            content = content.replace(old, new)
        path = tmp_path / name
        path.write_text(content, encoding="utf-8")
        return path

    return write

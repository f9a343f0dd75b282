"""For all tests: signals as a shell's user has them, a run's resources, a place to build in."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import hypothesis
import pytest
from nfslab.machine.resources import Resources

from tests.disk import DISK
from tests.lanes import lane_of, unit_lane
from tests.report.browser import end_browser
from tests.simulated_clock import SimulatedClock
from tests.syncs import nobody_waits
from tests.targets.nfs_share import MakeNfs


def pytest_configure() -> None:
    """Ctrl-C is not ignored, nor by the programs that tests start and interrupt.

    Whoever starts the tests in the background (`./test &` in a script) has SIGINT ignored by the
    shell (POSIX 2.11), and programs inherit that: those that tests send it would never end.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # No example has a time limit of its own: what else the machine does is not what is tested.
    # Examples are the same each time: a test that fails says something of what was changed.
    hypothesis.settings.register_profile("nfslab", deadline=None, derandomize=True, max_examples=40)
    hypothesis.settings.load_profile("nfslab")
    # Experiments of tests run side by side, and beside a person's.
    os.environ["NFSLAB_TURN"] = ""
    # Commands are printed as `nfslab`, however these tests were started.
    os.environ.pop("NFSLAB_CALLED", None)
    # Processes that test side by side have journals of their own.
    if worker := os.environ.get("PYTEST_XDIST_WORKER"):
        state = Path(os.environ.get("NFSLAB_STATE", tempfile.gettempdir())) / worker
        os.environ["NFSLAB_STATE"] = str(state)


def pytest_unconfigure() -> None:
    """The browser that tests shared ends with them."""
    end_browser()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Long tests are asked for."""
    parser.addoption("--long", action="store_true", help="also run what takes minutes")
    parser.addoption("--renew-snapshots", action="store_true", help="write outputs anew")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without --long, long tests are skipped and say so."""
    if config.getoption("--long"):
        return
    skip = pytest.mark.skip(reason="takes minutes: ./test --long")
    for item in items:
        if item.get_closest_marker("long"):
            item.add_marker(skip)


@pytest.fixture(autouse=True)
def simulated_clock(request: pytest.FixtureRequest) -> Iterator[SimulatedClock | None]:
    """The clock of a unit test; None in the other lanes, which have the real one."""
    if lane_of(request.node) != "unit":
        yield None
        return
    with unit_lane(request.module) as simulated:
        yield simulated


@pytest.fixture(scope="session", autouse=True)
def _nobody_waits() -> Iterator[None]:
    """For the disk: see `tests.syncs`."""
    with nobody_waits():
        yield


@pytest.fixture
def snapshot(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str, str], None]:
    """Whether a text is the file of this name in `snapshots` beside the test, line by line.

    After a change that is meant: pytest --renew-snapshots, and read the difference before it is
    committed."""
    folder = request.path.parent / "snapshots"
    monkeypatch.setenv("COLUMNS", "80")

    def same(name: str, text: str) -> None:
        path = folder / name
        if request.config.getoption("--renew-snapshots"):
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, "utf-8")
        assert text.splitlines() == path.read_text("utf-8").splitlines(), f"another {name}"

    return same


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Journals of this test alone."""
    folder = tmp_path / "state"
    monkeypatch.setenv("NFSLAB_STATE", str(folder))
    return folder


@pytest.fixture
def resources(state: Path) -> Iterator[Resources]:
    """A run's resources; whatever a test leaves open is undone."""
    with Resources("a test") as made:
        yield made


@pytest.fixture
def scratch() -> Iterator[Path]:
    """A folder that every user can enter (pytest's own are private to their owner)."""
    folder = Path(tempfile.mkdtemp(prefix="nfslab-test-", dir=DISK))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def nfs_target(scratch: Path) -> MakeNfs:
    """Makes a target `nfs` named "share" in the scratch folder; skips where FUSE is missing."""
    from nfslab.targets.nfs import NfsTarget

    usable = NfsTarget.available()
    if not usable.ok:
        pytest.skip(usable.reason)

    def made(**parameters: object) -> NfsTarget:
        return NfsTarget("share", NfsTarget.Parameters(directory=str(scratch), **parameters))

    return made

"""The lanes keep their rules: a planted offence against each of them is seen."""

from __future__ import annotations

import ast
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from nfslab import _core, clock

from tests.lanes import unit_lane

TIME = sys.modules["time"]
TESTS = Path(__file__).resolve().parents[1]
CLOCKS = {"monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "time", "time_ns"}
PATIENCE = re.compile(r"\bPATIEN(CE|T)\w*|OF_A_BUSY_MACHINE")
PRODUCT_CLOCK = re.compile(r"\btime\.(monotonic|time|sleep|perf_counter|thread_time|process_time)")


def offence(what: Callable[[], object]) -> str:
    """Returns what the lane says of a unit test that does this."""
    with (
        pytest.raises(pytest.fail.Exception) as refused,
        unit_lane(SimpleNamespace()),
    ):
        what()
    return str(refused.value)


def bind() -> None:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))


@pytest.mark.system
@pytest.mark.parametrize(
    ("what", "said"),
    [
        (lambda: subprocess.run(["true"], check=True), "starts a child"),
        (lambda: os.posix_spawn("/bin/true", ["true"], {}), "starts a child"),
        (lambda: TIME.sleep(0), "sleeps"),
        (bind, "opens a socket"),
        (lambda: _core.Server("{}"), "calls Server"),
    ],
)
def test_a_unit_test_that_breaks_its_lane_fails(what: Callable[[], object], said: str) -> None:
    assert said in offence(what)


@pytest.mark.system
def test_a_refusal_that_is_swallowed_fails_the_test_all_the_same() -> None:
    def swallow() -> None:
        try:
            TIME.sleep(0)
        except BaseException:
            return

    with pytest.raises(AssertionError, match="and went on"), unit_lane(SimpleNamespace()):
        swallow()


@pytest.mark.system
def test_a_unit_test_may_not_import_time() -> None:
    refused = pytest.raises(pytest.fail.Exception, match="imports `time`")
    with refused, unit_lane(SimpleNamespace(time=TIME)):
        pass


def test_the_clock_of_a_unit_test_is_a_simulated_one() -> None:
    before = clock.monotonic()
    clock.sleep(3600)
    assert 3600 <= clock.monotonic() - before < 3601


def reads_clock(node: ast.AST, known: set[str]) -> bool:
    """Whether an expression has a clock's reading in it."""
    return any(
        (isinstance(one, ast.Attribute) and one.attr in CLOCKS and isinstance(one.ctx, ast.Load))
        or (isinstance(one, ast.Name) and one.id in known)
        for one in ast.walk(node)
    )


def bounds_on_time(source: str) -> list[int]:
    """Returns the lines of a test file that bound a time from above, or wait until a limit."""
    found = []
    for function in ast.walk(ast.parse(source)):
        if not isinstance(function, ast.FunctionDef):
            continue
        known: set[str] = set()
        for node in ast.walk(function):
            if isinstance(node, ast.Assign) and reads_clock(node.value, known):
                known |= {one.id for one in node.targets if isinstance(one, ast.Name)}
        for node in ast.walk(function):
            if isinstance(node, ast.Assert | ast.While) and isinstance(node.test, ast.Compare):
                sides = [node.test.left, *node.test.comparators]
                for left, operator, right in zip(sides, node.test.ops, sides[1:], strict=False):
                    small = left if isinstance(operator, ast.Lt | ast.LtE) else right
                    ordered = isinstance(operator, ast.Lt | ast.LtE | ast.Gt | ast.GtE)
                    if ordered and reads_clock(small, known):
                        found.append(node.lineno)
    return found


def test_no_test_has_an_upper_bound_on_time() -> None:
    offences = {
        f"{path.relative_to(TESTS)}:{line}"
        for path in TESTS.rglob("*.py")
        if path != Path(__file__) and "simulated_clock" not in path.name
        if re.search(r"monotonic|perf_counter|time\.time", source := path.read_text())
        for line in bounds_on_time(source)
    }
    assert offences == set(), "wait with tests.waiting.until, and assert counts"


def test_the_rule_of_time_finds_its_offences() -> None:
    planted = """
def test_planted():
    began = time.monotonic()
    assert time.monotonic() - began < 5
    limit = began + 60
    while time.monotonic() < limit:
        pass
    assert limit > 3
    assert 60 > time.perf_counter()
"""
    assert bounds_on_time(planted) == [4, 6, 9]


def test_no_test_has_patience_of_its_own() -> None:
    offences = {
        f"{path.relative_to(TESTS)}:{number}"
        for path in TESTS.rglob("*.py")
        if path != Path(__file__)
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if PATIENCE.search(line)
    }
    assert offences == set()


def test_the_product_reads_clocks_through_its_seam_alone() -> None:
    package = TESTS.parent / "python" / "nfslab"
    offences = {
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        if path.name != "clock.py" and PRODUCT_CLOCK.search(path.read_text())
    }
    assert offences == set()


RUST_TIME = re.compile(r"elapsed\(\) *<|PATIENCE")
RUST_WORLD = re.compile(
    r"TcpListener|UdpSocket|UnixListener|Command::new|thread::sleep|Instant::now|SystemTime::now"
)


def test_rust_tests_keep_their_lanes() -> None:
    """Targets `unit` start nothing and wait for nothing; no Rust test bounds a time from above."""
    crates = TESTS.parent / "crates"
    targets = {
        path.relative_to(path.parents[1]).parts[1].removesuffix(".rs")
        for path in crates.glob("*/tests/*")
        if path.suffix == ".rs" or path.is_dir()
    }
    assert {name for name in targets if "_" not in name} - {"data", "programs"} == {
        "unit",
        "system",
        "fuzz",
    }
    sources = [path for path in crates.rglob("*.rs") if "tests" in path.parts]
    assert len(sources) > 90
    for path in sources:
        source, parts = path.read_text(), path.relative_to(crates).parts
        assert not RUST_TIME.search(source), path
        if parts[1] == "tests" and parts[2].startswith("unit"):
            assert not RUST_WORLD.search(source), path

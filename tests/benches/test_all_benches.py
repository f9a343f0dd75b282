"""No benchmark is forgotten: each is run small by a test, and by `benches/run`."""

from __future__ import annotations

import re
from pathlib import Path

from tests.benches.small_run import BENCHES

PROGRAMS = {
    path.stem for path in BENCHES.glob("*.py") if '__name__ == "__main__"' in path.read_text()
}
TOOLS = {
    "capture_generator": "captures",
    "cluster_here": "cluster_runs",
    "mount_load": "capture_cost",
}
"""What a benchmark uses, and which one: it measures nothing by itself."""


def test_each_is_run_small_by_a_test() -> None:
    tests = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    named = set(re.findall(r"\b(?:small|program)\(\s*\"(\w+)\"", tests))
    assert named - TOOLS.keys() == PROGRAMS - TOOLS.keys()
    for tool, user in TOOLS.items():
        assert tool in (BENCHES / f"{user}.py").read_text()


def test_each_is_run_by_benches_run() -> None:
    listed = re.search(r"for bench in ((?:[\w\s]|\\\n)+); do", (BENCHES / "run").read_text())
    assert listed is not None
    assert set(listed[1].replace("\\\n", " ").split()) == PROGRAMS - TOOLS.keys()

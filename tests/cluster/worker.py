"""A worker of the tests: the product's, but for what its environment says; run as a program.

ODD_WALL_NS      its wall clock is so far ahead
ODD_DRIFT_PPM    its wall clock gains so much, from its start on
SILENCE_S        so long it may hear nothing of its prime
ODD_AGENT        agents are this program, whatever module is asked for
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from nfslab.cluster import attended, hosted
from nfslab.cluster.__main__ import main
from nfslab.machine.children import Child
from nfslab.machine.clock_pair import clock_pair

WALL_NS = int(os.environ.get("ODD_WALL_NS", "0"))
DRIFT_PPM = int(os.environ.get("ODD_DRIFT_PPM", "0"))
BEGAN_NS = time.monotonic_ns()


def read_odd() -> tuple[int, int, int]:
    wall_ns, monotonic_ns, width_ns = clock_pair()
    gained_ns = (monotonic_ns - BEGAN_NS) * DRIFT_PPM // 1_000_000
    return wall_ns + WALL_NS + gained_ns, monotonic_ns, width_ns


def begin_odd(program: str, _module: str, *, cwd: Path, **_named: Any) -> Child:
    complaints = tempfile.TemporaryFile()  # noqa: SIM115
    process = subprocess.Popen(
        [sys.executable, program], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=complaints, cwd=cwd, start_new_session=True,
    )  # fmt: skip
    return Child(process, complaints)


if __name__ == "__main__":
    attended.read_clocks = read_odd
    attended.SILENCE_S = float(os.environ["SILENCE_S"])  # type: ignore[misc]
    if program := os.environ.get("ODD_AGENT"):
        hosted.children.begin = functools.partial(begin_odd, program)  # type: ignore[assignment]
    main()

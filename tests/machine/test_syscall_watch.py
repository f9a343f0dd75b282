"""A watch from its beginning to its end, by the way that needs nothing: the preloaded library."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from nfslab.evidence.syscalls.ways import shim_missing

WATCHING = """
import os, subprocess, sys
from nfslab.evidence.syscalls.watch import SyscallWatch
from nfslab.evidence.syscalls.ways import Asked, Choice, Subject
argv = [sys.executable, "-S", "-c", "import os; os.fsync(os.open('data', os.O_CREAT | os.O_RDWR))"]
watch = SyscallWatch(Choice("shim"), Asked("counts"), Subject(argv=argv))
wrapped, added = watch.wrap(argv)
before = set(sys.modules)
program = subprocess.Popen(wrapped, env=os.environ | added)
watch.launched()
program.wait(120)
watch._take()
later = {name.split(".")[0] for name in set(sys.modules) - before}
print("pyarrow" in sys.modules, sorted(later & {"numpy", "pandas", "pyarrow", "nfslab"}))
print(watch.end().tables["syncs"].num_rows)
"""


@pytest.mark.skipif(bool(shim_missing()), reason=shim_missing() or "there is one")
def test_what_taking_records_needs_is_loaded_before_the_program_runs(tmp_path: Path) -> None:
    said = subprocess.run(
        [sys.executable, "-c", WATCHING], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert said.stdout.splitlines() == ["True []", "1"]

"""An experiment in a guest: its results lie here afterwards, and say how they were made."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from nfslab.results.emulation import is_stamped
from nfslab.results.outcomes import Outcomes
from nfslab.statistics.verdicts import EMULATED

from tests.cli.invocation import nfslab
from tests.vm.guests import cached_kernels, refused

pytestmark = [
    pytest.mark.skipif(bool(refused()), reason=refused() or "it can"),
    pytest.mark.long,
    pytest.mark.guest,
]
LIMIT_S = 600
FILE = """\
[experiment]
name = "in-a-guest"
title = "In a guest"
repetitions = 1
[targets.disk]
kind = "local"
path = "/var/tmp"
[workload]
kind = "command"
argv = ["true"]
data = "disk"
"""


def test_results_come_back_with_their_stamp(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "small.toml").write_text(FILE)
    module = [sys.executable, "-m", "nfslab"]
    guest = [*module, "vm", "run", "--kernel", cached_kernels()[0], "--cpus", "1", "--"]
    done = subprocess.run(
        [*guest, *module, "run", "small.toml"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (folder,) = (tmp_path / "results").iterdir()
    emulated = "(KVM)" not in done.stderr
    assert (EMULATED in done.stdout) is emulated
    outcomes = Outcomes.open(folder)
    (line,) = outcomes.counted
    assert is_stamped(line.flags) is emulated
    provenance = json.loads((folder / "runs" / line.run_id / "provenance.json").read_text())
    assert provenance["kernel"]["release"] == cached_kernels()[0]
    assert nfslab(capsys, "check", folder).code == 0

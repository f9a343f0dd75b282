"""What the package promises as a whole."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.system
def test_comparing_does_not_import_scipy() -> None:
    """`scipy.special` costs more than `nfslab compare` may take in all."""
    code = (
        "import sys\n"
        "from nfslab.statistics import comparison, observations, summary\n"
        "from nfslab.statistics.checks import steady_state\n"
        "base, new = map(observations.Observations.of, ([1, 2, 3], [2, 3, 4]))\n"
        "comparison.compare_many(base, new, n_groups=1, better=None)\n"
        "summary.summarise([1, 2, 3, 4, 5, 6, 7])\n"
        "steady_state.check_steady_state(range(1, 40), 10**9)\n"
        "print('scipy' in sys.modules)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"

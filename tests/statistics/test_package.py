"""What the package promises as a whole: quick to import, complete, quick in bulk."""

from __future__ import annotations

import importlib
import subprocess
import sys
import time

import numpy as np
import pytest
from nfslab import statistics
from nfslab.statistics import Observations, compare_many, summarise_many


def test_import_brings_neither_numpy_nor_scipy() -> None:
    code = "import sys, nfslab.statistics; print(*[m for m in sys.modules if '.' not in m])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"numpy", "scipy", "pandas"} & set(run.stdout.split())


def test_comparing_does_not_import_scipy() -> None:
    """`scipy.special` costs more than `nfslab compare` may take in all."""
    code = (
        "import sys\n"
        "from nfslab import statistics as s\n"
        "s.compare_unpaired([1, 2, 3], [2, 3, 4], better=None)\n"
        "s.summarise([1, 2, 3, 4, 5, 6, 7])\n"
        "s.check_steady_state(range(1, 40), 10**9)\n"
        "print('scipy' in sys.modules)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"


def test_every_exported_name_resolves_and_stays_what_it_is() -> None:
    """A module of the same name would replace a function once it is imported."""
    importlib.reload(statistics)
    for home in set(statistics._HOME.values()):
        importlib.import_module(f"nfslab.statistics.{home}")
    assert set(statistics.__all__) == set(statistics._HOME)
    for name in statistics.__all__:
        assert callable(getattr(statistics, name)), name
    assert dir(statistics) == sorted(statistics.__all__)
    with pytest.raises(AttributeError, match="no attribute 'mean'"):
        _ = statistics.mean


def observed(groups: int, n: int, seed: int) -> Observations:
    values = np.exp(0.05 * np.random.default_rng(seed).standard_normal(groups * n))
    return Observations.of(
        values, groups=np.repeat(np.arange(groups), n), blocks=np.tile(np.arange(n), groups)
    )


def test_ten_thousand_comparisons_take_a_fraction_of_a_second() -> None:
    """Measured 0.2 s; the limit is generous because the machine may be busy with others."""
    base, new = observed(10_000, 5, 1), observed(10_000, 5, 2)
    start = time.process_time()
    found = compare_many(base, new, n_groups=10_000, better="higher")
    assert len(found) == 10_000
    assert time.process_time() - start < 2.0


def test_summaries_of_a_large_report_take_a_fraction_of_a_second() -> None:
    """200 points of 20 metrics with bootstrap: measured 0.5 s."""
    given = observed(4_000, 5, 3)
    start = time.process_time()
    found = summarise_many(given.groups, given.values, n_groups=4_000)
    assert len(found) == 4_000
    assert time.process_time() - start < 4.0

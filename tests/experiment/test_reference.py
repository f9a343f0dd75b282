"""`[reference]`: names that lead nowhere are told before anything is measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from nfslab.experiment.problems import InvalidExperiment
from nfslab.experiment.reading import read_experiment

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

GOOD = """
[reference]
table = "sfs_heavy_load_1999"
metric = { achieved_ops_per_s = "rate_per_s" }
match = { server_threads = "clients", clients = "workload.size" }
"""


def test_a_good_reference(experiment_file: Callable[..., Path]) -> None:
    path = experiment_file()
    path.write_text(path.read_text() + GOOD)
    assert read_experiment(path).reference["table"] == "sfs_heavy_load_1999"


@pytest.mark.parametrize(
    ("old", "new", "what", "fix"),
    [
        ("load_1999", "load_99", "no published table", "did you mean 'sfs_heavy_load_1999'?"),
        ("achieved_ops", "achievd_ops", "no column 'achievd_ops_per_s'", "'achieved_ops_per_s'"),
        ("server_threads", "server_thread", "no column", "did you mean 'server_threads'?"),
        ('"clients"', '"client"', "neither an axis nor a parameter", "axes: data, clients"),
        ("table =", "tabel =", "unknown parameter 'tabel'", "did you mean 'table'?"),
    ],
)
def test_wrong_references(
    experiment_file: Callable[..., Path], old: str, new: str, what: str, fix: str
) -> None:
    path = experiment_file()
    path.write_text(path.read_text() + GOOD.replace(old, new))
    with pytest.raises(InvalidExperiment) as caught:
        read_experiment(path)
    told = [p for p in caught.value.problems if what in p.what]
    assert told, caught.value
    assert fix in told[0].fix

"""What tests a cause: what it depends on as at the base, a setting, a delay; as a file says it."""

from __future__ import annotations

import tomllib
from types import SimpleNamespace
from typing import Any

import pytest
from nfslab.findings.confirm import (
    CONTROL,
    Intervention,
    Prediction,
    Slope,
    experiment_text,
    read_test,
)
from nfslab.findings.data_reads import DataReads
from nfslab.findings.interventions import At, as_at_base, set_to
from nfslab.findings.registry import intervention_of
from nfslab.findings.row_locks import RowLocks

BASE = {
    "workload.wal": "disk", "workload.clients": 8, "targets.nfs.threads": 8, "targets.nfs.ac": True,
}  # fmt: skip
FIXED = {
    "workload.kind": "pgbench", "workload.data": "nfs", "workload.scale": 4,
    "targets.nfs.kind": "nfs", "targets.disk.kind": "local",
}  # fmt: skip
FILE = """# by hand
[experiment]
name = "made"
repetitions = 9
[workload]
scale = 4
[[axes]]
parameter = "workload.wal"
values = ["disk", "nfs"]
"""


def compared(**changed: Any) -> tuple[Any, Any]:
    """(pair, analysis) of the base and a point where these parameters differ."""
    new = BASE | {name.replace("__", "."): value for name, value in changed.items()}
    points = [SimpleNamespace(settings=BASE), SimpleNamespace(settings=new)]
    analysis = SimpleNamespace(points=points, fixed=FIXED, name="made")
    result = SimpleNamespace(base_point=0, point=1, label="new")
    sides = ([], [])  # no runs: nothing is known of calls
    return SimpleNamespace(result=result, sides=sides), analysis


def test_the_parameter_of_the_cause_goes_back_and_others_stay() -> None:
    pair, analysis = compared(targets__nfs__threads=1, targets__nfs__ac=False)
    intervention = intervention_of("server_threads", pair, analysis)
    assert isinstance(intervention, Intervention)
    assert intervention.settings == {"targets.nfs.threads": 8}


def test_what_is_all_that_differs_is_last_and_says_so() -> None:
    pair, analysis = compared(workload__wal="nfs")
    patterns = ("workload.wal",)
    assert as_at_base(patterns, pair, analysis, apart=True) is None
    intervention = as_at_base(patterns, pair, analysis, apart=False)
    assert intervention is not None
    assert "all that differs" in intervention.label
    assert as_at_base(("workload.scale",), pair, analysis, apart=False) is None


@pytest.mark.parametrize(
    ("cause", "changed", "settings"),
    [
        ("server_threads", {"targets__nfs__threads": 2}, {"targets.nfs.threads": 16}),
        ("attribute_cache", {"targets__nfs__ac": False}, {"targets.nfs.ac": True}),
        # 8 clients meet at 4 branches; eight branches a client.
        ("row_locks", {"workload__clients": 8}, {"workload.scale": 64}),
        ("data_reads", {"workload__clients": 8}, {"workload.settings.shared_buffers": "224MB"}),
        ("full_page_writes", {}, {"workload.settings.full_page_writes": False}),
        ("autovacuum", {}, {"workload.settings.autovacuum": False}),
        (
            "checkpoint",
            {"workload__settings__checkpoint_timeout": "1h"},
            {"workload.settings.max_wal_size": "64GB"},
        ),
        ("nvram_full", {"targets__nfs__nvram": 1024}, {"targets.nfs.nvram": 65536}),
    ],
)
def test_a_setting_of_neither_point_takes_a_cause_away(
    cause: str, changed: dict[str, Any], settings: dict[str, Any]
) -> None:
    pair, analysis = compared(**changed)
    intervention = intervention_of(cause, pair, analysis)
    assert isinstance(intervention, Intervention)
    assert intervention.settings == settings


def test_interventions_fit_what_the_workload_takes() -> None:
    """Of `tpcc` settings as of `pgbench`, buffers by its warehouses; `command` has neither."""
    fixed = {"workload.kind": "tpcc", "workload.data": "nfs", "workload.warehouses": 2}
    at = At({}, fixed)
    assert at.takes("settings")
    assert at.takes("planted_delay")
    assert not at.takes("scale")
    assert DataReads().remedy(at) == {"workload.settings.shared_buffers": ("128MB", "448MB")}
    assert RowLocks().remedy(at) == {}
    for kind in ("command", "gone", None):
        other = At({}, {"workload.kind": kind})
        assert DataReads().remedy(other) == {}
        assert not other.takes("planted_delay")


def test_where_a_file_can_say_nothing_there_is_no_intervention() -> None:
    pair, analysis = compared()
    for cause in ("loss", "wire_latency", "run_queue", "small_transfers"):
        assert intervention_of(cause, pair, analysis) is None
    assert set_to({}) is None


def test_the_targets_that_are_used_are_changed() -> None:
    at = At(BASE | {"targets.other.threads": 3}, FIXED | {"targets.other.kind": "nfs"})
    assert at.of_nfs("threads") == {"targets.nfs.threads": 8}
    assert at.targets("local") == ["disk"]


def test_an_intervention_becomes_an_axis_beside_the_point() -> None:
    """What the file does not set is there as it is in effect."""
    pair, analysis = compared(workload__wal="nfs")
    intervention = set_to({"workload.settings.shared_buffers": ("128MB", "1GB")})
    assert intervention is not None
    prediction = Prediction("data_reads", 1e6, (5e5, 2e6))
    text = experiment_text(FILE, analysis, pair, intervention, prediction)
    made = tomllib.loads(text)
    assert made["axes"][-1]["values"] == [["128MB"], ["1GB"]]
    assert made["axes"][-1]["labels"][0] == CONTROL
    others = {axis["parameter"]: axis["values"] for axis in made["axes"][:-1]}
    assert others == {path: [value] for path, value in (BASE | {"workload.wal": "nfs"}).items()}
    assert made["workload"] == {"scale": 4}
    assert read_test(text) == prediction


def test_targets_of_other_points_are_left_out() -> None:
    pair, analysis = compared(workload__wal="nfs")
    intervention = set_to({"targets.kept.threads": (8, 16)})
    assert intervention is not None
    file = (
        FILE
        + """
[targets.disk]
kind = "local"

[targets.nfs]
kind = "nfs"

[targets.kept]
kind = "nfs"

[targets.elsewhere]
kind = "local"
"""
    )
    prediction = Prediction("server_threads", 1e6, (5e5, 2e6))
    made = tomllib.loads(experiment_text(file, analysis, pair, intervention, prediction))
    assert set(made["targets"]) == {"nfs", "kept"}
    back = as_at_base(("workload.wal",), pair, analysis, apart=False)
    assert back is not None
    made = tomllib.loads(experiment_text(file, analysis, pair, back, prediction))
    assert set(made["targets"]) == {"nfs", "disk"}


def test_a_delay_becomes_an_axis_of_its_sizes_and_replaces_what_was_planted() -> None:
    pair, analysis = compared(workload__planted_delay__log_sync=0.001)
    slope = Slope(
        "log_sync", "syncs of the log", 1.5, (1.2, 1.8), 1e6,
        "workload.planted_delay.log_sync", ("0us", "500us", "1000us"),
    )  # fmt: skip
    text = experiment_text(FILE, analysis, pair, slope, slope)
    *others, intervention = tomllib.loads(text)["axes"]
    assert intervention["parameters"] == [slope.parameter]
    assert intervention["values"] == [["0us"], ["500us"], ["1000us"]]
    assert slope.parameter not in [axis["parameter"] for axis in others]
    assert read_test(text) == slope
    # A file that tests a finding may be the original: one prediction stays.
    again = experiment_text(text, analysis, pair, slope, Prediction("x", 1.0, (0.0, 2.0)))
    assert again.count("# prediction: ") == 1

"""Latency that an experiment plants is said with its figures, and changes only its identity."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from nfslab.experiment.identity import experiment_identity
from nfslab.experiment.planted import planted_latency


def setup(call_delay: str | None, planted_delay: dict[str, float]) -> Any:
    target = SimpleNamespace(parameters=SimpleNamespace(call_delay=call_delay))
    workload = SimpleNamespace(parameters=SimpleNamespace(planted_delay=planted_delay))
    return SimpleNamespace(used_targets=lambda: {"nfs": target}, workload=workload)


@pytest.mark.parametrize(
    ("call_delay", "planted_delay", "said"),
    [
        (None, {}, []),
        (None, {"log_sync": 0.0}, []),
        ("COMMIT:2ms", {}, ["COMMIT:2ms"]),
        (None, {"log_sync": 0.002}, ["log_sync"]),
        ("WRITE:1ms", {"data_read": 0.1}, ["WRITE:1ms", "data_read"]),
    ],
)
def test_it_is_a_warning_that_names_each_delay(
    call_delay: str | None, planted_delay: dict[str, float], said: list[str]
) -> None:
    checks = planted_latency(setup(call_delay, planted_delay))
    assert [check.verdict for check in checks] == ["warning"] * bool(said)
    assert all(word in check.message for check in checks for word in said)


def test_experiments_of_before_keep_their_identity() -> None:
    """A parameter that came later, and asks for nothing, is as if it were not there."""

    def identity(**more: Any) -> str:
        point = {
            "limits": {"run_s": 1.0},
            "targets": {"nfs": {"rsize": None, **more}},
            "workload": {"clients": 1},
        }
        return experiment_identity(order="random", seed=1, axes=[], points=[point])

    assert identity(call_delay=None) == identity(planted_delay={}) == identity()
    assert identity(call_delay="WRITE:1ms") != identity()
    assert identity(rsize=None, other=None) != identity()


def test_a_parameter_that_one_kind_got_later_is_another_kinds_own() -> None:
    def identity(kind: str, **more: Any) -> str:
        point = {"limits": {}, "workload": {"kind": kind, "clients": 1, **more}}
        return experiment_identity(order="random", seed=1, axes=[], points=[point])

    assert identity("tpcc", engine="postgres", mariadb={}) == identity("tpcc")
    assert identity("tpcc", engine="mariadb") != identity("tpcc")
    assert identity("tpcc", mariadb={"sync_binlog": 1}) != identity("tpcc")
    assert identity("tpcb", engine="postgres") != identity("tpcb")

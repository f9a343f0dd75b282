"""Validity checks: published figures, arithmetic, planted causes."""

from __future__ import annotations

import json
import math
from dataclasses import asdict

import numpy as np
import pytest
from nfslab.results.records import CheckRecord
from nfslab.statistics.checks.check import Check
from nfslab.statistics.checks.clock_steps import check_clock_steps
from nfslab.statistics.checks.competing_load import check_competing_load
from nfslab.statistics.checks.littles_law import check_littles_law
from nfslab.statistics.checks.physical_bounds import check_latency_floor, check_rate_ceiling

# H.J. Lu, kernel NFS server under SPEC SFS load, 1999: 5 clients x 4 load processes.
# (achieved operations per second, mean response time in ms); six rows within 5 % of
# 20 operations in flight, all that are beyond, and the two that were not saturated.
WITHIN_5_PERCENT = [(356, 56.6), (212, 97.8), (162, 127.5), (138, 151.9), (569, 36.8), (381, 54.8)]
BEYOND_5_PERCENT = [(782, 27.4), (594, 35.9), (494, 42.8), (422, 49.8), (1125, 19.4), (907, 23.9),
                    (775, 27.7), (1539, 14.2), (1190, 18.9), (967, 22.8)]  # fmt: skip
NOT_SATURATED = [(799, 6.9), (801, 6.1)]


@pytest.mark.parametrize(("rate", "response_ms"), WITHIN_5_PERCENT)
def test_littles_law_holds_for_the_saturated_servers_of_1999(
    rate: float, response_ms: float
) -> None:
    found = check_littles_law(clients=20, rate_per_s=rate, mean_latency_ns=response_ms * 1e6)
    assert found.values["in_flight"] == pytest.approx(rate * response_ms / 1000)
    assert found.verdict == "ok"


@pytest.mark.parametrize(("rate", "response_ms"), BEYOND_5_PERCENT)
def test_small_excess_of_published_means_is_a_warning(rate: float, response_ms: float) -> None:
    found = check_littles_law(clients=20, rate_per_s=rate, mean_latency_ns=response_ms * 1e6)
    assert 1.05 < found.values["ratio"] < 1.13
    assert found.verdict == "warning"
    assert found.values["ratio"] > 1


@pytest.mark.parametrize(("rate", "response_ms"), NOT_SATURATED)
def test_littles_law_tells_that_the_load_was_below_saturation(
    rate: float, response_ms: float
) -> None:
    found = check_littles_law(clients=20, rate_per_s=rate, mean_latency_ns=response_ms * 1e6)
    assert found.verdict == "warning"
    assert "idle" in found.message


def test_more_work_in_flight_than_clients_is_impossible() -> None:
    found = check_littles_law(clients=4, rate_per_s=1000, mean_latency_ns=5e6)
    assert found.verdict == "violation"
    assert found.values["in_flight"] == pytest.approx(5)
    edge = check_littles_law(clients=4, rate_per_s=1000, mean_latency_ns=4.1e6)
    assert edge.verdict == "ok"  # 2.5 % over: within the tolerance


def test_rate_limit_uses_the_schedule_lag() -> None:
    """50/s, 30 ms from the planned instant of which 20 ms are waiting: half a client busy."""
    options = {"clients": 1, "rate_per_s": 50.0, "mean_latency_ns": 30e6, "rate_limited": True}
    found = check_littles_law(**options, mean_schedule_lag_ns=20e6)
    assert found.verdict == "ok"
    assert found.values["ratio"] == pytest.approx(0.5)
    assert check_littles_law(**options).verdict == "unknown"
    assert check_littles_law(**options, mean_schedule_lag_ns=0.0).verdict == "violation"
    assert check_littles_law(**options, mean_schedule_lag_ns=40e6).verdict == "violation"


def test_littles_law_without_figures_is_unknown() -> None:
    assert check_littles_law(clients=4, rate_per_s=None, mean_latency_ns=1e6).verdict == "unknown"
    assert check_littles_law(clients=4, rate_per_s=0.0, mean_latency_ns=1e6).verdict == "unknown"
    odd = check_littles_law(clients=4, rate_per_s=10.0, mean_latency_ns=math.nan)
    assert odd.verdict == "unknown"
    assert "mean_latency_ns" in odd.message


@pytest.mark.parametrize(
    ("latency_ns", "verdict"),
    [(30, "violation"), (60_000, "warning"), (95_000, "ok"), (200_000, "ok"), (0, "violation"),
     (-5, "violation")],
)  # fmt: skip
def test_latency_below_a_round_trip(latency_ns: float, verdict: str) -> None:
    """30 ns over a network was once published."""
    found = check_latency_floor(latency_ns=latency_ns, floor_ns=100_000, what="one round trip")
    assert found.verdict == verdict
    assert ("one round trip" in found.message) or latency_ns < 0


@pytest.mark.parametrize(
    ("rate", "verdict"), [(500, "ok"), (1050, "ok"), (1500, "warning"), (2500, "violation")]
)
def test_throughput_above_the_device(rate: float, verdict: str) -> None:
    found = check_rate_ceiling(rate=rate, ceiling=1000, unit="MB/s", what="the device")
    assert found.verdict == verdict
    assert "MB/s" in found.message


def test_unknown_bounds_are_never_ok() -> None:
    assert check_latency_floor(latency_ns=1.0, floor_ns=None, what="x").verdict == "unknown"
    assert check_rate_ceiling(rate=None, ceiling=1, unit="/s", what="x").verdict == "unknown"
    assert check_rate_ceiling(rate=1, ceiling=0, unit="/s", what="x").verdict == "unknown"


SECOND = 1_000_000_000
MONOTONIC = np.arange(100, dtype=np.int64) * SECOND // 10 + 12_345
WALL = MONOTONIC + 1_700_000_000 * SECOND


def test_steady_clocks() -> None:
    found = check_clock_steps(WALL, MONOTONIC)
    assert found.verdict == "ok"
    assert found.values["drift_ppm"] == 0.0


@pytest.mark.parametrize("step_ns", [-2 * SECOND, 5_000_000, 3600 * SECOND])
def test_a_step_of_the_wall_clock_is_found_where_it_was(step_ns: int) -> None:
    wall = WALL.copy()
    wall[40:] += step_ns
    found = check_clock_steps(wall, MONOTONIC)
    assert found.verdict == "warning"
    assert found.values["step_samples"] == [40]
    assert found.values["step_sizes_ns"] == [step_ns]
    assert found.values["drift_ppm"] == pytest.approx(0.0)


def test_two_steps_that_cancel_are_two_steps() -> None:
    wall = WALL.copy()
    wall[40:60] += 3 * SECOND
    assert check_clock_steps(wall, MONOTONIC).values["steps"] == 2


def test_a_delay_between_the_two_reads_is_no_step() -> None:
    wall = WALL.copy()
    wall[40] += 30_000_000  # the thread was interrupted for 30 ms
    found = check_clock_steps(wall, MONOTONIC)
    assert found.verdict == "ok"
    assert found.values["read_delays"] == 1


def test_slewing_is_no_step_and_its_rate_is_told() -> None:
    wall = WALL + (MONOTONIC - MONOTONIC[0]) * 400 // 1_000_000
    found = check_clock_steps(wall, MONOTONIC)
    assert found.verdict == "ok"
    assert found.values["drift_ppm"] == pytest.approx(400, rel=1e-3)


def test_a_monotonic_clock_that_goes_back_is_a_violation() -> None:
    broken = MONOTONIC.copy()
    broken[50] = broken[48]
    found = check_clock_steps(WALL, broken)
    assert found.verdict == "violation"
    assert found.values["sample"] == 50


def test_clocks_read_once_or_unequally() -> None:
    assert check_clock_steps([1], [1]).verdict == "unknown"
    with pytest.raises(ValueError, match="equally often"):
        check_clock_steps([1, 2], [1])


def test_competing_load_names_what_was_busy() -> None:
    idle = check_competing_load(others_before=0.01, others_during=0.02, steal_during=0.0)
    assert idle.verdict == "ok"
    busy = check_competing_load(others_before=0.01, others_during=0.30, steal_during=0.04)
    assert busy.verdict == "warning"
    assert "30.0%" in busy.message
    assert "4.0%" in busy.message
    assert "before" not in busy.message


def test_competing_load_judges_what_is_known() -> None:
    found = check_competing_load(others_before=None, others_during=0.3, steal_during=None)
    assert found.verdict == "warning"
    assert "others_before, steal_during" in found.message
    nothing = check_competing_load(others_before=None, others_during=None, steal_during=None)
    assert nothing.verdict == "unknown"


def test_impossible_shares_are_a_violation() -> None:
    found = check_competing_load(others_before=0.0, others_during=1.4, steal_during=0.0)
    assert found.verdict == "violation"
    slack = check_competing_load(others_before=-0.01, others_during=0.0, steal_during=0.0)
    assert slack.verdict == "ok"  # ticks of 10 ms


def test_a_check_becomes_a_record_of_the_run() -> None:
    check = check_clock_steps(WALL, MONOTONIC)
    record = CheckRecord(**asdict(check))
    assert (record.name, record.verdict) == ("clock_steps", "ok")
    json.dumps(record.model_dump(), allow_nan=False)
    assert asdict(Check("x", "ok", "y")) == {
        "name": "x",
        "verdict": "ok",
        "message": "y",
        "values": {},
    }

"""Captures of one thing, whose service time drifts slowly, are not called different."""

from __future__ import annotations

import numpy as np
import pytest
from nfslab.captures.analysis import CaptureAnalysis
from nfslab.captures.comparison import batches, compare_captures, correlation_time

BLOCK_S = 1.0
STEPS = 16
"""Steps of the drift in a block."""


def drifting(rng: np.random.Generator, memory_s: float, blocks: int) -> np.ndarray:
    """Mean latencies of blocks, ns: an AR(1) drift with this memory, and what is independent."""
    keep = np.exp(-BLOCK_S / STEPS / memory_s)
    pushes = rng.normal(size=blocks * STEPS) * np.sqrt(1 - keep**2)
    level = np.empty(pushes.size)
    level[0] = rng.normal()
    for step in range(1, level.size):
        level[step] = keep * level[step - 1] + pushes[step]
    logs = 0.2 * level.reshape(blocks, STEPS).mean(axis=1) + rng.normal(size=blocks) * 0.05
    return 1e6 * np.exp(logs)


def capture(latencies: np.ndarray) -> CaptureAnalysis:
    """One client, one READ after the other, as the core's lens `blocks` shows it."""
    whole = latencies.size
    key = {"program": 100003, "program_name": "NFS", "version": 3, "operation": "READ"}
    calls = [round(BLOCK_S * 1e9 / latency) for latency in latencies]
    row = {
        **key, "calls": [*calls, 0], "answered": [*calls, 0],
        "p50_ns": [*latencies, 0], "mean_ns": [*latencies, 0],
    }  # fmt: skip
    mean = float(latencies.mean())
    content = {
        "blocks": {"blocks": {"width_ns": BLOCK_S * 1e9, "whole": whole, "operations": [row]}},
        "operations": [{**key, "latency_ns": {"p50": mean, "mean": mean}}],
        "first_ns": 0,
        "last_ns": int(whole * BLOCK_S * 1e9),
    }
    return CaptureAnalysis(["made"], content)


def different(base: np.ndarray, new: np.ndarray) -> bool:
    figures = compare_captures([capture(base), capture(new)]).figures
    return any(figure.result.shown for figure in figures)


@pytest.mark.parametrize("memory_s", [0.1, 0.5, 1, 2, 5, 10])
def test_a_drift_is_no_difference(memory_s: float) -> None:
    """Of 100 pairs of equal captures at most 5 % are different, whatever the drift's memory."""
    rng = np.random.default_rng(17)
    pairs = [
        [drifting(rng, memory_s, int(rng.integers(16, 32))) for _ in range(2)] for _ in range(100)
    ]
    assert sum(different(*pair) for pair in pairs) <= 5


def test_a_difference_without_drift_is_found() -> None:
    rng = np.random.default_rng(18)
    pairs = [[drifting(rng, 0.01, 31), 1.3 * drifting(rng, 0.01, 31)] for _ in range(50)]
    assert sum(different(*pair) for pair in pairs) >= 40


def test_correlation_times_are_those_of_the_series() -> None:
    """AR(1) with r forgets in (1 + r) / (1 - r) steps: 19 of r = 0.9; without r in 1."""
    rng = np.random.default_rng(19)
    level = np.zeros(20_000)
    for step in range(1, level.size):
        level[step] = 0.9 * level[step - 1] + rng.normal()
    assert 16 < correlation_time(level) < 22
    assert correlation_time(rng.normal(size=20_000)) < 1.1
    assert batches(np.ones(20)).size == 20

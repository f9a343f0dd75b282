"""Tables over time as panels: which are drawn, means of many samples, means of the timed part."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from nfslab.evidence import over_time
from nfslab.evidence.base import SealedRun
from nfslab.evidence.over_time import PanelSpec, named_panel, read_named, thinned, timed_mean

from tests.evidence.runs import sealed_run

SPEC = PanelSpec("bytes", "Bytes", "B/s", {"written": "write", "read": "read"})


def device_rows(folder: Path, most: dict[str, float], roles: str = "") -> SealedRun:
    """Two samples a device, the second the larger."""
    (folder / "evidence").mkdir(parents=True)
    names = [name for name in most for _ in range(2)]
    table = {
        "t_ns": [0, 1_000_000_000] * len(most),
        "device": names,
        "written": [value * share for value in most.values() for share in (0.5, 1.0)],
        "read": [0.0] * len(names),
        "roles": ["data" if name == roles else "" for name in names],
    }
    pq.write_table(pa.table(table), folder / "evidence" / "devices.parquet")
    return sealed_run(folder)


def test_the_places_of_the_run_come_first_then_the_busiest_few(tmp_path: Path) -> None:
    most = {"a": 10.0, "b": 60.0, "c": 30.0, "d": 40.0, "e": 50.0, "f": 0.0}
    run = device_rows(tmp_path, most, roles="a")
    named = read_named(run, "devices", "device", ["written", "read"], mark="roles")
    assert named is not None
    assert named.busiest(["written", "read"]) == ["a", "b", "e", "d"]
    assert named.busiest(["written"], least=45.0) == ["b", "e"]
    (panel,) = named_panel(SPEC, named)
    assert [series.label for series in panel.series][:4] == [
        "a write",
        "a read",
        "b write",
        "b read",
    ]
    assert np.asarray(panel.series[2].x).tolist() == [0.0, 1.0]
    assert np.asarray(panel.series[2].y).tolist() == [30.0, 60.0]


def test_what_never_moved_has_no_panel(tmp_path: Path) -> None:
    named = read_named(device_rows(tmp_path, {"a": 0.0}), "devices", "device", ["written", "read"])
    assert named_panel(SPEC, named) == []
    assert read_named(sealed_run(tmp_path), "others", "device", ["written"]) is None


def test_many_samples_become_means_and_lose_nothing() -> None:
    n = over_time.POINTS_MOST * 7
    t_s = np.arange(n, dtype=np.float64)
    values = np.where(np.arange(n) % 7 == 3, 7.0, 0.0)
    times, means = thinned(t_s, values)
    assert times.size == over_time.POINTS_MOST
    assert np.all(np.diff(times) > 0)
    assert 0 < means.max() < 7.0, "no single sample stands for its span"
    assert abs(means.mean() - 1.0) < 0.01


def test_a_rate_counts_for_the_interval_that_it_ends() -> None:
    t_s = np.array([-1.0, 0.0, 1.0, 4.0])
    # -1 to 0 is not of the timed part; 1 s at 10 and 3 s at 2.
    rates = np.array([99.0, 99.0, 10.0, 2.0])
    assert timed_mean(t_s, rates) == 16.0 / 4.0
    # 5 calls a second for 1 s and 1 a second for 3 s: 5 of 10 ms and 3 of 2 ms.
    calls = np.array([0.0, 0.0, 5.0, 1.0])
    assert timed_mean(t_s, rates, calls) == (5 * 10.0 + 3 * 2.0) / 8
    assert timed_mean(t_s, np.full(4, np.nan)) is None

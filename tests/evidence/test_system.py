"""The machine's evidence: facts of the summary, tables by point, panels of the tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nfslab.evidence.system.kind import SystemEvidence

from tests.evidence.runs import found_of, sealed_run

S = 1_000_000_000


def summary(user: float, written: float) -> dict[str, Any]:
    return {
        "samples": 20,
        "interval_s": 0.1,
        "effective_interval_s": 0.1,
        "cpu": {"user": user, "nice": 0.05, "system": 0.1, "idle": 0.85 - user, "iowait": 0.0},
        "devices": [
            {"device": "vda", "roles": "data", "write_bytes_per_s": written, "utilisation": 0.5},
            {"device": "vdb", "roles": "", "write_bytes_per_s": 0.0, "utilisation": 0.0},
        ],
        "pressure": {"io": {"some_share": 0.25, "full_share": 0.2}},
        "peak_dirty_bytes": 4096,
        "peak_writeback_bytes": 0,
        "missed_ticks": 0,
    }


TABLES = {
    "system_cpu": {
        "t_ns": [0, S], "user": [0.2, 0.4], "nice": [0.1, 0.1], "system": [0.1, 0.2],
        "idle": [0.6, 0.3], "running": [2, 3], "blocked": [0, 1],
    },
    "system_network": {
        "t_ns": [0, 0, S, S, 3 * S, 3 * S], "interface": ["lo", "eth0"] * 3,
        "rx_bytes_per_s": [9e9, 1.0, 3e6, 2.0, 6e6, 0.0],
        "tx_bytes_per_s": [0.0, 1.0, 0.0, 2.0, 0.0, 0.0],
    },
}  # fmt: skip


def test_facts_are_those_of_the_timed_part(tmp_path: Path) -> None:
    kind = SystemEvidence()
    run = sealed_run(tmp_path, "system", summary(0.4, 1e6), TABLES)
    assert kind.present(run)
    facts = kind.facts(run)
    assert facts is not None
    assert facts.busy == pytest.approx(0.55)
    assert facts.devices[0].write_bytes_per_s == 1e6
    rates = {one.interface: one.rx_bytes_per_s for one in facts.interfaces}
    # 1 s at 3 MB/s, 2 s at 6 MB/s; what came before the start does not count.
    assert rates["lo"] == pytest.approx(5e6)
    assert kind.Facts.model_validate(facts.model_dump(mode="json")) == facts


def test_a_point_shows_the_median_of_its_runs(tmp_path: Path) -> None:
    kind = SystemEvidence()
    runs = [
        sealed_run(tmp_path / f"r{k}", "system", summary(user, written))
        for k, (user, written) in enumerate([(0.1, 1e6), (0.3, 3e6), (0.2, 8e6)])
    ]
    section = kind.section(found_of({"clients=1": [(run, kind.facts(run)) for run in runs]}))
    assert section is not None
    cpu, devices = section.tables
    titles = [column.title for column in cpu.columns]
    assert cpu.rows[0][titles.index("user")].value == pytest.approx(0.25)
    assert [row[1].text for row in devices.rows] == ["vda"], "an idle device has no row"
    titles = [column.title for column in devices.columns]
    assert devices.rows[0][titles.index("written")].value == 3e6


def test_panels_stack_the_cpu_and_leave_quiet_interfaces_out(tmp_path: Path) -> None:
    panels = {p.key: p for p in SystemEvidence().panels(sealed_run(tmp_path, tables=TABLES))}
    assert set(panels) == {"cpu", "tasks", "network"}
    cpu = {series.label: np.asarray(series.y).tolist() for series in panels["cpu"].series}
    assert cpu["user"] == pytest.approx([0.3, 0.5])
    assert {series.draw for series in panels["cpu"].series} == {"stack"}
    assert panels["cpu"].y.high == 1.0
    assert [series.label for series in panels["network"].series] == ["lo sent", "lo received"]

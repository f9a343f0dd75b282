"""File access as a workload: parameters reach the core, figures follow from its result."""

from __future__ import annotations

import base64
import json
import uuid
from pathlib import Path
from typing import Any

import pytest
from nfslab._core import Histogram
from nfslab.errors import RunFailed
from nfslab.workloads.base import Completions, Outcome
from nfslab.workloads.files import FilesParameters, FilesWorkload
from nfslab.workloads.files_result import (
    BONNIE,
    completions,
    content_check,
    histograms_table,
    phase_metrics,
    series_table,
)
from pydantic import ValidationError

from tests.workloads.run_context import Run, run_of

KIB = 1024
USUAL_PHASES = [phase for phase in BONNIE if phase != "log_write"]
USUAL = [BONNIE[phase] for phase in USUAL_PHASES]


def run_files(scratch: Path, **values: Any) -> tuple[Outcome, Run, dict[str, Any]]:
    work = FilesWorkload(FilesParameters(**({"data": "disk"} | values)))
    if not work.check().ok:
        pytest.skip(work.check().reason)
    name = f"files-{uuid.uuid4().hex[:8]}"
    with run_of(work, scratch, name=name, places={"data": scratch / f"{name}-data"}) as run:
        work.prepare(run.context)
        outcome = work.measure(run.context)
        assert list(run.context.places["data"].path.iterdir()) == [], "its files are removed"
        result = json.loads((run.context.folder / "logs" / "files.json").read_text())
        return outcome, run, result


@pytest.mark.system
def test_all_phases_of_bonnie_and_what_they_moved(scratch: Path) -> None:
    outcome, run, result = run_files(
        scratch,
        file_size="512k",
        files=2,
        block="4k",
        threads=2,
        seeks=60,
        seek_threads=3,
        random_operations=40,
        sync_every=4,
        sync_kind="fsync",
    )
    phases = {row["phase"]: row for row in outcome.samples["phases"].to_pylist()}
    assert list(phases) == USUAL
    for name in ("output_per_char", "output_block", "rewrite", "input_per_char", "input_block"):
        assert phases[name]["bytes"] == 512 * KIB
        assert phases[name]["operations"] == 128
        rate = outcome.metrics[f"{name}_bytes_per_s"]
        assert rate.value == 512 * KIB / (phases[name]["wall_ns"] / 1e9)
        assert (rate.unit, rate.better) == ("bytes/s", "higher")
    assert phases["random_seeks"]["operations"] == 60
    assert phases["random_seeks"]["threads"] == 3
    assert phases["random_write"]["operations"] == 40
    writes = outcome.metrics["random_write_per_s"].value
    assert writes == 40 / (phases["random_write"]["wall_ns"] / 1e9)
    cpu = outcome.metrics["output_block_cpu_pct"].value
    assert cpu == 100 * phases["output_block"]["cpu_ns"] / phases["output_block"]["wall_ns"]
    assert [name for name, m in outcome.metrics.items() if m.primary] == [
        "output_per_char_bytes_per_s"
    ]
    # What the run's tables say adds up to what was asked for.
    series = outcome.samples["series"].to_pylist()
    for name in USUAL:
        mine = [row for row in series if row["phase"] == name]
        assert sum(row["operations"] for row in mine) == phases[name]["operations"]
        assert mine[0]["t_ns"] == phases[name]["t_ns"]
    histograms = outcome.samples["histograms"].to_pylist()
    syncs = sum(row["count"] for row in histograms if row["phase"] == "random_write_sync")
    assert syncs == sum(p["sync"]["operations"] for p in result["phases"] if p["sync"]) > 0
    assert outcome.checks[0].verdict == "ok"
    assert result["config"]["seed"] == run.context.seed, "the run's own, without another"
    timed = run.context.timed
    last = result["phases"][-1]
    assert timed.start_ns == result["start_monotonic_ns"]
    assert timed.end_ns == last["start_monotonic_ns"] + last["wall_ns"]


@pytest.mark.system
def test_every_option_reaches_the_core(scratch: Path) -> None:
    _, run, result = run_files(
        scratch,
        file_size="256k",
        files=4,
        block=1024,
        threads=2,
        phases=["output_block", "random_write"],
        seeks=11,
        random_operations=17,
        sync_every=1,
        sync_kind="dsync",
        final_sync=False,
        drop_cache=False,
        time_limit="90s",
        check_every=3,
        seek_rewrite_share=0.5,
        seed=12345,
    )
    config = result["config"]
    expected = {
        "size_bytes": 256 * KIB,
        "files": 4,
        "block_size_bytes": 1024,
        "threads": 2,
        "phases": ["block_write", "random_write"],
        "seeks": 11,
        "random_operations": 17,
        "sync_every": 1,
        "sync_kind": "dsync",
        "final_sync": False,
        "drop_cache": False,
        "time_limit_ns": 90 * 10**9,
        "check_every": 3,
        "seek_rewrite_share": 0.5,
        "seed": 12345,
        "direct": False,
    }
    assert {name: config[name] for name in expected} == expected
    (command,) = run.context.commands
    assert command[1:3] == ["-m", "nfslab.workloads.files_part"]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"file_size": "10k", "block": "4k"}, "multiple of the block"),
        ({"file_size": 0}, "multiple of the block"),
        ({"block": 1000}, "multiple of 512"),
        ({"phases": ["block_write", "block_write"]}, "at most once"),
        ({"phases": []}, "at least one"),
        ({"phases": "blockwrite"}, "phases"),
        ({"direct": True, "phases": "char_read"}, "direct does not go with"),
        ({"sync_kind": "dsync", "sync_every": 2}, "sync_every has to be 1"),
        ({"threads": 0}, "threads"),
    ],
)
def test_what_cannot_be_is_refused(values: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        FilesParameters(**({"data": "disk", "file_size": "64k"} | values))


def test_direct_leaves_the_characters_out() -> None:
    parameters = FilesParameters(data="d", file_size="64k", direct=True)
    assert parameters.effective_phases() == [p for p in USUAL_PHASES if not p.startswith("char_")]


@pytest.mark.system
def test_the_cores_own_error_is_the_runs(scratch: Path) -> None:
    with pytest.raises(RunFailed) as caught:
        run_files(scratch, file_size="64k", files=100)
    assert caught.value.what == "files: size_bytes = 65536 cannot be used"
    assert caught.value.why == "each file and each thread needs a block of its own"
    assert caught.value.fix.startswith("Right would be")


def latency(*values_ns: int) -> dict[str, Any]:
    histogram = Histogram(3)
    for value in values_ns:
        histogram.record(value)
    return {
        "count": len(values_ns),
        "p50_ns": histogram.quantile(0.5),
        "p99_ns": histogram.quantile(0.99),
        "relative_error": 0.001,
        "v2_base64": base64.b64encode(histogram.to_v2()).decode(),
    }


def phase(**values: Any) -> dict[str, Any]:
    made: dict[str, Any] = {
        "phase": "block_read",
        "start_monotonic_ns": 5_000,
        "wall_ns": 2_000_000_000,
        "cpu_ns": 3_000_000_000,
        "bytes": 1000,
        "operations": 10,
        "latency": latency(100, 200),
        "sync": None,
        "final_sync": None,
        "final_sync_ns": 0,
        "series": {"interval_ns": 10, "bytes": [1, 2], "operations": [3, 4]},
        "errors": {"content_mismatches": 0, "short_reads": 0, "short_writes": 0},
        "first_mismatch": None,
        "checked_blocks": 4,
    }
    return made | values


def test_rates_by_hand() -> None:
    metrics = phase_metrics([phase(), phase(phase="seeks", sync={"latency": latency(1_000_000)})])
    assert metrics["input_block_bytes_per_s"].value == 500.0
    assert metrics["input_block_cpu_pct"].value == 150.0
    assert metrics["random_seeks_per_s"].value == 5.0
    # Histogram: the upper edge of the value's bucket, at most 0.1 % above it.
    assert 1.0 <= metrics["random_seeks_sync_p99_ms"].value <= 1.001
    assert [n for n, m in metrics.items() if m.primary] == ["input_block_bytes_per_s"]
    with pytest.raises(RunFailed, match="took no time"):
        phase_metrics([phase(wall_ns=0)])


def test_tables_by_hand() -> None:
    result = {"start_monotonic_ns": 4_000, "phases": [phase()]}
    assert series_table(result).to_pylist() == [
        {"t_ns": 1_000, "phase": "input_block", "bytes": 1, "operations": 3},
        {"t_ns": 1_010, "phase": "input_block", "bytes": 2, "operations": 4},
    ]
    rows = histograms_table([phase(latency=latency(100, 100, 200))]).to_pylist()
    assert [(row["low_ns"], row["high_ns"], row["count"]) for row in rows] == [
        (100, 100, 2),
        (200, 200, 1),
    ]
    assert histograms_table([phase(latency=None)]).num_rows == 0


def test_completions_are_those_of_whole_intervals_before_the_final_sync() -> None:
    series = {"interval_ns": 10, "bytes": [0] * 6, "operations": [3, 4, 5, 0, 0, 0]}
    result = {"start_monotonic_ns": 4_000, "phases": [phase(series=series, data_ns=29)]}
    assert completions(result) == [Completions(1_000, 10, [3, 4])]


def test_wrong_data_is_a_violation() -> None:
    errors = {"content_mismatches": 1, "short_reads": 0, "short_writes": 0}
    check = content_check([phase(errors=errors, first_mismatch="file 0, block 7")])
    assert check.verdict == "violation"
    assert "block 7" in check.message
    assert content_check([phase()]).verdict == "ok"
    assert content_check([phase(checked_blocks=0)]).verdict == "unknown"
    assert content_check([phase(phase="block_write", checked_blocks=0)]).verdict == "ok"


def test_a_debug_build_publishes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nfslab._core.build_info", lambda: {"profile": "debug"})
    answer = FilesWorkload.available()
    assert not answer.ok
    assert "debug build" in answer.reason

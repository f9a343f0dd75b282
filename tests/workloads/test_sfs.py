"""Offered load as a workload: parameters reach the core, figures follow from its points."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from nfslab.errors import RunFailed
from nfslab.evidence.offered_load.operations import read_run, together
from nfslab.experiment.preflight import Obstacle, preflight
from nfslab.experiment.reading import read_experiment
from nfslab.mounts.none import NfsExport
from nfslab.targets.nfs import NfsTarget
from nfslab.workloads.base import Completions, Outcome
from nfslab.workloads.sfs import SfsParameters, SfsWorkload
from nfslab.workloads.sfs_point import completions, point_checks, point_metrics
from pydantic import ValidationError

from tests.hosts.here import HERE
from tests.workloads.run_context import Run, run_of

EXPORT = NfsExport("127.0.0.1:/export", ["port=5", "mountport=5", "rsize=16384"])


def workload(**values: Any) -> SfsWorkload:
    return SfsWorkload(SfsParameters(**({"data": "server", "load": 300} | values)))


def run_sfs(scratch: Path, store: str = "memory", **values: Any) -> tuple[Outcome, Run]:
    short = {"files": 60, "warm_up": "0.1s", "duration": "1s"}
    work = workload(**(short | values))
    if not work.check().ok:
        pytest.skip(work.check().reason)
    name = f"sfs-{uuid.uuid4().hex[:8]}"
    with run_of(work, scratch, name=name, places={}) as run:
        target = NfsTarget(
            "server", NfsTarget.Parameters(client="none", directory=str(scratch), store=store)
        )
        place = target.up(run.context.resources, HERE)
        run.context.places["data"] = place
        target.offer(place, run.context.services)
        try:
            work.prepare(run.context)
            return work.measure(run.context), run
        finally:
            target.down(place)


@pytest.mark.system
@pytest.mark.parametrize("generators", [1, pytest.param(2, marks=pytest.mark.long)])
def test_a_run_is_its_point(scratch: Path, generators: int) -> None:
    """Metrics, tables, and the quantiles that a report reads are those that the point had."""
    outcome, run = run_sfs(scratch, mix="laddis", files=200, generators=generators)
    point = json.loads((run.context.folder / "logs" / "sfs.json").read_text())
    assert outcome.metrics["achieved_ops_per_s"].value == point["achieved_ops_per_s"]
    assert outcome.metrics["achieved_ops_per_s"].primary
    assert len({one["pid"] for one in point.get("processes", [])}) in (0, generators)
    assert (point["mounts"][0]["files_found"], point["mounts"][0]["files_made"]) == (200, 0)
    series = outcome.samples["series"].to_pydict()
    assert sum(series["operations"]) == sum(row["ended"] for row in point["operations"])
    assert series["t_ns"][0] == 0
    counts = outcome.samples["histograms"].to_pandas().groupby("phase")["count"].sum()
    assert counts["nfs_operations"] == point["answered"]
    rows = outcome.samples["operations"].to_pylist()
    assert sum(row["answered"] for row in rows) == point["answered"]
    timed = run.context.timed
    assert timed.end_ns - timed.start_ns == 1_100_000_000, "the warm-up and the window"
    (run.context.folder / "samples").mkdir()
    for name in ("operations", "histograms"):
        path = run.context.folder / "samples" / f"{name}.parquet"
        pq.write_table(outcome.samples[name], path)
    read = {one.operation: one for one in together([read_run(run.context.folder)])}
    assert len(read) == len(point["operations"]) > 8
    for row in point["operations"]:
        response, found = row["response"], read[row["operation"]].response_ms
        assert read[row["operation"]].answered == row["answered"]
        if row["answered"]:
            names = {"p50": "p50_ns", "p90": "p90_ns", "p99": "p99_ns", "p99.9": "p999_ns"}
            expected = {name: response[key] / 1e6 for name, key in names.items()}
            assert {name: found[name] for name in names} == expected
            assert found["mean"] == pytest.approx(response["mean_ns"] / 1e6)


def test_a_target_that_is_mounted_is_refused(scratch: Path) -> None:
    with run_of(workload(), scratch, name="sfs-refused", places={"data": scratch / "d"}) as run:
        run.context.services.nfs_exports.clear()
        with pytest.raises(RunFailed, match="no export"):
            workload().prepare(run.context)


def test_every_parameter_reaches_the_plan(scratch: Path) -> None:
    def plan(**values: Any) -> dict[str, Any]:
        work, name = workload(**values), f"sfs-plan-{uuid.uuid4().hex[:8]}"
        with run_of(work, scratch, name=name, places={"data": scratch / name / "d"}, seed=5) as run:
            run.context.services.nfs_exports[run.context.places["data"].target] = EXPORT
            return work._point(run.context).plan()

    closed = plan(
        mode="closed", clients=5, processes=4, think="constant", warm_up="1s", duration="2s",
        cool_down="3s", threads=2, bytes_per_op="64k", verify_share=0.5, seed=9, silence="4s",
    )  # fmt: skip
    assert closed["servers"] == [
        {"address": "127.0.0.1", "export": "/export", "options": "port=5,mountport=5,rsize=16384"}
    ]
    load = {"mode": "closed", "rate_ops_per_s": 300, "clients": 5, "processes": 4}
    assert closed["load"] == load | {"think": "constant"}
    expected = {
        "warm_up_s": 1, "measure_s": 2, "cool_down_s": 3, "threads": 2, "verify_share": 0.5,
        "seed": 9, "repetition": 5, "silence_limit_s": 4, "record_calls": 0,
    }  # fmt: skip
    assert {name: closed[name] for name in expected} == expected
    assert closed["file_set"]["bytes_per_op_per_s"] == 65536
    opened = plan(arrivals="uniform", outstanding=7, files=3, calls=True, calibration=True)
    assert opened["load"] == {
        "mode": "open", "rate_ops_per_s": 300, "arrivals": "uniform", "outstanding_max": 7,
    }  # fmt: skip
    assert (opened["file_set"]["files"], opened["file_set"]["calibration"]) == (3, True)
    assert opened["record_calls"] > 0


def test_the_set_grows_with_the_offered_load_and_nothing_else() -> None:
    def needed(**values: Any) -> int:
        return workload(**values).estimate_bytes()["data"] - (16 << 20)

    # 5 MiB for each operation a second in LADDIS, and room to grow.
    assert needed(mix="laddis") == pytest.approx(300 * 5 * 2**20 * 1.15)
    assert needed(mix="laddis", load=600) == pytest.approx(2 * needed(mix="laddis"), rel=1e-6)
    crowd = {"mode": "closed", "clients": 50, "threads": 4}
    assert needed(mix="laddis", **crowd) == needed(mix="laddis")
    assert needed(mix="laddis", files=10) == pytest.approx(10 * 139_264 * 1.15, abs=1)


def point(**changed: Any) -> dict[str, Any]:
    whole: dict[str, Any] = {
        "valid": True, "reasons": [], "plan": {"load": {"mode": "open"}}, "arrivals": 300,
        "window_start_ns": 10**9, "window_end_ns": 4 * 10**9,
        "threads": [{"cpu_share": 0.5}], "late": {"p99_ns": 9},
        "verified_bytes": 1, "achieved_ops_per_s": 97.0, "offered_ops_per_s": 100.0,
        "outstanding_mean": 2.0, "response": {"mean_ns": 2e6, "p99_ns": 7_000_000},
        "operations": [],
    }  # fmt: skip
    return whole | changed


def test_a_point_that_does_not_count_fails_the_run() -> None:
    (check,) = point_checks(point())
    assert (check.verdict, check.values["generator_cpu_share"]) == ("ok", 0.5)
    reasons = [{"kind": "generator_cpu", "text": "thread 0 used 97 % of a core"}]
    (check,) = point_checks(point(valid=False, reasons=reasons))
    assert (check.verdict, check.message) == ("violation", "thread 0 used 97 % of a core")
    (check,) = point_checks(point(valid=False, reasons=reasons), emulated=True)
    assert check.verdict == "unknown"
    assert "thread 0 used 97 % of a core" in check.message
    reasons.append({"kind": "unexpected", "text": "unexpected answers"})
    (check,) = point_checks(point(valid=False, reasons=reasons), emulated=True)
    assert check.verdict == "violation"
    (check,) = point_checks(point(), emulated=True)
    assert check.verdict == "unknown"
    metrics = point_metrics(point())
    assert (metrics["saturated"].value, metrics["response_p99_ms"].value) == (1.0, 7.0)


def test_completions_are_those_of_the_window() -> None:
    series = {"start_ns": 10**9, "interval_ns": 10**8, "answered": list(range(40))}
    (start_ns, at_ns) = (10**9 - 500, 500)
    found = completions(point(series=series, start_monotonic_ns=start_ns))
    assert found == Completions(at_ns, 10**8, list(range(30)))


def test_metrics_have_what_arrived_of_an_open_load() -> None:
    def values(**changed: Any) -> tuple[float, float | None]:
        metrics = point_metrics(point(**changed))
        arrived = metrics.get("arrived_ops_per_s")
        return metrics["saturated"].value, None if arrived is None else arrived.value

    # 97 a second were achieved of 100 offered.
    assert values() == (1.0, 100.0)
    assert values(arrivals=291) == (0.0, 97.0)
    closed = {"plan": {"load": {"mode": "closed"}}}
    assert values(arrivals=291, answered=90_000, **closed) == (1.0, None)
    assert values(arrivals=291, answered=291, **closed) == (0.0, None)


def test_a_mounted_target_is_refused_before_anything_runs(scratch: Path) -> None:
    """Not by the run alone: a plan that says that all can run is believed."""
    text = (
        '[experiment]\nname = "mounted"\nrepetitions = 1\n'
        f'[targets.share]\nkind = "nfs"\nclient = "CLIENT"\ndirectory = "{scratch}"\n'
        '[workload]\nkind = "sfs"\ndata = "share"\nload = 100\nfiles = 50\n'
    )
    found: dict[str, list[Obstacle]] = {}
    for client in ("user", "none"):
        path = scratch / f"sfs-{client}.toml"
        path.write_text(text.replace("CLIENT", client))
        blocked = preflight(read_experiment(path).points).blocked
        found[client] = [one for _, all_of in blocked for one in all_of]
    (obstacle,) = [one for one in found["user"] if "no export" in one.reason]
    assert 'client = "none"' in obstacle.fix
    assert not [one for one in found["none"] if "no export" in one.reason]


def test_more_generator_processes_than_a_load_takes() -> None:
    assert workload(outstanding=4096).check_hosts(2, 128).ok
    refused = workload(outstanding=4096).check_hosts(3, 128)
    assert "384" in refused.reason
    assert "256" in refused.fix
    assert "one generator process" in workload(calls=True).check_hosts(2, 1).reason


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"load": 0}, "greater than 0"),
        ({"mix": "sfs33"}, "did you mean sfs3"),
        ({"mix_table": {"mix": {}}}, "not whole"),
        ({"files": 1, "bytes_per_op": "1k"}, "exclude"),
        ({"calls": True, "generators": 2}, "one generator process"),
        ({"duration": 0}, "greater than 0"),
    ],
)
def test_what_cannot_be(values: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValidationError, match=complaint):
        workload(**values)

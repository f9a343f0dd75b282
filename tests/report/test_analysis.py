"""The analysis says what was planted, names what is wrong, and hides nothing."""

from __future__ import annotations

import json
import re
import shutil
import statistics
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from nfslab.display.numbers import quantity
from nfslab.errors import UsageError
from nfslab.evidence.postgres.kind import FlushFigures
from nfslab.report.analysis import analyse, render_json
from nfslab.report.conditions import places
from nfslab.report.model import Analysis, Warning
from nfslab.report.reference import _as_published, _same_unit
from nfslab.report.verdict import OTHER_WAY
from nfslab.results.comparison import compare_selections
from nfslab.results.records import CheckRecord, DurabilityRecord, Metric, PlaceRecord
from nfslab.results.selection import parse_selection
from nfslab.results.store import ExperimentFolder
from nfslab.shipped import published_table
from nfslab.statistics.effect_text import effect, headline

from tests.report.designs import write_design
from tests.report.synthetic import Recipe, shared_pgbench, write_files, write_pgbench

QUICK: dict[str, Any] = {"samples": False, "evidence": False}
BONNIE = {
    "table": "bonnie_2001",
    "metric": {
        "output_block_kb_s": "output_block_bytes_per_s",
        "random_seeks_per_s": "random_seeks_per_s",
    },
    "match": {"file_size_mb": "workload.file_size"},
}


def write(folder: Path, **changes: Any) -> ExperimentFolder:
    recipe = {"clients": (1, 5, 10), "repetitions": 6, **QUICK, **changes}
    return write_pgbench(folder, Recipe(**recipe))


def analysed(**changes: Any) -> Analysis:
    recipe = {"clients": (1, 5, 10), "repetitions": 6, **QUICK, **changes}
    return analyse(shared_pgbench(Recipe(**recipe)))


def kinds(analysis: Analysis) -> set[str]:
    return {warning.kind for warning in analysis.warnings}


def warning(analysis: Analysis, kind: str) -> Warning:
    found = [one for one in analysis.warnings if one.kind == kind]
    assert len(found) == 1, [one.text for one in analysis.warnings]
    return found[0]


def test_a_planted_effect_is_found_with_its_size() -> None:
    analysis = analysed(evidence=True)
    assert analysis.primary == "tps"
    assert analysis.baseline == {"placement": "together"}
    rows = analysis.comparisons["tps"]
    assert [(row.base_point, row.point) for row in rows] == [(0, 3), (1, 4), (2, 5)]
    for row in rows:
        assert (row.result.verdict, row.sense) == ("faster", "better")
        assert row.result.ratio == pytest.approx(1.25, rel=0.05)
        assert row.result.n_comparisons == 3
    assert {row.sense for row in analysis.comparisons["latency_p99_ms"]} == {"better"}
    assert re.search(r"\btps\b.*=together\b.*log apart.*\bfaster\b.*\b3\b", analysis.verdict)
    for row in rows:  # each in the one form: medians, ratio, its interval; no range of estimates
        assert effect(row.result) in analysis.verdict
    assert analysis.durability_line == ""
    assert [one for one in analysis.warnings if one.severity != "note"] == []


def test_report_and_compare_say_the_same(tmp_path: Path) -> None:
    """One estimator: the report's rows are those of `nfslab compare`."""
    folder = write(tmp_path, retried=((2, 1),), failed=((1, 4),))
    analysis = analyse(folder.path)
    compared = compare_selections(
        parse_selection(f"{folder.path}:placement=together"),
        parse_selection(f"{folder.path}:placement=log apart"),
        ["tps", "latency_p50_ms"],
    )
    for metric in ("tps", "latency_p50_ms"):
        assert [row.result for row in analysis.comparisons[metric]] == compared.results[metric]


def test_estimates_are_of_the_runs_that_count(tmp_path: Path) -> None:
    folder = write(tmp_path, retried=((0, 0),), failed=((1, 0),), missing=((2, 0),))
    analysis = analyse(folder.path)
    point = analysis.points[0]
    values = [run.metrics["tps"] for run in analysis.runs if run.counted and run.point == 0]
    assert (point.ok, point.failed, point.missing, point.planned) == (4, 1, 1, 6)
    assert point.estimates["tps"].n == len(values) == 4
    assert point.estimates["tps"].median == np.median(values)
    assert sum(run.counted for run in analysis.runs) == 34
    assert len(analysis.runs) == 36
    failures = [(f.run_id[:4], f.attempt, f.superseded, f.phase) for f in analysis.failures]
    assert failures == [("b000", 1, True, "load"), ("b001", 1, False, "load")]
    assert "no space left on device" in analysis.failures[0].reason
    assert warning(analysis, "failed").text.startswith("1 of 36 planned runs failed")
    assert warning(analysis, "missing").text.startswith("1 of 36 planned runs missing")
    assert len(warning(analysis, "attempts").runs) == 1


def test_runs_keep_the_order_in_which_they_were_made() -> None:
    positions = [run.position for run in analysed().runs]
    assert positions == sorted(positions)


def test_unequal_durability_is_the_first_line() -> None:
    analysis = analysed(volatile=("log apart",))
    base, _, other = analysis.durability_line.partition("placement=log apart")
    assert base.startswith("UNEQUAL DURABILITY")
    assert "stable" in base
    assert "volatile" not in base
    assert "volatile" in other
    assert "tmpfs" in other
    assert analysis.points[0].durability == ["stable"]
    assert analysis.points[3].durability == ["volatile"]


def test_unequal_durability_is_told_without_comparisons(tmp_path: Path) -> None:
    """A numeric baseline pairs points of equal placement: the points still differ."""
    folder = write(tmp_path, volatile=("log apart",))
    analysis = analyse(folder.path, baseline={"clients": 1})
    assert analysis.durability_line.startswith("UNEQUAL DURABILITY: the configurations")


def test_equally_volatile_is_a_warning_not_a_first_line() -> None:
    analysis = analysed(volatile=("together", "log apart"))
    assert analysis.durability_line == ""
    assert "volatile" in warning(analysis, "durability").text


def test_checks_become_one_warning_each_with_all_their_runs() -> None:
    flagged = {
        (block, 2): CheckRecord(name="not_steady", verdict="warning", message="still warming up")
        for block in range(4)
    }
    flagged[(5, 1)] = CheckRecord(name="littles_law", verdict="violation", message="2.0 of 5")
    analysis = analysed(flagged=flagged)
    assert analysis.warnings[0].kind == "littles_law"
    assert analysis.warnings[0].severity == "violation"
    steady = warning(analysis, "not_steady")
    assert len(steady.runs) == 4
    assert steady.text == "not_steady: warning in 4 of 36 runs: still warming up"
    marked = {run.run_id for run in analysis.runs if "not_steady:warning" in run.flags}
    assert marked == set(steady.runs)


def test_a_changed_machine_is_told() -> None:
    analysis = analysed(machine_changes_at_block=2)
    text = warning(analysis, "machine").text
    assert "kernel.release: 6.1.0-21-amd64 (24 runs), 6.1.0-18-amd64 (12 runs)" in text
    assert [setup.runs for setup in analysis.setups] == [24, 12]
    assert "machine" not in kinds(analysed())


def test_changed_mount_options_are_told() -> None:
    analysis = analysed(mount_changes_at_block=5)
    assert "rw,noatime / rw,relatime" in warning(analysis, "places").text
    assert {place.mount_options for place in analysis.places} == {"rw,relatime", "rw,noatime"}


def test_one_repetition_is_significance_unknown() -> None:
    analysis = analysed(repetitions=1)
    assert warning(analysis, "one_run").text.startswith("one run at every configuration")
    assert "significance unknown (n=1) at all 3 configurations" in analysis.verdict
    assert {row.sense for row in analysis.comparisons["tps"]} == {"unknown"}


def test_equal_placements_show_no_difference() -> None:
    analysis = analysed(placements={"one": 1.0, "other": 1.0}, seed=3)
    assert analysis.verdict.endswith("other inconclusive at all 3 configurations.")


def test_a_ratio_that_one_run_turns_round_is_told() -> None:
    """A hundredth more at every run but one of the base, which is 4.5 times its like."""
    recipe: dict[str, Any] = {
        "placements": {"one": 1.0, "other": 1.01}, "clients": (5,), "spread": 0.001,
        "block_spread": 0.0,
    }  # fmt: skip
    plain = analysed(**recipe)
    assert OTHER_WAY not in plain.verdict
    pulled = analysed(odd={(0, 0): 4.5}, **recipe)
    (row,) = pulled.comparisons["tps"]
    assert (row.result.estimate or 0.0) < 0
    assert pulled.verdict.endswith(f"{OTHER_WAY}.")


def test_points_that_are_not_shown_to_differ_are_named_without_a_figure(tmp_path: Path) -> None:
    """Twice as fast with one client; 1.02 and 0.98 times, below what is shown, with 5 and 10."""

    def truth(placement: str, clients: int) -> float:
        return 100.0 * clients * (1 if placement == "one" else {1: 2.0, 5: 1.02, 10: 0.98}[clients])

    axes = {"placement": ("one", "other"), "clients": (1, 5, 10)}
    analysis = analyse(write_design(tmp_path, axes, truth))
    shown, *equal = analysis.comparisons["tps"]
    assert [row.result.shown for row in (shown, *equal)] == [True, False, False]
    medians = [
        analysis.points[at].estimates["tps"].median for at in (shown.base_point, shown.point)
    ]
    sides = " → ".join(quantity(median, "1/s") for median in medians)
    said = f"clients=1 {sides}, {effect(shown.result)}"
    assert analysis.verdict.count(said) == 1
    assert analysis.verdict.endswith("; inconclusive at clients=5, clients=10.")
    assert re.findall(r"\d+", analysis.verdict.replace(said, "")) == ["5", "10"]


def test_one_point_against_another_is_told_whole() -> None:
    analysis = analysed(placements={"one": 1.0, "other": 1.0}, clients=(4,), seed=3)
    (row,) = analysis.comparisons["tps"]
    medians = [analysis.points[at].estimates["tps"].median for at in (row.base_point, row.point)]
    sides = " → ".join(quantity(median, "1/s") for median in medians)
    assert analysis.verdict == (
        f"tps against placement=one: other {sides}: {headline(row.result)}."
    )


def test_the_runs_are_the_truth_not_the_catalogue(tmp_path: Path) -> None:
    folder = write(tmp_path)
    path = folder.path / "catalogue.jsonl"
    rows = [json.loads(row) for row in path.read_text().splitlines()]
    for row in rows:
        row["metrics"]["tps"] *= 100
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    record = folder.run_record(rows[0]["run_id"])
    run = next(run for run in analyse(folder.path).runs if run.run_id == record.run_id)
    assert run.metrics["tps"] == record.metrics["tps"].value


def test_a_damaged_run_is_named_even_when_the_catalogue_has_it(tmp_path: Path) -> None:
    folder = write(tmp_path)
    victim = folder.sealed_runs()[7].run_id
    (folder.runs_path / victim / "run.json").write_text('{"schema_version": 1')
    folder.begin_run("b099-00000000-a1")
    analysis = analyse(folder.path)
    assert list(analysis.damaged) == [victim]
    assert analysis.warnings[0].kind == "damaged"
    assert analysis.warnings[0].severity == "violation"
    assert victim in analysis.warnings[0].text
    assert victim not in {run.run_id for run in analysis.runs}
    assert analysis.missing_runs == 1
    assert analysis.partial == ["b099-00000000-a1"]
    assert warning(analysis, "partial").severity == "note"


def test_odd_values_are_kept_and_told(tmp_path: Path) -> None:
    folder = write(tmp_path)
    record = folder.run_record(folder.sealed_runs()[0].run_id)
    for number, value in enumerate((float("nan"), -5.0)):
        metrics = {**record.metrics, "tps": Metric(value=value, unit="1/s", better="higher")}
        metrics["tps"].primary = True
        run_id = f"b{90 + number:03}-{record.point_id}-a1"
        update = {"run_id": run_id, "block": 90 + number, "metrics": metrics}
        folder.begin_run(run_id).seal(record.model_copy(update=update), {})
    analysis = analyse(folder.path)
    assert warning(analysis, "not_finite").runs == [f"b090-{record.point_id}-a1"]
    assert warning(analysis, "negative").runs == [f"b091-{record.point_id}-a1"]
    assert analysis.points[record.point_index].estimates["tps"].n == 7
    assert '"NaN"' in render_json(folder.path)


def test_a_baseline_can_be_stated(tmp_path: Path) -> None:
    folder = write(tmp_path)
    analysis = analyse(folder.path, baseline={"placement": "log apart"})
    assert {row.result.verdict for row in analysis.comparisons["tps"]} == {"slower"}
    assert analysis.baseline_reason == "stated"
    with pytest.raises(UsageError, match="no axis 'placment'") as caught:
        analyse(folder.path, baseline={"placment": "together"})
    assert "placement" in caught.value.fix
    with pytest.raises(UsageError, match="no level"):
        analyse(folder.path, baseline={"placement": "apart"})


def test_a_numeric_axis_is_the_baseline_when_there_is_no_other() -> None:
    analysis = analysed(placements={"together": 1.0})
    assert analysis.baseline == {"clients": 1}
    assert len(analysis.comparisons["tps"]) == 2
    lines = analysis.verdict.splitlines()
    assert [line.endswith(": faster.") for line in lines] == [True, True]
    assert "clients=5 " in lines[0]


def test_a_single_point_has_estimates_and_no_comparison() -> None:
    analysis = analysed(placements={"together": 1.0}, clients=(4,))
    assert analysis.baseline == {}
    assert analysis.comparisons == {}
    assert analysis.verdict.startswith("tps ")
    assert "(n=6, " in analysis.verdict
    assert analysis.verdict.endswith("Nothing was compared.")


def test_an_experiment_without_a_good_run() -> None:
    every = tuple((block, point) for block in range(2) for point in range(2))
    analysis = analysed(clients=(1,), repetitions=2, failed=every)
    assert analysis.verdict.startswith("No run is ok")
    assert analysis.primary is None
    assert len(analysis.failures) == 4
    json.loads(render_json(Path(analysis.path)))


def test_an_experiment_without_any_run(tmp_path: Path) -> None:
    folder = write(tmp_path, clients=(1,), repetitions=1)
    shutil.rmtree(folder.runs_path)
    folder.runs_path.mkdir()
    analysis = analyse(folder.path)
    assert analysis.missing_runs == 2
    assert analysis.runs == []


def test_flushes_come_from_the_server() -> None:
    """The recipe plants one flush a transaction at 0.97 ms."""
    analysis = analysed(clients=(1,), evidence=True)
    for point in analysis.points:
        flushes = point.figures["fsync"]
        assert isinstance(flushes, FlushFigures)
        assert flushes.runs == 6
        assert flushes.flushes_per_transaction == pytest.approx(1.0)
        assert flushes.mean_ms == pytest.approx(0.97)
    without = analysed(clients=(1,))
    assert [point.figures["fsync"] for point in without.points] == [None, None]


def test_conditions_in_effect_are_listed() -> None:
    analysis = analysed(restored_copy=True, excluded=3, evidence=True)
    assert analysis.versions["kernel"] == "6.1.0-18-amd64"
    assert analysis.versions["PostgreSQL"] == "16.2"
    assert {(place.role, place.target, place.runs) for place in analysis.places} == {
        ("data", "disk", 36),
        ("wal", "disk", 18),
        ("wal", "log1", 18),
    }
    assert "free_bytes" not in analysis.places[0].facts  # differs from run to run
    assert analysis.server["settings.shared_buffers"] == ["128MB"]
    assert analysis.varied["workload.clients"] == [1, 5, 10]
    assert analysis.fixed["workload.scale"] == 10
    assert not any(path.startswith("workload.clients") for path in analysis.fixed)
    assert analysis.collectors["system"]["cpu_share"] == pytest.approx(0.01)
    assert analysis.notes == [
        "the data directory was restored from a copy loaded once for this point"
    ]
    assert "excluded" in kinds(analysis)


def test_a_published_table_is_laid_beside(tmp_path: Path) -> None:
    """Cells of the 2001 table, converted by hand: K is 1024 bytes, M is 2^20 bytes."""
    folder = write_files(tmp_path, reference=BONNIE)
    analysis = analyse(folder.path)
    reference = analysis.reference
    assert reference is not None
    assert reference.problem == ""
    scsi_100 = [row for row in reference.rows if row.number == 0]
    assert [row.cells["storage"] for row in scsi_100] == ["SCSI-ext2"] * 2
    assert [row.point for row in scsi_100] == [0, 4]  # local and stripe at 100M
    assert scsi_100[0].values["output_block_bytes_per_s"] == 225896 * 1024
    median = analysis.points[0].estimates["output_block_bytes_per_s"].median
    assert median is not None
    assert scsi_100[0].ratios["output_block_bytes_per_s"] == pytest.approx(median / (225896 * 1024))


def test_a_metric_in_the_published_unit_is_compared_as_it_is() -> None:
    """New orders a minute beside the same; transactions a second by the factor."""
    about = tomllib.loads(published_table("dbt2_kernel_ab_2003").with_suffix(".toml").read_text())
    units = {"new_orders_per_min": "1/min", "tps": "1/s", "wall_s": "s"}
    metrics: Any = SimpleNamespace(
        metrics={name: SimpleNamespace(unit=unit) for name, unit in units.items()}
    )
    for name, (same, as_it_is) in {
        "new_orders_per_min": (True, True), "tps": (True, False), "wall_s": (False, False),
    }.items():  # fmt: skip
        asked = (metrics, about["columns"], "new_order_tpm", name)
        assert (_same_unit(*asked), _as_published(*asked)) == (same, as_it_is)


def test_a_reference_that_leads_nowhere_is_told(tmp_path: Path) -> None:
    gone = analyse(write_files(tmp_path / "a", reference={"table": "lost"}).path).reference
    assert gone is not None
    assert "lost" in gone.problem
    wrong: dict[str, Any] = {
        "table": "bonnie_2001",
        "metric": {"random_seeks_per_s": "output_block_bytes_per_s", "nothing": "tps"},
        "match": {},
    }
    found = analyse(write_files(tmp_path / "b", reference=wrong).path).reference
    assert found is not None
    assert "'nothing'" in found.problem
    assert all(row.ratios == {} and row.point is None for row in found.rows)


def test_axes_are_described_for_plots(tmp_path: Path) -> None:
    axes = analyse(write_files(tmp_path).path).axes
    assert [axis.numeric for axis in axes] == [False, True]
    assert axes[1].numbers == [size * 2**20 for size in (100, 200, 500, 1000)]
    assert axes[1].log
    assert axes[0].numbers is None


def test_the_json_is_the_analysis() -> None:
    analysis = analysed()
    content = json.loads(
        render_json(analysis), parse_constant=lambda name: pytest.fail(f"{name} is no JSON")
    )
    assert content["verdict"] == analysis.verdict
    assert content["points"][0]["estimates"]["tps"]["median"] == pytest.approx(
        analysis.points[0].estimates["tps"].median
    )
    row = content["comparisons"]["tps"][0]["result"]
    assert row["verdict"] == "faster"
    assert row["interval"]["low"] > 1


def test_nothing_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no experiment"):
        analyse(tmp_path)
    with pytest.raises(UsageError, match="cannot read"):
        analyse(tmp_path / "nowhere")


def test_what_collectors_summed_up_is_not_pooled_over_unlike_points() -> None:
    """The recipe plants as many syncs as transactions, and unlike points have unlike numbers."""
    analysis = analysed(clients=(1, 10), evidence=True)
    syncs = analysis.evidence["postgres"]["deltas.pg_stat_wal.wal_sync"]
    assert set(syncs) == {point.point_id for point in analysis.points}
    for place, point in enumerate(analysis.points):
        of_point = [
            int(run.metrics["tps"] * Recipe().measured_s)
            for run in analysis.runs
            if run.counted and run.point == place
        ]
        assert syncs[point.point_id] == {
            "n": len(of_point),
            "median": statistics.median(of_point),
            "minimum": min(of_point),
            "maximum": max(of_point),
        }
    assert len({one["median"] for one in syncs.values()}) == len(syncs)


@pytest.mark.parametrize("point", [0, 1], ids=["the base", "the other"])
def test_a_point_whose_runs_all_failed_is_said_in_the_headline(tmp_path: Path, point: int) -> None:
    failed = tuple((block, point) for block in range(3))
    recipe = Recipe(clients=(4,), repetitions=3, failed=failed, samples=False, evidence=False)
    assert "no run" in analyse(write_pgbench(tmp_path, recipe).path).verdict


def test_ports_that_a_server_has_anew_make_no_other_place() -> None:
    place = PlaceRecord(
        target="nfs", kind="nfs", path="/m", filesystem="nfs", source="", mount_point="/m",
        mount_options="",
        durability=DurabilityRecord(level="volatile", reasons=[]),
    )  # fmt: skip
    runs = [
        SimpleNamespace(places={"data": place.model_copy(update={"mount_options": options})})
        for options in ("rw,port=40001,hard,mountport=40002", "rw,port=40003,hard,mountport=40004")
    ]
    (one,) = places(runs)  # type: ignore[arg-type]
    assert (one.mount_options, one.runs) == ("rw,hard", 2)

"""The checks get the right inputs: planted causes come out, and absent data is "unknown"."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from nfslab.evidence.collector import Evidence
from nfslab.experiment.validity import Clocks, validity_checks
from nfslab.machine.cgroup import memory_cgroup_available
from nfslab.results.records import CheckRecord, LoadShape, Metric
from nfslab.workloads.base import Completions, Outcome

from tests.experiment.fakes import FormulaWorkload
from tests.experiment.session_support import left_behind, only_folder, records, run
from tests.machine import needs
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable

SECOND = 1_000_000_000


def closed_loop(
    clients: int = 4, seconds: float = 10.0, latency_ns: int = 5_000_000, lag: bool = False
) -> Outcome:
    """Every client is always inside a transaction of exactly `latency_ns`."""
    count = int(seconds * SECOND / latency_ns)
    completed = np.tile(np.arange(1, count + 1) * latency_ns, (clients, 1)).T.ravel()
    table = {
        "t_ns": completed,
        "latency_ns": np.full(completed.size, latency_ns),
        "status": np.zeros(completed.size, np.int8),
    }
    if lag:
        table["lag_ns"] = np.full(completed.size, latency_ns // 2)
    return Outcome(
        metrics={"measured_s": Metric(value=seconds, unit="s")},
        samples={"transactions": pa.table(table)},
        operations="transactions",
    )


THROTTLED = LoadShape(kind="open", clients=4, rate_per_s=800.0)


def checks_of(outcome: Outcome | None, **changes: Any) -> dict[str, CheckRecord]:
    clocks = Clocks()
    clocks.read()
    clocks.read()
    given: dict[str, Any] = {
        "load": LoadShape(kind="closed", clients=4),
        "evidence": {},
        "provenance": {},
        "clocks": clocks,
    }
    found = validity_checks(outcome, **(given | changes))
    return {check.name: check for check in found}


def test_a_true_closed_loop_passes() -> None:
    checks = checks_of(closed_loop())
    assert checks["littles_law"].verdict == "ok"
    # 10 s x 200 transactions/s and client x 5 ms: exactly as many as there are clients.
    assert checks["littles_law"].values["in_flight"] == pytest.approx(4.0, rel=1e-9)
    assert checks["not_steady"].verdict == "ok"
    assert checks["clock_steps"].verdict == "ok"


def test_latencies_that_cannot_be_are_a_violation() -> None:
    checks = checks_of(closed_loop(), load=LoadShape(kind="closed", clients=2))
    assert checks["littles_law"].verdict == "violation"


def test_a_sampled_log_is_scaled_up() -> None:
    outcome = closed_loop()
    table = outcome.samples["transactions"]
    outcome.samples["transactions"] = table.take(list(range(0, table.num_rows, 10)))
    checks = checks_of(replace(outcome, sampled_share=0.1))
    assert checks["littles_law"].values["in_flight"] == pytest.approx(4.0, rel=0.01)


def test_skipped_operations_were_in_no_clients_hands() -> None:
    outcome = closed_loop()
    table = outcome.samples["transactions"]
    skipped = pa.table(
        {
            "t_ns": np.arange(1, 2001) * 5_000_000,
            "latency_ns": np.full(2000, 60 * SECOND),
            "status": np.full(2000, 2, np.int8),
        }
    )
    outcome.samples["transactions"] = pa.concat_tables([table, skipped])
    assert checks_of(outcome)["littles_law"].values["in_flight"] == pytest.approx(4.0, rel=1e-9)


def test_with_a_rate_the_lag_is_taken_off() -> None:
    checks = checks_of(closed_loop(lag=True), load=THROTTLED)
    assert checks["littles_law"].values["in_flight"] == pytest.approx(2.0, rel=1e-9)
    without = checks_of(closed_loop(), load=THROTTLED)
    assert without["littles_law"].verdict == "unknown"


def test_a_planted_warm_up_is_seen() -> None:
    """For the first three seconds only a fifth of the later rate."""
    slow = np.arange(1, 151) * 20_000_000
    fast = 3 * SECOND + np.arange(1, 1751) * 4_000_000
    completed = np.concatenate([slow, fast])
    outcome = Outcome(
        metrics={"measured_s": Metric(value=10.0, unit="s")},
        samples={
            "transactions": pa.table(
                {"t_ns": completed, "latency_ns": np.full(completed.size, 4_000_000)}
            )
        },
        operations="transactions",
    )
    check = checks_of(outcome, load=LoadShape(kind="closed", clients=1))["not_steady"]
    assert check.verdict == "warning"
    assert check.values["warm_up_ns"] == pytest.approx(3 * SECOND, rel=0.15)


def test_of_a_workload_without_operations_dead_time_is_unknown() -> None:
    checks = checks_of(Outcome(metrics={}))
    assert set(checks) == {"clock_steps", "busy_machine", "stall"}
    assert checks["stall"].verdict == "unknown"


def test_competing_load_before_and_steal_during() -> None:
    assert checks_of(None)["busy_machine"].verdict == "unknown"
    busy = {"load_before": {"others_cpus": 1.0}, "cpu": {"logical": 2}}
    check = checks_of(None, provenance=busy)["busy_machine"]
    assert check.verdict == "warning"
    assert check.values["others_before"] == 0.5
    # Before the timed part (t < 0) steal does not count.
    table = pa.table({"t_ns": [-1, 0, 1], "steal": [0.9, 0.2, 0.4]})
    quiet = {"load_before": {"others_cpus": 0.0}, "cpu": {"logical": 2}}
    seen = {"system": Evidence(tables={"system_cpu": table})}
    check = checks_of(None, provenance=quiet, evidence=seen)["busy_machine"]
    assert check.values["steal_during"] == pytest.approx(0.3)
    assert check.verdict == "warning"


def test_what_others_use_meanwhile_is_told() -> None:
    check = checks_of(None, others_during=0.4)["busy_machine"]
    assert (check.verdict, check.values["others_during"]) == ("warning", 0.4)


def test_a_step_of_the_wall_clock_is_seen() -> None:
    clocks = Clocks()
    for _ in range(4):
        clocks.read()
    clocks.wall_ns[2:] = [wall + 3 * SECOND for wall in clocks.wall_ns[2:]]
    check = checks_of(None, clocks=clocks)["clock_steps"]
    assert check.verdict == "warning"
    assert check.values["step_sizes_ns"][0] == pytest.approx(3 * SECOND, rel=0.01)


def limited(experiment_file: Callable[..., Path], child: str) -> Path:
    answer = memory_cgroup_available()
    if not answer.ok:
        pytest.skip(f"no memory limit here: {answer.reason}")
    return experiment_file(
        ("drop_page_cache = false", 'drop_page_cache = false\nmemory = "64M"'),
        ('data = "one"', f'data = "one"\nchild = {child}\nmeasure_s = 0.1'),
        ('values = ["one", "two"]', 'values = ["one"]'),
        ("values = [1, 2, 4]", "values = [1]"),
        ("repetitions = 3", "repetitions = 1"),
    )


@pytest.mark.system
def test_the_memory_limit_holds_the_workloads_programs(
    experiment_file: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measure = FormulaWorkload.measure

    def measured(self: FormulaWorkload, context: Any) -> Outcome:
        # Its program may have had no processor so far, and be ended before it took anything.
        status = Path(f"/proc/{self.process.pid}/status")
        rss = re.compile(r"RssAnon:\s+(\d+) kB")
        until(lambda: int(rss.findall(status.read_text())[0]) > 1024)
        return measure(self, context)

    monkeypatch.setattr(FormulaWorkload, "measure", measured)
    path = limited(experiment_file, "true")
    run(path)
    (record,) = records(only_folder(path))
    assert record.status == "ok"
    assert record.memory_limit["limit_bytes"] == 64 << 20
    # A sleeping Python takes a few megabytes.
    assert record.memory_limit["peak_bytes"] is None or (
        1 << 20 < record.memory_limit["peak_bytes"] < 64 << 20
    )
    assert left_behind(tmp_path) == []


@pytest.mark.system
def test_a_memory_limit_that_holds_nothing_fails_the_run(
    experiment_file: Callable[..., Path],
) -> None:
    path = limited(experiment_file, "false")
    run(path)
    (record,) = records(only_folder(path))
    if record.memory_limit.get("peak_bytes") is None:
        pytest.skip("this kernel does not keep the peak of a group")
    assert record.status == "failed"
    assert "nothing of the workload ran inside of the group" in record.reason


GREEDY = """\
[experiment]
name = "greedy"
repetitions = 1
collectors = []
[limits]
memory = "64M"
[targets.one]
kind = "local"
path = "/var/tmp"
[workload]
kind = "command"
data = "one"
argv = ["python3", "-S", "-c", "held = bytearray(256 << 20)"]
"""


@pytest.mark.system
@needs.memory_limit
def test_a_program_that_is_killed_for_the_limit_fails_the_run_with_the_limit_as_its_cause(
    tmp_path: Path,
) -> None:
    path = tmp_path / "greedy.toml"
    path.write_text(GREEDY)
    run(path)
    (record,) = records(only_folder(path))
    assert record.status == "failed"
    assert record.memory_limit["events"]["oom_kill"] >= 1
    assert "limit 64 MiB" in record.reason
    assert "limits.memory" in record.reason
    assert any("python3 was ended by SIGKILL" in note for note in record.notes)


def test_physical_bounds_pass_what_is_possible_and_find_what_is_not() -> None:
    possible = checks_of(closed_loop(latency_ns=5_000_000))
    assert possible["latency_floor"].verdict == "ok"
    # A tenth of a system call's time: nobody was asked anything.
    impossible = checks_of(closed_loop(seconds=0.001, latency_ns=20))
    assert impossible["latency_floor"].verdict == "violation"

    def files(rate: float) -> Outcome:
        metric = Metric(value=rate, unit="bytes/s")
        return Outcome(metrics={"input_block_bytes_per_s": metric})

    slow = checks_of(files(200e6), threads=1)
    assert slow["rate_ceiling"].verdict == "ok"
    fast = checks_of(files(10e12), threads=2)
    assert fast["rate_ceiling"].verdict == "violation"
    assert "input_block_bytes_per_s" in fast["rate_ceiling"].message
    assert "rate_ceiling" not in checks_of(None)


def test_a_stop_in_the_middle_is_named_with_what_the_machine_did() -> None:
    """5 of 14 s: steady state would find no change of level."""
    outcome = closed_loop(seconds=14.0)
    table = outcome.samples["transactions"]
    at = table.column("t_ns").to_numpy()
    stopped = (at > 4 * SECOND) & (at <= 9 * SECOND)
    outcome.samples["transactions"] = table.filter(pa.array(~stopped))
    seconds = np.arange(1, 15)
    idle = np.where((seconds > 4) & (seconds <= 9), 0.98, 0.40)
    cpu = {"t_ns": seconds * SECOND, "idle": idle, "iowait": np.full(14, 0.01)}
    devices = {"t_ns": seconds * SECOND, "device": ["vda"] * 14, "utilisation": 1 - idle}
    tables = {"system_cpu": pa.table(cpu), "system_devices": pa.table(devices)}
    checks = checks_of(outcome, evidence={"system": Evidence(tables=tables)})
    dead = checks["stall"]
    assert dead.verdict == "warning"
    ((begin, end),) = dead.values["stretches"]
    assert (begin, end) == (4 * SECOND, 9 * SECOND + 5_000_000)
    assert "processors 1% busy" in dead.message
    assert "vda 2%" in dead.message
    assert checks["not_steady"].verdict != "ok"


def test_samples_that_reach_beyond_a_stop_say_nothing_of_it() -> None:
    """A stop from 4.8 to 5.3 s; the sample of 4 to 5 s is mostly of the time before."""
    outcome = closed_loop(seconds=14.0)
    table = outcome.samples["transactions"]
    at = table.column("t_ns").to_numpy() / SECOND
    outcome.samples["transactions"] = table.filter(pa.array(~((at > 4.8) & (at <= 5.3))))
    seconds = np.arange(1, 15)
    cpu = {"t_ns": seconds * SECOND, "idle": np.full(14, 0.28), "iowait": np.zeros(14)}
    checks = checks_of(outcome, evidence={"s": Evidence(tables={"system_cpu": pa.table(cpu)})})
    assert len(checks["stall"].values["stretches"]) == 1
    assert "processors" not in checks["stall"].message


def test_failed_operations_are_not_completed_ones() -> None:
    """A server that answers nothing but errors for 5 of 14 s."""
    outcome = closed_loop(seconds=14.0)
    table = outcome.samples["transactions"]
    at = table.column("t_ns").to_numpy() / SECOND
    status = np.where((at > 4) & (at <= 9), 1, 0).astype(np.int8)
    place = table.column_names.index("status")
    outcome.samples["transactions"] = table.set_column(place, "status", pa.array(status))
    checks = checks_of(outcome)
    assert checks["stall"].verdict == "warning"
    assert checks["not_steady"].verdict != "ok"


def test_steady_state_is_unknown_where_dead_time_is() -> None:
    """40 operations, evenly: too few pauses to tell a stop from them."""
    checks = checks_of(closed_loop(clients=1, seconds=40.0, latency_ns=SECOND))
    assert checks["stall"].verdict == "unknown"
    assert checks["not_steady"].verdict != "ok"


def test_dead_time_of_counts_is_named_on_the_run_s_clock() -> None:
    counts = np.random.default_rng(1).poisson(50, 100)
    counts[20:60] = 0
    stopped = Completions(2 * SECOND, SECOND // 10, counts.tolist())
    short = Completions(20 * SECOND, SECOND // 10, [9, 9])
    check = checks_of(Outcome(metrics={}, completions=[stopped, short]))["stall"]
    assert check.verdict == "warning"
    assert check.values["stretches"] == [[4 * SECOND, 8 * SECOND]]
    assert checks_of(Outcome(metrics={}, completions=[short]))["stall"].verdict == "unknown"

"""The collector `profile`: planted CPU time is found within the error of samples; idle is said."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from nfslab.errors import RunFailed
from nfslab.evidence.collector import Evidence
from nfslab.evidence.profile import perf_tool
from nfslab.evidence.profile.collector import ProfileCollector, ProfileCollectorParameters
from nfslab.evidence.profile.perf_evidence import Recorded, summary, tables
from nfslab.evidence.profile.perf_script import NFSLAB, ScriptReader
from nfslab.evidence.profile.perf_tool import Grant
from nfslab.evidence.profile.stacks import Stacks, functions_of
from nfslab.machine.cpu_times import CpuTimes, read_cpu_times
from nfslab.workloads.command import CommandParameters, CommandWorkload

from tests.machine.test_perf_script import fork, sample
from tests.workloads.run_context import Run, run_of, scratch_folder

SOURCE = Path(__file__).parents[1] / "machine" / "perf" / "planted.c"
PROGRAM = f"plant-{os.getpid()}"
"""The whole machine is recorded: other processes of the tests have theirs (15 characters)."""
FLAGS = ["-O0", "-fno-omit-frame-pointer"]
"""A frame in every function: -O1 gives leaf functions none, and their callers are skipped."""
SECOND = 10**9
SURE = 4.5
"""Standard errors: chance alone is beyond them once in 150,000 times."""

needs_perf = pytest.mark.skipif(
    not perf_tool.available().ok, reason=f"perf: {perf_tool.available().reason}"
)
needs_machine = pytest.mark.skipif(
    perf_tool.granted("machine") is None, reason="perf may not profile the whole machine"
)


@pytest.fixture(scope="module")
def root() -> Iterator[Path]:
    with scratch_folder() as folder:
        yield folder


@pytest.fixture(scope="module")
def planted(root: Path) -> Path:
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("no gcc to compile the planted load")
    made = root / PROGRAM
    subprocess.run([compiler, *FLAGS, "-o", str(made), str(SOURCE)], check=True)
    return made


@dataclass
class Seen:
    """What a run's collector saw, what the load itself printed, and the machine's own accounts."""

    evidence: Evidence
    printed: dict[str, int]
    folder: Path
    accounts: dict[str, float]
    run: Run

    @property
    def summary(self) -> dict[str, Any]:
        return self.evidence.summary

    def stacks(self, process: str = PROGRAM) -> list[dict[str, Any]]:
        rows = self.evidence.tables["profile_stacks"].to_pylist()
        return [row for row in rows if row["process"] == process]


@contextmanager
def watched(
    root: Path, argv: list[str], during: Callable[[ProfileCollector], None] | None = None,
    **parameters: Any,
) -> Iterator[Seen]:  # fmt: skip
    """One run of a command with the collector beside it."""
    work = CommandWorkload(CommandParameters(data="disk", argv=argv))
    name = f"run-{len(list(root.iterdir()))}"
    with run_of(work, root, name=name, places={"data": root / f"{name}-data"}) as run:
        work.prepare(run.context)
        collector = ProfileCollector(ProfileCollectorParameters(**parameters))
        collector.start(run.context)
        begin = read_cpu_times()
        work.measure(run.context)
        end = read_cpu_times()
        assert begin is not None
        assert end is not None
        if during is not None:
            during(collector)
        evidence = collector.stop()
        said = (run.context.folder / "logs" / "command.out").read_text()
        printed = {name: int(ns) for name, ns in (line.split() for line in said.splitlines())}
        yield Seen(evidence, printed, run.context.folder, end.since(begin), run)


def leaves_of(seen: Seen) -> dict[str, int]:
    """Samples within the two functions that compute."""
    own = [row for row in seen.stacks() if not row["kernel_frames"]]
    return {
        name: sum(row["samples"] for row in own if row["stack"].endswith(f";{name}"))
        for name in ("three_parts", "one_part")
    }


@pytest.mark.long
@pytest.mark.system
@needs_perf
@needs_machine
def test_a_planted_function_is_found_with_its_share(root: Path, planted: Path) -> None:
    """The load prints what it spent of a CPU: by samples it is that, within their errors."""
    with watched(root, [str(planted), "800", "300"], frequency=997) as seen:
        assert list(seen.folder.rglob("perf.data")) == []
        assert not (seen.folder / "profile").exists()
    leaf, rows = leaves_of(seen), seen.stacks()
    # Of few samples chance may give the shorter one more.
    assert (of_both := sum(leaf.values())) > 0
    assert leaf["three_parts"] - leaf["one_part"] > -SURE * of_both**0.5
    # read(2) of the C library has no frame: who called it is left out.
    frames = {"three_parts": (";three_parts",), "one_part": (";one_part",),
              "asks_the_kernel": (";asks_the_kernel", ";main;read")}  # fmt: skip
    for function, spent_ns in seen.printed.items():
        found = [row for row in rows if any(name in row["stack"] for name in frames[function])]
        n = sum(row["samples"] for row in found)
        # While a virtual CPU stands still there are none: too few there may be, never too many.
        assert 0 < n / 997 <= spent_ns / SECOND + SURE * n**0.5 / 997, function
        assert any(row["kernel_frames"] for row in found) or function != "asks_the_kernel"
    assert {row["class"] for row in rows} == {"run"}
    merged = Stacks()
    merged.merge((("run", row["stack"], row["kernel_frames"]), row["samples"], row["weight"])
                 for row in rows)  # fmt: skip
    functions = {one.name: one for one in functions_of(merged.found)}
    assert functions["three_parts"].kernel is False
    assert functions["three_parts"].self_samples == leaf["three_parts"]
    both = functions["three_parts"].total_weight + functions["one_part"].total_weight
    assert functions["main"].total_weight >= both
    whole = next(row for row in rows if row["stack"].endswith(";three_parts"))
    assert whole["stack"].startswith(f"{PROGRAM};")
    assert ";main;three_parts" in whole["stack"]
    assert whole["frames"] == whole["stack"].count(";")
    # What perf itself costs, benches/profile_cost.py measures.
    assert 0 <= seen.summary["perf_share_of_a_cpu"] <= 1


@pytest.mark.long
@needs_perf
def test_a_killed_perf_fails_the_collector_only(root: Path, planted: Path) -> None:
    def kill(collector: ProfileCollector) -> None:
        assert collector._watch is not None
        process = collector._watch._process
        assert process is not None
        os.kill(process.pid, signal.SIGKILL)
        process.wait()

    with (
        pytest.raises(RunFailed, match=r"recorded nothing|cannot be read"),
        watched(root, [str(planted), "20", "20"], during=kill),
    ):
        pass
    assert list(root.glob("run-*/profile")) == []


@pytest.mark.system
def test_what_it_cannot_do_is_an_answer(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work = CommandWorkload(CommandParameters(data="disk", argv=["true"]))
    with run_of(work, root, name="refused", places={"data": root / "refused-data"}) as run:
        granted = perf_tool.granted()
        if granted is not None and granted.event != "cycles":
            asked = ProfileCollector(ProfileCollectorParameters(event="cycles"))
            answer = asked.applies(run.context)
            assert not answer.ok
            assert "no hardware counters" in answer.reason
        monkeypatch.setenv("PATH", str(root))
        answer = ProfileCollector(ProfileCollectorParameters()).applies(run.context)
        assert (answer.reason, answer.fix) == ("perf not found", "apt install linux-perf")


HALT = ("k:pv_native_safe_halt", "k:do_idle")


def recorded(**values: Any) -> Recorded:
    """Ten seconds of two CPUs at 100 Hz: 2000 samples are possible. 1,660 of 2,000 ticks idle."""
    begin = CpuTimes((0,) * 8, 2)
    end = CpuTimes((300, 0, 40, 1500, 160, 0, 0, 0), 2)
    made = Recorded(100, "fp", Grant("machine", True, "cpu-clock"))
    given = {"begin": begin, "end": end, "begin_ns": SECOND, "end_ns": 11 * SECOND,
             "zero_ns": SECOND, "timed_end_ns": 11 * SECOND, "recording_cpu_s": 0.02}  # fmt: skip
    for name, value in (given | values).items():
        setattr(made, name, value)
    return made


def idle_machine(**values: Any) -> tuple[Recorded, ScriptReader]:
    """340 samples of work; of the two idle CPUs one gives samples and one gives none."""
    made = recorded(**values)
    reader = ScriptReader(made.window_ns, {50: NFSLAB})
    reader.feed(fork(60, 50))
    step = 10 * SECOND // 1000
    for n in range(340):
        pid = 60 if n % 2 else 61
        reader.feed(sample("worker", pid, SECOND + n * step, "k:fsync", "main", cpu=0))
    for n in range(340, 1000):
        reader.feed(sample("swapper", 0, SECOND + n * step, *HALT, cpu=0))
    return made, reader


def test_an_idle_machine_is_said_to_be_idle() -> None:
    made, reader = idle_machine()
    found = summary(reader.finish(), made)
    assert found["idle_share"] == pytest.approx(0.83, abs=1e-12)
    assert (found["samples"], found["idle_samples"], found["possible_samples"]) == (340, 660, 2000)
    assert found["proc_stat"]["idle"] == pytest.approx(0.83)
    assert found["proc_stat"]["iowait"] == pytest.approx(0.08)
    assert found["notes"] == []
    assert found["busiest_thread"]["share_of_a_cpu"] == pytest.approx(0.17)
    assert found["classes"]["run"] == {"user": 0, "kernel": 170}
    assert found["functions"][0]["self_share"] == pytest.approx(1.0)


def test_samples_and_accounts_that_disagree_are_a_note() -> None:
    busy = CpuTimes((1000, 0, 0, 1000, 0, 0, 0, 0), 2)
    made, reader = idle_machine(end=busy)
    (note,) = summary(reader.finish(), made)["notes"]
    assert re.search(r"\b17\.0%.*/proc/stat 50\.0%", note)
    # A twelfth of the 2,000 samples lost explains nothing of a third; half of them lost does.
    for lost, is_told in ((166, True), (1000, False)):
        made, reader = idle_machine(end=busy)
        folded = reader.finish()
        folded.lost = lost
        notes = " ".join(summary(folded, made)["notes"])
        assert ("/proc/stat 50.0%" in notes) is is_told
        assert f"{lost:,} records" in notes
    # What the hypervisor took is no disagreement.
    stolen = CpuTimes((300, 0, 40, 1000, 0, 0, 0, 660), 2)
    made, reader = idle_machine(end=stolen)
    (note,) = summary(reader.finish(), made)["notes"]
    assert re.search(r"hypervisor\b.*\b33\.0%", note)


def test_losses_limits_and_missing_names_are_told() -> None:
    made, reader = idle_machine(
        record_counts={"THROTTLE": 4, "LOST_SAMPLES": 7}, data_bytes=100, size_limit_bytes=100
    )
    for n in range(700):
        frames = ("[unknown]@/opt/lib.so", "[unknown]@[unknown]")
        reader.feed(sample("other", 99, 2 * SECOND + n, *frames, cpu=1))
    found = summary(reader.finish(), made)
    told = " ".join(found["notes"])
    assert "7 records" in told
    assert re.search(r"throttled\b.*\b4 times", told)
    assert "reached its limit" in told
    assert found["unknown_share"] == pytest.approx(700 / 1040)
    assert found["unknown_modules"] == [{"module": "[lib.so]", "samples": 700}]
    # The worker's stacks have a user frame as well: 700 of 1040 are broken.
    assert found["broken_share"] == pytest.approx(700 / 1040)
    assert any("67% of the samples hit functions without names, most in [lib.so]" in remark
               for remark in found["remarks"])  # fmt: skip


def test_tables_count_from_the_start_of_the_timed_part() -> None:
    made, reader = idle_machine(zero_ns=2 * SECOND, timed_end_ns=4 * SECOND)
    folded = reader.finish()
    found = summary(folded, made)
    made_tables = tables(folded, made)
    stacks = made_tables["profile_stacks"].to_pylist()
    # From 2 to 4 s: 200 samples, all of work; before it 100, behind it 40.
    assert found["samples"] == sum(row["samples"] for row in stacks) == 200
    assert stacks[0]["t_ns"] == 0
    assert {row["stack"] for row in stacks} == {"worker;main;fsync"}
    series = made_tables["profile_series"].to_pylist()
    # From 1 s before the timed part to 9 s into it, each bin at its end.
    assert (series[0]["t_ns"], series[-1]["t_ns"]) == (-900_000_000, 9 * SECOND)
    assert sum(row["kernel_samples"] for row in series) == 1000

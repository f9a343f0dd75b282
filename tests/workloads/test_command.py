"""Any program as a workload: arguments stay arguments, and a missing figure is an error."""

from __future__ import annotations

import json
import re
import shutil
import sys
import tomllib
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nfslab import clock
from nfslab.errors import RunFailed
from nfslab.hosts.base import Host
from nfslab.machine.started import Process
from nfslab.workloads import command as commands
from nfslab.workloads.base import Outcome
from nfslab.workloads.command import (
    CommandParameters,
    CommandWorkload,
    MetricPattern,
    first_json,
    substituted,
)
from pydantic import ValidationError

from tests.experiment.session_support import run as run_file
from tests.workloads.run_context import Run, run_of
from tests.workloads.scripted_host import Played, ScriptedHost


def outcome_of(
    scratch: Path, played: Played, seed: int = 7, **values: Any
) -> tuple[Outcome, Run, ScriptedHost]:
    """What is read of a program that is played; argv is of no other use then."""
    work = CommandWorkload(CommandParameters(**({"data": "disk", "argv": ["told"]} | values)))
    name = f"command-{uuid.uuid4().hex[:8]}"
    places = {"data": scratch / f"{name}-data"}
    with run_of(work, scratch, name=name, places=places, seed=seed) as run:
        host = ScriptedHost(lambda _argv: played)
        run.context.client_host = host
        work.prepare(run.context)
        return work.measure(run.context), run, host


HOSTILE = "; touch /tmp/x 'a' \"b\" $(id) `id` *"


def test_placeholders_stay_within_their_argument(scratch: Path) -> None:
    _, run, host = outcome_of(
        scratch,
        Played(),
        seed=99,
        clients=3,
        argv=["printf", "{data}/f", "-c{clients}", "{seed}", "{what}", "{unknown_to_us}"],
        values={"what": HOSTILE},
        env={"WHERE": "at {data}"},
    )
    data = str(run.context.places["data"].path)
    (process,), (options,) = host.started, host.options
    assert process.argv[1:] == [f"{data}/f", "-c3", "99", HOSTILE, "{unknown_to_us}"]
    assert (str(options["cwd"]), options["env"]["WHERE"]) == (data, f"at {data}")
    assert run.context.commands == [process.argv]


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])))
def test_a_value_is_put_in_once_and_never_read_again(value: str) -> None:
    assert substituted("a{x}b", {"x": value}) == f"a{value}b"


def test_json_of_ones_own_survives() -> None:
    text = '{"a": {"b": [1]}} awk {print $1} {data}'
    assert substituted(text, {"data": "/d"}) == '{"a": {"b": [1]}} awk {print $1} /d'


def test_metrics_by_pattern_and_from_json(scratch: Path) -> None:
    document = {"jobs": [{"write": {"iops": 12.5, "percentile": {"99.000000": 4200}}}]}
    text = f"preamble\n{json.dumps(document, indent=1)}\n"
    outcome, _, _ = outcome_of(
        scratch,
        Played(out=text, err="rate: 3.5 MB/s\n"),
        metrics=[
            {"name": "iops", "json": "jobs.0.write.iops", "unit": "1/s", "better": "higher"},
            {
                "name": "p99_ms",
                "json": ["jobs", 0, "write", "percentile", "99.000000"],
                "unit": "ms",
                "scale": 1e-3,
                "primary": True,
            },
            {"name": "rate", "pattern": r"rate: (\S+) MB/s", "source": "stderr", "scale": 1e6},
        ],
    )
    values = {name: metric.value for name, metric in outcome.metrics.items()}
    assert values["iops"] == 12.5
    assert values["p99_ms"] == pytest.approx(4.2)
    assert values["rate"] == 3.5e6
    assert [name for name, metric in outcome.metrics.items() if metric.primary] == ["p99_ms"]


class LateHost:
    """A host on whose machine the one who starts a program has no processor until it has ended."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def __getattr__(self, name: str) -> Any:
        return getattr(self._host, name)

    def spawn(self, argv: Sequence[str], **options: Any) -> Process:
        process = self._host.spawn(argv, **options)
        process.wait()
        return process


@pytest.mark.system
def test_the_timed_part_begins_before_the_programs_first_instruction(scratch: Path) -> None:
    said = "import os, sys, time; print(time.monotonic_ns(), os.getcwd(), *sys.argv[1:], sep='\\0')"
    argv = [sys.executable, "-S", "-c", said, "{what}"]
    work = CommandWorkload(CommandParameters(data="disk", argv=argv, values={"what": HOSTILE}))
    with run_of(work, scratch, name="late") as run:
        run.context.client_host = LateHost(run.context.client_host)  # type: ignore[assignment]
        work.prepare(run.context)
        work.measure(run.context)
        printed = (run.context.folder / "logs" / "command.out").read_text("utf-8")
        seen_ns, folder, argument = printed.removesuffix("\n").split("\0")
        assert (folder, argument) == (str(run.context.places["data"].path), HOSTILE)
    timed = run.context.timed
    assert timed.start_ns is not None
    assert timed.end_ns is not None
    assert timed.start_ns < int(seen_ns) < timed.end_ns


def test_time_is_that_of_the_program(scratch: Path) -> None:
    outcome, run, host = outcome_of(scratch, Played(runs_s=2.5, cpu_s=(1.5, 0.75)))
    assert outcome.metrics["wall_s"].primary
    assert outcome.metrics["wall_s"].value == pytest.approx(2.5, abs=1e-3)
    assert [outcome.metrics[name].value for name in ("user_s", "system_s")] == [1.5, 0.75]
    timed = run.context.timed
    assert timed.start_ns == host.started[0].started_monotonic_ns
    assert timed.end_ns - timed.start_ns == pytest.approx(2.5e9, abs=1e6)


@pytest.mark.parametrize(
    ("metric", "output", "words"),
    [
        ({"pattern": "iops=(\\d+)"}, "nothing here", "nothing in stdout matches"),
        ({"pattern": "iops=(\\S+)"}, "iops=fast", "'fast' is not a number"),
        ({"pattern": "iops=(\\S+)"}, "iops=nan", "not a finite number"),
        ({"pattern": "iops=(\\d+)"}, "iops=1 iops=2", "matches 2 times with different values"),
        ({"json": "a.b"}, '{"a": {"c": 1}}', "there is no 'b' at a (there is: c)"),
        ({"json": "a.1"}, '{"a": [5]}', "there is no 1 at a"),
        ({"pattern": "iops *: (\\d+)"}, "  IOPS=17k", "a line with 'iops': 'IOPS=17k'"),
        ({"json": "jobs.0.iops"}, '{"jobs": [{"write": {"iops": 3}}]}', "mean jobs.0.write.iops?"),
        ({"json": "job.iosp"}, '{"job": {"iops": 3, "n": true}}', "did you mean job.iops?"),
        ({"json": "a"}, "no document", "printed no JSON"),
        ({"json": "a"}, '{"a": true}', "not a finite number"),
        ({"json": "a"}, '{"a": null}', "is not a number"),
    ],
)
def test_a_metric_that_is_not_there_fails_the_run(
    scratch: Path, metric: dict[str, Any], output: str, words: str
) -> None:
    with pytest.raises(RunFailed) as caught:
        outcome_of(scratch, Played(out=output), metrics=[{"name": "x"} | metric])
    assert words in caught.value.what
    assert output in caught.value.why, "the program's last lines are shown"


def test_which_of_several_matches_may_be_said() -> None:
    text = "t=1\nt=2\nt=3\n"
    assert MetricPattern(name="a", pattern="t=(.)", choose="first").read(text) == 1
    assert MetricPattern(name="a", pattern="^t=(.)$", choose="last").read(text) == 3
    assert MetricPattern(name="a", pattern="t=(.)").read("t=5 t=5") == 5


def test_the_first_whole_document_is_taken() -> None:
    assert first_json('x {\n[not json\n{"a": 1} tail') == {"a": 1}
    with pytest.raises(ValueError, match="no JSON"):
        first_json('in a line {"a": 1}')


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"argv": []}, "argv"),
        ({"argv": ["a\0b"]}, "zero byte"),
        ({"argv": ["x", "{dta}"]}, "did you mean {data}"),
        ({"metrics": [{"name": "x"}]}, "either pattern or json"),
        ({"metrics": [{"name": "x", "pattern": "a", "json": "b"}]}, "either pattern or json"),
        ({"metrics": [{"name": "x", "pattern": "no group"}]}, "exactly one group"),
        ({"metrics": [{"name": "x", "pattern": "(a)(b)"}]}, "exactly one group"),
        ({"metrics": [{"name": "x", "pattern": "(a"}]}, "bad pattern"),
        ({"metrics": [{"name": "wall_s", "pattern": "(a)"}]}, "measured by nfslab"),
        ({"metrics": [{"name": "x", "pattern": "(a)", "scale": 0}]}, "other than 0"),
        ({"metrics": [{"name": "x", "json": "a"}, {"name": "x", "json": "b"}]}, "same name"),
        ({"success_codes": []}, "success_codes"),
        ({"values": {"data": 1}}, "cannot be the name"),
    ],
)
def test_what_cannot_be_is_refused(values: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        CommandParameters(**({"data": "disk", "argv": ["true"]} | values))


def test_exit_codes(scratch: Path) -> None:
    failed = Played(err="why it failed\n", code=3)
    with pytest.raises(RunFailed) as caught:
        outcome_of(scratch, failed)
    assert "exit code 3" in caught.value.what
    assert "why it failed" in caught.value.why
    outcome_of(scratch, failed, success_codes=[0, 3])


@pytest.mark.system
def test_prepare_and_clean_are_run_and_clean_also_after_a_failure(scratch: Path) -> None:
    work = CommandWorkload(
        CommandParameters(
            data="disk",
            prepare=["sh", "-c", "echo 41 > made"],
            argv=["sh", "-c", "cat made; exit 1"],
            clean=["rm", "{data}/made"],
        )
    )
    name = f"command-{uuid.uuid4().hex[:8]}"
    with run_of(work, scratch, name=name, places={"data": scratch / f"{name}-data"}) as run:
        made = run.context.places["data"].path / "made"
        work.prepare(run.context)
        assert made.read_text() == "41\n"
        with pytest.raises(RunFailed, match="exit code 1"):
            work.measure(run.context)
        work.finish(run.context)
        assert not made.exists()


def test_programs_are_looked_for_before_the_first_run() -> None:
    def answer(*argv: str) -> Any:
        return CommandWorkload(CommandParameters(data="d", argv=list(argv))).check()

    assert answer("sh").ok
    assert "no-such-program-here" in answer("no-such-program-here").reason
    assert "relative path" in answer("./script").reason


def test_a_flood_of_output_and_the_end_of_its_time_end_the_program(
    scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "OUTPUT_BYTES_MAX", 100_000)
    with pytest.raises(RunFailed, match=r"\b100000\b"):
        outcome_of(scratch, Played(out="a line of a flood\n" * 10_000, runs_s=3600))
    work = CommandWorkload(CommandParameters(data="disk", argv=["told"]))
    with run_of(work, scratch, name="over", places={"data": scratch / "over-data"}) as run:
        host = ScriptedHost(lambda _argv: Played(runs_s=3600))
        run.context.client_host = host
        run.deadline = clock.monotonic() + 5
        work.prepare(run.context)
        with pytest.raises(RunFailed, match="time is over"):
            work.measure(run.context)
        assert clock.monotonic() == pytest.approx(run.deadline, abs=1), (
            "it is looked at now and then"
        )
        assert host.started[0].stopped


DOCS = Path(__file__).resolve().parents[2] / "docs" / "command.md"
EXAMPLES = re.findall(r"```toml\n(.*?)```", DOCS.read_text(), re.DOTALL)


@pytest.mark.long
@pytest.mark.parametrize(
    "example",
    EXAMPLES,
    ids=[tomllib.loads(text)["workload"]["argv"][0] for text in EXAMPLES],
)
def test_the_examples_of_the_page_run(
    example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tomllib.loads(example)["workload"]["argv"][0]
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "example.toml").write_text(example)
    session, _ = run_file(tmp_path / "example.toml", repetitions=1)
    lines = list(session.folder.sealed_runs())
    assert [line.status for line in lines] == ["ok"] * 2
    metrics = tomllib.loads(example)["workload"].get("metrics", [])
    named = [metric["name"] for metric in metrics] or ["wall_s"]
    assert session.folder.run_record(lines[0].run_id).metrics[named[0]].primary
    assert all(line.metrics[name] > 0 for line in lines for name in named)


def test_the_page_has_every_field() -> None:
    text = DOCS.read_text()
    fields = [*CommandParameters.model_fields, "name", "pattern", "json", "choose", "source"]
    fields += ["unit", "better", "scale", "primary"]
    missing = [name for name in fields if f"`{name}" not in text]
    assert missing == ["metrics"], "which has a section of its own"


@pytest.mark.parametrize(
    ("unit", "hosts", "can"),
    [("1/s", 3, True), ("MiB/s", 3, True), ("ms", 3, False), ("ms", 1, True)],
)
def test_several_hosts_need_a_primary_metric_that_adds_up(unit: str, hosts: int, can: bool) -> None:
    metrics = [{"name": "told", "pattern": "([0-9]+)", "unit": unit}]
    work = CommandWorkload(CommandParameters(data="disk", argv=["true"], metrics=metrics))
    answer = work.check_hosts(hosts, 1)
    assert answer.ok == can
    assert can or ("told" in answer.reason and "1/s" in answer.fix)
    assert CommandWorkload(CommandParameters(data="disk", argv=["true"])).check_hosts(3, 1).ok

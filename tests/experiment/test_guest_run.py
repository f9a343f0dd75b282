"""Runs in virtual machines, which are processes of the tests' own: what is sealed, what fails."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from nfslab.errors import Interrupted, RunFailed, Unavailable, UsageError
from nfslab.experiment import guest_run
from nfslab.experiment.progress import View
from nfslab.experiment.session import Options, run_experiment
from nfslab.report.analysis import analyse
from nfslab.results.catalogue import read_every_run
from nfslab.results.emulation import is_stamped
from nfslab.results.records import RunRecord
from nfslab.results.store import ExperimentFolder
from nfslab.vm import kernel as kernels
from nfslab.vm import run as running

from tests.experiment import guest_support
from tests.experiment.session_support import (
    PATIENCE_S,
    left_behind,
    left_running,
    only_folder,
    read_json,
    records,
    run,
)

Write = Callable[..., Path]
LAUNCHER = Path(__file__).with_name("guest_launcher.py")
FILE = """\
[experiment]
name = "guests"
repetitions = 1
seed = 7
order = "fixed"
collectors = []
[limits]
drop_page_cache = false
[targets.disk]
kind = "local"
path = "{folder}"
[workload]
kind = "command"
data = "disk"
argv = ["sh", "-c", "{script}"]
[workload.values]
kernel = ""
[machine]
memory = "1G"
cpus = 3
[[axes]]
name = "kernel"
parameters = ["machine.kernel", "workload.values.kernel"]
values = [["9.1", "9.1"], ["9.2", "9.2"]]
labels = ["old", "new"]
"""
FIRST, SECOND = "9.1-of-a-test", "9.2-of-a-test"


@pytest.fixture
def guest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return guest_support.install(tmp_path / "guest", monkeypatch)


def file(write: Write, script: str, *replacements: tuple[str, str]) -> Path:
    return write(*replacements, text=FILE.replace("{script}", script))


def nothing_is_left(tmp_path: Path) -> None:
    # What a guest that was killed had on its targets goes with its memory, elsewhere than here.
    assert [one for one in left_behind(tmp_path) if "/places/" not in one] == []
    for state in ("state", "guest/state"):
        # Who was killed needs a processor to end.
        deadline = time.monotonic() + 60
        while left := left_running(tmp_path / state):
            assert time.monotonic() < deadline, left


def machine_of(folder: ExperimentFolder, record: RunRecord) -> dict[str, object]:
    found = read_json(folder.runs_path / record.run_id / "provenance.json")["virtual_machine"]
    assert isinstance(found, dict)
    return found


def test_each_run_is_made_in_a_guest_with_its_kernel(
    guest: Path, experiment_file: Write, tmp_path: Path
) -> None:
    path = file(experiment_file, "echo it was {kernel}")
    session, told = run(path)
    assert session.made == 2
    folder = only_folder(path)
    found = records(folder)
    assert [(one.status, one.factors["kernel"]) for one in found] == [("ok", "old"), ("ok", "new")]
    for record, release, asked in zip(found, (FIRST, SECOND), ("9.1", "9.2"), strict=True):
        out = folder.runs_path / record.run_id / "logs" / "command.out"
        assert out.read_text() == f"it was {asked}\n"
        stated = machine_of(folder, record)
        assert (stated["kernel_asked"], stated["kernel"]) == (asked, release)
        assert (stated["cpus"], stated["memory_bytes"]) == (3, 1 << 30)
        assert stated["processor"] == "emulated"
        assert stated["runs_on"]["kernel"] == os.uname().release  # type: ignore[index]
        assert record.parameters["machine"]["kernel"] == asked
        up, *inside = record.phases
        assert up.name == "guest up"
        assert "measure" in [phase.name for phase in inside]
        assert record.duration_ns >= up.duration_ns
        # By whoever knows it: this processor is not emulated, and QEMU was told to.
        assert [check.name for check in record.checks].count("emulated") == 1
        assert release in told.text
    # By their checksums, and with lines of the catalogue that are those of the runs.
    every, _ = read_every_run(folder.path)
    assert every.damaged == {}
    assert every.lines == folder.catalogue().lines
    assert folder.catalogue().missing_lines == 0
    nothing_is_left(tmp_path)
    session, _ = run(path)
    assert session.made == 0


@pytest.mark.parametrize(("slips", "status"), [(2, ["ok", "ok"]), (3, ["failed", "ok"])])
def test_a_kernel_that_qemu_breaks_before_it_is_up_is_booted_again(
    guest: Path, experiment_file: Write, tmp_path: Path, slips: int, status: list[str]
) -> None:
    (guest / "slips").write_text(str(slips))
    path = file(experiment_file, "echo it was {kernel}")
    run(path)
    first, second = found = records(only_folder(path))
    assert [one.status for one in found] == status
    told = [note for note in first.notes if "booted again" in note]
    if first.status == "ok":
        assert len(told) == slips
    else:
        assert "int3" in first.reason
    assert not [note for note in second.notes if "booted again" in note]
    nothing_is_left(tmp_path)


def test_what_breaks_once_a_kernel_is_up_is_not_tried_again(
    guest: Path, experiment_file: Write
) -> None:
    """The command may have done anything by then."""
    place = "$(dirname $(ls -t /proc/$(cat {0}/pid)/cwd/console.log))"
    script = f"echo '{guest_support.SLIP}' > {place.format(guest)}/console.log; "
    path = file(experiment_file, script + f"kill -9 $(cat {guest}/pid); exec sleep 1000")
    run(path)
    for record in records(only_folder(path)):
        assert record.status == "failed"
        assert "int3" in record.reason


@pytest.mark.long
def test_kernels_that_an_axis_sets_are_no_change_of_the_machine(
    guest: Path, experiment_file: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = file(experiment_file, "true")
    run(path)
    folder = only_folder(path)
    assert machine_warnings(folder) == []
    # A newer package of the same version.
    found = kernels.find

    def newer(asked: str, modules: Path | None, say: Callable[[str], None]) -> kernels.Kernel:
        return replace(found(asked, modules, say), release=f"{asked}-newer")

    monkeypatch.setattr(kernels, "find", newer)
    run(path, repetitions=2)
    (told,) = machine_warnings(folder)
    for one, other in ((FIRST, "9.1-newer"), (SECOND, "9.2-newer")):
        assert f"virtual_machine.kernel: {one} (1 run), {other} (1 run)" in told


def machine_warnings(folder: ExperimentFolder) -> list[str]:
    return [one.text for one in analyse(folder.path).warnings if one.kind == "machine"]


def test_a_guest_that_dies_fails_its_run_alone(
    guest: Path, experiment_file: Write, tmp_path: Path
) -> None:
    path = file(
        experiment_file,
        f"[ {{kernel}} = 9.2 ] || {{ kill -9 $(cat {guest}/pid); exec sleep 1000; }}",
    )
    _, told = run(path)
    folder = only_folder(path)
    dead, good = records(folder)
    assert (dead.status, good.status) == ("failed", "ok")
    assert "ended before its command did" in dead.reason
    assert guest_support.CONSOLE in dead.reason
    assert dead.failure_phase == "guest/command"
    assert machine_of(folder, dead)["kernel"] == FIRST
    assert is_stamped(folder.sealed_runs()[0].flags)
    assert "FAILED" in told.text
    nothing_is_left(tmp_path)
    # The next call makes that run again, and no other.
    session, _ = run(path)
    assert session.made == 1
    assert [one.attempt for one in records(folder)] == [1, 1, 2]


@pytest.mark.long
def test_what_the_guest_lacks_fails_its_run(
    guest: Path, experiment_file: Write, tmp_path: Path
) -> None:
    """No such program is here either, and yet the file is not refused."""
    path = file(experiment_file, "true", ('"sh", "-c"', '"no-such-program", "-c"'))
    run(path)
    for record in records(only_folder(path)):
        assert (record.status, record.failure_phase) == ("failed", "preflight")
        assert "no-such-program" in record.reason
    nothing_is_left(tmp_path)


@pytest.mark.long
def test_a_failure_in_the_guest_is_told_as_elsewhere(
    guest: Path, experiment_file: Write, tmp_path: Path
) -> None:
    path = file(experiment_file, "[ {kernel} = 9.1 ] || exec sleep 1000", *LIMITED)
    run(path)
    good, late = records(only_folder(path))
    assert good.status == "ok"
    assert "limits.run_s" in late.reason
    assert late.failure_phase.startswith("measure")
    nothing_is_left(tmp_path)


LIMITED = [
    ('"workload.values.kernel"]', '"workload.values.kernel", "limits.run_s"]'),
    ('[["9.1", "9.1"], ["9.2", "9.2"]]', '[["9.1", "9.1", 600], ["9.2", "9.2", 20]]'),
]
"""The second run alone: the first one may take its time."""


def test_a_request_to_stop_discards_the_run(
    guest: Path, experiment_file: Write, tmp_path: Path
) -> None:
    path = file(experiment_file, "exec sleep 1000")

    class Interrupting(View):
        def phase(self, name: str) -> None:
            if name == "measure":
                os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(Interrupted) as stopped:
        run_experiment(Options(file=path, results=tmp_path / "results"), Interrupting())
    assert stopped.value.exit_code == 130
    assert only_folder(path).sealed_runs() == []
    nothing_is_left(tmp_path)


def test_a_runner_that_is_killed_takes_its_guest_along(
    experiment_file: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, again = tmp_path / "began", tmp_path / "again"
    os.mkfifo(began)
    path = file(experiment_file, f"[ -e {again} ] || {{ echo up >{began}; exec sleep 1000; }}")
    argv = [sys.executable, str(LAUNCHER), str(tmp_path / "guest"), "run", str(path)]
    with (
        os.fdopen(os.open(began, os.O_RDONLY | os.O_NONBLOCK)) as heard,
        subprocess.Popen(argv, cwd=tmp_path, stdout=subprocess.DEVNULL) as runner,
    ):
        try:
            assert ready(heard.fileno())
            machine = os.pidfd_open(int((tmp_path / "guest" / "pid").read_text()))
        finally:
            runner.kill()
    assert ready(machine), "the guest lives on"
    os.close(machine)
    assert list(tmp_path.glob("results/*/runs/.partial-*"))
    again.touch()
    guest_support.install(tmp_path / "guest", monkeypatch)
    session, told = run(path)
    assert session.made == 2
    assert "half-written" in told.text
    nothing_is_left(tmp_path)


def ready(descriptor: int) -> bool:
    """There is something to read (of a process: it has ended) within the limit."""
    poller = select.poll()
    poller.register(descriptor, select.POLLIN)
    return bool(poller.poll(1000 * PATIENCE_S))


def test_a_run_that_does_not_begin_is_given_up(
    guest: Path, experiment_file: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guest_run, "START_S", 0.0)
    path = file(experiment_file, "true")
    run(path)
    for record in records(only_folder(path)):
        assert (record.status, record.failure_phase) == ("failed", "guest up")
        assert "did not start" in record.reason
    nothing_is_left(tmp_path)


def test_a_run_that_does_not_end_is_given_up(
    guest: Path, experiment_file: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the guest's kernel waits for a server that is dead."""
    monkeypatch.setattr(guest_run, "AFTER_S", -1800.0)
    path = file(experiment_file, "exec sleep 1000")
    run(path)
    for record in records(only_folder(path)):
        assert record.status == "failed"
        assert "did not end within" in record.reason
        assert guest_support.CONSOLE in record.reason
    nothing_is_left(tmp_path)


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        ("for one in {run}; do echo x >>$one/run.json; done", "run.json"),
        pytest.param("rm -r {run}", "no run", marks=pytest.mark.long),
    ],
)
def test_what_is_not_whole_is_no_result(
    harm: str, said: str, guest: Path, experiment_file: Write, tmp_path: Path
) -> None:
    run_folder = f"{tmp_path}/results/*/runs/.partial-*/runs/*"
    (guest / "after.sh").write_text(harm.replace("{run}", run_folder))
    path = file(experiment_file, "true")
    run(path)
    for record in records(only_folder(path)):
        assert record.status == "failed"
        assert said in record.reason
    nothing_is_left(tmp_path)


def test_a_guest_without_our_program_says_so(
    guest: Path, experiment_file: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guest_run, "MODULE", "nfslab.no_such_module")
    path = file(experiment_file, "true")
    run(path)
    assert all("no_such_module" in record.reason for record in records(only_folder(path)))


def test_what_guests_need_is_asked_before_anything_runs(
    guest: Path, experiment_file: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_guest(_size: object) -> None:
        raise Unavailable("no virtual machine can be started", fix="apt install it")

    monkeypatch.setattr(running, "require", no_guest)
    path = file(experiment_file, "true")
    with pytest.raises(UsageError) as refused:
        run(path)
    assert "kernel 9.1" in refused.value.why
    assert "apt install it" in refused.value.why
    assert not (tmp_path / "results").exists()


def test_a_kernel_that_cannot_be_fetched_ends_the_call(
    guest: Path, experiment_file: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find(*_: object) -> None:
        raise RunFailed("the kernel package could not be fetched", fix="see to the network")

    monkeypatch.setattr(kernels, "find", find)
    path = file(experiment_file, "true")
    with pytest.raises(Exception, match="could not be fetched") as failed:
        run(path)
    assert failed.value.exit_code == 1  # type: ignore[attr-defined]
    assert only_folder(path).sealed_runs() == []
    nothing_is_left(tmp_path)


def test_lines_of_others_are_no_events() -> None:
    """Pieces of any size; a program that prints to the same output."""
    shown: list[str] = []
    told = guest_run.Told(shown.append)
    said = (
        "printed\n[1]\n" + json.dumps({"event": "phase", "phase": "prepare"}) + '\n{"event": 1}\n'
    )
    for character in said:
        told.write(character.encode())
    assert (shown, told.phase, told.error, told.begins_s) == (["prepare"], "prepare", None, None)
    told.write(b'{"event": "error", "what": "full", "exit_code": 1}\n{"event": "begins"}\n')
    assert told.error is not None
    assert told.begins_s is not None

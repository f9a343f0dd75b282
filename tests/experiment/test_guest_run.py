"""Runs in virtual machines: what is sealed, what fails.

In unit tests a guest is threads of this process: they make the run by the program that a guest
runs. What only a kernel can do is tested with kernels (tests/vm).
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from nfslab import clock
from nfslab.errors import Interrupted, NfslabError, RunFailed, Unavailable, UsageError
from nfslab.experiment import guest_run
from nfslab.experiment.in_part import Prime, part
from nfslab.experiment.progress import View
from nfslab.experiment.session import Options, run_experiment
from nfslab.report.analysis import analyse
from nfslab.results.catalogue import read_every_run
from nfslab.results.emulation import is_stamped
from nfslab.results.records import RunRecord
from nfslab.results.store import ExperimentFolder
from nfslab.vm import kernel as kernels
from nfslab.vm import run as running
from nfslab.vm.run import Boot

from tests.experiment import guest_support
from tests.experiment.one_at_a_time import NOW, HostClock, OneAtATime
from tests.experiment.session_support import left_behind, only_folder, read_json, records, run

Write = Callable[..., Path]
FILE = """\
[experiment]
name = "guests"
repetitions = 1
seed = 7
order = "fixed"
collectors = []
[limits]
drop_page_cache = false
run_s = 100
[targets.disk]
kind = "folder"
path = "{folder}"
[workload]
kind = "formula"
data = "disk"
clients = 2
[machine]
memory = "1G"
cpus = 3
[[axes]]
name = "kernel"
parameters = ["machine.kernel", "workload.clients"]
values = [["9.1", 2], ["9.2", 4]]
labels = ["old", "new"]
"""
FIRST, SECOND = "9.1-of-a-test", "9.2-of-a-test"


@dataclass
class Guest:
    """A guest whose programs are threads of this process, and what is wrong with it."""

    turns: OneAtATime
    kvm: bool | None = False
    ready: bool = True
    notes: list[str] = field(default_factory=list)
    """What QEMU's slips are told as."""
    dies: set[str] = field(default_factory=set)
    """Kernels that panic in the timed part."""
    code: int = 0
    begins_after_s: float = 1.0
    harm: Callable[[Path], object] = lambda _runs: None
    """Done to what it sealed."""
    booted: list[Boot] = field(default_factory=list)

    def attended(self, boot: Boot, say: Callable[[str], None], attend: Callable[[Any], int]) -> int:
        """Stands for `vm.run.attended`."""
        self.booted.append(boot)
        self._orders, self._is_closed, self._is_gone = deque[bytes](), False, False
        for note in self.notes:
            say(note)
        return attend(self)

    def attend(
        self, outputs: dict[str, Any], _say: Callable[[str], None], look: Callable[[], None]
    ) -> int:
        boot, here = self.booted[-1], HostClock()
        until = clock.Deadline(self.begins_after_s)
        while not until.passed():
            clock.sleep(1.0)
            look()
        ended: list[int] = []

        def write(text: bytes) -> int:
            outputs["stdout"].write(text)
            dies = json.loads(text).get("phase") == "measure" and boot.kernel.release in self.dies
            self._is_gone = self._is_gone or dies
            return len(text)

        def run() -> None:
            ended.append(part(Prime(self._read, write), boot.work))

        self.turns.on_host(here, threading.Thread(target=run, name="guest"))
        try:
            while not ended:
                self.turns.until(lambda: NOW if ended or self._is_gone else None, 1.0)
                look()
                if self._is_gone:
                    raise self.lost("the virtual machine ended before its command did")
        finally:
            self.turns.end(self.turns.of_host(here))
        self.harm(next(boot.work.glob("runs")))
        return self.code or ended[0]

    def tell(self, text: bytes) -> None:
        """To its program."""
        self._orders.append(text)

    def close_input(self) -> None:
        """Of its program."""
        self._is_closed = True

    def _read(self) -> bytes:
        self.turns.until(lambda: NOW if self._orders or self._is_closed else None)
        return self._orders.popleft() if self._orders else b""

    @staticmethod
    def lost(what: str) -> RunFailed:
        return RunFailed(what, why=guest_support.CONSOLE)


@pytest.fixture
def guest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Guest]:
    guest_support.install(tmp_path / "guest", monkeypatch)
    monkeypatch.setenv("NFSLAB_TURN", "")
    turns = OneAtATime()
    with clock.replaced(turns), turns.running(monkeypatch):
        made = Guest(turns)
        monkeypatch.setattr(running, "attended", made.attended)
        yield made


def file(write: Write, *replacements: tuple[str, str]) -> Path:
    return write(*replacements, text=FILE)


def machine_of(folder: ExperimentFolder, record: RunRecord) -> dict[str, Any]:
    found = read_json(folder.runs_path / record.run_id / "provenance.json")["virtual_machine"]
    assert isinstance(found, dict)
    return found


def test_each_run_is_made_in_a_guest_with_its_kernel(
    guest: Guest, experiment_file: Write, tmp_path: Path
) -> None:
    guest.notes = ["QEMU slipped: booted again"]
    path = file(experiment_file)
    session, told = run(path)
    assert session.made == 2
    folder = only_folder(path)
    found = records(folder)
    assert [(one.status, one.factors["kernel"]) for one in found] == [("ok", "old"), ("ok", "new")]
    assert [boot.kernel.release for boot in guest.booted] == [FIRST, SECOND]
    for record, release, asked in zip(found, (FIRST, SECOND), ("9.1", "9.2"), strict=True):
        assert record.metrics["rate_per_s"].value == (200 if asked == "9.1" else 400)
        stated = machine_of(folder, record)
        assert (stated["kernel_asked"], stated["kernel"]) == (asked, release)
        assert (stated["cpus"], stated["memory_bytes"]) == (3, 1 << 30)
        assert stated["processor"] == "emulated"
        assert stated["runs_on"]["kernel"] == os.uname().release
        assert record.parameters["machine"]["kernel"] == asked
        up, *inside = record.phases
        assert (up.name, up.duration_ns) == ("guest up", pytest.approx(1e9, rel=0.01))
        assert "measure" in [phase.name for phase in inside]
        assert record.duration_ns >= sum(phase.duration_ns for phase in (up, inside[-1]))
        # By whoever knows it: this processor is not emulated, and QEMU was told to.
        assert [check.name for check in record.checks].count("emulated") == 1
        assert guest.notes[0] in record.notes
        assert release in told.text
    # By their checksums, and with lines of the catalogue that are those of the runs.
    every, _ = read_every_run(folder.path)
    assert every.damaged == {}
    assert every.lines == folder.catalogue().lines
    assert left_behind(tmp_path) == []
    session, _ = run(path)
    assert session.made == 0


@pytest.mark.parametrize("kvm", [True, None])
def test_a_processor_that_is_not_emulated_bears_no_stamp(
    kvm: bool | None, guest: Guest, experiment_file: Write
) -> None:
    guest.kvm = kvm
    path = file(experiment_file)
    run(path)
    for record in records(only_folder(path)):
        assert "emulated" not in [check.name for check in record.checks]


def test_kernels_that_an_axis_sets_are_no_change_of_the_machine(
    guest: Guest, experiment_file: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = file(experiment_file)
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
    guest: Guest, experiment_file: Write, tmp_path: Path
) -> None:
    guest.dies = {FIRST}
    path = file(experiment_file, ("clients = 2", "clients = 2\nmeasure_s = 5"))
    _, told = run(path)
    folder = only_folder(path)
    dead, good = records(folder)
    assert (dead.status, good.status) == ("failed", "ok")
    assert "ended before its command did" in dead.reason
    assert guest_support.CONSOLE in dead.reason
    assert dead.failure_phase == "guest/measure"
    assert machine_of(folder, dead)["kernel"] == FIRST
    assert is_stamped(folder.sealed_runs()[0].flags)
    assert "FAILED" in told.text
    # The next call makes that run again, and no other.
    session, _ = run(path)
    assert session.made == 1
    assert [one.attempt for one in records(folder)] == [1, 1, 2]


@pytest.mark.parametrize(("fail", "phase"), [("measure", "measure"), ("hang", "measure")])
def test_a_failure_in_the_guest_is_told_as_elsewhere(
    fail: str, phase: str, guest: Guest, experiment_file: Write, tmp_path: Path
) -> None:
    path = file(experiment_file, ("clients = 2", f'clients = 2\nfail = "{fail}"'))
    run(path)
    for record in records(only_folder(path)):
        assert (record.status, record.failure_phase) == ("failed", phase)
        assert ("limits.run_s" in record.reason) == (fail == "hang")
    assert left_behind(tmp_path) == []


def test_a_request_to_stop_discards_the_run(
    guest: Guest, experiment_file: Write, tmp_path: Path
) -> None:
    path = file(experiment_file)

    class Interrupting(View):
        def phase(self, name: str) -> None:
            if name == "measure":
                raise Interrupted("a test asks for it")

    with pytest.raises(Interrupted) as stopped:
        run_experiment(Options(file=path, results=tmp_path / "results"), Interrupting())
    assert stopped.value.exit_code == 130
    assert only_folder(path).sealed_runs() == []
    assert left_behind(tmp_path) == []


@pytest.mark.parametrize(
    ("trouble", "said", "phase", "after_s"),
    [
        ({"begins_after_s": 1e6}, "did not start", "guest up", guest_run.START_S),
        ({}, "did not end within", "guest/measure", 100 + guest_run.AFTER_S),
    ],
)
def test_a_run_that_does_not_begin_or_end_is_given_up(
    trouble: dict[str, Any], said: str, phase: str, after_s: float,
    guest: Guest, experiment_file: Write,
) -> None:  # fmt: skip
    """As where the guest's kernel waits for a server that is dead."""
    for name, value in trouble.items():
        setattr(guest, name, value)
    path = file(experiment_file, ("clients = 2", 'clients = 2\nfail = "block"'))
    run(path)
    for record in records(only_folder(path)):
        assert (record.status, record.failure_phase) == ("failed", phase)
        assert said in record.reason
        assert record.duration_ns == pytest.approx(after_s * 1e9, abs=15e9)


def flip(runs: Path) -> None:
    for record in runs.glob("*/run.json"):
        record.write_text(record.read_text() + "x\n")


def remove(runs: Path) -> None:
    for one in runs.iterdir():
        one.rename(runs.parent / "elsewhere")


@pytest.mark.parametrize(("harm", "said"), [(flip, "run.json"), (remove, "no run")])
def test_what_is_not_whole_is_no_result(
    harm: Callable[[Path], object], said: str, guest: Guest, experiment_file: Write, tmp_path: Path
) -> None:
    guest.harm = harm
    path = file(experiment_file)
    run(path)
    for record in records(only_folder(path)):
        assert record.status == "failed"
        assert said in record.reason
    assert left_behind(tmp_path) == []


def test_a_program_that_fails_in_the_guest_says_so(guest: Guest, experiment_file: Write) -> None:
    guest.code = 3
    path = file(experiment_file)
    run(path)
    for record in records(only_folder(path)):
        assert record.reason.startswith("nfslab ended in the virtual machine: exit code 3")


def test_what_guests_need_is_asked_before_anything_runs(
    guest: Guest, experiment_file: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_guest(_size: object) -> None:
        raise Unavailable("no virtual machine can be started", fix="apt install it")

    monkeypatch.setattr(running, "require", no_guest)
    with pytest.raises(UsageError) as refused:
        run(file(experiment_file))
    assert "kernel 9.1" in refused.value.why
    assert "apt install it" in refused.value.why
    assert not (tmp_path / "results").exists()


def test_a_kernel_that_cannot_be_fetched_ends_the_call(
    guest: Guest, experiment_file: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find(*_: object) -> None:
        raise RunFailed("the kernel package could not be fetched", fix="see to the network")

    monkeypatch.setattr(kernels, "find", find)
    path = file(experiment_file)
    with pytest.raises(NfslabError, match="could not be fetched") as failed:
        run(path)
    assert failed.value.exit_code == 1
    assert only_folder(path).sealed_runs() == []
    assert left_behind(tmp_path) == []


@pytest.mark.long
def test_a_guest_that_is_a_process(
    experiment_file: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the command in its initramfs to its ports; one that slips before it is up is booted
    again, one that dies is told with its console."""
    place = guest_support.install(tmp_path / "guest", monkeypatch)
    (place / "slips").write_text("2")
    path = file(
        experiment_file,
        ('kind = "folder"', 'kind = "local"'),
        ('kind = "formula"', 'kind = "command"'),
        ("clients = 2", f"argv = ['sh', '-c', '{SCRIPT.format(place)}']\n[workload.values]\nk = 1"),
        ("workload.clients", "workload.values.k"),
    )
    run(path)
    folder = only_folder(path)
    good, dead = records(folder)
    assert good.status == "ok", good.reason
    out = folder.runs_path / good.run_id / "logs" / "command.out"
    assert out.read_text() == "it was 2\n"
    assert len([note for note in good.notes if "booted again" in note]) == 2
    assert dead.status == "failed"
    assert re.search("ended before its command did", dead.reason)
    assert guest_support.CONSOLE in dead.reason
    assert dead.failure_phase == "guest/command"


SCRIPT = "[ {{k}} = 2 ] || {{ kill -9 $(cat {}/pid); exec sleep 1000; }}; echo it was {{k}}"

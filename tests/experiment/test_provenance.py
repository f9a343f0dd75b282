"""What is recorded of a machine: true against other tools, bounded, never raising."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from time import process_time_ns
from typing import Any

import pytest
from nfslab import clock
from nfslab.experiment import provenance
from nfslab.experiment.provenance import provenance as of_this_machine
from nfslab.machine import inventory, load
from nfslab.machine.cpu_times import process_cpu_ns
from nfslab.machine.load import LoadWindow, OthersWindow, is_here
from nfslab.machine.mounts import block_devices_of, mount_of
from nfslab.machine.processes import status_of
from nfslab.machine.readings import ABSENCES_MAX, TEXT_LIMIT_BYTES, Reader, selected

from tests.machine import needs
from tests.waiting import until

SIZE_LIMIT_BYTES = 256 << 10
PLANTED_CPU_NS = 50_000_000


@pytest.fixture(scope="module")
def taken() -> dict[str, object]:
    return of_this_machine([Path("/var/tmp")], [sys.executable])


@pytest.mark.system
def test_it_agrees_with_other_sources(taken: dict[str, dict[str, object]]) -> None:
    assert taken["kernel"]["release"] == platform.release()
    assert taken["cpu"]["logical"] == os.cpu_count()
    assert taken["cpu"]["allowed"] == len(os.sched_getaffinity(0))
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert taken["memory"]["MemTotal_bytes"] == pages
    programs = taken["software"]["programs"]
    assert isinstance(programs, dict)
    assert programs[sys.executable] == f"Python {platform.python_version()}"
    place = taken["places"]["/var/tmp"]
    assert isinstance(place, dict)
    mount = mount_of("/var/tmp")
    assert place["options"] == mount.options
    assert place["devices"] == block_devices_of(mount)
    assert taken["clock"]["source"] == (
        Path("/sys/devices/system/clocksource/clocksource0/current_clocksource").read_text().strip()
    )


def lsblk() -> dict[str, dict[str, Any]]:
    argv = ["lsblk", "--json", "--bytes", "--nodeps", "--output", "NAME,SIZE,SCHED,ROTA,RO"]
    printed = json.loads(subprocess.run(argv, capture_output=True, check=True).stdout)
    return {row["name"]: row for row in printed["blockdevices"]}


@pytest.mark.system
@needs.program("lsblk")
def test_disks_agree_with_lsblk() -> None:
    # Other tests make loop devices and arrays meanwhile, under names that are used again.
    before, found, after = lsblk(), of_this_machine()["disks"], lsblk()
    listed = {name: row for name, row in before.items() if after.get(name) == row}
    assert found or not listed
    for name, facts in found.items():
        if name in listed:
            assert facts["size_bytes"] == listed[name]["size"]
            assert facts["scheduler"] == listed[name]["sched"] or name.startswith("loop")
            assert bool(facts["rotational"]) == listed[name]["rota"]


@pytest.mark.system
@needs.program("git")
def test_the_commit_is_gits(taken: dict[str, dict[str, str]]) -> None:
    root = Path(__file__).resolve().parents[2]
    argv = ["git", "-C", str(root), "rev-parse", "HEAD"]
    head = subprocess.run(argv, capture_output=True, text=True, check=False)
    if head.returncode != 0:
        pytest.skip("not a git checkout")
    found = taken["nfslab"]["commit"].removesuffix("-dirty")
    log = subprocess.run(
        ["git", "-C", str(root), "merge-base", "--is-ancestor", found, "HEAD"], check=False
    )
    assert log.returncode == 0


@pytest.mark.system
def test_it_is_plain_json_and_bounded(taken: dict[str, object]) -> None:
    text = json.dumps(taken, allow_nan=False)
    assert len(text) < SIZE_LIMIT_BYTES
    assert json.loads(text) == taken
    assert json.loads(json.dumps(provenance.fingerprint())) == provenance.fingerprint()


@pytest.mark.system
def test_after_the_first_time_no_program_is_started(
    taken: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are what takes long; what one said of itself holds until its file changes."""

    def never(*words: object, **_: object) -> None:
        raise AssertionError(f"started again: {words}")

    monkeypatch.setattr(subprocess, "run", never)
    monkeypatch.setattr(subprocess, "Popen", never)
    again = of_this_machine([Path("/var/tmp")], [sys.executable])
    assert again["software"] == taken["software"]


@pytest.mark.system
def test_nothing_of_it_identifies_a_person_or_a_device(taken: dict[str, object]) -> None:
    text = json.dumps(taken)
    assert os.uname().nodename not in json.dumps(taken["network"])
    addresses = [text_of(one) for one in Path("/sys/class/net").glob("*/address")]
    serials = [text_of(one) for one in Path("/sys/block").glob("*/serial")]
    assert not [one for one in addresses if one.strip("0:") and one in text]
    assert not [one for one in serials if len(one) > 6 and one in text]


def text_of(file: Path) -> str:
    """Nothing where its network or disk is gone, which another test may have made."""
    try:
        return file.read_text().strip()
    except OSError:
        return ""


@pytest.mark.system
def test_on_a_machine_that_shows_nothing_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No /proc, no /sys: every section is there, and every gap has its reason."""
    monkeypatch.setattr(provenance, "Reader", lambda: Reader(tmp_path))
    monkeypatch.setattr(provenance, "mount_of", lambda path: 1 / 0)
    found = of_this_machine([Path("/var/tmp")], ["nonesuch-program"])
    assert found["cpu"]["model"] is None
    absent = found["absent"]
    assert absent["/proc/cpuinfo"] == os.strerror(errno.ENOENT)
    assert "ZeroDivisionError" in absent["place /var/tmp"]
    assert absent["nonesuch-program"] == "the program is not there"
    assert "inventory" in absent
    json.dumps(found, allow_nan=False)


@pytest.mark.system
def test_a_section_that_breaks_does_not_break_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inventory, "cpu", lambda reader: 1 / 0)
    found = of_this_machine()
    assert found["cpu"] is None
    assert "ZeroDivisionError" in found["absent"]["cpu"]
    assert found["memory"]


@pytest.mark.system
def test_the_testbeds_description_is_kept_verbatim(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = 'switch = "two of them"\n# with a remark'
    (tmp_path / "bed.toml").write_text(text)
    monkeypatch.setenv("NFSLAB_INVENTORY", str(tmp_path / "bed.toml"))
    assert of_this_machine()["inventory"]["text"] == text
    monkeypatch.setenv("NFSLAB_INVENTORY", str(tmp_path / "missing.toml"))
    assert str(tmp_path / "missing.toml") in of_this_machine()["absent"]


@pytest.mark.system
def test_a_program_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hanging = tmp_path / "hanging"
    hanging.write_text("#!/bin/sh\nexec sleep 1000\n")
    hanging.chmod(0o755)
    monkeypatch.setattr(provenance, "VERSION_LIMIT_S", 0.1)
    found = of_this_machine((), [str(hanging)])
    assert any("timed out" in why for why in found["absent"].values())


def _used_ns(pid: int) -> int:
    used_ns = process_cpu_ns(pid)
    assert used_ns is not None
    return used_ns


@pytest.fixture
def burner() -> Iterator[int]:
    """A process that wants a whole CPU."""
    code = "print('go', flush=True)\nwhile True: pass"
    argv = [sys.executable, "-S", "-c", code]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
        process.kill()


@pytest.mark.system
def test_who_was_busy_before_is_named(burner: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is said that a child used, against its own CPU clock: read outside of the window it is
    the most, and read inside the least."""
    monkeypatch.setattr(load, "SHOWN", load.PROCESSES_MAX)  # others may be as busy
    monkeypatch.setattr(load, "SHARE_SHOWN", 0)
    before_ns = _used_ns(burner)
    window = LoadWindow()
    begun_ns = _used_ns(burner)
    ended_ns = until(lambda: _used_ns(burner) * (_used_ns(burner) >= begun_ns + PLANTED_CPU_NS))
    found = window.finish(Reader())
    after_ns = _used_ns(burner)
    said_ns = load_of(found, burner) * found["window_ns"]
    rounded_ns = 0.0005 * found["window_ns"]  # shares have three digits
    assert PLANTED_CPU_NS <= ended_ns - begun_ns <= said_ns + rounded_ns
    assert said_ns <= after_ns - before_ns + rounded_ns
    assert found["window_ns"] >= load.WINDOW_S * 1e9
    assert found["others_cpus"] * found["window_ns"] >= said_ns - rounded_ns


def load_of(found: dict[str, Any], pid: int) -> float:
    (cpus,) = (entry["cpus"] for entry in found["top"] if entry["pid"] == pid)
    return float(cpus)


@pytest.mark.system
@pytest.mark.parametrize("whose", ["ours", "a stranger's"])
def test_what_others_use_is_told_from_what_is_ours(
    whose: str, burner: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same program, as a child and as if a process that ended had started it; against its own
    CPU clock, read outside of the window and inside."""
    known = [one for pid in (os.getpid(), burner) if (one := status_of(pid)) is not None]
    if whose != "ours":
        known = [dataclasses.replace(one, parent=1) for one in known]
    monkeypatch.setattr(load, "all_statuses", lambda: known)
    before_ns = _used_ns(burner)
    window = OthersWindow()
    begun_ns = _used_ns(burner)
    ended_ns = until(lambda: _used_ns(burner) * (_used_ns(burner) >= begun_ns + PLANTED_CPU_NS))
    asked_ns = clock.monotonic_ns() - window.begin_ns
    share = window.finish("no such token")
    longest_ns, after_ns = clock.monotonic_ns() - window.begin_ns, _used_ns(burner)
    if whose == "ours":
        assert share == 0.0
        return
    processors = os.cpu_count() or 1
    assert (ended_ns - begun_ns) / longest_ns <= share * processors
    assert share * processors <= (after_ns - before_ns) / asked_ns


@pytest.mark.system
def test_the_servers_of_this_machine_are_here() -> None:
    assert is_here("127.0.0.1")
    assert is_here(platform.node())
    assert not is_here("192.0.2.1"), "of documentation alone (RFC 5737)"
    assert is_here("no-such-name.invalid"), "nobody knows"


@pytest.mark.system
def test_the_busiest_are_named_and_no_more(burner: int) -> None:
    used = {os.getpid(): 0.25, burner: 0.9, 1: load.SHARE_SHOWN / 2, 0: 0.5}
    named = [(entry["pid"], entry["cpus"]) for entry in load._named(used)]
    # Process 0 is none that could be asked for its name.
    assert named == [(burner, 0.9), (os.getpid(), 0.25)]


@pytest.mark.system
def test_cpu_clocks_agree_with_stat() -> None:
    """The encoded clock number is this process's own CPU clock."""
    before = process_time_ns()
    found = load._clocks()[os.getpid()]
    after = process_time_ns()
    assert before <= found <= after
    status = status_of(os.getpid())
    assert status is not None


def test_pressure_as_the_kernel_writes_it() -> None:
    text = "some avg10=1.50 avg60=0.25 avg300=0.00 total=12345\nfull avg10=0.00 avg60=0.00 total=7"
    found = load._pressure(text)
    assert found is not None
    assert found["some"] == {"avg10": 1.5, "avg60": 0.25, "avg300": 0.0, "total": 12345.0}
    assert found["full"]["total"] == 7.0
    assert load._pressure(None) is None


def test_a_reader_bounds_what_it_keeps(tmp_path: Path) -> None:
    (tmp_path / "long").write_text("x" * (TEXT_LIMIT_BYTES + 5))
    (tmp_path / "word").write_text("word\n")
    reader = Reader(tmp_path)
    assert len(reader.text("/long") or "") == TEXT_LIMIT_BYTES
    assert "only its beginning" in reader.absent["/long"]
    assert reader.number("/word") is None
    assert reader.text("/missing", optional=True) is None
    assert "/missing" not in reader.absent
    for number in range(2 * ABSENCES_MAX):
        reader.text(f"/missing{number}")
    assert len(reader.absent) == ABSENCES_MAX + 1
    assert selected("none [mq-deadline] kyber") == "mq-deadline"
    assert selected("none") == "none"
    assert selected(None) is None


def test_processors_are_counted_by_their_sockets(tmp_path: Path) -> None:
    """Two sockets of two cores with two threads each, as x86 prints them."""
    text = ""
    for cpu in range(8):
        text += f"processor\t: {cpu}\nmodel name\t: A CPU\nphysical id\t: {cpu // 4}\n"
        text += f"core id\t\t: {cpu // 2 % 2}\n\n"
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "cpuinfo").write_text(text)
    found = inventory.cpu(Reader(tmp_path))
    assert (found["sockets"], found["cores"], found["logical"]) == (2, 4, 8)
    assert found["model"] == "A CPU"

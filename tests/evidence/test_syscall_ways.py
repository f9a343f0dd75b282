"""The choice of a way to watch system calls: the order, the reasons kept, only what was asked."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from nfslab.cli.doctor import plugin_probes
from nfslab.cli.run import command as run_command
from nfslab.errors import Unavailable
from nfslab.evidence.syscalls import ways as syscall_ways
from nfslab.evidence.syscalls.ways import Asked, Subject, choose, is_static

from tests.experiment import conftest as experiments

experiment_file = experiments.experiment_file
_fakes = experiments._fakes
REFUSED = {
    "ok": False, "kind": "permission", "what": "eBPF is not permitted", "why": "EPERM",
    "fix": "run as root", "blocks": False,
}  # fmt: skip
PROGRAM = Subject(argv=["/bin/sh", "-c", "true"])
SERVER = Subject(pids=[1], has_views=True)


@pytest.fixture
def no_ebpf(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(syscall_ways, "ebpf_grants", lambda: dict(REFUSED))


@pytest.fixture
def no_shim(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(syscall_ways, "shim_missing", lambda: "the core was built without it")


def test_a_server_falls_back_to_its_views_and_says_why(no_ebpf: None) -> None:
    choice = choose(Asked("counts"), SERVER)
    assert choice.way == "views"
    reasons = dict(choice.why_not)
    assert list(reasons) == ["ebpf", "shim"]
    assert reasons["ebpf"] == "eBPF is not permitted: EPERM"
    assert "runs already" in reasons["shim"]
    assert any("totals only" in note for note in choice.notes)


def test_a_program_falls_back_to_the_shim(no_ebpf: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(syscall_ways, "shim_missing", lambda: "")
    choice = choose(Asked("sync", blocks=True), PROGRAM)
    assert choice.way == "shim"
    assert any("block requests" in note for note in choice.notes)


def test_without_any_way_all_reasons_are_said(no_ebpf: None, no_shim: None) -> None:
    with pytest.raises(Unavailable) as error:
        choose(Asked(), PROGRAM)
    for words in ("eBPF is not permitted: EPERM", "built without", "run already"):
        assert words in error.value.why
    assert error.value.fix == "run as root"


def test_a_way_that_was_asked_for_is_used_or_nothing_is(no_ebpf: None) -> None:
    with pytest.raises(Unavailable, match="by eBPF"):
        choose(Asked(way="ebpf"), PROGRAM)


@pytest.mark.system
def test_dry_run_and_doctor_tell_the_way_and_what_it_cannot_see(
    no_ebpf: None,
    monkeypatch: pytest.MonkeyPatch,
    experiment_file: Callable[..., Path],
) -> None:
    monkeypatch.setattr(syscall_ways, "shim_missing", lambda: "")
    path = str(experiment_file(('["watcher"]', '["fsync"]')))
    told = CliRunner().invoke(run_command, [path, "--dry-run", "--json"])
    how = json.loads(told.stdout)["collectors"]["fsync"]["how"]
    (line,) = (
        line
        for line in CliRunner().invoke(run_command, [path, "--dry-run"]).output.splitlines()
        if line.startswith("collector fsync: ")
    )
    (probe,) = (one for one in plugin_probes() if one.name == "fsync")
    for said in (how, line, probe.found):
        assert "by a preloaded library" in said
        assert "not by eBPF: eBPF is not permitted: EPERM" in said
        assert "static programs" in said.rsplit("not seen", 1)[1]


def test_single_calls_are_not_in_views(no_ebpf: None) -> None:
    with pytest.raises(Unavailable) as error:
        choose(Asked("events"), SERVER)
    assert "no single call" in error.value.why


def elf(*types: int) -> bytes:
    """The first bytes of a 64-bit program with these program headers."""
    header = bytearray(64)
    header[:5] = b"\x7fELF\x02"
    struct.pack_into("<Q", header, 32, 64)
    struct.pack_into("<HH", header, 54, 56, len(types))
    return bytes(header) + b"".join(struct.pack("<I", kind) + bytes(52) for kind in types)


def test_a_program_of_32_bits_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(syscall_ways, "ebpf_grants", lambda: REFUSED | {"ok": True})
    monkeypatch.setattr(syscall_ways, "shim_missing", lambda: "")
    program = tmp_path / "program"
    program.write_bytes(b"\x7fELF\x01" + bytes(47))
    with pytest.raises(Unavailable) as error:
        choose(Asked(), Subject(argv=[str(program)]))
    assert f"eBPF: {program} has 32 bits: such calls are not seen" in error.value.why
    assert f"library: {program} has 32 bits, and the library 64" in error.value.why
    assert (
        choose(Asked(), PROGRAM).way == choose(Asked(), Subject(pids=[os.getpid()])).way == "ebpf"
    )


def test_a_static_program_cannot_be_preloaded(tmp_path: Path) -> None:
    for name, content, expected in (
        ("static", elf(1, 1), True), ("dynamic", elf(6, 3, 1), False),
        ("script", b"#!/bin/sh\n", False),
    ):  # fmt: skip
        (tmp_path / name).write_bytes(content)
        assert is_static(str(tmp_path / name)) is expected
    assert is_static(str(tmp_path / "missing")) is False
    reason, _ = syscall_ways._no_shim([str(tmp_path / "static")])
    assert "linked statically" in reason or syscall_ways.shim_missing()

"""`nfslab doctor` as a person and as a program sees it."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from nfslab.cli import doctor
from nfslab.experiment.probes import Probe
from nfslab.targets.registry import TARGETS


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NFSLAB_STATE", str(tmp_path / "state"))


def test_for_programs_it_is_one_json_document() -> None:
    result = CliRunner().invoke(doctor.command, ["--json"])
    assert result.exit_code == 0
    found = json.loads(result.output)["probes"]
    names = {(probe["group"], probe["name"]) for probe in found}
    assert {("targets", kind) for kind in TARGETS} <= names
    assert {"group", "name", "ok", "found", "purpose", "fix"} <= set(found[0])


def test_without_a_terminal_it_is_plain_lines(
    monkeypatch: pytest.MonkeyPatch, snapshot: Callable[[str, str], None]
) -> None:
    made = [
        Probe("[here]", True, "v1", "x", group="tools"),
        Probe("gone", False, "not installed", "captures", "apt install gone", group="tools"),
    ]
    monkeypatch.setattr(doctor, "probes", lambda: made)
    monkeypatch.setattr(doctor, "plugin_probes", list)
    snapshot("doctor.txt", CliRunner().invoke(doctor.command).output)


def test_what_is_essential_is_said_to_be() -> None:
    core = Probe("Rust core", False, "gone", essential=True, group="core")
    rest = Probe("other", False, "gone", group="tools")
    assert core.name in doctor._summary([core, rest])
    assert rest.name not in doctor._summary([core, rest])


def test_a_plugin_that_cannot_be_asked_is_an_answer_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TARGETS, "broken", "nfslab.targets.nonesuch:Nothing")
    found = {probe.name: probe for probe in doctor.plugin_probes() if probe.group == "targets"}
    assert not found["broken"].ok
    assert "nonesuch" in found["broken"].found


def test_on_a_terminal_it_is_a_table() -> None:
    """A real terminal (pty) of 140 columns."""
    leader, follower = pty.openpty()
    argv = [sys.executable, "-m", "nfslab", "doctor"]
    environment = os.environ | {"COLUMNS": "140", "TERM": "xterm"}
    with subprocess.Popen(
        argv, stdout=follower, stdin=subprocess.DEVNULL, env=environment
    ) as process:
        os.close(follower)
        printed = b""
        while True:
            try:
                piece = os.read(leader, 65536)
            except OSError:
                break
            if not piece:
                break
            printed += piece
    os.close(leader)
    assert process.returncode == 0
    assert b"to add it" in printed
    assert b"\x1b[" in printed, "colours"
    assert b"capabilities are there" in printed

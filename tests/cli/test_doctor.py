"""`nfslab doctor` as a person and as a program sees it."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from nfslab.cli import doctor
from nfslab.cli.doctor import Lack, Ready
from nfslab.evidence import registry as evidence
from nfslab.experiment.preflight import Obstacle, Preflight
from nfslab.experiment.probes import Probe, rust_probe
from nfslab.experiment.provenance import version_line
from nfslab.targets import registry as targets
from nfslab.targets.registry import TARGETS
from nfslab.workloads import registry as workloads


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NFSLAB_STATE", str(tmp_path / "state"))


@pytest.mark.system
def test_for_programs_it_is_one_json_document() -> None:
    result = CliRunner().invoke(doctor.command, ["--json"])
    assert result.exit_code == 0
    told = json.loads(result.output)
    assert told["commands"][0]["command"] == "nfslab quickstart"
    assert all(one["ok"] == (not one["missing"]) for one in told["commands"])
    found = told["probes"]
    names = {(probe["group"], probe["name"]) for probe in found}
    assert {("targets", kind) for kind in TARGETS} <= names
    assert {"group", "name", "ok", "found", "purpose", "fix"} <= set(found[0])


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> None:
    made = [
        Probe("[here]", True, "v1", "x", group="tools"),
        Probe("gone", False, "not installed", "captures", "apt install gone", group="tools"),
    ]
    monkeypatch.setattr(doctor, "probes", lambda: made)
    monkeypatch.setattr(doctor, "plugin_probes", list)
    monkeypatch.setattr(doctor, "readiness", lambda _: [Ready("nfslab quickstart")])


@pytest.mark.usefixtures("planted")
def test_without_a_terminal_it_is_plain_lines(snapshot: Callable[[str, str], None]) -> None:
    snapshot("doctor.txt", CliRunner().invoke(doctor.command).output)


@pytest.mark.usefixtures("planted")
@pytest.mark.parametrize(("columns", "is_table"), [("140", True), ("40", False)])
def test_on_a_wide_terminal_it_is_a_table(
    columns: str, is_table: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = io.StringIO()
    monkeypatch.setattr(shown, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdout", shown)
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setenv("TERM", "xterm")
    doctor.command.main([], standalone_mode=False)
    first, *lines = shown.getvalue().splitlines()
    assert first.startswith("nfslab quickstart will work here")
    assert any("[here]" in line for line in lines), "what a program printed is no markup"
    assert any("to add it" in line for line in lines) == is_table
    assert "capabilities are there" in shown.getvalue()


def test_what_is_essential_is_said_to_be() -> None:
    core = Probe("Rust core", False, "gone", essential=True, group="core")
    rest = Probe("other", False, "gone", group="tools")
    assert core.name in doctor._summary([core, rest])
    assert rest.name not in doctor._summary([core, rest])


def test_a_plugin_that_cannot_be_asked_is_an_answer_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets, "TARGETS", {"broken": "nfslab.targets.nonesuch:Nothing"})
    monkeypatch.setattr(workloads, "WORKLOADS", {})
    monkeypatch.setattr(evidence, "COLLECTORS", {})
    (broken,) = doctor.plugin_probes()
    assert (broken.name, broken.ok) == ("broken", False)
    assert "nonesuch" in broken.found


@pytest.mark.parametrize(
    ("printed", "line"),
    [
        (
            "/usr/bin/chromium: 9: [: 21664870400: unexpected operator\n"
            "Chromium 156.0.8078.108 built on Debian GNU/Linux 12 (bookworm)\n",
            "Chromium 156.0.8078.108 built on Debian GNU/Linux 12 (bookworm)",
        ),
        (
            'Running as user "root" and group "root". This could be dangerous.\n'
            "TShark (Wireshark) 4.0.17 (Git v4.0.17 packaged as 4.0.17-0+deb12u3).\n\nCopyright",
            "TShark (Wireshark) 4.0.17 (Git v4.0.17 packaged as 4.0.17-0+deb12u3).",
        ),
        ("fio-3.33", "fio-3.33"),
        ("NFS-Ganesha Release = V4.3\n", "NFS-Ganesha Release = V4.3"),
        ("nginx version: nginx/1.22.1", "nginx version: nginx/1.22.1"),
        ("mount.nfs: (linux nfs-utils 2.6.2)", "mount.nfs: (linux nfs-utils 2.6.2)"),
        ("mariadbd  Ver 10.11.19-MariaDB-0+deb12u1", "mariadbd  Ver 10.11.19-MariaDB-0+deb12u1"),
        ("a notice\npostgres (PostgreSQL) 18beta1", "postgres (PostgreSQL) 18beta1"),
        ("systemd 252 (252.39-1~deb12u1)\n+PAM", "systemd 252 (252.39-1~deb12u1)"),
        ("x version 12", "x version 12"),
        ("/bin/x: 23: exec: /opt/x/1.2/bin/x: not found", ""),
        ("x: error while loading shared libraries: libatk-1.0.so.0: cannot open shared object", ""),
        ("x: /lib/libc.so.6: version `GLIBC_2.38' not found (required by x)", ""),
        ("pyenv: perf: command not found", ""),
        ("", ""),
    ],
)
def test_a_version_is_the_line_that_has_one(printed: str, line: str) -> None:
    assert version_line(printed) == line


@pytest.mark.parametrize(
    ("found", "ok", "fix"),
    [
        (None, False, "rustup"),
        ("cargo 1.63.0 (Debian)", False, "rustup update stable"),
        ("/root/.cargo/bin/cargo (no version told)", False, "rustup default stable"),
        ("cargo 1.88.0 (873a06493 2025-05-10)", True, ""),
        ("cargo 1.100.0-nightly", True, ""),
    ],
)
def test_rust_is_as_new_as_the_core_needs(found: str | None, ok: bool, fix: str) -> None:
    """A package that may be too old is not what is advised."""
    asked = Probe("cargo", found is not None, found or "not installed", fix="apt install cargo")
    probe = rust_probe(asked, "1.88")
    assert probe.ok == ok
    if not ok:
        assert fix in probe.fix
        assert "apt install" not in probe.fix


def test_the_first_line_says_whether_the_two_commands_will_work() -> None:
    both = [Ready("nfslab quickstart"), Ready("./test")]
    assert doctor.first_line(both) == "nfslab quickstart and ./test will work here."
    partly = [
        Ready("nfslab quickstart", left_out=[Lack("target nfs: no /dev/fuse", "modprobe fuse")]),
        Ready(
            "./test", [Lack("cc: not installed", "apt install gcc libc6-dev"), Lack("cargo: old")]
        ),
    ]
    assert doctor.first_line(partly) == (
        "nfslab quickstart will work here. "
        "nfslab quickstart leaves out what needs: target nfs: no /dev/fuse (modprobe fuse). "
        "./test will NOT work here, it lacks: cc: not installed (apt install gcc libc6-dev); "
        "cargo: old."
    )


def test_the_quickstart_is_ready_when_anything_of_it_can_run() -> None:
    blocked = [(None, [Obstacle("target nfs", "no FUSE")])]
    nothing = doctor.quickstart_ready(Preflight(blocked=blocked))  # type: ignore[arg-type]
    assert [lack.what for lack in nothing.missing] == ["target nfs: no FUSE"]
    some = doctor.quickstart_ready(Preflight([None], blocked))  # type: ignore[arg-type, list-item]
    assert not some.missing
    assert [lack.what for lack in some.left_out] == ["target nfs: no FUSE"]


def test_what_the_two_commands_lack(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "test").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(doctor, "CHECKOUT", tmp_path)
    monkeypatch.setattr(doctor, "_quickstart", Preflight)
    found = [Probe("cc", False, "not installed", fix="apt install gcc"), Probe("fio", False, "no")]
    quickstart, test = doctor.readiness(found)
    assert (quickstart.missing, test.command) == ([], "./test")
    assert test.missing == [Lack("cc: not installed", "apt install gcc")]
    core = Probe("Rust core", False, "gone", "", "nfslab --set-up-only builds it", essential=True)
    assert doctor.readiness([core])[0].missing == [Lack("Rust core: gone", core.fix)]
    (tmp_path / "test").unlink()
    assert [one.command for one in doctor.readiness([])] == ["nfslab quickstart"]

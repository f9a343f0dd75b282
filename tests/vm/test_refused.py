"""What cannot be run is refused before anything is started, with what to do."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from nfslab.vm import run as running
from nfslab.vm import shares

from tests.cli.invocation import nfslab

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was fetched yet; root, and all programs, are there by what the tests say."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("NFSLAB_STATE", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("qemu-system-x86_64", "virtiofsd", "busybox"):
        (programs / name).write_text("#!/bin/sh\nexit 99\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setattr(shares, "PLACES", ())


def without(name: str, tmp_path: Path) -> None:
    (tmp_path / "bin" / name).unlink()


@pytest.mark.parametrize(
    ("name", "package"),
    [("qemu-system-x86_64", "qemu-system-x86"), ("virtiofsd", "qemu-system-common")],
)
def test_a_missing_program(name: str, package: str, tmp_path: Path, capsys: Capture) -> None:
    without(name, tmp_path)
    said = nfslab(capsys, "vm", "run", "--", "true")
    assert said.code == 1
    assert name in said.err
    assert f"apt install {package}" in said.err


def test_not_root(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr("nfslab.machine.resources.recover", list)
    said = nfslab(capsys, "vm", "run", "--", "true")
    assert said.code == 1
    assert "as root" in said.err


def test_no_kernel_and_no_apt(capsys: Capture) -> None:
    said = nfslab(capsys, "vm", "run", "--kernel", "6.12", "--", "true")
    assert said.code == 2
    assert "kernel 6.12" in said.err
    assert "--kernel PATH" in said.err


@pytest.mark.parametrize("content", [None, b"no kernel"])
def test_a_path_that_is_no_kernel(content: bytes | None, tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "vmlinuz"
    if content is not None:
        path.write_bytes(content)
    said = nfslab(capsys, "vm", "run", "--kernel", path, "--", "true")
    assert said.code == 2
    assert str(path) in said.err


def kernel(tmp_path: Path) -> Path:
    path = tmp_path / "vmlinux"
    path.write_bytes(b"\x7fELF" + b"Linux version 6.9.1-test (somebody) ")
    return path


def test_a_kernel_without_modules(tmp_path: Path, capsys: Capture) -> None:
    said = nfslab(capsys, "vm", "run", "--kernel", kernel(tmp_path), "--", "true")
    assert said.code == 2
    assert "--modules DIR/lib/modules/6.9.1-test" in said.err


def test_modules_of_another_kernel(tmp_path: Path, capsys: Capture) -> None:
    options = ["--kernel", kernel(tmp_path), "--modules", tmp_path]
    said = nfslab(capsys, "vm", "run", *options, "--", "true")
    assert said.code == 2
    assert "modules.dep" in said.err


def test_a_busybox_that_needs_libraries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dynamic = tmp_path / "bin" / "busybox"
    dynamic.write_bytes(b"\x7fELF/lib64/ld-linux-x86-64.so.2\0")
    with pytest.raises(running.Unavailable, match="busybox-static"):
        running._busybox()
    without("busybox", tmp_path)
    monkeypatch.setattr("shutil.which", lambda *_args, **_named: None)
    with pytest.raises(running.Unavailable, match="busybox-static"):
        running._busybox()


@pytest.mark.parametrize("options", [["--memory", "1M"], ["--memory", "much"], ["--cpus", "0"]])
def test_sizes_that_no_guest_has(options: list[str], capsys: Capture) -> None:
    assert nfslab(capsys, "vm", "run", *options, "--", "true").code == 2


def test_no_command(capsys: Capture) -> None:
    assert nfslab(capsys, "vm", "run").code == 2


@pytest.mark.parametrize("folder", ["/", "/proc", "/sys/kernel"])
def test_a_folder_that_cannot_be_shared(
    folder: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(folder)
    said = nfslab(capsys, "vm", "run", "--", "true")
    assert said.code == 2
    assert folder in said.err

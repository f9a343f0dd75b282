"""Probes: never raising, always with a way out, and true where it can be told."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from nfslab.experiment import probes as probing
from nfslab.experiment.probes import package_folder, probes


@pytest.mark.system
def test_every_group_answers_and_agrees_with_the_machine(state: Path) -> None:
    found = {probe.name: probe for probe in probes()}
    assert {probe.group for probe in found.values()} == set(probing.GROUPS)
    for probe in found.values():
        assert probe.found, probe.name
        if not probe.ok:
            assert probe.fix, probe.name
            assert probe.purpose, probe.name
    assert found["Rust core"].ok
    assert found["Python"].ok
    assert found["fio"].ok == (shutil.which("fio") is not None)
    assert found["BTF"].ok == Path("/sys/kernel/btf/vmlinux").exists()
    assert found["drop the page cache"].ok == os.access("/proc/sys/vm/drop_caches", os.W_OK)
    listed = Path("/proc/filesystems").read_text().split()
    if "btrfs" in listed and shutil.which("mkfs.btrfs"):
        assert found["btrfs"].ok
    embedded = found["embedded PostgreSQL"]
    if embedded.ok:
        assert Path(embedded.found, "postgres").exists()


def test_a_missing_program_names_its_package(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda *arguments, **options: None)
    found = {probe.name: probe for probe in probes()}
    assert not found["fio"].ok
    assert found["fio"].fix == "apt install fio"
    assert found["ganesha.nfsd"].fix == "apt install nfs-ganesha nfs-ganesha-vfs"


def test_a_probe_that_fails_says_so(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise RuntimeError("no such thing")

    monkeypatch.setitem(probing.GROUPS, "core", broken)  # type: ignore[arg-type]
    first = next(iter(probes()))
    assert not first.ok
    assert "no such thing" in first.found


@pytest.mark.system
def test_a_build_without_compilers_says_what_it_lacks(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The core's answers are those of such a build (crates/syscalls/tests/system/left_out.rs)."""
    from nfslab import _core

    why = "/nonexistent/cc could not be run when this was built (No such file or directory)"
    refused = {
        "ok": False, "kind": "left_out", "what": "eBPF was left out when nfslab was built",
        "why": "NFSLAB_EBPF=0 was set when this was built", "blocks": False,
        "fix": "Build nfslab on Linux, for a little-endian processor, without NFSLAB_EBPF=0.",
    }  # fmt: skip

    def no_shim(folder: str) -> str:
        error = _core.CoreError("the preload shim was left out when nfslab was built")
        error.what, error.why, error.fix, error.kind = str(error), why, "", "left_out"
        raise error

    monkeypatch.setattr(_core, "syscalls_grants", lambda: refused)
    monkeypatch.setattr(_core, "shim_path", no_shim)
    monkeypatch.setattr(probing, "GROUPS", {"tracing": probing.GROUPS["tracing"]})
    found = {probe.name: probe for probe in probes()}
    ebpf, shim = found["eBPF"], found["preload shim"]
    assert not ebpf.ok
    assert ebpf.found == f"{refused['what']}: {refused['why']}"
    assert ebpf.fix == refused["fix"]
    assert not shim.ok
    assert shim.found == f"the preload shim was left out when nfslab was built: {why}"
    assert "C compiler" in shim.fix


def test_packages_are_found_without_importing_them() -> None:
    assert package_folder("json") == Path(os.__file__).parent / "json"
    assert package_folder("nonesuch_package") is None

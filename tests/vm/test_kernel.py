"""Kernels in the cache: fetched once, unpacked whole or not at all, and used offline."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from nfslab.errors import RunFailed, UsageError
from nfslab.vm import packages
from nfslab.vm.kernel import cache_folder, find, require

RELEASE = "6.12.9+deb12-cloud-amd64"
NEWER = "6.12.10+deb12-cloud-amd64"
VMLINUX = b"\x7fELF" + f"Linux version {RELEASE} (somebody) ".encode()
PATH = f"{os.defpath}:/sbin:/usr/sbin"
TOOLS = [name for name in ("dpkg-deb", "depmod") if shutil.which(name, path=PATH) is None]

needs_tools = pytest.mark.skipif(bool(TOOLS), reason=f"not installed: {', '.join(TOOLS)}")


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(packages, "architecture", lambda: "amd64")
    monkeypatch.setattr(packages, "newest", lambda _version: None)


def package(folder: Path) -> Path:
    """What a kernel's package holds, as dpkg-deb unpacks it."""
    root = folder / "root"
    modules = root / "lib" / "modules" / RELEASE
    modules.mkdir(parents=True)
    (modules / "modules.builtin").write_text("kernel/fs/overlayfs/overlay.ko\n")
    (modules / "modules.order").write_text("")
    (root / "boot").mkdir()
    (root / "boot" / f"vmlinuz-{RELEASE}").write_bytes(VMLINUX)
    return root


def deb(folder: Path) -> Path:
    root = package(folder)
    (root / "DEBIAN").mkdir()
    control = f"Package: linux-image-{RELEASE}\nVersion: 1\nArchitecture: amd64\n"
    (root / "DEBIAN" / "control").write_text(f"{control}Maintainer: x <x@x>\nDescription: x\n")
    path = folder / "kernel.deb"
    subprocess.run(["dpkg-deb", "-b", root, path], check=True, capture_output=True)
    return path


@pytest.mark.system
@needs_tools
def test_a_package_that_was_given(tmp_path: Path) -> None:
    path = deb(tmp_path)
    found = find(str(path), None, print)
    assert found.release == RELEASE
    assert found.vmlinux.read_bytes() == VMLINUX
    assert (found.modules / "modules.dep").exists(), "which depmod makes, not the package"
    made = found.vmlinux.stat().st_mtime_ns
    assert find(str(path), None, print).vmlinux.stat().st_mtime_ns == made, "unpacked once"


@pytest.mark.system
@needs_tools
def test_a_version_is_fetched_once_and_then_needs_no_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched, told = [], []

    def fetch(release: str, folder: Path) -> Path:
        fetched.append(release)
        shutil.copytree(package(tmp_path), folder / "package")
        return folder / "package"

    monkeypatch.setattr(packages, "newest", lambda _version: RELEASE)
    monkeypatch.setattr(packages, "fetch", fetch)
    first = find("6.12", None, told.append)
    assert find(f"linux-image-{RELEASE}", None, told.append) == first
    assert fetched == [RELEASE]
    assert len(told) == 1

    def broken(_release: str, _folder: Path) -> Path:
        raise RunFailed("could not be fetched", why="no network", fix="mend it")

    # apt knows a newer one, and cannot bring it.
    monkeypatch.setattr(packages, "newest", lambda _version: NEWER)
    monkeypatch.setattr(packages, "fetch", broken)
    assert find("6.12", None, told.append) == first
    assert "no network" in told[-1]
    assert RELEASE in told[-1]
    with pytest.raises(RunFailed, match="could not be fetched"):
        find("6.11", None, told.append)
    # apt knows nothing at all.
    monkeypatch.setattr(packages, "newest", lambda _version: None)
    assert find("6.12", None, told.append) == first
    with pytest.raises(UsageError, match=r"6\.1\b"):
        find("6.1", None, told.append)


def test_what_a_killed_start_left_is_removed(tmp_path: Path) -> None:
    left = cache_folder() / "given" / ".new-x" / "new"
    left.mkdir(parents=True)
    path, modules = tmp_path / "vmlinux", tmp_path / "modules"
    path.write_bytes(VMLINUX)
    modules.mkdir()
    (modules / "modules.dep").write_text("")
    found = find(str(path), modules, print)
    assert (found.release, found.modules) == (RELEASE, modules)
    assert [one.name for one in (cache_folder() / "given").glob(".new-*")] == []


def test_a_package_without_a_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """linux-image-6.12-cloud-amd64 only depends on one."""
    monkeypatch.setattr(packages, "newest", lambda _version: RELEASE)
    (tmp_path / "empty").mkdir()
    monkeypatch.setattr(packages, "fetch", lambda _release, _folder: tmp_path / "empty")
    with pytest.raises(UsageError, match="0 kernels"):
        find("6.12", None, print)
    assert not list((cache_folder() / "kernels").glob("[!.]*"))


@pytest.mark.long
def test_a_kernel_is_asked_for_without_fetching_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fetch(*_: object) -> Path:
        raise AssertionError("fetched")

    monkeypatch.setattr(packages, "fetch", fetch)
    with pytest.raises(UsageError, match=r"kernel 6\.12"):
        require("6.12", None)
    with pytest.raises(UsageError, match="no kernel"):
        require(str(tmp_path / "vmlinuz"), None)
    monkeypatch.setattr(packages, "newest", lambda _version: RELEASE)
    require("6.12", None)
    assert not list(cache_folder().glob("kernels/*"))

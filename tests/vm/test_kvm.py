"""KVM is tried once a boot of this machine, and what came of it is kept."""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path

import pytest
from nfslab.machine.emulation import MARK
from nfslab.vm import qemu
from nfslab.vm.shares import Share


@pytest.fixture(autouse=True)
def _device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: True)
    monkeypatch.setattr(qemu, "find_qemu", lambda: "/usr/bin/qemu-system-x86_64")


def test_it_is_tried_until_it_is_known_not_to_work(tmp_path: Path) -> None:
    assert qemu.kvm_may_work(tmp_path)
    qemu.remember_kvm(tmp_path, works=True)
    assert qemu.kvm_may_work(tmp_path)
    qemu.remember_kvm(tmp_path, works=False)
    assert not qemu.kvm_may_work(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["kvm.json"]


@pytest.mark.parametrize("key", ["boot", "machine"])
def test_after_a_boot_or_elsewhere_it_is_tried_again(key: str, tmp_path: Path) -> None:
    qemu.remember_kvm(tmp_path, works=False)
    path = tmp_path / "kvm.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {key: "another"}))
    assert qemu.kvm_may_work(tmp_path)


@pytest.mark.parametrize("content", ["", "{", "[]", "null", '"x"'])
def test_a_damaged_memory_is_no_memory(content: str, tmp_path: Path) -> None:
    (tmp_path / "kvm.json").write_text(content)
    assert qemu.kvm_may_work(tmp_path)


def test_without_the_device_it_is_not_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert not qemu.kvm_may_work(tmp_path)


@pytest.mark.parametrize("kvm", [True, False])
def test_only_an_emulated_guest_bears_the_mark(kvm: bool) -> None:
    shares = [Share("root", Path("/"), writable=False)]
    size = qemu.Size(3 << 30, 4)
    argv = qemu.arguments(Path("/tmp/a,b"), Path("/k/vmlinux"), size, shares, kvm=kvm)
    after = dict(itertools.pairwise(argv))
    assert (MARK in after["-append"].split()) is not kvm
    assert after["-accel"].startswith("kvm" if kvm else "tcg")
    assert (after["-m"], after["-smp"]) == ("3072M", "4")
    # QEMU takes a doubled comma for one.
    assert "socket,id=fs-root,path=/tmp/a,,b/root.sock" in argv

"""Which modules a guest loads, in which order, from folders as depmod leaves them."""

from __future__ import annotations

import gzip
import lzma
from pathlib import Path

import pytest
from nfslab.errors import UsageError
from nfslab.vm.modules import needed

# As depmod of kmod 30 writes it for Debian's 6.1: what is needed first stands last.
DEP = """\
kernel/drivers/virtio/virtio_pci.ko: kernel/drivers/virtio/virtio-ring.ko kernel/virtio.ko
kernel/drivers/virtio/virtio-ring.ko: kernel/virtio.ko
kernel/virtio.ko:
kernel/drivers/char/virtio_console.ko.gz: kernel/virtio.ko
kernel/fs/overlayfs/overlay.ko.xz:
"""
BUILT_IN = "kernel/fs/fuse/fuse.ko\nkernel/fs/fuse/virtiofs.ko\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "modules.dep").write_text(DEP)
    (tmp_path / "modules.builtin").write_text(BUILT_IN)
    for line in DEP.splitlines():
        path = tmp_path / line.partition(":")[0]
        path.parent.mkdir(parents=True, exist_ok=True)
        content = path.name.encode()
        packers = {".xz": lzma.compress, ".gz": gzip.compress}
        path.write_bytes(packers.get(path.suffix, bytes)(content))
    return tmp_path


def test_dependencies_come_first_and_once(folder: Path) -> None:
    found = needed(folder)
    names = [module.name for module in found]
    assert names == ["virtio", "virtio_ring", "virtio_pci", "virtio_console", "overlay"]
    contents = {module.name: module.content for module in found}
    assert contents["overlay"] == b"overlay.ko.xz"
    assert contents["virtio_console"] == b"virtio_console.ko.gz"
    assert contents["virtio_ring"] == b"virtio-ring.ko"


def test_without_overlay_there_is_no_guest(folder: Path) -> None:
    (folder / "modules.dep").write_text("".join(DEP.splitlines(keepends=True)[:-1]))
    with pytest.raises(UsageError) as error:
        needed(folder)
    assert error.value.why.startswith("overlay ")


def test_a_folder_without_modules(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"modules\.dep"):
        needed(tmp_path)


def test_a_damaged_module(folder: Path) -> None:
    (folder / "kernel/fs/overlayfs/overlay.ko.xz").write_bytes(b"no xz")
    with pytest.raises(UsageError, match=r"overlay\.ko\.xz"):
        needed(folder)

"""Kernel modules that a guest needs before it sees any file: which, in what order, unpacked.

Debian's kernels differ: 6.12 has virtio and FUSE built in, 6.1 has them as modules. So each name
that is needed is looked up in `modules.builtin`, then in `modules.dep` with all that it depends on
(depmod(8) writes both; a line of modules.dep lists what has to be there first from right to left).
"""

from __future__ import annotations

import gzip
import io
import lzma
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nfslab.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

NEEDED = ("virtio_pci", "virtio_console", "virtiofs", "overlay")
"""The bus, the guest's outputs, the shared folders, and what makes a read-only root writable."""
NETWORK = "virtio_net"
"""Of a guest with a network device."""


@dataclass(frozen=True, slots=True)
class Module:
    """A module, ready for insmod."""

    name: str
    content: bytes


def needed(folder: Path, names: Iterable[str] = NEEDED) -> list[Module]:
    """Modules to load, in order; UsageError when a name is neither built in nor there."""
    built_in = {_name(line) for line in _lines(folder / "modules.builtin", required=False)}
    paths, before = {}, {}
    for line in _lines(folder / "modules.dep", required=True):
        path, _, others = line.partition(":")
        paths[_name(path)] = path
        before[_name(path)] = [_name(other) for other in reversed(others.split())]
    order: dict[str, None] = {}
    for name in names:
        if name in built_in:
            continue
        if name not in paths:
            raise UsageError(
                f"the kernel's modules in {folder} are not enough for a guest",
                why=f"{name} is neither in modules.dep nor in modules.builtin",
                fix="build it into that kernel or as a module; Debian's cloud kernels have it",
            )
        order |= dict.fromkeys([*before[name], name])
    return [Module(name, _content(folder / paths[name])) for name in order]


def _name(path: str) -> str:
    """kernel/fs/overlayfs/overlay.ko.xz -> overlay; the kernel takes - and _ for the same."""
    return path.rpartition("/")[2].partition(".")[0].replace("-", "_")


def _lines(path: Path, *, required: bool) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError as error:
        if not required:
            return []
        raise _unreadable(path, error) from error


def _content(path: Path) -> bytes:
    try:
        content = path.read_bytes()
        match path.suffix:
            case ".xz":
                return lzma.decompress(content)
            case ".gz":
                return gzip.decompress(content)
            case ".zst":
                import pyarrow

                with pyarrow.input_stream(io.BytesIO(content), compression="zstd") as one:
                    return bytes(one.read())
        return content
    except (OSError, EOFError, lzma.LZMAError) as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception) -> UsageError:
    return UsageError(
        f"the kernel module file {path} cannot be read",
        why=str(getattr(error, "strerror", None) or error),
        fix="give a folder of modules as depmod leaves it, or a version such as 6.12",
    )

"""Which kernel boots, and the folder of its modules.

A version is fetched once as a Debian package and kept unpacked in the user's cache
(`$XDG_CACHE_HOME/nfslab/vm/kernels/RELEASE`). A path may be a `vmlinuz`, a `vmlinux` or a `.deb`.
A folder in the cache is born under another name and renamed when it is whole.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nfslab.errors import RunFailed, UsageError, system_errors
from nfslab.machine.tools import said_by
from nfslab.vm import packages
from nfslab.vm.image import read_image

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HASH_DIGITS = 16
UNBORN = ".new-"
"""Beginning of a folder's name until it is whole."""
DEPMOD_LIMIT_S = 300.0


@dataclass(frozen=True, slots=True)
class Kernel:
    """What a guest boots."""

    release: str
    vmlinux: Path
    modules: Path
    """Its folder with modules.dep: lib/modules/RELEASE."""


def cache_folder() -> Path:
    """Where kernels are kept for this user; RunFailed when it cannot be made."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    folder = (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "nfslab" / "vm"
    what = f"the cache of kernels {folder} cannot be made"
    fix = "set XDG_CACHE_HOME to a folder that can be written to"
    with system_errors(what, fix, RunFailed):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def find(asked: str, modules: Path | None, say: Callable[[str], None]) -> Kernel:
    """The kernel of a version or path, with its modules; UsageError, RunFailed.

    `say` is told of a download in one line.
    """
    packages.architecture()
    asked = asked.removeprefix("linux-image-")
    kernel = _of_version(asked, say) if _is_version(asked) else _of_path(Path(asked), modules)
    return kernel if modules is None else _with_modules(kernel, modules)


def require(asked: str, modules: Path | None) -> None:
    """Could `find` find it? Nothing is fetched. UsageError, RunFailed."""
    packages.architecture()
    if _is_version(asked):
        if not _fetched(asked):
            _release(asked)
    else:
        find(asked, modules, lambda _sentence: None)


def _is_version(asked: str) -> bool:
    named = asked == packages.STOCK or packages.VERSION.fullmatch(asked) is not None
    return named and not Path(asked).exists()


def _fetched(version: str) -> list[str]:
    """Releases in the cache, the newest last."""
    found = [
        path.name
        for path in (cache_folder() / "kernels").glob(f"[!.]*{packages.suffix()}")
        if version == packages.STOCK or packages.release_matches(path.name, version)
    ]
    return sorted(found, key=packages.order)


def _release(version: str) -> tuple[str, list[str]]:
    """The newest that apt knows, or has fetched before; all that were fetched. UsageError."""
    release = packages.newest(version)
    cached = _fetched(version)
    if release is None:
        if not cached:
            raise packages.unknown_version(version)
        release = cached[-1]
    return release, cached


def _of_version(version: str, say: Callable[[str], None]) -> Kernel:
    release, cached = _release(version)
    kernels = cache_folder() / "kernels"
    if release in cached:
        return _kept(kernels / release, release)
    say(f"fetching linux-image-{release} (about 35 MB, once)")
    try:
        with _new_folder(kernels / release) as new:
            if new is not None:
                _fill_from_package(new, packages.fetch(release, new))
    except RunFailed as error:
        if not cached:
            raise
        say(f"{error.in_a_line()}; taking {cached[-1]}, fetched before")
        release = cached[-1]
    return _kept(kernels / release, release)


def _of_path(path: Path, modules: Path | None) -> Kernel:
    """A file that was given. It is unpacked into the cache, under the hash of its content."""
    fix = "give a version such as 6.12, or the path of a vmlinuz, vmlinux or .deb file"
    with system_errors(f"there is no kernel {path}", fix, UsageError):
        digest = hashlib.sha256(path.read_bytes()).hexdigest()[:HASH_DIGITS]
    place = cache_folder() / "given" / digest
    if not place.is_dir():
        with _new_folder(place) as new:
            if new is not None and path.suffix == ".deb":
                _fill_from_package(new, packages.unpack(path, new))
            elif new is not None:
                image = read_image(path)
                (new / "vmlinux").write_bytes(image.vmlinux)
                (new / "release").write_text(image.release)
    release = (place / "release").read_text()
    if (place / "modules").is_dir():
        return _kept(place, release)
    beside = path.absolute().parent.parent / "lib" / "modules" / release
    for folder in (beside, Path("/lib/modules") / release):
        if modules is None and (folder / "modules.dep").exists():
            return Kernel(release, place / "vmlinux", folder)
    if modules is None:
        raise UsageError(
            f"the modules of the kernel {path} were not found",
            why=f"neither {beside} nor /lib/modules/{release} has a modules.dep",
            fix=f"give their folder: --modules DIR/lib/modules/{release}, after depmod",
        )
    return Kernel(release, place / "vmlinux", modules)


def _kept(place: Path, release: str) -> Kernel:
    return Kernel(release, place / "vmlinux", place / "modules" / "lib" / "modules" / release)


def _with_modules(kernel: Kernel, modules: Path) -> Kernel:
    """The modules that were given in place of the kernel's own."""
    for folder in (modules, modules / "lib" / "modules" / kernel.release, modules / kernel.release):
        if (folder / "modules.dep").exists():
            return Kernel(kernel.release, kernel.vmlinux, folder.absolute())
    raise UsageError(
        f"{modules} holds no modules of the kernel {kernel.release}",
        why=f"neither it nor its lib/modules/{kernel.release} has a modules.dep",
        fix="give the folder that `make modules_install INSTALL_MOD_PATH=DIR` and depmod made",
    )


def _fill_from_package(new: Path, package: Path) -> None:
    """From an unpacked package to what is kept: vmlinux, modules, release."""
    found = sorted((package / "boot").glob("vmlinuz-*"))
    if len(found) != 1:
        raise UsageError(
            f"the package holds {len(found)} kernels, not one",
            why="a package such as linux-image-6.12-cloud-amd64 only depends on one",
            fix="give the package of the kernel itself: linux-image-6.12.NN...",
        )
    image = read_image(found[0])
    (new / "vmlinux").write_bytes(image.vmlinux)
    (new / "release").write_text(image.release)
    place = new / "modules" / "lib"
    place.mkdir(parents=True)
    # Debian 13 and later put them below usr.
    source = package / "usr" / "lib" / "modules"
    (source if source.is_dir() else package / "lib" / "modules").rename(place / "modules")
    _depmod(new / "modules", image.release)
    shutil.rmtree(package)


def _depmod(root: Path, release: str) -> None:
    """Write modules.dep, which a package makes only when it is installed; RunFailed."""
    program = shutil.which("depmod", path=os.environ.get("PATH", "") + ":/sbin:/usr/sbin")
    if program is None:
        raise RunFailed(
            "the kernel's modules cannot be used",
            why="the program depmod is missing",
            fix="apt install kmod",
        )
    said = said_by([program, "-b", str(root), release], DEPMOD_LIMIT_S)
    if said.returncode != 0:
        raise RunFailed(
            f"depmod failed for {release}", why=said.stderr.strip(), fix="make room in the cache"
        )


@contextlib.contextmanager
def _new_folder(place: Path) -> Iterator[Path | None]:
    """A folder to fill, which becomes `place` at the end; None when another has made it."""
    try:
        place.parent.mkdir(mode=0o700, exist_ok=True)
        with (place.parent / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if place.is_dir():
                yield None
                return
            for dead in place.parent.glob(f"{UNBORN}*"):
                # We have the lock, so whoever made it was killed.
                shutil.rmtree(dead, ignore_errors=True)
            with tempfile.TemporaryDirectory(prefix=UNBORN, dir=place.parent) as made:
                new = Path(made) / "new"
                new.mkdir()
                yield new
                new.rename(place)
    except OSError as error:
        raise RunFailed(
            f"the kernel cannot be kept in {place}",
            why=f"{error.strerror or error} ({error.filename})",
            fix="make room there, or set XDG_CACHE_HOME to another folder",
        ) from error

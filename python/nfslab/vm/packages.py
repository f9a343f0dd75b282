"""Debian's kernel packages: which there are, and fetching one.

apt does it: it knows where packages are, and checks what it gets by the signed list's size and
hash. A version (`6.12`) stands for the newest package of it; names such as
linux-image-6.12-cloud-amd64 are of no use, since they hold no kernel but depend on one. The cloud
flavour has what a virtual machine needs, and half the size.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from pathlib import Path

from nfslab.errors import RunFailed, UsageError
from nfslab.machine.tools import said_by

FLAVOUR = "cloud"
STOCK = "stock"
"""Stands for the kernel that this Debian release calls its own."""
APT_LIMIT_S = 600.0
VERSION = re.compile(r"\d+(\.\d+)+\S*")
GIVE_PATH = "give the path of a kernel: --kernel PATH (and --modules DIR)"


def architecture() -> str:
    """Debian's name of this machine's architecture; RunFailed where no guest is made for it."""
    if platform.machine() != "x86_64":
        raise RunFailed(
            f"no virtual machine can be made on {platform.machine()}",
            why="nfslab makes guests for x86-64 only",
            fix="use an x86-64 machine",
        )
    return "amd64"


def suffix() -> str:
    """What a release's name ends with: -cloud-amd64."""
    return f"-{FLAVOUR}-{architecture()}"


def release_matches(release: str, version: str) -> bool:
    """Is this kernel of the version asked for (6.12 is 6.12.117+deb12-cloud-amd64, not 6.1)?"""
    rest = release.removeprefix(version)
    return release.startswith(version) and (not rest or not rest[0].isdigit())


def order(release: str) -> list[int]:
    """For sorting releases: the numbers in it, so that 6.1.0-9 is before 6.1.0-50."""
    return [int(number) for number in re.findall(r"\d+", release)]


def newest(version: str) -> str | None:
    """Release of the newest kernel package of a version; None when apt knows of none."""
    if version == STOCK:
        listed = _apt_cache("depends", f"linux-image{suffix()}")
    else:
        listed = _apt_cache("pkgnames", "linux-image-")
    end = re.escape(suffix())
    # With an ABI number (6.1.0-56) or a whole version (6.12.117+deb12): a package with a kernel.
    names: list[str] = re.findall(rf"linux-image-(\d+\.\d+[.-]\S*?{end})$", listed, re.MULTILINE)
    fitting = [name for name in names if version == STOCK or release_matches(name, version)]
    for release in sorted(set(fitting), key=order, reverse=True):
        # Names of what was installed once, or is only depended on, are listed too.
        if "\nFilename:" in _apt_cache("show", "--no-all-versions", f"linux-image-{release}"):
            return release
    return None


def fetch(release: str, folder: Path) -> Path:
    """Download a kernel's package into a folder and unpack it there; where. RunFailed."""
    package = f"linux-image-{release}"
    for program in ("apt-get", "dpkg-deb"):
        if shutil.which(program) is None:
            raise _no_apt(program)
    # As root apt would fetch as user _apt, who may not write to our folder.
    options = ["-o", "APT::Sandbox::User=root"] if os.geteuid() == 0 else []
    _checked(
        ["apt-get", "-q", *options, "download", package],
        folder,
        f"the kernel package {package} could not be fetched",
        f"see to the network (apt-get update), or {GIVE_PATH}",
    )
    files = list(folder.glob("*.deb"))
    if len(files) != 1:
        raise RunFailed(
            f"apt-get fetched {len(files)} files for {package}", fix="run `apt-get update`"
        )
    place = unpack(files[0], folder)
    files[0].unlink()
    return place


def unpack(package: Path, folder: Path) -> Path:
    """Unpack a .deb file below a folder; where its root is. RunFailed."""
    if shutil.which("dpkg-deb") is None:
        raise _no_apt("dpkg-deb")
    place = folder / "package"
    _checked(
        ["dpkg-deb", "-x", str(package.absolute()), str(place)],
        folder,
        f"the kernel package {package} could not be unpacked",
        "fetch it again, or make room in the cache",
    )
    return place


def unknown_version(version: str) -> UsageError:
    """Nobody has a kernel of this version."""
    end = re.escape(suffix())
    names = _apt_cache("pkgnames", "linux-image-")
    some = re.findall(rf"linux-image-(\d+\.\d+)\S*{end}$", names, re.MULTILINE)
    known = ", ".join(sorted(set(some), key=order))
    asked = "a kernel of its own" if version == STOCK else f"a kernel {version}"
    return UsageError(
        f"there is no package with {asked}",
        why=f"apt knows {known} here" if known else "apt's lists name no kernel package",
        fix=f"run `apt-get update`, ask for one of those, or {GIVE_PATH}",
    )


def _apt_cache(*arguments: str) -> str:
    """What apt-cache prints; nothing where it is missing or knows nothing."""
    if shutil.which("apt-cache") is None:
        return ""
    try:
        return said_by(["apt-cache", *arguments], APT_LIMIT_S).stdout
    except subprocess.TimeoutExpired:
        return ""


def _checked(argv: list[str], folder: Path, what: str, fix: str) -> None:
    try:
        said = said_by(argv, APT_LIMIT_S, folder)
    except subprocess.TimeoutExpired as error:
        why = f"{argv[0]} took longer than {APT_LIMIT_S:g} s"
        raise RunFailed(what, why=why, fix=fix) from error
    if said.returncode != 0:
        lines = (said.stderr or said.stdout).strip().splitlines()
        raise RunFailed(what, why=" ".join(lines[-2:]) or f"exit code {said.returncode}", fix=fix)


def _no_apt(program: str) -> RunFailed:
    return RunFailed(
        "no kernel package can be fetched here",
        why=f"the program {program} is missing: this is no Debian",
        fix=GIVE_PATH,
    )

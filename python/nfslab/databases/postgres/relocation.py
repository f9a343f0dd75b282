"""A copy of the embedded PostgreSQL where the server's user can reach it.

PostgreSQL refuses to run as root, so root's server runs as an unprivileged user. When
nfslab was cloned into a folder that this user cannot enter (/root is 0700), the programs
of the wheel are out of its reach. Opening the person's folders is out of the question;
instead the installation is copied once to

    /var/cache/nfslab/postgres-<first 16 hex digits of the content's SHA-256>/

in a folder that root alone can write to: nobody can take the name first. The name is the hash
of what is in it (path, kind, executable or not, content of every file), and before each use the
hash is computed anew (some 40 MB: a few hundredths of a second, once a process) and owner and
mode of every entry are checked: what is not root's is not executed.

Bounds: FILES_MAX files, BYTES_MAX bytes, COPIES_MAX such folders; the folders are never
removed by nfslab (another run may be using one): `rm -r /var/cache/nfslab/postgres-*`
when none runs. The wheel's programs find their libraries relative to themselves, so the
copy keeps the wheel's layout; its header files are left out.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import stat
import tempfile
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from nfslab.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nfslab.databases.postgres.installation import Installation

PARENT: Final = Path("/var/cache/nfslab")
PREFIX: Final = "postgres-"
FILES_MAX: Final = 20_000
BYTES_MAX: Final = 512 << 20
COPIES_MAX: Final = 8
LEFT_OUT: Final = frozenset({"include", "__pycache__"})


def reachable_copy(installation: Installation, *, parent: Path = PARENT) -> Installation:
    """The same embedded installation at a place that every user can reach.

    Raises Unavailable when it cannot be made, or when what is there cannot be trusted.
    """
    package = installation.bindir.parent.parent
    prefix = installation.bindir.parent
    sources = {f"{package.name}/{prefix.name}": prefix}
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.is_dir():
        sources[libraries.name] = libraries
    digest = _digest_of(tuple(sources.items()))
    target = parent / f"{PREFIX}{digest[:16]}"
    if not target.is_symlink() and not target.exists():
        _make(sources, target)
    _verify(target, list(sources), digest)
    return replace(installation, bindir=target / package.name / prefix.name / "bin")


def _make(sources: dict[str, Path], target: Path) -> None:
    """Copy under a temporary name, then rename: another process sees all or nothing."""
    if not target.parent.exists():
        target.parent.mkdir()
        target.parent.chmod(0o755)
    others = list(target.parent.glob(f"{PREFIX}*"))
    if len(others) >= COPIES_MAX:
        raise Unavailable(
            f"there are already {len(others)} copies of PostgreSQL in {target.parent}",
            why="one is made per version of the embedded PostgreSQL, and none is removed",
            fix=f"when nfslab is not running: rm -r {shlex.quote(str(target.parent))}/{PREFIX}*",
        )
    building = Path(tempfile.mkdtemp(prefix=f".{PREFIX}", dir=target.parent))
    try:
        for name, source in sources.items():
            destination = building / name
            destination.parent.mkdir(parents=True, exist_ok=True)
            shutil.copytree(
                source, destination, symlinks=True, ignore=shutil.ignore_patterns(*LEFT_OUT)
            )
        for path in [building, *building.rglob("*")]:
            if not path.is_symlink():
                runs = path.is_dir() or path.stat().st_mode & stat.S_IXUSR
                path.chmod(0o755 if runs else 0o644)
                os.chown(path, os.geteuid(), os.getegid())
        try:
            building.rename(target)
        except OSError:
            # Another process was faster: its copy is verified as ours would be.
            if not target.is_dir():
                raise
    except (OSError, shutil.Error) as error:
        raise Unavailable(
            f"the embedded PostgreSQL could not be copied to {target}",
            why=str(error),
            fix="make room there, install the system's PostgreSQL, "
            "or clone nfslab into a folder that other users can enter",
        ) from error
    finally:
        shutil.rmtree(building, ignore_errors=True)


def _verify(target: Path, names: list[str], digest: str) -> None:
    """Is it ours alone, and unchanged? Remembered only while the process lives."""
    key = (str(target), digest, target.lstat().st_ctime_ns)
    if key in _verified:
        return
    problem = _ownership_problem(target)
    if not problem:
        present = tuple((name, target / name) for name in names)
        if _digest(present) != digest:
            problem = "its content is not what its name says"
    if problem:
        raise Unavailable(
            f"the copy of PostgreSQL in {target} is not used",
            why=problem,
            fix=f"find out who changed it; then rm -r {shlex.quote(str(target))}",
        )
    _verified.add(key)


_verified: set[tuple[str, str, int]] = set()


def _ownership_problem(target: Path) -> str:
    """Which entry somebody else could have written; "" when there is none."""
    if target.is_symlink() or not target.is_dir():
        return f"{target} is no folder"
    for path in [target.parent, target, *_walk(target)]:
        status = path.lstat()
        if status.st_uid not in (0, os.geteuid()):
            return f"{path} belongs to user {status.st_uid}"
        if not stat.S_ISLNK(status.st_mode) and status.st_mode & 0o022:
            return f"{path} is writable by others"
    return ""


def _walk(folder: Path) -> Iterator[Path]:
    """All entries below a folder except those left out, in a fixed order, bounded."""
    count = 0
    pending = [folder]
    while pending:
        here = pending.pop()
        if here.is_symlink() or not here.is_dir():
            continue
        for path in sorted(here.iterdir()):
            if path.name in LEFT_OUT:
                continue
            count += 1
            if count > FILES_MAX:
                raise Unavailable(
                    f"{folder} has more than {FILES_MAX} files",
                    why="an embedded PostgreSQL has about 1,500",
                    fix="set workload.postgres to another installation",
                )
            yield path
            pending.append(path)


def _digest(sources: tuple[tuple[str, Path], ...]) -> str:
    """SHA-256 over name, kind and content of everything in the sources."""
    total = 0
    digest = hashlib.sha256()
    for name, source in sorted(sources):
        for path in _walk(source):
            relative = f"{name}/{path.relative_to(source)}"
            if path.is_symlink():
                entry = f"link {os.readlink(path)}"
            elif path.is_dir():
                entry = "folder"
            else:
                content = path.read_bytes()
                total += len(content)
                executable = bool(path.stat().st_mode & stat.S_IXUSR)
                entry = f"file {executable} {hashlib.sha256(content).hexdigest()}"
            digest.update(f"{relative}\0{entry}\0".encode())
            if total > BYTES_MAX:
                raise Unavailable(
                    f"the PostgreSQL in {source} is larger than {BYTES_MAX} bytes",
                    why="it would have to be copied, since the server's user cannot reach it",
                    fix="set workload.postgres to an installation that other users can reach",
                )
    return digest.hexdigest()


@lru_cache(maxsize=8)
def _digest_of(sources: tuple[tuple[str, Path], ...]) -> str:
    """The person's own installation does not change while a process lives."""
    return _digest(sources)

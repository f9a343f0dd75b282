"""Writing so that what was written is there after a crash, or was never there at all.

Every record of a results folder goes: temporary name in the same folder, write, fsync,
rename, fsync of the folder. A reader sees the old content or the new one, never half.
JSON cannot hold NaN or infinities; they are written as the strings "NaN", "Infinity"
and "-Infinity", which the records' float fields read back as what they were: an odd
value is kept, not dropped.
"""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
from pathlib import Path
from typing import Any

TEMPORARY_PREFIX = ".writing-"
"""Names of files not yet whole; a reader skips them, the next runner removes them."""


def write_durably(path: Path, content: bytes) -> None:
    """Make `content` the file `path`, whole and on stable storage; OSError as it comes.

    What is there and no file (/dev/null, a pipe) is refused: it would be gone afterwards.
    """
    if path.exists() and not path.is_file():
        raise FileExistsError(errno.EEXIST, "it is there and is no regular file", str(path))
    temporary = path.with_name(f"{TEMPORARY_PREFIX}{path.name}-{os.getpid()}")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    fsync_path(path.parent)


def fsync_path(path: Path) -> None:
    """fsync one file or one directory (the latter makes its names durable)."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folders(path: Path, mode: int = 0o777) -> None:
    """Makes a folder and those above it that are missing; their names are on stable storage."""
    missing = [one for one in (path, *path.parents) if not one.exists()]
    path.mkdir(mode, parents=True, exist_ok=True)
    for one in reversed(missing):
        # To make a name one need not be allowed to read the folder, which syncing it needs.
        with contextlib.suppress(PermissionError):
            fsync_path(one.parent)


def fsync_tree(folder: Path) -> None:
    """fsync every file below `folder`, then every directory, the deepest first."""
    for parent, _, names in os.walk(folder, topdown=False):
        for path in (Path(parent, name) for name in names):
            if path.is_file() and not path.is_symlink():
                fsync_path(path)
        fsync_path(Path(parent))


def to_json(content: Any, *, indent: int | None = None) -> bytes:
    """JSON of plain Python values; numbers that JSON does not know become strings."""
    separators = (",", ":") if indent is None else None
    try:
        text = json.dumps(content, allow_nan=False, separators=separators, indent=indent)
    except ValueError:
        text = json.dumps(_spelled(content), allow_nan=False, separators=separators, indent=indent)
    return text.encode()


def _spelled(value: Any) -> Any:
    """The same value with non-finite floats spelled out."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {key: _spelled(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_spelled(item) for item in value]
    return value

"""Dropping the page cache between runs, as far as this user is permitted to.

What is dirty is written first (sync): dropping only ever frees clean pages. Root drops
the whole machine's cache; anyone else can ask the kernel, file by file, to forget the
pages of files that he can read. The outcome is returned for the run's record, because a
run with a warm cache measures something else.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

DROP_CACHES = Path("/proc/sys/vm/drop_caches")
FILES_MAX = 1_000_000
"""Files that are asked for one by one; beyond it the answer says so."""


def drop_page_cache(paths: Sequence[Path]) -> dict[str, Any]:
    """Drop the page cache: {"dropped": "all" | "files" | "no", "reason": why not more}.

    Without root only files below `paths` are dropped; "files" counts those, and
    "refused" those that could not be opened.
    """
    os.sync()
    try:
        # Page cache, and the dentries and inodes that a cold start has to read again.
        DROP_CACHES.write_text("3\n")
        return {"dropped": "all", "reason": ""}
    except OSError as error:
        reason = f"{DROP_CACHES}: {error.strerror}"
    dropped = refused = 0
    for path in _files_below(paths):
        if dropped + refused >= FILES_MAX:
            reason += f"; more than {FILES_MAX} files: the rest was left"
            break
        if _forget(path):
            dropped += 1
        else:
            refused += 1
    if dropped == 0:
        return {"dropped": "no", "reason": f"{reason}; no readable files below the paths"}
    return {"dropped": "files", "reason": reason, "files": dropped, "refused": refused}


def _files_below(paths: Sequence[Path]) -> Iterator[str]:
    """Regular files at or below the paths; links are not followed."""
    for path in paths:
        if path.is_file():
            yield str(path)
        for parent, _, names in os.walk(path):
            for name in names:
                yield os.path.join(parent, name)


def _forget(path: str) -> bool:
    """Ask the kernel to drop one file's pages; False when it could not be asked."""
    try:
        # O_NONBLOCK: a FIFO must not make us wait for its writer.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(path, flags)
    except OSError:
        return False
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return False
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True

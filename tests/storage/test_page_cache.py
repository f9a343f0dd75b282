"""Was the page cache dropped? Asked of the kernel (mincore through fincore), not of us."""

from __future__ import annotations

import ctypes
import mmap
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from nfslab.machine.mounts import mount_of
from nfslab.storage import page_cache
from nfslab.storage.page_cache import drop_page_cache

from tests.machine import needs

SIZE_BYTES = 8 << 20
LIBC = ctypes.CDLL(None, use_errno=True)


def resident_bytes(path: Path) -> int:
    """What fincore(1) of util-linux sees of a file in memory."""
    argv = ["fincore", "--bytes", "--noheadings", "--output", "RES", str(path)]
    return int(subprocess.run(argv, capture_output=True, text=True, check=True).stdout)


@pytest.fixture
def cached(scratch: Path) -> Path:
    if mount_of(scratch).filesystem in ("tmpfs", "ramfs", "overlay"):
        pytest.skip("files in memory cannot be dropped")
    if shutil.which("fincore") is None:
        pytest.skip("fincore is not here (util-linux)")
    file = scratch / "below" / "file"
    file.parent.mkdir()
    with file.open("w+b") as stream:
        stream.truncate(SIZE_BYTES)
        with mmap.mmap(stream.fileno(), SIZE_BYTES) as pages:
            # A kernel that reclaims idle memory (DAMON) leaves alone what is held.
            first = ctypes.c_char.from_buffer(pages)
            held = LIBC.mlock(ctypes.byref(first), ctypes.c_size_t(SIZE_BYTES)) == 0
            pages[:] = os.urandom(SIZE_BYTES)
            least = SIZE_BYTES if held else SIZE_BYTES // 2
            there = resident_bytes(file)
            del first
    assert there >= least, "written, and dirty"
    return file


@needs.root
@pytest.mark.system
def test_root_drops_all_dirty_pages_included(cached: Path) -> None:
    if not os.access(page_cache.DROP_CACHES, os.W_OK):
        pytest.skip("drop_caches is not writable here")
    assert drop_page_cache([]) == {"dropped": "all", "reason": ""}
    assert resident_bytes(cached) < SIZE_BYTES // 10


@pytest.mark.system
def test_others_drop_the_files_below_the_paths(
    cached: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(page_cache, "DROP_CACHES", tmp_path / "no" / "drop_caches")
    other = cached.parent.parent / "other"
    other.write_bytes(b"x")
    (cached.parent / "link").symlink_to(other)
    os.mkfifo(cached.parent / "fifo")
    asked: list[int] = []
    real = os.posix_fadvise

    def noted(descriptor: int, offset: int, length: int, advice: int) -> None:
        asked.append(os.fstat(descriptor).st_ino)
        real(descriptor, offset, length, advice)

    monkeypatch.setattr(os, "posix_fadvise", noted)
    found = drop_page_cache([cached.parent])
    assert found["dropped"] == "files"
    assert (found["files"], found["refused"]) == (1, 2)
    assert "drop_caches" in found["reason"]
    assert resident_bytes(cached) < SIZE_BYTES // 10
    # Not whether the other one is in memory: whoever drops all pages meanwhile drops those, too.
    assert asked == [cached.stat().st_ino], "a link is not followed"


def test_nothing_to_drop_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(page_cache, "DROP_CACHES", tmp_path / "no" / "drop_caches")
    found = drop_page_cache([tmp_path / "missing"])
    assert found["dropped"] == "no"
    assert found["reason"]


def test_a_bound_that_was_reached_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(page_cache, "DROP_CACHES", tmp_path / "no" / "drop_caches")
    monkeypatch.setattr(page_cache, "FILES_MAX", 2)
    for number in range(4):
        (tmp_path / str(number)).write_text("x")
    found = drop_page_cache([tmp_path])
    assert found["files"] == 2
    assert "more than 2 files" in found["reason"]

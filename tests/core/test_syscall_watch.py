"""What programs in the kernel see of a program's calls is what the program did.

The truth is the program itself (watched_program.py): every call it makes on a file was told to it.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from nfslab._core import CoreError, Mount, Server, SyscallWatch, syscalls_grants

from tests.core.watched_program import Program, Seen, needs_ebpf
from tests.machine import needs

pytestmark = needs_ebpf
long = pytest.mark.long
system = pytest.mark.system


def opened(path: Path, flags: str = "os.O_RDWR | os.O_CREAT") -> str:
    return f"fd = os.open({str(path)!r}, {flags}, 0o600)"


def octave(size: int) -> int:
    return size.bit_length()


@pytest.mark.long
@system
def test_places_bytes_and_sizes_of_a_known_pattern(tmp_path: Path) -> None:
    offsets = [0, 8192, 16384, 16384, 20000, 90000, 0]
    with Program() as program:
        watch = SyscallWatch([program.pid], "counts")
        program.do(opened(tmp_path / "data"))
        for offset in offsets:
            program.do(f"os.pwrite(fd, b'x' * 8192, {offset})")
        program.do("os.pread(fd, 100, 0); os.pread(fd, 100, 100); os.pread(fd, 50, 150)")
        program.do("os.pread(fd, 10, 1000); os.pread(fd, 10, 999); os.pread(fd, 10, 10**9)")
        program.do("os.preadv(fd, [bytearray(10), bytearray(20)], 5)")
        program.do("os.pwritev(fd, [b'a' * 10, b'b' * 20], 5)")
        program.do("os.ftruncate(fd, 100000); os.posix_fallocate(fd, 0, 200000)")
        program.do("import mmap; m = mmap.mmap(fd, 4096)")
        program.do("os.fsync(fd); os.fdatasync(fd); os.fdatasync(fd)")
        program.do("os.close(fd)")
        seen = Seen(watch)
    watch.stop()
    assert seen.count("data", "pwrite64") == {
        "calls": 7, "errors": 0, "bytes": 7 * 8192, "sizes": {octave(8192): 7},
        "places": {"first": 1, "sequential": 2, "rewrite": 2, "forward": 1, "backward": 1},
    }  # fmt: skip
    # The read beyond the end has a place, as in text and through the shim.
    assert seen.count("data", "pread64") == {
        "calls": 6, "errors": 0, "bytes": 270, "sizes": {7: 2, 6: 1, 4: 3},
        "places": {"first": 1, "sequential": 1, "rewrite": 1, "forward": 2, "backward": 1},
    }  # fmt: skip
    assert seen.count("data", "preadv") == {
        "calls": 1, "errors": 0, "bytes": 30, "sizes": {5: 1}, "places": {"backward": 1},
    }  # fmt: skip
    assert seen.count("data", "pwritev") == {
        "calls": 1, "errors": 0, "bytes": 30, "sizes": {5: 1}, "places": {"rewrite": 1},
    }  # fmt: skip
    of_data = {call: n for (name, call), n in seen.calls().items() if name == "data"}
    assert of_data == {
        "open": 1, "pwrite64": 7, "pread64": 6, "preadv": 1, "pwritev": 1, "ftruncate": 1,
        "fallocate": 1, "mmap": 1, "fsync": 1, "fdatasync": 2, "close": 1,
    }  # fmt: skip
    assert [row["call"] for row in seen.syncs] == ["fsync", "fdatasync", "fdatasync"]
    stat = os.stat(tmp_path / "data")
    (row,) = [row for row in seen.files if row["path"] == str(tmp_path / "data")]
    assert row["inode"] == stat.st_ino
    assert row["device"] == f"{os.major(stat.st_dev)}:{os.minor(stat.st_dev)}"
    lost = {name: n for name, n in seen.figures.items() if name.startswith(("lost", "unc", "unp"))}
    assert set(lost.values()) == {0}, lost


@long
def test_copies_within_the_kernel_are_of_both_files(tmp_path: Path) -> None:
    (tmp_path / "from").write_bytes(b"x" * 1000)
    with Program() as program:
        program.do(opened(tmp_path / "from").replace("fd", "source", 1))
        program.do(opened(tmp_path / "to").replace("fd", "target", 1))
        program.do(opened(tmp_path / "durable", "os.O_WRONLY | os.O_CREAT | os.O_DSYNC"))
        program.do("import mmap, socket; ends = os.pipe(); near, far = socket.socketpair()")
        watch = SyscallWatch([program.pid], "events")
        program.do("os.sendfile(near.fileno(), source, 0, 300)")
        program.do("os.sendfile(near.fileno(), source, 100, 200)")
        program.do("os.sendfile(target, source, None, 10)")
        program.do("os.copy_file_range(source, target, 40, None, 50)")
        program.do("os.splice(source, ends[1], 20, 300)")
        program.do("os.splice(ends[0], target, 20)")
        program.do("os.sendfile(fd, source, 320, 30)")
        program.do("page = mmap.mmap(source, 1000); page.flush()")
        seen = Seen(watch)
    watch.stop()
    events = [(r["call"], r["offset"], r["size"], r["bytes"], r["error"]) for r in seen.events]
    assert events == [
        ("sendfile", 0, 300, 300, 0), ("sendfile", 100, 200, 200, 0),
        ("sendfile", 0, 10, 10, 0), ("sendfile_to", 0, 10, 10, 0),
        ("copy_file_range", 10, 40, 40, 0), ("copy_file_range_to", 50, 40, 40, 0),
        ("splice", 300, 20, 20, 0), ("splice_to", 10, 20, 20, 0),
        ("sendfile", 320, 30, 30, 0), ("sendfile_to", 0, 30, 30, 0),
    ]  # fmt: skip
    syncs = [(r["call"], r["synchronous"], r["offset"], r["size"]) for r in seen.syncs]
    assert syncs == [("sendfile_to", True, 0, 30), ("msync", False, None, None)]
    assert seen.count("to", "splice_to")["places"] == {"backward": 1}
    assert seen.count("from", "sendfile")["bytes"] == 540


@system
@pytest.mark.long
def test_writes_that_are_durable_when_they_return_are_syncs(tmp_path: Path) -> None:
    with Program() as program:
        program.do(opened(tmp_path / "dsync", "os.O_WRONLY | os.O_CREAT | os.O_DSYNC"))
        program.do(opened(tmp_path / "sync", "os.O_WRONLY | os.O_CREAT | os.O_SYNC").replace(
            "fd", "sync", 1))  # fmt: skip
        program.do(opened(tmp_path / "plain").replace("fd", "plain", 1))
        watch = SyscallWatch([program.pid], "sync")
        program.do("os.write(fd, b'abc'); os.pwrite(fd, b'de', 100); os.write(sync, b'f')")
        program.do("os.write(plain, b'x' * 9); os.pwritev(plain, [b'g' * 7], 50, os.RWF_DSYNC)")
        program.do("os.pwritev(plain, [b'h' * 8], 60, os.RWF_SYNC); os.pwritev(plain, [b'i'], 9)")
        program.do("libc.sync_file_range(plain, ctypes.c_long(4), ctypes.c_long(5), 2)")
        program.do("os.sync(); libc.syncfs(plain)")
        seen = Seen(watch)
    watch.stop()
    synced = [
        (seen.first[r["file_id"]], r["call"], r["synchronous"], r["offset"], r["size"])
        for r in seen.syncs
    ]
    assert synced == [
        ("dsync", "write", True, 0, 3), ("dsync", "pwrite64", True, 100, 2),
        ("sync", "write", True, 0, 1), ("plain", "pwritev", True, 50, 7),
        ("plain", "pwritev", True, 60, 8), ("plain", "sync_file_range", False, 4, 5),
        (None, "sync", False, None, None), ("plain", "sync", False, None, None),
    ]  # fmt: skip
    assert seen.events == []
    assert seen.names == []
    assert sum(seen.calls().values()) == len(synced)


@long
def test_errors_are_rows_too(tmp_path: Path) -> None:
    with Program() as program:
        program.do(
            "def fails(call, *a):\n    try: call(*a)\n    except OSError as e: return e.errno"
        )
        program.do(
            opened(tmp_path / "read only", "os.O_RDONLY | os.O_CREAT") + "; r, w = os.pipe()"
        )
        watch = SyscallWatch([program.pid], "events")
        program.do("assert fails(os.fsync, w) == 22; assert fails(os.fdatasync, 999) == 9")
        program.do("assert fails(os.write, fd, b'abc') == 9; os.write(w, b'xyz'); os.read(r, 3)")
        program.do("assert fails(os.open, '/nowhere/at/all', 0) == 2")
        program.do("assert fails(os.unlink, '/nowhere/at/all') == 2")
        seen = Seen(watch)
    watch.stop()
    synced = [(row["call"], row["file_id"], row["error"]) for row in seen.syncs]
    assert synced == [("fsync", None, 22), ("fdatasync", None, 9)]
    # Pipes are no files: nothing is said of them.
    assert [(row["call"], row["bytes"], row["error"]) for row in seen.events] == [("write", 0, 9)]
    wrong = seen.count("read only", "write")
    assert (wrong["calls"], wrong["errors"], wrong["places"]) == (1, 1, {})
    assert seen.count(None, "open")["errors"] == 1
    assert [(r["call"], r["path"], r["error"]) for r in seen.names] == [
        ("unlink", "/nowhere/at/all", 2)
    ]


@long
def test_names_follow_renames_and_deleted_files_keep_theirs(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "gone").write_bytes(b"x")
    with Program(cwd=tmp_path) as program:
        program.do(opened(tmp_path / "gone").replace("fd", "gone", 1) + "; os.unlink('gone')")
        watch = SyscallWatch([program.pid], "counts")
        program.do("os.write(gone, b'1')")
        program.do("fd = os.open('folder/a', os.O_RDWR | os.O_CREAT); os.write(fd, b'1')")
        program.do("os.rename('folder/a', 'folder/b'); os.write(fd, b'2')")
        program.do("d = os.open('folder', 0); os.rename('b', 'c', src_dir_fd=d, dst_dir_fd=d)")
        program.do("os.rename('folder', 'folder 2'); os.unlink('./folder 2/../folder 2/c')")
        program.do("os.write(fd, b'3'); os.rmdir('folder 2')")
        seen = Seen(watch)
    watch.stop()
    paths = [row["path"] for row in seen.files]
    inside = [str(tmp_path / name) for name in ("gone", "folder/a", "folder/b", "folder/c")]
    assert paths == [*inside, str(tmp_path / "folder 2/c")]
    assert len({row["file_id"] for row in seen.files}) == 2
    assert seen.count("a", "write")["calls"] == 3
    named = [
        (row["call"], *(path and os.path.relpath(path, tmp_path)
                        for path in (row["path"], row["new_path"])))
        for row in seen.names
    ]  # fmt: skip
    assert named == [
        ("rename", "folder/a", "folder/b"), ("rename", "folder/b", "folder/c"),
        ("rename", "folder", "folder 2"), ("unlink", "folder 2/c", None),
        ("unlink", "folder 2", None),
    ]  # fmt: skip
    assert seen.count("a", "rename")["calls"] == 2
    assert seen.count("a", "unlink")["calls"] == 1


@long
def test_only_the_tree_that_was_named_is_watched(tmp_path: Path) -> None:
    child = (
        "a, b = os.pipe(), os.pipe(); pid = os.fork()\n"
        "if not pid:\n"
        "    while os.read(a[0], 1): os.fsync(fd); os.write(b[1], b'.')\n"
    )
    with Program() as watched, Program() as other:
        for program, name in ((watched, "ours"), (other, "theirs")):
            program.do(opened(tmp_path / name))
            program.do(child)
        watch = SyscallWatch([watched.pid], "sync")
        for program in (watched, other):
            program.do("os.fsync(fd); os.write(a[1], b'.'); os.read(b[0], 1)")
        ours = Seen(watch)
        assert ours.figures["watched"] == 2
        for program in (watched, other):
            program.do("import signal; os.kill(pid, signal.SIGKILL); os.waitpid(pid, 0)")
        assert watch.figures()["watched"] == 1
    assert watch.figures()["watched"] == 0
    watch.stop()
    assert [ours.first[row["file_id"]] for row in ours.syncs] == ["ours", "ours"]
    assert len({row["pid"] for row in ours.syncs}) == 2


@needs.root
@long
def test_what_finds_no_room_is_counted(tmp_path: Path) -> None:
    made = 20_000
    processors = os.sched_getaffinity(0)
    with Program() as program:
        program.do(opened(tmp_path / "data"))
        # The ring's reader shares a processor with a program that goes before it.
        os.sched_setaffinity(0, {min(processors)})
        program.do(f"os.sched_setaffinity(0, {{{min(processors)}}})")
        program.do("os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))")
        try:
            watch = SyscallWatch([program.pid], "events", ring_bytes=4096, files_max=2)
        finally:
            os.sched_setaffinity(0, processors)
        program.do(f"for i in range({made}): os.pwrite(fd, b'x', 0)")
        program.do(f"for i in range({made // 10}): libc.fsync(999)")
        program.do(f"os.chdir({str(tmp_path)!r})")
        program.do("for i in range(4): f = os.open(str(i), 66); os.write(f, b'1'); os.close(f)")
        seen = Seen(watch)
    watch.stop()
    of_data = [row for row in seen.events if row["file_id"] == 0]
    figures = seen.figures
    assert figures["lost_events"] > 0, "the ring was large enough: the test shows nothing"
    assert len(seen.events) + figures["lost_events"] == made + 4
    assert len(of_data) <= made
    assert len(seen.syncs) + figures["lost_syncs"] == made // 10
    by_id = {(row["file_id"], row["call"]): row["calls"] for row in seen.counts}
    assert by_id[0, "pwrite64"] == made
    assert by_id[None, "fsync"] == made // 10
    # The second file has room; of the others open, write and close are counted nowhere.
    assert figures["uncounted"] == 3 * 3


SYNCING = """
import os, time
fd = os.open('data', os.O_RDWR | os.O_CREAT)
times = []
def work(letter, number):
    for i in range(number):
        os.pwrite(fd, letter * 4096, i * 4096)
        begun = time.monotonic_ns(); os.fdatasync(fd); times.append(time.monotonic_ns() - begun)
def processor():
    waited_ns = int(open('/proc/thread-self/schedstat').read().split()[1])
    stolen_ticks = int(open('/proc/stat').readline().split()[8])
    return time.thread_time_ns() + waited_ns + stolen_ticks * 10**9 // os.sysconf('SC_CLK_TCK')
if not os.fork():
    work(b'y', 100)
    os._exit(0)
os.wait()
before = processor()
work(b'x', 300)
print(processor() - before, *times, file=open('own', 'w'))
"""


@pytest.mark.skipif(
    not Path("/proc/thread-self/schedstat").exists(), reason="Linux without CONFIG_SCHED_INFO"
)
@long
def test_a_sync_is_as_long_as_by_the_program_s_own_clock(tmp_path: Path) -> None:
    """Call by call it lies within what the program's clock says. What that clock has more is no
    waiting for the disk: the program computed, or waited for a processor, by Linux's accounts."""
    with Program(cwd=tmp_path) as program:
        watch = SyscallWatch([program.pid], "sync")
        program.do(SYNCING)
        seen = Seen(watch)
    watch.stop()
    assert len(seen.syncs) == 400
    latency_ns = [row["latency_ns"] for row in seen.syncs if row["pid"] == program.pid]
    processor_ns, *own_ns = map(int, (tmp_path / "own").read_text().split())
    assert len(latency_ns) == len(own_ns) == 300
    assert all(one <= own for one, own in zip(latency_ns, own_ns, strict=True))
    # Processors that were taken away are told in whole ticks.
    tick_ns = 10**9 // os.sysconf("SC_CLK_TCK")
    assert sum(own_ns) - sum(latency_ns) <= processor_ns + tick_ns


@needs.fuse
@long
def test_on_a_mount_the_inode_is_the_one_that_stat_shows(tmp_path: Path) -> None:
    """Syncs are joined to NFS calls by it: NFSv3's fileid, which the mount hands on."""
    place = tmp_path / "a place"
    place.mkdir()
    with Server(json.dumps({"store": "memory"})) as server:
        asked = f"port={server.port},mountport={server.port}"
        mount = Mount("127.0.0.1:/export", place, asked)
        try:
            with Program() as program:
                program.do(f"os.mkdir({str(place / 'folder')!r})")
                watch = SyscallWatch([program.pid], "sync")
                program.do(opened(place / "folder" / "data"))
                program.do("os.write(fd, b'x' * 10000); os.fdatasync(fd)")
                program.do("stat = os.fstat(fd); os.close(fd)")
                stat = os.stat(place / "folder" / "data")
                seen = Seen(watch)
            watch.stop()
        finally:
            mount.unmount("force")
    ((path, inode, device),) = [(r["path"], r["inode"], r["device"]) for r in seen.files]
    assert path == str(place / "folder" / "data")
    assert inode == stat.st_ino
    assert device == f"{os.major(stat.st_dev)}:{os.minor(stat.st_dev)}"
    assert [row["call"] for row in seen.syncs] == ["fdatasync"]


@needs.loop
@long
def test_block_requests_are_those_that_were_made(tmp_path: Path) -> None:
    image = tmp_path / "image"
    image.write_bytes(b"")
    os.truncate(image, 8 << 20)
    made = subprocess.run(
        ["losetup", "--show", "-f", str(image)], capture_output=True, text=True, check=True
    )
    device = made.stdout.strip()
    try:
        number = os.stat(device).st_rdev
        with Program() as program:
            program.do(opened(Path(device), "os.O_RDWR | os.O_DIRECT"))
            program.do("import mmap; page = mmap.mmap(-1, 65536)")
            watch = SyscallWatch([program.pid], "sync", blocks=True)
            program.do("os.pwritev(fd, [page], 1 << 20); os.fsync(fd)")
            program.do("os.preadv(fd, [page], 2 << 20)")
            seen = Seen(watch)
        watch.stop()
    finally:
        subprocess.run(["losetup", "-d", device], check=True)
    name = f"{os.major(number)}:{os.minor(number)}"
    requests = [
        (row["kind"], row["sector"], row["size"]) for row in seen.blocks if row["device"] == name
    ]
    # Whoever looks at new devices (udev does) may read its beginning and its end meanwhile.
    middle = range((1 << 20) // 512, (3 << 20) // 512)
    ours = [r for r in requests if r[0] == "write" or (r[0] == "read" and r[1] in middle)]
    assert ours == [
        ("write", (1 << 20) // 512, 65536), ("read", (2 << 20) // 512, 65536),
    ]  # fmt: skip
    assert "flush" in {kind for kind, _, _ in requests}
    (sync,) = seen.syncs
    assert seen.files[0]["path"] == device
    assert sync["call"] == "fsync"
    flush = next(r for r in seen.blocks if r["kind"] == "flush" and r["device"] == name)
    assert sync["start_ns"] < flush["issue_ns"] < sync["start_ns"] + sync["latency_ns"]


@pytest.mark.parametrize(
    "asked", [{"level": "all"}, {"ring_bytes": 100}, {"files_max": 0}, {"roots": []}]
)
@system
def test_what_cannot_be_is_refused(asked: dict[str, Any]) -> None:
    with pytest.raises(CoreError) as caught:
        SyscallWatch(**({"roots": [os.getpid()]} | asked))
    assert caught.value.kind == "config"


@system
def test_grants_are_quick_and_complete() -> None:
    grants = syscalls_grants()
    assert set(grants) == {"ok", "kind", "what", "why", "fix", "blocks"}
    assert grants["ok"]
    assert grants["kind"] == ""

"""Names through the mount: create, stat, open and read, rename, unlink, beside libfuse and Ganesha.

    python benches/names.py [--rounds 7] [--files 1000] [--passthrough-ll PROGRAM] [--small]

One program makes the same calls, one after another, in an empty folder of each place, in turns in
random order. All places are up from the beginning; those on a disk are on the same one:

    local                     a folder
    passthrough_ll            libfuse's example on a folder (cache=auto, its default)
    passthrough_ll, checks    the same with default_permissions: the kernel checks who may, as it
                              does for our mount, and asks for a folder's attributes each time that
                              its names have changed
    mount, memory             our mount on `nfslab serve --memory`
    mount, folder             our mount on `nfslab serve FOLDER`: names are on the disk at the reply
    mount, folder, async      the same with `--unsafe-async-names`: they are when the kernel likes
    mount, Ganesha            our mount on NFS-Ganesha (FSAL VFS), which syncs no names either

Times are medians of the rounds, microseconds of a call; CPU is that of the program, mount and
server together, in kernel and user mode. Ratios are medians of each round's ratio. On a disk they
have in them what its file system does (ext4 may wait while the disk discards what is removed);
with `--directory /dev/shm` the programs' own is left. passthrough_ll is built as
benches/mount_throughput.py says.

What a name over NFS costs at least is passthrough_ll's FUSE requests and the calls on the wire
(one for each way, two for open and read: ACCESS, READ), each a round trip between two processes:
128 bytes over TCP, measured with blocking sockets in each round. The last ratios are of that sum.

A file is created by O_CREAT | O_TRUNC, as a shell's `>` does, or by O_CREAT | O_EXCL; 4 KiB are
read, first without the kernel's pages, then again; what is renamed gets a new name in its folder;
files that are removed are empty, then not.

Aims: on memory at least as fast as passthrough_ll on a folder, on a folder as on Ganesha.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from nfslab._core import build_info
from nfslab.hosts.base import Hosts
from nfslab.hosts.local import LocalHost
from nfslab.machine.resources import Resources
from nfslab.servers.ganesha import GaneshaServer
from nfslab.targets.nfs import NfsTarget

HERE = Hosts(files=LocalHost(), servers=LocalHost())

LOCAL, THROUGH, CHECKED = "local", "passthrough_ll", "passthrough_ll, checks"
MEMORY, FOLDER, ASYNC = "mount, memory", "mount, folder", "mount, folder, async"
GANESHA = "mount, Ganesha"
DATA = b"n" * 4096
READY_LIMIT_S = 120
PATIENCE_S = 600


@dataclass(frozen=True)
class Place:
    folder: Path
    processes: list[int]
    """Whose CPU counts besides the load's."""


# What one place is loaded with, in a process of its own.


def create(folder: Path, number: int, how: int = os.O_TRUNC) -> None:
    os.close(os.open(folder / f"{number}", os.O_CREAT | os.O_WRONLY | how, 0o644))


def create_new(folder: Path, number: int) -> None:
    create(folder, -1 - number, os.O_EXCL)


def fill(folder: Path, number: int) -> None:
    """So that there is something to read, and the kernel has none of it."""
    descriptor = os.open(folder / f"{number}", os.O_WRONLY)
    os.write(descriptor, DATA)
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)


def read(folder: Path, number: int) -> None:
    descriptor = os.open(folder / f"{number}", os.O_RDONLY)
    assert len(os.read(descriptor, len(DATA))) == len(DATA)
    os.close(descriptor)


def look(folder: Path, number: int) -> None:
    os.stat(folder / f"{number}")


def rename(folder: Path, number: int) -> None:
    os.rename(folder / f"{-1 - number}", folder / f"renamed{number}")


def unlink(folder: Path, number: int) -> None:
    os.unlink(folder / f"renamed{number}")


def unlink_filled(folder: Path, number: int) -> None:
    os.unlink(folder / f"{number}")


STEPS: dict[str, Callable[[Path, int], None]] = {
    "create": create,
    "create O_EXCL": create_new,
    "stat": look,
    "": fill,
    "open, read, close": read,
    "the same again": read,
    "rename": rename,
    "unlink": unlink,
    "unlink 4 KiB": unlink_filled,
}
"""In this order; the one without a name is not shown."""
WAYS = [way for way in STEPS if way]
AIMED = ("create", "rename", "unlink", "open, read, close")
CALLS = {"create": 1, "rename": 1, "unlink": 1, "open, read, close": 2}
"""That go to the server. What is in a folder that the mount has made need not be looked up."""
WIRE, CALL_BYTES = "round trip", 128
FLOOR = "passthrough_ll, checks + round trips"


def load(folder: Path, files: int, processes: list[int]) -> dict[str, tuple[float, float]]:
    """Microseconds of wall time and of CPU for each call of each step."""
    found = {}
    for way, step in STEPS.items():
        cpu_ns, begun_ns = cpu_of(processes), time.perf_counter_ns()
        for number in range(files):
            step(folder, number)
        took_ns = time.perf_counter_ns() - begun_ns
        found[way] = (took_ns / files / 1e3, (cpu_of(processes) - cpu_ns) / files / 1e3)
    return found


def round_trip(turns: int) -> tuple[float, float]:
    """Microseconds of wall time and of both ends' CPU for a message there and one back."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        child = os.fork()
        if child == 0:
            peer, _ = listener.accept()
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while taken := peer.recv(CALL_BYTES):
                peer.sendall(taken)
            os._exit(0)
        with socket.create_connection(listener.getsockname()) as link:
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            message = bytes(CALL_BYTES)
            cpu_ns, begun_ns = cpu_of([child]), time.perf_counter_ns()
            for _ in range(turns):
                link.sendall(message)
                link.recv(CALL_BYTES, socket.MSG_WAITALL)
            took_ns = time.perf_counter_ns() - begun_ns
            cpu_ns = cpu_of([child]) - cpu_ns
        os.waitpid(child, 0)
    return took_ns / turns / 1e3, cpu_ns / turns / 1e3


def cpu_of(processes: list[int]) -> int:
    """CPU time of these processes and this one, ns (/proc/PID/task/TID/schedstat)."""
    total_ns = time.process_time_ns()
    for process in processes:
        for task in Path(f"/proc/{process}/task").iterdir():
            total_ns += int((task / "schedstat").read_text().split()[0])
    return total_ns


# Places.


@contextlib.contextmanager
def passthrough(program: str, base: Path, options: str = "") -> Iterator[Place]:
    folder, point = Path(tempfile.mkdtemp(dir=base)), Path(tempfile.mkdtemp(dir=base))
    argv = [program, "-f", "-o", f"source={folder},cache=auto{options}", str(point)]
    process = subprocess.Popen(argv, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + READY_LIMIT_S
        while not os.path.ismount(point):
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"{program} did not mount")
            time.sleep(0.01)
        yield Place(point, [process.pid])
    finally:
        if os.path.ismount(point):
            subprocess.run(["umount", str(point)], check=True)
        process.wait(READY_LIMIT_S)
        point.rmdir()
        folder.rmdir()


@contextlib.contextmanager
def mounted(base: Path, resources: Resources, **wanted: object) -> Iterator[Place]:
    """A target `nfs` of an experiment: the mount in this process, the server in its own."""
    parameters = NfsTarget.Parameters.model_validate({"directory": str(base), **wanted})
    target = NfsTarget("names", parameters)
    place = target.up(resources, HERE)
    try:
        server = target.server_of(place)
        assert server is not None
        assert server.process is not None
        yield Place(place.path, [os.getpid(), server.process.pid])
    finally:
        target.down(place)


def places(
    asked: argparse.Namespace, base: Path, resources: Resources, stack: contextlib.ExitStack
) -> dict[str, Place]:
    local = base / "local"
    local.mkdir()
    found = {LOCAL: Place(local, [])}
    if asked.passthrough_ll:
        through = asked.passthrough_ll
        found[THROUGH] = stack.enter_context(passthrough(through, base))
        checked = passthrough(through, base, ",default_permissions")
        found[CHECKED] = stack.enter_context(checked)
    found[MEMORY] = stack.enter_context(mounted(base, resources, store="memory"))
    found[FOLDER] = stack.enter_context(mounted(base, resources))
    found[ASYNC] = stack.enter_context(mounted(base, resources, unsafe_async_names=True))
    if GaneshaServer.available().ok:
        found[GANESHA] = stack.enter_context(mounted(base, resources, server="ganesha"))
    wanted = asked.only.split(";") if asked.only else list(found)
    return {name: place for name, place in found.items() if name in wanted}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--files", type=int, default=1000, help="of each round")
    parser.add_argument("--directory", default="/var/tmp", help="where all places are")
    parser.add_argument("--passthrough-ll", metavar="PROGRAM", help="libfuse's example, built")
    parser.add_argument("--only", metavar="PLACE;PLACE", help="leave the others out")
    parser.add_argument("--seed", type=int, default=1, help="of the order")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--load", metavar="FOLDER", help=argparse.SUPPRESS)
    parser.add_argument("--processes", default="", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.load == WIRE:
        print(json.dumps({WIRE: round_trip(asked.files)}))
        return
    if asked.load:
        processes = [int(process) for process in asked.processes.split(",") if process]
        print(json.dumps(load(Path(asked.load), asked.files, processes)))
        return
    if asked.small:
        asked.rounds, asked.files = 1, 10
    usable = NfsTarget.available()
    if os.geteuid() != 0 or not usable.ok:
        print(f"skipped: {usable.reason or 'needs root'}")
        return
    with (
        tempfile.TemporaryDirectory(dir=asked.directory) as name,
        Resources("bench") as resources,
        contextlib.ExitStack() as stack,
    ):
        there = places(asked, Path(name), resources, stack)
        show(asked, rounds(asked, there))
    if GANESHA not in there and not asked.only:
        print(f"\nNFS-Ganesha left out: {GaneshaServer.available().reason}")
    if not asked.passthrough_ll:
        print("\npassthrough_ll left out: no --passthrough-ll")


Figures = dict[str, list[dict[str, tuple[float, float]]]]
"""By place, for each round, for each way: wall time and CPU."""


def rounds(asked: argparse.Namespace, there: dict[str, Place]) -> Figures:
    order = random.Random(asked.seed)
    found: Figures = {name: [] for name in there}
    for number in range(asked.rounds):
        for name in order.sample(list(there), len(there)):
            place = there[name]
            folder = place.folder / f"round{number}"
            folder.mkdir()
            processes = ",".join(map(str, place.processes))
            argv = [sys.executable, __file__, "--load", folder, "--files", asked.files]
            argv += ["--processes", processes]
            done = subprocess.run(
                list(map(str, argv)), stdout=subprocess.PIPE, check=True, timeout=PATIENCE_S
            )
            found[name].append(json.loads(done.stdout))
            for left in folder.iterdir():
                left.unlink()
            folder.rmdir()
        if CHECKED in found:
            found.setdefault(FLOOR, []).append(floor(asked, found[CHECKED][-1]))
    return found


def floor(
    asked: argparse.Namespace, checked: dict[str, tuple[float, float]]
) -> dict[str, tuple[float, float]]:
    """What a round through passthrough_ll would have been with the calls on the wire besides."""
    argv = [sys.executable, __file__, "--load", WIRE, "--files", str(asked.files)]
    done = subprocess.run(argv, stdout=subprocess.PIPE, check=True, timeout=PATIENCE_S)
    wall, cpu = json.loads(done.stdout)[WIRE]
    with_calls = {
        way: (checked[way][0] + calls * wall, checked[way][1] + calls * cpu)
        for way, calls in CALLS.items()
    }
    return {WIRE: (wall, cpu), **with_calls}


def ratio(found: Figures, name: str, other: str, way: str, what: int) -> float:
    """Median of the rounds' ratios of two places; `what`: 0 time, 1 CPU."""
    pairs = zip(found[name], found[other], strict=True)
    return statistics.median(one[way][what] / two[way][what] for one, two in pairs)


def show(asked: argparse.Namespace, found: Figures) -> None:
    profile = build_info()["profile"]
    print(f"{asked.files} files, {asked.rounds} rounds, core built {profile}\n")
    for what, title in ((0, "us of a call"), (1, "us CPU of a call")):
        print(f"| {title} |", " | ".join(WAYS), "|\n|---|" + "---:|" * len(WAYS))
        for name, rows in found.items():
            if name == FLOOR:
                continue
            middles = [statistics.median(row[way][what] for row in rows) for way in WAYS]
            print(f"| {name} |", " | ".join(f"{middle:.1f}" for middle in middles), "|")
        print()
    if FLOOR in found:
        wall, cpu = (statistics.median(row[WIRE][what] for row in found[FLOOR]) for what in (0, 1))
        print(f"a round trip over TCP: {wall:.1f} us, CPU of both ends {cpu:.1f} us\n")
    print(
        "| speed, of the other's | create | rename | unlink | open, read, close | CPU, the same |"
    )
    print("|---|---:|---:|---:|---:|---|")
    pairs = [(MEMORY, THROUGH), (MEMORY, CHECKED), (MEMORY, FLOOR)]
    pairs += [(FOLDER, GANESHA), (ASYNC, GANESHA)]
    for name, other in pairs:
        if name in found and other in found:
            cells = [f"{1 / ratio(found, name, other, way, 0):.2f}" for way in AIMED]
            spent = " ".join(f"{ratio(found, name, other, way, 1):.2f}" for way in AIMED)
            print(f"| {name} / {other} |", " | ".join(cells), f"| {spent} |")


if __name__ == "__main__":
    main()

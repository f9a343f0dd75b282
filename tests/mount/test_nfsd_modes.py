"""What later kernels' NFS servers have: threads that come and go, modes of reading and writing.

Linux 6.12 has neither. `nfslab vm run --memory 4G --kernel LATER -- sh -c "mkdir -m 1777 /disk;
mount -t tmpfs tmpfs /disk; NFSLAB_TEST_DISK=/disk python -m pytest tests/mount/test_nfsd_modes.py"`
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from nfslab.errors import RunFailed
from nfslab.machine.nfsd_threads import least_threads, set_least_threads
from nfslab.machine.processes import all_statuses
from nfslab.machine.resources import Resources, recover
from nfslab.servers.knfsd import IO_MODES, MODES

from tests.mount.test_kernel_nfs import ROOT, kernel, missing, up

SPLICE = IO_MODES / "disable-splice-read"
LINUX = tuple(int(part) for part in os.uname().release.split(".")[:2])
CONTENT = b"".join(b"%d\n" % number for number in range(100_000))


def modes() -> dict[str, str]:
    return {one.name: one.read_text().strip() for one in IO_MODES.glob("*") if one.is_file()}


def has_modes() -> bool:
    if missing():
        return False
    subprocess.run(["modprobe", "nfsd"], check=True)
    return (IO_MODES / "io_cache_read").exists()


with_modes = pytest.mark.skipif(not has_modes(), reason="this kernel's nfsd has no modes")
with_min_threads = pytest.mark.skipif(
    least_threads() is None, reason="threads of this kernel's nfsd all stay"
)
KILLED = """
import sys, time
from pathlib import Path
from nfslab.machine.resources import Resources
from tests.hosts.here import HERE
from tests.mount.test_kernel_nfs import target
asked = {"threads": 6, "min_threads": 3} if sys.argv[2] == "threads" else {"io_read": "dontcache"}
place = target(Path(sys.argv[1]), **asked).up(Resources("killed"), HERE)
print("up", flush=True)
sys.stdin.read()
"""


def running() -> int:
    return sum(one.name == "nfsd" for one in all_statuses())


@kernel
@with_min_threads
def test_so_many_threads_stay_and_all_is_as_before_afterwards(
    scratch: Path, resources: Resources
) -> None:
    before = least_threads()
    with up(scratch, resources, threads=7, min_threads=2) as place:
        assert least_threads() == place.facts["nfs"]["served"]["min_threads"] == 2
        assert 2 <= running() < 7, "more than stay come with a load, such as the mount was"
    assert least_threads() == before
    with up(scratch, resources, threads=7):
        assert running() == 7


@kernel
@with_min_threads
def test_a_server_of_somebody_elses_keeps_its_threads_when_the_number_is_set(
    scratch: Path, resources: Resources
) -> None:
    before = least_threads() or 0
    with up(scratch, resources, threads=5):
        set_least_threads(before)
        assert running() == 5


@kernel
@with_modes
@pytest.mark.parametrize("mode", MODES)
def test_a_mode_is_in_force_or_refused_by_name_and_as_before_afterwards(
    scratch: Path, resources: Resources, mode: str
) -> None:
    before = modes()
    number = str(MODES.index(mode))  # type: ignore[arg-type]
    with contextlib.ExitStack() as stack:
        if mode == "direct" and LINUX < (6, 19):
            stack.enter_context(pytest.raises(RunFailed, match="refuses io_cache_read = 2"))
        with up(scratch, resources, io_read=mode, io_write=mode, vers="4.2") as place:
            assert [modes()[f"io_cache_{way}"] for way in ("read", "write")] == [number] * 2
            (place.path / "file").write_bytes(CONTENT)
            Path("/proc/sys/vm/drop_caches").write_text("3")
            assert (place.path / "file").read_bytes() == CONTENT
    assert modes() == before


@kernel
@pytest.mark.parametrize(
    "what",
    [pytest.param("threads", marks=with_min_threads), pytest.param("mode", marks=with_modes)],
)
def test_a_kill_leaves_neither(scratch: Path, state: Path, what: str) -> None:
    before = (least_threads(), modes())
    pipe = subprocess.PIPE
    argv = [sys.executable, "-c", KILLED, str(scratch), what]
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        assert (least_threads(), modes()) != before
        process.send_signal(signal.SIGKILL)
        process.wait()
    recover()
    assert (least_threads(), modes()) == before
    assert list((state / "journals").glob("*.jsonl")) == []

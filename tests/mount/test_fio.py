"""fio's patterns on the mount, each block with its checksum: read back here, and by another client.

fio (https://fio.readthedocs.io, "Verification") writes a CRC into each block and reads all of
them back; the second mount's client, which has cached nothing, then verifies the same files.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from nfslab._core import Mount, Server

from tests.machine import needs

JOBS = """
[global]
size=2m
verify=crc32c
verify_fatal=1
randseed=7
fallocate=none
create_serialize=0

[in-a-row]
rw=write
bs=1m
end_fsync=1

[pages-at-random-with-syncs]
rw=randwrite
bs=8k
fdatasync=16

[sizes-at-random]
rw=randwrite
bsrange=512-24k
end_fsync=1

[past-the-page-cache]
rw=randwrite
bs=4k
ioengine=libaio
iodepth=16
direct=1

[o-sync]
rw=write
bs=64k
sync=1

[mapped]
rw=randwrite
bs=4k
ioengine=mmap
"""


def missing() -> str:
    """Why this cannot run here; empty where it can."""
    if shutil.which("fio") is None:
        return "fio is not installed (Debian: fio)"
    return needs.mounting_refused()


pytestmark = pytest.mark.skipif(bool(missing()), reason=missing() or "usable")


@pytest.fixture
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    store = {"store": "memory"}
    if request.param == "directory":
        (tmp_path / "store").mkdir()
        store = {"store": "directory", "path": str(tmp_path / "store")}
    with Server(json.dumps(store)) as running:
        yield running


def fio(place: Path, folder: Path, *more: str) -> None:
    jobs = folder / "jobs.fio"
    jobs.write_text(JOBS)
    argv = ["fio", f"--directory={place}", "--output-format=json", *more, str(jobs)]
    done = subprocess.run(
        argv, capture_output=True, text=True, cwd=folder
    )  # its files of state go there
    assert done.returncode == 0, done.stdout + done.stderr
    jobs_done = json.loads(done.stdout[done.stdout.index("{") :])["jobs"]
    assert len(jobs_done) == JOBS.count("rw=")
    for job in jobs_done:
        assert job["error"] == 0, job["jobname"]
        assert job["read"]["io_bytes"] >= 2 << 20, f"{job['jobname']}: all of it was verified"


@pytest.mark.parametrize(
    ("server", "options"),
    [
        pytest.param("memory", "rsize=16k,wsize=16k,nconnect=3", marks=pytest.mark.system),
        pytest.param("directory", "noac", marks=pytest.mark.long),
    ],
    indirect=["server"],
)
def test_what_fio_wrote_is_there(server: Server, options: str, tmp_path: Path) -> None:
    ports = f"port={server.port},mountport={server.port}"
    places = [tmp_path / "one", tmp_path / "two"]
    mounts = []
    try:
        for place in places:
            place.mkdir()
            mounts.append(Mount("127.0.0.1:/export", place, f"{ports},{options}"))
        fio(places[0], tmp_path)
        fio(places[1], tmp_path, "--verify_only")
    finally:
        for mount in mounts:
            mount.unmount("force")

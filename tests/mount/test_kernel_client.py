"""The Linux kernel's NFS client on the embedded server and on the kernel's, where there is one.

The kernel does the MOUNT call itself (`mount -i`: no mount.nfs is needed), over TCP and, where it
is compiled in, UDP. What one client wrote the other one (our mount) has to see, byte by byte.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from nfslab._core import Mount, Server

from tests.machine import needs
from tests.mount.test_kernel_nfs import kernel_server
from tests.mount.test_kernel_nfs import missing as no_kernel_server

NAMES = 200
"""Entries of a directory, 100 bytes each on average: several READDIRPLUS replies."""
OPTIONS = "vers=3,proto=tcp,rsize=65536,wsize=32768"
BIG_BYTES = 1_000_011
"""Many WRITEs, the last of which is no whole one."""


def missing() -> str:
    """Why this cannot run here; empty where it can."""
    if refused := needs.mounting_refused():
        return refused
    if shutil.which("mount") is None:
        return "mount is not installed"
    if shutil.which("modprobe"):
        subprocess.run(["modprobe", "nfsv3"], capture_output=True, check=False)
    kinds = Path("/proc/filesystems").read_text().split()
    return "" if "nfs" in kinds else "this kernel has no NFS client"


pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(bool(missing()), reason=missing() or "usable"),
]


@pytest.fixture(scope="module", params=("directory", "knfsd"))
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, str]]:
    """Its export, and the options that lead to it; each test has a folder of its own there."""
    if request.param == "knfsd":
        if no_kernel_server():
            pytest.skip(no_kernel_server())
        with kernel_server() as nfsd:
            yield "127.0.0.1:/", f"port={nfsd.port},mountport={nfsd.mount_port}"
        return
    store = {"store": request.param}
    if request.param == "directory":
        store["path"] = str(tmp_path_factory.mktemp("store"))
    with Server(json.dumps(store)) as running:
        yield "127.0.0.1:/export", f"port={running.port},mountport={running.port}"


@pytest.fixture
def places(server: tuple[str, str], tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """A folder of the export by the kernel's client, and by ours."""
    kernel, ours = tmp_path / "kernel", tmp_path / "ours"
    kernel.mkdir()
    ours.mkdir()
    export, ports = server
    given = f"{OPTIONS},{ports},mountproto=tcp,nolock,addr=127.0.0.1"
    command = ["mount", "-i", "-t", "nfs", "-o", given, export, str(kernel)]
    subprocess.run(command, check=True)
    try:
        mount = Mount(export, ours, f"{ports},noac")
        try:
            own = kernel / tmp_path.name
            own.mkdir()
            yield own, ours / own.name
        finally:
            mount.unmount("force")
    finally:
        subprocess.run(["umount", "-f", str(kernel)], check=True)


def tree(root: Path) -> dict[str, object]:
    """All that two clients have to agree on."""
    found: dict[str, object] = {}
    for path in sorted(root.rglob("*")):
        facts = path.lstat()
        name = str(path.relative_to(root))
        seen: list[object] = [facts.st_mode, facts.st_nlink, facts.st_uid, facts.st_mtime_ns]
        if path.is_symlink():
            seen.append(os.readlink(path))
        elif path.is_file():
            seen += [facts.st_size, hashlib.sha256(path.read_bytes()).hexdigest()]
        found[name] = seen
    return found


def test_both_clients_see_the_same(places: tuple[Path, Path]) -> None:
    kernel, ours = places
    order = random.Random(3)
    big = order.randbytes(BIG_BYTES)
    (kernel / "big").write_bytes(big)
    with (kernel / "big").open("r+b") as file:
        for _ in range(50):
            file.seek(order.randrange(len(big)))
            file.write(order.randbytes(3000))
        file.truncate(len(big) - 100_001)
        os.fsync(file.fileno())
    (kernel / "many").mkdir()
    for number in range(NAMES):
        (kernel / "many" / f"{number:05} {'n' * (number % 200)}").touch()
    os.link(kernel / "big", kernel / "again")
    (kernel / "text").symlink_to("a text that leads nowhere")
    (kernel / "many").rename(kernel / "renamed")
    os.chmod(kernel / "again", 0o640)
    os.chown(kernel / "again", 12, 34)
    os.utime(kernel / "big", ns=(1_000_000_007, 2_000_000_009))
    assert tree(ours) == tree(kernel)
    assert len(os.listdir(ours / "renamed")) == NAMES
    # And the other way: what ours removes and writes is gone and there.
    for number, name in enumerate(sorted(os.listdir(ours / "renamed"))):
        if number % 2:
            (ours / "renamed" / name).unlink()
    (ours / "big").write_bytes(big[::-1])
    os.utime(kernel)  # a change of the directory by itself: its names are asked for anew
    assert (kernel / "big").read_bytes() == big[::-1]
    assert len(os.listdir(kernel / "renamed")) == NAMES - NAMES // 2


def test_errors_are_those_of_posix(places: tuple[Path, Path]) -> None:
    kernel, _ = places
    (kernel / "folder").mkdir()
    (kernel / "folder" / "file").touch()
    with pytest.raises(FileNotFoundError):
        (kernel / "none").read_bytes()
    with pytest.raises(FileExistsError):
        (kernel / "folder").mkdir()
    with pytest.raises(OSError, match="Directory not empty"):
        (kernel / "folder").rmdir()
    with pytest.raises(OSError, match="File name too long"):
        (kernel / ("x" * 256)).touch()
    with pytest.raises(NotADirectoryError):
        (kernel / "folder" / "file" / "below").touch()


NOBODY = 65534


def refused_to_nobody(folder: Path, command: str) -> str:
    """What a shell of another user says; it begins in the folder."""
    done = subprocess.run(
        ["sh", "-c", command], cwd=folder, user=NOBODY, group=NOBODY, extra_groups=[],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return "" if done.returncode == 0 else done.stderr.strip()


def test_users_may_what_the_modes_say(places: tuple[Path, Path]) -> None:
    for place in places:
        folder = place / f"of {place.parent.name}"
        folder.mkdir(mode=0o755)
        (folder / "secret").write_text("text")
        (folder / "secret").chmod(0o600)
        for command in (
            "cat secret",
            "echo x >secret",
            "touch new",
            "mv secret new",
            "rm -f secret",
        ):
            assert "ermission denied" in refused_to_nobody(folder, command), command
        (folder / "all").mkdir()
        (folder / "all").chmod(0o1777)
        (folder / "all" / "root's").touch()
        assert refused_to_nobody(folder, "echo x >all/mine && mv all/mine all/other") == ""
        assert "not permitted" in refused_to_nobody(folder, 'rm -f "all/root\'s"')
        assert (folder / "all" / "other").stat().st_uid == NOBODY
        assert (folder / "secret").read_text() == "text"

"""The mount made by a user who is not root, through fusermount3."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import nfslab
import pytest
from nfslab._core import CoreError, Server, unmount
from nfslab.machine.users import as_user, primary_group, reachable_by, unprivileged_user

from tests.disk import DISK

USER_S_WORK = """
import os, sys
sys.path.insert(0, sys.argv[1])
from nfslab._core import Mount
point, ports = sys.argv[2:4]
mount = Mount("127.0.0.1:/export", point, ports)
with open(point + "/file", "wb") as file:
    file.write(b"x" * 3_000_000)
with open(point + "/file", "rb") as file:
    assert file.read() == b"x" * 3_000_000
assert os.stat(point + "/file").st_uid == os.getuid()
os.rename(point + "/file", point + "/other")
assert os.listdir(point) == ["other"]
mount.unmount()
assert os.listdir(point) == []
print("done")
"""


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder of the user's own that the user can reach."""
    user = unprivileged_user()
    if user is None:
        pytest.skip("only root can become another user")
    for program, package in (("fusermount3", "fuse3"), ("setpriv", "util-linux")):
        if shutil.which(program) is None:
            pytest.skip(f"no {program} (Debian: apt-get install {package})")
    # fusermount3 opens it as the user.
    opened = [*as_user(user), "sh", "-c", "exec 3<>/dev/fuse"]
    if subprocess.run(opened, capture_output=True, check=False).returncode != 0:
        pytest.skip("another user may not open /dev/fuse")
    folder = Path(tempfile.mkdtemp(prefix="nfslab-test-", dir=DISK))
    os.chown(folder, user, primary_group(user))
    yield folder
    with suppress(CoreError):  # nothing is mounted there any more
        unmount(folder, "lazy")
    shutil.rmtree(folder)


def interpreter(user: int, package: Path) -> str:
    """A Python that the user may run, and the package for it."""
    if not reachable_by(package, user).ok:
        pytest.skip("another user cannot reach this folder")
    for program in (sys.executable, "/usr/bin/python3"):
        argv = [*as_user(user), program, "-c", "import sys; assert sys.version_info >= (3, 11)"]
        if subprocess.run(argv, capture_output=True, check=False).returncode == 0:
            return program
    pytest.skip("no Python 3.11 that another user may run")


@pytest.mark.system
def test_an_ordinary_user_mounts_writes_reads_and_unmounts(place: Path) -> None:
    user = place.stat().st_uid
    package = Path(nfslab.__file__).parents[1]
    program = interpreter(user, package)
    with Server(json.dumps({"store": "memory", "secure": "none"})) as server:
        # The export's root belongs to root.
        given = f"port={server.port},mountport={server.port}"
        done = subprocess.run(
            [*as_user(user), program, "-c", USER_S_WORK, str(package), str(place), given],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert (done.stdout, done.returncode) == ("done\n", 0), done.stderr

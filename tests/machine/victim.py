"""A runner made to be killed: it makes and undoes one of everything, over and over.

python -m tests.machine.victim FOLDER
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from nfslab.hosts.local import LocalHost
from nfslab.machine.cgroup import memory_cgroup, memory_cgroup_available
from nfslab.machine.resources import Resources
from nfslab.machine.users import unprivileged_user

LOOP_FILE_BYTES = 4 << 20
LOOPS = (
    os.geteuid() == 0
    and Path("/dev/loop-control").exists()
    and all(shutil.which(name) for name in ("losetup", "mkfs.ext4", "mount", "umount"))
)
OTHER_USER = unprivileged_user() if shutil.which("setpriv") else None
FAMILY = "sleep 1000 & (setsid sleep 1000) & while :; do sleep 1000; done"
"""A program with a child, and a grandchild in a session of its own."""
HIDING = "(setsid env -u NFSLAB_RUN sleep 1000) & while :; do sleep 1000; done"
"""A grandchild without our token: nothing but its control group tells that it is ours."""


def make_everything(resources: Resources, folder: Path) -> None:
    """One of each kind that this user may make."""
    host = LocalHost()
    base = resources.make_directory(folder / resources.name)
    (base.path / "below").mkdir()
    (base.path / "below" / "file").write_text("x")
    (base.path / "out").symlink_to(folder / "precious")
    if LOOPS:
        image = base.path / "image"
        with image.open("wb") as file:
            file.truncate(LOOP_FILE_BYTES)
        loop = resources.loop(image)
        argv = ["losetup", "--find", "--show", str(image)]
        device = host.run(argv, resources=resources, timeout_s=60).stdout.strip()
        loop.bind(device=device)
        argv = ["mkfs.ext4", "-q", "-F", device]
        host.run(argv, resources=resources, timeout_s=60)
        point = base.path / "mounted"
        point.mkdir()
        resources.mount(point)
        host.run(["mount", device, str(point)], resources=resources, timeout_s=60)
        (point / "data").write_text("y")
    if os.geteuid() == 0 and memory_cgroup_available().ok:
        cgroup = memory_cgroup(64 << 20, resources)
        host.limited(cgroup).spawn(["sh", "-c", HIDING], resources=resources)
    host.spawn(["sh", "-c", FAMILY], resources=resources)
    if OTHER_USER is not None:
        host.spawn(["sleep", "1000"], resources=resources, user=OTHER_USER)
    # Not ours to know: started behind the journal's back, with our token.
    subprocess.Popen(["sleep", "1000"], env=os.environ | {"NFSLAB_RUN": resources.token})


def main() -> None:
    print("ready", flush=True)
    while True:
        with Resources("victim") as resources:
            make_everything(resources, Path(sys.argv[1]))


if __name__ == "__main__":
    main()

"""What needs the Linux kernel's own NFS, in virtual machines, where this kernel has none.

`./test --long` runs guests one after the other, beside what else is long. Each has one processor:
emulated, two are slower (docs/vm.md).
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mount.test_kernel_nfs import missing
from tests.vm.guests import cached_kernels, refused

LIMIT_S = 1800
ROOT = Path(__file__).parent.parent.parent
DISK = (
    "mkdir -m 1777 /disk && mount -t tmpfs -o mode=1777 tmpfs /disk"
    " && export NFSLAB_TEST_DISK=/disk && exec "
)
"""What is exported lies on a file system that can be: an overlay cannot."""
pytestmark = [
    pytest.mark.long,
    pytest.mark.guest,
    pytest.mark.timeout(LIMIT_S + 30),
    pytest.mark.skipif(not missing(), reason="this kernel has NFS: the tests run here"),
    pytest.mark.skipif(bool(refused()), reason=refused() or "it can"),
]


def passed_in_a_guest(*files: str) -> int:
    """How many tests of these files passed there, where none failed."""
    pytest_there = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider",
                    "--basetemp=/disk/pytest", "--long"]  # fmt: skip
    chosen = "'kernel or knfsd or netem or md_and_dm'"
    command = DISK + " ".join([*pytest_there, "-k", chosen, *(f"tests/{file}" for file in files)])
    done = subprocess.run(
        [sys.executable, "-m", "nfslab", "vm", "run", "--kernel", cached_kernels()[0],
         "--memory", "4G", "--cpus", "1", "--", "sh", "-c", command],
        cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None
    return int(passed[1])


def test_client_and_server() -> None:
    """With the contracts of mounts and servers, and what else needs a stock kernel."""
    passed = passed_in_a_guest(
        "mount/test_kernel_nfs.py", "mount/test_kernel_calls.py", "mount/test_kernel_client.py",
        "hosts/test_wire.py", "targets/test_stripe.py", "servers/test_contract.py",
        "mounts/test_contract.py",
    )  # fmt: skip
    assert passed >= 20

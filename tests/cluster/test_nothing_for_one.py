"""One machine pays nothing: nothing is imported, nothing is needed, nothing listens for others, and
what is missing is said."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from nfslab.cluster import needed
from nfslab.cluster.settings import ClusterSection, connect
from nfslab.errors import Unavailable

from tests.machine import needs

LOADED = """
import sys
import nfslab.cluster.settings, nfslab.cluster.here, nfslab.cluster.base, nfslab.cli.cluster
print(*sorted({name.partition(".")[0] for name in sys.modules}))
"""

RUN = """\
[experiment]
name = "alone"
repetitions = 1
[limits]
drop_page_cache = false
[targets.disk]
kind = "local"
path = "PLACE"
[targets.nfs]
kind = "nfs"
client = "none"
directory = "PLACE"
store = "memory"
delay = "100ms"
[workload]
kind = "WORKLOAD"
data = "TARGET"
MORE
"""
FILES = 'file_size = "1M"\nphases = ["block_write"]\n'
SFS = 'mix = "laddis"\nload = 20\nfiles = 60\nwarm_up = "0.1s"\nduration = "0.2s"\n'
BIND = re.compile(r"bind\(\d+, \{sa_family=AF_INET6?, .*")


def test_the_section_and_the_engine_for_one_machine_import_nothing_of_it() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADED], capture_output=True, text=True, check=True
    )
    heavy = {"dask", "distributed", "tornado", "msgpack", "cryptography", "asyncssh"}
    assert set(done.stdout.split()) & heavy == set()


def test_without_its_packages_the_command_that_adds_them_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(needed, "PACKAGES", ("distributed", "no_such_package"))
    assert needed.engine_version() == ""
    with pytest.raises(Unavailable, match="several machines need no_such_package") as raised:
        connect(ClusterSection(hosts=["one"]))
    assert "./nfslab cluster" in raised.value.fix


@needs.program("strace")
@pytest.mark.parametrize(
    ("workload", "target", "more"),
    [("files", "disk", FILES), ("sfs", "nfs", SFS)],
    ids=["files", "sfs"],
)
def test_a_run_listens_for_no_other_machine(
    workload: str, target: str, more: str, tmp_path: Path
) -> None:
    """Not at all, or, with a server of its own, on the loopback interface.

    Watched, and on a busy machine, a load is late, and its run fails: it was made.
    """
    (tmp_path / "places").mkdir()
    text = RUN.replace("PLACE", str(tmp_path / "places")).replace("MORE", more)
    text = text.replace("WORKLOAD", workload).replace("TARGET", target)
    (tmp_path / "one.toml").write_text(text)
    calls = tmp_path / "calls"
    watch = ["strace", "-f", "-qq", "-e", "trace=bind,listen", "-o", str(calls)]
    argv = [*watch, sys.executable, "-m", "nfslab", "run", "one.toml"]
    environment = os.environ | {"NFSLAB_STATE": str(tmp_path / "state")}
    done = subprocess.run(
        argv, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert f"runs good, {int(done.returncode)} failed" in done.stdout, done.stderr
    called = calls.read_text()
    assert ("listen(" in called) is (target == "nfs")
    bound = BIND.findall(called)
    assert bool(bound) is (target == "nfs")
    assert all("127.0.0.1" in one for one in bound)

"""What every registered host has to do, whatever it is."""

from __future__ import annotations

import inspect
import json
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from nfslab.errors import RunFailed
from nfslab.hosts.base import Host
from nfslab.hosts.registry import HOSTS, host_class
from nfslab.machine.processes import TOKEN_VARIABLE
from nfslab.machine.resources import Resources
from nfslab.results.records import HostRecord

pytestmark = pytest.mark.system

LIMIT_S = 120


@pytest.fixture(params=sorted(HOSTS))
def host(request: pytest.FixtureRequest, resources: Resources) -> Iterator[Host]:
    """One of every kind that is up; skipped with the kind's own reason where it cannot be."""
    cls = host_class(request.param)
    assert not inspect.isabstract(cls)
    assert cls.kind == request.param
    assert cls.summary
    if not cls.available().ok:
        pytest.skip(f"{cls.kind}: {cls.available().reason}")
    made = cls()
    made.down()  # never up: harmless
    made.up(resources)
    yield made
    made.down()
    made.down()
    assert resources.close() == [], "nothing is left for the journal"


def test_programs_run_there(host: Host, resources: Resources, tmp_path: Path) -> None:
    done = host.run(
        ["sh", "-c", f"pwd; echo ${TOKEN_VARIABLE}; exit 3"],
        resources=resources, timeout_s=LIMIT_S, cwd=tmp_path, check=False,
    )  # fmt: skip
    assert (done.stdout.split(), done.returncode) == ([str(tmp_path), resources.token], 3)
    with pytest.raises(RunFailed, match="exit code 3"):
        host.run(["sh", "-c", "exit 3"], resources=resources, timeout_s=LIMIT_S)
    log = tmp_path / "log"
    process = host.spawn(["sh", "-c", "echo said; read x; echo $x"], resources=resources,
                         stdout=log, stdin="pipe")  # fmt: skip
    process.tell(b"told\n", LIMIT_S)
    assert process.wait(LIMIT_S) == 0
    assert log.read_text() == "said\ntold\n"


def test_files_are_copied_there(host: Host, resources: Resources, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    (folder / "in").mkdir(parents=True)
    (folder / "in" / "file").write_bytes(bytes(range(256)))
    (folder / "in" / "file").chmod(0o751)
    host.copy(folder, tmp_path / "copy")
    host.copy(folder / "in" / "file", tmp_path / "single")
    copies = (tmp_path / "copy" / "in" / "file", tmp_path / "single")
    listed = host.run(
        ["stat", "--format=%a %s", *map(str, copies)],
        resources=resources, timeout_s=LIMIT_S,
    )  # fmt: skip
    assert listed.stdout == "751 256\n751 256\n"
    assert (tmp_path / "single").read_bytes() == bytes(range(256))
    with pytest.raises(RunFailed, match="cannot copy"):
        host.copy(tmp_path / "none", tmp_path / "other")


def test_its_clock_against_ours_is_within_the_stated_error(
    host: Host, resources: Resources
) -> None:
    said = host.clock()
    before = time.monotonic_ns()
    theirs = host.run(["cat", "/proc/uptime"], resources=resources, timeout_s=LIMIT_S)
    at = host.monotonic_ns() - said.offset_ns
    after = time.monotonic_ns()
    assert at in range(before - said.error_ns, after + said.error_ns + 1)
    assert float(theirs.stdout.split()[0]) > 0
    # A boot of this kernel: the same CLOCK_MONOTONIC, to the nanosecond.
    boot = host.run(
        ["cat", "/proc/sys/kernel/random/boot_id"], resources=resources, timeout_s=LIMIT_S
    )
    if boot.stdout == Path("/proc/sys/kernel/random/boot_id").read_text():
        assert (said.offset_ns, said.error_ns) == (0, 0)


def test_its_record_is_json(host: Host) -> None:
    record = host.record()
    assert (record.name, record.kind) == (host.name, host.kind)
    assert record.facts["kernel"] == os.uname().release
    assert HostRecord.model_validate_json(record.model_dump_json()) == record
    json.dumps(record.model_dump(), allow_nan=False)


def test_what_a_thread_does_inside_is_done_there(host: Host, resources: Resources) -> None:
    """Its network is that of the host's programs, also in threads that it starts; then ours."""
    there = host.run(["readlink", "/proc/self/ns/net"], resources=resources, timeout_s=LIMIT_S)
    seen: list[str] = []

    def look() -> None:
        seen.append(os.readlink(f"/proc/self/task/{threading.get_native_id()}/ns/net"))

    look()
    with host.entered():
        look()
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
    look()
    assert [f"{one}\n" for one in seen[1:3]] == [there.stdout] * 2
    assert seen[0] == seen[3]
    assert (seen[0] == seen[1]) == host.link.is_loopback

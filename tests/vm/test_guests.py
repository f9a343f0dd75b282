"""What only kernels can do: three boots, each with all that is asked of it.

A guest takes a minute where it is emulated. Guests in which nothing has to be a kernel are
processes, or this one: tests/experiment/test_guest_run.py, test_attend.py.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from nfslab.cluster.guests import require_guests
from nfslab.errors import NfslabError
from nfslab.evidence.call_counts.counts import call_counts
from nfslab.machine.journal import boot_id
from nfslab.results.catalogue import read_every_run, read_part
from nfslab.results.emulation import is_stamped
from nfslab.vm.qemu import Size

from tests.experiment.session_support import left_behind, only_folder, run
from tests.vm.guests import cached_kernels, cached_versions, refused, refused_two

LIMIT_S = 1200
pytestmark = [
    pytest.mark.skipif(bool(refused()), reason=refused() or "it can"),
    pytest.mark.long,
    pytest.mark.guest,
    pytest.mark.timeout(LIMIT_S),
]


def why_no_clients() -> str:
    if why := refused():
        return why
    try:
        require_guests(Size(1 << 30, 2))
    except NfslabError as error:
        return error.in_a_line()
    return "" if shutil.which("mount.nfs") else "no mount.nfs: nfs-common"


def why_not_two() -> str:
    needed = [name for name in ("rpc.nfsd", "exportfs") if shutil.which(name) is None]
    return why_no_clients() or refused_two() or (f"no {' '.join(needed)}" if needed else "")


with_clients = pytest.mark.skipif(bool(why_no_clients()), reason=why_no_clients() or "it can")
with_two = pytest.mark.skipif(bool(why_not_two()), reason=why_not_two() or "it can")
VERSIONS = cached_versions() or ["none"]
NEWEST, OLDEST = VERSIONS[0], VERSIONS[-1]
LINES = 40_000
"""Of what each host writes: 228,894 bytes, so some WRITEs of 32 KiB and the rest."""
CODE = """
import json, os, pathlib, sys, time
from nfslab.machine.emulation import is_emulated
outside = pathlib.Path(sys.argv[2])
outside.write_text("changed in the guest")
pathlib.Path("results").mkdir()
pathlib.Path("results/seen.json").write_text(json.dumps({
    "release": os.uname().release,
    "emulated": is_emulated(),
    "folder": os.getcwd(),
    "words": sys.argv[1:],
    "given": os.environ.get("NFSLAB_TEST_GIVEN"),
    "outside": outside.read_text(),
    "lower": [line.split()[3] for line in open("/proc/mounts") if line.split()[1] == "/"],
    "modules": sorted(os.listdir("/lib/modules/" + os.uname().release)),
}))
print("to stdout", flush=True)
print("to stderr", file=sys.stderr, flush=True)
time.sleep(1)
open("/proc/sysrq-trigger", "w").write("c")
time.sleep(1000)
"""
WORD = 'it\'s "$HOME" `x` \\ \n*'


def test_a_command_in_a_guest_and_a_panic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What its command sees, says and leaves is ours, until its kernel panics, which is told."""
    monkeypatch.setenv("NFSLAB_STATE", str(tmp_path / "state"))
    folder, outside = tmp_path / "work it", tmp_path / "file"
    folder.mkdir()
    outside.write_text("as it was")
    argv = [sys.executable, "-m", "nfslab", "vm", "run", "--kernel", cached_kernels()[0], "--"]
    done = subprocess.run(
        [*argv, sys.executable, "-c", CODE, WORD, str(outside)],
        cwd=folder,
        env=os.environ | {"NFSLAB_TEST_GIVEN": WORD},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "to stdout\n"), done.stderr
    assert "to stderr\n" in done.stderr
    assert "Kernel panic - not syncing: sysrq triggered crash" in done.stderr
    seen = json.loads((folder / "results/seen.json").read_text())
    assert seen["release"] == cached_kernels()[0]
    assert {"modules.dep", "kernel"} <= set(seen["modules"])
    assert seen["folder"] == str(folder.resolve())
    assert (seen["words"], seen["given"]) == ([WORD, str(outside)], WORD)
    assert seen["outside"] == "changed in the guest"
    assert outside.read_text() == "as it was", "what is written elsewhere vanishes"
    assert re.search(r"\bupperdir=", str(seen["lower"]))
    assert seen["emulated"] is ("(KVM)" not in done.stderr)
    assert ("no performance data" in done.stderr) is seen["emulated"]
    assert list((tmp_path / "state" / "journals").glob("*.jsonl")) == []


FILE = f"""\
[experiment]
name = "guests"
repetitions = 1
collectors = ["nfs_server", "mountstats"]
[client]
host = "vm"
kernel = "{NEWEST}"
hosts = 2
memory = "768M"
cpus = 1
[targets.share]
kind = "nfs"
client = "kernel"
directory = "PLACES"
rsize = "32k"
wsize = "32k"
actimeo = 0
[workload]
kind = "command"
data = "share"
argv = ["sh", "-c", "DO"]
[[workload.metrics]]
name = "rate"
pattern = 'rate ([0-9]+)'
unit = "1/s"
primary = true
"""
DO = (
    f"set -e; seq {{host}} {LINES} > {{data}}/{{host}}; echo 3 > /proc/sys/vm/drop_caches; "
    "md5sum < {data}/{host}; uname -r; echo rate $((100 + {host}))"
)


def written_by(host: int) -> bytes:
    return "".join(f"{number}\n" for number in range(host, LINES + 1)).encode()


@with_clients
def test_kernels_of_client_guests_count_what_our_server_counts(tmp_path: Path) -> None:
    (tmp_path / "places").mkdir()
    path = tmp_path / "guests.toml"
    path.write_text(FILE.replace("DO", DO).replace("PLACES", str(tmp_path / "places")))
    run(path)
    folder = only_folder(path)
    every, records = read_every_run(folder.path)
    (record,) = records.values()
    assert record.status == "ok", record.reason
    sealed = folder.runs_path / record.run_id
    assert record.metrics["rate"].value == 100 + 101
    assert record.places["data"].filesystem == "nfs", "as the guests see it"
    of_guests: Counter[str] = Counter()
    boots = {boot_id()}
    for number, host in enumerate(record.client_hosts):
        part = json.loads((sealed / host.folder / "run.json").read_text())
        (evidence,) = [one for one in part["evidence"] if one["collector"] == "mountstats"]
        for one in evidence["summary"]["mounts"]["share"]["operations"]:
            assert one["sends"] == one["calls"], "nothing was retransmitted"
            of_guests[one["operation"]] += one["calls"]
        options = part["places"]["data"]["mount_options"].split(",")
        assert {"vers=3", "rsize=32768", "wsize=32768", "proto=tcp"} <= set(options)
        provenance = json.loads((sealed / host.folder / "provenance.json").read_text())
        release = provenance["kernel"]["release"]
        assert release.startswith(f"{NEWEST}.")
        said = (sealed / host.folder / "logs" / "command.out").read_text().split()
        assert said[0] == hashlib.md5(written_by(number)).hexdigest(), "as it was written"
        assert said[2] == release == host.facts["kernel"]
        made = provenance["virtual_machine"]
        assert (made["kernel"], made["kernel_asked"]) == (release, NEWEST)
        assert (made["memory_bytes"], host.kind) == (768 << 20, "vm")
        boots.add(str(host.facts["boot_id"]))
        # Booted later than this machine, its clock is behind by that.
        assert host.clock.offset_ns < -host.clock.error_ns < 0
    assert len(boots) == 3, "each guest booted anew, and none is this machine"
    (served,) = [one for one in record.evidence if one.collector == "nfs_server"]
    rows = served.summary["servers"]["share"]["operations"]
    assert dict(of_guests) == {one["operation"]: one["calls"] for one in rows}
    # 7 WRITEs of 32 KiB hold a host's lines: fewer would be larger than asked for.
    assert of_guests["WRITE"] >= 7 * 2
    emulated = made["processor"] == "emulated"
    assert [one.name for one in record.checks].count("emulated") == emulated
    (skew,) = [one for one in record.checks if one.name == "start_skew"]
    assert (skew.verdict == "unknown") is emulated
    assert is_stamped(every.lines[0].flags) is emulated
    assert left_behind(tmp_path) == []


TWO_DO = (
    f"seq {LINES} > {{data}}/f && echo 3 > /proc/sys/vm/drop_caches && md5sum < {{data}}/f && "
    "echo rate 1"
)


TWO = f"""\
[experiment]
name = "two-kernels"
repetitions = 1
collectors = ["mountstats", "nfsd", "capture"]
[client]
host = "vm"
kernel = "{NEWEST}"
memory = "768M"
cpus = 1
[server]
host = "vm"
name = "filer"
kernel = "{OLDEST}"
memory = "768M"
cpus = 1
[targets.share]
kind = "nfs"
client = "kernel"
server = "knfsd"
directory = "/dev/shm"
vers = "4.1"
wsize = "32k"
[workload]
kind = "command"
data = "share"
argv = ["sh", "-c", "{TWO_DO}"]
[[workload.metrics]]
name = "rate"
pattern = 'rate ([0-9]+)'
unit = "1/s"
primary = true
"""


@with_two
def test_two_kernels_talk_and_count_the_same(tmp_path: Path) -> None:
    (tmp_path / "places").mkdir()
    path = tmp_path / "two.toml"
    path.write_text(TWO)
    run(path)
    folder = only_folder(path)
    _, records = read_every_run(folder.path)
    (record,) = records.values()
    assert record.status == "ok", record.reason
    stamped = "emulated" in {check.name for check in record.checks}
    assert stamped == (record.hosts["client"].facts.get("emulated") is True)
    sealed = folder.runs_path / record.run_id
    server = record.server_host
    assert server is not None
    assert server.facts["kernel"].startswith(OLDEST)
    assert record.client_hosts[0].facts["kernel"].startswith(NEWEST)
    assert server.facts["boot_id"] != record.client_hosts[0].facts["boot_id"]
    said = (sealed / record.client_hosts[0].folder / "logs").iterdir()
    text = "".join(one.read_text() for one in said)
    written = "".join(f"{number}\n" for number in range(1, LINES + 1)).encode()
    assert hashlib.md5(written).hexdigest() in text, "as it was written, through both kernels"
    assert read_part(sealed, "filer").status == "ok"
    sent, counted = counts(sealed, "mountstats_operations"), counts(sealed, "nfsd_operations")
    assert sent["WRITE"] >= len(written) / 32768
    for name in ("WRITE", "READ", "OPEN", "CLOSE"):
        assert sent[name] == counted[name], name
    found = call_counts(record)
    assert found is not None
    assert found.missing == (), "the capture has what the kernel's mount counted"
    assert {"capture", "mountstats, timed part"} <= set(found.operations[0].by)
    assert left_behind(tmp_path) == []


def counts(sealed: Path, table: str) -> dict[str, int]:
    rows: list[dict[str, Any]] = pq.read_table(sealed / "evidence" / f"{table}.parquet").to_pylist()
    found: dict[str, int] = {}
    for row in rows:
        name = row["operation"].removeprefix("NFS4_").upper()
        found[name] = found.get(name, 0) + row["calls"]
    return found

"""Client hosts that are guests: the kernel's NFS client there, our server here, and every end.

One experiment has it all, since each guest takes a minute where it is emulated: a guest that is
killed, then one of the oldest kernel in the cache, then two of the newest.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from nfslab.cluster.bridge import BridgedHere
from nfslab.cluster.guests import GuestAgent, require_guests
from nfslab.errors import NfslabError
from nfslab.experiment.run_hosts import RunHosts
from nfslab.experiment.spread_run import SpreadExecution
from nfslab.machine.resources import recover
from nfslab.machine.undo import LINK_TOKEN_DIGITS
from nfslab.results.catalogue import read_every_run
from nfslab.results.emulation import is_stamped
from nfslab.results.records import RunRecord
from nfslab.statistics.verdicts import EMULATED
from nfslab.targets.nfs import NfsTarget
from nfslab.vm.qemu import Size

from tests.cli.invocation import nfslab
from tests.experiment.session_support import journal_tokens, left_behind, run
from tests.vm.guests import cached_versions, refused, refused_two
from tests.vm.test_killed import all_end

LIMIT_S = 1200


def why_not() -> str:
    if why := refused():
        return why
    try:
        require_guests(Size(1 << 30, 2))
    except NfslabError as error:
        return error.in_a_line()
    return ""


pytestmark = [
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "it can"),
    pytest.mark.skipif(shutil.which("mount.nfs") is None, reason="no mount.nfs: nfs-common"),
    pytest.mark.long,
    pytest.mark.guest,
    pytest.mark.timeout(LIMIT_S),
]
VERSIONS = cached_versions() or ["none"]
NEWEST, OLDEST = VERSIONS[0], VERSIONS[-1]
LINES = 40_000
"""Of what each host writes: 228,894 bytes, so some WRITEs of 32 KiB and the rest."""
FILE = """\
[experiment]
name = "guests"
repetitions = 1
order = "fixed"
collectors = ["nfs_server", "mountstats"]
[client]
host = "vm"
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
[[axes]]
name = "kernel"
parameters = ["client.kernel", "client.hosts"]
values = LEVELS
labels = ["killed", "oldest", "newest"]
"""
DO = (
    "set -e; seq {host} LINES > {data}/{host}; echo 3 > /proc/sys/vm/drop_caches; "
    "md5sum < {data}/{host}; uname -r; echo rate $((100 + {host}))"
)


@dataclass(frozen=True)
class Ran:
    """What came of it."""

    folder: Path
    said: str
    killed: RunRecord
    good: dict[str, RunRecord]
    served: dict[str, dict[str, bytes]]
    """Run -> file -> what the server's folder had, here."""

    def run(self, label: str) -> Path:
        return self.folder / "runs" / self.good[label].run_id


def written_by(host: int) -> bytes:
    return "".join(f"{number}\n" for number in range(host, LINES + 1)).encode()


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    if why := refused_two():
        pytest.skip(why)
    place = tmp_path_factory.mktemp("guests")
    (place / "places").mkdir()
    levels = [[NEWEST, 1], [OLDEST, 1], [NEWEST, 2]]
    text = FILE.replace("DO", DO).replace("LINES", str(LINES))
    text = text.replace("PLACES", str(place / "places")).replace("LEVELS", json.dumps(levels))
    (place / "guests.toml").write_text(text)
    served: dict[str, dict[str, bytes]] = {}
    killed: list[int] = []
    wired: set[str] = set()
    """Bridges and TAP devices."""
    waits, gathers = RunHosts.await_all, SpreadExecution._gather

    def meddled(clients: RunHosts, event: str, *more: Any, **named: Any) -> None:
        if event == "measured" and not killed:
            agent = clients.hosts[0].agent
            assert isinstance(agent, GuestAgent)
            assert agent._guest is not None
            killed.append(agent._guest.machine.pid)
            os.kill(killed[0], signal.SIGKILL)
        waits(clients, event, *more, **named)

    def looked(execution: SpreadExecution) -> None:
        assert isinstance(execution._cluster, BridgedHere)
        wired.update(one.what["device"] for one in execution._cluster._bridge._entries)
        target, up = execution._up[0]
        assert isinstance(target, NfsTarget)
        data = up.path / "data"
        assert data.is_dir(), "the guests' folder, in the server's export"
        served[execution.run.run_id] = {one.name: one.read_bytes() for one in data.iterdir()}
        gathers(execution)

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NFSLAB_STATE", str(place / "state"))
        patch.setattr(RunHosts, "await_all", meddled)
        patch.setattr(SpreadExecution, "_gather", looked)
        _, told = run(place / "guests.toml")
    (folder,) = (place / "results").iterdir()
    catalogue, records = read_every_run(folder)
    assert catalogue.damaged == {}
    first, *others = sorted(records.values(), key=lambda one: one.position)
    good = {str(one.factors["kernel"]): one for one in others}
    assert {one.status for one in others} == {"ok"}, [one.reason for one in others]
    assert left_behind(place) == []
    assert wired
    assert not wired & {one.name for one in Path("/sys/class/net").iterdir()}
    return Ran(folder, told.text, first, good, served)


def test_a_guest_that_is_killed_fails_its_run_with_its_name_and_the_others_go_on(ran: Ran) -> None:
    assert (ran.killed.status, ran.killed.failure_phase) == ("failed", "measure")
    assert (
        "client host host1: the virtual machine ended before its command did" in ran.killed.reason
    )
    assert "its console" in ran.killed.reason
    assert set(ran.good) == {"oldest", "newest"}


def test_what_guests_wrote_is_what_the_server_has_byte_for_byte(ran: Ran) -> None:
    for label, hosts in (("oldest", 1), ("newest", 2)):
        sealed = ran.run(label)
        content = {str(number): written_by(number) for number in range(hosts)}
        assert ran.served[sealed.name] == content
        for number in range(hosts):
            said = (sealed / "hosts" / f"host{number + 1}" / "logs" / "command.out").read_text()
            assert said.split()[0] == hashlib.md5(content[str(number)]).hexdigest(), "read again"
        assert ran.good[label].metrics["rate"].value == sum(100 + n for n in range(hosts))


def test_each_guest_counts_what_the_server_counts_of_it(ran: Ran) -> None:
    """Operation by operation: mountstats of the guests' kernels, and our server's own record."""
    for label in ran.good:
        sealed = ran.run(label)
        of_guests: Counter[str] = Counter()
        for host in ran.good[label].client_hosts:
            part = json.loads((sealed / host.folder / "run.json").read_text())
            (evidence,) = [one for one in part["evidence"] if one["collector"] == "mountstats"]
            for one in evidence["summary"]["mounts"]["share"]["operations"]:
                assert one["sends"] == one["calls"], "nothing was sent again"
                of_guests[one["operation"]] += one["calls"]
        (served,) = [one for one in ran.good[label].evidence if one.collector == "nfs_server"]
        rows = served.summary["servers"]["share"]["operations"]
        assert dict(of_guests) == {one["operation"]: one["calls"] for one in rows}
        # 7 WRITEs of 32 KiB hold a host's lines: fewer would be larger than asked for.
        assert of_guests["WRITE"] >= 7 * len(ran.good[label].client_hosts)


def test_options_in_effect_are_those_that_were_asked_for(ran: Ran) -> None:
    for label, record in ran.good.items():
        for host in record.client_hosts:
            part = json.loads((ran.run(label) / host.folder / "run.json").read_text())
            options = part["places"]["data"]["mount_options"].split(",")
            assert {"vers=3", "rsize=32768", "wsize=32768", "proto=tcp"} <= set(options)
            assert part["places"]["data"]["facts"]["nfs"]["client"] == "kernel"
        assert record.places["data"].filesystem == "nfs", "as the guests see it"


def test_each_guest_has_a_kernel_a_clock_and_a_provenance_of_its_own(ran: Ran) -> None:
    from nfslab.machine.journal import boot_id

    boots = {boot_id()}
    for label, version in (("oldest", OLDEST), ("newest", NEWEST)):
        record = ran.good[label]
        for host in record.client_hosts:
            provenance = json.loads((ran.run(label) / host.folder / "provenance.json").read_text())
            release = provenance["kernel"]["release"]
            assert release.startswith(f"{version}.")
            said = (ran.run(label) / host.folder / "logs" / "command.out").read_text()
            assert said.split()[2] == release == host.facts["kernel"]
            made = provenance["virtual_machine"]
            assert (made["kernel"], made["kernel_asked"]) == (release, version)
            assert made["memory_bytes"] == 768 << 20
            assert made["runs_on"]["kernel"] == os.uname().release
            assert host.kind == "vm"
            boots.add(str(host.facts["boot_id"]))
            # Booted later than this machine, its clock is behind by that.
            for clock in (host.clock, host.clock_after):
                assert clock is not None
                assert clock.offset_ns < -clock.error_ns < 0
            assert host.clock_after is not None
            unsure_ns = host.clock.error_ns + host.clock_after.error_ns
            assert abs(host.clock.offset_ns - host.clock_after.offset_ns) < 1e9 + unsure_ns
    assert len(boots) == 4, "each guest booted anew, and none is this machine"


def test_an_emulated_run_is_stamped_once_and_its_times_are_not_judged(ran: Ran) -> None:
    for label, record in ran.good.items():
        made = json.loads((ran.run(label) / "hosts/host1/provenance.json").read_text())
        emulated = made["virtual_machine"]["processor"] == "emulated"
        stamps = [one for one in record.checks if one.name == "emulated"]
        assert len(stamps) == emulated
        (skew,) = [one for one in record.checks if one.name == "start_skew"]
        assert (skew.verdict == "unknown") is emulated
        (alike,) = [one for one in record.checks if one.name == "hosts_alike"]
        assert alike.verdict == "ok", alike.message
        assert skew.values["hosts"].keys() == {one.name for one in record.client_hosts}
    if emulated:
        assert all(is_stamped(line.flags) for line in read_every_run(ran.folder)[0].lines[1:])


def test_the_report_names_the_kernels_and_compares_no_emulated_times(
    ran: Ran, capsys: pytest.CaptureFixture[str]
) -> None:
    said = nfslab(capsys, "report", ran.folder, "--json")
    assert said.code == 0, said.err
    report = json.loads(said.out)
    kernels = {host.facts["kernel"] for one in ran.good.values() for host in one.client_hosts}
    assert set(report["versions"]["kernel of client hosts"].split(", ")) == kernels
    assert not [one for one in report["warnings"] if one["kind"] == "machine"]
    if report["emulated"]:
        assert report["emulated"].startswith(EMULATED)
        verdicts = [
            one["result"]["verdict"] for each in report["comparisons"].values() for one in each
        ]
        assert verdicts
        assert set(verdicts) == {EMULATED}
    assert nfslab(capsys, "check", ran.folder).code == 0


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_whatever_ends_nfslab_no_guest_and_no_device_is_left(
    number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While two guests boot, which is when nobody in them could see that we are gone."""
    (tmp_path / "places").mkdir()
    text = FILE.replace("DO", "true").replace("PLACES", str(tmp_path / "places"))
    text = text.replace("LEVELS", json.dumps([[NEWEST, 2]])).replace(
        'labels = ["killed", "oldest", "newest"]\n', ""
    )
    (tmp_path / "guests.toml").write_text(text)
    monkeypatch.setenv("NFSLAB_STATE", str(tmp_path / "state"))
    argv = [sys.executable, "-m", "nfslab", "run", "guests.toml"]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(argv, cwd=tmp_path, stdout=quiet, stderr=quiet) as process:
        try:
            while len(pids := programs(tmp_path)) < 6:
                assert process.poll() is None
            (token,) = [one for one in journal_tokens(tmp_path) if devices(one)]
            wired = devices(token)
            assert len(wired) == 3, "a bridge and two TAP devices"
            with all_end(pids):
                process.send_signal(number)
            assert process.wait(LIMIT_S) == (130 if number == signal.SIGINT else -number)
        finally:
            process.kill()
    if number == signal.SIGKILL:
        told = " ".join(recover())
        assert all(f"removed the network device {name}" in told for name in wired)
        shutil.rmtree(tmp_path / "results")
    assert devices(token) == []
    assert left_behind(tmp_path) == []
    assert not list(Path("/tmp").glob(f"nfslab-{token}*"))


def programs(place: Path) -> dict[str, int]:
    """QEMUs and virtiofsds that are there, by what the journal says was started."""
    found = {}
    for journal in (place / "state" / "journals").glob("*.jsonl"):
        lines = journal.read_text().split("\n")[1:-1]
        records = [json.loads(line) for line in lines]
        kinds = {one["id"]: one for one in records if one["op"] == "intent"}
        for one in records:
            if one["op"] == "bind" and kinds[one["id"]]["kind"] == "process":
                found[str(one["id"])] = one["what"]["pid"]
    return found


def devices(token: str) -> list[str]:
    """Network devices with this token in their names."""
    names = [one.name for one in Path("/sys/class/net").iterdir()]
    return [name for name in names if token[:LINK_TOKEN_DIGITS] in name]

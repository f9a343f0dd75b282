"""Client hosts in virtual machines: what a file may say of them, and how they are made."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from nfslab.cluster import guests
from nfslab.cluster.base import Patience
from nfslab.cluster.bridge import Bridge, BridgedHere
from nfslab.cluster.guests import GuestMember, GuestSeat, Made
from nfslab.errors import NfslabError, Unavailable, UsageError
from nfslab.experiment.dry_run import dry_run, dry_run_lines
from nfslab.experiment.forecast import GUEST_S, estimated_run_s
from nfslab.experiment.guest_run import kernels_of
from nfslab.experiment.preflight import preflight
from nfslab.experiment.problems import InvalidExperiment
from nfslab.experiment.reading import read_experiment
from nfslab.experiment.session import Options
from nfslab.experiment.setup import Setup
from nfslab.experiment.stop import Stop
from nfslab.machine.resources import Resources
from nfslab.vm import qemu
from nfslab.vm import run as running
from nfslab.vm.kernel import Kernel
from nfslab.vm.qemu import Nic, Size

from tests.experiment import guest_support

Write = Callable[..., Path]
GUEST = "client.host='vm'"
KERNEL = "9.1-of-a-test"


def can_be_wired() -> str:
    """Why there can be no TAP device on a bridge here; empty where there can."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return "a bridge and TAP devices need root, and ip"
    try:
        os.close(os.open(guests.TUN, os.O_RDWR))
    except OSError as error:
        return f"{guests.TUN}: {error.strerror}"
    return ""


needs_wires = pytest.mark.skipif(bool(can_be_wired()), reason=can_be_wired() or "it can")


@pytest.fixture
def guest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return guest_support.install(tmp_path / "guest", monkeypatch)


def client(file: Path, *settings: str) -> Setup:
    return read_experiment(file, settings).points[0].setup


# What a file may say.


def test_one_guest_with_debians_own_kernel_unless_more_is_said(experiment_file: Write) -> None:
    found = client(experiment_file(), GUEST)
    assert (found.client.host_names, found.client.kernel) == (["host1"], "stock")
    assert found.client.size == Size(2 << 30, 2)
    more = ["client.kernel='6.1'", "client.memory=512M", "client.cpus=1", "client.hosts=['a','b']"]
    found = client(experiment_file(), GUEST, *more)
    assert found.client.asked_kernel == ("6.1", None)
    assert (found.client.size, found.client.host_names) == (Size(512 << 20, 1), ["a", "b"])
    assert Setup.of(found.resolved()) == found


def test_others_keep_their_identity(experiment_file: Write) -> None:
    resolved = client(experiment_file()).resolved()["client"]
    assert resolved == {"host": "local", "delay": 0.0, "loss": 0.0, "rate": None}


def test_the_kernel_is_an_axis_and_the_plan_tells(experiment_file: Write, guest: Path) -> None:
    file = experiment_file()
    axis = "\n[[axes]]\nparameter = 'client.kernel'\nvalues = ['6.1', '6.12']\n"
    file.write_text(file.read_text() + axis)
    experiment = read_experiment(file, [GUEST])
    assert {point.settings["client.kernel"] for point in experiment.points} == {"6.1", "6.12"}
    (here, *_) = read_experiment(experiment_file()).points
    assert estimated_run_s(experiment.points[0]) == pytest.approx(estimated_run_s(here) + GUEST_S)
    said: list[str] = []
    with Stop(said.append) as stop:
        kernels = kernels_of(experiment.points, stop, said.append)
    assert {asked: one.release for asked, one in kernels.items()} == {
        ("6.1", None): "6.1-of-a-test",
        ("6.12", None): "6.12-of-a-test",
    }
    plan = dry_run(experiment, Options(file, results=file.parent / "results"))
    lines = "\n".join(dry_run_lines(plan))
    for version in ("6.1", "6.12"):
        assert f"virtual machines on this one with kernel {version}" in lines


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (["client.kernel='6.12'"], "kernel of no virtual machine"),
        (["client.host='namespace'", "client.memory=1G"], "memory of no virtual machine"),
        ([GUEST, "client.memory=16M"], "too small"),
        ([GUEST, "client.cpus=0"], "too small"),
        ([GUEST, "client.kernel=linux/bzImage"], "neither a version"),
        ([GUEST, "client.hosts=0"], "too small"),
        ([GUEST, "client.delay='1ms'"], "no other wire is ours"),
        (["client.host='vms'"], "cluster, vm"),
        (["server.host='vm'", "client.hosts=1", "server.cpus=0"], "too small"),
        (["server.host='namespace'", "client.hosts=1", "server.kernel='6.1'"], "of no virtual"),
    ],
)
def test_what_no_guest_has(settings: list[str], said: str, experiment_file: Write) -> None:
    with pytest.raises(InvalidExperiment) as caught:
        read_experiment(experiment_file(), settings)
    told = "\n".join(f"{one.where} {one.what} {one.fix}" for one in caught.value.problems)
    assert said in told


def obstacles(file: Path, *settings: str) -> str:
    found = preflight(read_experiment(file, settings).points)
    return "\n".join(f"{one.part}: {one.reason} ({one.fix})" for one, _ in found.obstacles())


def test_a_guest_makes_no_guests(experiment_file: Write, guest: Path) -> None:
    said = obstacles(experiment_file(), GUEST, "machine.kernel='6.12'")
    assert "client hosts (vm)" in said
    assert "leave out [machine] kernel" in said


SHARE = """
[experiment]
name = "share"
repetitions = 1
collectors = ["mountstats"]
[collectors.mountstats]
required = true
[targets.share]
kind = "nfs"
client = "kernel"
directory = "{folder}"
[client]
host = "vm"
kernel = "9.1"
[workload]
kind = "command"
data = "share"
argv = ["true"]
"""


@pytest.fixture
def with_ip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program ip, also where the machine has none."""
    program = tmp_path / "programs" / "ip"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}:{program.parent}")


@pytest.mark.usefixtures("with_ip")
def test_what_only_a_guest_does_is_not_asked_of_this_machine(
    experiment_file: Write, guest: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel's client, and who watches it: there, not here."""
    from nfslab.evidence.mountstats.collector import MountstatsCollector
    from nfslab.machine.availability import Availability
    from nfslab.mounts.kernel import KernelMount

    no = Availability(False, "not on this machine")
    monkeypatch.setattr(KernelMount, "available", classmethod(lambda _cls: no))
    monkeypatch.setattr(MountstatsCollector, "available", lambda _self: no)
    monkeypatch.setattr(guests, "TUN", Path("/dev/null"))
    assert obstacles(experiment_file(text=SHARE)) == ""
    assert "not on this machine" in obstacles(
        experiment_file(('[client]\nhost = "vm"\nkernel = "9.1"\n', ""), text=SHARE)
    )


@pytest.mark.usefixtures("with_ip")
@pytest.mark.parametrize(
    ("lacks", "said"),
    [
        ("qemu", "qemu-system-x86_64"),
        ("kernel", "there is no package with a kernel 9.1"),
        ("tun", "/dev/net/none"),
        ("ip", "apt install iproute2"),
    ],
)
def test_what_is_missing_is_told_before_anything_runs(
    lacks: str, said: str, experiment_file: Write, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from nfslab.vm import kernel as kernels
    from nfslab.vm import packages

    require, find = running.require, qemu.find_qemu
    needs_kernel = kernels.require
    guest_support.install(tmp_path / "guest", monkeypatch)
    monkeypatch.setattr(guests, "TUN", Path("/dev/null"))
    match lacks:
        case "qemu":
            monkeypatch.setattr(running, "require", require)
            monkeypatch.setattr(qemu, "find_qemu", find)
            monkeypatch.setattr(os, "geteuid", lambda: 0)
            monkeypatch.setenv("PATH", str(tmp_path))
        case "kernel":
            monkeypatch.setattr(kernels, "require", needs_kernel)
            monkeypatch.setattr(packages, "_apt_cache", lambda *_words: "")
        case "tun":
            monkeypatch.setattr(guests, "TUN", Path("/dev/net/none"))
        case "ip":
            monkeypatch.setattr(shutil, "which", lambda *_words, **_more: None)
    assert said in obstacles(experiment_file(text=SHARE))


# The parts.


def test_a_member_is_what_it_was_made_of(resources: Resources) -> None:
    made_of = Made("9.1", Kernel("9.1.7", Path("/k"), Path("/m")), Size(1 << 30, 3))
    member = GuestMember("one", made_of, Nic("tap0", "52:54:00:00:00:01", "10.9.0.2/26"), resources)
    assert member.address == "10.9.0.2"
    assert member.patience.load_s == 60.0
    facts = member.facts()
    assert (facts["kernel"], facts["cpus"], facts["memory_bytes"]) == ("9.1.7", 3, 1 << 30)
    assert member.made["virtual_machine"]["processor"] == "unknown"
    member.kvm = True
    # As any other machine, but for the boot.
    assert member.patience == Patience(ready_s=600.0)
    with pytest.raises(NfslabError, match="no agent"):
        member.clocks()


def test_a_network_device_is_in_qemus_words_and_in_no_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(qemu, "find_qemu", lambda: "qemu")
    words = qemu.arguments(
        Path("/tmp/x"), Path("/k"), Size(1 << 30, 1), [],
        qemu.Wiring(stdin=True, nic=Nic("h0abc", "52:54:00:00:00:01", "10.9.0.2/26")), kvm=False,
    )  # fmt: skip
    assert "tap,id=net,ifname=h0abc,script=no,downscript=no" in words
    assert "virtio-net-pci,netdev=net,mac=52:54:00:00:00:01" in words
    assert "virtserialport,chardev=stdin,name=stdin" in words
    plain = qemu.arguments(Path("/tmp/x"), Path("/k"), Size(1 << 30, 1), [], kvm=False)
    assert not [word for word in plain if "net" in word or "stdin" in word]


@pytest.mark.system
@needs_wires
def test_what_was_made_goes_when_it_cannot_be_made_whole(
    resources: Resources, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "require", lambda _size: None)
    attached: list[str] = []

    def second_fails(self: Bridge, device: str) -> None:
        attached.append(device)
        if len(attached) == 2:
            raise Unavailable("no room on the bridge", fix="")

    monkeypatch.setattr(Bridge, "attach", second_fails)
    kernel = Kernel("9.1.7", Path("/k"), Path("/m"))
    made = Made("9.1", kernel, Size(1 << 30, 1))
    cluster = BridgedHere([GuestSeat(name, made) for name in ("one", "two")])
    with pytest.raises(Unavailable):
        cluster.up(resources)
    assert (Path("/sys/class/net") / attached[1]).exists()
    cluster.close()
    assert not [one for one in attached if (Path("/sys/class/net") / one).exists()]


def test_too_little_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="memory"):
        guests.require_guests(Size(1 << 20, 1))

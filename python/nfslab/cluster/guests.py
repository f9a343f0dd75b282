"""Hosts that are virtual machines on this one, each with a kernel and an address of its own.

    agent of host1, in its guest ── eth0 (.2) ══ TAP ══╗
    agent of host2, in its guest ── eth0 (.3) ══ TAP ══ bridge (.1) ── servers, here

A guest is booted for one agent and ends with it. What the agent says and is told goes over ports of
virtio-serial, its working folder is one of ours that the guest may write to. A thread of ours
attends each guest, and QEMU ends with it: whatever is killed, no guest is left. Bridge and devices
are in the journal before they are made. Needs root, QEMU, virtiofsd and TAP devices.

A guest has clocks of its own: they are compared over the agent's lines, as those of any machine.
Where its processor is emulated all it does takes long, and not evenly so; see `EMULATED`.
"""

from __future__ import annotations

import itertools
import json
import os
import queue
import shutil
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from nfslab import clock
from nfslab.cluster.base import ROUNDS, Clocks, Member, Patience
from nfslab.cluster.bridge import PREFIX_BITS, Seat
from nfslab.cluster.here import Listened, working_folder
from nfslab.cluster.identity import facts_here
from nfslab.errors import Interrupted, NfslabError, RunFailed, Unavailable, one_line
from nfslab.hosts import namespace as networks
from nfslab.machine.agent import Lines, error_content, order
from nfslab.machine.children import LEAVE_S, SAID_MAX
from nfslab.machine.clock_pair import clock_pair, round_trip
from nfslab.machine.own_command import importing_us
from nfslab.vm import run as running
from nfslab.vm.guest import Tail
from nfslab.vm.qemu import Nic, Size, Wiring
from nfslab.vm.run import Boot

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nfslab.cluster.base import Said
    from nfslab.cluster.bridge import Bridge
    from nfslab.machine.resources import Entry, Resources
    from nfslab.vm.guest import Guest
    from nfslab.vm.kernel import Kernel

TUN: Final = Path("/dev/net/tun")
EMULATED: Final = Patience(ready_s=600.0, busy_s=60.0, load_s=60.0, start_s=5.0)
"""Of an emulated guest. Its Python needs up to minutes for its imports, during which it is silent
for as long as one of them takes; a guest itself is lost after 60 s without a word
(`vm.guest.Limits`)."""
BOOTING_S: Final = EMULATED.ready_s
CLOCK_S: Final = 30.0
"""For one reading of a guest's clock."""


class Made:
    """What all guests of a cluster are made of."""

    def __init__(self, asked: str, kernel: Kernel, size: Size) -> None:
        """`asked`: the kernel as it was asked for."""
        self.asked = asked
        self.kernel = kernel
        self.size = size


class GuestAgent(Listened):
    """An agent, and the guest that was booted for it."""

    member: GuestMember

    def __init__(self, member: GuestMember, module: str, folder: Entry, said: Said) -> None:
        ours = [f"{name}={value}" for name, value in importing_us().items()]
        self._command = ["env", *ours, sys.executable, "-P", "-m", module]
        self._lines = Lines(SAID_MAX)
        self.guest: Guest | None = None
        """The one that boots, or has booted."""
        self._guest: Guest | None = None
        self._telling = threading.Lock()
        self._untold: list[bytes] = []
        self._answers: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._left = threading.Event()
        super().__init__(member, folder, said)

    def tell(self, name: str, **content: Any) -> None:
        """See `Agent.tell`."""
        with self._telling:
            self._untold.append(order(name, **content))
            self._tell()

    def asked(self, question: str) -> dict[str, Any]:
        """The answer to a question, with `heard_ns`; RunFailed."""
        self.tell(question)
        try:
            answer = self._answers.get(timeout=CLOCK_S)
        except queue.Empty:
            answer = {}
        if not answer:
            raise RunFailed(
                f"{self.member.name} did not tell its clock",
                why=f"its guest has ended, or said nothing for {CLOCK_S:g} s",
                fix="run it again, with fewer or smaller guests if it stays so",
            )
        return answer

    def end(self) -> None:
        """See `Agent.end`. It holds nothing that anybody needs: it is given little time."""
        with self._telling:
            guest = self._guest
            if guest is not None:
                guest.close_input()
        # One that still boots has no agent that could end.
        self._listener.join(LEAVE_S if guest is not None else 0)
        self._left.set()
        self._listener.join()
        self._folder.undo()

    def write(self, piece: bytes) -> None:
        """What it says, as it comes (a sink of the guest's output); ValueError, RunFailed."""
        for line in self._lines.feed(piece):
            heard_ns = clock.monotonic_ns()
            if line is None:
                raise RunFailed("it said more than can be kept", fix="Please report this.")
            said = json.loads(line)
            if not isinstance(said, dict):
                raise ValueError("it said what is no event")
            if said.get("event") == "clock":
                self._answers.put(said | {"heard_ns": heard_ns})
            else:
                self._said(said)

    def flush(self) -> None:
        """Nothing is kept back."""

    def _listen(self) -> None:
        """Boot its guest and attend it until it has ended."""
        complaints = Tail()

        def attend(guest: Guest) -> int:
            self.guest, self.member.kvm = guest, guest.kvm
            return guest.attend(
                {"stdout": self, "stderr": complaints}, self.member.notes.append, self._look(guest)
            )

        why = "it was left"
        try:
            boot = self.member.boot(self._command, self._folder.path)
            code = running.attended(boot, self.member.notes.append, attend)
            why = f"exit code {code}" + "".join(f" ({line})" for line in complaints.lines[-1:])
        except Interrupted:
            pass
        except Exception as error:
            why = one_line(error)
            if isinstance(error, NfslabError):
                # With the end of its console, and what to do.
                self._said({"event": "error", **error_content(error)})
        with self._telling:
            self._guest = None
        self._answers.put({})
        self._said({"event": "ended", "why": why})

    def _look(self, guest: Guest) -> Any:
        def look() -> None:
            if self._left.is_set():
                raise Interrupted("nobody needs it any more")
            if guest.ready and self._guest is None:
                with self._telling:
                    self._guest = guest
                    self._tell()

        return look

    def _tell(self) -> None:
        """What is to be told; whoever is gone is found out by its events."""
        if self._guest is None:
            return
        told, self._untold = b"".join(self._untold), []
        try:
            self._guest.tell(told)
        except OSError:
            self._guest.close_input()


class GuestMember(Member):
    """A virtual machine on this one, while it has an agent."""

    def __init__(
        self,
        name: str,
        made: Made,
        nic: Nic | None,
        resources: Resources,
        parent: Path | None = None,
    ) -> None:
        """`resources`: agents' working folders are journalled there; they are made in `parent`."""
        self.name = name
        self.address = "" if nic is None else nic.address.partition("/")[0]
        self._parent = parent
        self.kvm: bool | None = None
        """Whether its processor is a real one; None until it was booted."""
        self._made = made
        self._nic = nic
        self._resources = resources
        self._begun = itertools.count()
        self._agent: GuestAgent | None = None
        self._notes: list[str] = []

    @property
    def patience(self) -> Patience:
        """A guest boots first; one that is emulated takes long for all."""
        return Patience(ready_s=BOOTING_S) if self.kvm else EMULATED

    @property
    def made(self) -> Mapping[str, Any]:
        """See `Member.made`."""
        made = self._made
        return {"virtual_machine": running.as_made(made.asked, made.kernel, made.size, self.kvm)}

    @property
    def notes(self) -> list[str]:
        """What was said while it was booted."""
        return self._notes

    def facts(self) -> dict[str, Any]:
        """As it was made: it has the files of this machine, so this nfslab."""
        made = self._made
        own = {"kernel": made.kernel.release, "cpus": made.size.cpus}
        return facts_here() | own | {"memory_bytes": made.size.memory_bytes}

    def clocks(self) -> Clocks:
        """See `Member.clocks`; RunFailed where it has no agent that answers."""
        if self._agent is None:
            raise RunFailed(f"{self.name} has no agent", fix="Please report this.")
        trips = []
        for _ in range(ROUNDS):
            here = clock_pair()
            said = self._agent.asked("clock")
            there = (said["wall_ns"], said["monotonic_ns"], said["width_ns"])
            trips.append(round_trip(here, there, said["heard_ns"]))
        return Clocks.of(trips)

    def begin(self, module: str, said: Said) -> GuestAgent:
        """See `Member.begin`. It boots meanwhile; what goes wrong with that is an event."""
        try:
            folder = working_folder(self.name, self._begun, self._resources, self._parent)
        except OSError as error:
            raise RunFailed(
                f"no working folder can be made for {self.name}", why=str(error),
                fix="make room for temporary files",
            ) from error  # fmt: skip
        self._agent = GuestAgent(self, module, folder, said)
        return self._agent

    def boot(self, command: Sequence[str], work: Path) -> Boot:
        """A guest with this command."""
        wiring = Wiring(stdin=True, nic=self._nic)
        return Boot(
            command,
            work,
            self._made.kernel,
            self._made.size,
            wiring=wiring,
            resources=self._resources,
        )


class GuestSeat(Seat):
    """A guest."""

    def __init__(self, name: str, made: Made) -> None:
        super().__init__(name)
        self._made = made

    def require(self) -> None:
        """See `require_guests`."""
        require_guests(self._made.size)

    def join(self, bridge: Bridge, number: int, address: str, resources: Resources) -> GuestMember:
        """Its device; it is not booted yet. RunFailed."""
        _, device = bridge.device(number, resources)
        networks.ip("tuntap", "add", "dev", device, "mode", "tap")
        bridge.attach(device)
        # Locally administered; the wire ends at the bridge, so a number is enough.
        mac = f"52:54:00:00:00:{number + 1:02x}"
        nic = Nic(device, mac, f"{address}/{PREFIX_BITS}")
        return GuestMember(self.name, self._made, nic, resources)


def require_guests(size: Size) -> None:
    """What guests with a network need of this machine; UsageError, Unavailable."""
    running.require(size)
    require_tap_devices()


def require_tap_devices() -> None:
    """The network of guests; Unavailable."""
    if shutil.which("ip") is None:
        raise _no_network("the program ip is missing", "apt install iproute2")
    try:
        os.close(os.open(TUN, os.O_RDWR | os.O_CLOEXEC))
    except OSError as error:
        raise _no_network(
            f"{TUN}: {error.strerror}",
            "modprobe tun; a container needs that device, and CAP_NET_ADMIN",
        ) from error


def _no_network(why: str, fix: str) -> Unavailable:
    return Unavailable("no virtual machine with a network can be made", why=why, fix=fix)

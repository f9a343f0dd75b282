"""A guest while it lives: its outputs passed on, its end understood.

One thread waits for everything at once: the three ports, QEMU, the virtiofsds. The guest says on
its control port that it is ready, every two seconds that it is alive, and how the command ended.
Whatever else ends it (a panic, a kill, silence) is an error with the end of its console.
"""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import socket
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, Self

from nfslab import clock
from nfslab.errors import RunFailed
from nfslab.machine.launch import Launch
from nfslab.machine.own_command import LAST_LINES
from nfslab.machine.starting import start
from nfslab.vm import qemu
from nfslab.vm.shares import serve

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from nfslab.machine.resources import Resources
    from nfslab.machine.started import Process
    from nfslab.vm.shares import Share

READ_BYTES = 1 << 16
LOOK_S = 0.25
CONSOLE_LINES = 25
HEADLINE = re.compile(r"Kernel panic|BUG:|Oops|Out of memory|nfslab-guest:")
SLIP = re.compile(r"\bint3: 0000 \[#1\]")
SLIPPED = "QEMU's emulation slipped (int3: a known defect of QEMU before 8.1)"
"""It may run an old translation of code that the kernel just patched, once in some hundred boots
(qemu-devel, message 20230707103611.5906-1; ClangBuiltLinux/boot-utils issue 111)."""
HEADLINES = 3
"""Lines that name what happened: pages of registers may follow them."""
LOG_LINES = 3
"""Of QEMU and each virtiofsd."""
CONSOLE_BYTES = 1 << 16
FIRST_SIGN_S = 5.0
"""A kernel's first line takes half a second with KVM."""
POWER_OFF_S = 30.0
ENDING_S = 3.0
"""QEMU gives the guest's memory back before it is gone."""
LINE_BYTES_MAX = 1 << 12
TAIL_BYTES = 1 << 14
TELL_S = 10.0
"""How long a guest may take to read what it is told: it has a buffer for more than that."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds. A guest that is silent for longer is lost."""

    boot_s: float = 120.0
    silence_s: float = 60.0


class Sink(Protocol):
    """What an output goes to: a binary file, or who reads it at once."""

    def write(self, piece: bytes, /) -> object:
        """The next bytes."""

    def flush(self) -> object:
        """They are all there are for now."""


class Tail:
    """The end of an output; a sink."""

    def __init__(self) -> None:
        self._end = b""

    def write(self, piece: bytes) -> None:
        """More of it."""
        self._end = (self._end + piece)[-TAIL_BYTES:]

    def flush(self) -> None:
        """Nothing is kept back."""

    @property
    def lines(self) -> list[str]:
        """The last ones."""
        return self._end.decode(errors="replace").splitlines()[-LAST_LINES:]


class NoSignOfLife(Exception):
    """KVM did not bring the guest to its first line of console."""


@dataclass(slots=True)
class Guest:
    """A guest that was started; a context manager that ends it."""

    place: Path
    """A folder of ours with what it is made of."""
    machine: Process
    shares: dict[str, Process]
    ports: dict[str, socket.socket]
    limits: Limits
    kvm: bool
    ready: bool = False
    exit_code: int | None = None
    _heard_s: float = field(default_factory=clock.monotonic)
    _line: bytes = b""

    @classmethod
    def boot(
        cls,
        place: Path,
        vmlinux: Path,
        size: qemu.Size,
        shares: list[Share],
        resources: Resources,
        *,
        kvm: bool,
        limits: Limits,
        wiring: qemu.Wiring = qemu.PLAIN,
    ) -> Self:
        """Start virtiofsds and QEMU, and wait until QEMU is connected; RunFailed, Unavailable.

        Both end with the thread that calls this, which has to attend the guest then.
        """
        argv = qemu.arguments(place, vmlinux, size, shares, wiring, kvm=kvm)
        with contextlib.ExitStack() as undo:
            serving = {}
            for share in shares:
                serving[share.tag] = serve(share, place, resources)
                undo.callback(serving[share.tag].stop, 9)
            listening = {name: _listen(place / f"{name}.sock") for name in wiring.ports}
            for one in listening.values():
                undo.callback(one.close)
            with (place / "qemu.log").open("wb") as log:
                machine = start(
                    Launch(argv, None, place, None, None, None, 9, with_thread=True),
                    resources, log, log,
                )  # fmt: skip
            undo.callback(machine.stop, 9)
            ports = {name: _accepted(one, machine) for name, one in listening.items()}
            undo.pop_all()
        for one in listening.values():
            one.close()
        if None in ports.values():
            machine.stop(9)
            for process in serving.values():
                process.stop(9)
            raise _not_started(place)
        kept = {name: one for name, one in ports.items() if one is not None}
        return cls(place, machine, serving, kept, limits, kvm)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        for process in (self.machine, *self.shares.values()):
            process.stop(9)
        for port in self.ports.values():
            port.close()

    def await_sign_of_life(self, limit_s: float = FIRST_SIGN_S) -> None:
        """Until it said anything on its console; NoSignOfLife when it does not in time."""
        deadline = clock.monotonic() + limit_s
        console = self.place / "console.log"
        while not (console.exists() and console.stat().st_size):
            if self.machine.ended_within(0.05) or clock.monotonic() > deadline:
                raise NoSignOfLife

    def attend(
        self,
        outputs: Mapping[str, Sink],
        say: Callable[[str], None],
        look: Callable[[], object] = lambda: None,
    ) -> int:
        """Pass its outputs on until its end; the command's exit code. RunFailed: it is lost.

        `look` is called several times a second; what it raises ends the attending.
        """
        with selectors.DefaultSelector() as selector:
            for name, port in self.ports.items():
                if name == qemu.STDIN:
                    continue
                port.setblocking(False)
                selector.register(port, selectors.EVENT_READ, name)
            while selector.get_map() or self.machine.poll() is None:
                look()
                ready = selector.select(LOOK_S)
                for key, _ in ready:
                    self._take(key.data, selector, outputs)
                if not ready and self._is_over(say):
                    break
        if self.exit_code is None:
            raise self.lost("the virtual machine ended before its command did")
        return self.exit_code

    def tell(self, text: bytes) -> None:
        """Something for its command's standard input; OSError: nobody is there to read it."""
        port = self.ports[qemu.STDIN]
        port.settimeout(TELL_S)
        port.sendall(text)

    def close_input(self) -> None:
        """Its command's standard input ends."""
        with contextlib.suppress(OSError):
            self.ports[qemu.STDIN].shutdown(socket.SHUT_RDWR)

    def _take(
        self, name: str, selector: selectors.BaseSelector, outputs: Mapping[str, Sink]
    ) -> None:
        """What a port has; nothing more comes when QEMU has closed it."""
        try:
            piece = self.ports[name].recv(READ_BYTES)
        except BlockingIOError:
            return
        except ConnectionError:
            piece = b""
        if not piece:
            selector.unregister(self.ports[name])
        elif name == "control":
            self._heard_s = clock.monotonic()
            *lines, self._line = (self._line + piece).split(b"\n")
            for line in lines:
                self._obey(line)
            self._line = self._line[-LINE_BYTES_MAX:]
        else:
            outputs[name].write(piece)
            outputs[name].flush()

    def _obey(self, line: bytes) -> None:
        words = line.split()
        if words[:1] == [b"ready"]:
            self.ready = True
        elif words[:1] == [b"exit"] and len(words) == 2 and words[1].isdigit():
            self.exit_code = int(words[1])

    def _is_over(self, say: Callable[[str], None]) -> bool:
        """Nothing came for a while: has it ended, or is it lost? RunFailed when it is."""
        now = clock.monotonic()
        if self.exit_code is not None:
            if now - self._heard_s > POWER_OFF_S and self.machine.poll() is None:
                say("the virtual machine did not power off in time and was ended")
                return True
            return False
        for tag, process in self.shares.items():
            # A guest that ends takes its virtiofsd along, which may be gone some time before it.
            if process.poll() is not None and not self.machine.ended_within(ENDING_S):
                raise self.lost(
                    f"virtiofsd ({tag}) ended with code {process.poll()} below the virtual machine"
                )
        limit_s = self.limits.silence_s if self.ready else self.limits.boot_s
        if self.machine.poll() is None and now - self._heard_s > limit_s:
            state = "gave no sign of life" if self.ready else "did not finish booting"
            raise self.lost(f"the virtual machine {state} for {limit_s:g} s")
        return False

    def slipped(self) -> bool:
        """Was it QEMU that broke the kernel?"""
        console = tail(self.place / "console.log")
        return not self.kvm and any(SLIP.search(line) for line in console)

    def lost(self, what: str) -> RunFailed:
        """With what QEMU and virtiofsd said, and the end of the console."""
        logs = [self.place / "qemu.log", *(self.place / f"{tag}.log" for tag in self.shares)]
        said = [f"{path.stem}: {line}" for path in logs for line in tail(path, LOG_LINES)]
        console = tail(self.place / "console.log", CONSOLE_LINES)
        names = [line for line in tail(self.place / "console.log") if HEADLINE.search(line)]
        said += [line for line in names[-HEADLINES:] if line not in console]
        said += ["its console ends:", *console] if console else ["its console says nothing"]
        return RunFailed(what, why="\n       ".join(said), fix=_advice([*names, *console]))


def tail(path: Path, lines: int = 0) -> list[str]:
    """The last lines of a file (0: of its last 64 KiB), without what a terminal would obey."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - CONSOLE_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return []
    clean = ["".join(c for c in line if c.isprintable()) for line in text.splitlines()]
    return [line for line in clean if line.strip()][-lines:]


def _advice(said: list[str]) -> str:
    text = "\n".join(said)
    if SLIP.search(text):
        return f"run it again: {SLIPPED}"
    if "Out of memory" in text or "out of memory" in text:
        return "give it more memory: --memory 4G, or [machine] memory"
    if "Attempted to kill init" in text or "Kernel panic" in text:
        return "try another kernel (--kernel, or [machine] kernel), or more memory (--memory)"
    return "run it again; with another --kernel, --memory or --cpus if it stays so"


def _listen(path: Path) -> socket.socket:
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(path))
    listening.listen(1)
    return listening


def _accepted(listening: socket.socket, machine: Process) -> socket.socket | None:
    """QEMU's connection; None when it ended before."""
    listening.settimeout(LOOK_S)
    while True:
        try:
            return listening.accept()[0]
        except TimeoutError:
            if machine.poll() is not None:
                return None


def _not_started(place: Path) -> RunFailed:
    logs = [line for path in sorted(place.glob("*.log")) for line in tail(path, 5)]
    return RunFailed(
        "the virtual machine could not be started",
        why="\n       ".join(logs) or "QEMU ended without a word",
        fix="ask for less --memory or fewer --cpus; `nfslab doctor` tells what this machine has",
    )

"""The text of `perf script` -> folded stacks and samples over time, a piece at a time.

What it reads (perf_tool.FIELDS), a blank line behind each sample, its frames from the leaf:

    postgres 812/812 [001] 75163.593377206:   10101010 cpu-clock:
    <TAB>    ffffffff813c3984 do_sys_poll ([kernel.kallsyms])
    <TAB>        7f42320ae4e8 ExecScan (/usr/lib/postgresql/15/bin/postgres)

and lines of PERF_RECORD_FORK, _COMM, _EXIT and _LOST between them. A *stack* is the process's
name (comm), then the frames from the root: user frames first, the kernel's behind them.

Decisions. A frame without a symbol is named by its module, "[libc.so.6]", or "[unknown]" where
its address lies in no file; a `;` in a name becomes `:` (as stackcollapse does it). Frames count
as the kernel's from the leaf up to the first user address: behind it a broken chain of frame
pointers may hold any number. Processes are classed by descent, which perf records: what nfslab
started is the run's. Samples of the idle task count as idle unless an interrupt is served.

Limits. Every table is bounded (the names below); what does not fit is counted and goes into one
entry that says so. A line that is none of these is counted (`odd_lines`), never an error: names of
processes and functions are other people's text. A process may name itself like a sample's
heading; then one sample may be wrong, and the count of samples by one.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

STACKS_MOST: Final = 400_000
"""Distinct stacks; perf.data of the default size holds about as many samples."""
NAMES_MOST: Final = 500_000
NAME_LENGTH_MOST: Final = 300
"""Characters of a function's name: C++ has longer ones, no reader has use for them."""
DEPTH_MOST: Final = 1024
"""Frames of a stack; the kernel's own limit is 127 (kernel.perf_event_max_stack)."""
SERIES_MOST: Final = 2_000_000
THREADS_MOST: Final = 200_000
LINE_BYTES_MOST: Final = 1 << 16
CACHE_MOST: Final = 200_000
BIN_NS: Final = 100_000_000

IDLE: Final = "idle"
INTERRUPTS: Final = "interrupts"
"""Work done in interrupts and softirqs on a CPU that was idle."""
RUN: Final = "run"
"""What nfslab started: the workload, its servers."""
NFSLAB: Final = "nfslab"
"""nfslab itself: also the load that its core makes (workloads files and sfs)."""
PERF: Final = "perf"
KERNEL_THREADS: Final = "kernel threads"
OTHER: Final = "other"

UNKNOWN: Final = "[unknown]"
OTHER_STACKS: Final = "[other stacks]"
OTHER_NAMES: Final = "[other names]"
KTHREADD: Final = 2

_HEADING = re.compile(
    rb"(.*)\s(-1|\d{1,10})/(-1|\d{1,10})\s+\[(\d{1,6})\]\s+(\d{1,10})\.(\d{9}):\s+(\S.*)$"
)
_SAMPLE = re.compile(rb"(\d{1,19})\s+(\S{1,100}):\s*$")
_FORK = re.compile(rb"PERF_RECORD_FORK\((\d{1,10}):(\d{1,10})\):\((\d{1,10}):(\d{1,10})\)$")
_LOST = re.compile(rb"PERF_RECORD_LOST lost (\d{1,18})$")
_FRAME = re.compile(rb"\s+([0-9a-f]{1,16}) (.*)$")
_INTERRUPT = re.compile(
    r"softirq|^(asm_)?(sysvec_|common_interrupt)|^do_IRQ$|^(__)?irq_exit|^irq_enter"
    r"|^generic_handle_(domain_)?irq|^handle_irq|^gic_handle_irq|^el1h_64_irq|^ret_from_intr$"
)


@dataclass(slots=True)
class Tally:
    """Samples, and the sum of their periods (nanoseconds of cpu-clock, cycles of cycles)."""

    samples: int = 0
    weight: int = 0
    first_ns: int = 0
    """Time of the first sample."""


@dataclass(frozen=True, slots=True)
class Stack:
    """One stack: names from the root; the last `kernel_frames` of them are the kernel's."""

    klass: str
    process: str
    frames: tuple[str, ...]
    kernel_frames: int


@dataclass(slots=True)
class Folded:
    """What the text held. `stacks` and `threads` are of the window, all others of everything."""

    stacks: dict[tuple[str, str, tuple[int, ...], int], Tally] = field(default_factory=dict)
    """(class, process, frames by number from the root, kernel frames)."""
    names: list[str] = field(default_factory=list)
    series: dict[tuple[int, int, str, str], list[int]] = field(default_factory=dict)
    """(bin of `BIN_NS` from the window's start, CPU, class, process) -> [user, kernel]."""
    threads: dict[tuple[int, str], int] = field(default_factory=dict)
    """(thread, process's name) -> samples; without the idle ones."""
    events: Counter[str] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)
    """Module -> samples in the window whose leaf has no symbol."""
    samples: int = 0
    idle_samples: int = 0
    """Of all, those of an idle CPU: not every CPU gives them, see the collector."""
    window_samples: int = 0
    window_idle_samples: int = 0
    broken: int = 0
    """Samples in the window with a user frame that lies in no file."""
    user_stacks: int = 0
    """Samples in the window with any user frame."""
    lost: int = 0
    first_ns: int | None = None
    last_ns: int | None = None
    odd_lines: int = 0
    cut_stacks: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    """Table that was full -> samples (names: names) that went into its last entry."""

    def each_stack(self) -> list[tuple[Stack, Tally]]:
        """Stacks with their names, in the order of their first samples."""
        found = [
            (Stack(klass, process, tuple(self.names[one] for one in frames), kernel), tally)
            for (klass, process, frames, kernel), tally in self.stacks.items()
        ]
        found.sort(key=lambda one: (one[1].first_ns, one[0].process, one[0].frames))
        return found


class ScriptReader:
    """Feed it the text in any pieces, then `finish`."""

    def __init__(self, window_ns: tuple[int, int], roots: Mapping[int, str]) -> None:
        """`window_ns`: begin and end on the clock of the text; `roots`: pid -> class."""
        self._begin_ns, self._end_ns = window_ns
        self._folded = Folded()
        self._rest = b""
        self._too_long = False
        self._numbers: dict[str, int] = {}
        self._known_frames: dict[bytes, tuple[int, bool, bool]] = {}
        self._interrupts: dict[int, bool] = {}
        self._family = _Family(roots)
        self._open: tuple[bytes, int, int, int, int, int] | None = None
        """(comm, pid, tid, CPU, time, period) of the sample whose frames are being read."""
        self._frames: list[tuple[int, bool, bool, bool]] = []
        """(name, has a symbol, is in a file, kernel address), from the leaf."""
        self._cut = False

    def feed(self, piece: bytes) -> None:
        """The next bytes of the text."""
        lines = (self._rest + piece).split(b"\n")
        self._rest = lines.pop()
        for line in lines:
            if self._too_long:
                self._too_long = False
                self._folded.odd_lines += 1
            elif len(line) > LINE_BYTES_MOST:
                self._folded.odd_lines += 1
            else:
                self._line(line)
        if len(self._rest) > LINE_BYTES_MOST:
            self._rest, self._too_long = b"", True

    def finish(self) -> Folded:
        """All that was read."""
        if self._too_long:
            self._folded.odd_lines += 1
        elif self._rest:
            self._line(self._rest)
        self._rest, self._too_long = b"", False
        self._close()
        return self._folded

    def _line(self, line: bytes) -> None:
        if not line.strip():
            self._close()
        elif (
            self._open is not None
            and line[:1] in b"\t "
            and (frame := _FRAME.match(line)) is not None
        ):
            self._frame(frame[1], frame[2])
        elif (heading := _HEADING.match(line)) is not None:
            self._close()
            self._heading(heading)
        else:
            self._folded.odd_lines += 1

    def _heading(self, found: re.Match[bytes]) -> None:
        what = found[7]
        if what.startswith(b"PERF_RECORD_"):
            self._record(what, live=bool(int(found[5]) or int(found[6])))
            return
        sample = _SAMPLE.match(what)
        if sample is None:
            self._folded.odd_lines += 1
            return
        self._folded.events[sample[2].decode(errors="replace")] += 1
        at_ns = int(found[5]) * 10**9 + int(found[6])
        self._open = (
            found[1].strip(), int(found[2]), int(found[3]), int(found[4]), at_ns, int(sample[1]),
        )  # fmt: skip

    def _record(self, what: bytes, live: bool) -> None:
        if (fork := _FORK.match(what)) is not None:
            pid, parent = int(fork[1]), int(fork[3])
            if pid != parent:
                # Those that were there before carry time 0.
                self._family.forked(pid, parent, live=live)
        elif (lost := _LOST.match(what)) is not None:
            self._folded.lost += int(lost[1])
        elif not what.startswith((b"PERF_RECORD_COMM", b"PERF_RECORD_EXIT", b"PERF_RECORD_FORK")):
            self._folded.odd_lines += 1

    def _frame(self, address: bytes, rest: bytes) -> None:
        if len(self._frames) >= DEPTH_MOST:
            self._cut = True
            return
        known = self._known_frames.get(rest)
        if known is None:
            known = self._named(rest)
            if len(self._known_frames) >= CACHE_MOST:
                self._known_frames.clear()
            self._known_frames[rest] = known
        kernel = len(address) == 16 and address[0] in b"89abcdef"
        self._frames.append((*known, kernel))

    def _named(self, rest: bytes) -> tuple[int, bool, bool]:
        """(number of the name, has it a symbol, does it lie in a file) of "symbol (module)"."""
        text = rest.decode(errors="replace")
        symbol, opening, module = text.rstrip().rpartition(" (")
        if module.startswith("deleted)") and " (" in symbol:
            symbol, opening, path = symbol.rpartition(" (")
            module = f"{path} (deleted))"
        if not opening or not module.endswith(")"):
            symbol, module = text.strip(), UNKNOWN
        else:
            module = module[:-1]
        inside = module != UNKNOWN
        if symbol != UNKNOWN and symbol:
            return self._number(symbol), True, inside
        name = f"[{module.rpartition('/')[2].strip('[]') or module}]" if inside else UNKNOWN
        return self._number(name), False, inside

    def _number(self, name: str) -> int:
        name = name.replace(";", ":")
        if len(name) > NAME_LENGTH_MOST:
            name = f"{name[: NAME_LENGTH_MOST - 1]}…"
        number = self._numbers.get(name)
        if number is None:
            if len(self._numbers) >= NAMES_MOST and name not in (OTHER_NAMES, OTHER_STACKS):
                self._folded.left_out["names"] += 1
                return self._number(OTHER_NAMES)
            number = self._numbers[name] = len(self._numbers)
            self._folded.names.append(name)
        return number

    def _close(self) -> None:
        """The sample that is being read is whole."""
        if self._open is None:
            return
        comm, pid, tid, cpu, at_ns, period = self._open
        frames, cut = self._frames, self._cut
        self._open, self._frames, self._cut = None, [], False
        folded = self._folded
        folded.samples += 1
        folded.cut_stacks += cut
        folded.first_ns = at_ns if folded.first_ns is None else min(folded.first_ns, at_ns)
        folded.last_ns = at_ns if folded.last_ns is None else max(folded.last_ns, at_ns)
        kernel = 0
        while kernel < len(frames) and frames[kernel][3]:
            kernel += 1
        klass = self._class_of(pid, frames[:kernel])
        process = comm.decode(errors="replace").replace(";", ":") or UNKNOWN
        folded.idle_samples += klass == IDLE
        self._over_time(at_ns, cpu, klass, process, in_kernel=kernel > 0)
        if self._begin_ns <= at_ns < self._end_ns:
            self._in_window(klass, process, tid, (at_ns, period), frames, kernel)

    def _class_of(self, pid: int, kernel: list[tuple[int, bool, bool, bool]]) -> str:
        if pid != 0:
            return self._family.class_of(pid)
        return INTERRUPTS if any(self._serves(name) for name, *_ in kernel) else IDLE

    def _serves(self, number: int) -> bool:
        known = self._interrupts.get(number)
        if known is None:
            known = _INTERRUPT.search(self._folded.names[number]) is not None
            self._interrupts[number] = known
        return known

    def _over_time(self, at_ns: int, cpu: int, klass: str, process: str, in_kernel: bool) -> None:
        key = ((at_ns - self._begin_ns) // BIN_NS, cpu, klass, process)
        counts = self._folded.series.get(key)
        if counts is None:
            if len(self._folded.series) >= SERIES_MOST:
                self._folded.left_out["series"] += 1
                return
            counts = self._folded.series[key] = [0, 0]
        counts[in_kernel] += 1

    def _in_window(
        self,
        klass: str,
        process: str,
        tid: int,
        when: tuple[int, int],
        frames: list[tuple[int, bool, bool, bool]],
        kernel: int,
    ) -> None:
        """`when`: (time, period) of the sample."""
        folded = self._folded
        at_ns, period = when
        folded.window_samples += 1
        if klass == IDLE:
            folded.window_idle_samples += 1
        else:
            thread = (tid, process)
            if thread in folded.threads or len(folded.threads) < THREADS_MOST:
                folded.threads[thread] = folded.threads.get(thread, 0) + 1
            else:
                folded.left_out["threads"] += 1
            if frames and not frames[0][1]:
                folded.unknown[folded.names[frames[0][0]]] += 1
            if len(frames) > kernel:
                folded.user_stacks += 1
                folded.broken += any(not inside for _, _, inside, _ in frames[kernel:])
        key = (klass, process, tuple(one[0] for one in reversed(frames)), kernel)
        tally = folded.stacks.get(key)
        if tally is None:
            if len(folded.stacks) >= STACKS_MOST:
                folded.left_out["stacks"] += 1
                key = (klass, OTHER, (self._number(OTHER_STACKS),), 0)
            tally = folded.stacks.setdefault(key, Tally(first_ns=at_ns))
        tally.samples += 1
        tally.weight += period


class _Family:
    """Classes of processes by descent."""

    def __init__(self, roots: Mapping[int, str]) -> None:
        self._roots = dict(roots)
        self._parents: dict[int, int] = {}
        self._classes: dict[int, str] = {}

    def forked(self, pid: int, parent: int, *, live: bool) -> None:
        """`parent` made `pid`: while it was recorded (live), or before."""
        self._parents[pid] = parent
        if live:
            # A number that is used again is another process.
            self._roots.pop(pid, None)
            self._classes.pop(pid, None)
            self._classes[pid] = self.class_of(parent, child=True)

    def class_of(self, pid: int, child: bool = False) -> str:
        """Of a process; with `child` of one that it starts."""
        seen: list[int] = []
        at = pid
        found = OTHER
        while len(seen) < THREADS_MOST:
            known = self._classes.get(at) or self._roots.get(at)
            if known is not None:
                own = at == pid and not child
                found = RUN if known == NFSLAB and not own else known
                break
            seen.append(at)
            parent = self._parents.get(at)
            if parent is None or parent in seen:
                break
            at = parent
        for one in seen:
            self._classes[one] = found
        return found

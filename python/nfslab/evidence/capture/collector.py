"""Every NFS call of a run: tcpdump or dumpcap captures, the core decodes while it runs.

The tool writes into a pipe, and the core reads the other end on threads of its own, so that
no huge file is ever kept: what stays of a run is the analysis (and the packets, or a table of
all calls, if the file asks for them).

    start: tool started ──> it says that it captures ──> the load may begin
    stop:  all is taken from the kernel's buffer ──> SIGINT ──> end of the pipe ──> analysis

Decisions. What to capture follows from the run's places: all packets to and from the servers of
its NFS mounts (NFS may be on any port); on the loopback interface if they are this machine.
Packets are taken whole: where segments are offloaded several RPC messages lie in one of up to
64 KiB, and a cut packet hides all but the first. Evidence is incomplete, and says so, where the
kernel dropped packets, the tool ended early, or the decoder met bytes that are missing. The tool
gives up root's powers once it captures.

Cost: Evidence.cpu_s is the tool's and the decoder's CPU time. What the kernel spends on copying
packets is the load's own time, and in no account: benches/capture_cost.py measures it (0.6 to
0.9 us a packet of 512 bytes on a busy virtual machine with the filter and buffer as they are here;
ring sizes from 1 to 32 MiB make no difference).

Limits. With `keep` the packets go to a file and are decoded when the load is over. Times are
those of the wall clock; if it was set meanwhile, a note says so. Packets with VLAN tags do not
pass a filter by host: give one (`vlan and ...`).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shlex
import signal
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, cast

from pydantic import Field

from nfslab import clock
from nfslab.captures import anomalies, causes
from nfslab.captures import tool as tools
from nfslab.captures.analysis import (
    Asked,
    CaptureAnalysis,
    NothingToRead,
    finish,
    nothing,
    start,
    wait_for,
)
from nfslab.captures.contents import has_nfs, instead
from nfslab.captures.copies import ignore_outgoing
from nfslab.captures.places import Server, filter_for, interface_for, server_at, server_of
from nfslab.captures.rows import CALL_ROWS_MAX, CallTable
from nfslab.captures.taken import all_taken
from nfslab.captures.tool import Counts, Tool, Wanted, said_since
from nfslab.errors import RunFailed
from nfslab.evidence.collector import Collector, CollectorParameters, Evidence, Side
from nfslab.machine.availability import Availability
from nfslab.machine.clock_pair import clock_pair
from nfslab.quantities import Size
from nfslab.results.catalogue import PARTIAL_PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa

    from nfslab._core import Trace
    from nfslab.evidence.collector import Watch
    from nfslab.hosts.base import Host
    from nfslab.machine.started import Process
    from nfslab.workloads.base import RunContext

    Tables = dict[str, pa.Table]
    Stored = Callable[[CaptureAnalysis, int, pa.Table | None], Tables]
    """What is kept of an analysis, the start of the timed part (since 1970), all calls."""

LENSES: Final = (
    "operations", "clients", "files", "points", "rpcstat", "stalls", "access", "network", "blocks",
)  # fmt: skip
PIPE_BYTES: Final = 1 << 20
"""What an unprivileged user may ask for (/proc/sys/fs/pipe-max-size)."""
READY_LIMIT_S: Final = 20.0
READY_POLL_S: Final = 0.005
TAKE_LIMIT_S: Final = 30.0
"""How long the tool may take for what is in the kernel's buffer when the load has ended."""
END_LIMIT_S: Final = 15.0
"""How long the tool may take to end once it was asked to."""
WHOLE_PACKETS: Final = 262_144
"""MAXIMUM_SNAPLEN of libpcap and of Wireshark: no packet is longer."""
CLOCK_STEP_NS: Final = 1_000_000
"""A wall clock that moved by more against the monotonic one was set, not slewed."""
AT_THE_EDGE: Final = "reply_without_call"
"""The capture begins amid traffic: the first replies are to calls of before."""
CALLS: Final = "capture_calls"
KEPT: Final = {"tcpdump": "pcap", "dumpcap": "pcapng"}
"""Ending of the kept file's name."""


class CaptureParameters(CollectorParameters):
    """What both ends of the wire may be told."""

    interface: str | None = Field(default=None, min_length=1, max_length=64)
    """Default: lo if the NFS servers are this machine, else any; at a server, its address's."""
    filter: str | None = Field(default=None, max_length=4000)
    """pcap-filter(7). Default: host S for each server of the run's NFS mounts, or NFS's ports."""
    tool: Literal["auto", "tcpdump", "dumpcap"] = "auto"
    snaplen: int = Field(default=WHOLE_PACKETS, ge=96, le=WHOLE_PACKETS)
    """Bytes captured of each packet. Fewer than all hide calls where segments are offloaded."""
    buffer: Size = Field(default=32 << 20, ge=1 << 20, le=2 << 30)
    """The kernel's buffer for packets that the tool has not taken yet."""
    keep: bool | str = False
    """Keep the packets: true in the run's folder, or in the folder named here."""


class CaptureCollectorParameters(CaptureParameters):
    """What `[collectors.capture]` may hold."""

    calls: bool = False
    """Keep a table of all calls (capture_calls)."""


class CaptureCollector(Collector):
    """NFS calls from the packets on the wire."""

    kind: ClassVar[str] = "capture"
    summary: ClassVar[str] = "every NFS call, decoded from the packets while they pass"
    Parameters: ClassVar[type[CollectorParameters]] = CaptureCollectorParameters
    side: ClassVar[Side] = "files"

    def __init__(self, parameters: CollectorParameters) -> None:
        super().__init__(parameters)
        self._p = cast("CaptureCollectorParameters", parameters)

    @classmethod
    def available(cls) -> Availability:
        """Is there a tool, and may this user capture?"""
        return tools.available("auto")

    def applies(self, context: RunContext) -> Availability:
        """Is NFS in this run, or does the file say what to capture?"""
        if not _servers(context) and self._p.interface is None and self._p.filter is None:
            return Availability(
                False,
                "no place of this run is on NFS",
                "put a target on an NFS mount, or give collectors.capture an interface or filter",
            )
        return tools.available(self._p.tool)

    def start(self, context: RunContext) -> None:
        """Start the tool and wait until it captures; RunFailed when it cannot."""
        servers = _servers(context)
        with context.files_host.entered():
            interface = self._p.interface or interface_for([one.address for one in servers])
        view = View(context.files_host, interface, servers, calls=self._p.calls)
        self._watch = begun(context, self._p, view, self._stored)

    @staticmethod
    def _stored(capture: CaptureAnalysis, zero_ns: int, calls: pa.Table | None) -> Tables:
        from nfslab.evidence.capture.stored import tables

        found = tables(capture, zero_ns)
        return found if calls is None else found | {CALLS: calls}


def begun(context: RunContext, p: CaptureParameters, view: View, stored: Stored) -> Watch:
    """The tool, once it captures; RunFailed."""
    name = tools.choose(p.tool)
    assert name is not None, "else it does not apply"
    capture = _Capture(context, p, Tool(name), view, stored)
    capture.begin()
    return capture


@dataclass(frozen=True, slots=True)
class View:
    """From where packets are seen, and what is made of them."""

    host: Host
    interface: str
    servers: Sequence[Server]
    calls: bool
    """A table of all calls is kept."""
    name: str = "capture"
    """Of its files."""


def _servers(context: RunContext) -> list[Server]:
    """The NFS servers of the run's places, mounted or spoken to by the workload itself."""
    exports = context.services.nfs_exports.values()
    found = [
        server_of(
            place.filesystem,
            place.source,
            place.mount_options,
            place.facts.get("nfs", {}).get("options", {}),
        )
        for place in context.places.values()
    ]
    found += [server_at(export.source, export.options) for export in exports]
    return list(dict.fromkeys(server for server in found if server is not None))


class _Capture:
    """One run's capture: a tool, a pipe or file, an analysis."""

    def __init__(
        self, context: RunContext, p: CaptureParameters, tool: Tool, view: View, stored: Stored
    ) -> None:
        self._context, self._p, self._tool, self._view = context, p, tool, view
        self._stored = stored
        self._wanted = Wanted(
            interface=view.interface,
            filter=filter_for(view.servers) if p.filter is None else p.filter,
            snaplen=p.snaplen,
            buffer_bytes=p.buffer,
        )
        self._log = context.folder / "logs" / f"{view.name}-{tool.name}.log"
        self._log_start = self._log.stat().st_size if self._log.exists() else 0
        self._kept = self._kept_file()
        self._process: Process | None = None
        self._running: Trace | None = None
        self._rows: CallTable | None = None
        self._began_ns = clock.monotonic_ns()
        self._moved_ns = 0
        self._offset_ns, self._offset_error_ns = _clock_offset_ns()

    def _kept_file(self) -> Path | None:
        """Where the packets stay; None when they do not."""
        if self._p.keep is False:
            return None
        if self._p.keep is True:
            folder = self._context.folder / "evidence"
            return folder / f"{self._view.name}.{KEPT[self._tool.name]}"
        run = self._context.folder.name.removeprefix(PARTIAL_PREFIX)
        ending = self._view.name.removeprefix("capture")
        return Path(self._p.keep) / f"{run}{ending}.{KEPT[self._tool.name]}"

    def begin(self) -> None:
        """Start everything; nothing is left over when that fails."""
        try:
            if self._kept is not None:
                self._kept.parent.mkdir(parents=True, exist_ok=True)
                self._spawn(self._kept)
            else:
                self._spawn_into_pipe()
            self._await_ready()
            assert self._process is not None
            if self._wanted.interface == tools.LOOPBACK:
                ignore_outgoing(self._process.pid)
        except OSError as error:
            self._abandon()
            raise RunFailed(
                "the capture cannot be written",
                why=str(error),
                fix="see that there is room where it is kept, or leave the collector capture out",
            ) from error
        except BaseException:
            self._abandon()
            raise

    def _spawn_into_pipe(self) -> None:
        reading, writing = os.pipe2(os.O_CLOEXEC)
        try:
            with contextlib.suppress(OSError):
                fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
            # A pipe's end by its name in /proc: the host opens files, and this is one.
            self._spawn(Path(f"/proc/self/fd/{writing}"))
            self._running = start([(f"{self._tool.name}'s packets", reading)], self._asked())
        finally:
            os.close(writing)
            os.close(reading)
        if self._view.calls:
            self._rows = CallTable(self._running)

    def _asked(self) -> Asked:
        from nfslab.storage.file_classes import read_file_classes

        return Asked(lenses=LENSES, file_classes=read_file_classes(), columns=self._view.calls)

    def _spawn(self, output: Path) -> None:
        command = self._tool.command(self._wanted)
        self._context.commands.append(command)
        self._process = self._view.host.spawn(
            command,
            resources=self._context.resources,
            log=self._log,
            stdout=output,
            stop_signal=signal.SIGINT,
        )

    def _await_ready(self) -> None:
        """Until the tool says that it captures: what is sent before would be missing."""
        assert self._process is not None
        deadline = clock.monotonic() + READY_LIMIT_S
        while not self._tool.captures(said := self._said()):
            if self._process.ended_within(READY_POLL_S):
                if self._tool.captures(said := self._said()):
                    break
                raise RunFailed(
                    f"{self._tool.name} ended instead of capturing on {self._wanted.interface}",
                    why=said.strip() or "it said nothing",
                    fix="correct the collector's interface or filter; "
                    "`tcpdump -D` lists interfaces",
                )
            self._context.remaining_s()
            if clock.monotonic() > deadline:
                raise RunFailed(
                    f"{self._tool.name} did not begin to capture within {READY_LIMIT_S:g} s",
                    why=said.strip() or "it said nothing",
                    fix="see that it captures by itself: " + shlex.join(self._context.commands[-1]),
                )

    def end(self) -> Evidence:
        """End the tool, decode to the end; everything with t = 0 at the timed part's start."""
        process = self._process
        assert process is not None, "it was begun"
        # Ending it now would lose the last packets.
        taken = all_taken(
            self._tool, process, said=self._said, written=self._written, limit_s=TAKE_LIMIT_S
        )
        self._moved_ns = _clock_offset_ns()[0] - self._offset_ns
        early = process.ended_within(0)
        code = process.stop(signal.SIGINT, grace_s=END_LIMIT_S)
        try:
            capture = self._analysed()
        finally:
            self._abandon()
        said = self._said()
        counts = self._tool.counts(said)
        missing = [*self._ended(early, taken, code, said), *self._missing(capture, counts)]
        notes = [*missing, *self._doubts(capture, counts)]
        zero_ns = self._context.timed.start_or(self._began_ns) + self._offset_ns
        tool_cpu_s = sum(process.cpu_s())
        decoder_cpu_s = capture.content.get("analysis_cpu_ns", 0) / 1e9
        return Evidence(
            tables=self._tables(capture, zero_ns, notes),
            summary=self._summary(capture, counts, notes)
            | ({"incomplete": "; ".join(missing)} if missing else {})
            | {"cost": {"tool_cpu_s": tool_cpu_s, "decoder_cpu_s": decoder_cpu_s}},
            cpu_s=tool_cpu_s + decoder_cpu_s,
            wall_s=(clock.monotonic_ns() - self._began_ns) / 1e9,
        )

    def _analysed(self) -> CaptureAnalysis:
        """What the core found, once all packets went through it."""
        if self._running is None:
            assert self._kept is not None
            self._running = start([self._kept], self._asked())
            if self._view.calls:
                self._rows = CallTable(self._running)
        name = f"capture of {self._wanted.interface}"
        wait_for(self._running)
        try:
            found = finish(self._running, [name])
        except NothingToRead:
            # Killed before it wrote the header: nothing was seen, which is no failure of ours.
            return nothing([name])
        return replace(found, from_files=False)

    def _said(self) -> str:
        """The tool's words of this capture."""
        return said_since(self._log, self._log_start)

    def _written(self) -> int:
        """Bytes that came out of the tool so far."""
        if self._kept is not None:
            with contextlib.suppress(OSError):
                return self._kept.stat().st_size
            return 0
        assert self._running is not None
        return self._running.progress()["read_bytes"]

    def _tables(self, capture: CaptureAnalysis, zero_ns: int, notes: list[str]) -> Tables:
        calls = None if self._rows is None else self._rows.table(zero_ns)
        if self._rows is not None and self._rows.left_out:
            notes.append(
                f"the table of calls holds the first {CALL_ROWS_MAX:,}; "
                f"{self._rows.left_out:,} more were counted only"
            )
        return self._stored(capture, zero_ns, calls if calls is not None and len(calls) else None)

    def _ended(self, early: bool, taken: bool, code: int, said: str) -> list[str]:
        """What went wrong at the tool's end."""
        if early:
            last = said.strip().splitlines()[-1] if said.strip() else "it said nothing"
            return [f"{self._tool.name} ended by itself (code {code}), before the load did: {last}"]
        if not taken:
            return [
                f"{self._tool.name} did not take all packets from the kernel within "
                f"{TAKE_LIMIT_S:g} s of the load's end: the last ones may be missing"
            ]
        return []

    def _missing(self, capture: CaptureAnalysis, counts: Counts) -> list[str]:
        """Why calls are missing from the figures, but at the edges of the capture."""
        told = []
        if counts.dropped:
            told.append(
                f"the kernel dropped {counts.dropped:,} packets: calls and replies are missing; "
                "give the collector a larger buffer or a narrower filter"
            )
        if causes.has_loss(capture):
            lost = capture.content["lost"]
            told.append(f"the capture lacks {lost['bytes']:,} bytes in {lost['gaps']:,} gaps")
        told += [
            anomalies.sentence(one)
            for one in anomalies.counted(capture.content)
            if one.meaning.weight == "loss" and one.kind != AT_THE_EDGE
        ]
        if told and self._wanted.snaplen < WHOLE_PACKETS:
            told.append(f"{self._wanted.snaplen} bytes were taken of each packet (snaplen)")
        return told

    def _doubts(self, capture: CaptureAnalysis, counts: Counts) -> list[str]:
        """What makes the figures doubtful."""
        notes = []
        if counts.dropped is None:
            notes.append(f"{self._tool.name} did not say how many packets were dropped")
        if not capture.content["packets"]:
            notes.append(
                f"no packet on {self._wanted.interface} passed the filter "
                f"'{self._wanted.filter}': the load was idle, or its packets go elsewhere"
            )
        elif not has_nfs(capture):
            notes.append(f"no NFS call was seen: {instead(capture)[0]}")
        if abs(self._moved_ns) > CLOCK_STEP_NS:
            moved_ms = self._moved_ns / 1e6
            notes.append(f"the wall clock moved by {moved_ms:.1f} ms during the capture")
        return notes

    def _summary(
        self, capture: CaptureAnalysis, counts: Counts, notes: list[str]
    ) -> dict[str, Any]:
        from nfslab.evidence.capture.stored import summary

        return {
            "tool": self._tool.name,
            "interface": self._wanted.interface,
            "filter": self._wanted.filter,
            "snaplen_bytes": self._wanted.snaplen,
            "captured_packets": counts.captured,
            "kernel_dropped_packets": counts.dropped,
            "interface_dropped_packets": counts.interface_dropped,
            "kept": str(self._kept) if isinstance(self._p.keep, str) else self._p.keep,
            "calls_left_out": 0 if self._rows is None else self._rows.left_out,
            "clock": {
                "offset_ns": self._offset_ns,
                "error_ns": self._offset_error_ns,
                "moved_ns": self._moved_ns,
            },
            **summary(capture),
            "notes": notes,
        }

    def _abandon(self) -> None:
        """End what still runs; harmless when all is over."""
        if self._process is not None:
            self._process.stop(signal.SIGINT, grace_s=END_LIMIT_S)
        if self._running is not None:
            self._running.stop()


def _clock_offset_ns() -> tuple[int, int]:
    """CLOCK_REALTIME minus CLOCK_MONOTONIC, from the tightest of some readings, and how far it
    may be off. Both clocks are slewed alike: it changes only when the wall clock is set."""
    wall_ns, monotonic_ns, width_ns = clock_pair(readings=5)
    return wall_ns - monotonic_ns, (width_ns + 1) // 2

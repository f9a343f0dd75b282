"""Typed contract of the Rust core (crates/python). Every function releases the GIL while it works.

Times are integer nanoseconds of CLOCK_MONOTONIC, the clock of `time.monotonic_ns()`.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypedDict, final, type_check_only

from typing_extensions import Buffer

__all__ = [
    "FILES_SCHEMA",
    "LOAD_SCHEMA",
    "CallRows",
    "Columns",
    "CoreError",
    "Histogram",
    "Load",
    "Mount",
    "RpcRecorder",
    "Server",
    "ShimRecords",
    "StraceReader",
    "SyscallWatch",
    "SystemSampler",
    "Trace",
    "build_info",
    "classify_paths",
    "run_files",
    "shim_path",
    "syscalls_grants",
    "toml_lines",
    "unmount",
]

class CoreError(Exception):
    """Any error of the core. `str()` is "what: why"."""

    kind: str
    """Stable word for programs: "toml", "histogram", "config", "space", "read_only", "permission",
    "io", "unsupported", "limit", "sampler", "internal"; of captures: "missing", "directory",
    "empty", "not_a_capture", "link_type", "compression", "interrupted"; of the NFS client and
    server: "closed", "in_use", "portmapper"; of the load: "file_set", "silent", "cancelled"; of
    watching system calls: "left_out", "permission", "btf", "lockdown", "bpf", "tracefs", "gone"."""
    what: str
    why: str
    """Empty when unknown."""
    fix: str
    partial: str | None
    """`run_files` only: JSON (as its result) of the phases completed before the error."""
    line: int | None
    """kind "toml" only (1-based), absent otherwise. None when the place is unknown."""
    column: int | None

def build_info() -> dict[str, str]:
    """What produced this module: profile ("release"/"debug"), version, rustc, commit, target.

    `commit` is "unknown" without git at build time and ends in "-dirty" when the Rust sources
    differed from it.
    """

def unmount(directory: Path | str, how: str = "normal") -> None:
    """Unmount what lies on a folder: "normal", "lazy" or "force"; as root, or by fusermount3."""

def shim_path(folder: Path | str) -> str:
    """Write the preload library into a folder; its path. CoreError("left_out")."""

def classify_paths(paths: Sequence[str], classes: Sequence[tuple[str, str]]) -> list[str | None]:
    """The class of each path, by (class, glob) as the captures' file classes; None: no match.

    The first pattern that matches counts; `*` and `?` stay within a name, `**` crosses folders.
    CoreError("config") for a pattern that is no glob, and for more than 2000.
    """

def toml_lines(text: str) -> list[tuple[list[str | int], int, int]]:
    """Place of every entry of a TOML text: (path, line of its key, line of its value), 1-based.

    Paths are keys and array positions: ["axes", 1, "values", 0]. Tables, dotted keys, inline
    tables, arrays and arrays of tables all have entries. Values are `tomllib`'s business (this
    parser also accepts TOML 1.1). Raises CoreError("toml") with `line` and `column`.
    """

@final
class Histogram:
    """Latencies in nanoseconds, 1 ns to 1 h, with a relative error of 10^-significant_digits.

    Values outside are counted in `below` or `above` and are part of nothing else. Extremes, mean
    and deviation are exact (`exact` is True) unless the histogram came from bytes. One thread at a
    time: a second one that calls while `record_many` works gets a RuntimeError.
    """

    def __new__(cls, significant_digits: int = 3) -> Histogram:
        """Empty; 1 to 5 digits, else CoreError("histogram")."""
    def record(self, latency_ns: int) -> None: ...
    def record_many(self, latencies_ns: Buffer) -> None:
        """Record all elements of a buffer of signed 64-bit integers (numpy int64 arrays).

        BufferError for any other element type.
        """
    def add(self, other: Histogram) -> None:
        """Add all of `other`; CoreError("histogram") when the digits differ."""
    @property
    def count(self) -> int:
        """Values in range."""
    @property
    def below(self) -> int: ...
    @property
    def above(self) -> int: ...
    @property
    def out_of_range(self) -> int:
        """below + above."""
    @property
    def exact(self) -> bool: ...
    @property
    def significant_digits(self) -> int: ...
    @property
    def min(self) -> int | None: ...
    @property
    def max(self) -> int | None: ...
    @property
    def mean(self) -> float | None: ...
    @property
    def stdev(self) -> float | None:
        """Of the population."""
    def quantile(self, q: float) -> int | None:
        """Nearest-rank quantile, q in 0..1: upper edge of its bucket, never above `max`."""
    def buckets(self) -> list[tuple[int, int, int]]:
        """Non-empty buckets, ascending: (lowest value, highest value, count)."""
    def to_v2(self) -> bytes:
        """HdrHistogram V2 compressed bytes, as HdrHistogram libraries of other languages read.

        Holds buckets only: not `below`, `above`, nor the exact figures.
        """
    @staticmethod
    def from_v2(data: bytes) -> Histogram:
        """Read V2 bytes (compressed or plain) of any origin; CoreError("histogram")."""
    def __len__(self) -> int: ...

LOAD_SCHEMA: Final[int]
"""Version of the plan and of the report of `Load`."""

@final
class Load:
    """The NFS load generator with one plan: check it, make its file set, measure points.

    docs/load.md tells the plan's and the report's fields. `progress` of `prepare` and `run` gets a
    dict several times a second; it stops the work by returning False or raising (then that is
    raised here; a stopped `run` returns its report, which is not valid). One at a time: a second
    thread that calls meanwhile gets CoreError("in_use"), but from `calls`.
    """

    def __new__(cls, plan_json: str) -> Load:
        """Read and check a plan; CoreError("config") says what is wrong and what would be right."""
    def plan(self) -> dict[str, Any]:
        """What it comes to: "plan" (weights normalised), "notes", "options" by server, and the
        file set's "files", "bytes", "accessed_files", "accessed_bytes" over all mounts."""
    def prepare(
        self, progress: Callable[[dict[str, Any]], object] | None = None
    ) -> list[dict[str, Any]]:
        """Make the file set, extend it, or find it whole; one dict for each mount.

        Keys: "server", "options" (in effect), "files_found", "files_made", "written_bytes".
        CoreError: "io", "read_only", "space", "permission", "unsupported", "file_set" (what is
        there is not of this plan), "silent", "cancelled".
        """
    def run(self, progress: Callable[[dict[str, Any]], object] | None = None) -> dict[str, Any]:
        """Measure one point and return its report.

        Every point begins with the same file set: if it was used before, or never prepared, it is
        prepared first. What servers answer is never an exception: see "valid" and "reasons".
        """
    def run_part(
        self,
        begin: Callable[[], int],
        progress: Callable[[dict[str, Any]], object] | None = None,
    ) -> str:
        """Measure one point as one of several processes (plan: "part"), prepared before.

        `begin` is asked once everything is connected: `time.monotonic_ns()` of the common start;
        it is an error if that is past. What is returned is for `merge`.
        """
    def merge(self, parts: Sequence[str], lost: Sequence[tuple[int, str]]) -> dict[str, Any]:
        """The report of the point of which `parts` came from `run_part`, one of each process.

        Of the whole plan (no "part"). `lost`: parts that handed over nothing, and why; they make
        the point invalid. CoreError("internal") for what is not of one point.
        """
    def calls(self) -> tuple[Columns, int]:
        """Calls that ended since the last time (plan: "record_calls"), and how many were lost so
        far because nobody took them. Columns as `RpcRecorder.calls`. May be asked within
        `progress`."""
    def histograms(self) -> dict[str, Histogram]:
        """Responses of the last point: "all" and by operation; "late": planned (or slot free) to
        handed over. Empty before the first."""
    def series(self) -> Columns:
        """The last point over time, warm-up included: at_ns (an interval's start), planned,
        answered, bytes, response_sum_ns."""

FILES_SCHEMA: Final[int]
"""Version of the configuration and of the result of `run_files`."""

def run_files(config_json: str, progress: Callable[[str], None] | None = None) -> str:
    """Run the file workload and return its result, both as JSON. docs/files-workload.md has the
    whole story; this is the contract.

    Configuration (unknown keys are errors; only the first two are required)::

        directory: str            must exist; a new subdirectory is made inside and removed again
        size_bytes: int           of all files together; a multiple of the block size
        files: int = threads      the blocks are split evenly over them
        block_size_bytes: int = 8192      multiple of 512
        threads: int = 1          each works on its own contiguous range of the blocks
        direct: bool = false      O_DIRECT (not for the per-character phases)
        phases: [str] = all       "char_write", "block_write", "rewrite", "char_read",
                                  "block_read", "seeks", "random_read", "random_write"
        final_sync: bool = true   fsync before a writing phase ends, inside its time
        sync_every: int = 1       random_write: sync after each N writes of a thread; 0 = never
        sync_kind: str = "fdatasync"      or "fsync", "dsync" (O_DSYNC; needs sync_every 1)
        seeks: int = 4000         operations of `seeks`, all threads together
        seek_rewrite_share: float = 0.1
        seek_threads: int = threads       Bonnie had 3
        random_operations: int = seeks    of random_read and of random_write
        seed: int = 1
        time_limit_ns: int | null = null  per phase
        drop_cache: bool = true   fsync and POSIX_FADV_DONTNEED before each phase that reads
        check_every: int = 64     content of one in N blocks read is checked; 0 = none
        keep: bool = false        leave the files
        series_interval_ns: int = 100000000

    Result::

        schema: int, kind: "files", build: {..}, flags: [str], config: {effective configuration}
        directory: str            where the files are (were, unless kept)
        kept: bool
        file_sizes_bytes: [int]
        start_monotonic_ns, start_realtime_ns: int
        fills: [{before_phase, bytes, wall_ns}]   untimed writing of blocks a phase needed
        skipped: [{phase, why}]
        phases: [{
          phase: str, threads: int, stopped_by: "done" | "time_limit",
          start_monotonic_ns, wall_ns: int        from the common start to the last thread's end
          data_ns: int            part of wall_ns until the last thread's last operation
          final_sync_ns: int      the rest: final fsync and close
          bytes, operations: int  one operation = one block (of characters too; a block read and
                                  written back is one operation and counts its bytes once)
          rewrites: int           rewrite, seeks: operations that also wrote
          read_bytes, written_bytes: int          moved by system calls, as they answered
          user_ns, system_ns, cpu_ns: int         of the workers, final sync included
          voluntary_switches, involuntary_switches: int
          latency: HISTOGRAM      per operation, without the syncs
          sync: {operations, total_ns, latency: HISTOGRAM} | null   those of sync_every
          final_sync: {operations, total_ns} | null    fsyncs at the end, summed over threads
          series: {interval_ns, doublings, bytes: [int], operations: [int]}
          errors: {content_mismatches, short_reads, short_writes: int}
          first_mismatch: str | null
          checked_blocks: int
          cache: {drop_asked: bool, resident_bytes: int | null, size_bytes: int}  before the phase
          workers: [{bytes, operations, wall_ns, cpu_ns, user_ns, system_ns}]
        }]
        HISTOGRAM = {count, below, above, min_ns, max_ns, mean_ns, stdev_ns, p50_ns, p90_ns,
                     p99_ns, p999_ns, relative_error, v2_base64}    (null when empty)

    `flags` holds "debug_build" when figures must not be published, "files_left: ..." when files
    could not be removed.

    `progress` gets JSON about five times a second: {phase, phase_index, phases, step ("fill",
    "run"), done, total (operations), bytes, elapsed_ns}. What it raises cancels the run: the files
    are removed, then the exception goes on. Ctrl-C does the same when called from the main thread.

    Raises CoreError: "config", "space", "read_only", "permission", "unsupported", "io".
    """

@type_check_only
class SampledColumn(TypedDict):
    """One quantity over time."""

    dtype: str
    """"<i8" (all of them at present)."""
    data: bytes
    """One little-endian value a sample."""
    unit: str
    """"ns", "bytes" or "count", as at the end of the name."""
    kind: str
    """"counter" (grows since boot; differences have meaning) or "gauge"."""

@type_check_only
class SampledAbsence(TypedDict):
    source: str
    why: str

@type_check_only
class SampledCost(TypedDict):
    """What the sampling itself used."""

    cpu_ns: int
    user_ns: int
    system_ns: int
    wall_ns: int
    cpu_share: float
    """cpu_ns / wall_ns: of one CPU."""
    samples_read: int
    max_read_ns: int
    """Longest time from the first to the last file of one sample."""

@type_check_only
class SamplerResult(TypedDict):
    schema: int
    clock: str
    """"CLOCK_MONOTONIC"."""
    start_monotonic_ns: int
    start_realtime_ns: int
    interval_ns: int
    """As asked."""
    effective_interval_ns: int
    """interval_ns * 2 ** halvings."""
    halvings: int
    """How often every second sample was dropped to stay within the memory limit."""
    samples: int
    missing_value: int
    """In a column: not known at that time (never a real value)."""
    columns: dict[str, SampledColumn]
    """"t_ns" (CLOCK_MONOTONIC), "read_ns" (time reading took), then e.g. "cpu.user_ns",
    "memory.available_bytes", "disk.vda.read_bytes", "net.eth0.receive_bytes",
    "vm.major_fault_count", "pressure.io.some_ns", "cgroup.memory_bytes"."""
    absent: list[SampledAbsence]
    """Sources that this machine does not have: no columns, never zeroes."""
    idle: list[str]
    """Devices and interfaces without any traffic since boot: no columns."""
    read_errors: int
    """Files that could not be read at some tick."""
    unreadable_values: int
    """Values that were no numbers (0 on a healthy kernel)."""
    devices_left_out: int
    late_ticks: int
    """Samples taken more than a tenth of the interval late."""
    missed_ticks: int
    """Samples not taken, because the one before ended after their time."""
    max_lateness_ns: int
    cost: SampledCost

def syscalls_grants() -> dict[str, Any]:
    """Whether programs in the kernel (eBPF) can watch system calls here: tried, in some ms.

    ok; kind ("" or as CoreError of `SyscallWatch`), what, why, fix: what is in the way; blocks:
    whether block requests can be watched."""

@final
class SyscallWatch:
    """Watches the system calls on files of some processes, their living descendants and all that
    they fork later, by programs in the kernel. Detached by `stop`, with the object, and by the
    kernel when this process ends, however it ends. docs/decisions/ebpf.md says what it costs."""

    def __new__(
        cls,
        roots: Sequence[int],
        level: str = "sync",
        *,
        lseek: bool = False,
        blocks: bool = False,
        ring_bytes: int = 16_777_216,
        files_max: int = 16_384,
    ) -> SyscallWatch:
        """`level`: "sync" (what makes bytes durable), "counts" (and names, and counts per file and
        call), "events" (and each read and write). `blocks`: requests of all block devices.

        CoreError: "left_out", "permission", "btf", "lockdown", "bpf", "tracefs" (eBPF cannot be
        had here), "gone" (no such process), "config".
        """
    def take(self) -> dict[str, Columns]:
        """Rows since the last time, the ring emptied before.

        "files": file_id, device, inode, path, seen_ns (a row for each name a file is seen with).
        "syncs": start_ns, latency_ns, pid, tid, call, synchronous, file_id, offset, size, error.
        "events": start_ns, latency_ns, pid, tid, call, file_id, offset, size, bytes, error.
        "names": start_ns, latency_ns, pid, call, path, new_path, error (unlink, rename).
        "blocks": issue_ns, latency_ns, device, kind, fua, sector, size, pid.
        """
    def counts(self) -> Columns:
        """Totals now: file_id, call, calls, errors, bytes, latency_sum_ns, latency_max_ns,
        latencies (160 quarter octaves), sizes (32 octaves), places (first, sequential, rewrite,
        forward, backward). At level "sync" of syncs and synchronous writes only."""
    def figures(self) -> dict[str, int]:
        """lost_syncs, lost_events, lost_names, lost_blocks (no room), uncounted (in no row of the
        counts), unplaced (counted, but not by place), unmatched (under way when it began),
        not_understood, attach_ns, thread_cpu_ns, kernel_run_ns and kernel_runs (0 unless
        kernel.bpf_stats_enabled), watched (processes now)."""
    def stop(self, *, wait: bool = True) -> None:
        """End it; what was seen can still be taken, counts and figures as of now. `wait`: until
        everything is detached, 1 to 3 s; else that goes on by itself."""

@final
class SystemSampler:
    """Reads /proc at a fixed interval on a thread of its own. Start and stop once."""

    def __new__(cls, interval_ns: int = 100_000_000, cgroup: str | None = None) -> SystemSampler:
        """`cgroup`: directory of a cgroup (v2, or v1 memory controller) to read as well.

        A group without any known file is listed in `absent`.
        """
    def start(self) -> None:
        """Take the first sample, start the thread.

        CoreError("config") unless interval_ns is 1 ms to 1 h; CoreError("sampler").
        """
    def stop(self) -> SamplerResult:
        """Take a last sample, end the thread, hand over everything; CoreError("sampler")."""

@type_check_only
class TraceProgress(TypedDict):
    """How far an analysis is."""

    read_bytes: int
    """Of the inputs as stored (compressed)."""
    total_bytes: int | None
    """None when an input is a stream."""
    frames: int
    calls: int
    finished: bool
    """Its threads have ended: `finish` returns at once."""

@final
class CallRows:
    """The rows of the calls, in their order: an Arrow stream (`pyarrow.RecordBatchReader.
    from_stream`). It ends early when the analysis fails or is stopped: `Trace.finish` tells."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The stream, once (CoreError("config") afterwards). Waits for the first batch."""

@final
class Trace:
    """An analysis of packet captures that runs on threads of its own.

    `inputs` are read one after the other as one capture: paths, or (name, descriptor) of streams;
    descriptors are duplicated. Options (JSON, unknown keys are errors)::

        lenses: [str] = []              names of analyses; all if empty
        file_classes: [[name, glob]]    classes of files by path, first match wins
        columns: bool = false           rows of calls are wanted (see `batches`)
        window_ns: [from, to] | null    only calls sent in this time from the first frame

    What is wrong with a file is raised here, what is wrong with a stream by `finish`:
    CoreError "missing", "permission", "io", "directory", "empty", "not_a_capture", "link_type",
    "compression", "config".
    """

    def __new__(
        cls, inputs: list[str | Path | tuple[str, int]], options_json: str = "{}"
    ) -> Trace: ...
    def progress(self) -> TraceProgress: ...
    def batches(self) -> CallRows | None:
        """The rows, once. With `columns` they have to be taken, or the analysis waits."""
    def stop(self) -> None:
        """Ask the threads to end soon; `finish` then raises CoreError("interrupted")."""
    def finish(self) -> tuple[str, dict[str, tuple[str, bytes]]]:
        """Wait for the end, once: one JSON object, and long columns.

        The object is the contract of docs/captures.md: `packets`, `bytes`, `first_ns`, `last_ns`,
        `lost`, `anomalies`, `operations`, and a key for each further lens; `analysis_cpu_ns` is
        the CPU time of the threads. Long columns: "lens/name" -> (numpy's element type, bytes).
        """

@final
class Columns:
    """A table: an Arrow stream of one batch (`pyarrow.table(columns)`). Texts are dictionaries."""

    def __len__(self) -> int:
        """Rows."""
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The stream; may be asked for again."""

@type_check_only
class RpcOperation(TypedDict):
    """Figures of one operation since the client began. Round trips: first send to reply."""

    operation: str
    calls: int
    errors: int
    sends: int
    bytes_out: int
    bytes_in: int
    queue_sum_ns: int
    round_trip_sum_ns: int
    p50_ns: int | None
    p90_ns: int | None
    p99_ns: int | None
    p999_ns: int | None
    max_ns: int | None

@final
class Mount:
    """An NFS export mounted on a folder through FUSE, for as long as this object lives.

    `source` is HOST:/EXPORT; `options` are those of nfs(5) and mount(8), see docs/mount.md.
    Raises CoreError: "option", "source", "connect", "directory", "fuse", "busy", "io".
    """

    def __new__(cls, source: str, directory: Path | str, options: str = "") -> Mount: ...
    @property
    def source(self) -> str: ...
    @property
    def directory(self) -> Path: ...
    def effective_options(self) -> list[tuple[str, str]]:
        """Every option in effect, defaults included; "" for one that is a word by itself."""
    def adjustments(self) -> list[str]:
        """What of the options was replaced or rounded, a sentence each."""
    def wait(self, timeout: float | None = None) -> bool:
        """True once it is unmounted, by whomever; False after `timeout` seconds."""
    def unmount(self, how: str = "normal") -> None:
        """Unmount: "normal" (CoreError "busy" while it is used), "lazy" or "force"."""
    def counters(self) -> dict[str, int]:
        """Totals as `RpcRecorder.counters`, and known_objects, open_files, open_directories."""
    def recorder(self) -> RpcRecorder:
        """What its NFS client records of itself."""

@final
class RpcRecorder:
    """Watches the calls of one NFS client; its owner (a mount, a load) hands it out.

    CoreError("closed") once the client has ended, except from `calls` and `lost`.
    """

    def start(
        self, every_call: bool = True, interval_ns: int = 100_000_000, room: int = 262_144
    ) -> None:
        """Begin: a sample every `interval_ns` (0: none), a record of every call if asked.

        At most `room` records wait to be taken; what finds no room is counted in `lost`.
        """
    def stop(self) -> None:
        """End it; what was recorded is still there to be taken."""
    def calls(self) -> Columns:
        """The calls that ended since the last time, one row each, in the order of their ends.

        enqueued_ns, sent_first_ns, sent_last_ns, completed_ns (0: did not happen), xid, program,
        version, procedure, operation, outcome ("answered", "refused", "malformed", "timed out",
        "dropped"), status (null unless answered), sends, replies, call_bytes, reply_bytes,
        connection, queue_at_enqueue, outstanding_at_send; of READ, WRITE and COMMIT file_id (the
        inode that the mount shows; null when the reply has no attributes), offset, count.
        """
    def samples(self) -> dict[str, Columns]:
        """The samples since the last time.

        "rpc": at_ns and every counter of `counters`. "operations": at_ns, operation, calls,
        round_trip_sum_ns. "tcp": at_ns, connection, round_trip_us, round_trip_deviation_us,
        congestion_window, segment_size_bytes, unacknowledged, retransmitted,
        retransmission_timeout_us. All but gauges are totals since the client began.
        """
    def counters(self) -> dict[str, int]:
        """Totals and gauges (queue, outstanding) by name."""
    def operations(self) -> list[RpcOperation]:
        """Operations that were called."""
    def lost(self) -> dict[str, int]:
        """Numbers of "calls" and "samples" that found no room because nobody took them, so far."""

@final
class ShimRecords:
    """Reads what programs record that are launched with the preload shim (LD_PRELOAD).

    They, their children and what those start share one file in `folder`, which should be in memory
    (/dev/shm), writable to the user that they run as, and reachable for it: the file gets the
    folder's owner. 19 MiB are reserved there. stdio within the C library, static and set-user
    programs are not seen.
    """

    def __new__(
        cls, folder: Path | str, level: str = "sync", *, lseek: bool = False
    ) -> ShimRecords:
        """CoreError: "left_out" (built without a C compiler), "config", "space", "permission",
        "io" (there is such a file already, and others)."""
    def environment(self) -> dict[str, str]:
        """Names and values for the launch: LD_PRELOAD and NFSLAB_SHIM_FILE."""
    def take(self) -> dict[str, Columns]:
        """As `SyscallWatch.take`; "blocks" is empty."""
    def counts(self) -> Columns:
        """As `SyscallWatch.counts`."""
    def figures(self) -> dict[str, int]:
        """What happened so far.

        processes (that loaded it, each exec anew; 0: nothing was seen), forks, records, torn (their
        writer was killed meanwhile), lost_syncs, lost_events, lost_calls (other calls), lost_names
        (no room), uncounted (files beyond the table), not_understood, thread_cpu_ns, on_disk (1:
        the folder is not in memory).
        """
    def stop(self) -> None:
        """End it: running programs record no more. What came can still be taken."""

@final
class StraceReader:
    """Reads text of `strace -f -ttt -T -y` (and with less or more of it) or of `perf trace`.

    Levels: "sync" (fsync and its kin, synchronous writes), "counts" (and names, totals per file and
    call), "events" (and every read and write). A call without a duration (no -T) has latency 0 and
    is in no bucket of `latencies`; `figures` says how many there are.
    """

    def __new__(cls, level: str = "events", *, lseek: bool = False) -> StraceReader: ...
    def feed(self, data: bytes) -> None:
        """More of the text, cut anywhere. CoreError("not_a_trace") once that is certain."""
    def end(self) -> None:
        """The text has ended. CoreError("not_a_trace" or "empty") if no line was understood."""
    def take(self) -> dict[str, Columns]:
        """What came since the last time: "files", "syncs", "events", "names", "blocks" (empty).

        files: file_id, device ("0:0"), inode (0), path, seen_ns. syncs: start_ns, latency_ns, pid,
        tid, call, synchronous, file_id, offset, size, error. events: start_ns, latency_ns, pid,
        tid, call, file_id, offset, size, bytes, error. names: start_ns, latency_ns, pid, call,
        path, new_path, error. file_id and offset are null where they could not be told.
        """
    def counts(self) -> Columns:
        """Totals: file_id, call, calls, errors, bytes, latency_sum_ns, latency_max_ns, latencies,
        sizes, places (lists of counts)."""
    def figures(self) -> dict[str, int]:
        """What was read, and what is missing.

        lines, calls, file_calls, not_understood, unfinished, interrupted (made again or never
        ended), without_start, without_time, without_duration, without_place, without_path,
        without_pid, unknown_descriptors (calls left out, may be sockets), unknown_flags (writes
        whose open was not seen: not counted as synchronous), late_paths (perf trace looked them up
        when it printed the line: they may be of a later file), unseen_requests (through io_uring or
        io_submit: what they did is no call), beyond (limits), lost_syncs, lost_events, lost_names,
        uncounted.
        """
    @property
    def clock(self) -> str:
        """What the instants are: "epoch", "time of day", "relative" or "none" (all 0); ns."""
    @property
    def first_not_understood(self) -> str | None:
        """The first line that was not understood, cut short."""

@final
class Server:
    """An embedded NFSv3 server (with MOUNT on the same port) that runs on threads of its own.

    Options (JSON, unknown keys are errors; only `store` is required)::

        store: "directory" | "memory" | "null"
        path: str                       directory: the folder
        key_file: str                   directory: where the key of its handles is kept, in a folder
                                        of such keys alone (left out: handles end with the server)
        memory_bytes: int = 2**30       memory: what it may take
        file_bytes: int = 2**30         null: size of every file
        export: str = "/export"         what clients mount
        read_only: bool = false
        unsafe_async_names: bool = false              directory: names are not synced at their reply
        squash: "none" | "root" | "all" = "none"      whose ids are not believed, exports(5)
        listen: [str] = ["127.0.0.1:0"] addresses; port 0 is any free one
        udp: bool = false               UDP on the same port
        allow: [str] = []               addresses and networks; needed beyond loopback
        workers: int = 0                threads for a store that waits for a device (0: 8)
        client_memory_bytes: int = 0    for requests and replies of all clients together (0: 256 MiB)
        record_room: int = 0            as `begin_records` at the start (0: not recording)
        register: {socket, address} | null      with the portmapper: {} for the usual one
        model: {                        null: nothing is planted and nothing costs anything
          seed: int = 1
          threads: int | null           workers of the model; null: one for every call
          service_ns: int = 0, service_by_operation_ns: {"READ": int, ...} = {}
          spread: "constant" | "exponential" = "constant"
          disk: {disks = 1, positioning_ns = 0, rate_bytes_per_s = 100000000, order: "fifo" | "elevator",
                 read_hit_ratio = 0.0 (or cache_bytes | null),
                 dirty_limit_bytes | null, commit_ns = 0,
                 metadata_bytes = 4096} | null
          nvram_bytes, bandwidth_bytes_per_s: int | null
          delay_ns, jitter_ns: int = 0
          loss, duplicate: float = 0.0  of datagrams
          stalls: [[at_ns, for_ns]] = []        from the server's start
        } | null

    Raises CoreError: "config", "missing", "directory", "permission", "unsupported", "in_use",
    "portmapper", "io". As a context manager it stops at the end.
    """

    def __new__(cls, options_json: str) -> Server: ...
    @property
    def address(self) -> str:
        """Host and port of the first address: 127.0.0.1:2049, [::1]:2049."""
    @property
    def addresses(self) -> list[str]: ...
    @property
    def port(self) -> int: ...
    def model(self) -> dict[str, Any]:
        """What is served and how, as it is in effect: the options and `store_settings`."""
    def registered(self) -> list[tuple[int, int, str, str]]:
        """(program, version, network id, universal address) that the portmapper was told."""
    def counters(self) -> dict[str, int]:
        """calls, replies, connections, duplicates_answered, model_lost, records_lost, ...

        records_lost is of the recording that lasts or was the last.
        """
    def loop_cpu_ns(self) -> int | None:
        """CPU time of the thread that serves the sockets; None after the end."""
    def begin_records(self, room: int) -> None:
        """Record every call from now on; what was left of an earlier recording goes.

        `room`: calls kept until `records` takes them, 1 to 2**24; others are counted as lost.
        Calls that were read before are left out. CoreError "config".
        """
    def end_records(self) -> None:
        """Record no more; calls in work are left out, what was recorded can be taken."""
    def records(self) -> Columns:
        """The calls since the last time, one row each, in the order of their replies.

        received_ns (its last byte was read), started_ns and finished_ns (the procedure, or the
        model's worker with it), sent_ns (the kernel was about to be given the reply's last byte),
        xid, client, program, procedure, call_bytes, reply_bytes (without record marks), operation,
        outcome ("answered" or the name of RPC's refusal), status (null if refused).
        CLOCK_MONOTONIC.
        """
    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for its end (a `stop` elsewhere, or a defect); False when the time is over first."""
    def stop(self) -> None:
        """Stop it: calls in work end, the portmapper forgets it. Harmless when it has ended."""
    def __enter__(self) -> Server: ...
    def __exit__(self, _kind: object, _value: object, _traceback: object, /) -> None: ...

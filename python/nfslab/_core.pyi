"""Typed contract of the Rust core (crates/python). Every function releases the GIL while it works.

Times are integer nanoseconds of CLOCK_MONOTONIC, the clock of `time.monotonic_ns()`.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, Literal, NotRequired, TypeAlias, TypedDict, final, type_check_only

from typing_extensions import Buffer

__all__ = [
    "FILES_SCHEMA",
    "LOAD_SCHEMA",
    "WEB_SCHEMA",
    "CallRows",
    "Columns",
    "CoreError",
    "Histogram",
    "KernelCalls",
    "KernelFiles",
    "Load",
    "Mount",
    "RpcRecorder",
    "Server",
    "ShimRecords",
    "SyscallWatch",
    "SystemSampler",
    "Trace",
    "WaitSampler",
    "WaitWatch",
    "WebServer",
    "build_info",
    "capture_order",
    "check_mount_options",
    "check_service_model",
    "check_web_files",
    "check_web_posts",
    "classify_paths",
    "join_parts",
    "merge_web_parts",
    "part_findings",
    "program_image",
    "read_part",
    "run_files",
    "run_web_load",
    "run_web_part",
    "shim_path",
    "syscalls_grants",
    "tcp_connections",
    "toml_lines",
    "unmount",
    "web_directories",
    "web_tables",
    "write_web_files",
]

class CoreError(Exception):
    """Any error of the core. `str()` is "what: why"."""

    kind: str
    """Stable word for programs: "toml", "histogram", "config", "space", "read_only", "permission",
    "io", "unsupported", "limit", "sampler", "internal"; of captures: "missing", "directory",
    "empty", "not_a_capture", "link_type", "compression", "window", "interrupted"; of the NFS client and
    server: "closed", "in_use"; of the load: "file_set", "silent", "cancelled"; of
    watching system calls: "left_out", "permission", "btf", "lockdown", "bpf", "tracefs", "gone"; of the
    web load: "open_files", "parts"."""
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

@final
class KernelCalls:
    """Watches all NFS clients, or servers, of this kernel by sunrpc's tracepoints.

    CoreError("permission", "tracefs", ...) where they may not be opened, or are not there. It ends
    with its object. What was not taken in time is counted in `lost`.
    """

    def __new__(
        cls, *, client: bool = False, files: bool = False, server: bool = False
    ) -> KernelCalls: ...
    def take(self) -> tuple[int, Columns, Columns]:
        """Until when all that ended is in it (monotonic ns); calls of clients, of servers.

        Of clients: columns as `RpcRecorder.calls`, without those that the kernel does not tell;
        replied_ns (null: no reply), and client, the kernel's number. With `files` READs, WRITEs
        and COMMITs have file_id, offset, count and status (null: not 0). Of servers: as
        `Server.records`, with version; bytes are without the record mark.
        """
    def stop(self) -> tuple[int, Columns, Columns]:
        """The same, for the last time."""
    def lost(self) -> int:
        """Records that found no room, so far: a call has one, a server's request six."""

@final
class KernelFiles:
    """Which files the kernel's NFS clients read, write and commit, by the tracepoints of nfs.

    CoreError as `KernelCalls`. It ends with its object.
    """

    def __new__(cls) -> KernelFiles: ...
    def take(self) -> list[tuple[str, int, list[int]]]:
        """Since the last time: device ("0:58"), the file's number, and its calls: READs, WRITEs,
        COMMITs, bytes read, bytes written. What came too fast for the rings is not in it."""

def tcp_connections(address: str, port: int) -> Columns:
    """TCP of the established connections to a peer, whoever holds their sockets (sock_diag): those
    of this process's network namespace.

    local_port, and of "tcp" of `RpcRecorder.samples` all but at_ns and connection. CoreError:
    "sock_diag" (the kernel does not tell), "config" (no IP address).
    """

def program_image(pid: int) -> tuple[int, int]:
    """Where a process has its program in memory, with its static objects: begin and end, equal
    where it is not there. OSError."""

LOAD_SCHEMA: Final[int]
"""Version of the plan and of the report of `Load`."""

@final
class Load:
    """The NFS load generator with one plan: check it, make its file set, measure points.

    crates/load/src has the plan's (plan.rs) and the report's fields (report.rs). `progress` of `prepare` and `run` gets a
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

WEB_SCHEMA: Final[int]
"""Version of configurations and reports of the web workload."""

@type_check_only
class WebTables(TypedDict):
    """What the web workload is made of, as it is drawn and served.

    Shares are exact and sum to 1. Sources, and what was not seen in SPECweb99's own text:
    crates/web/src/fileset/mod.rs.
    """

    class_shares: list[float]
    """Of requests, by class 0 to 3."""
    file_shares: list[float]
    """Of the nine files within each class (as given they sum to 0.999: divided by that)."""
    sizes_bytes: list[list[int]]
    """[class][file - 1]."""
    directory_shares: list[float]
    """Zipf with exponent 1: directory 0 is the most popular."""
    kind_shares: dict[str, float]
    """Default mix: "static_get", "dynamic_get", "cgi_get", "ad_get", "post"."""
    files: int
    bytes: int
    folder: str
    """Name of the file set's folder in the document root."""
    marker: str
    """Name of the definition beside it: there once the set is complete."""

def web_tables(directories: int) -> WebTables:
    """Shares and sizes of a file set of 1 to 65,536 directories; else CoreError("config")."""

def web_directories(connections: int) -> int:
    """Directories for a load: 25 + (400000 / 122000 x connections) / 5, rounded down."""

def write_web_files(config_json: str, progress: Callable[[str], object] | None = None) -> str:
    """Make the documents of the web workload in a folder, or what is missing of them; JSON.

    Configuration (unknown keys are errors)::

        root: str                 document root, must exist; file_set/ and file_set.json come into it
        file_set: {seed: int = 1, directories: int}      36 files, 5.1 MB a directory
        threads: int = 4          that write, 1 to 64
        sample_files: int = 100   for `check_web_files` only

    A set of the same seed with as many directories or more is found by its marker and left alone;
    one that was broken off goes on; one with fewer directories is extended. `progress` gets JSON
    {"stage": "files", directories, done, written_bytes} some times a second; False or an exception
    stops the work. Result: {files, bytes, directories_found, directories_made, written_bytes}.
    CoreError: "config", "missing", "space" (told before anything is written), "permission",
    "read_only", "io", "file_set" (another seed is there), "cancelled".
    """

def check_web_files(config_json: str, progress: Callable[[str], object] | None = None) -> str:
    """Look at the sizes of all files and at the bytes of some, drawn with repetition; JSON.

    Configuration as `write_web_files`. Result: {files, bytes (both as they ought to be),
    complete: bool (the marker says so), missing, wrong_size: int (files),
    sampled: {files, bytes, wrong_bytes (files)}, wrong: [str] (at most 20, with paths)}.
    Nothing is wrong if complete, and the three counts are 0.
    """

def check_web_posts(log: Path | str, posts_json: str) -> str:
    """Compare a server's log of POSTs with what generators acknowledge: none lost, none twice.

    `posts_json`: the lists "posts" of all reports of `run_web_load` on that log, put together; each
    writer once (so each process, and each load on one log, needs a "process" of its own). Result,
    JSON: {lines, malformed, foreign (of other writers), acknowledged, lost (acknowledged, not in the
    log), twice (lines beyond an id's first), unacknowledged (in the log, never acknowledged: no
    fault)}. Right: lost, twice and malformed are 0. A line is `NUMBER ID BYTES`. CoreError: "missing",
    "io", "config".
    """

def run_web_load(
    config_json: str,
    begin: Callable[[], int | None] | None = None,
    progress: Callable[[str], object] | None = None,
) -> str:
    """Put a load on a web server that has the file set, and return the report; both are JSON.

    Configuration (unknown keys are errors; the first four are required)::

        address: str              "IP:port"; HTTP/1.1 without TLS
        file_set: {seed: int = 1, directories: int}      as it was written
        measure_s: float          the timed part
        load: one of
          {mode: "line_speed", connections: int, line_bits_per_s: int = 400000,
           conforming_bits_per_s: int = 320000, receive_buffer_bytes: int = 16384}
              each connection has one request under way always, and is read no faster than its line
          {mode: "open", rate_per_s: float, arrivals: "poisson" | "uniform" = "poisson",
           connections: int (at most), backlog: int = 10000}
              planned ahead; latency counts from the planned instant; beyond the backlog: skipped
          {mode: "closed", connections: int}
        mix: {static_get: 0.7, dynamic_get: 0.1245, cgi_get: 0.0015, ad_get: 0.126, post: 0.048}
                                  sums to 1; a kind that is left out of a given mix has 0
        close_share: float = 0.3  of requests with "Connection: close"
        verify_share: float = 0.03  of replies whose bytes are compared (POSTs': always); status and
                                  length: always
        post_bytes: int = 200     a POST's body, 60 to 65536
        warm_up_s: float = 0      before the timed part, load on; first requests are spread over half
                                  of it (at most 0.2 ms each)
        drain_s: float = 2        replies are waited for that long after the timed part
        timeout_s: float = 30     after which a request is lost; on a line its bytes' time comes on top
        threads: int = 1          1 to 64, connections and rate are divided among them
        process: int = 0          number of this process, for ids of POSTs: writer = process * 256 +
                                  thread
        part: {index: int = 0, of: int = 1}   which of several processes that make the load together:
                                  connections, rate and backlog are those of all of them
        seed: int = 1
        series_interval_s: float = 0.1

    `begin` is asked when the threads stand ready: `time.monotonic_ns()` of the load's start (the
    warm-up's); it is an error if that is past. Without it, or None: in 20 ms. `progress` gets JSON {"stage":
    "load", phase: "warm_up" | "measure" | "drain", elapsed_ns, total_ns, done, failed} ten times a
    second; False stops the load (its report says so), an exception too, and is raised.

    The limit of open files is raised for the process if it has to be; CoreError("open_files") says
    what was needed if it cannot be. CoreError: also "config", "internal". What the server does is
    never an exception.

    Report (instants are CLOCK_MONOTONIC; counts are of the timed part where nothing else is said; a
    request belongs to it if it ended in it, what was drawn by its planned instant)::

        schema: int, kind: "web", build: {..}, config: {as carried out}
        valid: bool, reasons: [{kind: "stopped" | "nothing_done" | "generator_overloaded" |
                                "generator_cpu" | "accounting", text}]   errors are no reason here: judge their share
        flags: ["debug_build"] or []
        ended: "complete" | "stopped"
        start_monotonic_ns, start_realtime_ns, window_start_ns, window_end_ns, end_ns: int
        began_ns: int                         when the last thread was there to begin
        requests: {
          offered_per_s: float | null         open only, and so are the next two
          planned, skipped: int
          drawn: int                          begun, or waiting for a connection
          done, failed: int                   failed_outside: before the timed part; what fails behind
                                              it was begun by then, and counts
          left, oldest_left_ns: int           under way or waiting at the timed part's end
          unfinished: int                     still so after drain_s
          received_bytes: int                 heads and bodies, failed replies included
          verified_replies, verified_bytes: int
        }
        all: FIGURES
        kinds: [{kind, share, drawn, failed, errors: {FAULT: int}} + FIGURES]   the order of the mix
        classes: [{class, drawn_files: [9 int], done_files: [9 int]} + FIGURES]   0 to 3, POSTs in none
        errors: {FAULT: int}                  of all kinds; those of 0 are left out
        statuses: {"404": int}                codes of "bad_status"
        directories: {drawn: [int], done: [int]}   a number for each; POSTs in none
        touched: {files, bytes, set_files, set_bytes}   read whole, warm-up and drain included
        connections: {asked, connects, idle_closed (by the server, while idle), close_ignored (asked
          for, not done within 1 s): whole load, conforming: int | null, rates_bits_per_s: [int]
          (of each connection over the timed part, heads included; line_speed only)}
        late: HISTOGRAM                       open: planned to taken; line_speed: line free to read
        outstanding_mean: float, little: {..}  as of `Load.run`, whatever the mode
        posts: [{writer, drawn, unacknowledged: [int]}]   whole load, a row for each thread: its
                                              POSTs have the numbers 0 to drawn - 1
        threads: [{process, window_ns, cpu_ns, user_ns, system_ns, spin_ns (0), waited_ns | null,
                   cpu_share, voluntary_switches, involuntary_switches}]
        open_files: {needed, soft_before, soft, hard}   null: without limit
        series: {start_ns, interval_ns, done: [int], done_bytes: [int] (bodies),
                 received_interval_ns, received_bytes: [int]}   from the load's start on
        processes: [{process, connections, done, failed, mean_ns | null, reasons}]   of
                                              `merge_web_parts` only
        FIGURES = {done, bytes (bodies), last_byte, first_byte: HISTOGRAM}   from the planned instant
        HISTOGRAM as in `run_files`
        FAULT = "connect_refused" | "connect_failed" | "reset" | "closed_early" | "timeout" |
                "bad_status" | "wrong_length" | "wrong_bytes" | "head_too_long" | "malformed" |
                "too_many_open_files" | "system"

    On a line, bytes that were read arrive when the line has carried them: a reply's last byte, and so
    the next request, come then. Redirects are "bad_status"; nothing is sent again. Requests:
    crates/web/src/page.rs.
    """

def run_web_part(
    config_json: str,
    begin: Callable[[], int | None],
    progress: Callable[[str], object] | None = None,
) -> tuple[str, str]:
    """As `run_web_load`, of one process of those that make a load (`part`): the report of its part,
    and what it measured for `merge_web_parts`, whole histograms and a bit for each file among it."""

def merge_web_parts(parts: Sequence[tuple[str, int]]) -> str:
    """The report of the load that several processes made, as exact as that of one.

    `parts`: of each of them in the order of their `part.index` what `run_web_part` gave, and by how
    many nanoseconds its clock is ahead of the one that the report's instants are of. A process that
    was itself the limit is a reason of the whole: "generator process I of N: ...". CoreError: "parts"
    (one cannot be read, is missing, or is of another load), "config", "internal".
    """

@type_check_only
class WebCounts(TypedDict):
    """What a `WebServer` counted. Requests by kind: those that were answered with 200."""

    connections: int
    static_get: int
    """HEAD included."""
    dynamic_get: int
    cgi_get: int
    ad_get: int
    post: int
    posts_written: int
    """Lines of the log, those included whose answer could not be sent."""
    body_bytes: int
    bad_request: int
    not_found: int
    method_not_allowed: int
    io_errors: int
    access_log_errors: int

@final
class WebServer:
    """A web server for the workload: files beneath a root, dynamic pages, a log of POSTs. It has
    threads of its own, and serves until it is stopped or dropped.

    Configuration (unknown keys are errors; the first two are required)::

        listen: str               "IP:port", port 0: any free one
        allow: [str] = []         IPs that may connect, the others' connections are closed; none: anybody
        users: [int] = []         of this machine, whose sockets may connect, likewise; none: anybody's
        root: str                 document root; files by path, GET and HEAD; neither `..` nor a
                                  symbolic link leads out of it (404); percent signs stand for themselves
        post_log: str | null = null       where POSTs are recorded, appended to; without it: 404
        sync_posts: bool = false  answer a POST only after fdatasync of its line (shared by those that
                                  wait at the same time)
        access_log: str | null = null     combined format, appended to, buffered, written out at the end
        workers: int = 2          threads for connections, 1 to 512
        readers: int = 64         most threads that read files, 1 to 512
        bandwidth_bytes_per_s: int | null = null   of all that is sent, heads included

    Behind another web server it makes the dynamic part alone: /dynamic/standard, /dynamic/cgi,
    /dynamic/ad (GET) and /post (POST), with the same root; HTTP/1.0 and 1.1. CoreError: "config",
    "missing", "in_use", "permission", "io", "internal".
    """

    def __new__(cls, config_json: str) -> WebServer:
        """Start to serve; it listens when this returns."""
    @property
    def address(self) -> str:
        """Host and port."""
    @property
    def port(self) -> int: ...
    def counters(self) -> WebCounts:
        """What it counted so far; after the end, all."""
    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for the end (None: without limit); False when the time is over first."""
    def stop(self) -> WebCounts:
        """Stop it: replies under way may be cut off, logs are written out and synced. Harmless when
        it has ended."""
    def __enter__(self) -> WebServer: ...
    def __exit__(self, _kind: object, _value: object, _traceback: object, /) -> None: ...

FILES_SCHEMA: Final[int]
"""Version of the configuration and of the result of `run_files`."""

def run_files(
    config_json: str,
    progress: Callable[[str], None] | None = None,
    meet: Callable[[str, str], int] | None = None,
) -> str:
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
                                  "block_read", "seeks", "random_read", "random_write",
                                  "log_write" (only where it is named)
        final_sync: bool = true   fsync before a writing phase ends, inside its time
        sync_every: int = 1       random_write, log_write: sync after each N writes; 0 = never
        sync_kind: str = "fdatasync"      or "fsync", "dsync" (O_DSYNC; needs sync_every 1)
        seeks: int = 4000         operations of `seeks`, all threads together
        seek_rewrite_share: float = 0.1
        seek_threads: int = threads       Bonnie had 3
        random_operations: int = seeks    of random_read, random_write, log_write
        seed: int = 1
        time_limit_ns: int | null = null  per phase
        drop_cache: bool = true   fsync and POSIX_FADV_DONTNEED before each phase that reads
        check_every: int = 64     content of one in N blocks read is checked; 0 = none
        keep: bool = false        leave the files
        series_interval_ns: int = 100000000
        part: {index, of, folder} | null = null   of a run that several processes make: sizes,
                                  files and numbers of operations are the whole's, threads those of
                                  each; `folder` is made by the first where they share files

    A part of a run calls `meet(gate, phase)` wherever its processes wait for each other ("ended",
    "made", "filled", "start"); it gives the CLOCK_MONOTONIC at which all go on. CoreError
    ("not_shared"): the folder is not there.

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
          began_monotonic_ns: int when the last thread really began
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
class WaitWatch:
    """Where the time of a program's processes goes, by programs in the kernel (eBPF): on a
    processor, waiting for one, or blocked, by the number that the program keeps for what it waits
    for. Every pause is counted, nothing is sampled; no tracepoint of a system call is used."""

    def __new__(cls, root: int, symbol: str | None = None) -> WaitWatch:
        """A process and its descendants; `symbol`: the exported name of a pointer to that number,
        "my_wait_event_info" of PostgreSQL 14 and newer. None: all threads, by the call that each is
        in (x86-64, Linux 6.9): the state is its number (511: none) << 22, with the descriptor of
        calls on one; of a futex bits 0 to 8 are its operation, 9: with a time limit, 10: in the
        thread's own memory, 11: a static object, 12 and 13: the value expected there, 3 at most.
        CoreError as `SyscallWatch`."""
    def totals(self) -> Columns:
        """Since it began: tid, kind ("running", "queued", "blocked", "unread": blocked, and the
        number could not be read), state (the number where blocked), ns, times."""
    def figures(self) -> dict[str, int]:
        """kernel_run_ns and kernel_runs (0 unless kernel.bpf_stats_enabled), uncounted (pauses in
        no total: more threads and numbers than there is room for)."""
    def stop(self) -> None:
        """End it; totals stay as they are."""

@final
class WaitSampler:
    """Looks many times a second at what the children of a process say that they wait for,
    in the memory that they share with it, from a thread of its own. One look an interval, at an
    instant drawn evenly from it; the interval grows so that the thread takes 0.7 % of a processor at
    most. Needs the right to read that memory (ptrace(2), PTRACE_MODE_ATTACH)."""

    def __new__(
        cls,
        root: int,
        symbol: str,
        *,
        interval_ns: int = 4_000_000,
        stretch_ns: int = 100_000_000,
        seed: int = 0,
    ) -> WaitSampler:
        """`symbol`: the exported name of each child's pointer to its number, "my_wait_event_info" of
        PostgreSQL 14 and newer. `stretch_ns`: counts are kept for stretches of time of this length.

        CoreError, `kind`: "permission", "gone" (no such process), "absent" (no such name, or no
        shared memory), "config", "thread".
        """
    def begin(self) -> None:
        """The timed part begins now: with a stretch of its own; figures count from here."""
    def live(self) -> dict[int, int]:
        """Place -> number of the processes that are looked at now. A place is of one process, also
        where its number is used again."""
    def stop(self) -> dict[str, Any]:
        """End it. Once; CoreError.

        "stretches": Columns from_ns, until_ns, looks. "rows": Columns stretch, process (places),
        state (the number), seen (in how many looks; what could not be confirmed is left out).
        "pids": number of each process by its place. "scheduled": "real-time", "short slices",
        "usual". "figures", since the timed part began: looks, missed (intervals without one), failed,
        late (by more than 0.1 ms), lateness_ns (all together), lateness_max_ns, confirmed and dropped
        (times a process was seen), left_out (processes), cpu_ns, wall_ns, interval_ns (at the end).
        """

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

# What `Trace.finish` hands over as JSON, made by crates/trace.
# tests/captures/test_content.py holds captures of every kind against it, unknown and missing
# fields included. Times are nanoseconds. "NotRequired": only in some rows, as said there, or not
# in runs that were stored before the field was made.

@type_check_only
class Amount(TypedDict):
    """How many, and how long together."""

    count: int
    time_ns: int

_Quantiles: TypeAlias = dict[str, float | None]
"""min, mean, p50, p90, p99, p999, max; some also count. None: there is none, or not known."""
_Parts: TypeAlias = list[tuple[int, int, int]]
"""A histogram's: from, below, how many."""

@type_check_only
class OperationRow(TypedDict):
    """An operation of a protocol's version; None: of all others."""

    program: int | None
    program_name: str | None
    version: int | None
    operation: str
    calls: int
    answered: int
    unanswered: int
    retransmissions: int
    duplicate_replies: int
    errors: dict[str, int]
    bytes_read: int
    bytes_written: int
    latency_ns: _Quantiles
    latencies: int
    negative_latencies: int
    quantile_relative_error: float
    histogram: _Parts
    rpc_refused: int
    unreadable: int
    not_executed: NotRequired[int]
    """Inside a COMPOUND."""
    minor_versions: NotRequired[dict[str, int]]
    """COMPOUND only, as the next."""
    without_operations: NotRequired[int]

@type_check_only
class CountedRow(TypedDict):
    """Calls of a client, server, user, file or class of files."""

    calls: int
    calls_by_kind: dict[str, int]
    answered: int
    unanswered: int
    retransmissions: int
    duplicate_replies: int
    errors: int
    errors_by_status: NotRequired[dict[str, int]]
    """Not of runs stored before it was counted."""
    bytes_read: int
    bytes_written: int
    first_ns: int | None
    last_ns: int | None
    latencies: int
    negative_latencies: int
    total_latency_ns: int | None
    latency_ns: _Quantiles
    histogram: NotRequired[_Parts | None]
    """Where latencies are kept, as the next; None: not all of them."""
    latency_ns_by_kind: NotRequired[dict[str, _Quantiles]]

@type_check_only
class HostRow(CountedRow):
    """A client, a server, both, or a connection by its ends; all others together are `other`."""

    connections: int
    client: NotRequired[str | None]
    server: NotRequired[str | None]
    transport: NotRequired[str | None]
    """Of a connection."""
    other: NotRequired[bool]

@type_check_only
class UserRow(CountedRow):
    """A user's number (AUTH_SYS)."""

    user: int | None
    other: NotRequired[bool]

@type_check_only
class ClientsContent(TypedDict):
    """Lens `clients`."""

    clients: list[HostRow]
    servers: list[HostRow]
    pairs: list[HostRow]
    by_connection: NotRequired[list[HostRow]]
    """Not of runs stored before."""
    users: list[UserRow]
    connections_complete: bool
    quantile_relative_error: float

_OfClass = TypedDict("_OfClass", {"class": str})

@type_check_only
class ClassRow(CountedRow, _OfClass):
    """A class of files."""

    files: int

@type_check_only
class FileRow(CountedRow, _OfClass):
    """A file; None: not seen."""

    file: int
    path: str | None
    file_handle: str | None
    server: str | None
    file_type: int | None
    removed: bool | None

@type_check_only
class RestRow(CountedRow):
    """The files that are not listed."""

    files: int

@type_check_only
class FilesContent(TypedDict):
    """Lens `files`; `by_...`: indexes into `list`."""

    files: int
    by_calls: list[int]
    by_bytes: list[int]
    by_time: list[int]
    list: list[FileRow]
    rest: RestRow
    without_file: CountedRow
    classes: list[ClassRow]
    quantile_relative_error: float

@type_check_only
class PanelRow(TypedDict):
    """Calls of one group; lists of single calls where not all are kept."""

    name: str
    calls: int
    answered: int
    unanswered: int
    sent_again: int
    errors: int
    below: int
    above: int
    negative: int
    latency_ns: dict[str, int] | None
    """min, max."""
    slowest_from_code: NotRequired[int]
    """`kept` "density" only, as the next."""
    slowest: NotRequired[int]
    marked: NotRequired[int]
    marked_one_in: NotRequired[int]
    sample: NotRequired[int]

@type_check_only
class LatencyCodes(TypedDict):
    """`steps` equal steps of the logarithm, and codes beyond them."""

    low_ns: int
    high_ns: int
    steps: int
    below: int
    above: int
    unanswered: int

@type_check_only
class Density(TypedDict):
    """Cells of time and latency."""

    columns: int
    rows: int
    codes_per_row: int
    column_ns: int
    first_column_ns: int
    sample_one_in: int

@type_check_only
class PointsContent(TypedDict):
    """Lens `points`."""

    kept: Literal["all", "density"]
    calls: int
    origin_ns: int
    step_ns: int
    codes: LatencyCodes
    frames: bool
    far_times: int
    operations: list[str]
    panels: list[PanelRow]
    density: NotRequired[Density]
    """`kept` "density" only."""

@type_check_only
class BinColumn(TypedDict):
    """A long column of `rpcstat`."""

    name: str
    dtype: str
    unit: str

@type_check_only
class TcpTotals(TypedDict):
    """What one side sent."""

    segments: int
    retransmitted_segments: int
    retransmitted_bytes: int
    timeouts: int
    out_of_order: int
    zero_windows: int
    in_flight_max_bytes: int | None
    window_min_bytes: int | None

@type_check_only
class TcpSides(TypedDict):
    """By who sent."""

    client: TcpTotals
    server: TcpTotals

@type_check_only
class RpcTotals(TypedDict):
    """Over all bins."""

    calls: int
    answered: int
    unanswered: int
    callbacks: int
    retransmissions: int
    duplicate_replies: int
    sent_bytes: int
    answered_bytes: int
    read_bytes: int
    written_bytes: int
    lost_bytes: int
    answered_by_kind: dict[str, int]
    tcp: TcpSides

@type_check_only
class Queue(TypedDict):
    """Calls outstanding."""

    mean: float
    max: int
    slots_max: int
    late_calls: int
    not_counted: int

@type_check_only
class Little(TypedDict):
    """Both sides of Little's law; float: beyond 64 bits."""

    queue_integral_ns: float
    answered_latency_ns: float
    unanswered_wait_ns: float
    unanswered_in_queue: int
    negative_latencies: int
    agrees: bool

@type_check_only
class RpcstatContent(TypedDict):
    """Lens `rpcstat`."""

    origin_ns: int
    bin_ns: int
    bins: int
    columns: list[BinColumn]
    totals: RpcTotals
    queue: Queue
    little: Little
    timeout_ns: int

@type_check_only
class GapRow(TypedDict):
    """A stall, pause or loss."""

    kind: str
    cause: NotRequired[str]
    """Not of runs stored before it was told."""
    scope: str
    server: str
    client: str | None
    begin_ns: int
    end_ns: int
    length_ns: int
    not_longer_than_ns: int
    open: bool
    outstanding_at_begin: int
    outstanding_peak: int
    calls_sent: int
    retransmissions: int
    tcp_retransmissions: int
    zero_windows: int
    lost_bytes: int
    frame_before: int
    frame_after: int
    """0: the capture ended it."""
    evidence: str

@type_check_only
class Cycle(TypedDict):
    """Stop and go with a period."""

    found_by: str
    period_ns: int
    intervals: int
    intervals_near: int
    slow_mean_ns: int
    chance: float

@type_check_only
class TrackedRow(TypedDict):
    """How a server, one client of it, or one connection of several, was waited for."""

    server: str
    client: str | None
    clients: NotRequired[int]
    """Of a server."""
    replies: int
    wait_threshold_ns: int
    pause_threshold_ns: int
    usual_wait_ns: _Quantiles
    usual_pause_ns: _Quantiles
    gaps: dict[str, Amount]
    drain_cycle: Cycle | None
    pause_cycle: NotRequired[Cycle | None]
    """Not of runs stored before it was looked for."""

@type_check_only
class UnansweredRow(TypedDict):
    """A call that the capture's end found waiting."""

    kind: str
    client: str
    server: str
    xid: int
    sent_ns: int
    waited_ns: int
    sends: int
    frame: int

@type_check_only
class Unanswered(TypedDict):
    """All of them, and the longest."""

    calls: int
    one_way: NotRequired[int]
    """On TCP connections of which nothing came from the server."""
    longest: list[UnansweredRow]

@type_check_only
class StallRule(TypedDict):
    """What counts as a stall."""

    floor_ns: int
    factor: int
    usual_quantile: float
    settle_ns: int
    kept_of_each_kind: int

@type_check_only
class NearEnd(TypedDict):
    """Where the capture was taken, as far as segments show."""

    at_client: bool
    at_server: bool

@type_check_only
class Stretch(TypedDict):
    """The slowest stretch."""

    begin_ns: int
    end_ns: int
    calls: int
    latency_mean_ns: int
    latency_share: float
    time_share: float
    all_latency_mean_ns: int

@type_check_only
class Look(TypedDict):
    """From the capture's begin."""

    what: str
    from_ns: int
    to_ns: int

@type_check_only
class StallsContent(TypedDict):
    """Lens `stalls`."""

    rule: StallRule
    totals: dict[str, Amount]
    causes: NotRequired[dict[str, Amount]]
    """Not of runs stored before the packets' causes were told, as all NotRequired here."""
    capture_point: NotRequired[NearEnd]
    servers: list[TrackedRow]
    clients: list[TrackedRow]
    connections: NotRequired[list[TrackedRow]]
    gaps: list[GapRow]
    throughput_cycle: Cycle | None
    throughput_bin_ns: int
    slowest_stretch: Stretch | None
    closer_look: list[Look]
    messages_not_followed: int
    unanswered: NotRequired[Unanswered]
    evidence: NotRequired[dict[str, int]]

@type_check_only
class SizeRow(TypedDict):
    """A frequent size."""

    bytes: int
    calls: int

@type_check_only
class SizesFrom(TypedDict):
    """Sizes from here to twice it."""

    from_bytes: int
    calls: int

@type_check_only
class Sizes(TypedDict):
    """Sizes asked for."""

    mean_bytes: float | None
    common: list[SizeRow]
    by_power_of_two: list[SizesFrom]
    not_told_apart: int

@type_check_only
class Ordered(TypedDict):
    """Files, or calls, by their order in the file."""

    files: int
    calls: int
    bytes: int

@type_check_only
class Direction(TypedDict):
    """READs, or WRITEs."""

    calls: int
    bytes: int
    classes: dict[str, int]
    files_by_pattern: dict[str, Ordered]
    sizes: Sizes

@type_check_only
class FileDirection(TypedDict):
    """READs, or WRITEs, of one file."""

    calls: int
    bytes: int
    pattern: str
    classes: dict[str, int]

@type_check_only
class AccessedFile(TypedDict):
    """How one file was accessed."""

    file: int
    path: str | None
    calls: int
    getattr_calls: int
    getattr_asked_again: int
    commits: int | None
    reads: FileDirection | None
    writes: FileDirection | None

@type_check_only
class Rewritten(TypedDict):
    """WRITEs of bytes that were not committed yet."""

    calls: int
    bytes: int
    calls_not_followed: int

@type_check_only
class Stability(TypedDict):
    """What WRITEs asked for."""

    unstable: int
    data_sync: int
    file_sync: int
    not_known: int
    unstable_made_stable: int
    rewritten_before_commit: Rewritten

@type_check_only
class Commits(TypedDict):
    """COMMITs."""

    calls: int
    whole_file: int
    of_a_part: int
    nothing_written_before: int
    bytes: _Quantiles | None
    writes: _Quantiles | None
    last_write_to_commit_ns: _Quantiles | None
    files_left_uncommitted: int
    bytes_left_uncommitted: int

@type_check_only
class Attributes(TypedDict):
    """Attributes, access and names that were asked for."""

    getattr_calls: int
    access_calls: int
    lookup_calls: int
    read_and_write_calls: int
    getattr_per_read_or_write: float | None
    access_per_read_or_write: float | None
    lookup_per_read_or_write: float | None
    getattr_asked_again: int
    getattr_asked_again_unopened: NotRequired[int]
    """Not of runs stored before it was counted."""
    asked_again_within_ns: int
    revalidated_before_read_or_write: int

@type_check_only
class ObservationRow(TypedDict):
    """Something odd about the load."""

    name: str
    count: int
    of: int
    share: float
    said_from_share: float
    said_from_calls: int
    text: str

@type_check_only
class AccessContent(TypedDict):
    """Lens `access`."""

    calls: int
    failed: int
    reads: Direction
    writes: Direction
    stability: Stability
    commits: Commits
    commit_sizes: Sizes
    attributes: Attributes
    opens: dict[str, int]
    observations: list[ObservationRow]
    files: list[AccessedFile]
    data_files: int
    calls_not_followed: int
    calls_without_file: int
    rule: dict[str, float]

@type_check_only
class RoundTrip(TypedDict):
    """Measured, or a bound."""

    ns: NotRequired[int]
    at_most_ns: NotRequired[int]

@type_check_only
class Paths(TypedDict):
    """Round trips from where the capture was taken."""

    to_server_round_trip: RoundTrip | None
    to_client_round_trip: RoundTrip | None

@type_check_only
class CapturePoint(Paths):
    """Where the capture was taken."""

    place: str
    handshake_ns: int | None

@type_check_only
class Flow(TypedDict):
    """TCP in one direction."""

    segments: int
    bytes: int
    retransmitted_segments: int
    retransmitted_bytes: int
    retransmission_rate: float
    out_of_order: int
    zero_windows: int
    lost_bytes: int

@type_check_only
class ConnectionRow(Paths):
    """A connection."""

    client: str | None
    server: str | None
    from_client: Flow
    from_server: Flow

@type_check_only
class SplitRow(TypedDict):
    """Where the time of an operation's calls passed."""

    operation: str
    calls: int
    whole_ns: _Quantiles
    server_negative: int
    request_ns: _Quantiles
    network_ns: _Quantiles
    server_ns: _Quantiles
    reply_ns: _Quantiles
    request_share: float
    network_share: float
    server_share: float
    reply_share: float

@type_check_only
class Queueing(TypedDict):
    """How much longer lone acknowledgements took than the shortest."""

    samples: int
    mean_ns: float | None

@type_check_only
class NetworkContent(TypedDict):
    """Lens `network`."""

    operations: list[SplitRow]
    quantile_error: float
    not_split: dict[str, int]
    note: str | None
    capture_point: CapturePoint
    queueing: NotRequired[Queueing]
    """Not of runs stored before it was measured."""
    from_client: Flow
    from_server: Flow
    rpc: dict[str, float]
    connections: int
    connections_not_kept: int
    top_retransmitting: list[ConnectionRow]

@type_check_only
class BlockRow(TypedDict):
    """An operation; lists have an entry for each block."""

    program: int
    program_name: str | None
    version: int
    operation: str
    calls: list[int]
    answered: list[int]
    negative: int
    mean_ns: list[int | None]
    p50_ns: list[int | None]
    p99_ns: list[int | None]

@type_check_only
class Blocks(TypedDict):
    """Equal blocks of time; the last is cut short."""

    width_ns: int
    count: int
    whole: int
    operations: list[BlockRow]

@type_check_only
class BlocksContent(TypedDict):
    """Lens `blocks`."""

    origin_ns: int | None
    slices: Blocks
    blocks: Blocks
    early_calls: int
    callbacks_left_out: int
    relative_error: float

@type_check_only
class Lost(TypedDict):
    """What the capture lacks."""

    bytes: int
    gaps: int

@type_check_only
class AnomalyRow(TypedDict):
    """An oddity that was counted."""

    kind: str
    count: int

@type_check_only
class PortRow(TypedDict):
    """Packets of a port that carry no RPC."""

    transport: str
    port: int
    packets: int

@type_check_only
class TraceContent(TypedDict):
    """What was found in captures; times are None where there was no frame."""

    packets: int
    bytes: int
    first_ns: int | None
    last_ns: int | None
    calls: int
    lost: Lost
    anomalies: list[AnomalyRow]
    operations: list[OperationRow]
    duration_ns: NotRequired[int | None]
    """Not of a capture without a byte, as the next ones."""
    window_ns: NotRequired[tuple[int, int] | None]
    captured_bytes: NotRequired[int]
    truncated_packets: NotRequired[int]
    kernel_drops: NotRequired[int]
    skipped_bytes: NotRequired[int]
    files_named: NotRequired[int]
    inputs: NotRequired[list[str]]
    analysis_cpu_ns: NotRequired[int]
    other_ports: NotRequired[list[PortRow]]
    """Where no call was found."""
    clients: NotRequired[ClientsContent]
    """A lens: as it was asked for, like all below."""
    files: NotRequired[FilesContent]
    points: NotRequired[PointsContent]
    rpcstat: NotRequired[RpcstatContent]
    stalls: NotRequired[StallsContent]
    access: NotRequired[AccessContent]
    network: NotRequired[NetworkContent]
    blocks: NotRequired[BlocksContent]

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
    "compression", "window", "config".
    """

    def __new__(
        cls, inputs: list[str | Path | tuple[str, int]], options_json: str = "{}"
    ) -> Trace: ...
    def progress(self) -> TraceProgress: ...
    def begun(self) -> list[int]:
        """Frames in front of each input that was begun, in the order in which they are read.

        Of each input that a row is from, once the row is there.
        """
    def batches(self) -> CallRows | None:
        """The rows, once. With `columns` they have to be taken, or the analysis waits."""
    def stop(self) -> None:
        """Ask the threads to end soon; `finish` then raises CoreError("interrupted")."""
    def finish(self) -> tuple[str, dict[str, tuple[str, bytes]]]:
        """Wait for the end, once: one JSON object (`TraceContent`), and long columns.

        Long columns: "lens/name" -> (numpy's element type, bytes).
        """

def capture_order(files: list[str] | list[Path]) -> tuple[list[Path], int]:
    """Files of a capture in the order of their first packets, and how many were in another place.

    CoreError as those of `Trace`.
    """

def read_part(
    files: list[str] | list[Path],
    next: str | Path | None,
    lenses: list[str],
    progress: Callable[[TraceProgress], object],
) -> bytes:
    """The table per operation of files of a capture, and these lenses, to be joined with others'.

    Reads the beginning of the `next` file as well. `progress` ends it by what it raises. CoreError
    as those of `Trace`.
    """

def join_parts(one: bytes, next: bytes) -> bytes:
    """Two parts as one; `next` begins with the file behind the last one of the first.

    CoreError: they do not tell what reading in a row would; "apart": reading the files of both so
    helps; "in_a_row": only reading all does.
    """

def part_findings(
    part: bytes, moved: int, inputs: list[str]
) -> tuple[str, dict[str, tuple[str, bytes]]]:
    """As `Trace.finish`, of a part that is of all files. CoreError as of `join_parts`."""

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

def check_mount_options(options: str) -> None:
    """Refuse options that `Mount` would refuse: CoreError("option")."""

def check_service_model(model_json: str) -> None:
    """Refuse a service model that `Server` would refuse: CoreError("config")."""

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
    def figures(self) -> dict[str, Any]:
        """At one moment: "counters" and "operations" as `RpcRecorder` has them, and "files".

        These are (path in the mount or None, calls as `KernelFiles.take` has them) since the last
        time, of 4096 files at most; the first time begins it.
        """
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
        secure: "all" | "local" | "none" = "all"      whose sockets may connect: of this machine root's
            and this user's, of others those with a reserved port ("local": any); "none": any
        hidden: bool = false                          MOUNT does not tell the export's path
        listen: [str] = ["127.0.0.1:0"] addresses; port 0 is any free one
        udp: bool = false               UDP on the same port
        allow: [str] = []               addresses and networks; needed beyond loopback
        workers: int = 0                threads for a store that waits for a device (0: 8)
        client_memory_bytes: int = 0    for requests and replies of all clients together (0: 256 MiB)
        record_room: int = 0            as `begin_records` at the start (0: not recording)
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
    "io". As a context manager it stops at the end.
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
    def counters(self) -> dict[str, int]:
        """calls, replies, connections, duplicates_answered, model_lost, records_lost, ...

        records_lost is of the recording that lasts or was the last.
        """
    def files(self) -> list[tuple[str | None, list[int]]]:
        """Calls done on data as `Mount.figures` has them: by path in the export, where it is known
        (of a folder, by the names that clients used)."""
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
        """Stop it: calls in work end. Harmless when it has ended."""
    def __enter__(self) -> Server: ...
    def __exit__(self, _kind: object, _value: object, _traceback: object, /) -> None: ...

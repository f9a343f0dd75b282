//! Watches system calls on files from outside, by programs in the kernel: the processes that one
//! names, their descendants, and whatever they fork later.
//!
//! ```text
//! tracepoint of a call's begin ──> note of the thread ──> of its end ──> counts (map)
//!                                                                   └──> record (ring)
//! ring ── every 50 ms, a thread (reader) ──> rows that wait ── take() ──> whoever asked
//! ```
//!
//! Decisions (docs/decisions/ebpf.md has what was measured). One tracepoint for each call and
//! only for those that a level needs. Who is watched hangs on the task in the kernel, so that a
//! number that is used again is nobody's. A file is known by its inode: descriptors that were
//! opened before, passed or duplicated need no history. Everything is attached by descriptors of
//! this process and ends with it, however it ends.
//!
//! Limits. Regular files and block devices only (of syncs folders, too). mmap is counted as a
//! call; what is read and written through the mapping is not seen, nor is io_uring. Programs of
//! 32 bits on a kernel of 64 are not seen. Numbers of processes are those of the first namespace
//! of processes. The device is the one that Linux keeps with the file system, as in mountinfo: on
//! btrfs stat(2) shows another for each subvolume.

#[cfg(not(ebpf))]
mod absent;
#[cfg(ebpf)]
mod calls;
#[cfg(ebpf)]
mod grants;
#[cfg(ebpf)]
mod kernel;
#[cfg(ebpf)]
mod layout;
#[cfg(ebpf)]
mod paths;
#[cfg(ebpf)]
mod probes;
#[cfg(ebpf)]
mod reader;
#[cfg(ebpf)]
mod scope;
#[cfg(ebpf)]
mod waits;
#[cfg(ebpf)]
mod watch;

#[cfg(not(ebpf))]
pub use absent::{Waits, Watch, grants};
#[cfg(ebpf)]
pub use grants::grants;
#[cfg(ebpf)]
pub use waits::Waits;
#[cfg(ebpf)]
pub use watch::Watch;

use crate::error::WatchError;
pub use crate::tally::{Level, ROWS_MAX, Taken};

/// Files that can be told apart at most.
pub const FILES_MAX: u32 = 1 << 20;
/// Rows of counts for each of them, on average.
pub const COUNTS_PER_FILE: u32 = 6;
/// The smallest ring: a page.
pub const RING_BYTES_MIN: u32 = 4096;
/// The largest ring.
pub const RING_BYTES_MAX: u32 = 1 << 30;

/// What is watched, and how much of it.
#[derive(Clone, Debug)]
pub struct Options {
    /// Processes; their descendants are watched, too.
    pub roots: Vec<u32>,
    /// How much.
    pub level: Level,
    /// Is lseek counted (PostgreSQL calls it more often than all others together)?
    pub lseek: bool,
    /// Are requests of block devices recorded?
    pub blocks: bool,
    /// Bytes of the ring; rounded up to a power of two.
    pub ring_bytes: u32,
    /// Files that can be told apart; calls on others are counted as uncounted.
    pub files_max: u32,
}

impl Options {
    /// These processes at this level.
    pub fn new(roots: Vec<u32>, level: Level) -> Self {
        Options {
            roots,
            level,
            lseek: false,
            blocks: false,
            ring_bytes: 16 << 20,
            files_max: 16384,
        }
    }
}

/// What it cost and what was lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Rows of `syncs` that found no room.
    pub lost_syncs: u64,
    /// Rows of `events`.
    pub lost_events: u64,
    /// Rows of `names`, and names of files.
    pub lost_names: u64,
    /// Rows of `blocks`.
    pub lost_blocks: u64,
    /// Calls that are in no row of the counts.
    pub uncounted: u64,
    /// Accesses that are counted, but not by their place: two processors judged at once.
    pub unplaced: u64,
    /// Calls that were under way when it began: not recorded.
    pub unmatched: u64,
    /// Records that could not be understood: none, unless something is broken.
    pub not_understood: u64,
    /// From the question until everything was attached, ns.
    pub attach_ns: u64,
    /// Processor time of the thread that empties the ring, ns.
    pub thread_cpu_ns: u64,
    /// Time in the programs, ns; 0 unless kernel.bpf_stats_enabled.
    pub kernel_run_ns: u64,
    /// How often they ran; 0 likewise.
    pub kernel_runs: u64,
    /// Processes that are watched now.
    pub watched: u64,
}

/// Time of a thread in one state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitRow {
    /// Thread.
    pub tid: u32,
    /// What it said that it waits for while it was blocked, or one of the three below; by call: its
    /// number (511: none), and 22 bits of what it is on (`bpf/waits.h`).
    pub state: u32,
    /// How long, ns.
    pub ns: u64,
    /// How often.
    pub times: u64,
}

/// On a processor.
pub const STATE_RUNNING: u32 = u32::MAX;
/// Runnable, but not on a processor.
pub const STATE_QUEUED: u32 = u32::MAX - 1;
/// Blocked, and what for could not be read.
pub const STATE_UNREAD: u32 = u32::MAX - 2;

/// Whether eBPF can watch here.
#[derive(Debug)]
pub struct Grants {
    /// What is in the way.
    pub refused: Option<WatchError>,
    /// Can block requests be watched?
    pub blocks: bool,
}

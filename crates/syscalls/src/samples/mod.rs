//! What the processes of a program wait for by their own account, looked at many times
//! a second in their memory, from a thread of its own.
//!
//! PostgreSQL (14 and newer) keeps a number in shared memory for each process (PGPROC's
//! `wait_event_info`), and a pointer to it under an exported name. The root (the postmaster) has
//! that memory, too, at the same address: one process_vm_readv(2) of the root reads the words of
//! all. The watched processes do nothing for it, and the kernel needs no program.
//!
//! **When.** Time is divided into intervals of equal length, and each is looked at once, at an
//! instant drawn evenly from it: never in step with a load that has a period. Given what the
//! processes did, looks are independent, and the mean of the looks is unbiased; its variance is the
//! sum of those within the intervals: at most p (1 - p) / n for a share p and n looks, whatever
//! the load's own rhythm. Where the interval changed, a stretch counts by its length, not by its
//! looks.
//!
//! **Promptly.** A look that waits for a processor sees what it waited for: a processor is often
//! free because somebody began to wait. So the thread is asked for real-time scheduling, else for
//! short slices (Linux 6.12), and it has no timer slack, which would join it to others' timers. How
//! late looks were is in the figures.
//!
//! **Cost.** Each second the interval becomes so long that the thread takes `CPU_SHARE_MAX` of a
//! processor at most. Waking it is most of that.
//!
//! Limits. A process counts from when it is found (`FIND_NS`, sooner when the timed part begins)
//! until it was confirmed last (`CONFIRM_NS`): the instants around its begin and its end are lost,
//! and the figures say how many looks that was. More than `memory::WORDS_MAX` processes are not
//! looked at.

mod memory;
mod processes;
mod tally;
mod thread;

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use measure::{Clock, MonotonicClock};
use parking_lot::Mutex;

use crate::exported::{NotFound, address_of};

#[cfg(ebpf)]
pub(crate) use processes::parent;
pub use tally::{Row, Stretch};
pub use thread::{CPU_SHARE_MAX, Promptness};

/// Shortest interval between looks.
pub const INTERVAL_MIN_NS: u64 = 100_000;
/// Longest interval, also when looks cost much.
pub const INTERVAL_MAX_NS: u64 = 1_000_000_000;
/// Shortest stretch of time that is counted for itself.
pub const STRETCH_MIN_NS: u64 = 1_000_000;

/// What is looked at, and how often.
#[derive(Clone, Debug)]
pub struct Options {
    /// Its children are looked at.
    pub root: u32,
    /// The exported name of the pointer.
    pub symbol: String,
    /// One look in each.
    pub interval_ns: u64,
    /// Counts are kept for stretches of time of this length.
    pub stretch_ns: u64,
    /// Of the instants.
    pub seed: u64,
}

/// Why nothing is looked at.
#[derive(Debug, thiserror::Error)]
pub enum SamplesError {
    /// There is no such process.
    #[error("there is no process {pid}")]
    Gone {
        /// Its number.
        pid: u32,
    },
    /// Linux grants it to others only.
    #[error("Linux does not let this user read the memory of process {pid}")]
    Access {
        /// Its number.
        pid: u32,
        /// As Linux said it.
        #[source]
        source: io::Error,
    },
    /// The program has no such pointer.
    #[error("process {pid} does not say what it waits for")]
    Absent {
        /// Its number.
        pid: u32,
        /// What is missing.
        why: String,
    },
    /// An option is out of its bounds.
    #[error("{what}")]
    Config {
        /// Which, and what its bounds are.
        what: String,
    },
    /// The thread could not be started, or ended by itself.
    #[error("the thread that looks at processes: {why}")]
    Thread {
        /// What happened.
        why: String,
    },
}

impl SamplesError {
    /// Stable word that programs may compare.
    pub fn kind(&self) -> &'static str {
        match self {
            SamplesError::Gone { .. } => "gone",
            SamplesError::Access { .. } => "permission",
            SamplesError::Absent { .. } => "absent",
            SamplesError::Config { .. } => "config",
            SamplesError::Thread { .. } => "thread",
        }
    }

    /// Why.
    pub fn why(&self) -> String {
        match self {
            SamplesError::Access { source, .. } => source.to_string(),
            SamplesError::Absent { why, .. } => why.clone(),
            _ => String::new(),
        }
    }

    /// What to do about it.
    pub fn fix(&self) -> &'static str {
        match self {
            SamplesError::Gone { .. } => "Name a process that runs.",
            SamplesError::Access { .. } => {
                "Run as root or as the server's user. With kernel.yama.ptrace_scope = 1 the \
                 server has to be started by this program; with 2 root is needed."
            }
            SamplesError::Absent { .. } => "Use PostgreSQL 14 or newer, as its makers build it.",
            SamplesError::Config { .. } => "Choose a value within these bounds.",
            SamplesError::Thread { .. } => "Check the limit on processes (ulimit -u).",
        }
    }
}

/// What it did and what was lost, since the timed part began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Looks at all processes.
    pub looks: u64,
    /// Intervals without a look: the one before took too long.
    pub missed: u64,
    /// Looks that were refused.
    pub failed: u64,
    /// Looks that came later than `thread::LATE_NS` after their instant.
    pub late: u64,
    /// How late all looks together were, ns.
    pub lateness_ns: u64,
    /// The latest, ns.
    pub lateness_max_ns: u64,
    /// Times that a process was seen and confirmed.
    pub confirmed: u64,
    /// Times that a process was seen, and had ended when that was to be confirmed.
    pub dropped: u64,
    /// Processes that were too many.
    pub left_out: u64,
    /// Processor time of the thread, ns.
    pub cpu_ns: u64,
    /// How long it looked, ns.
    pub wall_ns: u64,
    /// The interval at the end, ns.
    pub interval_ns: u64,
}

/// All that was seen.
#[derive(Debug)]
pub struct Recording {
    /// Stretches of time, the earliest first.
    pub stretches: Vec<Stretch>,
    /// Counts, by stretch, process and state.
    pub rows: Vec<Row>,
    /// Numbers of the processes, by place.
    pub pids: Vec<u32>,
    /// What it did and what was lost.
    pub figures: Figures,
    /// How the thread is scheduled.
    pub promptness: Promptness,
}

/// What both sides know while it runs.
#[derive(Debug, Default)]
struct Shared {
    over: AtomicBool,
    /// When the timed part began; 0: it did not, or the thread knows.
    begun_ns: AtomicU64,
    /// Place and number of the processes that are looked at.
    live: Mutex<Vec<(u32, u32)>>,
}

/// Looks until it is stopped or dropped.
#[derive(Debug)]
pub struct Sampler {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Recording>>,
}

impl Sampler {
    /// Begins to look.
    pub fn start(options: &Options) -> Result<Self, SamplesError> {
        check(options)?;
        let pid = options.root;
        let read = |source: io::Error| refused(pid, source);
        let pointer = address_of(pid, &options.symbol).map_err(|error| match error {
            NotFound::Unread(source) => read(source),
            NotFound::Absent(why) => SamplesError::Absent { pid, why },
        })?;
        let shared = Arc::new(Shared::default());
        let (ready, started) = mpsc::channel();
        let (options, theirs) = (options.clone(), Arc::clone(&shared));
        let thread = std::thread::Builder::new()
            .name("wait-sampler".to_owned())
            .spawn(move || thread::run(&options, pointer, &theirs, &ready))
            .map_err(|error| SamplesError::Thread {
                why: error.to_string(),
            })?;
        let sampler = Sampler {
            shared,
            thread: Some(thread),
        };
        match started.recv() {
            Ok(Ok(true)) => Ok(sampler),
            Ok(Ok(false)) => Err(SamplesError::Absent {
                pid,
                why: "it shares no memory with other processes".to_owned(),
            }),
            Ok(Err(error)) => Err(read(error)),
            Err(_) => Err(ended()),
        }
    }

    /// The timed part begins now.
    pub fn begin(&self) {
        let now_ns = MonotonicClock.now_ns();
        self.shared.begun_ns.store(now_ns, Ordering::Release);
    }

    /// Place and number of the processes that are looked at now.
    pub fn live(&self) -> Vec<(u32, u32)> {
        self.shared.live.lock().clone()
    }

    /// Ends it.
    pub fn stop(mut self) -> Result<Recording, SamplesError> {
        self.shared.over.store(true, Ordering::Release);
        let thread = self.thread.take().ok_or_else(ended)?;
        thread.join().map_err(|_| ended())
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn refused(pid: u32, source: io::Error) -> SamplesError {
    match source.raw_os_error() {
        Some(libc::ENOENT | libc::ESRCH) => SamplesError::Gone { pid },
        _ => SamplesError::Access { pid, source },
    }
}

fn ended() -> SamplesError {
    SamplesError::Thread {
        why: "it ended by itself".to_owned(),
    }
}

fn check(options: &Options) -> Result<(), SamplesError> {
    let refuse = |what: String| Err(SamplesError::Config { what });
    let (interval_ns, stretch_ns) = (options.interval_ns, options.stretch_ns);
    if !(INTERVAL_MIN_NS..=INTERVAL_MAX_NS).contains(&interval_ns) {
        return refuse(format!(
            "interval_ns {interval_ns} is not within {INTERVAL_MIN_NS} and {INTERVAL_MAX_NS}"
        ));
    }
    if stretch_ns < STRETCH_MIN_NS {
        return refuse(format!("stretch_ns {stretch_ns} is below {STRETCH_MIN_NS}"));
    }
    Ok(())
}

//! The thread that samples on a fixed grid of instants.

use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use measure::clock::realtime_ns;
use measure::thread::leave_signals_to_others;
use measure::{Clock, MonotonicClock, ThreadUsage};

use crate::catalog::{Field, Kind, Scale};
use crate::columns::{Column, Columns, MAX_CELLS, MISSING, Place};
use crate::sample::{Absence, Sources};
use crate::units::{Troubles, Units};

/// Shortest interval: a sample takes some hundred microseconds.
pub const MIN_INTERVAL_NS: u64 = 1_000_000;
/// Longest interval.
pub const MAX_INTERVAL_NS: u64 = 3_600_000_000_000;

/// A sample later than this share of the interval counts as late.
const LATE_SHARE: u64 = 10;

/// What to record.
#[derive(Debug, Clone)]
pub struct Config {
    /// Time between samples.
    pub interval_ns: u64,
    /// Directory of a control group to follow.
    pub cgroup: Option<PathBuf>,
    /// Where the kernel's files are: /proc.
    pub proc: PathBuf,
    /// Most values kept.
    pub max_cells: usize,
}

impl Config {
    /// The usual one.
    #[must_use]
    pub fn new(interval_ns: u64, cgroup: Option<PathBuf>) -> Self {
        Self {
            interval_ns,
            cgroup,
            proc: PathBuf::from("/proc"),
            max_cells: MAX_CELLS,
        }
    }
}

/// Why there is no recording.
#[derive(Debug, thiserror::Error)]
pub enum SamplerError {
    /// The interval is out of range.
    #[error("interval {interval_ns} ns: {MIN_INTERVAL_NS} to {MAX_INTERVAL_NS} ns are possible")]
    Interval {
        /// As asked.
        interval_ns: u64,
    },
    /// Nothing to read.
    #[error("none of the kernel's files could be read: {0}")]
    NothingToRead(String),
    /// The thread could not be started, or ended by a panic.
    #[error("sampling thread: {0}")]
    Thread(String),
}

/// What was recorded.
#[derive(Debug)]
pub struct Recording {
    /// Monotonic time of the first tick.
    pub start_monotonic_ns: u64,
    /// Wall-clock time of the first tick.
    pub start_realtime_ns: u64,
    /// As asked.
    pub interval_ns: u64,
    /// After halvings of the rate.
    pub effective_interval_ns: u64,
    /// How often every second sample was dropped.
    pub halvings: u32,
    /// Samples kept.
    pub samples: usize,
    /// Values over time.
    pub columns: Vec<Column>,
    /// Sources that are not there.
    pub absent: Vec<Absence>,
    /// Devices without traffic.
    pub idle: Vec<String>,
    /// What went wrong.
    pub troubles: Troubles,
    /// Samples more than a tenth of the interval late.
    pub late_ticks: u64,
    /// Samples not taken as the one before ended after their time.
    pub missed_ticks: u64,
    /// Worst lateness.
    pub max_lateness_ns: u64,
    /// What sampling cost.
    pub cost: Cost,
}

/// What sampling cost.
#[derive(Debug, Clone, Copy, Default)]
pub struct Cost {
    /// CPU time of the sampling thread.
    pub usage: ThreadUsage,
    /// Its life.
    pub wall_ns: u64,
    /// Samples taken, those dropped later included.
    pub samples_read: u64,
    /// Longest time one sample took.
    pub max_read_ns: u64,
}

/// A recording in progress. Dropping it ends the thread.
#[derive(Debug)]
pub struct Sampler {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<Recording>>,
}

const TIME: Field = Field {
    key: "",
    name: "t_ns",
    kind: Kind::Gauge,
    scale: Scale::One,
};
const READ: Field = Field {
    key: "",
    name: "read_ns",
    kind: Kind::Gauge,
    scale: Scale::One,
};

impl Sampler {
    /// Opens everything, takes the first sample, and goes on in a thread of its own.
    ///
    /// # Errors
    /// [`SamplerError`] if the interval is out of range or there is nothing to read.
    pub fn start(config: Config) -> Result<Self, SamplerError> {
        let interval_ns = config.interval_ns;
        if !(MIN_INTERVAL_NS..=MAX_INTERVAL_NS).contains(&interval_ns) {
            return Err(SamplerError::Interval { interval_ns });
        }
        let units = Units::of_this_machine();
        let sources = Sources::open(&config.proc, config.cgroup.as_deref(), units);
        if sources.is_empty() {
            let reasons = sources
                .absent
                .iter()
                .map(|gone| format!("{}: {}", gone.source, gone.why));
            return Err(SamplerError::NothingToRead(
                reasons.collect::<Vec<_>>().join("; "),
            ));
        }
        let (stop, stopped) = channel::<()>();
        let (ready, started) = channel::<()>();
        let thread = std::thread::Builder::new()
            .name("system-sampler".to_owned())
            .spawn(move || {
                leave_signals_to_others();
                let mut work = Work::new(sources, &config);
                work.sample();
                drop(ready);
                // Neither a message nor a timeout is wanted: the sender goes away to stop us.
                while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(work.wait()) {
                    work.tick();
                }
                work.finish()
            })
            .map_err(|error| SamplerError::Thread(error.to_string()))?;
        let _: Result<(), _> = started.recv(); // returns when the first sample was taken
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Takes a last sample and ends the recording.
    ///
    /// # Errors
    /// [`SamplerError::Thread`] if the thread ended by a panic, or was stopped before.
    pub fn stop(mut self) -> Result<Recording, SamplerError> {
        drop(self.stop.take());
        let Some(thread) = self.thread.take() else {
            return Err(SamplerError::Thread("was stopped before".to_owned()));
        };
        thread
            .join()
            .map_err(|_| SamplerError::Thread("ended by a panic".to_owned()))
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The thread's state.
struct Work {
    sources: Sources,
    columns: Columns,
    time: Place,
    read: Place,
    interval_ns: u64,
    step_ns: u64,
    start_ns: u64,
    start_realtime_ns: u64,
    next_ns: u64,
    late_ticks: u64,
    missed_ticks: u64,
    max_lateness_ns: u64,
    cost: Cost,
}

impl Work {
    fn new(sources: Sources, config: &Config) -> Self {
        let mut columns = Columns::new(config.max_cells);
        let time = columns.add("", &TIME, MISSING);
        let read = columns.add("", &READ, MISSING);
        let start_ns = MonotonicClock.now_ns();
        Self {
            sources,
            columns,
            time,
            read,
            interval_ns: config.interval_ns,
            step_ns: config.interval_ns,
            start_ns,
            start_realtime_ns: realtime_ns(),
            next_ns: start_ns + config.interval_ns,
            late_ticks: 0,
            missed_ticks: 0,
            max_lateness_ns: 0,
            cost: Cost::default(),
        }
    }

    fn wait(&self) -> Duration {
        Duration::from_nanos(self.next_ns.saturating_sub(MonotonicClock.now_ns()))
    }

    fn tick(&mut self) {
        let now_ns = MonotonicClock.now_ns();
        let lateness_ns = now_ns.saturating_sub(self.next_ns);
        self.late_ticks += u64::from(lateness_ns > self.step_ns / LATE_SHARE);
        self.max_lateness_ns = self.max_lateness_ns.max(lateness_ns);
        if self.sample() {
            self.step_ns = self.step_ns.saturating_mul(2);
        }
        // The next instant of the grid that is not over yet.
        let planned_ns = self.next_ns + self.step_ns;
        let behind_ns = MonotonicClock.now_ns().saturating_sub(planned_ns);
        let missed = behind_ns.div_ceil(self.step_ns);
        self.missed_ticks += missed;
        self.next_ns = planned_ns + missed * self.step_ns;
    }

    /// Takes a sample; true when the rate is to be halved.
    fn sample(&mut self) -> bool {
        let from_ns = MonotonicClock.now_ns();
        self.sources.sample(&mut self.columns);
        let read_ns = MonotonicClock.now_ns() - from_ns;
        self.cost.samples_read += 1;
        self.cost.max_read_ns = self.cost.max_read_ns.max(read_ns);
        self.columns.set(self.time, signed(from_ns));
        self.columns.set(self.read, signed(read_ns));
        self.columns.next_sample()
    }

    fn finish(mut self) -> Recording {
        self.sample();
        self.cost.wall_ns = MonotonicClock.now_ns() - self.start_ns;
        self.cost.usage = ThreadUsage::now();
        let halvings = self.columns.halvings();
        Recording {
            start_monotonic_ns: self.start_ns,
            start_realtime_ns: self.start_realtime_ns,
            interval_ns: self.interval_ns,
            effective_interval_ns: self.step_ns,
            halvings,
            samples: self.columns.samples(),
            columns: self.columns.into_columns(),
            idle: self.sources.idle(),
            absent: self.sources.absent,
            troubles: self.sources.troubles,
            late_ticks: self.late_ticks,
            missed_ticks: self.missed_ticks,
            max_lateness_ns: self.max_lateness_ns,
            cost: self.cost,
        }
    }
}

fn signed(value_ns: u64) -> i64 {
    i64::try_from(value_ns).unwrap_or(MISSING)
}

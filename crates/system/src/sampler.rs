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
/// A sample whose reading takes longer than this share of the interval, ...
const BLUR_SHARE: u64 = 20;
/// ... and longer than this, is of no moment: its thread had no processor meanwhile, and rates up
/// to when it began would be too high.
const BLUR_FLOOR_NS: u64 = 1_000_000;
/// Times that a sample is read, until it took no longer.
const TRIES: usize = 3;

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
    /// Samples not kept: the one before ended after their time, or their reading took too long.
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
    /// Samples read, those included that were not kept.
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
                work.sample(true);
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
        self.sample(false);
        // The next instant of the grid that is not over yet.
        let planned_ns = self.next_ns + self.step_ns;
        let behind_ns = MonotonicClock.now_ns().saturating_sub(planned_ns);
        let missed = behind_ns.div_ceil(self.step_ns);
        self.missed_ticks += missed;
        self.next_ns = planned_ns + missed * self.step_ns;
    }

    fn sample(&mut self, needed: bool) {
        let took = at_a_moment(
            self.longest_ns(),
            || MonotonicClock.now_ns(),
            || {
                self.columns.begin_again();
                self.sources.sample(&mut self.columns);
                self.cost.samples_read += 1;
            },
        );
        self.keep(took, needed);
    }

    /// How long reading may take.
    fn longest_ns(&self) -> u64 {
        (self.step_ns / BLUR_SHARE).max(BLUR_FLOOR_NS)
    }

    /// A sample was read from then on, for so long: it is kept if that is not too long, or it is
    /// `needed`. Where there is no more room, the rate is halved.
    fn keep(&mut self, (from_ns, read_ns): (u64, u64), needed: bool) {
        self.cost.max_read_ns = self.cost.max_read_ns.max(read_ns);
        if read_ns > self.longest_ns() && !needed {
            self.columns.begin_again();
            self.missed_ticks += 1;
            return;
        }
        self.columns.set(self.time, signed(from_ns));
        self.columns.set(self.read, signed(read_ns));
        if self.columns.next_sample() {
            self.step_ns = self.step_ns.saturating_mul(2);
        }
    }

    fn finish(mut self) -> Recording {
        self.sample(true);
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

/// Reads until that takes no longer than `limit_ns`, or was tried often enough; when the last time
/// began, and how long it took.
fn at_a_moment(
    limit_ns: u64,
    mut now_ns: impl FnMut() -> u64,
    mut read: impl FnMut(),
) -> (u64, u64) {
    let mut tries = 0;
    loop {
        let from_ns = now_ns();
        read();
        let read_ns = now_ns().saturating_sub(from_ns);
        tries += 1;
        if read_ns <= limit_ns || tries == TRIES {
            return (from_ns, read_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By the clock's instants: how often it read, when that began, how long it took.
    fn read_by(clock_ns: &[u64], limit_ns: u64) -> (usize, (u64, u64)) {
        let mut clock = clock_ns.iter().copied();
        let mut reads = 0;
        let took = at_a_moment(limit_ns, || clock.next().unwrap(), || reads += 1);
        assert_eq!(clock.next(), None, "the clock was read twice a reading");
        (reads, took)
    }

    #[test]
    fn what_was_read_over_a_long_time_is_read_again() {
        assert_eq!(read_by(&[100, 105], 5), (1, (100, 5)));
        assert_eq!(read_by(&[100, 400, 400, 403], 5), (2, (400, 3)));
        let busy = [0, 300, 300, 700, 700, 900];
        assert_eq!(read_by(&busy, 5), (TRIES, (700, 200)), "no end otherwise");
    }

    /// Ten times a second.
    fn work() -> Work {
        work_of(Config::new(100_000_000, None))
    }

    fn work_of(mut config: Config) -> Work {
        let proc = tempfile::tempdir().unwrap();
        std::fs::write(proc.path().join("stat"), "cpu  1 2 3 4 5 6 7 8 9 10\n").unwrap();
        config.proc = proc.path().to_owned();
        let sources = Sources::open(&config.proc, None, Units::of_this_machine());
        Work::new(sources, &config)
    }

    #[test]
    fn what_is_over_when_it_comes_back_is_missed_and_not_made_up_for() {
        let (mut work, now_ns) = (work(), MonotonicClock.now_ns());
        let due_ns = now_ns - 1_050_000_000;
        work.next_ns = due_ns;
        work.tick();
        assert!(work.missed_ticks >= 10, "{}", work.missed_ticks);
        assert!(work.next_ns > now_ns, "that instant is over");
        assert_eq!((work.next_ns - due_ns) % 100_000_000, 0, "on the grid");
    }

    #[test]
    fn the_last_sample_too_halves_the_rate_where_there_is_no_room() {
        let mut work = work_of(Config {
            max_cells: 1,
            ..Config::new(100_000_000, None)
        });
        work.keep((0, 0), true);
        work.keep((100, 0), true);
        let recording = work.finish();
        assert_eq!((recording.samples, recording.halvings), (2, 1));
        assert_eq!(recording.effective_interval_ns, 200_000_000);
    }

    #[test]
    fn a_sample_of_no_moment_is_not_kept_unless_it_is_the_first_or_the_last() {
        let mut work = work();
        for (at_ns, read_ns, needed) in [
            (0, 300_000_000, true),
            (100, 5_000_000, false),
            (200, 5_000_001, false),
            (300, 300_000_000, false),
            (400, 300_000_000, true),
        ] {
            work.sources.sample(&mut work.columns);
            work.keep((at_ns, read_ns), needed);
        }
        assert_eq!((work.missed_ticks, work.columns.samples()), (2, 3));
        let columns = work.columns.into_columns();
        let named = |name: &str| columns.iter().find(|column| column.name == name);
        assert_eq!(named("t_ns").unwrap().values, [0, 100, 400]);
        assert_eq!(named("cpu.user_ns").unwrap().values.len(), 3);
    }
}

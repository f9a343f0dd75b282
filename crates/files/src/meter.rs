//! What one worker measures: one clock reading, one histogram record, one count per operation.
//!
//! The end of an operation is the start of the next, so a latency includes this loop's own work
//! (stamping, choosing a position: tens of nanoseconds) and a worker's latencies add up to its
//! time. What is no part of the operation (a sync, a content check) moves the start on.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use measure::{Clock, HistogramError, LatencyHistogram, Series, add_up};

/// Progress of one worker, on cache lines of its own: written at each operation, read at leisure.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Counter {
    operations: AtomicU64,
}

impl Counter {
    /// Operations so far.
    pub fn operations(&self) -> u64 {
        self.operations.load(Ordering::Relaxed)
    }
}

/// Why a worker stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// All was done.
    Done,
    /// The time limit came first.
    TimeLimit,
    /// Somebody asked it to.
    Cancelled,
}

/// Counts of what was not as it should be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Oddities {
    /// Checked blocks that did not hold what was written.
    pub content_mismatches: u64,
    /// Reads that gave less than asked, the end of the file included.
    pub short_reads: u64,
    /// Writes that took less than asked (the rest was written by further calls).
    pub short_writes: u64,
}

impl Oddities {
    /// Adds another worker's.
    pub fn add(&mut self, other: &Self) {
        add_up!(self, other; content_mismatches, short_reads, short_writes);
    }
}

/// The measurements of one worker in one phase.
pub struct Meter<'a> {
    clock: &'a dyn Clock,
    cancel: &'a AtomicBool,
    counter: &'a Counter,
    deadline_ns: u64,
    previous_ns: u64,
    block_bytes: u64,
    /// Latency of operations, without syncs.
    pub latency: LatencyHistogram,
    /// Latency of the syncs of `sync_every`.
    pub sync_latency: LatencyHistogram,
    /// Time those syncs took together.
    pub sync_ns: u64,
    /// Throughput over time.
    pub series: Series,
    /// Operations completed.
    pub operations: u64,
    /// Operations that also wrote back.
    pub rewrites: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Blocks whose content was checked.
    pub checked: u64,
    /// What was not as it should be.
    pub oddities: Oddities,
    /// The first mismatch, in words.
    pub first_mismatch: Option<String>,
}

/// What a meter needs to start.
#[derive(Clone, Copy)]
pub struct Start<'a> {
    /// The clock.
    pub clock: &'a dyn Clock,
    /// Set when the run is to stop.
    pub cancel: &'a AtomicBool,
    /// Where to show progress.
    pub counter: &'a Counter,
    /// Size of a block.
    pub block_bytes: u64,
    /// Width of the series' buckets.
    pub series_interval_ns: u64,
}

impl<'a> Meter<'a> {
    /// All memory is allocated here, before timing. [`Self::begin`] starts the time.
    pub fn new(start: Start<'a>) -> Result<Self, HistogramError> {
        Ok(Self {
            clock: start.clock,
            cancel: start.cancel,
            counter: start.counter,
            deadline_ns: u64::MAX,
            previous_ns: 0,
            block_bytes: start.block_bytes,
            latency: LatencyHistogram::new()?,
            sync_latency: LatencyHistogram::new()?,
            sync_ns: 0,
            series: Series::new(0, start.series_interval_ns),
            operations: 0,
            rewrites: 0,
            read_bytes: 0,
            written_bytes: 0,
            checked: 0,
            oddities: Oddities::default(),
            first_mismatch: None,
        })
    }

    /// Starts the time: the phase began at `start_ns` for all workers.
    pub fn begin(&mut self, start_ns: u64, time_limit_ns: Option<u64>) {
        self.series = Series::new(start_ns, self.series.interval_ns());
        self.deadline_ns = time_limit_ns.map_or(u64::MAX, |limit| start_ns.saturating_add(limit));
        self.previous_ns = self.clock.now_ns();
    }

    /// Counts an operation that has just completed; tells whether and why to stop.
    #[inline]
    pub fn done(&mut self) -> Option<Stop> {
        let now_ns = self.clock.now_ns();
        self.latency.record(now_ns.saturating_sub(self.previous_ns));
        self.series.record(now_ns, self.block_bytes);
        self.previous_ns = now_ns;
        self.operations += 1;
        self.counter
            .operations
            .store(self.operations, Ordering::Relaxed);
        if self.cancel.load(Ordering::Relaxed) {
            return Some(Stop::Cancelled);
        }
        (now_ns >= self.deadline_ns).then_some(Stop::TimeLimit)
    }

    /// Counts a sync that has just completed, right after [`Self::done`] or another sync.
    pub fn synced(&mut self) {
        let now_ns = self.clock.now_ns();
        let took_ns = now_ns.saturating_sub(self.previous_ns);
        self.sync_latency.record(took_ns);
        self.sync_ns += took_ns;
        self.previous_ns = now_ns;
    }

    /// Starts the next operation now: what was done since the last is part of none.
    pub fn skip(&mut self) {
        self.previous_ns = self.clock.now_ns();
    }

    /// The time now.
    pub fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    /// When the last operation or sync completed.
    pub const fn last_ns(&self) -> u64 {
        self.previous_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::ManualClock;

    #[test]
    fn latencies_exclude_syncs_and_skipped_work() {
        let clock = ManualClock::new(1_000);
        let (cancel, counter) = (AtomicBool::new(false), Counter::default());
        let mut meter = Meter::new(Start {
            clock: &clock,
            cancel: &cancel,
            counter: &counter,
            block_bytes: 8,
            series_interval_ns: 100,
        })
        .unwrap();
        meter.begin(1_000, Some(500));
        clock.advance(10);
        assert_eq!(meter.done(), None);
        clock.advance(300);
        meter.synced();
        clock.advance(50);
        meter.skip();
        clock.advance(20);
        assert_eq!(meter.done(), None);
        assert_eq!(
            (meter.latency.min_ns(), meter.latency.max_ns()),
            (Some(10), Some(20))
        );
        assert_eq!((meter.sync_ns, meter.sync_latency.count()), (300, 1));
        clock.advance(120);
        assert_eq!(meter.done(), Some(Stop::TimeLimit));
        cancel.store(true, Ordering::Relaxed);
        assert_eq!(meter.done(), Some(Stop::Cancelled));
        // The last operation took no time at all: out of range, not made into 1 ns.
        assert_eq!((meter.latency.count(), meter.latency.below()), (3, 1));
        assert_eq!((counter.operations(), meter.last_ns()), (4, 1_500));
        let buckets: Vec<u64> = meter
            .series
            .into_buckets()
            .iter()
            .map(|b| b.operations)
            .collect();
        assert_eq!(buckets, [1, 0, 0, 1, 0, 2]);
    }
}

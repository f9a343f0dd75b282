//! What threads measured, added up: those of one process, then those of several.
//!
//! Counts, histograms and Little's sums are integers: nothing is lost on the way.

use measure::{HistogramError, LatencyHistogram, Series};
use serde::{Deserialize, Serialize};

use crate::fault::FaultSums;
use crate::meter::{Ending, Meter, OperationFigures, Population, Times};
use crate::plan::{Part, SCHEMA};
use crate::prepare::Prepared;
use crate::report::{MountReport, Network, ThreadReport};
use crate::worker::Done;

/// What one process measured, or several together.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Sums {
    schema: u32,
    pub(crate) part: Part,
    /// Of the process.
    pub(crate) pid: u32,
    pub(crate) times: Times,
    pub(crate) realtime_ns: u64,
    pub(crate) operations: Vec<OperationFigures>,
    pub(crate) population: Population,
    pub(crate) late: LatencyHistogram,
    pub(crate) pick_up: LatencyHistogram,
    pub(crate) faults: FaultSums,
    pub(crate) planned: Series,
    pub(crate) answered: Series,
    pub(crate) responses: Series,
    pub(crate) counts: Counts,
    pub(crate) network: Network,
    pub(crate) touched: (u64, u64),
    pub(crate) threads: Vec<ThreadReport>,
    pub(crate) mounts: Vec<MountReport>,
    pub(crate) ended: Ending,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Counts {
    pub arrivals: u64,
    pub not_sent: u64,
    pub not_sent_free: u64,
    pub left: u64,
    pub oldest_left_ns: u64,
    pub unanswered: u64,
    pub unsent: u64,
    pub read_bytes: u64,
    pub written_bytes: u64,
    pub appended: u64,
    pub verified_bytes: u64,
    pub verifier_changes: u64,
}

impl Counts {
    fn of(done: &Done) -> Self {
        let meter = &done.meter;
        let end_ns = meter.times.window_end_ns;
        let oldest_ns = meter.oldest_at_window_end_ns.unwrap_or(end_ns);
        Counts {
            arrivals: meter.arrivals,
            not_sent: meter.not_sent,
            not_sent_free: meter.not_sent_free,
            left: meter.left_at_window_end,
            oldest_left_ns: end_ns.saturating_sub(oldest_ns),
            unanswered: meter.unanswered,
            unsent: meter.unsent,
            read_bytes: meter.read_bytes,
            written_bytes: meter.written_bytes,
            appended: meter.appended,
            verified_bytes: meter.verified_bytes,
            verifier_changes: done.verifier_changes,
        }
    }

    fn add(&mut self, other: &Self) {
        self.arrivals += other.arrivals;
        self.not_sent += other.not_sent;
        self.not_sent_free += other.not_sent_free;
        self.left += other.left;
        self.oldest_left_ns = self.oldest_left_ns.max(other.oldest_left_ns);
        self.unanswered += other.unanswered;
        self.unsent += other.unsent;
        self.read_bytes += other.read_bytes;
        self.written_bytes += other.written_bytes;
        self.appended += other.appended;
        self.verified_bytes += other.verified_bytes;
        self.verifier_changes += other.verifier_changes;
    }
}

impl Sums {
    pub(crate) fn new(
        prepared: &Prepared,
        (times, realtime_ns): (Times, u64),
        interval_ns: u64,
    ) -> Result<Self, HistogramError> {
        let empty = Meter::new(times, interval_ns)?;
        Ok(Sums {
            schema: SCHEMA,
            part: prepared.checked.plan.part,
            pid: std::process::id(),
            times,
            realtime_ns,
            operations: empty.operations,
            population: empty.population,
            late: empty.late,
            pick_up: empty.pick_up,
            faults: FaultSums::default(),
            planned: empty.planned,
            answered: empty.answered,
            responses: empty.responses,
            counts: Counts::default(),
            network: Network::default(),
            touched: (0, 0),
            threads: Vec::new(),
            mounts: prepared.mounts.iter().map(MountReport::of).collect(),
            ended: Ending::Complete,
        })
    }

    /// Adds a thread.
    pub(crate) fn add(&mut self, done: Done) -> Result<(), HistogramError> {
        let counts = Counts::of(&done);
        self.counts.add(&counts);
        if let Some(mount) = self.mounts.get_mut(done.mount) {
            mount.add_thread(&done);
        }
        let thread = ThreadReport::of(&done, self.part.index);
        self.threads.push(thread);
        self.network.add_counters(&done.counters);
        self.touched.0 += done.touched.0;
        self.touched.1 += done.touched.1;
        self.ended = self.ended.max(done.ending);
        let meter = done.meter;
        self.add_operations(meter.operations)?;
        self.population.add(&meter.population);
        self.late.add(&meter.late)?;
        self.pick_up.add(&meter.pick_up)?;
        self.faults.add(meter.faults.into_sums());
        self.planned.add(meter.planned);
        self.answered.add(meter.answered);
        self.responses.add(meter.responses);
        Ok(())
    }

    /// Adds a process that measured the same point.
    pub(crate) fn add_process(&mut self, other: Self) -> Result<(), HistogramError> {
        self.counts.add(&other.counts);
        for (mine, theirs) in self.mounts.iter_mut().zip(&other.mounts) {
            mine.add(theirs);
        }
        self.threads.extend(other.threads);
        self.network.add(&other.network);
        self.touched.0 += other.touched.0;
        self.touched.1 += other.touched.1;
        self.ended = self.ended.max(other.ended);
        self.add_operations(other.operations)?;
        self.population.add(&other.population);
        self.late.add(&other.late)?;
        self.pick_up.add(&other.pick_up)?;
        self.faults.add(other.faults);
        self.planned.add(other.planned);
        self.answered.add(other.answered);
        self.responses.add(other.responses);
        Ok(())
    }

    fn add_operations(&mut self, others: Vec<OperationFigures>) -> Result<(), HistogramError> {
        for (sum, one) in self.operations.iter_mut().zip(others) {
            sum.calls += one.calls;
            sum.ended += one.ended;
            sum.expected += one.expected;
            sum.measured += one.measured;
            sum.not_drawn += one.not_drawn;
            match (&mut sum.responses, one.responses) {
                (Some(sum), Some(one)) => sum.add(&one)?,
                (none, one) => *none = none.take().or(one),
            }
        }
        Ok(())
    }

    /// Whether both are parts of one point.
    pub(crate) fn belongs_to(&self, other: &Self) -> bool {
        self.schema == other.schema
            && self.times == other.times
            && self.part.of == other.part.of
            && self.mounts.len() == other.mounts.len()
            && self.operations.len() == other.operations.len()
            && self.planned.doublings() == 0
            && self.planned.interval_ns() == other.planned.interval_ns()
    }
}

//! What one thread measures: accounts, responses by operation, series.

use generator::{Accounts, Times};
use measure::{HistogramError, LatencyHistogram, Series, add_up};
use serde::{Deserialize, Serialize};

use crate::exchange::Moved;
use crate::fault::Faults;
use crate::operation::{OPERATIONS, Operation};
use crate::targets::Call;

/// How a thread's loop ended; the worst of several is the whole's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Ending {
    Complete,
    Stopped,
    /// Nothing was answered for too long.
    Silent,
}

impl Ending {
    /// As reports say it.
    pub const fn name(self) -> &'static str {
        match self {
            Ending::Complete => "complete",
            Ending::Stopped => "stopped",
            Ending::Silent => "silent",
        }
    }
}

/// Figures of one operation.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct OperationFigures {
    /// Calls made, the whole time.
    pub calls: u64,
    /// Calls that ended, the whole time, and those of them that ended as they ought to.
    pub ended: u64,
    pub expected: u64,
    /// Ended as they ought to, within the window.
    pub measured: u64,
    pub not_drawn: u64,
    pub responses: Option<Box<LatencyHistogram>>,
}

impl OperationFigures {
    fn add(&mut self, other: Self) -> Result<(), HistogramError> {
        add_up!(self, other; calls, ended, expected, measured, not_drawn);
        match (&mut self.responses, other.responses) {
            (Some(sum), Some(other)) => sum.add(&other)?,
            (none, other) => *none = none.take().or(other),
        }
        Ok(())
    }
}

/// Counts of the whole point, where nothing else is said.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Counts {
    /// Never answered, or never handed over, when the point ended.
    pub unanswered: u64,
    pub unsent: u64,
    /// Moved and looked at by what was answered within the window.
    pub read_bytes: u64,
    pub written_bytes: u64,
    pub verified_bytes: u64,
    /// WRITEs behind the end, answered within the window.
    pub appended: u64,
    pub verifier_changes: u64,
}

impl Counts {
    fn add(&mut self, other: &Self) {
        add_up!(
            self, other; unanswered, unsent, read_bytes, written_bytes, verified_bytes, appended,
            verifier_changes,
        );
    }
}

/// What adds up over threads and processes.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Measured {
    pub operations: Vec<OperationFigures>,
    pub accounts: Accounts,
    /// Most by which a reply lay there before it was taken, for each one taken in the window.
    pub pick_up: LatencyHistogram,
    pub planned: Series,
    pub answered: Series,
    /// Responses as bytes: their sum in each interval.
    pub responses: Series,
    pub counts: Counts,
}

impl Measured {
    pub fn new(times: Times, interval_ns: u64) -> Result<Self, HistogramError> {
        let series = || Series::new(times.start_ns, interval_ns);
        Ok(Measured {
            operations: vec![OperationFigures::default(); OPERATIONS],
            accounts: Accounts::new(times)?,
            pick_up: LatencyHistogram::new()?,
            planned: series(),
            answered: series(),
            responses: series(),
            counts: Counts::default(),
        })
    }

    pub fn add(&mut self, other: Self) -> Result<(), HistogramError> {
        for (sum, one) in self.operations.iter_mut().zip(other.operations) {
            sum.add(one)?;
        }
        self.accounts.add(&other.accounts)?;
        self.pick_up.add(&other.pick_up)?;
        self.planned.add(other.planned);
        self.answered.add(other.answered);
        self.responses.add(other.responses);
        self.counts.add(&other.counts);
        Ok(())
    }
}

/// Everything that one thread measures.
#[derive(Debug)]
pub(crate) struct Meter {
    pub sums: Measured,
    pub faults: Faults,
}

impl Meter {
    pub fn new(times: Times, interval_ns: u64) -> Result<Self, HistogramError> {
        Ok(Meter {
            sums: Measured::new(times, interval_ns)?,
            faults: Faults::default(),
        })
    }

    pub fn figures(&mut self, operation: Operation) -> Option<&mut OperationFigures> {
        self.sums.operations.get_mut(operation.index())
    }

    /// An arrival, whether it will be sent or not.
    #[inline]
    pub fn arrive(&mut self, planned_ns: u64) {
        self.sums.planned.record(planned_ns, 0);
        self.sums.accounts.arrive(planned_ns);
    }

    /// Replies taken at `at_ns` may have lain there for as long as this.
    #[inline]
    pub fn taken(&mut self, at_ns: u64, replies: u64, delay_ns: u64) {
        if self.sums.accounts.times.in_window(at_ns) {
            self.sums.pick_up.record_n(delay_ns.max(1), replies);
        }
    }

    /// An operation's reply was as it ought to be.
    #[inline]
    pub fn expected(
        &mut self,
        call: &Call,
        ended_ns: u64,
        moved: &Moved,
    ) -> Result<(), HistogramError> {
        let measured = self.sums.accounts.times.in_window(ended_ns);
        let response_ns = ended_ns.saturating_sub(call.planned_ns);
        let bytes = u64::from(moved.read) + u64::from(moved.written);
        self.sums.answered.record(ended_ns, bytes);
        self.sums.responses.record(ended_ns, response_ns);
        let Some(figures) = self.sums.operations.get_mut(call.operation.index()) else {
            return Ok(());
        };
        figures.expected += 1;
        if !measured {
            return Ok(());
        }
        figures.measured += 1;
        let histogram = match &mut figures.responses {
            Some(histogram) => histogram,
            none => none.insert(Box::new(LatencyHistogram::new()?)),
        };
        histogram.record(response_ns);
        self.sums.counts.read_bytes += u64::from(moved.read);
        self.sums.counts.written_bytes += u64::from(moved.written);
        self.sums.counts.verified_bytes += u64::from(moved.verified);
        self.sums.counts.appended += u64::from(call.appends);
        Ok(())
    }
}

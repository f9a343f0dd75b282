//! What threads measured, added up: those of one process, then those of several.
//!
//! Counts, histograms and Little's sums are integers: nothing is lost on the way.

use generator::{ThreadReport, Times};
use measure::HistogramError;
use serde::{Deserialize, Serialize};

use crate::fault::FaultSums;
use crate::meter::{Ending, Measured};
use crate::plan::{Part, SCHEMA};
use crate::prepare::Prepared;
use crate::report::{MountReport, Network};
use crate::worker::Done;

/// What one process measured, or several together.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Sums {
    schema: u32,
    pub(crate) part: Part,
    /// Of the process.
    pub(crate) pid: u32,
    pub(crate) realtime_ns: u64,
    pub(crate) measured: Measured,
    pub(crate) faults: FaultSums,
    pub(crate) network: Network,
    pub(crate) touched: (u64, u64),
    pub(crate) threads: Vec<ThreadReport>,
    pub(crate) mounts: Vec<MountReport>,
    pub(crate) ended: Ending,
}

impl Sums {
    pub(crate) fn new(
        prepared: &Prepared,
        (times, realtime_ns): (Times, u64),
        interval_ns: u64,
    ) -> Result<Self, HistogramError> {
        Ok(Sums {
            schema: SCHEMA,
            part: prepared.checked.plan.part,
            pid: std::process::id(),
            realtime_ns,
            measured: Measured::new(times, interval_ns)?,
            faults: FaultSums::default(),
            network: Network::default(),
            touched: (0, 0),
            threads: Vec::new(),
            mounts: prepared.mounts.iter().map(MountReport::of).collect(),
            ended: Ending::Complete,
        })
    }

    /// Adds a thread.
    pub(crate) fn add(&mut self, done: Done) -> Result<(), HistogramError> {
        if let Some(mount) = self.mounts.get_mut(done.mount) {
            mount.add_thread(&done);
        }
        self.threads.push(done.thread);
        self.network.add_counters(&done.counters);
        self.touched.0 += done.touched.0;
        self.touched.1 += done.touched.1;
        self.ended = self.ended.max(done.ending);
        self.faults.add(done.meter.faults.into_sums());
        self.measured.add(done.meter.sums)
    }

    /// Adds a process that measured the same point.
    pub(crate) fn add_process(&mut self, other: Self) -> Result<(), HistogramError> {
        for (mine, theirs) in self.mounts.iter_mut().zip(&other.mounts) {
            mine.add(theirs);
        }
        self.threads.extend(other.threads);
        self.network.add(&other.network);
        self.touched.0 += other.touched.0;
        self.touched.1 += other.touched.1;
        self.ended = self.ended.max(other.ended);
        self.faults.add(other.faults);
        self.measured.add(other.measured)
    }

    /// Whether both are parts of one point.
    pub(crate) fn belongs_to(&self, other: &Self) -> bool {
        let planned = &self.measured.planned;
        self.schema == other.schema
            && self.measured.accounts.times == other.measured.accounts.times
            && self.part.of == other.part.of
            && self.mounts.len() == other.mounts.len()
            && self.measured.operations.len() == other.measured.operations.len()
            && planned.doublings() == 0
            && planned.interval_ns() == other.measured.planned.interval_ns()
    }
}

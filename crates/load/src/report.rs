//! What a point gave. Field names are the contract.

pub use generator::{Little, Reason, ThreadReport};
use measure::{HistogramSummary, LatencyHistogram, add_up};
use serde::{Deserialize, Serialize};

use crate::fault::FaultCount;
use crate::meter::Ending;
use crate::plan::Plan;
use crate::prepare::PreparedMount;
use crate::worker::Done;

/// A measured point.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)]
pub struct Report {
    pub schema: u32,
    pub valid: bool,
    pub reasons: Vec<Reason>,
    pub flags: Vec<&'static str>,
    pub notes: Vec<String>,
    pub plan: Plan,
    pub mounts: Vec<MountReport>,
    pub ended: &'static str,
    pub start_monotonic_ns: u64,
    pub start_realtime_ns: u64,
    pub window_start_ns: u64,
    pub window_end_ns: u64,
    pub offered_ops_per_s: f64,
    pub achieved_ops_per_s: f64,
    pub arrivals: u64,
    pub answered: u64,
    pub not_sent: u64,
    pub not_sent_with_free_slots: u64,
    pub not_drawn: u64,
    pub left_at_window_end: u64,
    pub oldest_left_ns: u64,
    pub unanswered: u64,
    pub unsent: u64,
    pub response: HistogramSummary,
    pub late: HistogramSummary,
    pub pick_up: HistogramSummary,
    pub operations: Vec<OperationReport>,
    pub outstanding_mean: f64,
    pub little: Little,
    pub touched: Touched,
    pub read_bytes: u64,
    pub written_bytes: u64,
    /// Of the WRITEs answered in the window, those behind the end; `None` without WRITEs.
    pub append_share: Option<f64>,
    pub verified_bytes: u64,
    pub verifier_changes: u64,
    pub unexpected: Vec<FaultCount>,
    pub first_unexpected: Option<String>,
    pub network: Network,
    pub threads: Vec<ThreadReport>,
    pub processes: Vec<ProcessReport>,
    pub series: SeriesColumns,
    /// The histograms themselves: `all`, `late`, and each operation's.
    #[serde(skip)]
    pub histograms: Vec<(&'static str, LatencyHistogram)>,
}

/// One mount: what was asked for and what is in effect; calls over the whole point, `answered`
/// in the window; `silent` if it went away.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct MountReport {
    pub server: String,
    pub options: String,
    pub files_found: u64,
    pub files_made: u64,
    pub calls: u64,
    pub ended: u64,
    pub answered: u64,
    pub silent: bool,
}

/// One operation; responses within the window, the other counts over the whole point.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)]
pub struct OperationReport {
    pub operation: &'static str,
    pub share: f64,
    pub calls: u64,
    pub ended: u64,
    pub unexpected: u64,
    pub answered: u64,
    pub not_drawn: u64,
    pub response: HistogramSummary,
}

/// What of the file set was really worked on by READ and WRITE.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[allow(missing_docs)]
pub struct Touched {
    pub files: u64,
    pub bytes: u64,
    pub accessed_files: u64,
    pub accessed_bytes: u64,
    pub set_files: u64,
    pub set_bytes: u64,
}

/// What the engines counted over the whole point.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Network {
    pub sends: u64,
    pub retransmissions: u64,
    pub major_timeouts: u64,
    pub bytes_out: u64,
    pub bytes_in: u64,
    pub send_calls: u64,
    pub receive_calls: u64,
    pub connects: u64,
    pub disconnects: u64,
    pub late_replies: u64,
    pub unknown_replies: u64,
    pub malformed_replies: u64,
    pub framing_errors: u64,
}

/// One generator process: its share of the load, and what the guard has against it.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)]
pub struct ProcessReport {
    pub process: u32,
    pub pid: u32,
    pub offered_ops_per_s: f64,
    pub arrivals: u64,
    pub answered: u64,
    pub calls: u64,
    pub late_p99_ns: Option<u64>,
    pub cpu_ns: u64,
    pub ended: &'static str,
    pub reasons: Vec<Reason>,
}

/// Per interval from the load's start, warm-up included.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[allow(missing_docs)]
pub struct SeriesColumns {
    pub start_ns: u64,
    pub interval_ns: u64,
    pub planned: Vec<u64>,
    pub answered: Vec<u64>,
    pub bytes: Vec<u64>,
    pub response_sum_ns: Vec<u64>,
}

impl MountReport {
    pub(crate) fn of(mount: &PreparedMount) -> Self {
        MountReport {
            server: mount.server.clone(),
            options: mount.options.to_text(),
            files_found: mount.found,
            files_made: mount.made,
            calls: 0,
            ended: 0,
            answered: 0,
            silent: false,
        }
    }

    pub(crate) fn add_thread(&mut self, done: &Done) {
        for figures in &done.meter.sums.operations {
            self.calls += figures.calls;
            self.ended += figures.ended;
            self.answered += figures.measured;
        }
        self.silent |= done.ending == Ending::Silent;
    }

    /// Adds what another process did there; the files are those that the first one tells.
    pub(crate) fn add(&mut self, other: &Self) {
        add_up!(self, other; calls, ended, answered);
        self.silent |= other.silent;
    }
}

impl Network {
    pub(crate) fn add_counters(&mut self, counters: &client::record::Counters) {
        self.add(&Network {
            sends: counters.sends,
            retransmissions: counters.retransmissions,
            major_timeouts: counters.major_timeouts,
            bytes_out: counters.bytes_out,
            bytes_in: counters.bytes_in,
            send_calls: counters.writes,
            receive_calls: counters.reads,
            connects: counters.connects,
            disconnects: counters.disconnects,
            late_replies: counters.late_replies,
            unknown_replies: counters.unknown_replies,
            malformed_replies: counters.malformed_replies,
            framing_errors: counters.framing_errors,
        });
    }

    pub(crate) fn add(&mut self, other: &Self) {
        add_up!(
            self, other; sends, retransmissions, major_timeouts, bytes_out, bytes_in, send_calls,
            receive_calls, connects, disconnects, late_replies, unknown_replies, malformed_replies,
            framing_errors,
        );
    }
}

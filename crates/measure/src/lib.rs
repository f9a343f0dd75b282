//! What a timed loop needs: a clock, a latency histogram, a throughput series, random numbers and
//! values that are drawn by weight.
//!
//! Purpose: one place for measuring, so that every workload reads the same clock and reports
//! latencies with the same error bound.
//!
//! Flow: a worker owns one [`LatencyHistogram`] and one [`Series`], feeds both with one clock
//! reading per operation, and hands them over when it ends; the coordinator adds them up.
//!
//! Decisions: time is integer nanoseconds of `CLOCK_MONOTONIC`, the clock of Python's
//! `time.monotonic_ns`, so evidence of different sources lies on one axis. The clock is a trait,
//! so that tests set the time. Values that a histogram cannot hold are counted apart, never moved
//! to its edge.
//!
//! Limits: a histogram holds 1 ns to 1 h ([`HIGHEST_NS`]); a series at most
//! [`series::MAX_BUCKETS`] buckets, then neighbours are merged and the series says so.

/// Adds these fields of one record to those of another.
#[macro_export]
macro_rules! add_up {
    ($to:expr, $from:expr; $($field:ident),+ $(,)?) => {
        $($to.$field += $from.$field;)+
    };
}

pub mod by_file;
pub mod clock;
pub mod hdr_v2;
pub mod histogram;
pub mod peer;
pub mod random;
pub mod series;
mod summary;
pub mod thread;
mod transfer;
pub mod weights;

pub use by_file::{ByFile, DataCall, FileCounts};
pub use clock::{Clock, ManualClock, MonotonicClock, RunDelay, ThreadUsage, share};
pub use hdr_v2::HistogramError;
pub use histogram::{HIGHEST_NS, LOWEST_NS, LatencyHistogram};
pub use random::Random;
pub use series::Series;
pub use summary::HistogramSummary;

//! A histogram as results carry it: exact figures, some quantiles, and all buckets as V2 bytes.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;

use crate::{HistogramError, LatencyHistogram};

/// Serialisable form of a [`LatencyHistogram`]; `None` values where nothing was recorded.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HistogramSummary {
    /// Latencies in range.
    pub count: u64,
    /// Values below the range: counted, in no other figure.
    pub below: u64,
    /// Values above the range: counted, in no other figure.
    pub above: u64,
    /// Lowest latency.
    pub min_ns: Option<u64>,
    /// Highest latency.
    pub max_ns: Option<u64>,
    /// Arithmetic mean.
    pub mean_ns: Option<f64>,
    /// Standard deviation of the population.
    pub stdev_ns: Option<f64>,
    /// Median; like all quantiles at most `relative_error` above the true value.
    pub p50_ns: Option<u64>,
    /// 0.9 quantile.
    pub p90_ns: Option<u64>,
    /// 0.99 quantile.
    pub p99_ns: Option<u64>,
    /// 0.999 quantile.
    pub p999_ns: Option<u64>,
    /// Bound on the relative error of quantiles (upwards).
    pub relative_error: f64,
    /// HdrHistogram V2 compressed bytes in base64.
    pub v2_base64: String,
}

impl HistogramSummary {
    /// Sums up `histogram`.
    ///
    /// # Errors
    /// [`HistogramError`] if it cannot be encoded.
    pub fn of(histogram: &LatencyHistogram) -> Result<Self, HistogramError> {
        Ok(Self {
            count: histogram.count(),
            below: histogram.below(),
            above: histogram.above(),
            min_ns: histogram.min_ns(),
            max_ns: histogram.max_ns(),
            mean_ns: histogram.mean_ns(),
            stdev_ns: histogram.stdev_ns(),
            p50_ns: histogram.quantile_ns(0.5)?,
            p90_ns: histogram.quantile_ns(0.9)?,
            p99_ns: histogram.quantile_ns(0.99)?,
            p999_ns: histogram.quantile_ns(0.999)?,
            relative_error: 10_f64.powi(-i32::from(histogram.digits())),
            v2_base64: STANDARD.encode(histogram.to_v2()?),
        })
    }
}

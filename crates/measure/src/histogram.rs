//! Latency histogram: HdrHistogram buckets plus exact count, extremes and moments.
//!
//! Buckets hold 1 ns to 1 h with a fixed number of significant digits (3 by default: a quantile is
//! at most 0.1 % above the true value). Values outside are counted apart
//! ([`LatencyHistogram::below`] and [`LatencyHistogram::above`]) and are part of no other figure.
//! Minimum, maximum, sum and sum
//! of squares are kept beside the buckets, so that mean and deviation carry no bucket error; after
//! reading a histogram from bytes only buckets are known and [`LatencyHistogram::exact`] says so.

use hdrhistogram::Histogram;

use crate::hdr_v2::{self, HistogramError};
use crate::transfer::Parts;

/// Lowest latency a histogram holds. A latency of 0 ns is not a measurement.
pub const LOWEST_NS: u64 = 1;

/// Highest latency a histogram holds: one hour.
pub const HIGHEST_NS: u64 = 3_600_000_000_000;

/// Significant digits when nothing else is asked for.
pub const DEFAULT_DIGITS: u8 = 3;

/// Distribution of latencies in nanoseconds.
#[derive(Debug, Clone)]
pub struct LatencyHistogram {
    buckets: Histogram<u64>,
    below: u64,
    above: u64,
    min_ns: u64,
    max_ns: u64,
    sum_ns: u128,
    sum_squares: u128,
    exact: bool,
}

impl LatencyHistogram {
    /// An empty histogram with [`DEFAULT_DIGITS`] for latencies of 1 ns to 1 h.
    ///
    /// # Errors
    /// Never for the constants above; the error is the crate's own for wrong bounds.
    pub fn new() -> Result<Self, HistogramError> {
        Self::with_digits(DEFAULT_DIGITS)
    }

    /// An empty histogram with `digits` significant digits.
    ///
    /// # Errors
    /// [`HistogramError::Digits`] unless `digits` is 1 to 5 (HdrHistogram's own limit).
    pub fn with_digits(digits: u8) -> Result<Self, HistogramError> {
        if !(1..=hdr_v2::MAX_DIGITS).contains(&digits) {
            return Err(HistogramError::Digits {
                digits: u32::from(digits),
            });
        }
        let buckets = Histogram::new_with_bounds(LOWEST_NS, HIGHEST_NS, digits).map_err(|_| {
            HistogramError::Digits {
                digits: u32::from(digits),
            }
        })?;
        Ok(Self::around(buckets, true))
    }

    const fn around(buckets: Histogram<u64>, exact: bool) -> Self {
        Self {
            buckets,
            below: 0,
            above: 0,
            min_ns: u64::MAX,
            max_ns: 0,
            sum_ns: 0,
            sum_squares: 0,
            exact,
        }
    }

    /// Records one latency. Allocates nothing; some nanoseconds.
    #[inline]
    pub fn record(&mut self, latency_ns: u64) {
        self.record_n(latency_ns, 1);
    }

    /// Records `count` latencies that are alike.
    #[inline]
    pub fn record_n(&mut self, latency_ns: u64, count: u64) {
        if latency_ns < LOWEST_NS {
            self.below += count;
        } else if latency_ns > HIGHEST_NS || self.buckets.record_n(latency_ns, count).is_err() {
            self.above += count;
        } else if count > 0 {
            self.min_ns = self.min_ns.min(latency_ns);
            self.max_ns = self.max_ns.max(latency_ns);
            self.sum_ns += u128::from(latency_ns) * u128::from(count);
            self.sum_squares += u128::from(latency_ns).pow(2) * u128::from(count);
        }
    }

    /// Records a signed latency; a negative one is counted in [`Self::below`].
    pub fn record_signed(&mut self, latency_ns: i64) {
        self.record(u64::try_from(latency_ns).unwrap_or(0));
    }

    /// Adds all of `other`.
    ///
    /// # Errors
    /// [`HistogramError::Digits`] if both differ in digits: the sum would have an unclear error
    /// bound. [`HistogramError::Full`] if counts would pass 2^63.
    pub fn add(&mut self, other: &Self) -> Result<(), HistogramError> {
        if self.digits() != other.digits() {
            return Err(HistogramError::Digits {
                digits: u32::from(other.digits()),
            });
        }
        let room = hdr_v2::MAX_COUNT.saturating_sub(self.count());
        if other.count() > room {
            return Err(HistogramError::Full);
        }
        let sum_squares = self.sum_squares.checked_add(other.sum_squares);
        let sum_squares = sum_squares.ok_or(HistogramError::Full)?;
        self.buckets
            .add(&other.buckets)
            .map_err(|_| HistogramError::Full)?;
        self.below = self.below.saturating_add(other.below);
        self.above = self.above.saturating_add(other.above);
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
        self.sum_ns += other.sum_ns;
        self.sum_squares = sum_squares;
        self.exact &= other.exact;
        Ok(())
    }

    /// Latencies within range.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.len()
    }

    /// Values below [`LOWEST_NS`] (zero or negative): counted, in no other figure.
    #[must_use]
    pub const fn below(&self) -> u64 {
        self.below
    }

    /// Values above [`HIGHEST_NS`]: counted, in no other figure.
    #[must_use]
    pub const fn above(&self) -> u64 {
        self.above
    }

    /// Whether extremes, mean and deviation come from the values themselves, not from buckets.
    #[must_use]
    pub const fn exact(&self) -> bool {
        self.exact
    }

    /// Significant digits of the buckets.
    #[must_use]
    pub fn digits(&self) -> u8 {
        self.buckets.sigfig()
    }

    /// Lowest latency, if any was recorded.
    #[must_use]
    pub fn min_ns(&self) -> Option<u64> {
        let value = if self.exact {
            self.min_ns
        } else {
            self.buckets.min()
        };
        (self.count() > 0).then_some(value)
    }

    /// Highest latency, if any was recorded.
    #[must_use]
    pub fn max_ns(&self) -> Option<u64> {
        let value = if self.exact {
            self.max_ns
        } else {
            self.buckets.max()
        };
        (self.count() > 0).then_some(value)
    }

    /// Arithmetic mean in nanoseconds, if any latency was recorded.
    #[must_use]
    pub fn mean_ns(&self) -> Option<f64> {
        if self.count() == 0 {
            None
        } else if self.exact {
            Some(to_f64(self.sum_ns) / to_f64(u128::from(self.count())))
        } else {
            Some(self.buckets.mean())
        }
    }

    /// Standard deviation of the population in nanoseconds, if any latency was recorded.
    #[must_use]
    pub fn stdev_ns(&self) -> Option<f64> {
        let count = u128::from(self.count());
        if count == 0 {
            return None;
        }
        if !self.exact {
            return Some(self.buckets.stdev());
        }
        // In integers n * sum(x^2) - sum(x)^2 loses nothing; floats are the way out when it
        // does not fit, some 10^19 squared nanoseconds away from zero.
        let spread = match (
            count.checked_mul(self.sum_squares),
            self.sum_ns.checked_mul(self.sum_ns),
        ) {
            (Some(left), Some(right)) => to_f64(left - right),
            _ => to_f64(count) * to_f64(self.sum_squares) - to_f64(self.sum_ns).powi(2),
        };
        Some(spread.max(0.0).sqrt() / to_f64(count))
    }

    /// The latency that a share `quantile` (0..1) of all stays at or below, if any was recorded.
    ///
    /// Nearest rank; the answer is the upper edge of its bucket, so at most a relative
    /// 10^-digits above the true value, and never above the highest recorded value.
    ///
    /// # Errors
    /// [`HistogramError::Quantile`] unless `quantile` lies in 0..=1.
    pub fn quantile_ns(&self, quantile: f64) -> Result<Option<u64>, HistogramError> {
        if !(0.0..=1.0).contains(&quantile) {
            return Err(HistogramError::Quantile { quantile });
        }
        let Some(max_ns) = self.max_ns() else {
            return Ok(None);
        };
        if quantile == 0.0 {
            return Ok(self.min_ns()); // the library gives the lower edge of its bucket
        }
        Ok(Some(self.buckets.value_at_quantile(quantile).min(max_ns)))
    }

    /// Buckets that hold anything, ascending: lowest value, highest value, count.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        self.buckets.iter_recorded().map(|bucket| {
            let high = bucket.value_iterated_to();
            let low = self.buckets.lowest_equivalent(high);
            (
                low,
                self.buckets.highest_equivalent(high),
                bucket.count_at_value(),
            )
        })
    }

    /// HdrHistogram V2 format, compressed: what other HdrHistogram libraries read.
    ///
    /// Buckets only: values out of range and exact moments are not part of the format.
    ///
    /// # Errors
    /// [`HistogramError::Encode`] if the library cannot write it.
    pub fn to_v2(&self) -> Result<Vec<u8>, HistogramError> {
        hdr_v2::encode(&self.buckets)
    }

    /// Reads HdrHistogram V2 bytes, compressed or not, of any origin.
    ///
    /// # Errors
    /// [`HistogramError`] for anything that is no histogram, is too large, or holds values that
    /// this type cannot.
    pub fn from_v2(bytes: &[u8]) -> Result<Self, HistogramError> {
        let decoded = hdr_v2::decode(bytes)?;
        let mut histogram = Self::with_digits(decoded.sigfig())?;
        histogram.exact = false;
        for bucket in decoded.iter_recorded() {
            let value = bucket.value_iterated_to();
            let (low, high) = (
                decoded.lowest_equivalent(value),
                decoded.highest_equivalent(value),
            );
            let count = bucket.count_at_value();
            if high < LOWEST_NS {
                histogram.below += count;
            } else if low > HIGHEST_NS {
                histogram.above += count;
            } else {
                // The upper edge, as quantiles do: a coarser writer's values are not made smaller.
                let edge = high.min(HIGHEST_NS);
                histogram
                    .buckets
                    .record_n(edge, count)
                    .map_err(|_| HistogramError::Full)?;
            }
        }
        Ok(histogram)
    }

    /// All but the buckets, beside these.
    pub(crate) fn parts(&self, v2_base64: String) -> Parts {
        Parts {
            below: self.below,
            above: self.above,
            min_ns: self.min_ns,
            max_ns: self.max_ns,
            sum_ns: self.sum_ns,
            sum_squares: self.sum_squares,
            exact: self.exact,
            v2_base64,
        }
    }

    /// With the exact figures that were sent beside the buckets; refused if they cannot be theirs.
    pub(crate) fn with_parts(mut self, parts: &Parts) -> Result<Self, HistogramError> {
        let wrong = |field, value: u128| HistogramError::Header {
            field,
            value: value.to_string(),
        };
        (self.below, self.above) = (parts.below, parts.above);
        if !parts.exact {
            return Ok(self);
        }
        // Extremes lie in the first and the last bucket, sums between those of its edges.
        let (mut sums, mut squares) = ((0_u128, 0_u128), (0_u128, 0_u128));
        for (lowest, highest, count) in self.buckets() {
            let [lowest, highest, count] = [lowest, highest, count].map(u128::from);
            sums = (sums.0 + lowest * count, sums.1 + highest * count);
            let more = |to: u128, edge: u128| (edge * edge).checked_mul(count)?.checked_add(to);
            squares = more(squares.0, lowest)
                .zip(more(squares.1, highest))
                .ok_or(HistogramError::Full)?;
        }
        let same = |one, other| self.buckets.equivalent(one, other);
        let (lowest, highest) = match self.count() {
            0 => (parts.min_ns == u64::MAX, parts.max_ns == 0),
            _ => (
                same(parts.min_ns, self.buckets.min()),
                same(parts.max_ns, self.buckets.max()),
            ),
        };
        if !lowest {
            return Err(wrong("min_ns", u128::from(parts.min_ns)));
        }
        if !highest {
            return Err(wrong("max_ns", u128::from(parts.max_ns)));
        }
        if !(sums.0..=sums.1).contains(&parts.sum_ns) {
            return Err(wrong("sum_ns", parts.sum_ns));
        }
        // No variance is below 0.
        let count = u128::from(self.count());
        let spread = count.checked_mul(parts.sum_squares);
        let spread = spread.zip(parts.sum_ns.checked_mul(parts.sum_ns));
        let is_less = spread.is_some_and(|(squares, square)| squares < square);
        if is_less || !(squares.0..=squares.1).contains(&parts.sum_squares) {
            return Err(wrong("sum_squares", parts.sum_squares));
        }
        (self.min_ns, self.max_ns) = (parts.min_ns, parts.max_ns);
        (self.sum_ns, self.sum_squares) = (parts.sum_ns, parts.sum_squares);
        self.exact = true;
        Ok(self)
    }
}

/// Nearest float of a count or sum; above 2^53 the relative error is 2^-53.
#[allow(clippy::cast_precision_loss)]
const fn to_f64(value: u128) -> f64 {
    value as f64
}

//! Latencies of one row of a table: exact count, extremes and mean, quantiles from a histogram.
//!
//! Zero is a latency here (a capture in microseconds shows it on a fast network); it is counted
//! beside the histogram, which begins at 1 ns, and takes its ranks in the quantiles. A negative
//! latency comes of a capture whose frames are out of order: it is counted, is part of minimum and
//! mean, and has no place in the quantiles. Nothing is clamped.

use measure::histogram::LatencyHistogram;
use serde_json::{Value, json};

/// Quantiles of the tables, in thousandths: the contract's `p50`, `p90`, `p99`, `p999`.
pub const QUANTILES: [(&str, u64); 4] = [("p50", 500), ("p90", 900), ("p99", 990), ("p999", 999)];

/// Parts of an octave in the histograms that go to reports.
const PARTS: u64 = 16;

/// Latencies of one row.
#[derive(Clone, Debug)]
pub struct Latencies {
    count: u64,
    negative: u64,
    zeros: u64,
    sum_ns: i128,
    min_ns: i64,
    max_ns: i64,
    digits: u8,
    /// Made with the first latency: many rows never have one.
    histogram: Option<Box<LatencyHistogram>>,
}

impl Latencies {
    /// None yet; `digits` significant digits of the quantiles (1 to 5).
    pub fn new(digits: u8) -> Self {
        Latencies {
            count: 0,
            negative: 0,
            zeros: 0,
            sum_ns: 0,
            min_ns: i64::MAX,
            max_ns: i64::MIN,
            digits,
            histogram: None,
        }
    }

    /// Counts one.
    #[inline]
    pub fn record(&mut self, latency_ns: i64) {
        self.count += 1;
        self.sum_ns += i128::from(latency_ns);
        self.min_ns = self.min_ns.min(latency_ns);
        self.max_ns = self.max_ns.max(latency_ns);
        if latency_ns > 0 {
            match &mut self.histogram {
                Some(histogram) => histogram.record(latency_ns.unsigned_abs()),
                None => self.first(latency_ns.unsigned_abs()),
            }
        } else if latency_ns < 0 {
            self.negative += 1;
        } else {
            self.zeros += 1;
        }
    }

    #[cold]
    fn first(&mut self, latency_ns: u64) {
        // It fails for wrong digits only; quantiles are then null.
        if let Ok(mut histogram) = LatencyHistogram::with_digits(self.digits) {
            histogram.record(latency_ns);
            self.histogram = Some(Box::new(histogram));
        }
    }

    /// Adds all of `other`; without the same digits there are no quantiles of the sum.
    pub fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.negative += other.negative;
        self.zeros += other.zeros;
        self.sum_ns += other.sum_ns;
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
        match (&mut self.histogram, &other.histogram) {
            // A failure leaves the histogram short of latencies: quantiles are null then.
            (Some(mine), Some(theirs)) => drop(mine.add(theirs)),
            (None, Some(_)) => self.histogram.clone_from(&other.histogram),
            (_, None) => {}
        }
    }

    /// Latencies recorded.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Those below zero.
    pub fn negative(&self) -> u64 {
        self.negative
    }

    /// Sum of all, nanoseconds.
    pub fn sum_ns(&self) -> i128 {
        self.sum_ns
    }

    /// Arithmetic mean of all, to the nearest nanosecond.
    pub fn mean_ns(&self) -> Option<i64> {
        mean_ns(self.sum_ns, self.count)
    }

    /// Largest error of a quantile, relative to the true one (it is never too low).
    pub fn relative_error(&self) -> f64 {
        10f64.powi(-i32::from(self.digits))
    }

    /// Recorded values in the histogram, zeros, and those above its range.
    fn parts(&self) -> (u64, u64, u64) {
        let held = self.histogram.as_ref().map_or(0, |h| h.count());
        let above = self.histogram.as_ref().map_or(0, |h| h.above());
        (held, self.zeros, above)
    }

    /// The latency that `thousandths` of all that are not negative stay at or below (nearest rank).
    pub fn quantile_ns(&self, thousandths: u64) -> Option<i64> {
        let (held, zeros, above) = self.parts();
        let ranked = held + zeros + above;
        if ranked == 0 || ranked != self.count - self.negative {
            return None;
        }
        let rank = rank(ranked, thousandths);
        if rank <= zeros {
            return Some(0);
        }
        if rank > zeros + held {
            return Some(self.max_ns); // above an hour: not in the histogram, the maximum is a bound
        }
        // The middle of the rank's share: the library rounds up to the rank itself.
        #[allow(clippy::cast_precision_loss)]
        let quantile = ((rank - zeros) as f64 - 0.5) / held as f64;
        let value = self.histogram.as_ref()?.quantile_ns(quantile).ok()??;
        i64::try_from(value).ok()
    }

    /// `{min, mean, p50, p90, p99, p999, max}`, null if there are none.
    pub fn json(&self) -> Value {
        if self.count == 0 {
            return Value::Null;
        }
        let mut object = json!({
            "min": self.min_ns,
            "mean": self.mean_ns(),
            "max": self.max_ns,
        });
        for (name, thousandths) in QUANTILES {
            object[name] = json!(self.quantile_ns(thousandths));
        }
        object
    }

    /// `[[from, below, count], ...]` with at most 16 parts an octave; negative ones are left out,
    /// those above an hour are one last part.
    pub fn histogram_json(&self) -> Value {
        let mut parts: Vec<(u64, u64, u64)> = Vec::new();
        if self.zeros > 0 {
            parts.push((0, 1, self.zeros));
        }
        let Some(histogram) = &self.histogram else {
            return json!(parts);
        };
        for (low, _, count) in histogram.buckets() {
            let (from, below) = part(low);
            match parts.last_mut() {
                Some(last) if last.0 == from => last.2 += count,
                _ => parts.push((from, below, count)),
            }
        }
        if histogram.above() > 0 {
            let from = measure::histogram::HIGHEST_NS + 1;
            parts.push((from, self.max_ns.unsigned_abs() + 1, histogram.above()));
        }
        json!(parts)
    }
}

/// Nearest rank, from 1, of a quantile in thousandths.
pub fn rank(count: u64, thousandths: u64) -> u64 {
    let rank = (u128::from(count) * u128::from(thousandths)).div_ceil(1000);
    u64::try_from(rank).unwrap_or(count).max(1)
}

/// Mean to the nearest nanosecond, half away from zero.
pub fn mean_ns(sum_ns: i128, count: u64) -> Option<i64> {
    let count = i128::from(count);
    if count == 0 {
        return None;
    }
    let half = if sum_ns < 0 { -(count / 2) } else { count / 2 };
    i64::try_from((sum_ns + half) / count).ok()
}

/// The part of an octave that a value lies in: its lower edge and the next part's.
fn part(value: u64) -> (u64, u64) {
    let width = (1u64 << value.max(1).ilog2()) / PARTS;
    let width = width.max(1);
    let from = value / width * width;
    (from, from + width)
}

//! A histogram of durations whose buckets widen with the value, small enough to have many of.
//!
//! Each power of two is cut into `2^BITS` buckets of one width, so that a quantile is off by at
//! most half of `2^-BITS` of its value; values below `2^BITS` are exact. Smallest, largest, count
//! and sum are exact. Negative durations (a disordered capture, a network figure larger than the
//! time it is taken from) have buckets of their own: they are kept, not clamped.

use serde_json::{Value, json};

/// The bucket of a value where each power of two is cut into `2^bits`.
#[inline(always)]
pub fn bucket(value: u64, bits: u32) -> usize {
    // Values of fewer bits have one bucket each; shifting a bit in makes them no special case.
    let octave = 63 - bits - (value | 1 << bits).leading_zeros();
    ((octave << bits) as u64 + (value >> octave)) as usize
}

/// Smallest value of a bucket.
pub fn lower(place: usize, bits: u32) -> u64 {
    let octave = (place as u64 >> bits).saturating_sub(1);
    (place as u64 - (octave << bits)) << octave
}

/// Durations, in nanoseconds; nothing is allocated before the first value.
#[derive(Clone, Debug, Default)]
pub struct LogHistogram<const BITS: u32> {
    counts: Vec<u64>,
    sums: Vec<u64>,
    below: Vec<u64>,
    negative: u64,
    count: u64,
    sum: i128,
    min: i64,
    max: i64,
}

impl<const BITS: u32> LogHistogram<BITS> {
    #[inline(always)]
    fn bucket(value: u64) -> usize {
        bucket(value, BITS)
    }

    /// Smallest value of a bucket.
    fn lower(place: usize) -> u64 {
        lower(place, BITS)
    }

    /// Adds one value.
    #[inline(always)]
    pub fn record(&mut self, value: i64) {
        let counts = if value < 0 {
            self.negative += 1;
            &mut self.below
        } else {
            &mut self.counts
        };
        let bucket = Self::bucket(value.unsigned_abs());
        if bucket >= counts.len() {
            // At most 64 << BITS, since values have 64 bits.
            counts.resize(bucket + 1, 0);
        }
        counts[bucket] += 1;
        if self.count == 0 || value < self.min {
            self.min = value;
        }
        if self.count == 0 || value > self.max {
            self.max = value;
        }
        self.count += 1;
        self.sum += i128::from(value);
    }

    /// Adds one value, and adds it to the sum of its bucket: see [`LogHistogram::from`].
    pub fn record_with_sum(&mut self, value: i64) {
        self.record(value);
        let bucket = Self::bucket(value.max(0).unsigned_abs());
        if bucket >= self.sums.len() {
            self.sums.resize(bucket + 1, 0);
        }
        self.sums[bucket] = self.sums[bucket].saturating_add(value.max(0).unsigned_abs());
    }

    /// Adds all values of another one.
    pub fn add_all(&mut self, other: &Self) {
        let lists = [
            (&mut self.counts, &other.counts),
            (&mut self.sums, &other.sums),
            (&mut self.below, &other.below),
        ];
        for (mine, theirs) in lists {
            mine.resize(mine.len().max(theirs.len()), 0);
            for (sum, more) in mine.iter_mut().zip(theirs) {
                *sum = sum.saturating_add(*more);
            }
        }
        if other.count > 0 {
            (self.min, self.max) = match self.count {
                0 => (other.min, other.max),
                _ => (self.min.min(other.min), self.max.max(other.max)),
            };
        }
        self.negative += other.negative;
        self.count += other.count;
        self.sum += other.sum;
    }

    /// Count and sum of the values of `limit` and more, exact if `limit` is a bound of a bucket
    /// ([`LogHistogram::bound_at_least`]) and values came by [`LogHistogram::record_with_sum`].
    pub fn from(&self, limit: u64) -> (u64, u64) {
        let first = Self::bucket(limit);
        let count = self.counts.iter().skip(first).sum();
        (
            count,
            self.sums
                .iter()
                .skip(first)
                .fold(0, |a, b| a.saturating_add(*b)),
        )
    }

    /// The smallest bucket's bound that is not below `value`.
    pub fn bound_at_least(value: u64) -> u64 {
        let lower = Self::lower(Self::bucket(value));
        if lower >= value {
            lower
        } else {
            Self::lower(Self::bucket(value) + 1)
        }
    }

    /// Values recorded.
    #[inline(always)]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Values below zero.
    pub fn negative(&self) -> u64 {
        self.negative
    }

    /// Sum of all values.
    pub fn sum(&self) -> i128 {
        self.sum
    }

    /// Mean; `None` if empty.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// The value that `quantile` (0 to 1) of the values do not exceed, by the nearest rank and to
    /// the middle of its bucket; `None` if empty.
    pub fn quantile(&self, quantile: f64) -> Option<i64> {
        if self.count == 0 {
            return None;
        }
        let rank = (quantile * self.count as f64)
            .ceil()
            .clamp(1.0, self.count as f64) as u64;
        if rank == self.count {
            return Some(self.max);
        }
        let mut seen = 0;
        for (bucket, &count) in self.below.iter().enumerate().rev() {
            seen += count;
            if seen >= rank {
                return Some((-Self::middle(bucket)).clamp(self.min, self.max));
            }
        }
        for (bucket, &count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return Some(Self::middle(bucket).clamp(self.min, self.max));
            }
        }
        Some(self.max)
    }

    fn middle(bucket: usize) -> i64 {
        let (from, to) = (Self::lower(bucket), Self::lower(bucket + 1) - 1);
        i64::try_from(from + (to - from) / 2).unwrap_or(i64::MAX)
    }

    /// `count, min, mean, p50, p90, p99, p999, max`; null if empty.
    pub fn json(&self) -> Value {
        if self.count == 0 {
            return Value::Null;
        }
        json!({
            "count": self.count,
            "min": self.min,
            "mean": self.mean().map(|mean| mean.round() as i64),
            "p50": self.quantile(0.5),
            "p90": self.quantile(0.9),
            "p99": self.quantile(0.99),
            "p999": self.quantile(0.999),
            "max": self.max,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_have_no_gap_and_no_overlap() {
        for bucket in 0..(58 << 3) {
            let lower = LogHistogram::<3>::lower(bucket);
            assert_eq!(LogHistogram::<3>::bucket(lower), bucket);
            let next = LogHistogram::<3>::lower(bucket + 1);
            assert!(next > lower);
            assert_eq!(LogHistogram::<3>::bucket(next - 1), bucket);
        }
        assert_eq!(LogHistogram::<3>::bucket(u64::MAX), (61 << 3) + 7);
    }

    #[test]
    fn quantiles_are_within_the_stated_error() {
        let mut histogram = LogHistogram::<5>::default();
        let values: Vec<i64> = (1..=10_000).map(|i| i * i * 37).collect();
        values.iter().for_each(|&value| histogram.record(value));
        for quantile in [0.01, 0.5, 0.9, 0.99, 0.999] {
            let exact = values[(quantile * 10_000_f64).ceil() as usize - 1] as f64;
            let found = histogram.quantile(quantile).unwrap() as f64;
            assert!(
                (found / exact - 1.0).abs() <= 1.0 / 64.0,
                "{quantile}: {found} {exact}"
            );
        }
        assert_eq!(histogram.quantile(1.0), values.last().copied());
        assert_eq!(histogram.sum(), values.iter().map(|&v| i128::from(v)).sum());
    }

    #[test]
    fn negative_values_take_their_place() {
        let mut histogram = LogHistogram::<5>::default();
        [-1000, -10, 5, 7]
            .iter()
            .for_each(|&value| histogram.record(value));
        assert_eq!((histogram.negative(), histogram.mean()), (2, Some(-249.5)));
        assert_eq!(histogram.quantile(0.5), Some(-10));
        assert_eq!(histogram.quantile(0.75), Some(5));
        assert!((-1000..=-984).contains(&histogram.quantile(0.25).unwrap()));
        for value in [i64::MIN, i64::MAX, 0] {
            histogram.record(value);
        }
        assert_eq!(histogram.count(), 7);
    }

    #[test]
    fn counts_and_sums_above_a_bound_are_exact() {
        let mut histogram = LogHistogram::<2>::default();
        let values = [10, 60, 64, 70, 1000, 79];
        values
            .iter()
            .for_each(|&value| histogram.record_with_sum(value));
        let bound = LogHistogram::<2>::bound_at_least(61);
        assert_eq!(bound, 64);
        assert_eq!(histogram.from(bound), (4, 64 + 70 + 1000 + 79));
        assert_eq!(LogHistogram::<2>::bound_at_least(64), 64);
    }
}

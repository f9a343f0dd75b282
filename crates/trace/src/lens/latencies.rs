//! Latencies of one row of a table: exact count, extremes and mean, quantiles from a histogram.
//!
//! Zero is a latency here (a capture in microseconds shows it on a fast network); it is counted
//! beside the histogram, which begins at 1 ns, and takes its ranks in the quantiles. A negative
//! latency comes of a capture whose frames are out of order: it is counted, is part of minimum and
//! mean, and has no place in the quantiles. Nothing is clamped.
//!
//! The histogram has HdrHistogram's buckets and answers as `measure::histogram` does (a property of
//! the tests), but keeps nothing twice and grows with its values: it is written for every call.

mod counted;

pub use counted::Counted;

use measure::histogram::HIGHEST_NS;
use serde_json::{Value, json};

use super::log_histogram::{bucket, lower};
use crate::ends::Ends;
use measure::add_up;

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
    /// Those above an hour, in no bucket.
    above: u64,
    sum_ns: i128,
    ends_ns: Ends,
    /// Highest one in a bucket.
    max_held_ns: i64,
    digits: u8,
    /// Each power of two is cut into `2^bits` buckets.
    bits: u32,
    counts: Vec<u64>,
}

impl Latencies {
    /// None yet; `digits` significant digits of the quantiles (1 to 5).
    pub fn new(digits: u8) -> Self {
        let digits = digits.clamp(1, 5);
        // HdrHistogram: values up to twice 10^digits have buckets of their own.
        let own = 2 * 10u64.pow(u32::from(digits));
        Latencies {
            count: 0,
            negative: 0,
            zeros: 0,
            above: 0,
            sum_ns: 0,
            ends_ns: Ends::default(),
            max_held_ns: 0,
            digits,
            bits: own.next_power_of_two().ilog2() - 1,
            counts: Vec::new(),
        }
    }

    /// Counts one.
    #[inline(always)]
    pub fn record(&mut self, latency_ns: i64) {
        self.count += 1;
        self.sum_ns += i128::from(latency_ns);
        self.ends_ns.take(latency_ns);
        let value = latency_ns as u64;
        if value.wrapping_sub(1) >= HIGHEST_NS {
            return self.unheld(latency_ns);
        }
        self.max_held_ns = self.max_held_ns.max(latency_ns);
        let place = bucket(value, self.bits);
        match self.counts.get_mut(place) {
            Some(count) => *count += 1,
            None => self.count_in(place),
        }
    }

    /// Zero, negative, or above an hour.
    #[cold]
    fn unheld(&mut self, latency_ns: i64) {
        match latency_ns {
            0 => self.zeros += 1,
            ..0 => self.negative += 1,
            _ => self.above += 1,
        }
    }

    /// Higher than all before.
    #[cold]
    fn count_in(&mut self, place: usize) {
        self.counts.resize(place + 1, 0);
        self.counts[place] += 1;
    }

    /// Adds all of `other`; without the same digits there are no quantiles of the sum.
    pub fn add(&mut self, other: &Self) {
        add_up!(self, other; count, negative, zeros, above, sum_ns);
        self.ends_ns.add(other.ends_ns);
        if self.bits != other.bits {
            return;
        }
        self.max_held_ns = self.max_held_ns.max(other.max_held_ns);
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
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

    /// Arithmetic mean of all, to the nearest nanosecond.
    pub fn mean_ns(&self) -> Option<i64> {
        mean_ns(self.sum_ns, self.count)
    }

    /// Largest error of a quantile, relative to the true one (it is never too low).
    pub fn relative_error(&self) -> f64 {
        10f64.powi(-i32::from(self.digits))
    }

    /// The latency that `thousandths` of all that are not negative stay at or below (nearest rank).
    pub fn quantile_ns(&self, thousandths: u64) -> Option<i64> {
        let held: u64 = self.counts.iter().sum();
        let (zeros, above) = (self.zeros, self.above);
        let ranked = held + zeros + above;
        if ranked == 0 || ranked != self.count - self.negative {
            return None;
        }
        let rank = rank(ranked, thousandths);
        if rank <= zeros {
            return Some(0);
        }
        if rank > zeros + held {
            return Some(self.ends_ns.most); // above an hour: in no bucket, the maximum is a bound
        }
        let mut seen = zeros;
        let reached = |count: &u64| {
            seen += count;
            seen >= rank
        };
        let place = self.counts.iter().position(reached)?;
        // The upper edge of its bucket.
        let value = i64::try_from(lower(place + 1, self.bits) - 1).ok()?;
        Some(value.min(self.max_held_ns))
    }

    /// `{min, mean, p50, p90, p99, p999, max}`, each null if there are none.
    pub fn json(&self) -> Value {
        let ends = self.ends_ns.known();
        let mut object = json!({
            "min": ends.map(|(least, _)| least),
            "mean": self.mean_ns(),
            "max": ends.map(|(_, most)| most),
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
        for (place, count) in self.counts.iter().enumerate() {
            if *count == 0 {
                continue;
            }
            let (from, below) = part(lower(place, self.bits));
            match parts.last_mut() {
                Some(last) if last.0 == from => last.2 += count,
                _ => parts.push((from, below, *count)),
            }
        }
        if self.above > 0 {
            let most_ns = self.ends_ns.most.unsigned_abs();
            parts.push((HIGHEST_NS + 1, most_ns + 1, self.above));
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
pub fn part(value: u64) -> (u64, u64) {
    let width = (1u64 << value.max(1).ilog2()) / PARTS;
    let width = width.max(1);
    let from = value / width * width;
    (from, from + width)
}

#[cfg(test)]
mod tests {
    use measure::histogram::LatencyHistogram;

    use super::*;

    /// Latencies over fourteen orders of magnitude; some above an hour, some below zero.
    fn some(random: &mut fastrand::Rng, count: usize) -> Vec<i64> {
        let mut one = || {
            let bits = random.u32(1..46);
            match random.u32(..40) {
                0 => 0,
                1 => -random.i64(1..5000),
                2 => 3_600_000_000_000 + random.i64(-2..3),
                _ => random.i64(1..1 << bits),
            }
        };
        (0..count).map(|_| one()).collect()
    }

    #[test]
    fn answers_are_those_of_hdrhistogram() {
        let mut random = fastrand::Rng::with_seed(7);
        for round in 0..100 {
            let digits = 1 + (round % 5) as u8;
            let values = some(&mut random, round);
            let mut mine = Latencies::new(digits);
            let mut theirs = LatencyHistogram::with_digits(digits).unwrap();
            for value in &values {
                mine.record(*value);
                theirs.record_signed(*value);
            }
            assert_eq!(mine.above, theirs.above());
            let held = theirs.count();
            for thousandths in (1..=1000).step_by(37).chain([500, 900, 990, 999, 1000]) {
                let ranked = rank(held + mine.zeros + mine.above, thousandths);
                let found = mine.quantile_ns(thousandths);
                if values.iter().all(|value| *value < 0) {
                    assert_eq!(found, None);
                } else if (mine.zeros + 1..=mine.zeros + held).contains(&ranked) {
                    // The middle of the rank's share.
                    let quantile = ((ranked - mine.zeros) as f64 - 0.5) / held as f64;
                    let right = theirs.quantile_ns(quantile).unwrap().unwrap();
                    assert_eq!(found, Some(right as i64), "{digits} {thousandths}");
                }
            }
            let counted = mine.counts.iter().enumerate();
            let buckets: Vec<_> = counted
                .filter(|(_, count)| **count > 0)
                .map(|(place, count)| (lower(place, mine.bits), *count))
                .collect();
            let right: Vec<_> = theirs.buckets().map(|(low, _, n)| (low, n)).collect();
            assert_eq!(buckets, right);
        }
    }

    #[test]
    fn sums_are_as_if_all_were_recorded_in_one() {
        let mut random = fastrand::Rng::with_seed(8);
        for count in [0, 1, 30, 1000] {
            let (one, other) = (some(&mut random, count), some(&mut random, 50));
            let of = |values: &[i64]| {
                let mut latencies = Latencies::new(3);
                values.iter().for_each(|value| latencies.record(*value));
                latencies
            };
            let mut sum = of(&one);
            sum.add(&of(&other));
            let all = of(&[one, other].concat());
            assert_eq!(sum.json(), all.json());
            assert_eq!(sum.histogram_json(), all.histogram_json());
        }
        // Of different digits: no quantiles.
        let mut sum = Latencies::new(3);
        sum.add(&{
            let mut other = Latencies::new(2);
            other.record(5);
            other
        });
        assert_eq!((sum.count(), sum.quantile_ns(500)), (1, None));
    }
}

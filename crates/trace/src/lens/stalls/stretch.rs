//! The slowest stretch, and phases of slow completion, from completions in bins of time.

use serde_json::{Value, json};

use super::cycles::Cycles;
use crate::lens::time_bins::{Merge, TimeBins};

/// Width of the first bins: a server's journal or a client's write-back takes longer to drain.
const FIRST_BIN_NS: i64 = 10_000_000;
/// The stretch is this part of the capture.
const STRETCH_PART: usize = 32;
/// Fewest bins of a stretch.
const STRETCH_MIN_BINS: usize = 8;
/// A bin is slow if it completes at most this part of the mean.
const SLOW_PART: f64 = 0.25;
/// Mean completions of a bin below which chance alone makes slow bins: P(X <= 4) is 4e-4 for a
/// Poisson variable of mean 16.
const MIN_MEAN: f64 = 16.0;
/// Fewest bins on which phases are looked for.
const MIN_BINS: usize = 64;

/// What completed, by the time of completion, and what waited, by the time of sending.
#[derive(Clone, Debug, Default)]
pub(super) struct Stretch {
    completed: u64,
    calls: u64,
    latency_ns: i128,
}

impl Merge for Stretch {
    fn merge(&mut self, later: &Self) {
        self.completed += later.completed;
        self.calls += later.calls;
        self.latency_ns += later.latency_ns;
    }
}

/// Bins of the whole capture.
#[derive(Clone, Debug)]
pub(super) struct Stretches(TimeBins<Stretch>);

impl Default for Stretches {
    fn default() -> Self {
        Stretches(TimeBins::new(FIRST_BIN_NS))
    }
}

impl Stretches {
    /// A call was answered.
    #[inline(always)]
    pub fn answered(&mut self, sent_ns: i64, reply_ns: i64) {
        let bin = self.0.at(sent_ns);
        bin.calls += 1;
        bin.latency_ns += i128::from((reply_ns - sent_ns).max(0));
        self.0.at(reply_ns).completed += 1;
    }

    /// The stretch whose calls waited longest in sum: where it lies, its calls and their mean
    /// latency beside that of all.
    pub fn slowest(&self) -> Option<(i64, i64, Value)> {
        let bins = &self.0;
        let length = (bins.len() / STRETCH_PART).max(STRETCH_MIN_BINS);
        if bins.len() < 2 * length {
            return None;
        }
        let mut sum = Stretch::default();
        let mut best: Option<(usize, Stretch)> = None;
        for (index, bin) in bins.bins().enumerate() {
            sum.merge(bin);
            if let Some(left) = index.checked_sub(length) {
                let left = bins.bin(left);
                sum.calls -= left.calls;
                sum.completed -= left.completed;
                sum.latency_ns -= left.latency_ns;
            }
            let larger = best
                .as_ref()
                .is_none_or(|(_, most)| sum.latency_ns > most.latency_ns);
            if index + 1 >= length && larger {
                best = Some((index + 1 - length, sum.clone()));
            }
        }
        let (first, stretch) = best.filter(|(_, stretch)| stretch.calls > 0)?;
        let (from, to) = (self.0.from_ns(first), self.0.from_ns(first + length));
        let mut all = Stretch::default();
        bins.bins().for_each(|bin| all.merge(bin));
        let mean = |part: &Stretch| (part.latency_ns / i128::from(part.calls.max(1))) as i64;
        Some((
            from,
            to,
            json!({
                "begin_ns": from,
                "end_ns": to,
                "calls": stretch.calls,
                "latency_mean_ns": mean(&stretch),
                "latency_share": stretch.latency_ns as f64 / (all.latency_ns.max(1)) as f64,
                "time_share": length as f64 / bins.len() as f64,
                "all_latency_mean_ns": mean(&all),
            }),
        ))
    }

    /// Phases in which little or nothing completes, for the search of a period. Bins are made wider
    /// until chance alone does not empty them.
    pub fn phases(&self) -> Cycles {
        let mut cycles = Cycles::default();
        let bins = &self.0;
        let all: u64 = bins.bins().map(|bin| bin.completed).sum();
        let mean = all as f64 / bins.len().max(1) as f64;
        let group = (MIN_MEAN / mean.max(1e-9)).ceil().max(1.0);
        if group * MIN_BINS as f64 > bins.len() as f64 {
            return cycles;
        }
        let group = group as usize;
        cycles.resolution_ns = bins.width_ns() * group as i64;
        let limit = (mean * group as f64 * SLOW_PART) as u64;
        let mut begin: Option<usize> = None;
        for index in 0..bins.len() / group {
            let part = (index * group..).take(group).map(|place| bins.bin(place));
            let slow = part.map(|bin| bin.completed).sum::<u64>() <= limit;
            match (slow, begin) {
                (true, None) => begin = Some(index),
                (false, Some(first)) => {
                    cycles.slow(self.0.from_ns(first * group), self.0.from_ns(index * group));
                    begin = None;
                }
                _ => {}
            }
        }
        cycles
    }

    /// Width of the bins: periods below some of them cannot be seen.
    pub fn width_ns(&self) -> i64 {
        self.0.width_ns()
    }
}

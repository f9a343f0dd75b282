//! Drain cycles: does something stop and go on with one period?
//!
//! Given the moments when slow phases begin and how long they last, the intervals from beginning to
//! beginning are compared with what chance would give: slow phases of that mean length, and fast
//! phases that end at any moment alike (exponential). If so many intervals lie near the median
//! that chance would do it with a probability below [`CHANCE`], there is a period.
//!
//! Slow phases take time themselves, which makes intervals alike without any rhythm; that is why
//! the model contains them. Intervals are kept as a histogram: memory does not grow.

use serde_json::{Value, json};

use crate::lens::log_histogram::LogHistogram;

/// Probability under chance below which a period is believed.
pub(super) const CHANCE: f64 = 1e-4;
/// Fewest intervals that are judged: with fewer, nothing is improbable enough.
const MIN_INTERVALS: u64 = 6;
/// "Near" the median: from this to the next share of it. Buckets are 1/16 wide.
const NEAR: (f64, f64) = (0.8, 1.25);

/// Learns of slow phases, one after the other.
#[derive(Clone, Debug, Default)]
pub(super) struct Cycles {
    intervals: LogHistogram<4>,
    slow_ns: i128,
    last_begin_ns: Option<i64>,
}

/// A period that is not chance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Period {
    pub period_ns: i64,
    pub intervals: u64,
    pub near: u64,
    pub slow_mean_ns: i64,
    pub chance: f64,
}

impl Period {
    pub fn json(&self, from: &str) -> Value {
        json!({
            "found_by": from,
            "period_ns": self.period_ns,
            "intervals": self.intervals,
            "intervals_near": self.near,
            "slow_mean_ns": self.slow_mean_ns,
            "chance": self.chance,
        })
    }
}

impl Cycles {
    /// A slow phase, in the order of time.
    pub fn slow(&mut self, begin_ns: i64, end_ns: i64) {
        if let Some(last) = self.last_begin_ns
            && begin_ns > last
        {
            self.intervals.record(begin_ns - last);
            self.slow_ns += i128::from(end_ns) - i128::from(begin_ns);
        }
        self.last_begin_ns = self.last_begin_ns.max(Some(begin_ns));
    }

    /// The period, if there is one.
    pub fn period(&self) -> Option<Period> {
        let intervals = self.intervals.count();
        if intervals < MIN_INTERVALS {
            return None;
        }
        let median = self.intervals.quantile(0.5)? as f64;
        let (from, to) = (NEAR.0 * median, NEAR.1 * median);
        let near = self.intervals.within(from as u64, to as u64);
        let mean = self.intervals.mean()?;
        let slow = (self.slow_ns as f64 / intervals as f64).min(mean);
        // Half a bucket more on both sides: whole buckets were counted.
        let by_chance = chance_between(from / 1.07, to * 1.07, slow, mean - slow);
        // The median itself is near by its making.
        let chance = at_least(near.saturating_sub(1), intervals - 1, by_chance);
        (chance < CHANCE).then_some(Period {
            period_ns: median.round() as i64,
            intervals,
            near,
            slow_mean_ns: slow.round() as i64,
            chance,
        })
    }
}

/// Probability that `slow` and an exponential time of mean `fast` sum up to a time in between.
fn chance_between(from: f64, to: f64, slow: f64, fast: f64) -> f64 {
    if fast <= 0.0 {
        return 1.0;
    }
    let beyond = |time: f64| (-((time - slow).max(0.0)) / fast).exp();
    beyond(from) - beyond(to)
}

/// Probability of `successes` or more in `trials` (the binomial distribution's upper tail).
fn at_least(successes: u64, trials: u64, probability: f64) -> f64 {
    if successes == 0 || probability >= 1.0 {
        return 1.0;
    }
    let share = successes as f64 / trials as f64;
    if share <= probability {
        return 1.0;
    }
    // Hoeffding's bound in Chernoff's form is never below the tail, and needs no sum of many terms.
    let entropy = |part: f64, whole: f64| {
        if part > 0.0 {
            part * (part / whole).ln()
        } else {
            0.0
        }
    };
    let divergence = entropy(share, probability) + entropy(1.0 - share, 1.0 - probability);
    (-(trials as f64) * divergence).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    fn uniform(state: &mut u64) -> f64 {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        (*state >> 11) as f64 / (1_u64 << 53) as f64
    }

    #[test]
    fn a_planted_period_is_found_with_its_jitter() {
        for (period, slow) in [
            (400 * MS, 120 * MS),
            (5000 * MS, 700 * MS),
            (300 * MS, 200 * MS),
        ] {
            let (mut cycles, mut state) = (Cycles::default(), 42);
            for cycle in 0..30 {
                let jitter = (uniform(&mut state) - 0.5) * 0.1 * period as f64;
                let begin = cycle * period + jitter as i64;
                cycles.slow(begin, begin + slow);
            }
            let found = cycles.period().unwrap();
            let error = found.period_ns as f64 / period as f64 - 1.0;
            assert!(error.abs() < 0.06, "{period}: {found:?}");
            assert_eq!(found.slow_mean_ns, slow);
        }
    }

    #[test]
    fn slow_phases_at_random_have_no_period() {
        // A slow phase of fixed length, then an exponential wait: the hard case, since the fixed
        // part makes the intervals alike. At 1e-4 a thousand trials should give none.
        let mut state = 4711;
        for trial in 0..1000 {
            let slow = [1.0, 50.0, 200.0, 500.0][trial % 4];
            let fast = [20.0, 300.0, 1000.0][trial % 3];
            let (mut cycles, mut now) = (Cycles::default(), 0.0);
            for _ in 0..[8, 30, 200, 1000][trial / 3 % 4] {
                let begin = now;
                now += slow;
                cycles.slow((begin * 1e6) as i64, (now * 1e6) as i64);
                now -= uniform(&mut state).max(1e-12).ln() * fast;
            }
            assert_eq!(cycles.period(), None, "trial {trial}");
        }
    }

    #[test]
    fn few_cycles_are_not_judged() {
        let mut cycles = Cycles::default();
        for cycle in 0..5 {
            cycles.slow(cycle * 1000, cycle * 1000 + 10);
        }
        assert_eq!(cycles.period(), None);
    }

    #[test]
    fn the_bound_is_above_the_binomial_tail() {
        // P(X >= 5) of 5 trials at 0.2 is 0.2^5; of 8 or more in 10 at 0.5: 56 / 1024.
        assert!((at_least(5, 5, 0.2) - 0.2_f64.powi(5)).abs() < 1e-12);
        assert!(at_least(8, 10, 0.5) >= 56.0 / 1024.0);
        assert_eq!(at_least(1, 10, 0.5), 1.0);
    }
}

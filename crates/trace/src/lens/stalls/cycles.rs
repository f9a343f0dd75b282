//! Drain cycles: does something stop and go on with one period?
//!
//! Given the moments when slow phases begin and how long they last, the intervals from beginning to
//! beginning are compared with what chance would give, in three ways, and there is a period only if
//! each of them would give so many intervals near the median with a probability below [`CHANCE`]:
//!
//! * slow phases of that mean length, and fast phases that end at any moment alike (exponential):
//!   slow phases take time themselves, which makes intervals alike without any rhythm;
//! * pauses at random of any spread, be it narrow or heavy-tailed, behind work of any length: three
//!   quarters of the intervals may lie within a quarter of the median, or half within a tenth.
//!
//! The last of these is a bound and no distribution: intervals of independent lengths that lie
//! nearer to each other than that are called a period, whatever makes them. The latest [`KEPT`]
//! intervals are judged: memory does not grow.

use serde_json::{Value, json};

/// Probability under chance below which a period is believed.
pub(super) const CHANCE: f64 = 1e-4;
/// Fewest intervals that are judged: with fewer, nothing is improbable enough.
const MIN_INTERVALS: usize = 11;
/// Intervals of fewer steps of the resolution are alike by rounding.
const LEAST_STEPS: i64 = 8;
/// Latest intervals kept.
const KEPT: usize = 256;
/// "Near" the median, and "close" to it: from one to the next share of it.
const NEAR: (f64, f64) = (0.8, 1.25);
const CLOSE: (f64, f64) = (0.9, 1.11);
/// Shares of intervals near, and close, that pauses at random may have.
const NEAR_AT_RANDOM: f64 = 0.75;
const CLOSE_AT_RANDOM: f64 = 0.5;
/// Probability under either below which a period is believed: of a hundred captures with many
/// servers less than one has a period by chance.
const CHANCE_AT_RANDOM: f64 = 1e-3;

/// Learns of slow phases, one after the other.
#[derive(Clone, Debug, Default)]
pub(super) struct Cycles {
    /// Lengths of the latest intervals, each with its slow phase.
    intervals: Vec<(i64, i64)>,
    next: usize,
    /// How exactly the moments are known: the width of bins, or 0.
    pub resolution_ns: i64,
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
            let interval = (begin_ns - last, end_ns - begin_ns);
            match self.intervals.get_mut(self.next) {
                Some(place) => *place = interval,
                None => self.intervals.push(interval),
            }
            self.next = (self.next + 1) % KEPT;
        }
        self.last_begin_ns = self.last_begin_ns.max(Some(begin_ns));
    }

    /// The period, if there is one.
    pub fn period(&self) -> Option<Period> {
        let count = self.intervals.len();
        if count < MIN_INTERVALS {
            return None;
        }
        let mut lengths: Vec<i64> = self.intervals.iter().map(|(length, _)| *length).collect();
        lengths.sort_unstable();
        let median = *lengths.get(count / 2)? as f64;
        if median < (LEAST_STEPS * self.resolution_ns) as f64 {
            return None;
        }
        let within = |(from, to): (f64, f64)| {
            let inside = |length: &&i64| {
                let share = **length as f64 / median;
                share >= from && share <= to
            };
            // The median itself is near by its making.
            (lengths.iter().filter(inside).count() as u64).saturating_sub(1)
        };
        let mean = lengths.iter().sum::<i64>() as f64 / count as f64;
        let slow: i64 = self.intervals.iter().map(|(_, slow)| slow).sum();
        let slow = (slow as f64 / count as f64).min(mean);
        let (near, close, others) = (within(NEAR), within(CLOSE), count as u64 - 1);
        let by_chance = chance_between(NEAR.0 * median, NEAR.1 * median, slow, mean - slow);
        let chance = at_least(near, others, by_chance);
        let at_random =
            at_least(near, others, NEAR_AT_RANDOM).min(at_least(close, others, CLOSE_AT_RANDOM));
        (chance < CHANCE && at_random < CHANCE_AT_RANDOM).then_some(Period {
            period_ns: median.round() as i64,
            intervals: count as u64,
            near: near + 1,
            slow_mean_ns: slow.round() as i64,
            chance: chance.max(at_random),
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

//! Planned instants of an offered load: they wait for nobody.
//!
//! Planned ahead from the seed, whatever the server does. The gaps of all threads together are
//! those of the whole: independent Poisson streams add up to one, and uniform ones are offset
//! against each other.

use serde::{Deserialize, Serialize};

use measure::Random;

/// How arrivals are spaced.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arrivals {
    /// Exponential gaps.
    #[default]
    Poisson,
    /// Equal gaps.
    Uniform,
}

/// One of the threads, or of the processes, that share a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Share {
    /// From 0.
    pub index: u32,
    /// How many there are.
    pub of: u32,
}

impl Default for Share {
    /// All of it.
    fn default() -> Self {
        Share { index: 0, of: 1 }
    }
}

impl Share {
    /// That of one of `threads` in each of these.
    #[must_use]
    pub const fn thread(self, index: u32, threads: u32) -> Self {
        Share {
            index: self.index * threads + index,
            of: self.of * threads,
        }
    }

    /// The number of its first one, where all things are numbered from 0.
    #[must_use]
    pub const fn first(self, all: u32) -> u32 {
        let more = all % self.of;
        self.index * (all / self.of) + if self.index < more { self.index } else { more }
    }

    /// This one's part of a number of things.
    #[must_use]
    pub const fn part(self, all: u32) -> u32 {
        all / self.of + (self.index < all % self.of) as u32
    }
}

/// Planned instants.
#[derive(Debug)]
pub struct Schedule {
    start_ns: u64,
    gap_ns: f64,
    /// Since the start; a float so that fractions of a nanosecond are not lost.
    at_ns: f64,
    arrivals: Arrivals,
}

impl Schedule {
    /// From `start_ns` on, at `rate_per_s` of all shares together.
    #[must_use]
    pub fn new(
        (start_ns, rate_per_s): (u64, f64),
        arrivals: Arrivals,
        share: Share,
        random: &mut Random,
    ) -> Self {
        let whole_gap_ns = 1e9 / rate_per_s;
        let gap_ns = whole_gap_ns * f64::from(share.of);
        let at_ns = match arrivals {
            Arrivals::Poisson => gap_ns * random.exponential(),
            Arrivals::Uniform => whole_gap_ns * f64::from(share.index + 1),
        };
        Schedule {
            start_ns,
            gap_ns,
            at_ns,
            arrivals,
        }
    }

    /// When the next one is planned.
    #[inline]
    #[must_use]
    pub fn next_ns(&self) -> u64 {
        self.start_ns.saturating_add(self.at_ns as u64)
    }

    #[inline]
    fn step(&mut self, random: &mut Random) {
        self.at_ns += match self.arrivals {
            Arrivals::Poisson => self.gap_ns * random.exponential(),
            Arrivals::Uniform => self.gap_ns,
        };
    }

    /// Takes the next planned instant if it is due.
    #[inline]
    pub fn take_due(&mut self, now_ns: u64, random: &mut Random) -> Option<u64> {
        let planned_ns = self.next_ns();
        (planned_ns <= now_ns).then(|| {
            self.step(random);
            planned_ns
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(schedule: &mut Schedule, until_ns: u64, random: &mut Random) -> Vec<u64> {
        std::iter::from_fn(|| schedule.take_due(until_ns, random)).collect()
    }

    fn open(arrivals: Arrivals, share: Share, random: &mut Random) -> Schedule {
        Schedule::new((1_000, 10_000.0), arrivals, share, random)
    }

    #[test]
    fn poisson_gaps_have_the_moments_of_an_exponential() {
        let mut random = Random::new(9, &[]);
        let share = Share { index: 0, of: 1 };
        let mut source = open(Arrivals::Poisson, share, &mut random);
        let at = drain(&mut source, 20_000_000_000, &mut random);
        // 200,000 expected, standard deviation 447.
        assert!(at.len().abs_diff(200_000) < 5 * 447, "{}", at.len());
        let gaps: Vec<f64> = at
            .windows(2)
            .map(|pair| (pair[1] - pair[0]) as f64)
            .collect();
        let count = gaps.len() as f64;
        let mean = gaps.iter().sum::<f64>() / count;
        let moment = |power| gaps.iter().map(|gap| (gap / mean).powi(power)).sum::<f64>() / count;
        // Moments of Exp(1): n!; their standard errors: sqrt(((2n)! - n!^2) / count).
        assert!(
            (moment(2) - 2.0).abs() < 5.0 * (20.0 / count).sqrt(),
            "{}",
            moment(2)
        );
        assert!(
            (moment(3) - 6.0).abs() < 5.0 * (684.0 / count).sqrt(),
            "{}",
            moment(3)
        );
        // And the gaps know nothing of each other.
        let pairs = gaps
            .windows(2)
            .map(|pair| (pair[0] - mean) * (pair[1] - mean));
        let correlation = pairs.sum::<f64>() / (count * mean * mean);
        assert!(correlation.abs() < 5.0 / count.sqrt(), "{correlation}");
    }

    #[test]
    fn counts_of_all_threads_together_are_poisson() {
        let mut counts = vec![0_u64; 2_000];
        for index in 0..4 {
            let mut random = Random::new(1, &[index]);
            let share = Share {
                index: index as u32,
                of: 4,
            };
            let mut source = open(Arrivals::Poisson, share, &mut random);
            for at in drain(&mut source, 2_000_001_000 - 1, &mut random) {
                counts[((at - 1_000) / 1_000_000) as usize] += 1;
            }
        }
        let mean = counts.iter().sum::<u64>() as f64 / 2000.0;
        let square = |count: &u64| (*count as f64 - mean).powi(2);
        let dispersion = counts.iter().map(square).sum::<f64>() / 1999.0 / mean;
        // Index of dispersion 1 with standard error sqrt(2 / n).
        assert!(
            (mean - 10.0).abs() < 5.0 * (10.0_f64 / 2000.0).sqrt(),
            "{mean}"
        );
        assert!(
            (dispersion - 1.0).abs() < 5.0 * (2.0_f64 / 2000.0).sqrt(),
            "{dispersion}"
        );
    }

    #[test]
    fn uniform_gaps_of_all_threads_together_are_equal() {
        let mut all = Vec::new();
        for index in 0..3 {
            let mut random = Random::new(1, &[]);
            let mut source = open(Arrivals::Uniform, Share { index, of: 3 }, &mut random);
            all.extend(drain(&mut source, 1_000_000_000, &mut random));
        }
        all.sort_unstable();
        assert_eq!(all[0], 1_000 + 100_000);
        assert!(all.windows(2).all(|pair| pair[1] - pair[0] == 100_000));
    }

    #[test]
    fn shares_add_up() {
        for (all, of) in [(20, 3), (1, 1), (7, 8), (64, 5)] {
            let parts: u32 = (0..of).map(|index| Share { index, of }.part(all)).sum();
            assert_eq!(parts, all);
        }
    }
}

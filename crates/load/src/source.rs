//! When operations come: a schedule that waits for nobody, or processes that wait for answers.
//!
//! Open: planned ahead from the seed, whatever the server does. The gaps of `workers` threads
//! together are those of the whole: independent Poisson streams add up to one, and uniform ones are
//! offset against each other.
//!
//! Closed: each process has one operation under way and then thinks. With a mean response R and an
//! offered load of λ over P processes, a cycle has to take P / λ, so that the mean think time is
//! P / λ - R, with R as the mean of the thread's answers so far; it is not below 0, and lost time
//! is not caught up: a server that cannot keep up gets as many operations as processes can ask for.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use measure::Random;

use crate::plan::{Arrivals, Think};

/// Answers over which the mean response of a thread's think times is taken: enough for a mean
/// within a tenth, few enough that a server whose memory warms up is not offered more than was
/// asked for.
const MEMORY: f64 = 128.0;

/// One of the threads that share a load.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Share {
    pub index: u32,
    pub of: u32,
}

impl Share {
    /// This one's part of a number of things.
    pub fn part(self, all: u32) -> u32 {
        all / self.of + u32::from(self.index < all % self.of)
    }
}

#[derive(Debug)]
pub(crate) enum Source {
    Open(Schedule),
    Closed(Processes),
}

/// Planned instants.
#[derive(Debug)]
pub(crate) struct Schedule {
    start_ns: u64,
    gap_ns: f64,
    /// Since the start; a float so that fractions of a nanosecond are not lost.
    at_ns: f64,
    arrivals: Arrivals,
}

impl Schedule {
    pub fn new(
        (start_ns, rate_ops_per_s): (u64, f64),
        arrivals: Arrivals,
        share: Share,
        random: &mut Random,
    ) -> Self {
        let whole_gap_ns = 1e9 / rate_ops_per_s;
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

    #[inline]
    fn next_ns(&self) -> u64 {
        self.start_ns.saturating_add(self.at_ns as u64)
    }

    #[inline]
    fn step(&mut self, random: &mut Random) {
        self.at_ns += match self.arrivals {
            Arrivals::Poisson => self.gap_ns * random.exponential(),
            Arrivals::Uniform => self.gap_ns,
        };
    }
}

/// Processes that think.
#[derive(Debug)]
pub(crate) struct Processes {
    thinking: BinaryHeap<Reverse<(u64, u32)>>,
    cycle_ns: f64,
    think: Think,
    mean_response_ns: f64,
    answers: f64,
}

impl Processes {
    /// `count` processes, each of which is to begin an operation every `cycle_ns`.
    pub fn new(
        (start_ns, cycle_ns): (u64, f64),
        count: u32,
        think: Think,
        random: &mut Random,
    ) -> Self {
        let first = |process| {
            let wait_ns = match think {
                Think::Saturated => 0.0,
                _ => cycle_ns * random.unit(), // not all at once
            };
            Reverse((start_ns.saturating_add(wait_ns as u64), process))
        };
        Processes {
            thinking: (0..count).map(first).collect(),
            cycle_ns,
            think,
            mean_response_ns: 0.0,
            answers: 0.0,
        }
    }

    fn ended(&mut self, process: u32, now_ns: u64, response_ns: u64, random: &mut Random) {
        self.answers = (self.answers + 1.0).min(MEMORY);
        self.mean_response_ns += (response_ns as f64 - self.mean_response_ns) / self.answers;
        let mean_ns = (self.cycle_ns - self.mean_response_ns).max(0.0);
        let think_ns = match self.think {
            Think::Exponential => mean_ns * random.exponential(),
            Think::Constant => mean_ns,
            Think::Saturated => 0.0,
        };
        self.thinking
            .push(Reverse((now_ns.saturating_add(think_ns as u64), process)));
    }
}

impl Source {
    /// When the next operation is planned; `None` while all wait for answers.
    #[inline]
    pub fn next_ns(&self) -> Option<u64> {
        match self {
            Source::Open(schedule) => Some(schedule.next_ns()),
            Source::Closed(processes) => processes.thinking.peek().map(|Reverse((at, _))| *at),
        }
    }

    /// Takes the next operation if it is due: its planned instant and process.
    #[inline]
    pub fn take_due(&mut self, now_ns: u64, random: &mut Random) -> Option<(u64, u32)> {
        match self {
            Source::Open(schedule) => {
                let planned_ns = schedule.next_ns();
                (planned_ns <= now_ns).then(|| {
                    schedule.step(random);
                    (planned_ns, 0)
                })
            }
            Source::Closed(processes) => {
                let due = processes
                    .thinking
                    .peek()
                    .is_some_and(|Reverse((at, _))| *at <= now_ns);
                due.then(|| processes.thinking.pop())
                    .flatten()
                    .map(|Reverse(next)| next)
            }
        }
    }

    /// A process has its answer (or nothing was to be had for it).
    #[inline]
    pub fn ended(&mut self, process: u32, now_ns: u64, response_ns: u64, random: &mut Random) {
        if let Source::Closed(processes) = self {
            processes.ended(process, now_ns, response_ns, random);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(source: &mut Source, until_ns: u64, random: &mut Random) -> Vec<u64> {
        std::iter::from_fn(|| source.take_due(until_ns, random).map(|(at, _)| at)).collect()
    }

    fn open(arrivals: Arrivals, share: Share, random: &mut Random) -> Source {
        Source::Open(Schedule::new((1_000, 10_000.0), arrivals, share, random))
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
    fn processes_think_so_that_the_offered_load_is_met() {
        // 20 processes, 4,000 a second: cycles of 5 ms; a server that takes 1 ms, then 3 ms.
        for think in [Think::Exponential, Think::Constant] {
            let mut random = Random::new(2, &[]);
            let processes = Processes::new((0, 5e6), 20, think, &mut random);
            let mut source = Source::Closed(processes);
            let mut begun = 0;
            for _ in 0..200_000 {
                let at = source.next_ns().unwrap();
                let (planned, process) = source.take_due(at, &mut random).unwrap();
                assert_eq!(planned, at);
                begun += u64::from((2_000_000_000..12_000_000_000).contains(&at));
                let response = if at < 6_000_000_000 {
                    1_000_000
                } else {
                    3_000_000
                };
                source.ended(process, at + response, response, &mut random);
            }
            assert!(
                begun.abs_diff(40_000) < 600,
                "{think:?}: {begun} instead of 40,000"
            );
        }
    }

    #[test]
    fn shares_add_up() {
        for (all, of) in [(20, 3), (1, 1), (7, 8), (64, 5)] {
            let parts: u32 = (0..of).map(|index| Share { index, of }.part(all)).sum();
            assert_eq!(parts, all);
        }
    }
}

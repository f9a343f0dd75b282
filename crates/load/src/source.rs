//! When operations come: a schedule that waits for nobody, or processes that wait for answers.
//!
//! Open: planned ahead from the seed, whatever the server does ([`Schedule`]).
//!
//! Closed: each process has one operation under way and then thinks. With a mean response R and an
//! offered load of λ over P processes, a cycle has to take P / λ, so that the mean think time is
//! P / λ - R, with R as the mean of the thread's answers so far; it is not below 0, and lost time
//! is not caught up: a server that cannot keep up gets as many operations as processes can ask for.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use generator::Schedule;
use measure::Random;

use crate::plan::Think;

/// Answers over which the mean response of a thread's think times is taken: enough for a mean
/// within a tenth, few enough that a server whose memory warms up is not offered more than was
/// asked for.
const MEMORY: f64 = 128.0;

#[derive(Debug)]
pub(crate) enum Source {
    Open(Schedule),
    Closed(Processes),
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
            Source::Open(schedule) => schedule.take_due(now_ns, random).map(|at_ns| (at_ns, 0)),
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
}

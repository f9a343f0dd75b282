//! The state at fixed intervals: window, pending queue, rates (by difference), TCP.

use std::collections::VecDeque;

use super::{Counters, Operations, TcpInfo};

/// Samples kept until someone takes them; then the oldest are dropped and counted.
pub const MAX_SAMPLES: usize = 1 << 16;

/// The state at one instant. Rates are differences of two samples.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// When.
    pub at_ns: u64,
    /// Totals and gauges.
    pub counters: Counters,
    /// Calls ended by operation ([`super::operation_index`]).
    pub calls: Vec<u64>,
    /// Sum of round trips by operation.
    pub round_trip_sum_ns: Vec<u64>,
    /// TCP_INFO by connection; `None` for one that is down, empty over UDP.
    pub tcp: Vec<Option<TcpInfo>>,
}

/// Takes samples when they are due.
#[derive(Debug, Default)]
pub struct Samples {
    interval_ns: u64,
    next_ns: u64,
    kept: VecDeque<Sample>,
    lost: u64,
}

impl Samples {
    /// A sample every `interval_ns` from `now_ns` on; 0 takes none.
    pub fn start(&mut self, interval_ns: u64, now_ns: u64) {
        self.interval_ns = interval_ns;
        self.next_ns = now_ns;
    }

    /// When the next one is due.
    pub fn next_ns(&self) -> Option<u64> {
        (self.interval_ns > 0).then_some(self.next_ns)
    }

    /// Whether one is due.
    pub fn is_due(&self, now_ns: u64) -> bool {
        self.interval_ns > 0 && now_ns >= self.next_ns
    }

    /// Keeps a sample. Instants that were missed are left out: their absence shows.
    pub fn take(
        &mut self,
        at_ns: u64,
        counters: Counters,
        operations: &Operations,
        tcp: Vec<Option<TcpInfo>>,
    ) {
        if self.kept.len() >= MAX_SAMPLES {
            self.kept.pop_front();
            self.lost += 1;
        }
        let all = operations.all();
        self.kept.push_back(Sample {
            at_ns,
            counters,
            calls: all.iter().map(|figures| figures.calls).collect(),
            round_trip_sum_ns: all.iter().map(|f| f.round_trip_sum_ns).collect(),
            tcp,
        });
        let missed = at_ns.saturating_sub(self.next_ns) / self.interval_ns.max(1);
        let step = self.interval_ns.saturating_mul(missed.saturating_add(1));
        self.next_ns = self.next_ns.saturating_add(step);
    }

    /// Moves what was kept to `out`; returns how many were lost so far.
    pub fn drain(&mut self, out: &mut Vec<Sample>) -> u64 {
        out.extend(self.kept.drain(..));
        self.lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_stay_on_their_grid_when_some_are_missed() {
        let mut samples = Samples::default();
        assert!(!samples.is_due(u64::MAX));
        samples.start(100, 1_000);
        for (now, due) in [(1_000, true), (1_050, false), (1_100, true), (1_350, true)] {
            assert_eq!(samples.is_due(now), due, "{now}");
            if due {
                samples.take(now, Counters::default(), &Operations::default(), Vec::new());
            }
        }
        assert_eq!(samples.next_ns(), Some(1_400));
        let mut kept = Vec::new();
        assert_eq!(samples.drain(&mut kept), 0);
        assert_eq!(kept.len(), 3);
    }
}

//! When a thread looks at its sockets, and how long it was kept from it.

use measure::{RunDelay, ThreadUsage};

/// A turn without sleep that takes as long as this may have lost its processor.
const LONG_TURN_NS: u64 = 50_000;

#[derive(Debug, Default)]
pub(crate) struct Looks {
    run_delay: RunDelay,
    /// All waiting for a processor, as it was read last.
    waited_ns: u64,
    /// The last look.
    pub at_ns: u64,
}

/// Where the window begins or ends for a thread.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Edge {
    pub at_ns: u64,
    pub usage: ThreadUsage,
    waited_ns: Option<u64>,
}

impl Edge {
    /// Without a processor since an earlier edge, if the kernel tells.
    pub fn waited_since_ns(&self, earlier: &Self) -> Option<u64> {
        let both = self.waited_ns.zip(earlier.waited_ns);
        both.map(|(end, begin)| end.saturating_sub(begin))
    }
}

impl Looks {
    pub fn of_this_thread(now_ns: u64) -> Self {
        let run_delay = RunDelay::of_this_thread();
        Looks {
            waited_ns: run_delay.waited_ns().unwrap_or(0),
            run_delay,
            at_ns: now_ns,
        }
    }

    pub fn edge(&self, at_ns: u64) -> Edge {
        Edge {
            at_ns,
            usage: ThreadUsage::now(),
            waited_ns: self.run_delay.waited_ns(),
        }
    }

    /// How long replies may have lain there that were taken by `now_ns`. A thread that slept was
    /// woken by the first of them: what they waited for is a processor. One that did not may have
    /// missed them since it looked last.
    pub fn pick_up_delay_ns(&mut self, now_ns: u64, slept: bool) -> u64 {
        let gap_ns = now_ns.saturating_sub(self.at_ns);
        self.at_ns = now_ns;
        if !slept && gap_ns <= LONG_TURN_NS {
            return gap_ns;
        }
        let waited_ns = self.run_delay.waited_ns().unwrap_or(self.waited_ns);
        let without_ns = waited_ns.saturating_sub(self.waited_ns);
        self.waited_ns = waited_ns;
        if slept { without_ns } else { gap_ns }
    }
}

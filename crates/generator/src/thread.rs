//! When a thread looks at its sockets, how long it was kept from it, and what it used meanwhile.

use measure::{RunDelay, ThreadUsage};
use serde::{Deserialize, Serialize};

use crate::Times;

/// A turn without sleep that takes as long as this may have lost its processor.
const LONG_TURN_NS: u64 = 50_000;

/// Meters the thread that made it.
#[derive(Debug, Default)]
pub struct ThreadMeter {
    run_delay: RunDelay,
    /// All waiting for a processor, as it was read last.
    waited_ns: u64,
    /// The last look.
    pub looked_ns: u64,
    /// Time spent looking at sockets without waiting.
    pub spin_ns: u64,
    begun: Option<Edge>,
    ended: Option<Edge>,
}

/// Where the window begins or ends for a thread.
#[derive(Debug, Clone, Copy)]
struct Edge {
    at_ns: u64,
    usage: ThreadUsage,
    waited_ns: Option<u64>,
    spin_ns: u64,
}

/// One generator thread within the window.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct ThreadReport {
    pub process: u32,
    pub window_ns: u64,
    pub cpu_ns: u64,
    pub user_ns: u64,
    pub system_ns: u64,
    pub spin_ns: u64,
    /// Ready to run, without a processor; `None` where the kernel does not tell.
    pub waited_ns: Option<u64>,
    /// CPU without spinning, of the window; 0 where it saw the window's begin and end in one look.
    pub cpu_share: f64,
    pub voluntary_switches: u64,
    pub involuntary_switches: u64,
}

impl ThreadReport {
    /// The share that follows from the times.
    #[must_use]
    pub fn share(&self) -> f64 {
        measure::share(self.cpu_ns.saturating_sub(self.spin_ns), self.window_ns)
    }
}

impl ThreadMeter {
    /// A meter of the calling thread, which looks at its sockets now.
    #[must_use]
    pub fn of_this_thread(now_ns: u64) -> Self {
        let run_delay = RunDelay::of_this_thread();
        ThreadMeter {
            waited_ns: run_delay.waited_ns().unwrap_or(0),
            run_delay,
            looked_ns: now_ns,
            ..Self::default()
        }
    }

    fn edge(&self, at_ns: u64) -> Edge {
        Edge {
            at_ns,
            usage: ThreadUsage::now(),
            waited_ns: self.run_delay.waited_ns(),
            spin_ns: self.spin_ns,
        }
    }

    /// Notes the window's edges; true once, when it is seen to have ended.
    #[inline]
    pub fn cross(&mut self, times: &Times, now_ns: u64) -> bool {
        if self.begun.is_none() && now_ns >= times.window_start_ns {
            self.begun = Some(self.edge(now_ns));
        }
        let ends = self.ended.is_none() && now_ns >= times.window_end_ns;
        if ends {
            self.ended = Some(self.edge(now_ns));
        }
        ends
    }

    /// The longest that replies may have lain there that were taken by `now_ns`. A thread that
    /// slept was woken by the first of them: what they waited for is a processor. One that did not
    /// may have missed them since it looked last.
    #[inline]
    pub fn pick_up_delay_ns(&mut self, now_ns: u64, slept: bool) -> u64 {
        let gap_ns = now_ns.saturating_sub(self.looked_ns);
        self.looked_ns = now_ns;
        if !slept && gap_ns <= LONG_TURN_NS {
            return gap_ns;
        }
        let waited_ns = self.run_delay.waited_ns().unwrap_or(self.waited_ns);
        let without_ns = waited_ns.saturating_sub(self.waited_ns);
        self.waited_ns = waited_ns;
        if slept { without_ns } else { gap_ns }
    }

    /// What the thread used within the window, or of it until now.
    #[must_use]
    pub fn report(&self, process: u32, now_ns: u64) -> ThreadReport {
        let now = self.edge(now_ns);
        let begun = self.begun.unwrap_or(now);
        let ended = self.ended.unwrap_or(now);
        let usage = ended.usage.since(&begun.usage);
        let waited_ns = ended.waited_ns.zip(begun.waited_ns);
        let mut report = ThreadReport {
            process,
            window_ns: ended.at_ns.saturating_sub(begun.at_ns),
            cpu_ns: usage.cpu_ns,
            user_ns: usage.user_ns,
            system_ns: usage.system_ns,
            spin_ns: ended.spin_ns - begun.spin_ns,
            waited_ns: waited_ns.map(|(end, begin)| end.saturating_sub(begin)),
            cpu_share: 0.0,
            voluntary_switches: usage.voluntary_switches,
            involuntary_switches: usage.involuntary_switches,
        };
        report.cpu_share = report.share();
        report
    }
}

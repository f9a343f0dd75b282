//! The verdict on a generator: was it itself the limit? Then the figures are its own, not the
//! server's.
//!
//! An overloaded *server* is no reason: its load shows what it shows. What a server's answers have
//! against a load is for the protocol to say.

use measure::HistogramSummary;
use serde::Serialize;

use crate::{Little, ThreadReport};

/// What the generator itself may add to the mean response, ns: lateness of sending and of picking
/// up. Waking alone takes 30 to 80 us on a machine at work; a thread that is starved, 300 and more.
pub const DELAY_MEAN_ALLOWED_NS: f64 = 100_000.0;
/// What it may add to the p99, ns: some turns of a scheduler, not its time slices (3 ms).
pub const DELAY_P99_ALLOWED_NS: f64 = 1_000_000.0;
/// The same as shares of the server's own median, where these are more. The median: neither one
/// stall nor the delay itself makes it longer.
const DELAY_MEAN_SHARE: f64 = 0.05;
/// See [`DELAY_MEAN_SHARE`].
const DELAY_P99_SHARE: f64 = 0.25;
/// Share of its window in which a thread worked (spinning apart) or waited for a processor: above
/// it, a faster server would not show.
pub const CPU_SHARE: f64 = 0.9;

/// Why a load does not count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Reason {
    /// A stable word; of a generator `generator_overloaded`, `generator_cpu`, `accounting`.
    pub kind: &'static str,
    /// The same in a sentence, with its figures.
    pub text: String,
}

impl Reason {
    /// The same, of one of several generator processes.
    #[must_use]
    pub fn of_process(&self, index: u32, of: u32) -> Self {
        Reason {
            kind: self.kind,
            text: format!("generator process {} of {of}: {}", index + 1, self.text),
        }
    }
}

/// What the generator's own delays, one behind the other, do to the mean or to the p99 of the
/// responses, if it is too much.
#[must_use]
pub fn late(delays: &[&HistogramSummary], response: &HistogramSummary) -> Option<String> {
    let (mut own_ns, mut mean_ns, mut p99_ns) = (0, 0.0, 0);
    for delay in delays {
        own_ns += delay.p50_ns.unwrap_or(0);
        mean_ns += delay.mean_ns.unwrap_or(0.0);
        p99_ns = p99_ns.max(delay.p99_ns.unwrap_or(0));
    }
    let p99_ns = p99_ns as f64;
    let server_ns = response.p50_ns.unwrap_or(0).saturating_sub(own_ns) as f64;
    let mean_allowed_ns = DELAY_MEAN_ALLOWED_NS.max(DELAY_MEAN_SHARE * server_ns);
    let p99_allowed_ns = DELAY_P99_ALLOWED_NS.max(DELAY_P99_SHARE * server_ns);
    (mean_ns > mean_allowed_ns || p99_ns > p99_allowed_ns).then(|| {
        format!(
            "the load generator was overloaded, late in sending or in picking up replies: that is \
             {:.0} us of the mean response (allowed: {:.0} us), and more than {:.0} us in 1 % of \
             the operations (allowed: {:.0} us). Give it an idle core: stop other programs, or pin \
             them elsewhere",
            mean_ns / 1e3,
            mean_allowed_ns / 1e3,
            p99_ns / 1e3,
            p99_allowed_ns / 1e3
        )
    })
}

/// All reasons of one process, or of all together: it was late, its threads had no processor, its
/// accounts do not balance. `complete`: the load came to its end.
#[must_use]
pub fn reasons(
    late: Option<String>,
    threads: &[ThreadReport],
    (window_ns, complete): (u64, bool),
    little: &Little,
) -> Vec<Reason> {
    let mut all = Vec::new();
    let was_late = late.is_some();
    let mut add = |kind, text| all.push(Reason { kind, text });
    if let Some(text) = late {
        add("generator_overloaded", text);
    }
    for (index, thread) in threads.iter().enumerate() {
        // Who looked at the clock too late for that has no shares. One that a server's end stopped
        // has its reason.
        if thread.window_ns < window_ns / 2 {
            if complete && !was_late {
                let text = format!(
                    "generator thread {index} did not run for most of the window: stop other \
                     programs, or pin them elsewhere"
                );
                add("generator_overloaded", text);
            }
            continue;
        }
        let waited = measure::share(thread.waited_ns.unwrap_or(0), thread.window_ns);
        if thread.cpu_share + waited > CPU_SHARE {
            let text = format!(
                "generator thread {index} used {:.0} % of a core and waited {:.0} % of the window \
                 for one (allowed: {:.0} % together): stop other programs, use more threads or \
                 several processes",
                thread.cpu_share * 100.0,
                waited * 100.0,
                CPU_SHARE * 100.0
            );
            add("generator_cpu", text);
        }
    }
    if little.residual_ns != 0 {
        let text = format!(
            "Little's law is broken by {} ns: an operation was lost or counted twice (please \
             report this)",
            little.residual_ns
        );
        add("accounting", text);
    }
    all
}

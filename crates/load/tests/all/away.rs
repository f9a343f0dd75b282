//! A generator that was away for a while, and a server that nobody asked: neither is the server's fault.

use crate::world::{World, set, slow};
use load::{Records, Report};
use measure::{Clock, MonotonicClock};
use serde_json::json;

const MS: u64 = 1_000_000;

/// A clock whose readers stand still from one instant to another: as threads do that their machine
/// gives no processor.
#[derive(Clone)]
struct Away {
    from_ns: u64,
    until_ns: u64,
}

impl Away {
    /// From so many milliseconds on, for so many.
    fn new(from_ms: u64, for_ms: u64) -> Self {
        let from_ns = MonotonicClock.now_ns() + from_ms * MS;
        Away {
            from_ns,
            until_ns: from_ns + for_ms * MS,
        }
    }
}

impl Clock for Away {
    fn now_ns(&self) -> u64 {
        if MonotonicClock.now_ns() >= self.from_ns {
            while MonotonicClock.now_ns() < self.until_ns {
                std::thread::yield_now();
            }
        }
        MonotonicClock.now_ns()
    }
}

fn kinds(report: &Report) -> Vec<&'static str> {
    report.reasons.iter().map(|reason| reason.kind).collect()
}

#[test]
fn who_comes_back_behind_the_end_has_missed_no_arrival_and_says_that_it_was_late() {
    let world = World::memory(1 << 28);
    let mut plan = world.plan();
    set(&mut plan, "load.arrivals", json!("uniform"));
    set(&mut plan, "load.outstanding_max", json!(1 << 12));
    set(&mut plan, "warm_up_s", json!(0.1));
    set(&mut plan, "cool_down_s", json!(0.0));
    let prepared = world.prepare(&plan);
    // The window is from 0.1 to 0.6 s of a load that begins within this: behind its end in any case.
    let clock = Away::new(400, 2000);
    let report = load::run(prepared, &clock, &Records::default(), &mut ()).unwrap();
    assert_eq!(report.arrivals, 1000, "2,000 a second for half a second");
    // Every half millisecond; the one at the end itself is not of the load.
    let planned: u64 = report.series.planned.iter().sum();
    assert_eq!(planned, 1199);
    let calls: u64 = report.operations.iter().map(|o| o.calls).sum();
    assert_eq!(calls, planned, "each was sent");
    assert!(report.answered < 1000, "not all within the window");
    assert!(report.late.max_ns.unwrap() > 1000 * MS);
    assert!(
        kinds(&report).contains(&"generator_late"),
        "{:?}",
        report.reasons
    );
    assert_eq!(report.little.residual_ns, 0);
}

#[test]
fn a_server_that_had_nothing_to_answer_is_not_silent() {
    let mut world = World::memory(1 << 28);
    let mut plan = world.plan();
    // A call every half second, that takes 0.2 s: longer than a thread sleeps.
    set(&mut plan, "load.rate_ops_per_s", json!(2));
    set(&mut plan, "load.arrivals", json!("uniform"));
    set(&mut plan, "silence_limit_s", json!(0.4));
    set(&mut plan, "measure_s", json!(2.0));
    let prepared = world.prepare(&plan);
    world.start(Some(slow(4, 200 * MS)));
    let report = load::run(prepared, &MonotonicClock, &Records::default(), &mut ()).unwrap();
    assert_eq!(report.ended, "complete", "{:?}", report.reasons);
    assert_eq!(report.unanswered, 0);
    assert!(report.answered > 2);
}

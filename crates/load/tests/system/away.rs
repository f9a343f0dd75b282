//! A generator that was away for a while, and a server that nobody asked: neither is the server's fault.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, ThreadId};

use crate::world::{World, set};
use load::{Observer, Progress, Records, Report};
use measure::{Clock, MonotonicClock};
use serde_json::json;

const MS: u64 = 1_000_000;

/// A clock whose readers stand still from 0.4 s behind their first reading until 2.4 s behind it: as
/// threads do that their machine gives no processor. Not the thread that made it, which says when
/// the load begins.
#[derive(Clone)]
struct Away(ThreadId, Arc<OnceLock<u64>>);

impl Clock for Away {
    fn now_ns(&self) -> u64 {
        let read_ns = MonotonicClock.now_ns();
        if thread::current().id() == self.0 {
            return read_ns;
        }
        let first_ns = *self.1.get_or_init(|| read_ns);
        if read_ns >= first_ns + 400 * MS {
            while MonotonicClock.now_ns() < first_ns + 2400 * MS {
                thread::yield_now();
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
    // The window is from 0.1 to 0.6 s of a load that begins soon: back behind its end in any case.
    let clock = Away(thread::current().id(), Arc::default());
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
        kinds(&report).contains(&"generator_overloaded"),
        "{:?}",
        report.reasons
    );
    assert_eq!(report.little.residual_ns, 0);
}

/// A clock that is put forward.
#[derive(Clone, Default)]
struct Forward(Arc<AtomicU64>);

impl Clock for Forward {
    fn now_ns(&self) -> u64 {
        MonotonicClock.now_ns() + self.0.load(Ordering::SeqCst)
    }
}

/// Puts it forward by nearly all of the time without calls, before the first one and when each was
/// answered: what a call waits for is real, and far from the limit.
struct PassesOver(Forward, u64);

impl Observer<Progress> for PassesOver {
    fn tick(&mut self, progress: &Progress) -> bool {
        if let Progress::Run { answered, .. } = progress
            && *answered == self.1
        {
            self.1 += 1;
            self.0.0.fetch_add(99_500 * MS, Ordering::SeqCst);
        }
        true
    }
}

#[test]
fn a_server_that_had_nothing_to_answer_is_not_silent() {
    let world = World::memory(1 << 28);
    let mut plan = world.plan();
    // A call every 100 s, and 60 s are silence.
    set(&mut plan, "load.rate_ops_per_s", json!(0.01));
    set(&mut plan, "load.arrivals", json!("uniform"));
    set(&mut plan, "silence_limit_s", json!(60.0));
    set(&mut plan, "measure_s", json!(350.0));
    let prepared = world.prepare(&plan);
    let clock = Forward::default();
    let mut passes_over = PassesOver(clock.clone(), 0);
    let report = load::run(prepared, &clock, &Records::default(), &mut passes_over).unwrap();
    assert_eq!(report.ended, "complete", "{:?}", report.reasons);
    assert_eq!((report.answered, report.unanswered), (3, 0));
}

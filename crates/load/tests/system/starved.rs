//! A generator that has to share its core: it says so, however late it is noticed.

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

use crate::world::{World, set};

/// Spins on the calling thread's cores until told to end.
fn beside<T>(spinners: usize, work: impl FnOnce() -> T) -> T {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..spinners {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let result = work();
        done.store(true, Ordering::Relaxed);
        result
    })
}

/// Four threads that spin on the only core that the generator's may use: what it waits for is not
/// lateness of sending alone, as its closed processes send when they have picked up.
#[test]
fn a_starved_generator_does_not_count() {
    if measure::RunDelay::of_this_thread().waited_ns().is_none() {
        return; // this kernel does not tell
    }
    let world = World::memory(1 << 28); // its threads keep all cores
    let mut plan = world.plan();
    set(
        &mut plan,
        "load",
        json!({
            "mode": "closed", "clients": 1, "processes": 2, "rate_ops_per_s": 1000,
            "think": "saturated",
        }),
    );
    let prepared = world.prepare(&plan);
    let all = rustix::thread::sched_getaffinity(None).unwrap();
    let mut one = rustix::thread::CpuSet::new();
    one.set((0..1024).find(|core| all.is_set(*core)).unwrap());
    rustix::thread::sched_setaffinity(None, &one).unwrap();
    let records = load::Records::default();
    let report = beside(4, || {
        // Of this thread and those that it starts: whoever wakes is else let in front of spinners.
        rustix::process::nice(7).unwrap();
        load::run(prepared, &measure::MonotonicClock, &records, &mut ()).unwrap()
    });
    let kinds: Vec<&str> = report.reasons.iter().map(|reason| reason.kind).collect();
    assert!(!report.valid);
    assert!(kinds.contains(&"generator_late"), "{kinds:?}");
    // It is mostly woken by a reply: that one lay there while it waited for the core.
    let longest_ns = report.pick_up.max_ns.unwrap() as f64;
    assert!(
        longest_ns > load::guard::DELAY_P99_ALLOWED_NS,
        "{longest_ns}"
    );
    let thread = report.threads.first().unwrap();
    assert!(
        thread.waited_ns.unwrap() > thread.window_ns / 10,
        "{thread:?}"
    );
    assert_eq!(report.little.residual_ns, 0);
}

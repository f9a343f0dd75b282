//! UDP under load: calls and replies get lost, replies come twice, and no operation counts twice.

use std::collections::BTreeMap;

use crate::world::{World, assert_valid, by_procedure, reported, set};
use load::{Records, Report};
use measure::MonotonicClock;
use serde_json::{Value, json};
use server::model::ModelDescription;
use server::record::CallRecord;

/// The plan over UDP: sent again after 0.1 s, often enough that none is given up.
fn over_udp(world: &World) -> Value {
    let mut plan = world.plan();
    let options = format!("{},proto=udp,timeo=1,retrans=12", world.options());
    plan["servers"][0]["options"] = json!(options);
    set(&mut plan, "load.rate_ops_per_s", json!(600));
    set(&mut plan, "load.outstanding_max", json!(1024));
    set(&mut plan, "measure_s", json!(1.5));
    set(&mut plan, "read_sizes_bytes", json!({"4096": 1}));
    set(&mut plan, "write_sizes_bytes", json!({"4096": 1}));
    // More of what must not be done twice than any mix has.
    set(
        &mut plan,
        "mix",
        json!({"GETATTR": 20, "LOOKUP": 10, "READ": 15, "WRITE": 15,
        "CREATE": 20, "REMOVE": 20}),
    );
    plan
}

/// Calls by (client, xid): how often the server did each.
fn done(calls: &[CallRecord]) -> BTreeMap<(String, u32), (u32, u64)> {
    let mut done = BTreeMap::new();
    for call in calls {
        let key = (call.client.to_string(), call.xid);
        let entry = done.entry(key).or_insert((call.procedure, 0));
        assert_eq!(entry.0, call.procedure);
        entry.1 += 1;
    }
    done
}

fn assert_counted_once(report: &Report, calls: &[CallRecord]) -> u64 {
    assert_valid(report);
    assert_eq!(report.network.major_timeouts, 0);
    let ours = reported(report);
    let done = done(calls);
    assert_eq!(
        ours,
        by_procedure(done.values().map(|(procedure, _)| *procedure)),
        "each call of ours, by its transaction id"
    );
    let all: u64 = ours.values().sum();
    assert_eq!(report.network.sends, all + report.network.retransmissions);
    assert_eq!(report.series.answered.iter().sum::<u64>(), all);
    // What must not be done twice was done once: the others were answered from the reply cache.
    for ((client, xid), (procedure, times)) in &done {
        if matches!(procedure, 2 | 7 | 8 | 12) {
            assert_eq!(*times, 1, "procedure {procedure} of {client} {xid:#x}");
        }
    }
    all
}

#[test]
fn lost_datagrams_are_sent_again_and_counted_once() {
    let mut world = World::memory(1 << 28);
    let plan = over_udp(&world);
    world.prepare(&plan);
    world.start(Some(ModelDescription {
        loss: 0.05,
        ..ModelDescription::default()
    }));
    let prepared = world.prepare(&plan);
    let counts = |world: &World| world.server.as_ref().unwrap().counts();
    let before = counts(&world);
    let report = load::run(prepared, &MonotonicClock, &Records::default(), &mut ()).unwrap();
    let after = counts(&world);
    let calls = world.calls_of(&report);
    let all = assert_counted_once(&report, &calls);
    // Whatever the model lost was sent again, and nothing else but what a busy machine held up
    // for 0.1 s: of such a call, two replies come.
    let lost = after.model_lost - before.model_lost;
    assert!(lost > all / 20, "{lost} of {all}");
    let network = &report.network;
    let held_up = network.late_replies + network.unknown_replies + after.duplicates_dropped;
    let sent_again = network.retransmissions;
    assert!(
        (lost..=lost + held_up).contains(&sent_again),
        "{sent_again}, {lost}, {held_up}"
    );
    // Its waiting is in the response: 0.1 s at least for those that were sent twice.
    assert!(report.response.p99_ns.unwrap() >= 100_000_000);
    // The planted cause was at work on both ways: lost replies of CREATE and REMOVE, asked again.
    assert!(after.duplicates_answered - before.duplicates_answered > 10);
}

#[test]
fn replies_that_come_twice_count_once() {
    let mut world = World::memory(1 << 28);
    let plan = over_udp(&world);
    world.prepare(&plan);
    world.start(Some(ModelDescription {
        duplicate: 0.3,
        ..ModelDescription::default()
    }));
    let prepared = world.prepare(&plan);
    let doubled = |world: &World| world.server.as_ref().unwrap().counts().model_doubled;
    let before = doubled(&world);
    let report = load::run(prepared, &MonotonicClock, &Records::default(), &mut ()).unwrap();
    let doubled = doubled(&world) - before;
    let calls = world.calls_of(&report);
    let all = assert_counted_once(&report, &calls);
    assert_eq!(calls.len() as u64, all, "nothing was asked twice");
    assert_eq!(report.network.retransmissions, 0);
    // The second of each is a reply to nothing: those that came before the point's end.
    let strange = report.network.late_replies + report.network.unknown_replies;
    assert!(doubled > all / 5, "{doubled} of {all}");
    assert!(
        (doubled - 5..=doubled).contains(&strange),
        "{strange} of {doubled}"
    );
}

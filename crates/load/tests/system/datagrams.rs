//! UDP under load: calls and replies get lost, replies come twice, and no operation counts twice.

use std::collections::BTreeMap;

use crate::world::{World, assert_valid, by_procedure, reported, set};
use client::record::RpcRecord;
use load::{Records, Report};
use measure::MonotonicClock;
use serde_json::{Value, json};
use server::model::ModelDescription;
use server::net::Counts;
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

/// A point over UDP at a server that was started anew with this model: what it counts is the point's.
struct Point {
    report: Report,
    /// What the generator recorded, in the order in which the calls ended.
    ours: Vec<RpcRecord>,
    /// What the server recorded, and counted to its end.
    theirs: Vec<CallRecord>,
    counts: Counts,
}

impl Point {
    fn with(model: ModelDescription) -> Self {
        let mut world = World::memory(1 << 28);
        let mut plan = over_udp(&world);
        set(&mut plan, "record_calls", json!(100_000));
        let prepared = world.prepare(&plan);
        world.start(Some(model));
        let records = Records::default();
        let report = load::run(prepared, &MonotonicClock, &records, &mut ()).unwrap();
        let (ended, counts) = world.server.take().unwrap().finish();
        ended.unwrap();
        let mut ours = Vec::new();
        assert_eq!(records.drain(&mut ours), 0);
        ours.sort_by_key(|call| call.times.completed_ns);
        let theirs = world.calls_of(&report);
        Point {
            report,
            ours,
            theirs,
            counts,
        }
    }

    /// Sent again by the generator so late that the replies may have found nobody: on both ways
    /// datagrams keep their order, so that all is done that was sent before the call that ended last.
    fn under_way_at_the_end(&self) -> u64 {
        let from_ns = self.ours.last().unwrap().times.sent_first_ns;
        let late = |call: &&RpcRecord| call.sends > 1 && call.times.sent_last_ns >= from_ns;
        let late = self.ours.iter().filter(late);
        late.map(|call| u64::from(call.sends) - 1).sum()
    }
}

#[test]
fn lost_datagrams_are_sent_again_and_counted_once() {
    let point = Point::with(ModelDescription {
        loss: 0.05,
        ..ModelDescription::default()
    });
    let Point {
        report,
        ours,
        counts,
        ..
    } = &point;
    let all = assert_counted_once(report, &point.theirs);
    // Whatever the model lost was sent again, and nothing else but what a busy machine held up
    // for 0.1 s: of such a call, two replies come.
    let lost = counts.model_lost;
    assert!(lost > all / 20, "{lost} of {all}");
    let network = &report.network;
    let held_up = network.late_replies + network.unknown_replies + counts.duplicates_dropped;
    let under_way = point.under_way_at_the_end();
    let sent_again = network.retransmissions;
    assert!(
        (lost + held_up..=lost + held_up + under_way).contains(&sent_again),
        "{sent_again}, {lost}, {held_up}, {under_way}"
    );
    // Its waiting is in the response: 0.1 s at least for those that were sent twice.
    let again = ours.iter().filter(|call| call.sends > 1);
    let window = report.window_start_ns..report.window_end_ns;
    for call in again {
        let response_ns = call.times.completed_ns - call.times.enqueued_ns;
        assert!(response_ns >= 100_000_000, "{call:?}");
        if window.contains(&call.times.completed_ns) {
            assert!(report.response.max_ns.unwrap() >= response_ns);
        }
    }
    // The planted cause was at work on both ways: lost replies of CREATE and REMOVE, asked again.
    assert!(counts.duplicates_answered > 0);
}

#[test]
fn replies_that_come_twice_count_once() {
    let point = Point::with(ModelDescription {
        duplicate: 0.3,
        ..ModelDescription::default()
    });
    let Point { report, counts, .. } = &point;
    let all = assert_counted_once(report, &point.theirs);
    // Nothing was lost: what was asked twice is what a busy machine held up for 0.1 s.
    let doubled = counts.model_doubled;
    assert!(doubled > all / 5, "{doubled} of {all}");
    assert_eq!(counts.model_lost, 0);
    // The second of each is a reply to nothing, as is that to a call sent again, but for those
    // that came behind the point's end: of the call that ended last, and of what was sent after it.
    let surplus = doubled + report.network.retransmissions - counts.duplicates_dropped;
    let under_way = 1 + 2 * point.under_way_at_the_end();
    let strange = report.network.late_replies + report.network.unknown_replies;
    assert!(
        strange <= surplus && surplus <= strange + under_way,
        "{strange} of {surplus}, {under_way}"
    );
}

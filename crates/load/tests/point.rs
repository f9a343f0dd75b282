//! A point against the embedded server: its figures against what the server itself recorded.
#![allow(clippy::unwrap_used)]

mod world;

use std::collections::BTreeMap;

use load::content::Content;
use load::layout::Name;
use load::{Records, Report};
use measure::{LatencyHistogram, MonotonicClock};
use serde_json::json;
use world::{
    SFS3, World, all_sent, assert_same_calls, assert_saturated, assert_valid, saturate, set, slow,
    undisturbed,
};

const MS: u64 = 1_000_000;

#[test]
fn calls_by_operation_are_those_that_the_server_recorded() {
    let mut world = World::memory(1 << 28);
    let mut plan = world.plan();
    set(&mut plan, "measure_s", json!(2.0));
    let report = undisturbed(|| world.run(&plan), all_sent);
    assert_valid(&report);
    assert_same_calls(&report, &world.calls_of(&report));
    assert_eq!(report.unanswered + report.unsent + report.not_sent, 0);
    // The drawn mix against the weights: 12 degrees of freedom, 32.9 at 0.1 %.
    let sum: f64 = SFS3.iter().map(|(_, weight)| weight).sum();
    let drawn: u64 = report
        .operations
        .iter()
        .map(|operation| operation.calls)
        .sum();
    let square = |(name, weight): &(&str, f64)| {
        let found = report
            .operations
            .iter()
            .find(|operation| operation.operation == *name);
        let expected = drawn as f64 * weight / sum;
        (found.unwrap().calls as f64 - expected).powi(2) / expected
    };
    let chi_square: f64 = SFS3.iter().map(square).sum();
    assert!(chi_square < 32.9, "{chi_square} of {drawn}");
    // 2,000 a second, Poisson: 4,000 arrivals with deviation 63 in the window of 2 s.
    assert!(
        report.arrivals.abs_diff(4000) < 5 * 63,
        "{}",
        report.arrivals
    );
    assert_eq!(report.achieved_ops_per_s, report.answered as f64 / 2.0);
    let series: u64 = report.series.answered.iter().sum();
    assert_eq!(series, drawn, "each call in one interval");
    let planned: u64 = report.series.planned.iter().sum();
    assert_eq!(planned, drawn, "each arrival is a call");
    assert_eq!(report.network.sends, drawn);
    assert!(report.verified_bytes > 0 && report.verified_bytes == report.read_bytes);
}

#[test]
fn a_seed_is_an_arrival_and_an_operation_for_each_instant() {
    let world = World::memory(1 << 28);
    let mut plan = world.plan();
    let calls = |report: &Report| -> Vec<u64> {
        assert!(all_sent(report));
        report
            .operations
            .iter()
            .map(|operation| operation.calls)
            .collect()
    };
    let first = undisturbed(|| world.run(&plan), all_sent);
    let second = undisturbed(|| world.run(&plan), all_sent);
    assert_eq!(first.arrivals, second.arrivals);
    assert_eq!(calls(&first), calls(&second));
    set(&mut plan, "repetition", json!(1));
    let other = undisturbed(|| world.run(&plan), all_sent);
    assert_ne!(calls(&first), calls(&other));
    assert_eq!(other.mounts[0].files_made, 0, "the same file set");
}

#[test]
fn what_was_written_and_appended_is_in_the_store() {
    let world = World::memory(1 << 28);
    let mut plan = world.plan();
    set(
        &mut plan,
        "mix",
        json!({"WRITE": 70, "SETATTR": 5, "COMMIT": 10, "READ": 15}),
    );
    set(&mut plan, "file_set.accessed_share", json!(1.0));
    set(&mut plan, "file_set.growth_share", json!(0.3));
    set(&mut plan, "load.rate_ops_per_s", json!(6000));
    // Else no byte could be told from the preparation's: whatever is there is overwritten first.
    let prepared = world.prepare(&plan);
    let layout = prepared.checked.layout.clone();
    let content = Content::new();
    let report = world.run(&plan);
    assert_valid(&report);
    let mut grown = 0;
    for file in 0..layout.files {
        let directory = Name::directory(layout.directory_of(file));
        let path = format!("nfslab-load/{directory}/{}", Name::file(file));
        let bytes = world.content(&path).unwrap();
        assert!(bytes.len() as u64 >= layout.size_bytes(file));
        grown += bytes.len() as u64 - layout.size_bytes(file);
        for (n, part) in bytes.chunks(1 << 20).enumerate() {
            let place = (n as u64) << 20;
            assert_eq!(content.mismatch(file, place, part), None, "file {file}");
        }
    }
    assert!(grown > 0, "some were appended to");
    assert!(
        grown <= layout.bytes * 3 / 10,
        "{grown} of {}",
        layout.bytes
    );
    assert!(report.written_bytes > 0 && report.touched.bytes > 0);
    assert!(report.touched.bytes <= report.touched.accessed_bytes);
    assert_eq!(report.touched.set_bytes, layout.bytes);
    // And again: what grew is cut, the next point begins with the same set.
    assert_valid(&world.run(&plan));
}

#[test]
fn a_damaged_byte_is_found_by_reading() {
    let world = World::memory(1 << 28);
    let mut plan = world.plan();
    set(&mut plan, "mix", json!({"READ": 100}));
    set(&mut plan, "file_set.file_sizes_bytes", json!({"8192": 1}));
    set(&mut plan, "file_set.files", json!(20));
    set(&mut plan, "file_set.accessed_share", json!(1.0));
    let prepared = world.prepare(&plan);
    let file = world.lookup("nfslab-load/d0000000/f00000007").unwrap();
    let was = world.content("nfslab-load/d0000000/f00000007").unwrap()[2000];
    let stable = wire::nfs3::stable_how::FILE_SYNC;
    world
        .store
        .write(&world.admin, &file, 2000, &[was ^ 1], stable)
        .unwrap();
    let report = load::run(prepared, &MonotonicClock, &Records::default(), &mut ()).unwrap();
    assert!(!report.valid);
    let first = report.first_unexpected.as_deref().unwrap();
    assert!(first.starts_with("READ f00000007 ["), "{first}");
    assert!(first.ends_with("other bytes than were written"), "{first}");
    // With a share of 0 nobody looks.
    set(&mut plan, "verify_share", json!(0.0));
    let report = world.run(&plan);
    assert_valid(&report);
    assert_eq!(report.verified_bytes, 0);
}

#[test]
fn a_planted_service_time_is_in_every_response_and_littles_law_holds() {
    let mut world = World::memory(1 << 28);
    let mut plan = world.plan();
    world.prepare(&plan);
    world.start(Some(slow(16, 4 * MS)));
    set(&mut plan, "load.rate_ops_per_s", json!(500));
    set(&mut plan, "warm_up_s", json!(0.3));
    set(&mut plan, "measure_s", json!(1.0));
    // L = lambda W, both from figures of their own; the edges are 4 ms of a second.
    let ratio = |report: &Report| report.outstanding_mean / report.little.rate_times_response;
    let alone = |report: &Report| {
        let median_ns = report.response.p50_ns.unwrap_or(u64::MAX);
        median_ns < 6 * MS && (ratio(report) - 1.0).abs() < 0.03
    };
    let report = undisturbed(|| world.run(&plan), alone);
    assert_valid(&report);
    assert!(report.response.min_ns.unwrap() >= 4 * MS, "never early");
    assert!(
        report.response.p50_ns.unwrap() < 6 * MS,
        "{:?}",
        report.response.p50_ns
    );
    for operation in &report.operations {
        if let Some(least_ns) = operation.response.min_ns {
            assert!(least_ns >= 4 * MS, "{}", operation.operation);
        }
    }
    assert!((ratio(&report) - 1.0).abs() < 0.03, "{}", ratio(&report));
}

#[test]
fn saturated_processes_are_all_outstanding_all_the_time() {
    let mut world = World::memory(1 << 28);
    let mut plan = world.plan();
    world.prepare(&plan);
    world.start(Some(slow(4, 2 * MS)));
    saturate(&mut plan);
    let in_time = |report: &Report| (1500.0..=2004.0).contains(&report.achieved_ops_per_s);
    let report = undisturbed(|| world.run(&plan), in_time);
    assert_valid(&report);
    // 4 workers of 2 ms are 2,000 a second at most; 20 in the system take 10 ms each.
    assert!(
        report.achieved_ops_per_s <= 2004.0,
        "{}",
        report.achieved_ops_per_s
    );
    assert!(
        report.achieved_ops_per_s > 1500.0,
        "{}",
        report.achieved_ops_per_s
    );
    assert_saturated(&report);
    assert_same_calls(&report, &world.calls_of(&report));
}

#[test]
fn closed_processes_meet_an_offered_load_that_the_server_can_bear() {
    let mut world = World::memory(1 << 28);
    let mut plan = world.plan();
    world.prepare(&plan);
    world.start(Some(slow(20, 3 * MS)));
    let load = json!({"mode": "closed", "clients": 5, "processes": 4, "rate_ops_per_s": 1000});
    set(&mut plan, "load", load);
    set(&mut plan, "warm_up_s", json!(0.5));
    set(&mut plan, "measure_s", json!(2.0));
    let about = |report: &Report| report.answered.abs_diff(2000) < 224;
    let report = undisturbed(|| world.run(&plan), about);
    assert_valid(&report);
    // 20 processes with cycles of 20 ms of deviation below 17: 2,000 +- 5 sqrt(2000).
    assert!(report.answered.abs_diff(2000) < 224, "{}", report.answered);
    assert!(report.outstanding_mean < 20.0);
}

#[test]
fn an_overloaded_server_is_overload_and_not_the_generators_fault() {
    let mut world = World::memory(1 << 28);
    let mut plan = world.plan();
    world.prepare(&plan);
    world.start(Some(slow(2, 4 * MS)));
    // 500 a second is what it can; it is offered 2,000.
    set(&mut plan, "warm_up_s", json!(0.2));
    set(&mut plan, "measure_s", json!(1.0));
    set(&mut plan, "silence_limit_s", json!(20.0));
    let alone = |report: &Report| report.valid && report.achieved_ops_per_s <= 502.0;
    let report = undisturbed(|| world.run(&plan), alone);
    assert_valid(&report);
    let late = report
        .reasons
        .iter()
        .filter(|reason| reason.kind.starts_with("generator_"));
    assert_eq!(late.count(), 0, "{:?}", report.reasons);
    assert!(
        report.achieved_ops_per_s <= 502.0,
        "{}",
        report.achieved_ops_per_s
    );
    // From the planned instant: those that ended last had waited three quarters of 1.2 s.
    assert!(
        report.response.max_ns.unwrap() > 700 * MS,
        "{:?}",
        report.response.max_ns
    );
    assert!(
        report.left_at_window_end > 1000,
        "{}",
        report.left_at_window_end
    );
    assert!(report.oldest_left_ns > 500 * MS);
    assert!(
        report.unsent > 500,
        "waited for a slot to the end: {}",
        report.unsent
    );
}

#[test]
fn every_call_is_recorded_if_asked() {
    let mut world = World::memory(1 << 28);
    let mut plan = world.plan();
    set(&mut plan, "record_calls", json!(100_000));
    set(&mut plan, "threads", json!(2));
    let prepared = world.prepare(&plan);
    let records = Records::default();
    let report = load::run(prepared, &MonotonicClock, &records, &mut ()).unwrap();
    assert_valid(&report);
    let mut calls = Vec::new();
    assert_eq!(records.drain(&mut calls), 0);
    // Call by call: the transaction ids of both ends.
    let mut ours: Vec<u32> = calls.iter().map(|call| call.xid).collect();
    let mut theirs: Vec<u32> = world
        .calls_of(&report)
        .iter()
        .map(|call| call.xid)
        .collect();
    ours.sort_unstable();
    theirs.sort_unstable();
    assert_eq!(ours, theirs);
    // The histogram of all is that of the records within the window, but for the planned instant.
    let in_window = calls.iter().filter(|call| {
        (report.window_start_ns..report.window_end_ns).contains(&call.times.completed_ns)
    });
    assert_eq!(in_window.count() as u64, report.answered);
}

#[test]
fn several_mounts_and_threads_share_the_load_evenly() {
    let mut first = World::memory(1 << 28);
    let mut second = World::memory(1 << 28);
    let mut plan = first.plan();
    let server = |world: &World| {
        let options = world.options();
        json!({"address": "127.0.0.1", "export": "/export", "options": options})
    };
    set(
        &mut plan,
        "servers",
        json!([server(&first), server(&second)]),
    );
    set(&mut plan, "threads", json!(4));
    set(&mut plan, "load.arrivals", json!("uniform"));
    set(&mut plan, "file_set.files", json!(600));
    let prepared = first.prepare(&plan);
    drop(prepared);
    let report = undisturbed(|| first.run(&plan), all_sent);
    assert_valid(&report);
    let (one, other) = (
        first.calls_of(&report).len(),
        second.calls_of(&report).len(),
    );
    assert!(one.abs_diff(other) <= 4, "{one} {other}");
    // Each server's own record agrees with what the report says of its mount.
    let told: Vec<u64> = report.mounts.iter().map(|mount| mount.calls).collect();
    assert_eq!(told, [one as u64, other as u64]);
    assert!(
        report
            .mounts
            .iter()
            .all(|mount| mount.ended == mount.calls && !mount.silent)
    );
    let answered: u64 = report.mounts.iter().map(|mount| mount.answered).sum();
    assert_eq!(answered, report.answered);
    assert_eq!(
        report.operations.iter().map(|o| o.calls).sum::<u64>(),
        (one + other) as u64
    );
    // Uniform arrivals: exactly the offered load.
    assert!(report.arrivals.abs_diff(1000) <= 1, "{}", report.arrivals);
    // The two sets differ in content.
    let bytes = |world: &World, n| {
        world
            .content(&format!("nfslab-load-{n}/d0000000/f00000000"))
            .unwrap()
    };
    assert_ne!(bytes(&first, 0), bytes(&second, 1));
    assert_eq!(report.threads.len(), 4);
}

#[test]
fn the_histograms_of_operations_add_up_to_that_of_all() {
    let world = World::memory(1 << 28);
    let report = world.run(&world.plan());
    use base64::Engine as _;
    let decode = |text: &str| {
        let bytes = base64::engine::general_purpose::STANDARD
            .decode(text)
            .unwrap();
        LatencyHistogram::from_v2(&bytes).unwrap()
    };
    let mut sum = LatencyHistogram::new().unwrap();
    for operation in &report.operations {
        sum.add(&decode(&operation.response.v2_base64)).unwrap();
    }
    let all = decode(&report.response.v2_base64);
    assert_eq!(sum.count(), report.answered);
    assert!(sum.buckets().eq(all.buckets()));
}

#[test]
fn connections_of_nconnect_share_the_calls() {
    let mut world = World::memory(1 << 28);
    let mut plan = world.plan();
    plan["servers"][0]["options"] = json!(format!("{},nconnect=3", world.options()));
    let report = world.run(&plan);
    assert_valid(&report);
    let mut by_client = BTreeMap::new();
    for call in world.calls_of(&report) {
        *by_client.entry(call.client).or_insert(0_u64) += 1;
    }
    let all: u64 = by_client.values().sum();
    assert_eq!(report.network.sends, all);
    assert_eq!(by_client.len(), 3, "{by_client:?}");
    assert!(
        by_client.values().all(|calls| *calls > all / 6),
        "{by_client:?}"
    );
    assert!(
        report.mounts[0].options.contains("nconnect=3"),
        "{:?}",
        report.mounts
    );
}

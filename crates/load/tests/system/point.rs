//! A point against the embedded server: its figures against what the server itself recorded.

use std::collections::BTreeMap;

use crate::world::{
    SFS3, World, all_in_window, assert_littles_law, assert_same_calls, assert_saturated,
    assert_valid, drawn, saturate, set, slow,
};
use client::record::RpcRecord;
use load::content::Content;
use load::layout::Name;
use load::{Records, Report};
use measure::{LatencyHistogram, MonotonicClock};
use serde_json::{Value, json};

const MS: u64 = 1_000_000;

/// A point with a record of each of its calls, in the order in which they were handed over.
fn recorded(world: &World, plan: &mut Value) -> (Report, Vec<RpcRecord>) {
    set(plan, "record_calls", json!(100_000));
    let prepared = world.prepare(plan);
    let records = Records::default();
    let report = load::run(prepared, &MonotonicClock, &records, &mut ()).unwrap();
    let mut calls = Vec::new();
    assert_eq!(records.drain(&mut calls), 0);
    calls.sort_by_key(|call| call.times.enqueued_ns);
    (report, calls)
}

#[test]
fn calls_by_operation_are_those_that_the_server_recorded() {
    let mut world = World::memory(1 << 28);
    let mut plan = world.plan();
    all_in_window(&mut plan, 2.0);
    let report = world.run(&plan);
    assert_valid(&report);
    assert_same_calls(&report, &world.calls_of(&report));
    let drawn = drawn(&report);
    // The drawn mix against the weights: 12 degrees of freedom, 32.9 at 0.1 %.
    let sum: f64 = SFS3.iter().map(|(_, weight)| weight).sum();
    let square = |(name, weight): &(&str, f64)| {
        let found = drawn.iter().find(|(operation, _)| operation == name);
        let expected = report.arrivals as f64 * weight / sum;
        (found.unwrap().1 as f64 - expected).powi(2) / expected
    };
    let chi_square: f64 = SFS3.iter().map(square).sum();
    assert!(chi_square < 32.9, "{chi_square} of {}", report.arrivals);
    // 2,000 a second, Poisson: 4,000 arrivals with deviation 63 in the window of 2 s.
    assert!(
        report.arrivals.abs_diff(4000) < 5 * 63,
        "{}",
        report.arrivals
    );
    assert_eq!(report.achieved_ops_per_s, report.answered as f64 / 2.0);
    let calls = report.arrivals - report.not_drawn;
    let series: u64 = report.series.answered.iter().sum();
    assert_eq!(series, calls, "each call in one interval");
    let planned: u64 = report.series.planned.iter().sum();
    assert_eq!(planned, report.arrivals);
    assert_eq!(report.network.sends, calls);
    assert!(report.verified_bytes > 0 && report.verified_bytes == report.read_bytes);
}

#[test]
fn a_seed_is_an_arrival_and_an_operation_for_each_instant() {
    let world = World::memory(1 << 28);
    let mut plan = world.plan();
    all_in_window(&mut plan, 0.5);
    let first = drawn(&world.run(&plan));
    assert_eq!(first, drawn(&world.run(&plan)));
    set(&mut plan, "repetition", json!(1));
    let other = world.run(&plan);
    assert_ne!(first, drawn(&other));
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
    let content = Content::default();
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
fn the_share_of_appending_writes_is_what_was_done() {
    let world = World::memory(1 << 28);
    let mut plan = world.plan();
    set(&mut plan, "mix", json!({"WRITE": 100}));
    // No room: every WRITE is one within the file, and that is said.
    set(&mut plan, "file_set.growth_share", json!(0.0));
    let none = world.run(&plan);
    assert_eq!(none.append_share, Some(0.0));
    assert!(none.notes.iter().any(|note| note.contains("growth_share")));
    set(&mut plan, "file_set.growth_share", json!(1.0));
    set(&mut plan, "append_share", json!(1.0));
    set(&mut plan, "load.rate_ops_per_s", json!(100));
    let all = world.run(&plan);
    assert_eq!(all.append_share, Some(1.0));
    assert_eq!(all.notes, none.notes[..none.notes.len() - 1]);
    set(&mut plan, "mix", json!({"READ": 100}));
    assert_eq!(world.run(&plan).append_share, None);
}

#[test]
fn a_damaged_byte_is_found_by_reading() {
    let world = World::memory(1 << 28);
    let mut plan = world.plan();
    set(&mut plan, "mix", json!({"READ": 100}));
    set(&mut plan, "file_set.file_sizes_bytes", json!({"8192": 1}));
    set(&mut plan, "file_set.files", json!(20));
    set(&mut plan, "file_set.accessed_share", json!(1.0));
    all_in_window(&mut plan, 0.5);
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
    all_in_window(&mut plan, 1.0);
    let (report, calls) = recorded(&world, &mut plan);
    assert_valid(&report);
    assert_littles_law(&report);
    // Call by call: the server had it for 4 ms at least, within what the client waited.
    let served: BTreeMap<u32, _> = world
        .calls_of(&report)
        .into_iter()
        .map(|call| (call.xid, call))
        .collect();
    let window = report.window_start_ns..report.window_end_ns;
    let (mut waited_ns, mut longest_ns, mut at_server_ns) = (0, 0, 0);
    for call in &calls {
        let (times, server) = (call.times, &served[&call.xid]);
        assert!(times.enqueued_ns <= server.received_ns);
        assert!(server.received_ns + 4 * MS <= server.finished_ns);
        assert!(server.finished_ns <= times.completed_ns);
        let latency_ns = times.completed_ns - times.enqueued_ns;
        longest_ns = longest_ns.max(latency_ns);
        if window.contains(&times.completed_ns) {
            waited_ns += i128::from(latency_ns);
        }
        let until_ns = server.finished_ns.min(window.end);
        at_server_ns += until_ns.saturating_sub(server.received_ns);
    }
    for operation in &report.operations {
        if let Some(least_ns) = operation.response.min_ns {
            assert!(least_ns >= 4 * MS, "{}", operation.operation);
        }
    }
    // A response begins at the planned instant: it is that much longer as the generator was late.
    let late_ns = report.late.max_ns.unwrap();
    let allowed_ns = i128::from(report.answered) * i128::from(late_ns);
    let responses_ns = report.little.responses_ns;
    assert!((waited_ns..=waited_ns + allowed_ns).contains(&responses_ns));
    assert!(report.response.max_ns.unwrap() <= longest_ns + late_ns);
    // What is at the server is under way.
    assert!(report.outstanding_mean >= at_server_ns as f64 / 1e9);
}

#[test]
fn saturated_processes_are_all_outstanding_all_the_time() {
    let mut world = World::memory(1 << 28);
    let mut plan = world.plan();
    world.prepare(&plan);
    world.start(Some(slow(4, 2 * MS)));
    saturate(&mut plan);
    let report = world.run(&plan);
    assert_valid(&report);
    // 4 workers of 2 ms are 2,000 a second at most, and one each at the window's edge; what all 20
    // were told before the window may be noticed in it.
    let most = 2000 + 4 + 20;
    assert!(report.answered <= most, "{}", report.answered);
    assert_saturated(&report);
    assert_same_calls(&report, &world.calls_of(&report));
}

#[test]
fn closed_processes_meet_an_offered_load_that_the_server_can_bear() {
    let mut world = World::memory(1 << 28);
    let mut plan = world.plan();
    world.prepare(&plan);
    world.start(Some(slow(20, 3 * MS)));
    let load = json!({"mode": "closed", "clients": 5, "processes": 4, "think": "constant",
        "rate_ops_per_s": 1000});
    set(&mut plan, "load", load);
    set(&mut plan, "warm_up_s", json!(0.0));
    set(&mut plan, "measure_s", json!(2.0));
    set(&mut plan, "cool_down_s", json!(0.0));
    let report = world.run(&plan);
    assert_valid(&report);
    assert_littles_law(&report);
    // 20 processes with cycles of 20 ms for 2 s. A cycle is a response R and what is missing to
    // 20 ms of M, the mean of 128 answers. All R - M sum up to 127 times all steps of M: that is
    // within 127 of the longest R. Each process begins within a cycle, and ends within another one.
    let (cycle_s, window_s) = (0.02, 2.0);
    let longest_s = report.response.max_ns.unwrap() as f64 / 1e9;
    let room_s = 127.0 * longest_s;
    let most = (20.0 * window_s + room_s) / cycle_s + 20.0;
    let least_s = 20.0 * (window_s - 2.0 * cycle_s - longest_s) - room_s;
    let least = least_s / cycle_s.max(longest_s);
    let answered = report.answered as f64;
    assert!(
        least <= answered && answered <= most,
        "{least} {answered} {most}"
    );
    assert!(report.outstanding_mean <= 20.0);
}

#[test]
fn an_overloaded_server_is_overload_and_not_the_generators_fault() {
    let mut world = World::memory(1 << 28);
    let mut plan = world.plan();
    world.prepare(&plan);
    world.start(Some(slow(2, 4 * MS)));
    // 500 a second is what it can; it is offered 2,000, each at an instant known beforehand.
    set(&mut plan, "mix", json!({"GETATTR": 100}));
    set(&mut plan, "load.arrivals", json!("uniform"));
    set(&mut plan, "warm_up_s", json!(0.2));
    set(&mut plan, "measure_s", json!(1.0));
    let (report, calls) = recorded(&world, &mut plan);
    assert_valid(&report);
    // 2 workers of 4 ms; at the window's edge one each, and 64 may be noticed in it.
    assert!(report.answered <= 500 + 2 + 64, "{}", report.answered);
    // From the planned instant, one every half millisecond: first come, first handed over.
    let window = report.window_start_ns..report.window_end_ns;
    let planned_ns = (1..).map(|n| report.start_monotonic_ns + n * 500_000);
    let responses_ns: Vec<u64> = calls
        .iter()
        .zip(planned_ns)
        .filter(|(call, _)| window.contains(&call.times.completed_ns))
        .map(|(call, planned_ns)| call.times.completed_ns - planned_ns)
        .collect();
    assert_eq!(responses_ns.len() as u64, report.answered);
    let sum_ns: i128 = responses_ns.iter().map(|ns| i128::from(*ns)).sum();
    assert_eq!(report.little.responses_ns, sum_ns);
    assert_eq!(report.response.max_ns.as_ref(), responses_ns.iter().max());
    // Late is who leaves a free slot empty: one became free behind the call before, and its next
    // call was noted before the one behind it.
    let handed_ns = calls.iter().map(|call| call.times.enqueued_ns);
    let edges_ns = [
        report.start_monotonic_ns,
        calls[calls.len() - 1].times.completed_ns,
    ];
    let mut instants_ns: Vec<u64> = handed_ns.chain(edges_ns).collect();
    instants_ns.sort_unstable();
    let gaps_ns = instants_ns.windows(2).map(|pair| pair[1] - pair[0]);
    let gap_ns = gaps_ns.max().unwrap();
    let late_ns = report.late.max_ns.unwrap();
    assert!(late_ns <= 2 * gap_ns, "{late_ns} {gap_ns}");
    // Of 2,400 arrivals 602 at most were answered: the others wait, the oldest since 0.302 s.
    assert!(report.left_at_window_end >= 2400 - 602 - 1);
    assert!(report.oldest_left_ns >= 850 * MS);
    // Of 2,500 arrivals 627 at most were, and 64 are under way.
    assert!(report.unsent >= 2500 - 1 - 627 - 64, "{}", report.unsent);
}

#[test]
fn every_call_is_recorded_if_asked() {
    let mut world = World::memory(1 << 28);
    let mut plan = world.plan();
    set(&mut plan, "threads", json!(2));
    let (report, calls) = recorded(&world, &mut plan);
    assert_valid(&report);
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
    all_in_window(&mut plan, 0.6);
    let report = first.run(&plan);
    assert_valid(&report);
    let (one, other) = (
        first.calls_of(&report).len(),
        second.calls_of(&report).len(),
    );
    drawn(&report);
    let uneven = one.abs_diff(other) as u64;
    assert!(uneven <= 4 + report.not_drawn, "{one} {other}");
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
    assert!(report.arrivals.abs_diff(1200) <= 1, "{}", report.arrivals);
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

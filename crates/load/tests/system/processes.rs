//! Several generator processes (here: threads that know nothing of each other) make one point.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Barrier, OnceLock};

use crate::world::{
    Slow, World, all_in_window, assert_same_calls, assert_saturated, assert_valid, calibration,
    checked, saturate, set, slow,
};
use load::plan::Part;
use load::{Cancelled, Checked, Lost, Observer, Progress, Records, Report, Sums};
use measure::{Clock, LatencyHistogram, MonotonicClock};
use serde_json::{Value, json};

const MS: u64 = 1_000_000;

/// Begins when all are connected, a second later: by then each has heard it.
struct Together<'t> {
    all: &'t Barrier,
    start_ns: &'t std::sync::atomic::AtomicU64,
}

impl Observer<Progress> for Together<'_> {
    fn tick(&mut self, _: &Progress) -> bool {
        true
    }

    fn begin(&mut self) -> Result<Option<u64>, Cancelled> {
        use std::sync::atomic::Ordering::SeqCst;
        if self.all.wait().is_leader() {
            self.start_ns
                .store(MonotonicClock.now_ns() + 1_000 * MS, SeqCst);
        }
        self.all.wait();
        Ok(Some(self.start_ns.load(SeqCst)))
    }
}

fn of_part(plan: &Value, index: u32, of: u32) -> Checked {
    let mut plan = plan.clone();
    set(&mut plan, "part", json!({"index": index, "of": of}));
    checked(&plan)
}

/// What each of `of` processes hands over, as text.
fn parts(plan: &Value, of: u32) -> Vec<String> {
    parts_with(plan, of, |_| MonotonicClock)
}

fn parts_with<C: Clock + Clone>(plan: &Value, of: u32, clock: impl Fn(u32) -> C) -> Vec<String> {
    // In turn, as it has to be: the first one makes the set.
    let prepared: Vec<_> = (0..of)
        .map(|index| load::prepare(of_part(plan, index, of), &mut ()).unwrap())
        .collect();
    let all = &Barrier::new(of as usize);
    let start_ns = &std::sync::atomic::AtomicU64::new(0);
    std::thread::scope(|scope| {
        let begun: Vec<_> = (0_u32..)
            .zip(prepared)
            .map(|(index, prepared)| {
                let clock = clock(index);
                scope.spawn(move || {
                    let mut together = Together { all, start_ns };
                    let records = Records::default();
                    let sums = load::run_part(prepared, &clock, &records, &mut together).unwrap();
                    serde_json::to_string(&sums).unwrap()
                })
            })
            .collect();
        begun.into_iter().map(|one| one.join().unwrap()).collect()
    })
}

fn read(texts: &[String]) -> Vec<Sums> {
    texts
        .iter()
        .map(|text| serde_json::from_str(text).unwrap())
        .collect()
}

/// A plan, and what each of two processes made of it once: for tests of what is made of such texts.
fn of_two() -> &'static (Value, Vec<String>) {
    static ONCE: OnceLock<(Value, Vec<String>)> = OnceLock::new();
    ONCE.get_or_init(|| {
        let world = World::memory(1 << 28);
        let plan = world.plan();
        let texts = parts(&plan, 2);
        (plan, texts)
    })
}

fn merged(plan: &Value, texts: &[String]) -> Report {
    load::merge(&checked(plan), read(texts), &[]).unwrap()
}

fn histogram(report: &Report, name: &str) -> LatencyHistogram {
    let found = report.histograms.iter().find(|(known, _)| *known == name);
    found.unwrap().1.clone()
}

#[test]
fn the_merged_point_is_what_the_server_recorded() {
    let mut world = World::memory(1 << 28);
    let mut plan = world.plan();
    set(&mut plan, "load.arrivals", json!("uniform"));
    set(&mut plan, "file_set.accessed_share", json!(1.0));
    all_in_window(&mut plan, 0.5);
    let texts = parts(&plan, 3);
    let report = merged(&plan, &texts);
    assert_valid(&report);
    let calls = world.calls_of(&report);
    assert_same_calls(&report, &calls);
    // A connection each, and each with its share of an even load.
    let mut by_client: BTreeMap<SocketAddr, u64> = BTreeMap::new();
    for call in &calls {
        *by_client.entry(call.client).or_default() += 1;
    }
    let mut shares: Vec<u64> = report.processes.iter().map(|one| one.calls).collect();
    let mut seen: Vec<u64> = by_client.into_values().collect();
    shares.sort_unstable();
    seen.sort_unstable();
    assert_eq!(shares, seen);
    let uneven = shares[2] - shares[0];
    assert!(uneven <= 1 + report.not_drawn, "{shares:?}");
    // Together they began, and together they are the offered load: 2,000 for half a second.
    assert!(report.arrivals.abs_diff(1000) <= 1, "{}", report.arrivals);
    assert_eq!(report.offered_ops_per_s, 2000.0);
    let offered: f64 = report
        .processes
        .iter()
        .map(|one| one.offered_ops_per_s)
        .sum();
    assert!((offered - 2000.0).abs() < 1e-6);
    assert_eq!(report.network.sends, calls.len() as u64);
    assert_eq!(report.mounts[0].calls, calls.len() as u64);
    assert_eq!(
        (report.mounts[0].files_made, report.mounts[0].files_found),
        (200, 0)
    );
}

#[test]
fn merging_is_adding_up_and_loses_nothing() {
    let (plan, texts) = of_two();
    let all = merged(plan, texts);
    assert_valid(&all);
    assert_eq!(all.little.residual_ns, 0, "Little's law on the whole");
    // The one process's own point, with the other one's missing.
    let alone = |index: usize| {
        let other = Lost {
            index: 1 - index as u32,
            why: "killed".to_owned(),
        };
        load::merge(&checked(plan), read(&texts[index..=index]), &[other]).unwrap()
    };
    let (one, other) = (alone(0), alone(1));
    assert_eq!(all.answered, one.answered + other.answered);
    assert_eq!(all.arrivals, one.arrivals + other.arrivals);
    assert_eq!(
        all.little.area_ns,
        one.little.area_ns + other.little.area_ns
    );
    assert_eq!(
        all.little.responses_ns,
        one.little.responses_ns + other.little.responses_ns
    );
    assert_eq!(all.read_bytes, one.read_bytes + other.read_bytes);
    assert_eq!(all.touched.files, one.touched.files + other.touched.files);
    assert_eq!(all.threads.len(), 2);
    for (name, whole) in &all.histograms {
        let mut sum = histogram(&one, name);
        sum.add(&histogram(&other, name)).unwrap();
        assert!(whole.buckets().eq(sum.buckets()), "{name}");
        assert_eq!(whole.mean_ns(), sum.mean_ns(), "{name}");
        assert_eq!(whole.max_ns(), sum.max_ns(), "{name}");
    }
    let column = |report: &Report| report.series.answered.clone();
    for (n, whole) in column(&all).iter().enumerate() {
        let of = |report| column(report).get(n).copied().unwrap_or(0);
        assert_eq!(*whole, of(&one) + of(&other));
    }
    // In whatever order they came.
    let turned = [texts[1].clone(), texts[0].clone()];
    let turned = merged(plan, &turned);
    assert_eq!(turned.little, all.little);
    assert_eq!(turned.response, all.response);
}

#[test]
#[ignore = "takes seconds"]
fn closed_processes_are_split_exactly_at_length() {
    let mut world = World::memory(1 << 28);
    let mut plan = world.plan();
    world.prepare(&plan);
    world.start(Some(slow(4, 2 * MS)));
    saturate(&mut plan);
    set(
        &mut plan,
        "servers",
        json!([{"address": "127.0.0.1", "export": "/export",
        "options": world.options()}]),
    );
    for (of, offered) in [(2, vec![1600.0, 1600.0]), (3, vec![1120.0, 1120.0, 960.0])] {
        let texts = parts(&plan, of);
        let report = merged(&plan, &texts);
        assert_valid(&report);
        // 20 processes, all waiting all the time: 7, 7 and 6 of three generators.
        assert_saturated(&report);
        let shares: Vec<f64> = report
            .processes
            .iter()
            .map(|one| one.offered_ops_per_s)
            .collect();
        assert_eq!(shares, offered);
    }
}

#[test]
fn every_file_and_scratch_name_belongs_to_one_process() {
    let world = World::memory(1 << 28);
    let mut plan = world.plan();
    set(&mut plan, "file_set.accessed_share", json!(1.0));
    set(&mut plan, "threads", json!(2));
    let mut seen = BTreeSet::new();
    for index in 0..3 {
        let prepared = load::prepare(of_part(&plan, index, 3), &mut ()).unwrap();
        for file in &prepared.mounts[0].files {
            assert!(
                seen.insert(file.number),
                "file {} has two owners",
                file.number
            );
        }
        assert_eq!(prepared.mounts[0].made, if index == 0 { 200 } else { 0 });
    }
    assert_eq!(seen.len(), 200, "and all have one");
    // The set itself knows of no process.
    assert_eq!(of_part(&plan, 1, 3).layout, checked(&plan).layout);
}

#[test]
fn one_process_that_cannot_keep_up_is_named() {
    let world = World::null(1 << 20);
    let mut plan = calibration(&world);
    set(&mut plan, "mix", json!({"GETATTR": 100}));
    set(&mut plan, "load.rate_ops_per_s", json!(40_000));
    set(&mut plan, "load.outstanding_max", json!(2048));
    let texts = parts_with(&plan, 2, |index| Slow(if index == 1 { 150_000 } else { 0 }));
    let report = merged(&plan, &texts);
    assert!(!report.valid);
    let named = report.reasons.iter().any(|reason| {
        reason.kind.starts_with("generator_")
            && reason.text.starts_with("generator process 2 of 2: ")
    });
    assert!(named, "{:?}", report.reasons);
    assert!(!report.processes[1].reasons.is_empty());
    assert_eq!(report.little.residual_ns, 0);
}

#[test]
fn a_process_that_is_missing_makes_the_point_invalid() {
    let (plan, texts) = of_two();
    let lost = Lost {
        index: 1,
        why: "killed by signal 9".to_owned(),
    };
    let report = load::merge(&checked(plan), read(&texts[..1]), &[lost]).unwrap();
    assert!(!report.valid);
    assert_eq!(report.reasons[0].kind, "generator_process");
    let text = &report.reasons[0].text;
    assert!(
        text.contains("process 2 of 2 ended before its time: killed by signal 9"),
        "{text}"
    );
    let calls = report.processes[0].calls;
    assert!(calls > 100, "what the other one measured stays");
}

#[test]
fn what_is_not_of_one_point_is_not_added() {
    let (plan, first) = of_two();
    let refuse = |texts: &[String]| {
        let error = load::merge(&checked(plan), read(texts), &[]).unwrap_err();
        assert_eq!(
            error.what(),
            "the generator processes' results do not make a point"
        );
        error.why()
    };
    assert!(refuse(&[]).contains("of 0"));
    assert!(refuse(&first[..1]).contains("parts [0] of 2"));
    assert!(refuse(&[first[0].clone(), first[0].clone()]).contains("parts [0, 0] of 2"));
    // The same part of another run: it began at another instant.
    let mut other: Value = serde_json::from_str(&first[1]).unwrap();
    let begun_ns = other["measured"]["accounts"]["times"]["start_ns"]
        .as_u64()
        .unwrap();
    set(
        &mut other,
        "measured.accounts.times.start_ns",
        json!(begun_ns + MS),
    );
    assert!(refuse(&[first[0].clone(), other.to_string()]).contains("another point"));
    assert_eq!(Part::default().of, 1);
}

struct Late;
impl Observer<Progress> for Late {
    fn tick(&mut self, _: &Progress) -> bool {
        true
    }
    fn begin(&mut self) -> Result<Option<u64>, Cancelled> {
        Ok(Some(MonotonicClock.now_ns() - MS))
    }
}

#[test]
fn a_common_start_that_is_past_is_refused() {
    let world = World::memory(1 << 28);
    let prepared = world.prepare(&world.plan());
    let error =
        load::run_part(prepared, &MonotonicClock, &Records::default(), &mut Late).unwrap_err();
    assert!(
        error.what().contains("not ready for the common start"),
        "{}",
        error.what()
    );
}

//! Several generator processes (here: threads that know nothing of each other) make one load.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Barrier, OnceLock};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use measure::{Clock, HistogramSummary, LatencyHistogram, MonotonicClock};
use web::load::{LoadConfig, Report, Sums, check_post_log, merge, run_part};
use web::{Cancelled, Observer, Progress};

use crate::served::{load, serve, with_files};

const AHEAD_NS: u64 = 123_456_789;

/// Begins when all are there, a second later: by then each has heard it.
struct Together<'t> {
    all: &'t Barrier,
    start_ns: &'t AtomicU64,
}

impl Observer<Progress> for Together<'_> {
    fn tick(&mut self, _: &Progress) -> bool {
        true
    }

    fn begin(&mut self) -> Result<Option<u64>, Cancelled> {
        if self.all.wait().is_leader() {
            let start_ns = MonotonicClock.now_ns() + 1_000_000_000;
            self.start_ns.store(start_ns, Ordering::SeqCst);
        }
        self.all.wait();
        Ok(Some(self.start_ns.load(Ordering::SeqCst)))
    }
}

/// What each of `of` processes measures.
fn parts(config: &LoadConfig, of: u32) -> Vec<Sums> {
    let (all, start_ns) = (&Barrier::new(of as usize), &AtomicU64::new(0));
    std::thread::scope(|scope| {
        let begun: Vec<_> = (0..of)
            .map(|index| {
                let mut config = config.clone();
                (config.part.index, config.part.of) = (index, of);
                config.process = 40 + index;
                scope.spawn(move || run_part(config, &mut Together { all, start_ns }).unwrap())
            })
            .collect();
        begun.into_iter().map(|one| one.join().unwrap()).collect()
    })
}

fn texts(parts: &[Sums]) -> Vec<(String, i64)> {
    let text = |sums| (serde_json::to_string(sums).unwrap(), 0);
    parts.iter().map(text).collect()
}

fn reports(parts: &[Sums]) -> Vec<Report> {
    parts
        .iter()
        .map(|sums| sums.clone().report().unwrap())
        .collect()
}

fn buckets(summary: &HistogramSummary) -> BTreeMap<u64, u64> {
    let bytes = STANDARD.decode(&summary.v2_base64).unwrap();
    let histogram = LatencyHistogram::from_v2(&bytes).unwrap();
    histogram
        .buckets()
        .map(|(low, _, count)| (low, count))
        .collect()
}

/// Buckets, extremes and mean of all are those of the parts' values together.
fn is_sum(whole: &HistogramSummary, of: &[&HistogramSummary]) {
    let mut expected = BTreeMap::new();
    for (low, count) in of.iter().flat_map(|one| buckets(one)) {
        *expected.entry(low).or_insert(0) += count;
    }
    assert_eq!(buckets(whole), expected);
    assert_eq!(whole.count, of.iter().map(|one| one.count).sum::<u64>());
    assert_eq!(whole.min_ns, of.iter().filter_map(|one| one.min_ns).min());
    assert_eq!(whole.max_ns, of.iter().filter_map(|one| one.max_ns).max());
    let sum: f64 = of
        .iter()
        .map(|one| one.mean_ns.unwrap_or(0.0) * one.count as f64)
        .sum();
    let mean = sum / whole.count.max(1) as f64;
    assert!((whole.mean_ns.unwrap_or(0.0) - mean).abs() <= mean * 1e-12);
}

fn added(of: impl Iterator<Item = Vec<u64>>) -> Vec<u64> {
    let mut sum = Vec::new();
    for one in of {
        sum.resize(sum.len().max(one.len()), 0);
        for (to, from) in sum.iter_mut().zip(one) {
            *to += from;
        }
    }
    sum
}

fn histograms_add_up(own: &[Report], whole: &Report) {
    for at in 0..5 {
        let of: Vec<_> = own
            .iter()
            .map(|one| &one.kinds[at].figures.last_byte)
            .collect();
        is_sum(&whole.kinds[at].figures.last_byte, &of);
    }
    for at in 0..4 {
        let of: Vec<_> = own
            .iter()
            .map(|one| &one.classes[at].figures.first_byte)
            .collect();
        is_sum(&whole.classes[at].figures.first_byte, &of);
    }
    is_sum(
        &whole.late,
        &own.iter().map(|one| &one.late).collect::<Vec<_>>(),
    );
}

fn shares_add_up(own: &[Report], whole: &Report) {
    // A file that two of them read was touched once.
    let most = own.iter().map(|one| one.touched.files).max().unwrap();
    assert!(
        (most..=own.iter().map(|one| one.touched.files).sum::<u64>())
            .contains(&whole.touched.files)
    );
    assert!(whole.touched.files <= 72);
    // Each has its share, and together they are what was asked for.
    let connections = whole.config.load.connections();
    assert_eq!(whole.connections.asked, connections);
    let dealt: Vec<u32> = own.iter().map(|one| one.connections.asked).collect();
    assert_eq!(dealt.iter().sum::<u32>(), connections);
    assert!(
        dealt.iter().max().unwrap() - dealt.iter().min().unwrap() <= 2,
        "{dealt:?}"
    );
    assert_eq!(whole.processes.len(), 3);
    if whole.requests.offered_per_s.is_some() {
        assert_eq!(whole.requests.offered_per_s, Some(500.0));
        assert!(
            whole.requests.planned.abs_diff(300) <= 1,
            "{:?}",
            whole.requests
        );
    }
    if whole.connections.conforming.is_some() {
        assert_eq!(whole.connections.rates_bits_per_s.len(), 31);
    }
}

const KINDS: &str = r#", "threads": 2, "verify_share": 1.0, "drain_s": 20,
    "mix": {"static_get": 0.3, "dynamic_get": 0.2, "cgi_get": 0.1, "ad_get": 0.2, "post": 0.2}"#;

#[test]
fn the_merged_load_is_the_sum_of_its_parts_and_what_the_server_counted() {
    sums_agree(&[
        r#"{"mode": "open", "rate_per_s": 500, "arrivals": "uniform", "connections": 40}"#,
    ]);
}

#[test]
#[ignore = "takes seconds"]
fn so_it_is_in_the_other_modes_at_length() {
    sums_agree(&[
        r#"{"mode": "closed", "connections": 11}"#,
        r#"{"mode": "line_speed", "connections": 31, "line_bits_per_s": 40000000,
            "conforming_bits_per_s": 1}"#,
    ]);
}

fn sums_agree(modes: &[&str]) {
    let root = with_files();
    for mode in modes {
        let log = tempfile::NamedTempFile::new().unwrap();
        let server = serve(
            root.path(),
            &format!(r#", "post_log": "{}""#, log.path().display()),
        );
        let sums = parts(&load(server.address(), mode, KINDS), 3);
        let counted = server.stop();
        let (own, whole) = (reports(&sums), merge(&texts(&sums)).unwrap());
        let sum = |of: fn(&Report) -> u64| own.iter().map(of).sum::<u64>();
        assert_eq!(
            whole.requests.failed + whole.requests.unfinished,
            0,
            "{:?}",
            whole.errors
        );
        assert_eq!(whole.requests.done, sum(|one| one.requests.done));
        assert_eq!(whole.requests.drawn, sum(|one| one.requests.drawn));
        assert_eq!(whole.all.bytes, sum(|one| one.all.bytes));
        assert_eq!(
            whole.connections.connects,
            sum(|one| one.connections.connects)
        );
        assert_eq!(whole.connections.connects, counted.connections);
        // All that was asked for, warm-up and drain included, is what the server answered.
        let by_kind = [
            counted.static_get,
            counted.dynamic_get,
            counted.cgi_get,
            counted.ad_get,
            counted.post,
        ];
        let done: u64 = whole.series.done.iter().sum();
        assert_eq!(done, by_kind.iter().sum::<u64>());
        for (kind, count) in whole.kinds.iter().zip(by_kind) {
            assert!(
                kind.figures.done > 0 && kind.figures.done <= count,
                "{kind:?} of {count}"
            );
        }
        assert_eq!(
            whole.series.done,
            added(own.iter().map(|one| one.series.done.clone()))
        );
        let drawn = |one: &Report| one.directories.drawn.clone();
        assert_eq!(whole.directories.drawn, added(own.iter().map(drawn)));
        histograms_add_up(&own, &whole);
        shares_add_up(&own, &whole);
        // Each thread of each is a writer of its own, and the log has all of them.
        assert_eq!(whole.posts.len(), 6);
        let found = check_post_log(log.path(), &whole.posts).unwrap();
        assert_eq!(
            (found.lines, found.acknowledged),
            (counted.post, counted.post)
        );
        assert_eq!((found.lost, found.twice, found.foreign), (0, 0, 0));
    }
}

#[test]
fn no_two_processes_ask_for_the_same() {
    let sums: Vec<Sums> = small()
        .iter()
        .map(|(text, _)| serde_json::from_str(text).unwrap())
        .collect();
    let own = reports(&sums);
    let drawn = |one: &Report| {
        one.classes
            .iter()
            .map(|of| of.drawn_files)
            .collect::<Vec<_>>()
    };
    assert_ne!(drawn(&own[0]), drawn(&own[1]));
}

#[test]
fn instants_of_another_clock_are_moved_and_nothing_else() {
    let mut given = small();
    let one: Sums = serde_json::from_str(&given[1].0).unwrap();
    let one = one.report().unwrap();
    let plain = merge(&given).unwrap();
    let instants = [
        one.start_monotonic_ns,
        one.began_ns,
        one.window_start_ns,
        one.window_end_ns,
        one.window_end_ns + 1_000_000_000,
        one.end_ns,
    ];
    for at_ns in instants {
        let ahead = (at_ns + AHEAD_NS).to_string();
        given[1].0 = given[1].0.replace(&at_ns.to_string(), &ahead);
    }
    let error = merge(&given).unwrap_err();
    assert!(error.to_string().contains("another load"), "{error}");
    given[1].1 = AHEAD_NS as i64;
    let moved = merge(&given).unwrap();
    let text = |report: &Report| serde_json::to_string(report).unwrap();
    assert_eq!(text(&moved), text(&plain));
}

/// Two parts of a small load, which was run once.
fn small() -> Vec<(String, i64)> {
    static ONCE: OnceLock<Vec<(String, i64)>> = OnceLock::new();
    let run = || {
        let root = with_files();
        let server = serve(root.path(), "");
        let mode = r#"{"mode": "closed", "connections": 2}"#;
        let only_files = r#", "mix": {"static_get": 1.0}, "drain_s": 1"#;
        texts(&parts(&load(server.address(), mode, only_files), 2))
    };
    ONCE.get_or_init(run).clone()
}

/// The first number behind a text.
fn number(text: &str, behind: &str) -> std::ops::Range<usize> {
    let from = text.find(behind).unwrap() + behind.len();
    let is_part = |byte: &u8| byte.is_ascii_digit() || b".e-".contains(byte);
    from..from + text.bytes().skip(from).take_while(is_part).count()
}

/// The same text with another one there.
fn with(text: &str, behind: &str, is: &str) -> String {
    let mut changed = text.to_owned();
    changed.replace_range(number(text, behind), is);
    changed
}

fn one_more(text: &str, behind: &str) -> String {
    let was: u64 = text[number(text, behind)].parse().unwrap();
    with(text, behind, &(was + 1).to_string())
}

#[test]
fn a_process_that_was_itself_the_limit_is_named() {
    let mut parts = small();
    let window = &parts[1].0[number(&parts[1].0, "\"window_ns\":")];
    let busy = with(&parts[1].0, "\"cpu_ns\":", window);
    parts[1].0 = busy.clone();
    assert!(merge(&parts).is_err(), "its share is another one");
    parts[1].0 = with(&busy, "\"cpu_share\":", "1.0");
    let report = merge(&parts).unwrap();
    let named = "generator process 2 of 2: generator thread 0 used 100 % of a core";
    let of_second = |reason: &&web::load::Reason| reason.text.starts_with(named);
    assert_eq!(
        report.reasons.iter().filter(of_second).count(),
        1,
        "{:?}",
        report.reasons
    );
    assert!(!report.valid);
    assert_eq!(report.processes[1].reasons[0].kind, "generator_cpu");
}

#[test]
fn a_thread_that_saw_its_timed_part_in_one_look_was_late() {
    let mut parts = small();
    let away = with(&parts[1].0, "\"window_ns\":", "0");
    parts[1].0 = with(&away, "\"cpu_share\":", "0.0");
    let report = merge(&parts).unwrap();
    let kinds: Vec<_> = report.processes[1]
        .reasons
        .iter()
        .map(|one| one.kind)
        .collect();
    assert_eq!(kinds, ["generator_overloaded"]);
    assert!(!report.valid);
}

#[test]
fn what_is_no_part_of_the_load_is_refused() {
    let good = small();
    assert!(merge(&good).is_ok());
    let refused = |parts: &[(String, i64)]| merge(parts).unwrap_err().to_string();
    assert!(refused(&[]).contains("none"));
    assert!(refused(&good[..1]).contains("1 parts"));
    assert!(refused(&[good[0].clone(), good[0].clone()]).contains("2 parts"));
    let version = good[0].0.replacen("\"schema\":1", "\"schema\":2", 1);
    assert!(refused(&[(version, 0), good[1].clone()]).contains("version 2, not 1"));
    for (was, is) in [
        ("\"measure_s\":0.6", "\"measure_s\":0.7"),
        ("\"process\":40", "\"process\":41"),
        ("\"seed\":1", "\"seed\":2"),
        ("\"seed\":1", "\"seeds\":1"),
        ("\"directories\":2}", "\"directories\":3}"),
        ("\"touched\":[", "\"touched\":[0,"),
        ("\"cells\":[", "\"cells\":[null,"),
        (
            "\"window_bytes\":[",
            "\"window_bytes\":[18446744073709551615,",
        ),
    ] {
        assert!(good[0].0.contains(was), "{was}");
        let changed = good[0].0.replacen(was, is, 1);
        refused(&[(changed, 0), good[1].clone()]);
    }
    // Numbers that others contradict.
    for behind in [
        "\"kinds\":[",
        "\"files\":[[",
        "\"directories\":[",
        "\"cells\":[{\"done\":",
        "\"statuses\":{\"404\":",
        "\"window_end_ns\":",
        "\"writer\":",
    ] {
        let with = good[0]
            .0
            .replacen("\"statuses\":{", "\"statuses\":{\"404\":0", 1);
        refused(&[(one_more(&with, behind), 0), good[1].clone()]);
    }
    refused(&[(good[0].0.clone(), i64::MIN), good[1].clone()]);
    refused(&[(good[0].0.clone(), i64::MAX), good[1].clone()]);
}

#[test]
fn changed_sums_are_an_error_or_a_report_and_never_a_panic() {
    const HUGE: [&str; 4] = [
        "18446744073709551615",
        "340282366920938463463374607431768211455",
        "-1",
        "1e308",
    ];
    let good = small();
    let text = good[0].0.as_bytes();
    let mut random = fastrand::Rng::with_seed(11);
    let mut refused = 0;
    for round in 0..300 {
        let mut bytes = text.to_vec();
        let at = random.usize(..bytes.len());
        match round % 4 {
            0 => bytes[at] ^= 1 << random.u8(..7),
            1 => drop(bytes.splice(at..bytes.len().min(at + 9), [])),
            _ => {
                // A number, outside of buckets' text: most of them are.
                let ends = |byte: &u8| !byte.is_ascii_digit();
                let starts: Vec<usize> = (1..bytes.len() - 1)
                    .filter(|at| b":[,".contains(&bytes[at - 1]) && bytes[*at].is_ascii_digit())
                    .collect();
                let from = starts[random.usize(..starts.len())];
                let until = from + bytes[from..].iter().position(ends).unwrap();
                let number = match round % 4 {
                    2 => HUGE[random.usize(..HUGE.len())].to_owned(),
                    _ => (random.u64(..) >> (at % 64)).to_string(),
                };
                bytes.splice(from..until, number.bytes());
            }
        }
        let changed = String::from_utf8_lossy(&bytes).into_owned();
        refused += u32::from(merge(&[(changed, 0), good[1].clone()]).is_err());
    }
    assert!(refused > 200, "{refused}");
}

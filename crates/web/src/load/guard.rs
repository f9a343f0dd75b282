//! The verdict on a load: may its figures be taken for the server's?
//!
//! Only what is the generator's is judged here; how many failed requests are too many is for who
//! asked for the load to say. Bounds as those of the NFS load generator.

use super::config::LoadMode;
use super::report::{Reason, Report};

/// What lateness may add to the mean, ns, and as a share of the server's own median.
const LATE_MEAN_ALLOWED_NS: f64 = 100_000.0;
/// See [`LATE_MEAN_ALLOWED_NS`].
const LATE_MEAN_SHARE: f64 = 0.05;
/// What it may add in 1 % of requests, ns, and as a share of the median.
const LATE_P99_ALLOWED_NS: f64 = 1_000_000.0;
/// See [`LATE_P99_ALLOWED_NS`].
const LATE_P99_SHARE: f64 = 0.25;
/// A line read late by this share of a read's own time on the line (an eighth of a second) loses as
/// much of its speed: ns in the mean.
const LINE_LATE_MEAN_ALLOWED_NS: f64 = 1_250_000.0;
/// Share of the timed part in which a thread worked or waited for a processor.
const CPU_SHARE: f64 = 0.9;

/// What is against a load, whoever made it.
pub(crate) fn of_load(report: &Report) -> Vec<Reason> {
    let mut all = Vec::new();
    let mut add = |kind, text| all.push(Reason { kind, text });
    if report.ended == "stopped" {
        add("stopped", "the load was stopped before its end".to_owned());
    }
    if report.requests.done == 0 {
        add(
            "nothing_done",
            "no request ended well in the timed part".to_owned(),
        );
    }
    all
}

/// Why the generator was itself the limit; none if the figures are the server's.
pub(crate) fn of_generator(report: &Report) -> Vec<Reason> {
    let mut all = Vec::new();
    let mut add = |kind, text| all.push(Reason { kind, text });
    let late = late(report);
    if let Some(text) = &late {
        add("generator_late", text.clone());
    }
    let window_ns = report.window_end_ns.saturating_sub(report.window_start_ns);
    for (index, thread) in report.threads.iter().enumerate() {
        // Who looked at the clock too late for that has no shares.
        if thread.window_ns < window_ns / 2 {
            if report.ended != "stopped" && late.is_none() {
                let text = format!(
                    "generator thread {index} did not run for most of the timed part: stop other \
                     programs, or pin them elsewhere"
                );
                add("generator_late", text);
            }
            continue;
        }
        let waited = measure::share(thread.waited_ns.unwrap_or(0), thread.window_ns);
        if thread.cpu_share + waited > CPU_SHARE {
            let text = format!(
                "generator thread {index} used {:.0} % of a core and waited {:.0} % of the timed \
                 part for one (allowed: {:.0} % together): stop other programs, or use more \
                 threads",
                thread.cpu_share * 100.0,
                waited * 100.0,
                CPU_SHARE * 100.0
            );
            add("generator_cpu", text);
        }
    }
    all
}

fn late(report: &Report) -> Option<String> {
    let late = &report.late;
    let mean_ns = late.mean_ns.unwrap_or(0.0);
    let p99_ns = late.p99_ns.unwrap_or(0) as f64;
    match report.config.load {
        LoadMode::Closed { .. } => None,
        LoadMode::LineSpeed { .. } => (mean_ns > LINE_LATE_MEAN_ALLOWED_NS).then(|| {
            format!(
                "lines were read {:.0} us late in the mean (allowed: {:.0} us), and so were slower \
                 than they are: stop other programs, or use more threads",
                mean_ns / 1e3,
                LINE_LATE_MEAN_ALLOWED_NS / 1e3
            )
        }),
        LoadMode::Open { .. } => {
            let own_ns = late.p50_ns.unwrap_or(0);
            let median_ns = report.all.last_byte.p50_ns.unwrap_or(0);
            let server_ns = median_ns.saturating_sub(own_ns) as f64;
            let mean_allowed_ns = LATE_MEAN_ALLOWED_NS.max(LATE_MEAN_SHARE * server_ns);
            let p99_allowed_ns = LATE_P99_ALLOWED_NS.max(LATE_P99_SHARE * server_ns);
            (mean_ns > mean_allowed_ns || p99_ns > p99_allowed_ns).then(|| {
                format!(
                    "requests were begun {:.0} us late in the mean (allowed: {:.0} us), and more \
                     than {:.0} us in 1 % of them (allowed: {:.0} us): give the generator an idle \
                     core, or use more threads",
                    mean_ns / 1e3,
                    mean_allowed_ns / 1e3,
                    p99_ns / 1e3,
                    p99_allowed_ns / 1e3
                )
            })
        }
    }
}

//! The verdict on a load: may its figures be taken for the server's?
//!
//! Only what is the generator's is judged here; how many failed requests are too many is for who
//! asked for the load to say.

use generator::Reason;

use super::config::LoadMode;
use super::report::Report;

/// A line read late by this share of a read's own time on the line (an eighth of a second) loses as
/// much of its speed: ns in the mean.
const LINE_LATE_MEAN_ALLOWED_NS: f64 = 1_250_000.0;
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
    let window_ns = report.window_end_ns.saturating_sub(report.window_start_ns);
    let window = (window_ns, report.ended == "complete");
    generator::guard::reasons(late(report), &report.threads, window, &report.little)
}

fn late(report: &Report) -> Option<String> {
    match report.config.load {
        LoadMode::Closed { .. } => None,
        LoadMode::Open { .. } => generator::guard::late(&[&report.late], &report.all.last_byte),
        LoadMode::LineSpeed { .. } => {
            let mean_ns = report.late.mean_ns.unwrap_or(0.0);
            (mean_ns > LINE_LATE_MEAN_ALLOWED_NS).then(|| {
                format!(
                    "lines were read {:.0} us late in the mean (allowed: {:.0} us), and so were \
                     slower than they are: stop other programs, or use more threads",
                    mean_ns / 1e3,
                    LINE_LATE_MEAN_ALLOWED_NS / 1e3
                )
            })
        }
    }
}

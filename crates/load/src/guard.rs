//! The verdict on a point: may its figures be taken for the server's?
//!
//! Two kinds of reasons. The server's answers were not what they ought to be, or it went away: then
//! the point did not do the work it names. Or the generator was itself the limit: then its figures
//! are the generator's. An overloaded *server* is no reason: its point shows what it shows.

use generator::Reason;
use generator::guard::late;

use crate::report::Report;

/// Share of operations that found nothing free: above it the mix is no longer the one asked for.
pub const NOT_DRAWN_SHARE: f64 = 0.01;

/// All reasons against a report; none if its figures are the server's.
pub fn reasons(report: &Report) -> Vec<Reason> {
    let mut all = of_answers(report);
    all.extend(of_generator(report));
    all
}

/// Those for which the server's answers, or their absence, are the cause.
pub(crate) fn of_answers(report: &Report) -> Vec<Reason> {
    let mut all = Vec::new();
    answers(report, &mut |kind, text| all.push(Reason { kind, text }));
    all
}

/// Those for which the generator is: one process, or all of them together.
pub(crate) fn of_generator(report: &Report) -> Vec<Reason> {
    let late = late(&[&report.late, &report.pick_up], &report.response);
    let window_ns = report.window_end_ns.saturating_sub(report.window_start_ns);
    let window = (window_ns, report.ended == "complete");
    let mut all = generator::guard::reasons(late, &report.threads, window, &report.little);
    let mut add = |kind, text| all.push(Reason { kind, text });
    if report.not_sent_with_free_slots > 0 {
        let text = format!(
            "{} operations were not sent although the server had room for them",
            report.not_sent_with_free_slots
        );
        add("generator_queue", text);
    }
    if report.not_drawn as f64 > report.arrivals as f64 * NOT_DRAWN_SHARE {
        let text = format!(
            "{} of {} operations found no file that was free: take a larger file set",
            report.not_drawn, report.arrivals
        );
        add("not_drawn", text);
    }
    all
}

/// Who went away: by name if there are several.
fn gone(report: &Report) -> String {
    let silent = report.mounts.iter().filter(|mount| mount.silent);
    let silent: Vec<&str> = silent.map(|mount| mount.server.as_str()).collect();
    match report.mounts.len() {
        1 => "the server".to_owned(),
        _ => silent.join(" and "),
    }
}

fn answers(report: &Report, add: &mut impl FnMut(&'static str, String)) {
    match report.ended {
        "silent" => {
            let text = format!(
                "{} answered nothing for {} s and counts as gone",
                gone(report),
                report.plan.silence_limit_s
            );
            add("server_gone", text);
        }
        "stopped" => add("stopped", "the point was stopped before its end".to_owned()),
        _ => {}
    }
    if report.ended == "complete" && report.unanswered > 0 {
        let text = format!(
            "{} operations were never answered (waited {} s after the load)",
            report.unanswered, report.plan.silence_limit_s
        );
        add("unanswered", text);
    }
    for fault in report.unexpected.iter().filter(|fault| fault.unsupported) {
        let text = format!(
            "the server does not support {} ({}, {} times): take it out of the mix",
            fault.operation, fault.what, fault.count
        );
        add("unsupported", text);
    }
    let others = report.unexpected.iter().filter(|fault| !fault.unsupported);
    let others: Vec<String> = others
        .map(|fault| format!("{} {} {}", fault.count, fault.operation, fault.what))
        .collect();
    if !others.is_empty() {
        let first = report.first_unexpected.as_deref().unwrap_or("unknown");
        let text = format!(
            "unexpected answers: {}; the first: {first}",
            others.join(", ")
        );
        add("unexpected", text);
    }
    if report.verifier_changes > 0 {
        let text = format!(
            "the server was restarted (its write verifier changed {} times): what was written \
             unstable before may be lost",
            report.verifier_changes
        );
        add("server_restarted", text);
    }
    if report.answered == 0 {
        add(
            "nothing_answered",
            "nothing was answered in the measured window".to_owned(),
        );
    }
}

//! The verdict on a point: may its figures be taken for the server's?
//!
//! Two kinds of reasons. The server's answers were not what they ought to be, or it went away: then
//! the point did not do the work it names. Or the generator was itself the limit: then its figures
//! are the generator's. An overloaded *server* is no reason: its point shows what it shows.

use measure::HistogramSummary;

use crate::report::{Reason, Report};

/// What the generator itself may add to the mean response, ns: lateness of sending and of picking
/// up. Waking alone takes 30 to 80 us on a machine at work; a thread that is starved, 300 and more.
pub const DELAY_MEAN_ALLOWED_NS: f64 = 100_000.0;
/// What it may add to the p99, ns: some turns of a scheduler, not its time slices (3 ms).
pub const DELAY_P99_ALLOWED_NS: f64 = 1_000_000.0;
/// The same as shares of the server's own median, where these are more. The median: neither one
/// stall nor the delay itself makes it longer.
pub const DELAY_MEAN_SHARE: f64 = 0.05;
/// See [`DELAY_MEAN_SHARE`].
pub const DELAY_P99_SHARE: f64 = 0.25;
/// Share of its window in which a thread worked (spinning apart) or waited for a processor: above
/// it, a faster server would not show.
pub const CPU_SHARE: f64 = 0.9;
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
    let mut all = Vec::new();
    let mut add = |kind, text| all.push(Reason { kind, text });
    generator(report, &mut add);
    if report.little.residual_ns != 0 {
        let text = format!(
            "Little's law is broken by {} ns: an operation was lost or counted twice \
             (please report this)",
            report.little.residual_ns
        );
        add("accounting", text);
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

/// What the generator's own delays do to the mean or to the p99, if it is too much.
fn late(report: &Report) -> Option<String> {
    let (sent, taken) = (&report.late, &report.pick_up);
    let own =
        |of: fn(&HistogramSummary) -> Option<u64>| [of(sent).unwrap_or(0), of(taken).unwrap_or(0)];
    let [sent_p50_ns, taken_p50_ns] = own(|delay| delay.p50_ns);
    let median_ns = report.response.p50_ns.unwrap_or(0);
    let server_ns = median_ns.saturating_sub(sent_p50_ns + taken_p50_ns) as f64;
    let mean_ns = sent.mean_ns.unwrap_or(0.0) + taken.mean_ns.unwrap_or(0.0);
    let [sent_p99_ns, taken_p99_ns] = own(|delay| delay.p99_ns);
    let p99_ns = sent_p99_ns.max(taken_p99_ns) as f64;
    let mean_allowed_ns = DELAY_MEAN_ALLOWED_NS.max(DELAY_MEAN_SHARE * server_ns);
    let p99_allowed_ns = DELAY_P99_ALLOWED_NS.max(DELAY_P99_SHARE * server_ns);
    if mean_ns <= mean_allowed_ns && p99_ns <= p99_allowed_ns {
        return None;
    }
    Some(format!(
        "the generator was late in sending or in picking up replies: that is {:.0} us of the mean \
         response (allowed: {:.0} us), and more than {:.0} us in 1 % of the operations (allowed: \
         {:.0} us). Give it an idle core: stop other programs, or pin them elsewhere",
        mean_ns / 1e3,
        mean_allowed_ns / 1e3,
        p99_ns / 1e3,
        p99_allowed_ns / 1e3
    ))
}

fn generator(report: &Report, add: &mut impl FnMut(&'static str, String)) {
    let late = late(report);
    if let Some(text) = &late {
        add("generator_late", text.clone());
    }
    let window_ns = report.window_end_ns.saturating_sub(report.window_start_ns);
    for (index, thread) in report.threads.iter().enumerate() {
        // Who looked at the clock too late for that has no shares. One that a server's end stopped
        // has its reason.
        if thread.window_ns < window_ns / 2 {
            if report.ended == "complete" && late.is_none() {
                let text = format!(
                    "generator thread {index} did not run for most of the window: stop other \
                     programs, or pin them elsewhere"
                );
                add("generator_late", text);
            }
            continue;
        }
        let waited = measure::share(thread.waited_ns.unwrap_or(0), thread.window_ns);
        if thread.cpu_share + waited > CPU_SHARE {
            let text = format!(
                "generator thread {index} used {:.0} % of a core and waited {:.0} % of the window \
                 for one (allowed: {:.0} % together): stop other programs, use more threads or \
                 several processes",
                thread.cpu_share * 100.0,
                waited * 100.0,
                CPU_SHARE * 100.0
            );
            add("generator_cpu", text);
        }
    }
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
}

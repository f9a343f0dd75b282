//! A point's report, made of its sums: of one process, or of several put together.
//!
//! Flow: a process adds up its threads ([`Sums`]); as JSON its sums go to whoever started it, which
//! puts all of them together ([`merge`]) as if one process had measured.
//!
//! Decisions: only what one point is may be added: the same instants, parts of one whole. The guard
//! judges every process on its own (an average would hide one that was late) and the whole besides.
//! A process that handed over nothing makes the point invalid; what the others measured stays.

use generator::Reason;
use measure::{HistogramError, HistogramSummary, LatencyHistogram, Series};

use crate::checked::Checked;
use crate::error::LoadError;
use crate::guard;
use crate::operation::{OPERATIONS, Operation};
use crate::plan::{Part, SCHEMA};
use crate::report::{OperationReport, ProcessReport, Report, SeriesColumns, ThreadReport, Touched};
use crate::sums::Sums;

/// Operations' figures, the responses of all, and those of each.
type ByOperation = (
    Vec<OperationReport>,
    LatencyHistogram,
    Vec<(&'static str, LatencyHistogram)>,
);

impl Sums {
    /// The report, with its verdict.
    pub(crate) fn report(self, checked: &Checked) -> Result<Report, HistogramError> {
        let part = self.clone();
        let mut report = self.figures(checked)?;
        report.reasons = guard::reasons(&report);
        report.valid = report.reasons.is_empty();
        let own = guard::of_generator(&report);
        report.processes = vec![ProcessReport::of(&report, &part, own)];
        Ok(report)
    }

    /// The report without a verdict.
    pub(crate) fn figures(self, checked: &Checked) -> Result<Report, HistogramError> {
        let (operations, all, mut histograms) = self.by_operation(checked)?;
        let accounts = self.measured.accounts.clone();
        let times = accounts.times;
        let window_ns = times.window_end_ns - times.window_start_ns;
        let answered: u64 = operations.iter().map(|operation| operation.answered).sum();
        let not_drawn = operations.iter().map(|operation| operation.not_drawn).sum();
        let rate = answered as f64 / (window_ns as f64 / 1e9);
        let touched = self.touched_of(checked);
        let (append_share, append_note) = self.appending(checked);
        let measured = self.measured;
        let counts = measured.counts;
        let mut report = Report {
            schema: SCHEMA,
            valid: false,
            reasons: Vec::new(),
            flags: flags(),
            notes: checked.notes.iter().cloned().chain(append_note).collect(),
            plan: checked.plan.clone(),
            mounts: self.mounts,
            ended: self.ended.name(),
            start_monotonic_ns: times.start_ns,
            start_realtime_ns: self.realtime_ns,
            window_start_ns: times.window_start_ns,
            window_end_ns: times.window_end_ns,
            offered_ops_per_s: checked.offered_here_ops_per_s(),
            achieved_ops_per_s: rate,
            arrivals: accounts.arrivals,
            answered,
            not_sent: accounts.refused,
            not_sent_with_free_slots: accounts.refused_free,
            not_drawn,
            left_at_window_end: accounts.left,
            oldest_left_ns: accounts.oldest_left_ns,
            unanswered: counts.unanswered,
            unsent: counts.unsent,
            response: HistogramSummary::of(&all)?,
            late: HistogramSummary::of(&accounts.late)?,
            pick_up: HistogramSummary::of(&measured.pick_up)?,
            operations,
            outstanding_mean: accounts.outstanding_mean(),
            little: accounts.little(rate * all.mean_ns().unwrap_or(0.0) / 1e9),
            touched,
            read_bytes: counts.read_bytes,
            written_bytes: counts.written_bytes,
            append_share,
            verified_bytes: counts.verified_bytes,
            verifier_changes: counts.verifier_changes,
            first_unexpected: self.faults.first().map(str::to_owned),
            unexpected: self.faults.kinds,
            network: self.network,
            threads: self.threads,
            processes: Vec::new(),
            series: columns(
                times.start_ns,
                [measured.planned, measured.answered, measured.responses],
            ),
            histograms: Vec::new(),
        };
        histograms.extend([("all", all), ("late", accounts.late)]);
        report.histograms = histograms;
        Ok(report)
    }

    /// Figures of the mix's operations, and the responses of all of them.
    fn by_operation(&self, checked: &Checked) -> Result<ByOperation, HistogramError> {
        let shares = operation_shares(checked);
        let mut all = LatencyHistogram::new()?;
        let mut operations = Vec::new();
        let mut histograms = Vec::new();
        let empty = LatencyHistogram::new()?;
        for operation in Operation::ALL {
            let Some(figures) = self.measured.operations.get(operation.index()) else {
                continue;
            };
            let share = shares.get(operation.index()).copied().unwrap_or(0.0);
            if share == 0.0 {
                continue;
            }
            let responses = figures.responses.as_deref().unwrap_or(&empty);
            all.add(responses)?;
            histograms.push((operation.name(), responses.clone()));
            operations.push(OperationReport {
                operation: operation.name(),
                share,
                calls: figures.calls,
                ended: figures.ended,
                unexpected: figures.ended - figures.expected,
                answered: figures.measured,
                not_drawn: figures.not_drawn,
                response: HistogramSummary::of(responses)?,
            });
        }
        Ok((operations, all, histograms))
    }

    /// The share of appending WRITEs, and what to know where it is not the one asked for.
    fn appending(&self, checked: &Checked) -> (Option<f64>, Option<String>) {
        let writes = self.measured.operations.get(Operation::Write.index());
        let writes = writes.map_or(0, |figures| figures.measured);
        if writes == 0 {
            return (None, None);
        }
        let share = self.measured.counts.appended as f64 / writes as f64;
        let asked = checked.plan.append_share;
        // Each is drawn by itself: four standard deviations are more than chance.
        let by_chance = 4.0 * (asked * (1.0 - asked) / writes as f64).sqrt();
        let note = format!(
            "{:.0} % of the WRITEs appended, {:.0} % were asked for: the files may grow by {:.0} % \
             (growth_share), and few SETATTRs cut them",
            share * 100.0,
            asked * 100.0,
            checked.plan.file_set.growth_share * 100.0
        );
        let is_short = share < asked - by_chance.max(0.01);
        (Some(share), is_short.then_some(note))
    }

    fn touched_of(&self, checked: &Checked) -> Touched {
        let layout = &checked.layout;
        let mounts = self.mounts.len() as u64;
        Touched {
            files: self.touched.0,
            bytes: self.touched.1,
            accessed_files: layout.accessed_files * mounts,
            accessed_bytes: layout.accessed_bytes * mounts,
            set_files: layout.files * mounts,
            set_bytes: layout.bytes * mounts,
        }
    }
}

/// A generator process that handed over nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lost {
    /// Its part, from 0.
    pub index: u32,
    /// What became of it.
    pub why: String,
}

/// The report of a point that several processes measured; `checked` is of the whole (part 0 of 1).
///
/// # Errors
/// [`LoadError::System`] if there is nothing to add, or if parts are not of one point.
pub fn merge(checked: &Checked, mut parts: Vec<Sums>, lost: &[Lost]) -> Result<Report, LoadError> {
    const WHAT: &str = "the generator processes' results do not make a point";
    let wrong = |why: String| LoadError::System { what: WHAT, why };
    parts.sort_by_key(|part| part.part.index);
    let mut expected = parts.iter().map(|part| part.part.index).collect::<Vec<_>>();
    expected.extend(lost.iter().map(|lost| lost.index));
    expected.sort_unstable();
    let of = parts.first().map_or(0, |part| part.part.of);
    if of == 0 || !expected.iter().copied().eq(0..of) {
        return Err(wrong(format!("parts {expected:?} of {of} are there")));
    }
    let mut reasons = Vec::new();
    let mut processes = Vec::new();
    for part in &parts {
        let mut own = checked.clone();
        own.plan.part = part.part;
        let report = part.clone().figures(&own)?;
        let own = guard::of_generator(&report);
        reasons.extend(own.iter().map(|one| one.of_process(part.part.index, of)));
        processes.push(ProcessReport::of(&report, part, own));
    }
    let mut all = parts.into_iter();
    let Some(mut sums) = all.next() else {
        return Err(wrong("none is there".to_owned()));
    };
    for part in all {
        if !part.belongs_to(&sums) {
            return Err(wrong(format!(
                "part {} is of another point",
                part.part.index
            )));
        }
        sums.add_process(part)?;
    }
    sums.part = Part::default();
    let mut report = sums.figures(checked)?;
    report.reasons = lost.iter().map(|lost| missing(lost, of)).collect();
    report.reasons.extend(guard::of_answers(&report));
    match reasons.is_empty() {
        true => report.reasons.extend(guard::of_generator(&report)),
        false => report.reasons.extend(reasons),
    }
    report.valid = report.reasons.is_empty();
    report.processes = processes;
    Ok(report)
}

fn missing(lost: &Lost, of: u32) -> Reason {
    Reason {
        kind: "generator_process",
        text: format!(
            "generator process {} of {of} ended before its time: {}; its share of the load is \
             missing",
            lost.index + 1,
            lost.why
        ),
    }
}

impl ProcessReport {
    /// Of the process's own report.
    pub(crate) fn of(report: &Report, part: &Sums, reasons: Vec<Reason>) -> Self {
        let cpu_ns = |thread: &ThreadReport| thread.cpu_ns;
        ProcessReport {
            process: part.part.index,
            pid: part.pid,
            offered_ops_per_s: report.offered_ops_per_s,
            arrivals: report.arrivals,
            answered: report.answered,
            calls: report
                .operations
                .iter()
                .map(|operation| operation.calls)
                .sum(),
            late_p99_ns: report.late.p99_ns,
            cpu_ns: report.threads.iter().map(cpu_ns).sum(),
            ended: report.ended,
            reasons,
        }
    }
}

fn flags() -> Vec<&'static str> {
    match cfg!(debug_assertions) {
        true => vec!["debug_build"],
        false => Vec::new(),
    }
}

fn operation_shares(checked: &Checked) -> [f64; OPERATIONS] {
    let mut shares = [0.0; OPERATIONS];
    for (operation, share) in checked.mix.shares() {
        if let Some(place) = shares.get_mut(operation.index()) {
            *place += share;
        }
    }
    shares
}

fn columns(start_ns: u64, series: [Series; 3]) -> SeriesColumns {
    let [planned, answered, responses] = series;
    let interval_ns = [&planned, &answered, &responses].map(Series::interval_ns);
    let widest_ns = interval_ns.into_iter().max().unwrap_or(1);
    let widen = |series: Series| {
        let times = usize::try_from(widest_ns / series.interval_ns().max(1))
            .unwrap_or(1)
            .max(1);
        let buckets = series.into_buckets();
        let sum = |part: &[measure::series::Bucket]| {
            let operations: u64 = part.iter().map(|bucket| bucket.operations).sum();
            (
                operations,
                part.iter().map(|bucket| bucket.bytes).sum::<u64>(),
            )
        };
        buckets.chunks(times).map(sum).collect::<Vec<(u64, u64)>>()
    };
    let (planned, answered, responses) = (widen(planned), widen(answered), widen(responses));
    let length = planned.len().max(answered.len()).max(responses.len());
    let padded = |values: Vec<u64>| {
        let missing = length - values.len();
        values
            .into_iter()
            .chain(std::iter::repeat_n(0, missing))
            .collect()
    };
    SeriesColumns {
        start_ns,
        interval_ns: widest_ns,
        planned: padded(planned.iter().map(|bucket| bucket.0).collect()),
        answered: padded(answered.iter().map(|bucket| bucket.0).collect()),
        bytes: padded(answered.iter().map(|bucket| bucket.1).collect()),
        response_sum_ns: padded(responses.iter().map(|bucket| bucket.1).collect()),
    }
}

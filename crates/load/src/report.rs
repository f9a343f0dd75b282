//! What a point gave. Field names are the contract; docs/load.md tells them one by one.

use measure::{HistogramError, HistogramSummary, LatencyHistogram, Series};
use serde::{Deserialize, Serialize};

use crate::fault::FaultCount;
use crate::guard::{self, Reason};
use crate::meter::{Ending, Population, Times};
use crate::operation::{OPERATIONS, Operation};
use crate::plan::{Checked, Plan, SCHEMA};
use crate::prepare::PreparedMount;
use crate::sums::Sums;
use crate::worker::Done;

/// A measured point.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)]
pub struct Report {
    pub schema: u32,
    pub valid: bool,
    pub reasons: Vec<Reason>,
    pub flags: Vec<&'static str>,
    pub notes: Vec<String>,
    pub plan: Plan,
    pub mounts: Vec<MountReport>,
    pub ended: &'static str,
    pub start_monotonic_ns: u64,
    pub start_realtime_ns: u64,
    pub window_start_ns: u64,
    pub window_end_ns: u64,
    pub offered_ops_per_s: f64,
    pub achieved_ops_per_s: f64,
    pub arrivals: u64,
    pub answered: u64,
    pub not_sent: u64,
    pub not_sent_with_free_slots: u64,
    pub not_drawn: u64,
    pub left_at_window_end: u64,
    pub oldest_left_ns: u64,
    pub unanswered: u64,
    pub unsent: u64,
    pub response: HistogramSummary,
    pub late: HistogramSummary,
    pub operations: Vec<OperationReport>,
    pub outstanding_mean: f64,
    pub little: Little,
    pub touched: Touched,
    pub read_bytes: u64,
    pub written_bytes: u64,
    pub verified_bytes: u64,
    pub verifier_changes: u64,
    pub unexpected: Vec<FaultCount>,
    pub first_unexpected: Option<String>,
    pub network: Network,
    pub threads: Vec<ThreadReport>,
    pub processes: Vec<ProcessReport>,
    pub series: SeriesColumns,
    /// The histograms themselves: `all`, `late`, and each operation's.
    #[serde(skip)]
    pub histograms: Vec<(&'static str, LatencyHistogram)>,
}

/// One mount: what was asked for and what is in effect; calls over the whole point, `answered`
/// in the window; `silent` if it went away.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct MountReport {
    pub server: String,
    pub options: String,
    pub files_found: u64,
    pub files_made: u64,
    pub calls: u64,
    pub ended: u64,
    pub answered: u64,
    pub silent: bool,
}

/// One operation; responses within the window, the other counts over the whole point.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)]
pub struct OperationReport {
    pub operation: &'static str,
    pub share: f64,
    pub calls: u64,
    pub ended: u64,
    pub unexpected: u64,
    pub answered: u64,
    pub not_drawn: u64,
    pub response: HistogramSummary,
}

/// Little's law: `area = responses - before + after`, in whole nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct Little {
    pub area_ns: i128,
    pub responses_ns: i128,
    pub before_window_ns: i128,
    pub after_window_ns: i128,
    pub residual_ns: i128,
    /// Rate times mean response, to be compared with the mean outstanding.
    pub rate_times_response: f64,
}

/// What of the file set was really worked on by READ and WRITE.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[allow(missing_docs)]
pub struct Touched {
    pub files: u64,
    pub bytes: u64,
    pub accessed_files: u64,
    pub accessed_bytes: u64,
    pub set_files: u64,
    pub set_bytes: u64,
}

/// What the engines counted over the whole point.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Network {
    pub sends: u64,
    pub retransmissions: u64,
    pub major_timeouts: u64,
    pub bytes_out: u64,
    pub bytes_in: u64,
    pub send_calls: u64,
    pub receive_calls: u64,
    pub connects: u64,
    pub disconnects: u64,
    pub late_replies: u64,
    pub unknown_replies: u64,
    pub malformed_replies: u64,
    pub framing_errors: u64,
}

/// One generator thread within the window.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct ThreadReport {
    pub process: u32,
    pub window_ns: u64,
    pub cpu_ns: u64,
    pub user_ns: u64,
    pub system_ns: u64,
    pub spin_ns: u64,
    /// CPU without spinning, of the window.
    pub cpu_share: f64,
    pub voluntary_switches: u64,
    pub involuntary_switches: u64,
}

/// One generator process: its share of the load, and what the guard has against it.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)]
pub struct ProcessReport {
    pub process: u32,
    pub pid: u32,
    pub offered_ops_per_s: f64,
    pub arrivals: u64,
    pub answered: u64,
    pub calls: u64,
    pub late_p99_ns: Option<u64>,
    pub cpu_ns: u64,
    pub ended: &'static str,
    pub reasons: Vec<Reason>,
}

/// Per interval from the load's start, warm-up included.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[allow(missing_docs)]
pub struct SeriesColumns {
    pub start_ns: u64,
    pub interval_ns: u64,
    pub planned: Vec<u64>,
    pub answered: Vec<u64>,
    pub bytes: Vec<u64>,
    pub response_sum_ns: Vec<u64>,
}

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
        let window_ns = self.times.window_end_ns - self.times.window_start_ns;
        let answered: u64 = operations.iter().map(|operation| operation.answered).sum();
        let not_drawn = operations.iter().map(|operation| operation.not_drawn).sum();
        let rate = answered as f64 / (window_ns as f64 / 1e9);
        let touched = self.touched_of(checked);
        let mut report = Report {
            schema: SCHEMA,
            valid: false,
            reasons: Vec::new(),
            flags: flags(),
            notes: checked.notes.clone(),
            plan: checked.plan.clone(),
            mounts: self.mounts,
            ended: self.ended.name(),
            start_monotonic_ns: self.times.start_ns,
            start_realtime_ns: self.realtime_ns,
            window_start_ns: self.times.window_start_ns,
            window_end_ns: self.times.window_end_ns,
            offered_ops_per_s: checked.offered_here_ops_per_s(),
            achieved_ops_per_s: rate,
            arrivals: self.counts.arrivals,
            answered,
            not_sent: self.counts.not_sent,
            not_sent_with_free_slots: self.counts.not_sent_free,
            not_drawn,
            left_at_window_end: self.counts.left,
            oldest_left_ns: self.counts.oldest_left_ns,
            unanswered: self.counts.unanswered,
            unsent: self.counts.unsent,
            response: HistogramSummary::of(&all)?,
            late: HistogramSummary::of(&self.late)?,
            operations,
            outstanding_mean: self.population.area_ns as f64 / window_ns as f64,
            little: little(&self.population, rate * all.mean_ns().unwrap_or(0.0) / 1e9),
            touched,
            read_bytes: self.counts.read_bytes,
            written_bytes: self.counts.written_bytes,
            verified_bytes: self.counts.verified_bytes,
            verifier_changes: self.counts.verifier_changes,
            first_unexpected: self.faults.first().map(str::to_owned),
            unexpected: self.faults.kinds,
            network: self.network,
            threads: self.threads,
            processes: Vec::new(),
            series: columns(&self.times, [self.planned, self.answered, self.responses]),
            histograms: Vec::new(),
        };
        histograms.extend([("all", all), ("late", self.late)]);
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
            let Some(figures) = self.operations.get(operation.index()) else {
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

impl MountReport {
    pub(crate) fn of(mount: &PreparedMount) -> Self {
        MountReport {
            server: mount.server.clone(),
            options: mount.options.to_text(),
            files_found: mount.found,
            files_made: mount.made,
            calls: 0,
            ended: 0,
            answered: 0,
            silent: false,
        }
    }

    pub(crate) fn add_thread(&mut self, done: &Done) {
        for figures in &done.meter.operations {
            self.calls += figures.calls;
            self.ended += figures.ended;
            self.answered += figures.measured;
        }
        self.silent |= done.ending == Ending::Silent;
    }

    /// Adds what another process did there; the files are those that the first one tells.
    pub(crate) fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.ended += other.ended;
        self.answered += other.answered;
        self.silent |= other.silent;
    }
}

impl ThreadReport {
    pub(crate) fn of(done: &Done, process: u32) -> Self {
        let usage = done.usage;
        let work_ns = usage.cpu_ns.saturating_sub(done.spin_ns);
        ThreadReport {
            process,
            window_ns: done.window_ns,
            cpu_ns: usage.cpu_ns,
            user_ns: usage.user_ns,
            system_ns: usage.system_ns,
            spin_ns: done.spin_ns,
            cpu_share: work_ns as f64 / done.window_ns.max(1) as f64,
            voluntary_switches: usage.voluntary_switches,
            involuntary_switches: usage.involuntary_switches,
        }
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

fn little(population: &Population, rate_times_response: f64) -> Little {
    Little {
        area_ns: population.area_ns,
        responses_ns: population.responses_ns,
        before_window_ns: population.before_ns,
        after_window_ns: population.after_ns,
        residual_ns: population.residual_ns(),
        rate_times_response,
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

fn columns(times: &Times, series: [Series; 3]) -> SeriesColumns {
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
        start_ns: times.start_ns,
        interval_ns: widest_ns,
        planned: padded(planned.iter().map(|bucket| bucket.0).collect()),
        answered: padded(answered.iter().map(|bucket| bucket.0).collect()),
        bytes: padded(answered.iter().map(|bucket| bucket.1).collect()),
        response_sum_ns: padded(responses.iter().map(|bucket| bucket.1).collect()),
    }
}

impl Network {
    pub(crate) fn add_counters(&mut self, counters: &client::record::Counters) {
        self.add(&Network {
            sends: counters.sends,
            retransmissions: counters.retransmissions,
            major_timeouts: counters.major_timeouts,
            bytes_out: counters.bytes_out,
            bytes_in: counters.bytes_in,
            send_calls: counters.writes,
            receive_calls: counters.reads,
            connects: counters.connects,
            disconnects: counters.disconnects,
            late_replies: counters.late_replies,
            unknown_replies: counters.unknown_replies,
            malformed_replies: counters.malformed_replies,
            framing_errors: counters.framing_errors,
        });
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.sends += other.sends;
        self.retransmissions += other.retransmissions;
        self.major_timeouts += other.major_timeouts;
        self.bytes_out += other.bytes_out;
        self.bytes_in += other.bytes_in;
        self.send_calls += other.send_calls;
        self.receive_calls += other.receive_calls;
        self.connects += other.connects;
        self.disconnects += other.disconnects;
        self.late_replies += other.late_replies;
        self.unknown_replies += other.unknown_replies;
        self.malformed_replies += other.malformed_replies;
        self.framing_errors += other.framing_errors;
    }
}

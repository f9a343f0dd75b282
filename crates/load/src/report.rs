//! What a point gave. Field names are the contract; docs/load.md tells them one by one.

use measure::{HistogramError, HistogramSummary, LatencyHistogram, Series};
use serde::Serialize;

use crate::fault::{FaultCount, Faults};
use crate::guard::{self, Reason};
use crate::meter::{Meter, OperationFigures, Population, Times};
use crate::operation::{OPERATIONS, Operation};
use crate::plan::{Plan, SCHEMA};
use crate::prepare::Prepared;
use crate::worker::{Done, Ending};

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
    pub series: SeriesColumns,
    /// The histograms themselves: `all`, `late`, and each operation's.
    #[serde(skip)]
    pub histograms: Vec<(&'static str, LatencyHistogram)>,
}

/// One mount: what was asked for and what is in effect.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)]
pub struct MountReport {
    pub server: String,
    pub options: String,
    pub files_found: u64,
    pub files_made: u64,
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
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
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
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct ThreadReport {
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

/// Adds up threads.
pub(crate) struct Sums {
    times: Times,
    operations: Vec<OperationFigures>,
    population: Population,
    late: LatencyHistogram,
    faults: Faults,
    planned: Series,
    answered: Series,
    responses: Series,
    counts: Counts,
    network: Network,
    touched: (u64, u64),
    threads: Vec<ThreadReport>,
    ended: &'static str,
}

#[derive(Default)]
struct Counts {
    arrivals: u64,
    not_sent: u64,
    not_sent_free: u64,
    left: u64,
    oldest_left_ns: u64,
    unanswered: u64,
    unsent: u64,
    read_bytes: u64,
    written_bytes: u64,
    verified_bytes: u64,
    verifier_changes: u64,
}

impl Sums {
    pub fn new(times: Times, interval_ns: u64) -> Result<Self, HistogramError> {
        let empty = Meter::new(times, interval_ns)?;
        Ok(Sums {
            times,
            operations: empty.operations,
            population: empty.population,
            late: empty.late,
            faults: empty.faults,
            planned: empty.planned,
            answered: empty.answered,
            responses: empty.responses,
            counts: Counts::default(),
            network: Network::default(),
            touched: (0, 0),
            threads: Vec::new(),
            ended: "complete",
        })
    }

    /// Adds a thread.
    pub fn add(&mut self, done: Done) -> Result<(), HistogramError> {
        let meter = done.meter;
        for (sum, one) in self.operations.iter_mut().zip(meter.operations) {
            sum.calls += one.calls;
            sum.ended += one.ended;
            sum.expected += one.expected;
            sum.measured += one.measured;
            sum.not_drawn += one.not_drawn;
            match (&mut sum.responses, one.responses) {
                (Some(sum), Some(one)) => sum.add(&one)?,
                (none, one) => *none = none.take().or(one),
            }
        }
        self.population.add(&meter.population);
        self.late.add(&meter.late)?;
        self.faults.merge(meter.faults);
        self.planned.add(meter.planned);
        self.answered.add(meter.answered);
        self.responses.add(meter.responses);
        let counts = &mut self.counts;
        counts.arrivals += meter.arrivals;
        counts.not_sent += meter.not_sent;
        counts.not_sent_free += meter.not_sent_free;
        counts.left += meter.left_at_window_end;
        let oldest = meter
            .oldest_at_window_end_ns
            .unwrap_or(self.times.window_end_ns);
        let age_ns = self.times.window_end_ns.saturating_sub(oldest);
        counts.oldest_left_ns = counts.oldest_left_ns.max(age_ns);
        counts.unanswered += meter.unanswered;
        counts.unsent += meter.unsent;
        counts.read_bytes += meter.read_bytes;
        counts.written_bytes += meter.written_bytes;
        counts.verified_bytes += meter.verified_bytes;
        counts.verifier_changes += done.verifier_changes;
        self.touched.0 += done.touched.0;
        self.touched.1 += done.touched.1;
        self.network.add(&done.counters);
        // The worst ending is the point's.
        self.ended = match (done.ending, self.ended) {
            (Ending::Silent, _) | (_, "silent") => "silent",
            (Ending::Stopped, _) | (_, "stopped") => "stopped",
            (Ending::Complete, _) => "complete",
        };
        let usage = done.usage;
        let work_ns = usage.cpu_ns.saturating_sub(done.spin_ns);
        self.threads.push(ThreadReport {
            window_ns: done.window_ns,
            cpu_ns: usage.cpu_ns,
            user_ns: usage.user_ns,
            system_ns: usage.system_ns,
            spin_ns: done.spin_ns,
            cpu_share: work_ns as f64 / done.window_ns.max(1) as f64,
            voluntary_switches: usage.voluntary_switches,
            involuntary_switches: usage.involuntary_switches,
        });
        Ok(())
    }

    /// The report, with its verdict.
    pub fn report(self, prepared: &Prepared, realtime_ns: u64) -> Result<Report, HistogramError> {
        let checked = &prepared.checked;
        let (operations, all, mut histograms) = self.by_operation(prepared)?;
        let window_ns = self.times.window_end_ns - self.times.window_start_ns;
        let answered: u64 = operations.iter().map(|operation| operation.answered).sum();
        let not_drawn = operations.iter().map(|operation| operation.not_drawn).sum();
        let rate = answered as f64 / (window_ns as f64 / 1e9);
        let mut report = Report {
            schema: SCHEMA,
            valid: false,
            reasons: Vec::new(),
            flags: flags(),
            notes: checked.notes.clone(),
            plan: checked.plan.clone(),
            mounts: mount_reports(prepared),
            ended: self.ended,
            start_monotonic_ns: self.times.start_ns,
            start_realtime_ns: realtime_ns,
            window_start_ns: self.times.window_start_ns,
            window_end_ns: self.times.window_end_ns,
            offered_ops_per_s: checked.plan.load.rate_ops_per_s() / f64::from(checked.plan.part.of),
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
            touched: self.touched_of(prepared),
            read_bytes: self.counts.read_bytes,
            written_bytes: self.counts.written_bytes,
            verified_bytes: self.counts.verified_bytes,
            verifier_changes: self.counts.verifier_changes,
            unexpected: self.faults.list(),
            first_unexpected: self.faults.first().map(str::to_owned),
            network: self.network,
            threads: self.threads,
            series: columns(&self.times, [self.planned, self.answered, self.responses]),
            histograms: Vec::new(),
        };
        histograms.extend([("all", all), ("late", self.late)]);
        report.histograms = histograms;
        report.reasons = guard::reasons(&report);
        report.valid = report.reasons.is_empty();
        Ok(report)
    }

    /// Figures of the mix's operations, and the responses of all of them.
    fn by_operation(&self, prepared: &Prepared) -> Result<ByOperation, HistogramError> {
        let shares = operation_shares(prepared);
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

    fn touched_of(&self, prepared: &Prepared) -> Touched {
        let layout = &prepared.checked.layout;
        let mounts = prepared.mounts.len() as u64;
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

fn operation_shares(prepared: &Prepared) -> [f64; OPERATIONS] {
    let mut shares = [0.0; OPERATIONS];
    for (operation, share) in prepared.checked.mix.shares() {
        if let Some(place) = shares.get_mut(operation.index()) {
            *place += share;
        }
    }
    shares
}

fn mount_reports(prepared: &Prepared) -> Vec<MountReport> {
    let report = |mount: &crate::prepare::PreparedMount| MountReport {
        server: mount.server.clone(),
        options: mount.options.to_text(),
        files_found: mount.found,
        files_made: mount.made,
    };
    prepared.mounts.iter().map(report).collect()
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
    fn add(&mut self, counters: &client::record::Counters) {
        self.sends += counters.sends;
        self.retransmissions += counters.retransmissions;
        self.major_timeouts += counters.major_timeouts;
        self.bytes_out += counters.bytes_out;
        self.bytes_in += counters.bytes_in;
        self.send_calls += counters.writes;
        self.receive_calls += counters.reads;
        self.connects += counters.connects;
        self.disconnects += counters.disconnects;
        self.late_replies += counters.late_replies;
        self.unknown_replies += counters.unknown_replies;
        self.malformed_replies += counters.malformed_replies;
        self.framing_errors += counters.framing_errors;
    }
}

//! What a load gave. Field names are the contract with Python: `_core.pyi` tells them one by one.

use std::collections::BTreeMap;

use generator::{Little, Reason, ThreadReport};
use measure::{HistogramError, HistogramSummary};
use serde::{Deserialize, Serialize};

use super::config::{LoadConfig, LoadMode};
use super::fault::Fault;
use super::guard;
use super::meter::{CELLS_PER_KIND, Cell, Counts, Meter};
use super::open_files::OpenFiles;
use super::sums::Sums;
use crate::fileset::{CLASSES, FILES, FileId};
use crate::page::Kind;

/// A load.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)]
pub struct Report {
    pub schema: u32,
    pub kind: &'static str,
    pub valid: bool,
    pub reasons: Vec<Reason>,
    pub flags: Vec<&'static str>,
    pub config: LoadConfig,
    pub ended: &'static str,
    pub start_monotonic_ns: u64,
    pub start_realtime_ns: u64,
    pub began_ns: u64,
    pub window_start_ns: u64,
    pub window_end_ns: u64,
    pub end_ns: u64,
    pub requests: Requests,
    pub all: Figures,
    pub kinds: Vec<KindReport>,
    pub classes: Vec<ClassReport>,
    pub errors: BTreeMap<&'static str, u64>,
    pub statuses: BTreeMap<u16, u64>,
    pub directories: Directories,
    pub touched: Touched,
    pub connections: Connections,
    pub late: HistogramSummary,
    pub outstanding_mean: f64,
    pub little: Little,
    pub posts: Vec<WriterReport>,
    pub threads: Vec<ThreadReport>,
    pub open_files: OpenFiles,
    pub series: Series,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub processes: Vec<ProcessReport>,
}

/// Requests of the timed part.
#[derive(Debug, Clone, Copy, Serialize)]
#[allow(missing_docs)]
pub struct Requests {
    pub offered_per_s: Option<f64>,
    pub planned: u64,
    pub skipped: u64,
    pub drawn: u64,
    pub done: u64,
    pub failed: u64,
    pub failed_outside: u64,
    pub left: u64,
    pub oldest_left_ns: u64,
    pub unfinished: u64,
    pub received_bytes: u64,
    pub verified_replies: u64,
    pub verified_bytes: u64,
}

/// Requests that ended well in the timed part.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)]
pub struct Figures {
    pub done: u64,
    pub bytes: u64,
    pub last_byte: HistogramSummary,
    pub first_byte: HistogramSummary,
}

/// One kind of request.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)]
pub struct KindReport {
    pub kind: &'static str,
    pub share: f64,
    pub drawn: u64,
    pub failed: u64,
    pub errors: BTreeMap<&'static str, u64>,
    #[serde(flatten)]
    pub figures: Figures,
}

/// One class of files; POSTs are in none.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)]
pub struct ClassReport {
    pub class: usize,
    pub drawn_files: [u64; FILES],
    pub done_files: [u64; FILES],
    #[serde(flatten)]
    pub figures: Figures,
}

/// Requests by directory; POSTs are in none.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)]
pub struct Directories {
    pub drawn: Vec<u64>,
    pub done: Vec<u64>,
}

/// What of the file set was read whole, warm-up included.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct Touched {
    pub files: u64,
    pub bytes: u64,
    pub set_files: u64,
    pub set_bytes: u64,
}

/// What became of connections.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)]
pub struct Connections {
    pub asked: u32,
    pub connects: u64,
    pub idle_closed: u64,
    pub close_ignored: u64,
    pub conforming: Option<u64>,
    pub rates_bits_per_s: Vec<u64>,
}

/// POSTs of one thread: its numbers are 0 to `drawn`, without the end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct WriterReport {
    pub writer: u32,
    pub drawn: u64,
    pub unacknowledged: Vec<u64>,
}

/// One of several processes that made a load.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)]
pub struct ProcessReport {
    pub process: u32,
    pub connections: u32,
    pub done: u64,
    pub failed: u64,
    pub mean_ns: Option<f64>,
    pub reasons: Vec<Reason>,
}

/// Per interval from the load's start, warm-up included.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)]
pub struct Series {
    pub start_ns: u64,
    pub interval_ns: u64,
    pub done: Vec<u64>,
    pub done_bytes: Vec<u64>,
    pub received_interval_ns: u64,
    pub received_bytes: Vec<u64>,
}

impl Figures {
    fn of(cells: &[&Cell]) -> Result<Self, HistogramError> {
        let mut sum = Cell::new()?;
        for cell in cells {
            sum.add(cell)?;
        }
        Ok(Figures {
            done: sum.done,
            bytes: sum.bytes,
            last_byte: HistogramSummary::of(&sum.last_byte)?,
            first_byte: HistogramSummary::of(&sum.first_byte)?,
        })
    }
}

impl ProcessReport {
    /// Of the process's own report, and what is against it.
    pub(crate) fn of(report: &Report, reasons: Vec<Reason>) -> Self {
        ProcessReport {
            process: report.config.part.index,
            connections: report.connections.asked,
            done: report.requests.done,
            failed: report.requests.failed,
            mean_ns: report.all.last_byte.mean_ns,
            reasons,
        }
    }
}

/// Counts with the names of faults; those of 0 are left out.
fn named(counts: impl Iterator<Item = u64>) -> BTreeMap<&'static str, u64> {
    let all = Fault::NAMES.into_iter().zip(counts);
    all.filter(|(_, count)| *count > 0).collect()
}

impl Meter {
    fn figures(&self, wanted: impl Fn(usize, usize) -> bool) -> Result<Figures, HistogramError> {
        let all = self.cells.iter().enumerate();
        let cells: Vec<&Cell> = all
            .filter(|(at, _)| wanted(at / CELLS_PER_KIND, at % CELLS_PER_KIND))
            .filter_map(|(_, cell)| cell.as_deref())
            .collect();
        Figures::of(&cells)
    }

    fn kinds(&self, config: &LoadConfig) -> Result<Vec<KindReport>, HistogramError> {
        let shares = config.mix.shares();
        let of = |kind: Kind| {
            let faults = self.faults[kind as usize];
            Ok(KindReport {
                kind: kind.name(),
                share: shares[kind as usize],
                drawn: self.drawn.kinds[kind as usize],
                failed: faults.iter().sum(),
                errors: named(faults.into_iter()),
                figures: self.figures(|found, _| found == kind as usize)?,
            })
        };
        Kind::ALL.into_iter().map(of).collect()
    }

    fn classes(&self) -> Result<Vec<ClassReport>, HistogramError> {
        let of = |class: usize| {
            Ok(ClassReport {
                class,
                drawn_files: self.drawn.files.get(class).copied().unwrap_or_default(),
                done_files: self.done.files.get(class).copied().unwrap_or_default(),
                figures: self.figures(|_, found| found == class)?,
            })
        };
        (0..CLASSES).map(of).collect()
    }

    fn requests(&self, config: &LoadConfig) -> Requests {
        Requests {
            offered_per_s: match config.load {
                LoadMode::Open { rate_per_s, .. } => Some(rate_per_s / f64::from(config.part.of)),
                _ => None,
            },
            planned: self.accounts.arrivals,
            skipped: self.accounts.refused,
            drawn: self.drawn.kinds.iter().sum(),
            done: self.done.kinds.iter().sum(),
            failed: self.faults.as_flattened().iter().sum(),
            failed_outside: self.faults_outside,
            left: self.accounts.left,
            oldest_left_ns: self.accounts.oldest_left_ns,
            unfinished: self.counts.unfinished,
            received_bytes: self.counts.received_bytes,
            verified_replies: self.counts.verified_replies,
            verified_bytes: self.counts.verified_bytes,
        }
    }

    fn touched(&self, config: &LoadConfig) -> Touched {
        let read = |index: &u64| {
            let word = self.touched.get((index / 64) as usize).copied();
            word.unwrap_or(0) >> (index % 64) & 1 == 1
        };
        let (mut files, mut bytes) = (0, 0);
        for index in (0..config.file_set.files()).filter(read) {
            files += 1;
            bytes += FileId::of(index).bytes();
        }
        Touched {
            files,
            bytes,
            set_files: config.file_set.files(),
            set_bytes: config.file_set.bytes(),
        }
    }
}

impl Connections {
    fn of(config: &LoadConfig, counts: &Counts, window_bytes: &[u64]) -> Self {
        let bits = |bytes: &u64| (*bytes as f64 * 8.0 / config.measure_s) as u64;
        let (conforming, rates_bits_per_s) = match config.load {
            LoadMode::LineSpeed {
                conforming_bits_per_s,
                ..
            } => {
                let rates: Vec<u64> = window_bytes.iter().map(bits).collect();
                let conform = rates.iter().filter(|rate| **rate >= conforming_bits_per_s);
                (Some(conform.count() as u64), rates)
            }
            _ => (None, Vec::new()),
        };
        Connections {
            asked: config.connections_here(),
            connects: counts.connects,
            idle_closed: counts.idle_closed,
            close_ignored: counts.close_ignored,
            conforming,
            rates_bits_per_s,
        }
    }
}

impl Sums {
    /// The report, with its verdict.
    ///
    /// # Errors
    /// [`HistogramError`] for latencies that cannot be added up.
    pub fn report(self) -> Result<Report, HistogramError> {
        let mut report = self.figures()?;
        report.reasons = guard::of_load(&report);
        report.reasons.extend(guard::of_generator(&report));
        report.valid = report.reasons.is_empty() && report.flags.is_empty();
        Ok(report)
    }

    /// The report without a verdict.
    pub(crate) fn figures(self) -> Result<Report, HistogramError> {
        let (mut meter, config) = (self.meter, self.config);
        let (times, counts) = (meter.accounts.times, meter.counts);
        let all = meter.figures(|_, _| true)?;
        let window_s = (times.window_end_ns - times.window_start_ns) as f64 / 1e9;
        let rate = all.done as f64 / window_s;
        let by_fault = (0..Fault::NAMES.len()).map(|fault| {
            meter
                .faults
                .iter()
                .filter_map(|of_kind| of_kind.get(fault))
                .sum()
        });
        Ok(Report {
            schema: crate::SCHEMA,
            kind: "web",
            valid: false,
            reasons: Vec::new(),
            flags: if self.debug_build {
                vec!["debug_build"]
            } else {
                Vec::new()
            },
            ended: if self.stopped { "stopped" } else { "complete" },
            start_monotonic_ns: times.start_ns,
            start_realtime_ns: self.start_realtime_ns,
            began_ns: self.began_ns,
            window_start_ns: times.window_start_ns,
            window_end_ns: times.window_end_ns,
            end_ns: self.end_ns,
            requests: meter.requests(&config),
            outstanding_mean: meter.accounts.outstanding_mean(),
            little: meter
                .accounts
                .little(rate * all.last_byte.mean_ns.unwrap_or(0.0) / 1e9),
            all,
            kinds: meter.kinds(&config)?,
            classes: meter.classes()?,
            errors: named(by_fault),
            touched: meter.touched(&config),
            connections: Connections::of(&config, &counts, &self.window_bytes),
            late: HistogramSummary::of(&meter.accounts.late)?,
            posts: self.posts,
            threads: self.threads,
            open_files: self.open_files,
            series: series(&mut meter, times.start_ns),
            statuses: meter.statuses,
            directories: Directories {
                drawn: meter.drawn.directories,
                done: meter.done.directories,
            },
            config,
            processes: Vec::new(),
        })
    }
}

/// Both series; in a long load each may have doubled its interval on its own.
fn series(meter: &mut Meter, start_ns: u64) -> Series {
    let take = |series: &mut measure::Series| std::mem::replace(series, measure::Series::new(0, 1));
    let (done, received) = (
        take(&mut meter.done_series),
        take(&mut meter.received_series),
    );
    let (interval_ns, received_interval_ns) = (done.interval_ns(), received.interval_ns());
    let (done, received) = (done.into_buckets(), received.into_buckets());
    Series {
        start_ns,
        interval_ns,
        done: done.iter().map(|bucket| bucket.operations).collect(),
        done_bytes: done.iter().map(|bucket| bucket.bytes).collect(),
        received_interval_ns,
        received_bytes: received.iter().map(|bucket| bucket.bytes).collect(),
    }
}

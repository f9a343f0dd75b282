//! The result of a run, as it is serialised. Field by field in docs/files-workload.md.

use std::path::PathBuf;

use measure::{HistogramSummary, LatencyHistogram, Series, ThreadUsage};
use serde::Serialize;

use crate::config::Plan;
use crate::error::FilesError;
pub use crate::meter::Oddities;
use crate::meter::Stop;
use crate::phase::Phase;
use crate::worker::Report;
use crate::workspace::CacheState;

/// Everything a run measured. Field names are the contract.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)]
pub struct Outcome {
    pub flags: Vec<String>,
    pub config: Plan,
    pub directory: PathBuf,
    pub kept: bool,
    pub file_sizes_bytes: Vec<u64>,
    pub start_monotonic_ns: u64,
    pub start_realtime_ns: u64,
    pub fills: Vec<Fill>,
    pub skipped: Vec<Skipped>,
    pub phases: Vec<PhaseResult>,
}

/// Untimed writing of blocks that a phase needed.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)]
pub struct Fill {
    pub before_phase: Phase,
    pub bytes: u64,
    pub wall_ns: u64,
}

/// A phase left out, with the reason.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)]
pub struct Skipped {
    pub phase: Phase,
    pub why: &'static str,
}

/// What one phase measured.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)]
pub struct PhaseResult {
    pub phase: Phase,
    pub threads: u64,
    pub stopped_by: &'static str,
    pub start_monotonic_ns: u64,
    pub began_monotonic_ns: u64,
    pub wall_ns: u64,
    pub data_ns: u64,
    pub final_sync_ns: u64,
    pub bytes: u64,
    pub operations: u64,
    pub rewrites: u64,
    pub read_bytes: u64,
    pub written_bytes: u64,
    pub cpu_ns: u64,
    pub user_ns: u64,
    pub system_ns: u64,
    pub voluntary_switches: u64,
    pub involuntary_switches: u64,
    pub latency: HistogramSummary,
    pub sync: Option<Syncs>,
    pub final_sync: Option<FinalSyncs>,
    pub series: SeriesColumns,
    pub errors: Oddities,
    pub first_mismatch: Option<String>,
    pub checked_blocks: u64,
    pub cache: Option<CacheState>,
    pub workers: Vec<WorkerResult>,
}

/// The syncs after each N writes.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)]
pub struct Syncs {
    pub operations: u64,
    pub total_ns: u64,
    pub latency: HistogramSummary,
}

/// The fsyncs at a phase's end, added up over threads.
#[derive(Debug, Clone, Default, Serialize)]
#[allow(missing_docs)]
pub struct FinalSyncs {
    pub operations: u64,
    pub total_ns: u64,
}

/// Throughput over time, bucket by bucket from the phase's start.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)]
pub struct SeriesColumns {
    pub interval_ns: u64,
    pub doublings: u32,
    pub bytes: Vec<u64>,
    pub operations: Vec<u64>,
}

/// One thread's share.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)]
pub struct WorkerResult {
    pub bytes: u64,
    pub operations: u64,
    pub wall_ns: u64,
    pub cpu_ns: u64,
    pub user_ns: u64,
    pub system_ns: u64,
}

/// What the coordinator knows about a phase, besides its workers' reports.
pub(crate) struct Frame {
    pub phase: Phase,
    pub start_ns: u64,
    pub block_bytes: u64,
    pub interval_ns: u64,
    pub cache: Option<CacheState>,
}

/// Adds up the workers of a phase.
pub(crate) fn sum_up(frame: Frame, reports: Vec<Report<'_>>) -> Result<PhaseResult, FilesError> {
    let mut sums = Sums::new(frame)?;
    for report in reports {
        sums.add(report)?;
    }
    sums.result()
}

/// Running totals over workers.
struct Sums {
    frame: Frame,
    latency: LatencyHistogram,
    sync_latency: LatencyHistogram,
    sync_ns: u64,
    series: Series,
    usage: ThreadUsage,
    stopped_by: &'static str,
    began_ns: u64,
    wall_ns: u64,
    data_ns: u64,
    operations: u64,
    rewrites: u64,
    read_bytes: u64,
    written_bytes: u64,
    checked: u64,
    oddities: Oddities,
    first_mismatch: Option<String>,
    final_syncs: FinalSyncs,
    workers: Vec<WorkerResult>,
}

impl Sums {
    fn new(frame: Frame) -> Result<Self, FilesError> {
        Ok(Self {
            latency: LatencyHistogram::new()?,
            sync_latency: LatencyHistogram::new()?,
            sync_ns: 0,
            series: Series::new(frame.start_ns, frame.interval_ns),
            usage: ThreadUsage::default(),
            stopped_by: "done",
            began_ns: 0,
            wall_ns: 0,
            data_ns: 0,
            operations: 0,
            rewrites: 0,
            read_bytes: 0,
            written_bytes: 0,
            checked: 0,
            oddities: Oddities::default(),
            first_mismatch: None,
            final_syncs: FinalSyncs::default(),
            workers: Vec::new(),
            frame,
        })
    }

    fn add(&mut self, report: Report<'_>) -> Result<(), FilesError> {
        let meter = report.meter;
        let wall_ns = report.end_ns - self.frame.start_ns;
        self.latency.add(&meter.latency)?;
        self.sync_latency.add(&meter.sync_latency)?;
        self.sync_ns += meter.sync_ns;
        self.series.add(meter.series);
        self.usage.add(&report.usage);
        self.final_syncs.operations += report.final_syncs;
        self.final_syncs.total_ns += report.final_sync_ns;
        self.began_ns = self.began_ns.max(report.began_ns);
        self.wall_ns = self.wall_ns.max(wall_ns);
        self.data_ns = self.data_ns.max(report.data_end_ns - self.frame.start_ns);
        self.operations += meter.operations;
        self.rewrites += meter.rewrites;
        self.read_bytes += meter.read_bytes;
        self.written_bytes += meter.written_bytes;
        self.checked += meter.checked;
        self.oddities.add(&meter.oddities);
        if self.first_mismatch.is_none() {
            self.first_mismatch = meter.first_mismatch;
        }
        if report.stop == Stop::TimeLimit {
            self.stopped_by = "time_limit";
        }
        self.workers.push(WorkerResult {
            bytes: meter.operations * self.frame.block_bytes,
            operations: meter.operations,
            wall_ns,
            cpu_ns: report.usage.cpu_ns,
            user_ns: report.usage.user_ns,
            system_ns: report.usage.system_ns,
        });
        Ok(())
    }

    fn result(self) -> Result<PhaseResult, FilesError> {
        let synced =
            self.sync_latency.count() + self.sync_latency.below() + self.sync_latency.above();
        let sync = if synced == 0 {
            None
        } else {
            let latency = HistogramSummary::of(&self.sync_latency)?;
            Some(Syncs {
                operations: synced,
                total_ns: self.sync_ns,
                latency,
            })
        };
        Ok(PhaseResult {
            phase: self.frame.phase,
            threads: self.workers.len() as u64,
            stopped_by: self.stopped_by,
            start_monotonic_ns: self.frame.start_ns,
            began_monotonic_ns: self.began_ns,
            wall_ns: self.wall_ns,
            data_ns: self.data_ns,
            final_sync_ns: self.wall_ns - self.data_ns,
            bytes: self.operations * self.frame.block_bytes,
            operations: self.operations,
            rewrites: self.rewrites,
            read_bytes: self.read_bytes,
            written_bytes: self.written_bytes,
            cpu_ns: self.usage.cpu_ns,
            user_ns: self.usage.user_ns,
            system_ns: self.usage.system_ns,
            voluntary_switches: self.usage.voluntary_switches,
            involuntary_switches: self.usage.involuntary_switches,
            latency: HistogramSummary::of(&self.latency)?,
            sync,
            final_sync: (self.final_syncs.operations > 0).then_some(self.final_syncs),
            series: columns(self.series),
            errors: self.oddities,
            first_mismatch: self.first_mismatch,
            checked_blocks: self.checked,
            cache: self.frame.cache,
            workers: self.workers,
        })
    }
}

fn columns(series: Series) -> SeriesColumns {
    let (interval_ns, doublings) = (series.interval_ns(), series.doublings());
    let buckets = series.into_buckets();
    SeriesColumns {
        interval_ns,
        doublings,
        bytes: buckets.iter().map(|bucket| bucket.bytes).collect(),
        operations: buckets.iter().map(|bucket| bucket.operations).collect(),
    }
}

//! What a run is asked to do: the configuration, its defaults and its limits.
//!
//! A configuration is checked as a whole before anything is touched; [`Config::plan`] gives a
//! [`Plan`] in which no value is left open. The plan is part of the result, so that a reader sees
//! the defaults in effect.

use std::ops::{Deref, Range};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::error::FilesError;
use crate::layout::{Layout, part};
use crate::phase::{Phase, SyncKind};

/// Version of configuration and result.
pub const SCHEMA: u32 = 1;

/// Smallest block and its granularity: the smallest sector of any disk.
pub const MIN_BLOCK_BYTES: u64 = 512;
/// Largest block: beyond it one operation could not be cancelled within a second on slow storage.
pub const MAX_BLOCK_BYTES: u64 = 64 << 20;
/// Most threads: each has its own stack, buffers and some 0.8 MB of histograms.
pub const MAX_THREADS: u64 = 1024;
/// Most files: every thread keeps the files of its range open.
pub const MAX_FILES: u64 = 65_536;
/// Most blocks in all: one byte is kept for each (512 MiB; 4 TiB of 8 KiB blocks).
pub const MAX_BLOCKS: u64 = 1 << 29;
/// Most random operations of a phase.
pub const MAX_OPERATIONS: u64 = 1 << 40;
/// Most processes that make one run: 256 on each of 256 hosts.
pub const MAX_PARTS: u64 = 65_536;

/// Which part of a run that several processes make this process does.
///
/// Sizes, files and numbers of operations in the configuration are those of the whole run; threads
/// are those of each process. Together they do what one process with all the threads would do.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// From 0.
    pub index: u64,
    /// Processes of the run.
    pub of: u64,
    /// Name of the folder that all work in where processes share files; the first one makes it.
    pub folder: String,
}

/// The configuration as given; everything but the first two has a default.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Existing directory to work in.
    pub directory: PathBuf,
    /// Size of all files together.
    pub size_bytes: u64,
    /// Number of files; default: one for each thread.
    #[serde(skip_serializing)]
    pub files: Option<u64>,
    /// Size of one read or write.
    #[serde(default = "default_block")]
    pub block_size_bytes: u64,
    /// Workers.
    #[serde(default = "one")]
    pub threads: u64,
    /// Bypass the page cache.
    #[serde(default)]
    pub direct: bool,
    /// Phases in order; default: all that go with `direct`.
    #[serde(skip_serializing)]
    pub phases: Option<Vec<Phase>>,
    /// fsync at the end of a writing phase, inside its time.
    #[serde(default = "yes")]
    pub final_sync: bool,
    /// `random_write`, `log_write`: sync after each N writes of a thread; 0 = never.
    #[serde(default = "one")]
    pub sync_every: u64,
    /// `random_write`, `log_write`: how to sync.
    #[serde(default = "default_sync")]
    pub sync_kind: SyncKind,
    /// Operations of `seeks`, all threads together.
    #[serde(default = "default_seeks")]
    pub seeks: u64,
    /// Share of the seeks that write their block back.
    #[serde(default = "default_rewrite_share")]
    pub seek_rewrite_share: f64,
    /// Workers of `seeks`; default: as `threads`.
    #[serde(skip_serializing)]
    pub seek_threads: Option<u64>,
    /// Operations of `random_read`, `random_write` and `log_write`; default: as `seeks`.
    #[serde(skip_serializing)]
    pub random_operations: Option<u64>,
    /// Seed of contents and positions.
    #[serde(default = "one")]
    pub seed: u64,
    /// Most time a phase may take before its final sync.
    pub time_limit_ns: Option<u64>,
    /// Ask the kernel to forget the files' pages before each phase on existing files.
    #[serde(default = "yes")]
    pub drop_cache: bool,
    /// Check the content of one in N blocks read; 0 = none.
    #[serde(default = "default_check")]
    pub check_every: u64,
    /// Leave the files.
    #[serde(default)]
    pub keep: bool,
    /// Width of the buckets of throughput over time.
    #[serde(default = "default_interval")]
    pub series_interval_ns: u64,
    /// Of several processes that make the run together; none: it is the whole.
    pub part: Option<Part>,
}

const fn default_block() -> u64 {
    8192
}
const fn one() -> u64 {
    1
}
const fn yes() -> bool {
    true
}
const fn default_sync() -> SyncKind {
    SyncKind::Fdatasync
}
/// Bonnie's number.
const fn default_seeks() -> u64 {
    4000
}
/// Bonnie's share.
const fn default_rewrite_share() -> f64 {
    0.1
}
const fn default_check() -> u64 {
    64
}
const fn default_interval() -> u64 {
    100_000_000
}

/// A phase left out, and why.
type SkippedPhase = (Phase, &'static str);

/// A checked configuration with all defaults filled in. Field names are those of [`Config`].
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)]
pub struct Plan {
    #[serde(flatten)]
    given: Config,
    pub files: u64,
    pub phases: Vec<Phase>,
    pub seek_threads: u64,
    pub random_operations: u64,
    /// Several processes work in one file: all files are in one folder, made by the first.
    pub shared: bool,
    /// Phases left out of the default list, with the reason.
    #[serde(skip)]
    pub skipped: Vec<SkippedPhase>,
}

impl Deref for Plan {
    type Target = Config;

    fn deref(&self) -> &Config {
        &self.given
    }
}

impl Plan {
    /// Blocks of all files together.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.size_bytes / self.block_size_bytes
    }

    /// Workers of `phase`, in this process.
    #[must_use]
    pub fn threads_of(&self, phase: Phase) -> u64 {
        if phase == Phase::Seeks {
            self.seek_threads
        } else {
            self.threads
        }
    }

    /// Processes that make the run.
    #[must_use]
    pub fn processes(&self) -> u64 {
        self.part.as_ref().map_or(1, |part| part.of)
    }

    /// This process among them, from 0.
    #[must_use]
    pub fn process(&self) -> u64 {
        self.part.as_ref().map_or(0, |part| part.index)
    }

    /// Where the blocks are, with those of this process.
    #[must_use]
    pub fn layout(&self) -> Layout {
        let whole = Layout::new(self.blocks(), self.files, self.block_size_bytes);
        whole.within(self.share(self.blocks(), self.threads))
    }

    /// Of `total`, dealt out among `threads` workers of each process: those of this one.
    #[must_use]
    pub fn share(&self, total: u64, threads: u64) -> Range<u64> {
        share(total, threads, self.process(), self.processes())
    }
}

fn share(total: u64, threads: u64, process: u64, processes: u64) -> Range<u64> {
    let (all, first) = (threads * processes, threads * process);
    part(total, all, first).start..part(total, all, first + threads - 1).end
}

const NOT_DIRECT: &str = "characters go through stdio's buffer, which O_DIRECT does not allow";

impl Config {
    /// Checks everything and fills in the defaults.
    ///
    /// # Errors
    /// [`FilesError::Config`] naming the first field that is wrong, and what would be right.
    pub fn plan(self) -> Result<Plan, FilesError> {
        self.check_numbers()?;
        let processes = self.check_part()?;
        let files = self.files.unwrap_or(self.threads * processes);
        let seek_threads = self.seek_threads.unwrap_or(self.threads);
        within("files", files, 1, MAX_FILES)?;
        self.check_size(files, seek_threads, processes)?;
        let blocks = self.size_bytes / self.block_size_bytes;
        let layout = Layout::new(blocks, files, self.block_size_bytes);
        let begin = |process| share(blocks, self.threads, process, processes).start;
        let shared = (1..processes).any(|process| layout.spot(begin(process)).offset != 0);
        let (phases, skipped) = self.choose_phases()?;
        let synced = phases.iter().any(|phase| phase.syncs());
        if synced && self.sync_kind == SyncKind::Dsync && self.sync_every != 1 {
            return Err(FilesError::config(
                "sync_every",
                self.sync_every,
                "a file opened with O_DSYNC syncs every write",
                "1 with sync_kind dsync, or sync_kind fdatasync",
            ));
        }
        Ok(Plan {
            files,
            seek_threads,
            phases,
            skipped,
            shared,
            random_operations: self.random_operations.unwrap_or(self.seeks),
            given: self,
        })
    }

    fn check_numbers(&self) -> Result<(), FilesError> {
        let block = self.block_size_bytes;
        if !block.is_multiple_of(MIN_BLOCK_BYTES)
            || !(MIN_BLOCK_BYTES..=MAX_BLOCK_BYTES).contains(&block)
        {
            return Err(FilesError::config(
                "block_size_bytes",
                block,
                "blocks are whole sectors",
                "a multiple of 512, from 512 to 67108864 (64 MiB)",
            ));
        }
        within("threads", self.threads, 1, MAX_THREADS)?;
        if let Some(threads) = self.seek_threads {
            within("seek_threads", threads, 1, MAX_THREADS)?;
        }
        within("seeks", self.seeks, 1, MAX_OPERATIONS)?;
        if let Some(operations) = self.random_operations {
            within("random_operations", operations, 1, MAX_OPERATIONS)?;
        }
        if let Some(limit_ns) = self.time_limit_ns {
            within("time_limit_ns", limit_ns, 1, u64::MAX / 4)?;
        }
        within(
            "series_interval_ns",
            self.series_interval_ns,
            1_000_000,
            3_600_000_000_000,
        )?;
        if !(0.0..=1.0).contains(&self.seek_rewrite_share) {
            return Err(FilesError::config(
                "seek_rewrite_share",
                self.seek_rewrite_share,
                "it is a share of the seeks",
                "0 to 1 (Bonnie: 0.1)",
            ));
        }
        Ok(())
    }

    /// The number of processes.
    fn check_part(&self) -> Result<u64, FilesError> {
        let Some(part) = &self.part else {
            return Ok(1);
        };
        within("part.of", part.of, 1, MAX_PARTS)?;
        within("part.index", part.index, 0, part.of - 1)?;
        if part.folder.is_empty() || part.folder.starts_with('.') || part.folder.contains('/') {
            return Err(FilesError::config(
                "part.folder",
                &part.folder,
                "it is the name of a folder",
                "a name without a slash",
            ));
        }
        Ok(part.of)
    }

    fn check_size(&self, files: u64, seek_threads: u64, processes: u64) -> Result<(), FilesError> {
        let (size, block) = (self.size_bytes, self.block_size_bytes);
        let workers = if processes == 1 {
            self.threads.max(seek_threads)
        } else {
            // A process has the blocks of its `threads`, which may differ by one each.
            self.threads * processes * seek_threads.div_ceil(self.threads)
        };
        let least = files.max(workers) * block;
        if size < least {
            return Err(FilesError::config(
                "size_bytes",
                size,
                "each file and each thread needs a block of its own",
                &format!("at least {least}"),
            ));
        }
        if !size.is_multiple_of(block) {
            let (below, above) = (size / block * block, (size / block).saturating_add(1));
            return Err(FilesError::config(
                "size_bytes",
                size,
                &format!("it is not a multiple of the block size {block}"),
                &format!("{below} or {}", above.saturating_mul(block)),
            ));
        }
        if size / block > MAX_BLOCKS {
            return Err(FilesError::config(
                "size_bytes",
                size,
                &format!("{} blocks are more than {MAX_BLOCKS}", size / block),
                "larger blocks or a smaller size",
            ));
        }
        Ok(())
    }

    fn choose_phases(&self) -> Result<(Vec<Phase>, Vec<SkippedPhase>), FilesError> {
        let unfit = |phase: &Phase| self.direct && phase.by_character();
        let Some(phases) = &self.phases else {
            let (skipped, phases): (Vec<_>, Vec<_>) = Phase::ALL
                .into_iter()
                .filter(|phase| phase.by_default())
                .partition(unfit);
            return Ok((
                phases,
                skipped
                    .into_iter()
                    .map(|phase| (phase, NOT_DIRECT))
                    .collect(),
            ));
        };
        if phases.is_empty() {
            return Err(FilesError::config(
                "phases",
                "[]",
                "nothing to do",
                "one phase at least",
            ));
        }
        for (index, phase) in phases.iter().enumerate() {
            if unfit(phase) {
                return Err(FilesError::config(
                    "phases",
                    phase.name(),
                    NOT_DIRECT,
                    "direct = false, or without this phase",
                ));
            }
            if phases[..index].contains(phase) {
                return Err(FilesError::config(
                    "phases",
                    phase.name(),
                    "it is there twice",
                    "each phase once",
                ));
            }
        }
        Ok((phases.clone(), Vec::new()))
    }
}

fn within(field: &'static str, value: u64, low: u64, high: u64) -> Result<(), FilesError> {
    if (low..=high).contains(&value) {
        return Ok(());
    }
    Err(FilesError::config(
        field,
        value,
        "out of range",
        &format!("{low} to {high}"),
    ))
}

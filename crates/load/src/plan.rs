//! What to do: servers, mix, sizes, file set, load, times. JSON in, checked before anything is done.
//!
//! [`Plan::check`] refuses what makes no sense and says what would; what it may repair (weights
//! that do not sum to 100) it repairs and says so in [`Checked::notes`]. The generator knows no
//! mix by name: whoever writes the plan (Python, from its files) gives the weights.
//!
//! Decisions: the file set has a size in files, or in bytes for each operation per second of the
//! *offered* load; neither threads nor processes are in its arithmetic (the flaw for which SFS 2.0
//! was withdrawn). Recovery is always `softerr`: a call that is never answered ends, and counts.

use std::collections::BTreeMap;
use std::net::IpAddr;

use client::MountOptions;
use client::options::Recovery;
use serde::{Deserialize, Serialize};

use crate::error::LoadError;
use crate::layout::{Layout, LayoutPlan};
use crate::operation::Operation;
use crate::weights::{WeightError, Weights};

/// Version of the plan and of the report.
pub const SCHEMA: u32 = 1;
/// Most servers (mounts) of one plan.
pub const MAX_SERVERS: usize = 64;
/// Most generator threads of one process.
pub const MAX_THREADS: u32 = 256;
/// Most operations under way at once, all threads together (Linux' slot table has 65,536).
pub const MAX_OUTSTANDING: u32 = 1 << 16;
/// Highest load: gaps of less than a nanosecond cannot be planned.
pub const MAX_RATE_OPS_PER_S: f64 = 1e9;
/// Longest phase of a point: a day.
pub const MAX_PHASE_S: f64 = 86_400.0;
/// Largest READ or WRITE (rtmax and wtmax of common servers).
pub const MAX_TRANSFER_BYTES: u32 = 1 << 20;
/// Largest file of a set.
pub const MAX_FILE_BYTES: u64 = 1 << 40;
/// Most files of a set on one mount.
pub const MAX_FILES: u64 = 1 << 26;

/// A whole plan; see the fields.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Mounts; the load is split evenly over them, and each has a file set of its own.
    pub servers: Vec<ServerPlan>,
    /// Weights by procedure name.
    pub mix: BTreeMap<String, f64>,
    /// Weights of a READ's bytes.
    #[serde(default)]
    pub read_sizes_bytes: BTreeMap<u32, f64>,
    /// Weights of a WRITE's bytes.
    #[serde(default)]
    pub write_sizes_bytes: BTreeMap<u32, f64>,
    /// How WRITEs are to be committed.
    #[serde(default)]
    pub stability: Stability,
    /// Share of WRITEs that go behind the end of their file.
    #[serde(default)]
    pub append_share: f64,
    /// Share of LOOKUPs for names that are not there.
    #[serde(default)]
    pub lookup_missing_share: f64,
    /// What the operations work on.
    pub file_set: FileSetPlan,
    /// How much, and how it comes.
    pub load: LoadPlan,
    /// Time before the measured window.
    #[serde(default)]
    pub warm_up_s: f64,
    /// Length of the measured window.
    pub measure_s: f64,
    /// Time after the window, with the load still on.
    #[serde(default)]
    pub cool_down_s: f64,
    /// Seed of everything that is drawn.
    #[serde(default = "one")]
    pub seed: u64,
    /// Generator threads; a multiple of the number of servers.
    #[serde(default = "one_thread")]
    pub threads: u32,
    /// Share of READs whose bytes are compared.
    #[serde(default)]
    pub verify_share: f64,
    /// Records of single calls that may wait to be taken, all threads together; 0: none are made.
    #[serde(default)]
    pub record_calls: usize,
    /// Width of the series' intervals.
    #[serde(default = "one_second")]
    pub series_interval_s: f64,
    /// How long nothing may be answered before the server counts as gone.
    #[serde(default = "thirty_seconds")]
    pub silence_limit_s: f64,
    /// Which of several generator processes this one is.
    #[serde(default)]
    pub part: Part,
    /// Ids in the calls; without them, those of this process.
    #[serde(default)]
    pub caller: Option<CallerPlan>,
}

/// A mount.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerPlan {
    /// IP address.
    pub address: IpAddr,
    /// Path of the export.
    pub export: String,
    /// Options with the names of nfs(5).
    #[serde(default)]
    pub options: String,
}

/// How WRITEs are to be committed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stability {
    /// The server may keep them in memory until a COMMIT.
    #[default]
    Unstable,
    /// Safe when answered (all that NFS version 2 had).
    FileSync,
}

/// The files.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileSetPlan {
    /// Name of its directory in the export's root.
    #[serde(default = "directory")]
    pub directory: String,
    /// Size by the offered load; exactly one of this and `files`.
    #[serde(default)]
    pub bytes_per_op_per_s: Option<f64>,
    /// Number of files over all mounts.
    #[serde(default)]
    pub files: Option<u64>,
    /// Weights of a file's bytes.
    pub file_sizes_bytes: BTreeMap<u64, f64>,
    /// Files in each directory.
    #[serde(default = "thirty")]
    pub files_per_directory: u64,
    /// Symbolic links for each file.
    #[serde(default)]
    pub symlinks_share: f64,
    /// Share of the files that is worked on.
    #[serde(default = "whole")]
    pub accessed_share: f64,
    /// How much appending may make the worked-on files grow before they are cut or overwritten.
    #[serde(default = "tenth")]
    pub growth_share: f64,
    /// True for a server whose every name is a file (the embedded null store): nothing is made.
    #[serde(default)]
    pub calibration: bool,
}

/// How much load, and how it comes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "mode", rename_all = "snake_case", deny_unknown_fields)]
pub enum LoadPlan {
    /// Arrivals that do not wait for answers.
    Open {
        /// Offered load, all threads and parts together.
        rate_ops_per_s: f64,
        /// How arrivals are spaced.
        #[serde(default)]
        arrivals: Arrivals,
        /// Operations under way at once, all threads of this process together.
        outstanding_max: u32,
    },
    /// Processes that each wait for their answer.
    Closed {
        /// Simulated client machines.
        clients: u32,
        /// Simulated processes on each.
        processes: u32,
        /// Offered load, all processes together.
        rate_ops_per_s: f64,
        /// How long they think between two operations.
        #[serde(default)]
        think: Think,
    },
}

/// How arrivals are spaced.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arrivals {
    /// Exponential gaps.
    #[default]
    Poisson,
    /// Equal gaps.
    Uniform,
}

/// Think times of a closed load.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Think {
    /// Exponential, with the mean that meets the offered load.
    #[default]
    Exponential,
    /// Always the time that meets the offered load.
    Constant,
    /// None: as fast as the answers come; the offered load only sizes the file set.
    Saturated,
}

/// One of several processes that share a load and its file set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// From 0.
    pub index: u32,
    /// How many there are.
    pub of: u32,
}

impl Default for Part {
    fn default() -> Self {
        Part { index: 0, of: 1 }
    }
}

/// Ids of AUTH_SYS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallerPlan {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

const fn one() -> u64 {
    1
}
const fn one_thread() -> u32 {
    1
}
const fn one_second() -> f64 {
    1.0
}
const fn thirty_seconds() -> f64 {
    30.0
}
const fn thirty() -> u64 {
    30
}
const fn whole() -> f64 {
    1.0
}
const fn tenth() -> f64 {
    0.1
}
fn directory() -> String {
    "nfslab-load".to_owned()
}

impl LoadPlan {
    /// Offered load, all parts together.
    pub const fn rate_ops_per_s(&self) -> f64 {
        match self {
            LoadPlan::Open { rate_ops_per_s, .. } | LoadPlan::Closed { rate_ops_per_s, .. } => {
                *rate_ops_per_s
            }
        }
    }
}

/// A plan that can be carried out, with what was made of it.
#[derive(Debug, Clone)]
pub struct Checked {
    /// As given, weights normalised to sum to 100.
    pub plan: Plan,
    /// What was repaired, one sentence each.
    pub notes: Vec<String>,
    /// Options of each server.
    pub options: Vec<MountOptions>,
    /// What to draw.
    pub mix: Weights<Operation>,
    /// READ sizes; `None` if the mix has no READ.
    pub reads: Option<Weights<u32>>,
    /// WRITE sizes; `None` if the mix has no WRITE.
    pub writes: Option<Weights<u32>>,
    /// The file set of each server: the same, but for its number.
    pub layout: Layout,
}

impl Checked {
    /// Threads that work on one server, over all parts.
    pub fn workers_of_server(&self) -> u32 {
        let servers = u32::try_from(self.plan.servers.len()).unwrap_or(1).max(1);
        self.plan.threads / servers * self.plan.part.of
    }
}

impl Plan {
    /// Reads JSON.
    ///
    /// # Errors
    /// [`LoadError::Plan`] with the place.
    pub fn from_json(text: &str) -> Result<Self, LoadError> {
        serde_json::from_str(text).map_err(|error| {
            let fix = "Give JSON with the fields that docs/load.md lists.";
            LoadError::plan("plan", "?", error.to_string(), fix)
        })
    }

    /// Refuses what cannot be done, normalises what can.
    ///
    /// # Errors
    /// [`LoadError::Plan`] for the first field that is wrong.
    pub fn check(mut self) -> Result<Checked, LoadError> {
        let mut notes = Vec::new();
        let options = self.check_servers(&mut notes)?;
        let mix = self.check_mix(&mut notes)?;
        let has = |wanted| mix.shares().any(|(operation, _)| operation == wanted);
        let reads = sizes(
            &self.read_sizes_bytes,
            "read_sizes_bytes",
            has(Operation::Read),
        )?;
        let writes = sizes(
            &self.write_sizes_bytes,
            "write_sizes_bytes",
            has(Operation::Write),
        )?;
        self.check_shares()?;
        self.check_times()?;
        self.check_load()?;
        let layout = self.check_files()?;
        let checked = Checked {
            plan: self,
            notes,
            options,
            mix,
            reads,
            writes,
            layout,
        };
        let workers = u64::from(checked.workers_of_server());
        if checked.layout.files < workers {
            return Err(LoadError::plan(
                "threads",
                checked.plan.threads,
                format!(
                    "{} files are fewer than {workers} threads",
                    checked.layout.files
                ),
                "Take a larger file set or fewer threads: each thread owns files.",
            ));
        }
        Ok(checked)
    }

    fn check_servers(&self, notes: &mut Vec<String>) -> Result<Vec<MountOptions>, LoadError> {
        let count = self.servers.len();
        if count == 0 || count > MAX_SERVERS {
            let why = format!("1 to {MAX_SERVERS} servers are possible");
            return Err(LoadError::plan(
                "servers",
                count,
                why,
                "List the mounts to be loaded.",
            ));
        }
        let threads = self.threads as usize;
        if threads == 0 || self.threads > MAX_THREADS || !threads.is_multiple_of(count) {
            return Err(LoadError::plan(
                "threads",
                threads,
                format!("each of the {count} servers needs the same number of threads"),
                format!("Give a multiple of {count}, at most {MAX_THREADS}."),
            ));
        }
        let mut all = Vec::new();
        for server in &self.servers {
            let mut options = MountOptions::parse(&server.options).map_err(|error| {
                let fix = "Use the names of nfs(5), comma-separated.";
                LoadError::plan("servers.options", &server.options, error.to_string(), fix)
            })?;
            notes.extend(options.adjustments().iter().cloned());
            options.recovery = Recovery::SoftErr;
            all.push(options);
        }
        Ok(all)
    }

    fn check_mix(&mut self, notes: &mut Vec<String>) -> Result<Weights<Operation>, LoadError> {
        let mut pairs = Vec::new();
        for (name, weight) in &self.mix {
            let Some(operation) = Operation::parse(name) else {
                let fix = format!("Use the names of RFC 1813: {}.", Operation::names());
                return Err(LoadError::plan("mix", name, "no operation of a mix", fix));
            };
            pairs.push((operation, *weight));
        }
        let sum: f64 = pairs.iter().map(|(_, weight)| weight).sum();
        let weights = Weights::new(pairs).map_err(|error| bad_weights("mix", error))?;
        if (sum - 100.0).abs() > 1e-6 {
            notes.push(format!(
                "the mix sums to {sum}, not to 100: every weight was multiplied by {}",
                100.0 / sum
            ));
        }
        self.mix = weights
            .shares()
            .map(|(operation, share)| (operation.name().to_owned(), share * 100.0))
            .collect();
        Ok(weights)
    }

    fn check_shares(&self) -> Result<(), LoadError> {
        let shares = [
            ("append_share", self.append_share),
            ("lookup_missing_share", self.lookup_missing_share),
            ("verify_share", self.verify_share),
            ("file_set.symlinks_share", self.file_set.symlinks_share),
            ("file_set.accessed_share", self.file_set.accessed_share),
            ("file_set.growth_share", self.file_set.growth_share),
        ];
        for (field, value) in shares {
            if !(0.0..=1.0).contains(&value) {
                let why = "a share lies between 0 and 1";
                return Err(LoadError::plan(field, value, why, "0.1 is 10 %."));
            }
        }
        if self.file_set.calibration {
            for (field, value) in [shares[0], shares[1], shares[2]] {
                if value > 0.0 {
                    let why = "a server where every name is a file keeps nothing";
                    return Err(LoadError::plan(field, value, why, "Set it to 0."));
                }
            }
        }
        Ok(())
    }

    fn check_times(&self) -> Result<(), LoadError> {
        let times = [
            ("warm_up_s", self.warm_up_s, 0.0),
            ("measure_s", self.measure_s, 0.001),
            ("cool_down_s", self.cool_down_s, 0.0),
            ("series_interval_s", self.series_interval_s, 0.001),
            ("silence_limit_s", self.silence_limit_s, 0.01),
        ];
        for (field, value, least) in times {
            if !(least..=MAX_PHASE_S).contains(&value) {
                let why = format!("must be {least} to {MAX_PHASE_S} seconds");
                return Err(LoadError::plan(field, value, why, "Give seconds."));
            }
        }
        let Part { index, of } = self.part;
        if index >= of || of > MAX_THREADS {
            let why = format!("part {index} of {of} does not exist");
            return Err(LoadError::plan("part", index, why, "Count parts from 0."));
        }
        Ok(())
    }

    fn check_load(&self) -> Result<(), LoadError> {
        let rate = self.load.rate_ops_per_s();
        if !(rate > 0.0 && rate <= MAX_RATE_OPS_PER_S) {
            return Err(LoadError::plan(
                "load.rate_ops_per_s",
                rate,
                format!("the offered load must be above 0 and at most {MAX_RATE_OPS_PER_S:e}"),
                "Give operations per second.",
            ));
        }
        let threads = self.threads;
        let (field, count) = match &self.load {
            LoadPlan::Open {
                outstanding_max, ..
            } => ("load.outstanding_max", *outstanding_max),
            LoadPlan::Closed {
                clients, processes, ..
            } => (
                "load.processes",
                clients.saturating_mul(*processes) / self.part.of,
            ),
        };
        if count < threads || count > MAX_OUTSTANDING {
            let why = format!("every thread needs one at least, {MAX_OUTSTANDING} are the most");
            return Err(LoadError::plan(
                field,
                count,
                why,
                "Change it, or the threads.",
            ));
        }
        Ok(())
    }

    fn check_files(&self) -> Result<Layout, LoadError> {
        let set = &self.file_set;
        let name = set.directory.as_bytes();
        if name.is_empty() || name.len() > 200 || name.starts_with(b".") || name.contains(&b'/') {
            let why = "is no name of a directory in the export's root";
            return Err(LoadError::plan(
                "file_set.directory",
                &set.directory,
                why,
                "Take another.",
            ));
        }
        let servers = self.servers.len() as f64;
        let wanted = match (set.files, set.bytes_per_op_per_s) {
            (Some(files), None) => LayoutPlan::Files(files.div_ceil(self.servers.len() as u64)),
            (None, Some(bytes)) if bytes > 0.0 => {
                LayoutPlan::Bytes((bytes * self.load.rate_ops_per_s() / servers).ceil() as u64)
            }
            _ => {
                let why = "its size is not clear";
                let fix = "Give one of file_set.files and file_set.bytes_per_op_per_s.";
                return Err(LoadError::plan("file_set", &set.directory, why, fix));
            }
        };
        let sizes = set
            .file_sizes_bytes
            .iter()
            .map(|(size, weight)| (*size, *weight));
        let field = "file_set.file_sizes_bytes";
        let sizes = Weights::new(sizes).map_err(|error| bad_weights(field, error))?;
        if let Some(size) = set
            .file_sizes_bytes
            .keys()
            .find(|size| **size > MAX_FILE_BYTES)
        {
            let why = format!("at most {MAX_FILE_BYTES} bytes");
            return Err(LoadError::plan(
                field,
                size,
                why,
                "Take smaller files, more of them.",
            ));
        }
        Layout::new(self, sizes, wanted)
    }
}

fn bad_weights(field: &'static str, error: WeightError) -> LoadError {
    LoadError::plan(
        field,
        "weights",
        error.to_string(),
        "Give weights of 0 and above.",
    )
}

fn sizes(
    given: &BTreeMap<u32, f64>,
    field: &'static str,
    needed: bool,
) -> Result<Option<Weights<u32>>, LoadError> {
    if !needed {
        return Ok(None);
    }
    let bad = |size: &&u32| !(1..=MAX_TRANSFER_BYTES).contains(*size);
    if let Some(size) = given.keys().find(bad) {
        let why = format!("1 to {MAX_TRANSFER_BYTES} bytes are possible");
        return Err(LoadError::plan(
            field,
            size,
            why,
            "Split it into several transfers.",
        ));
    }
    let pairs = given.iter().map(|(size, weight)| (*size, *weight));
    Weights::new(pairs)
        .map(Some)
        .map_err(|error| bad_weights(field, error))
}

//! What to do: servers, mix, sizes, file set, load, times. JSON in, checked before it is begun.
//!
//! [`Plan::check`] refuses what makes no sense and says what would; what it may repair (weights
//! that do not sum to 100) it repairs and says so in [`crate::Checked::notes`]. It knows no
//! mix by name: whoever writes the plan (Python, from its files) gives the weights.
//!
//! Decisions: the file set has a size in files, or in bytes for each operation per second of the
//! *offered* load; neither threads nor processes are in its arithmetic (the flaw for which SFS 2.0
//! was withdrawn). Recovery is always `softerr`: a call that is never answered ends, and counts.

use std::collections::BTreeMap;
use std::net::IpAddr;

pub use generator::{Arrivals, Share as Part};
use serde::{Deserialize, Serialize};

use crate::error::LoadError;

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
    /// Other arrivals and operations of the same seed, on the same file set.
    #[serde(default)]
    pub repetition: u64,
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
        /// Operations under way at once, all threads and parts together.
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

impl Plan {
    /// Reads JSON.
    ///
    /// # Errors
    /// [`LoadError::Json`] with the place.
    pub fn from_json(text: &str) -> Result<Self, LoadError> {
        serde_json::from_str(text).map_err(|error| LoadError::Json(error.to_string()))
    }
}

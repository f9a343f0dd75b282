//! The service model: planted causes. It says when a call may start and when its reply may leave.
//!
//! A model is pure arithmetic on instants ([`Engine`]): it has no clock and no thread. The loop
//! tells it of arrivals and of the time that has come, and obeys its actions; tests do the same
//! with invented instants and compare with exact schedules. Without a model none of it is built.
//!
//! What is modelled, in the order that a call meets it: the request's way in at `bandwidth`; a
//! queue before `threads` workers (FIFO); service time, while the worker is busy; the disk, while
//! the worker waits as a kernel's nfsd thread does: READs (and looks at attributes) that miss the
//! memory, stable WRITEs, changes of names and attributes, COMMITs of what was written unstable;
//! NVRAM before the disk; the reply's way out at `bandwidth`, delay and jitter. Stalls stop the
//! server and its disk, not the wire. Datagrams may be lost or sent twice. All randomness comes
//! from one seed.
//!
//! Limits: NVRAM drains at the disk's rate without competing with its other work; write-back
//! beyond the dirty limit makes the writer wait for its own bytes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

mod cache;
mod disk;
mod engine;
mod nvram;
mod random;

pub use disk::{DiskDescription, QueueOrder};
pub use engine::{Action, Engine, Shape, Stages};
pub use random::Random;

/// NFSv3 procedures.
pub const PROCEDURES: usize = 22;
/// Most stalls of one model.
pub const MAX_STALLS: usize = 1024;

/// A time during which the server does nothing; in JSON `[at_ns, for_ns]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(from = "(u64, u64)", into = "(u64, u64)")]
pub struct Stall {
    /// Its beginning, nanoseconds after the server's start.
    pub at_ns: u64,
    /// Its length, nanoseconds.
    pub for_ns: u64,
}

impl From<(u64, u64)> for Stall {
    fn from((at_ns, for_ns): (u64, u64)) -> Self {
        Stall { at_ns, for_ns }
    }
}

impl From<Stall> for (u64, u64) {
    fn from(stall: Stall) -> Self {
        (stall.at_ns, stall.for_ns)
    }
}

/// How service times vary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Spread {
    /// Always the stated time.
    #[default]
    Constant,
    /// Exponential with the stated time as mean.
    Exponential,
}

/// What a model does; goes into results as it is, and is asked for in the same JSON.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelDescription {
    /// Seed of all randomness.
    pub seed: u64,
    /// Workers; `None`: as many as there are calls.
    pub threads: Option<u32>,
    /// Service time of each procedure, nanoseconds (of other programs: as NULL).
    pub service_ns: u64,
    /// The same of single procedures, by their names of NFSv3: READ, WRITE, COMMIT.
    pub service_by_operation_ns: BTreeMap<String, u64>,
    /// How service times vary.
    pub spread: Spread,
    /// The disk; `None`: data and names cost nothing beyond service.
    pub disk: Option<DiskDescription>,
    /// Size of stable memory before the disk, bytes.
    pub nvram_bytes: Option<u64>,
    /// Speed of the wire, each way, bytes per second.
    pub bandwidth_bytes_per_s: Option<u64>,
    /// Added to each reply, nanoseconds.
    pub delay_ns: u64,
    /// Uniformly 0 to this much more, nanoseconds.
    pub jitter_ns: u64,
    /// Probability that a datagram (request or reply, UDP only) is lost, 0..1.
    pub loss: f64,
    /// Probability that a reply is sent twice (UDP only), 0..1.
    pub duplicate: f64,
    /// When the server stands still.
    pub stalls: Vec<Stall>,
}

impl Default for ModelDescription {
    fn default() -> Self {
        ModelDescription {
            seed: 1,
            threads: None,
            service_ns: 0,
            service_by_operation_ns: BTreeMap::new(),
            spread: Spread::Constant,
            disk: None,
            nvram_bytes: None,
            bandwidth_bytes_per_s: None,
            delay_ns: 0,
            jitter_ns: 0,
            loss: 0.0,
            duplicate: 0.0,
            stalls: Vec::new(),
        }
    }
}

/// What is wrong with a description.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// A service time of what is no procedure.
    #[error("NFSv3 has no procedure {0:?} (READ, WRITE, COMMIT, ...)")]
    Procedure(String),
    /// A probability outside 0..1.
    #[error("{0} must be between 0 and 1")]
    Probability(&'static str),
    /// A rate or a number of workers of zero: nothing would ever end.
    #[error("{0} must be above 0")]
    Zero(&'static str),
    /// Two answers to the question what a READ finds in memory.
    #[error("read_hit_ratio and cache_bytes exclude each other")]
    TwoMemories,
    /// No disk, or more than [`disk::MAX_DISKS`].
    #[error("disks must be 1 to {}", disk::MAX_DISKS)]
    Disks,
    /// NVRAM that nothing drains.
    #[error("nvram_bytes needs a disk that it drains to")]
    NvramWithoutDisk,
    /// More than [`MAX_STALLS`].
    #[error("more than {MAX_STALLS} stalls")]
    TooManyStalls,
}

impl ModelDescription {
    /// Checks what would make the model stand still or lie.
    pub fn check(&self) -> Result<(), ModelError> {
        let mut named = self.service_by_operation_ns.keys();
        if let Some(name) = named.find(|name| procedure_number(name).is_none()) {
            return Err(ModelError::Procedure(name.clone()));
        }
        let disk = self.disk.as_ref();
        let probabilities = [
            ("loss", self.loss),
            ("duplicate", self.duplicate),
            ("read_hit_ratio", disk.map_or(0.0, |d| d.read_hit_ratio)),
        ];
        for (name, value) in probabilities {
            if !(0.0..=1.0).contains(&value) {
                return Err(ModelError::Probability(name));
            }
        }
        if self.threads == Some(0) {
            return Err(ModelError::Zero("threads"));
        }
        if self.bandwidth_bytes_per_s == Some(0) {
            return Err(ModelError::Zero("bandwidth_bytes_per_s"));
        }
        if disk.is_some_and(|disk| disk.rate_bytes_per_s == 0) {
            return Err(ModelError::Zero("rate_bytes_per_s"));
        }
        if disk.is_some_and(|disk| disk.disks == 0 || disk.disks > disk::MAX_DISKS) {
            return Err(ModelError::Disks);
        }
        if disk.is_some_and(|disk| disk.cache_bytes.is_some() && disk.read_hit_ratio > 0.0) {
            return Err(ModelError::TwoMemories);
        }
        if self.nvram_bytes.is_some() && disk.is_none() {
            return Err(ModelError::NvramWithoutDisk);
        }
        if self.stalls.len() > MAX_STALLS {
            return Err(ModelError::TooManyStalls);
        }
        Ok(())
    }
}

impl ModelDescription {
    /// Service time by number of the procedure, nanoseconds.
    pub(crate) fn service_times_ns(&self) -> [u64; PROCEDURES] {
        let mut times = [self.service_ns; PROCEDURES];
        for (name, time_ns) in &self.service_by_operation_ns {
            if let Some(place) = procedure_number(name).and_then(|number| times.get_mut(number)) {
                *place = *time_ns;
            }
        }
        times
    }
}

/// Number of an NFSv3 procedure.
fn procedure_number(name: &str) -> Option<usize> {
    (0..PROCEDURES).find(|number| {
        let number = u32::try_from(*number).unwrap_or(u32::MAX);
        wire::programs::procedure_name(wire::programs::NFS, 3, number) == Some(name)
    })
}

/// Time that `bytes` take at a rate, nanoseconds, rounded up.
pub(crate) fn transfer_ns(bytes: u64, rate_bytes_per_s: u64) -> u64 {
    let ns = (u128::from(bytes) * 1_000_000_000).div_ceil(u128::from(rate_bytes_per_s.max(1)));
    u64::try_from(ns).unwrap_or(u64::MAX)
}

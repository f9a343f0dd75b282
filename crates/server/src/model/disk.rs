//! The model's disk: one arm, one queue.

use serde::{Deserialize, Serialize};

use super::{Random, transfer_ns};

/// Which job is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum QueueOrder {
    /// First come, first served.
    #[default]
    Fifo,
    /// Upwards from where the arm is, then from the lowest again (C-LOOK).
    Elevator,
}

/// What the disk is like; in JSON as it is here.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct DiskDescription {
    /// Seek and rotation before a job that does not go on where the last one ended, nanoseconds.
    pub positioning_ns: u64,
    /// Transfer rate, bytes per second.
    pub rate_bytes_per_s: u64,
    /// Disks of this kind side by side; see [`DiskDescription::disk_of`].
    pub disks: u32,
    /// Which job is next.
    pub order: QueueOrder,
    /// Share of READs that the server's memory answers, 0..1.
    pub read_hit_ratio: f64,
    /// The server's memory for what was read and written, bytes; `None`: see `read_hit_ratio`.
    pub cache_bytes: Option<u64>,
    /// Unstable data that the server keeps in memory, bytes; beyond it WRITEs go to the disk.
    /// `None`: all of it.
    pub dirty_limit_bytes: Option<u64>,
    /// Added to each job that makes data stable, nanoseconds (journal, flush).
    pub commit_ns: u64,
    /// What a change of names or attributes writes, bytes.
    pub metadata_bytes: u64,
}

impl Default for DiskDescription {
    fn default() -> Self {
        DiskDescription {
            positioning_ns: 0,
            rate_bytes_per_s: 100_000_000,
            disks: 1,
            order: QueueOrder::Fifo,
            read_hit_ratio: 0.0,
            cache_bytes: None,
            dirty_limit_bytes: None,
            commit_ns: 0,
            metadata_bytes: 4096,
        }
    }
}

/// What lies on one disk before the next one's turn comes, bytes (a usual chunk of RAID 0).
pub const STRIPE_BYTES: u64 = 64 << 10;
/// Most disks of a model.
pub const MAX_DISKS: u32 = 1024;

impl DiskDescription {
    /// On which of the disks a place lies: files begin on different ones, and go on from disk to
    /// disk in stripes of [`STRIPE_BYTES`].
    #[must_use]
    pub fn disk_of(&self, (object, offset): (u64, u64)) -> usize {
        let first = Random::new(object).bits() % u64::from(self.disks.max(1));
        let stripes = offset / STRIPE_BYTES % u64::from(self.disks.max(1));
        usize::try_from((first + stripes) % u64::from(self.disks.max(1))).unwrap_or(0)
    }
}

/// A piece of work for the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskJob {
    /// The call that waits for it.
    pub call: u64,
    /// Where: object, then offset in it.
    pub place: (u64, u64),
    /// How much.
    pub bytes: u64,
    /// Whether it makes data stable.
    pub commits: bool,
}

/// The disk at work.
#[derive(Clone, Debug)]
pub struct Disk {
    description: DiskDescription,
    waiting: Vec<DiskJob>,
    arm: Option<(u64, u64)>,
    busy: bool,
}

impl Disk {
    /// Idle, arm nowhere.
    pub fn new(description: DiskDescription) -> Self {
        Disk {
            description,
            waiting: Vec::new(),
            arm: None,
            busy: false,
        }
    }

    /// Queues a job (bounded by the calls that the server takes).
    pub fn queue(&mut self, job: DiskJob) {
        self.waiting.push(job);
    }

    /// Takes up the next job if the disk is idle; returns its call and how long it takes.
    pub fn start(&mut self) -> Option<(u64, u64)> {
        if self.busy {
            return None;
        }
        let job = self.waiting.remove(self.next()?);
        let (object, offset) = job.place;
        let sequential = self.arm == Some(job.place);
        self.arm = Some((object, offset.saturating_add(job.bytes)));
        self.busy = true;
        let disk = &self.description;
        let positioning = if sequential { 0 } else { disk.positioning_ns };
        let commit = if job.commits { disk.commit_ns } else { 0 };
        let transfer = transfer_ns(job.bytes, disk.rate_bytes_per_s);
        Some((
            job.call,
            positioning.saturating_add(commit).saturating_add(transfer),
        ))
    }

    /// The job taken up has ended.
    pub fn end(&mut self) {
        self.busy = false;
    }

    fn next(&self) -> Option<usize> {
        let places = || self.waiting.iter().map(|job| job.place).enumerate();
        let lowest = |(_, a): &(usize, (u64, u64)), (_, b): &(usize, (u64, u64))| a.cmp(b);
        match (self.description.order, self.arm) {
            (QueueOrder::Elevator, Some(arm)) => places()
                .filter(|(_, place)| *place >= arm)
                .min_by(lowest)
                .or_else(|| places().min_by(lowest)),
            (QueueOrder::Elevator, None) => places().min_by(lowest),
            (QueueOrder::Fifo, _) => places().next(),
        }
        .map(|(index, _)| index)
    }
}

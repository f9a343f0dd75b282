//! What one thread counts and records.
//!
//! A request belongs to the timed part if it *ended* in it, or failed behind it: it was begun by
//! then. What was drawn belongs to it by the instant it was planned for. Latencies are recorded
//! once, by kind and class together; what reports show by kind or by class are sums of these.

use std::collections::BTreeMap;

use generator::{Accounts, Times};
use measure::{HistogramError, LatencyHistogram, Series, add_up};
use serde::{Deserialize, Serialize};

use super::config::LoadConfig;
use super::draw::Drawn;
use super::fault::{FAULTS, Fault};
use crate::fileset::{CLASSES, FILES};
use crate::page::{KINDS, Kind};

/// Requests counted by what they ask for; POSTs ask for no file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Tally {
    pub kinds: [u64; KINDS],
    pub files: [[u64; FILES]; CLASSES],
    pub directories: Vec<u64>,
}

impl Tally {
    fn new(directories: u32) -> Self {
        Tally {
            kinds: [0; KINDS],
            files: [[0; FILES]; CLASSES],
            directories: vec![0; directories as usize],
        }
    }

    #[inline]
    fn count(&mut self, drawn: &Drawn) {
        self.kinds[drawn.kind as usize] += 1;
        if drawn.kind == Kind::Post {
            return;
        }
        let (class, file) = (
            usize::from(drawn.file.class),
            usize::from(drawn.file.file) - 1,
        );
        if let Some(count) = self
            .files
            .get_mut(class)
            .and_then(|files| files.get_mut(file))
        {
            *count += 1;
        }
        if let Some(count) = self.directories.get_mut(drawn.file.directory as usize) {
            *count += 1;
        }
    }

    fn add(&mut self, other: &Self) {
        let sum = |to: &mut [u64], from: &[u64]| {
            for (to, from) in to.iter_mut().zip(from) {
                *to += from;
            }
        };
        sum(&mut self.kinds, &other.kinds);
        sum(self.files.as_flattened_mut(), other.files.as_flattened());
        sum(&mut self.directories, &other.directories);
    }
}

/// Requests of one kind and class that ended well in the timed part.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Cell {
    pub done: u64,
    pub bytes: u64,
    pub last_byte: LatencyHistogram,
    pub first_byte: LatencyHistogram,
}

impl Cell {
    pub fn new() -> Result<Self, HistogramError> {
        Ok(Cell {
            done: 0,
            bytes: 0,
            last_byte: LatencyHistogram::new()?,
            first_byte: LatencyHistogram::new()?,
        })
    }

    pub fn add(&mut self, other: &Self) -> Result<(), HistogramError> {
        add_up!(self, other; done, bytes);
        self.last_byte.add(&other.last_byte)?;
        self.first_byte.add(&other.first_byte)
    }
}

/// Plain counts; of the timed part where nothing else is said.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Counts {
    /// Without an end when the load was over.
    pub unfinished: u64,
    /// Whole load, faults included.
    pub connects: u64,
    pub idle_closed: u64,
    pub close_ignored: u64,
    /// Bytes received and bytes compared.
    pub received_bytes: u64,
    pub verified_replies: u64,
    pub verified_bytes: u64,
}

/// How a reply came.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival {
    pub planned_ns: u64,
    pub first_byte_ns: u64,
    pub last_byte_ns: u64,
    pub body_bytes: u64,
}

/// What adds up over threads, and over processes.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Meter {
    /// Open: late from planned to taken. Line speed: from line free to read.
    pub accounts: Accounts,
    /// By kind and class; a POST has a class of its own.
    pub cells: Vec<Option<Box<Cell>>>,
    pub drawn: Tally,
    pub done: Tally,
    /// Failed requests of each kind, by fault; of the timed part, and of what it left under way.
    pub faults: [[u64; FAULTS]; KINDS],
    pub statuses: BTreeMap<u16, u64>,
    /// Failed before the timed part.
    pub faults_outside: u64,
    /// Files that were read whole, a bit each; whole load.
    pub touched: Vec<u64>,
    pub counts: Counts,
    /// Requests that ended well, and bytes of all that was received.
    pub done_series: Series,
    pub received_series: Series,
}

/// Cells of one kind.
pub(crate) const CELLS_PER_KIND: usize = CLASSES + 1;

impl Meter {
    pub fn new(times: Times, config: &LoadConfig) -> Result<Self, HistogramError> {
        let interval_ns = (config.series_interval_s * 1e9) as u64;
        let words = config.file_set.files().div_ceil(64) as usize;
        Ok(Meter {
            accounts: Accounts::new(times)?,
            cells: vec![None; KINDS * CELLS_PER_KIND],
            drawn: Tally::new(config.file_set.directories),
            done: Tally::new(config.file_set.directories),
            faults: [[0; FAULTS]; KINDS],
            statuses: BTreeMap::new(),
            faults_outside: 0,
            touched: vec![0; words],
            counts: Counts::default(),
            done_series: Series::new(times.start_ns, interval_ns),
            received_series: Series::new(times.start_ns, interval_ns),
        })
    }

    /// A request was drawn for an instant.
    #[inline]
    pub fn drawn(&mut self, drawn: &Drawn, planned_ns: u64) {
        if self.accounts.times.in_window(planned_ns) {
            self.drawn.count(drawn);
        }
    }

    /// Bytes came in; returns whether they count.
    #[inline]
    pub fn received(&mut self, now_ns: u64, bytes: u64) -> bool {
        self.received_series.record(now_ns, bytes);
        let counts = self.accounts.times.in_window(now_ns);
        self.counts.received_bytes += if counts { bytes } else { 0 };
        counts
    }

    /// A reply is complete, and right as far as it was looked at.
    #[inline]
    pub fn done(&mut self, drawn: &Drawn, arrival: &Arrival) -> Result<(), HistogramError> {
        self.done_series
            .record(arrival.last_byte_ns, arrival.body_bytes);
        if drawn.kind != Kind::Post {
            let index = drawn.file.index();
            if let Some(word) = self.touched.get_mut((index / 64) as usize) {
                *word |= 1 << (index % 64);
            }
        }
        if !self.accounts.times.in_window(arrival.last_byte_ns) {
            return Ok(());
        }
        self.done.count(drawn);
        let class = match drawn.kind {
            Kind::Post => CLASSES,
            _ => usize::from(drawn.file.class),
        };
        let Some(cell) = self
            .cells
            .get_mut(drawn.kind as usize * CELLS_PER_KIND + class)
        else {
            return Ok(());
        };
        let cell = match cell {
            Some(cell) => cell,
            none => none.insert(Box::new(Cell::new()?)),
        };
        cell.done += 1;
        cell.bytes += arrival.body_bytes;
        let since = |at_ns: u64| at_ns.saturating_sub(arrival.planned_ns).max(1);
        cell.last_byte.record(since(arrival.last_byte_ns));
        cell.first_byte.record(since(arrival.first_byte_ns));
        if drawn.verify {
            self.counts.verified_replies += 1;
            self.counts.verified_bytes += arrival.body_bytes;
        }
        Ok(())
    }

    /// A request failed.
    #[cold]
    pub fn failed(&mut self, kind: Kind, fault: Fault, now_ns: u64) {
        if now_ns < self.accounts.times.window_start_ns {
            self.faults_outside += 1;
            return;
        }
        if let Some(count) = self.faults[kind as usize].get_mut(fault.index()) {
            *count += 1;
        }
        if let Fault::Status(code) = fault {
            *self.statuses.entry(code).or_default() += 1;
        }
    }

    pub fn add(&mut self, other: Self) -> Result<(), HistogramError> {
        for (sum, one) in self.cells.iter_mut().zip(other.cells) {
            match (sum.as_mut(), one) {
                (Some(sum), Some(one)) => sum.add(&one)?,
                (None, one) => *sum = one,
                (Some(_), None) => {}
            }
        }
        self.drawn.add(&other.drawn);
        self.done.add(&other.done);
        let faults = self.faults.as_flattened_mut().iter_mut();
        for (sum, one) in faults.zip(other.faults.as_flattened()) {
            *sum += one;
        }
        for (code, count) in other.statuses {
            *self.statuses.entry(code).or_default() += count;
        }
        for (sum, one) in self.touched.iter_mut().zip(other.touched) {
            *sum |= one;
        }
        self.faults_outside += other.faults_outside;
        let (sum, one) = (&mut self.counts, &other.counts);
        add_up!(
            sum, one; unfinished, connects, idle_closed, close_ignored,
            received_bytes, verified_replies, verified_bytes,
        );
        self.accounts.add(&other.accounts)?;
        self.done_series.add(other.done_series);
        self.received_series.add(other.received_series);
        Ok(())
    }
}

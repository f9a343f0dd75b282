//! Call after call, as the shim sees them, becomes the records of [`crate::record`].
//!
//! The shim says what it saw ([`Observed`]), in the order in which calls ended; the [`Tally`] keeps
//! counts per file and call, judges the place of each access against the one before it on the
//! same file (reads and writes apart), and gathers rows until somebody takes them. Files are told
//! apart by [`files::Files`].
//!
//! Decisions. An access has a place if it did not fail and its offset is known; one that failed
//! leaves the place before it as it was. Limits: files ([`Options::files_max`]), rows between two
//! takings ([`ROWS_MAX`]), the paths in them ([`PATH_BYTES_MAX`]), and rows of counts
//! ([`COUNT_ROWS_MAX`]); what goes beyond is counted.

pub mod files;

use crate::record::{
    AccessRecord, BlockRecord, CALLS, Call, CountRecord, FileRecord, NO_FILE, NameRecord, Place,
    SyncRecord, octave,
};
use files::Files;

/// Rows of one kind that wait to be taken; more are counted as lost.
pub const ROWS_MAX: usize = 4 << 20;
/// Bytes of paths in rows that wait to be taken; rows beyond are counted as lost.
pub const PATH_BYTES_MAX: usize = 256 << 20;
/// Rows of counts (a file and a call each, 1.6 kB); calls beyond are counted as uncounted.
pub const COUNT_ROWS_MAX: usize = 1 << 16;
/// Files that are told apart unless asked for otherwise.
pub const FILES_MAX: usize = 1 << 16;

/// How much is recorded; each level has all of the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    /// Calls that make bytes durable.
    Sync = 0,
    /// And names, and counts per file and call.
    Counts = 1,
    /// And a record of every read and write.
    Events = 2,
}

impl Level {
    /// Of its name in experiment files; None when there is none such.
    pub fn named(name: &str) -> Option<Level> {
        match name {
            "sync" => Some(Level::Sync),
            "counts" => Some(Level::Counts),
            "events" => Some(Level::Events),
            _ => None,
        }
    }
}

/// What is recorded, and how much of it.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How much.
    pub level: Level,
    /// Is lseek counted?
    pub lseek: bool,
    /// Files that are told apart; calls on others are counted as uncounted.
    pub files_max: usize,
}

impl Options {
    /// This level, without lseek.
    pub fn new(level: Level) -> Self {
        Options {
            level,
            lseek: false,
            files_max: FILES_MAX,
        }
    }
}

/// A call that ended.
#[derive(Clone, Copy, Debug)]
pub struct Observed {
    /// What was called.
    pub call: Call,
    /// Of which file; [`NO_FILE`] if none, or if it could not be told.
    pub file_id: u32,
    /// When it was entered, ns.
    pub start_ns: u64,
    /// Until it returned, ns.
    pub latency_ns: u64,
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// Where it begins; None when there is no place or it is not known.
    pub offset: Option<u64>,
    /// Bytes asked for.
    pub size: Option<u64>,
    /// A write that returns when its bytes are durable.
    pub synchronous: bool,
    /// What it returned: negative is -errno.
    pub result: i64,
}

/// What was gathered since the last time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Names of files.
    pub files: Vec<FileRecord>,
    /// Calls that make bytes durable.
    pub syncs: Vec<SyncRecord>,
    /// Reads and writes.
    pub events: Vec<AccessRecord>,
    /// Changes of names.
    pub names: Vec<NameRecord>,
    /// Requests of block devices (only of eBPF).
    pub blocks: Vec<BlockRecord>,
}

/// What found no room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Calls that make bytes durable.
    pub syncs: u64,
    /// Reads and writes.
    pub events: u64,
    /// Changes of names, and names of files.
    pub names: u64,
    /// Calls on files beyond the table, or rows of counts beyond it.
    pub uncounted: u64,
}

/// The access before, of one file: where it began and ended.
#[derive(Clone, Copy, Debug, Default)]
struct Last {
    read: Option<(u64, u64)>,
    write: Option<(u64, u64)>,
}

/// No row of counts yet.
const NO_ROW: u32 = u32::MAX;

/// Gathers.
#[derive(Debug)]
pub struct Tally {
    options: Options,
    /// Who is who.
    pub files: Files,
    last: Vec<Last>,
    /// By file, the last one for no file: the row of each call.
    rows_of: Vec<[u32; CALLS.len()]>,
    rows_of_none: [u32; CALLS.len()],
    rows: Vec<CountRecord>,
    taken: Taken,
    path_bytes: usize,
    lost: Lost,
}

impl Tally {
    /// Nothing seen yet.
    pub fn new(options: Options) -> Self {
        Tally {
            options,
            files: Files::new(options.files_max),
            last: Vec::new(),
            rows_of: Vec::new(),
            rows_of_none: [NO_ROW; CALLS.len()],
            rows: Vec::new(),
            taken: Taken::default(),
            path_bytes: 0,
            lost: Lost::default(),
        }
    }

    /// Is such a call recorded at this level?
    pub fn wants(&self, call: Call, synchronous: bool) -> bool {
        match call {
            Call::Lseek => self.options.lseek && self.options.level >= Level::Counts,
            _ => self.options.level >= Level::Counts || call.syncs() || synchronous,
        }
    }

    /// A call ended.
    pub fn observe(&mut self, seen: &Observed) {
        let call = seen.call;
        if !self.wants(call, seen.synchronous) {
            return;
        }
        let place = self.place(seen);
        self.count(seen, place);
        if call.syncs() || seen.synchronous {
            let row = SyncRecord {
                start_ns: seen.start_ns,
                latency_ns: seen.latency_ns,
                pid: seen.pid,
                tid: seen.tid,
                call,
                synchronous: seen.synchronous,
                file_id: seen.file_id,
                offset: seen.offset,
                size: seen.size,
                result: seen.result,
            };
            keep(&mut self.taken.syncs, row, &mut self.lost.syncs);
        }
        if self.options.level == Level::Events && (call.reads() || call.writes()) {
            let row = AccessRecord {
                start_ns: seen.start_ns,
                latency_ns: seen.latency_ns,
                pid: seen.pid,
                tid: seen.tid,
                call,
                file_id: seen.file_id,
                offset: seen.offset,
                size: seen.size.unwrap_or(seen.result.max(0) as u64),
                result: seen.result,
            };
            keep(&mut self.taken.events, row, &mut self.lost.events);
        }
    }

    /// A name was changed, or was to be: unlink, rename. The files keep who they are. With
    /// `exchange` both names were there, and each file has the other's now.
    pub fn rename(&mut self, row: NameRecord, tid: u32, exchange: bool) {
        let file_id = self.files.changed(&row, exchange);
        if self.options.level < Level::Counts {
            return;
        }
        let seen = Observed {
            call: row.call,
            file_id,
            start_ns: row.start_ns,
            latency_ns: row.latency_ns,
            pid: row.pid,
            tid,
            offset: None,
            size: None,
            synchronous: false,
            result: row.result,
        };
        self.count(&seen, None);
        if fits(&mut self.path_bytes, row.path_bytes()) {
            keep(&mut self.taken.names, row, &mut self.lost.names);
        } else {
            self.lost.names += 1;
        }
    }

    fn place(&mut self, seen: &Observed) -> Option<Place> {
        let (call, offset) = (seen.call, seen.offset?);
        let moved = u64::try_from(seen.result).ok()?;
        if seen.file_id == NO_FILE || !(call.reads() || call.writes()) {
            return None;
        }
        let last = grown(&mut self.last, seen.file_id, Last::default);
        let last = if call.reads() {
            &mut last.read
        } else {
            &mut last.write
        };
        let place = Place::of(offset, *last);
        *last = Some((offset, offset.saturating_add(moved)));
        Some(place)
    }

    fn count(&mut self, seen: &Observed, place: Option<Place>) {
        let rows_of = if seen.file_id == NO_FILE {
            &mut self.rows_of_none
        } else {
            grown(&mut self.rows_of, seen.file_id, || [NO_ROW; CALLS.len()])
        };
        let number = &mut rows_of[seen.call as usize];
        if *number == NO_ROW {
            if self.rows.len() >= COUNT_ROWS_MAX {
                self.lost.uncounted += 1;
                return;
            }
            *number = self.rows.len() as u32;
            self.rows.push(CountRecord::new(seen.file_id, seen.call));
        }
        if let Some(row) = self.rows.get_mut(*number as usize) {
            add(row, seen, place);
        }
    }

    /// What was gathered since the last time.
    pub fn take(&mut self) -> Taken {
        self.taken.files = self.files.take();
        self.path_bytes = 0;
        std::mem::take(&mut self.taken)
    }

    /// Totals per file and call, in the order in which they were seen first.
    pub fn counts(&self) -> &[CountRecord] {
        &self.rows
    }

    /// What found no room.
    pub fn lost(&self) -> Lost {
        Lost {
            names: self.lost.names + self.files.lost_names(),
            uncounted: self.lost.uncounted + self.files.beyond(),
            ..self.lost
        }
    }
}

/// Adds paths of so many bytes to those that wait, if there is room.
pub(crate) fn fits(waiting: &mut usize, bytes: usize) -> bool {
    let fits = *waiting + bytes <= PATH_BYTES_MAX;
    *waiting += if fits { bytes } else { 0 };
    fits
}

/// Keeps a row, or counts it as lost.
pub(crate) fn keep<T>(rows: &mut Vec<T>, row: T, lost: &mut u64) {
    if rows.len() < ROWS_MAX {
        rows.push(row);
    } else {
        *lost += 1;
    }
}

/// The entry of a file, which [`Files`] has numbered: there are no more of them than it allows.
fn grown<T: Clone>(of_files: &mut Vec<T>, file_id: u32, fresh: impl Fn() -> T) -> &mut T {
    let place = file_id as usize;
    if place >= of_files.len() {
        of_files.resize(place + 1, fresh());
    }
    &mut of_files[place]
}

fn add(row: &mut CountRecord, seen: &Observed, place: Option<Place>) {
    row.add(seen.latency_ns, seen.result);
    if seen.call.reads() || seen.call.writes() {
        row.bytes = row.bytes.saturating_add(seen.result.max(0) as u64);
        if let Some(size) = seen.size {
            row.sizes[octave(size)] += 1;
        }
    }
    if let Some(place) = place {
        row.places[place as usize] += 1;
    }
}

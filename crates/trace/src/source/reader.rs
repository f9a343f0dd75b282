//! Reads inputs, one after another, into blocks of segments.

mod of_many;

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, Read};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(crate) use of_many::overlaps;

use super::Input;
use super::bounds::Bounds;
use super::compression::{Bytes, LongWindow, Trailing};
use super::mapped::{Mapped, Shrank};
use super::order::in_time_order;
use super::progress::{Shared, Watcher};
use super::raw::Raw;
use super::sink::{Part, Sink, Tally, Totals};
use super::start::{Started, start, start_bytes};
use super::window::page_bytes;
use crate::block::Block;
use crate::ends::Ends;
use crate::error::TraceError;
use crate::packet::{Anomaly, Packets};

/// Packets of a live stream wait no longer than this for a block to fill.
const HOLD: Duration = Duration::from_millis(100);
/// A block with less room than this is full: reading files in small pieces costs more.
const SMALL_ROOM_BYTES: usize = 8192;

struct Current {
    started: Started,
    /// Looked at where it lies; else read.
    mapped: Option<Mapped>,
    /// Its end was told already: compressed data that is cut or damaged.
    broken: bool,
    /// No frame of it was seen yet.
    fresh: bool,
}

/// How filling a block ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Filled {
    Full,
    /// A live stream has nothing at the moment, or has been waited for long enough.
    Paused,
    Ended,
}

/// Several inputs, read as one capture.
pub struct Reader {
    bounds: Bounds,
    shared: Arc<Shared>,
    waiting: VecDeque<Input>,
    current: Option<Current>,
    /// Bytes of a packet that the last block cut.
    carried: Vec<u8>,
    packets: Packets,
    tally: Tally,
    kernel_drops: u64,
    inputs: u64,
    /// Earliest time where the present input begins.
    begun_ns: Option<i64>,
    /// Whether the inputs are some of many: what they have to do with others is not judged here.
    of_many: bool,
    /// Latest time of a frame in all blocks before.
    latest_ns: i64,
    /// Told once the frames before it are handed over.
    failed: Option<TraceError>,
    finished: bool,
}

impl fmt::Debug for Reader {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Reader")
            .field("waiting", &self.waiting)
            .field("tally", &self.tally)
            .finish_non_exhaustive()
    }
}

impl Reader {
    /// Opens inputs as one capture. Regular files are looked into here, streams when they are
    /// first read.
    ///
    /// # Errors
    /// Whatever makes a file unreadable: see [`TraceError`].
    pub fn open(inputs: Vec<Input>) -> Result<Self, TraceError> {
        Self::open_within(inputs, Bounds::default())
    }

    /// [`Reader::open`] with other sizes.
    ///
    /// # Errors
    /// As [`Reader::open`].
    pub fn open_within(inputs: Vec<Input>, bounds: Bounds) -> Result<Self, TraceError> {
        let (inputs, moved) = match inputs.len() {
            0 | 1 => (inputs, 0),
            _ => in_time_order(inputs, bounds)?,
        };
        let shared = Arc::new(Shared::default());
        shared.set_total(total_bytes(&inputs));
        let mut reader = Self::empty(bounds, shared);
        for _ in 0..moved {
            reader.packets.anomalies.count(Anomaly::FilesReordered);
        }
        reader.waiting = inputs.into();
        if let Some(Input::File(path)) = reader.waiting.front()
            && (path.is_file() || !path.exists() || path.is_dir())
        {
            reader.next_input()?;
        }
        Ok(reader)
    }

    /// Reads a capture from anything that gives bytes: for tests and fuzzing.
    ///
    /// # Errors
    /// The bytes are no capture.
    pub fn of_bytes(
        name: &str,
        bytes: impl Read + Send + 'static,
        bounds: Bounds,
    ) -> Result<Self, TraceError> {
        let shared = Arc::new(Shared::default());
        shared.set_total(None);
        let bytes: Bytes = Box::new(bytes);
        let started = start_bytes(name.to_owned(), bytes, bounds, &shared)?;
        Ok(Self::of_started(started, bounds, shared))
    }

    pub(super) fn of_started(started: Started, bounds: Bounds, shared: Arc<Shared>) -> Self {
        let mut reader = Self::empty(bounds, shared);
        reader.begin(started);
        reader
    }

    fn empty(mut bounds: Bounds, shared: Arc<Shared>) -> Self {
        bounds.block_bytes = bounds.block_bytes.max(bounds.least_bytes());
        Reader {
            bounds,
            shared,
            waiting: VecDeque::new(),
            current: None,
            carried: Vec::new(),
            packets: Packets::new(bounds.block_bytes, bounds.fragment_bytes),
            tally: Tally::default(),
            kernel_drops: 0,
            inputs: 0,
            begun_ns: None,
            of_many: false,
            latest_ns: i64::MIN,
            failed: None,
            finished: false,
        }
    }

    /// Only what lies within this time, nanoseconds from the first frame, is to be counted as odd
    /// or lost, and in [`Totals::part`]. All is read.
    pub fn count_part(&mut self, window_ns: (i64, i64)) {
        self.tally.part = Some(Part::new(window_ns));
    }

    /// A handle to watch and stop the reader from any thread.
    pub fn watcher(&self) -> Watcher {
        Watcher(Arc::clone(&self.shared))
    }

    /// Whether the present input is a file that is looked at where it lies.
    pub(crate) fn is_mapped(&self) -> bool {
        let current = self.current.as_ref();
        current.is_some_and(|current| current.mapped.is_some())
    }

    /// What it has seen so far.
    pub fn totals(&self) -> Totals {
        let tally = &self.tally;
        let drops = self.current.as_ref();
        let drops = drops.map_or(0, |current| current.started.format.kernel_drops());
        Totals {
            frames: tally.frames,
            wire_bytes: tally.wire_bytes,
            captured_bytes: tally.captured_bytes,
            truncated_frames: tally.truncated,
            times_ns: tally.times_ns.known(),
            kernel_drops: self.kernel_drops.saturating_add(drops),
            skipped_bytes: tally.skipped_bytes,
            part: tally.part,
            fragments_lost: self.packets.fragments_lost,
            inputs: self.inputs,
            anomalies: self.packets.anomalies,
        }
    }

    /// Fills a block with what comes next; whatever was in it is overwritten. False: the capture
    /// has ended, and the block is empty.
    ///
    /// # Errors
    /// An input cannot be read (any more), or [`Watcher::stop`] was called. What was good before
    /// was handed over already.
    pub fn read(&mut self, block: &mut Block) -> Result<bool, TraceError> {
        block.mapped = None;
        block.segments.clear();
        let before = self.tally;
        self.tally.times_ns = Ends::default();
        let result = self.read_frames(block);
        block.frames = self.tally.frames - before.frames;
        block.wire_bytes = self.tally.wire_bytes - before.wire_bytes;
        block.part_begin_ns = self.tally.part.and_then(|part| part.begin_ns());
        block.times_ns = self.tally.times_ns.known();
        self.tally.times_ns.add(before.times_ns);
        self.latest_ns = self.tally.times_ns.most;
        self.packets.append_assembled(&mut block.bytes);
        self.shared.set_frames(self.tally.frames);
        result
    }

    fn read_frames(&mut self, block: &mut Block) -> Result<bool, TraceError> {
        let frames = self.tally.frames;
        loop {
            if self.shared.stopped() {
                return Err(TraceError::Interrupted);
            }
            if let Some(error) = self.failed.take() {
                return Err(error);
            }
            if self.current.is_none() && !self.next_input()? {
                if !self.finished {
                    self.finished = true;
                    self.packets.finish(&mut block.segments);
                }
                return Ok(!block.segments.is_empty());
            }
            self.read_input(block)?;
            if self.tally.frames > frames || !block.segments.is_empty() {
                return Ok(true);
            }
        }
    }

    /// Begins the next input; false if there is none.
    fn next_input(&mut self) -> Result<bool, TraceError> {
        let Some(input) = self.waiting.pop_front() else {
            return Ok(false);
        };
        let name = input.name();
        let is_file = matches!(input, Input::File(_));
        let raw = Raw::of_input(input, &self.shared)?;
        let started = start(name, raw, self.bounds, &self.shared)?;
        let can_be_mapped = is_file && started.plain;
        self.begin(started);
        if let Some(current) = self.current.as_mut().filter(|_| can_be_mapped) {
            let Started { watch, name, .. } = &current.started;
            let window_bytes = self.bounds.window_bytes;
            let watch = watch.as_ref().filter(|_| window_bytes > 0);
            // A page more: the first packet may begin anywhere in its own.
            let least_bytes = self.bounds.least_bytes() + page_bytes();
            current.mapped = watch
                .and_then(|it| it.map(name, self.carried.len(), window_bytes.max(least_bytes)));
        }
        Ok(true)
    }

    fn begin(&mut self, mut started: Started) {
        self.inputs += 1;
        self.begun_ns = None;
        self.shared.begin_input(self.tally.frames);
        self.carried = std::mem::take(&mut started.begin);
        self.current = Some(Current {
            broken: false,
            fresh: true,
            mapped: None,
            started,
        });
    }

    /// Reads the current input until the block holds frames and is full, or the input pauses or
    /// ends.
    fn read_input(&mut self, block: &mut Block) -> Result<(), TraceError> {
        let Some(mut current) = self.current.take() else {
            return Ok(());
        };
        if let Some(mapped) = current.mapped.take() {
            return self.look_at(block, current, mapped);
        }
        let frames = self.tally.frames;
        let begun = Instant::now();
        block.bytes.resize(self.bounds.block_bytes, 0);
        // A packet cut by the last block goes to the front of this one.
        let (mut at, mut filled) = (0, self.carried.len());
        block.bytes[..filled].copy_from_slice(&self.carried);
        let ended = loop {
            let room = &mut block.bytes[filled..self.bounds.block_bytes];
            let (count, state) = self.fill(&mut current, room, begun);
            filled += count;
            let mut sink = Sink {
                packets: &mut self.packets,
                segments: &mut block.segments,
                tally: self.tally,
            };
            let ended = state == Filled::Ended;
            let held = &block.bytes[..filled];
            let walked = current.started.format.walk(held, at, ended, &mut sink);
            self.tally = sink.tally;
            self.check_begin(&mut current);
            let place = walked.unwrap_or_else(|refused| {
                self.failed = Some(refused.of_file(&current.started.name));
                filled
            });
            if ended || self.failed.is_some() || self.tally.frames > frames {
                at = place;
                break ended || self.failed.is_some();
            }
            if self.shared.stopped() {
                return Err(TraceError::Interrupted);
            }
            // No whole packet yet: go on in the same block, behind what is of no use.
            block.bytes.copy_within(place..filled, 0);
            filled -= place;
            at = 0;
        };
        self.carried.clear();
        if ended {
            self.end_input(&current, filled - at);
        } else {
            self.carried.extend_from_slice(&block.bytes[at..filled]);
            self.current = Some(current);
        }
        Ok(())
    }

    /// [`Reader::read_input`] of one that is mapped.
    fn look_at(
        &mut self,
        block: &mut Block,
        mut current: Current,
        mut mapped: Mapped,
    ) -> Result<(), TraceError> {
        block.bytes.clear();
        let frames = self.tally.frames;
        let (least_bytes, most_bytes) = (self.bounds.least_bytes(), self.bounds.block_bytes);
        while !self.shared.stopped() {
            let Some((stretch, ended)) = mapped.next(least_bytes, most_bytes) else {
                if mapped.hand_back()? {
                    self.carried.clear();
                }
                self.current = Some(current);
                return Ok(());
            };
            let mut sink = Sink {
                packets: &mut self.packets,
                segments: &mut block.segments,
                tally: self.tally,
            };
            let held = stretch.bytes();
            let walked = current.started.format.walk(held, 0, ended, &mut sink);
            self.tally = sink.tally;
            stretch.verify()?;
            self.check_begin(&mut current);
            let place = walked.unwrap_or_else(|refused| {
                self.failed = Some(refused.of_file(&current.started.name));
                held.len()
            });
            let left_bytes = held.len() - place;
            self.shared.add_read(mapped.advance(place));
            if ended || self.failed.is_some() {
                self.shared.add_read(mapped.advance(left_bytes));
                self.end_input(&current, left_bytes);
                block.mapped = Some(stretch);
                return Ok(());
            }
            if self.tally.frames > frames {
                block.mapped = Some(stretch);
                current.mapped = Some(mapped);
                self.current = Some(current);
                return Ok(());
            }
        }
        Err(TraceError::Interrupted)
    }

    /// Tells when an input begins before the one in front of it ended.
    fn check_begin(&mut self, current: &mut Current) {
        if current.fresh && self.tally.times_ns.known().is_some() {
            current.fresh = false;
            let begun_ns = self.tally.times_ns.least;
            self.begun_ns = Some(begun_ns);
            if self.inputs > 1 && !self.of_many && overlaps(begun_ns, self.latest_ns) {
                self.packets.anomalies.count(Anomaly::FilesOverlap);
            }
        }
    }

    /// Reads until the room is full, the input ends, or a live stream pauses.
    fn fill(&mut self, current: &mut Current, room: &mut [u8], begun: Instant) -> (usize, Filled) {
        let mut count = 0;
        let small = if current.started.live {
            0
        } else {
            SMALL_ROOM_BYTES
        };
        while room.len() - count > small {
            match current.started.bytes.read(&mut room[count..]) {
                Ok(0) => return (count, Filled::Ended),
                Ok(more) => {
                    count += more;
                    if current.started.live && begun.elapsed() >= HOLD {
                        return (count, Filled::Paused);
                    }
                }
                Err(error) => match error.kind() {
                    io::ErrorKind::Interrupted => {}
                    io::ErrorKind::WouldBlock => return (count, Filled::Paused),
                    _ => {
                        self.broken(current, error);
                        return (count, Filled::Ended);
                    }
                },
            }
        }
        (count, Filled::Full)
    }

    /// An error of the system is one, and a window that is not held; compressed data that is cut or
    /// damaged is read up to there.
    fn broken(&mut self, current: &mut Current, error: io::Error) {
        let shrank = error.get_ref().is_some_and(|inner| inner.is::<Shrank>());
        if error.raw_os_error().is_some() || shrank {
            self.failed = Some(TraceError::Io {
                name: current.started.name.clone(),
                source: error,
            });
            return;
        }
        if let Some(refused) = LongWindow::of(&error, &current.started.name) {
            self.failed = Some(refused);
            return;
        }
        let trailing = error.get_ref().is_some_and(|inner| inner.is::<Trailing>());
        self.packets.anomalies.count(match error.kind() {
            _ if trailing => Anomaly::TrailingBytes,
            io::ErrorKind::UnexpectedEof => Anomaly::CutAtEnd,
            _ => Anomaly::DamagedCompression,
        });
        // Bytes behind the compressed data do not cut it.
        current.broken = !trailing;
    }

    fn end_input(&mut self, current: &Current, left_bytes: usize) {
        let format = &current.started.format;
        let cut = (left_bytes > 0 && !format.is_lost()) || format.missing_bytes() > 0;
        if cut && !current.broken {
            self.packets.anomalies.count(Anomaly::CutAtEnd);
        }
        let watch = current.started.watch.as_ref();
        if watch.is_some_and(|watch| watch.grew()) {
            self.packets.anomalies.count(Anomaly::FileGrew);
        }
        self.kernel_drops = self.kernel_drops.saturating_add(format.kernel_drops());
    }
}

/// Sizes of all inputs, if all are regular files.
fn total_bytes(inputs: &[Input]) -> Option<u64> {
    let mut total: u64 = 0;
    for input in inputs {
        let metadata = match input {
            Input::File(path) => std::fs::metadata(path).ok()?,
            Input::Stream { descriptor, .. } => {
                let file = std::fs::File::from(descriptor.try_clone().ok()?);
                file.metadata().ok()?
            }
        };
        if !metadata.is_file() {
            return None;
        }
        total = total.saturating_add(metadata.len());
    }
    Some(total)
}

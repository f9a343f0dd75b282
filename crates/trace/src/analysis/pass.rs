//! One pass over blocks, on one thread: streams, calls, lenses.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::SyncSender;

use arrow_array::RecordBatch;

use super::dispatch::Dispatch;
use super::parts::{Stretch, Sums};
use super::ports::Ports;
use super::{Findings, Options, summary};
use crate::block::Block;
use crate::calls::Calls;
use crate::error::TraceError;
use crate::lens::Extent;
use crate::prefetch::prefetch;
use crate::source::Totals;
use crate::stream::{Paired, Streams};

/// Segments between the one that is looked at and the one whose bytes are asked for.
const AHEAD: usize = 4;
/// Lines of the cache that are asked for: as far as a call's header and arguments reach, mostly.
const AHEAD_LINES: usize = 3;

/// The analysing half of an analysis.
pub struct Pass {
    streams: Streams,
    calls: Calls<Dispatch>,
    window_ns: Option<(i64, i64)>,
    packets: u64,
    bytes: u64,
    times_ns: Option<(i64, i64)>,
    /// Filled until there is a call.
    ports: Ports,
}

impl Pass {
    /// Nothing seen yet. `stop`: ends waits for the taker of columns.
    ///
    /// # Errors
    /// A lens is not known, or does not like its options.
    pub fn new(options: &Options, stop: Arc<AtomicBool>) -> Result<Self, TraceError> {
        Ok(Pass {
            streams: Streams::default(),
            calls: Calls::new(Dispatch::new(options, stop)?),
            window_ns: options.window_ns,
            packets: 0,
            bytes: 0,
            times_ns: None,
            ports: Ports::default(),
        })
    }

    /// Lenses that need no names get at most so many threads of their own, before the first block.
    ///
    /// # Errors
    /// No thread can be begun.
    pub fn begin_lens_threads(&mut self, most: usize) -> Result<(), TraceError> {
        self.calls.output_mut().begin_threads(most)
    }

    /// Batches of columns go there.
    pub fn set_columns(&mut self, sender: SyncSender<RecordBatch>) {
        self.calls.output_mut().set_columns(sender);
    }

    /// Whether more is asked for than the table by operation and perhaps rows of the calls.
    pub(super) fn has_lenses(&mut self) -> bool {
        self.calls.output_mut().has_lenses()
    }

    /// All messages are to go the full way: see [`Calls::leave_quick_way`].
    pub fn leave_quick_way(&mut self) {
        self.calls.leave_quick_way();
    }

    /// Calls given out so far.
    pub fn settled(&mut self) -> u64 {
        self.calls.output_mut().settled()
    }

    /// Takes a block in.
    ///
    /// # Errors
    /// Columns cannot be handed over any more, or the block's file was cut short.
    pub fn block(&mut self, block: &Block) -> Result<(), TraceError> {
        self.packets += block.frames;
        self.bytes += block.wire_bytes;
        if let Some((first_ns, last_ns)) = block.times_ns {
            let (so_far_first, so_far_last) = match self.times_ns {
                Some(times) => times,
                None => {
                    self.begins(block.part_begin_ns.unwrap_or(first_ns));
                    (first_ns, last_ns)
                }
            };
            self.times_ns = Some((so_far_first.min(first_ns), so_far_last.max(last_ns)));
        }
        let front = block.front();
        let later = block.segments.get(AHEAD..).unwrap_or_default();
        let mut later = later.iter();
        for segment in &block.segments {
            if let Some(later) = later.next() {
                prefetch::<AHEAD_LINES>(front, later.payload_at as usize);
            }
            // Nearly all lie in the front; the few others elsewhere in the block.
            let (at, length) = (segment.payload_at as usize, segment.captured_bytes as usize);
            let payload = match front.get(at..at + length) {
                Some(payload) => payload,
                None => block.payload(segment),
            };
            if self.is_in_part(segment.time_ns) {
                self.streams.segment(segment, payload, &mut self.calls);
            } else {
                // What is odd outside the part does not count.
                let before = (self.streams.counters(), *self.calls.anomalies());
                self.streams.segment(segment, payload, &mut self.calls);
                self.streams.set_counters(before.0);
                self.calls.set_anomalies(before.1);
            }
        }
        if self.calls.calls() == 0 {
            self.ports.block(block);
        }
        block.verify()?;
        self.calls.output_mut().hand_over();
        match self.calls.output_mut().take_failure() {
            Some(failure) => Err(failure),
            None => Ok(()),
        }
    }

    /// What was counted since the last checkpoint, and `before` brought up to date.
    pub(super) fn checkpoint(&mut self, totals: &Totals, before: &mut Sums) -> Stretch {
        self.streams.checkpoint();
        let counters = self.streams.counters();
        let mut anomalies: Vec<(&str, u64)> = totals.anomalies.iter().collect();
        anomalies.extend(counters.anomalies.iter());
        anomalies.extend(self.calls.anomalies().iter());
        let mut lost = counters.lost;
        lost += totals.fragments_lost;
        let numbers = [
            self.packets,
            self.bytes,
            totals.captured_bytes,
            totals.truncated_frames,
            totals.kernel_drops,
            totals.skipped_bytes,
            lost.bytes,
            lost.gaps,
            self.calls.calls(),
        ];
        let so_far = Sums::of(numbers, &anomalies);
        let sums = so_far.without(before);
        *before = so_far;
        let looked_back = self.calls.take_reached_back().then_some(0);
        let reached_back = self
            .streams
            .take_reached_back()
            .into_iter()
            .chain(looked_back);
        let beyond = summary::beyond(&self.calls.names().beyond())
            .next()
            .is_some();
        let (names, dispatch) = self.calls.names_and_output();
        let lenses = dispatch.take_counted_by_lens();
        Stretch {
            beyond: beyond || lenses.is_none(),
            operations: dispatch.take_counted(names),
            lenses: lenses.unwrap_or_default(),
            sums,
            times_ns: self.times_ns.take(),
            reached_back: reached_back.min(),
            ..Stretch::default()
        }
    }

    /// How this pass goes on as one that was begun `later`; `None` if it may not.
    /// `before`: frames that it saw before the other one's first.
    pub(super) fn pair(&self, later: &Self, now_ns: i64, before: u64) -> Option<Paired> {
        let paired = self.streams.pair(&later.streams, now_ns)?;
        let alike = self.calls.state_eq(&later.calls, &paired.numbers, before);
        alike.then_some(paired)
    }

    /// One that was begun `later` goes on in its place.
    pub(super) fn let_go(&mut self, later: &Self) {
        self.streams.let_go(&later.streams, &mut self.calls);
    }

    /// The capture ended: what is under way is counted.
    pub(super) fn end(&mut self) {
        self.streams.finish(&mut self.calls);
        self.calls.finish();
    }

    /// The streams, for what parts tell of connections.
    pub(super) fn streams(&mut self) -> &mut Streams {
        &mut self.streams
    }

    /// Lists of COMPOUND operations that occurred.
    pub(super) fn operation_lists(&self) -> &[Vec<u32>] {
        self.calls.names().operation_lists()
    }

    /// The first frames' times are known: so is the window.
    fn begins(&mut self, first_ns: i64) {
        if let Some((from_ns, to_ns)) = self.window_ns {
            let at = |offset_ns| first_ns.saturating_add(offset_ns);
            let window_ns = (at(from_ns), at(to_ns));
            self.window_ns = Some(window_ns);
            self.calls.output_mut().set_window(window_ns);
        }
    }

    /// Whether this moment lies in the part that is asked for.
    fn is_in_part(&self, time_ns: i64) -> bool {
        self.window_ns
            .is_none_or(|(from_ns, to_ns)| time_ns >= from_ns && time_ns < to_ns)
    }

    /// The capture ended. `totals`: what its reader saw; `inputs`: names of what was read.
    ///
    /// # Errors
    /// The last batch of columns could not be handed over.
    pub fn finish(mut self, totals: &Totals, inputs: &[String]) -> Result<Findings, TraceError> {
        self.streams.finish(&mut self.calls);
        self.calls.finish();
        let counters = self.streams.counters();
        let mut anomalies: Vec<(&str, u64)> = totals.anomalies.iter().collect();
        anomalies.extend(counters.anomalies.iter());
        anomalies.extend(self.calls.anomalies().iter());
        let beyond = self.calls.names().beyond();
        anomalies.extend(summary::beyond(&beyond));
        if let Some(part) = totals.part {
            (self.packets, self.bytes) = (part.frames, part.wire_bytes);
        }
        let (first_ns, last_ns) = self.times_ns.unwrap_or_default();
        let mut extent = Extent {
            first_ns,
            last_ns,
            capture_first_ns: first_ns,
            packets: self.packets,
            calls: match self.window_ns {
                Some(_) => self.calls.output_mut().counted(),
                None => self.calls.calls(),
            },
        };
        let mut lost = counters.lost;
        lost += totals.fragments_lost;
        let whole = summary::Whole {
            extent,
            has_times: self.times_ns.is_some(),
            bytes: self.bytes,
            window_ns: self.window_ns.filter(|_| self.times_ns.is_some()),
            lost,
            files: self.calls.names().files() as u64,
        };
        let mut summary = summary::summary(&whole, totals, &anomalies, inputs);
        if extent.calls == 0 {
            summary["other_ports"] = self.ports.json();
        }
        if let Some((from_ns, to_ns)) = whole.window_ns {
            extent.first_ns = first_ns.max(from_ns).min(last_ns);
            extent.last_ns = last_ns.min(to_ns).max(extent.first_ns);
        }
        let (names, dispatch) = self.calls.into_parts();
        let (sections, cpu_ns) = dispatch.finish(&names, &extent)?;
        Ok(Findings {
            summary,
            sections,
            cpu_ns,
        })
    }
}

//! The queue: calls sent and not yet answered, swept in the order of time.
//!
//! Settled calls come in the order of the calls, each with its first send and its first reply.
//! Replies to come wait in a heap until the sweep reaches their time, so that every change of the
//! queue is seen in its order and its minimum, maximum and time integral are exact.
//!
//! First sends are nearly in order: a large WRITE begins before calls that are whole earlier. Calls
//! are therefore held back by [`SLACK_NS`] and sorted. One that is later still is counted
//! ([`Queue::late`]); the time integral stays exact, minimum and maximum may miss it.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::bin::Bin;
use crate::lens::time_bins::TimeBins;
use crate::limits::MAX_OPEN_CALLS;

/// How far first sends may be out of order: a 1 MiB WRITE on a gigabit link takes 9 ms.
pub(super) const SLACK_NS: i64 = 10_000_000;
/// Calls held back to be sorted; more within [`SLACK_NS`] are let go early.
const MAX_HELD: usize = 1 << 16;

/// A call's stay in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Stay {
    pub from_ns: i64,
    /// `i64::MAX`: to the end of the capture.
    pub to_ns: i64,
    /// It uses a slot of an NFSv4.1 session.
    pub has_slot: bool,
}

/// Sweeps stays into bins.
#[derive(Debug, Default)]
pub(super) struct Queue {
    held: VecDeque<Stay>,
    ends: BinaryHeap<Reverse<(i64, bool)>>,
    newest_ns: Option<i64>,
    now_ns: Option<i64>,
    waiting: u32,
    slots: u32,
    /// Time integral, call-nanoseconds.
    pub area: i128,
    /// Largest queue.
    pub max: u32,
    /// Most slots in use.
    pub slots_max: u32,
    /// Calls that came too late to be sorted.
    pub late: u64,
    /// Ends that the bound on open calls let go early: their time is in no bin.
    pub overflowed: u64,
}

impl Queue {
    /// Takes a call; its changes reach the bins when the sweep passes them.
    #[inline(always)]
    pub fn add(&mut self, stay: Stay, bins: &mut TimeBins<Bin>) {
        let newest = self
            .newest_ns
            .map_or(stay.from_ns, |newest| newest.max(stay.from_ns));
        self.newest_ns = Some(newest);
        if self
            .held
            .back()
            .is_none_or(|last| last.from_ns <= stay.from_ns)
        {
            self.held.push_back(stay);
        } else {
            let place = self
                .held
                .partition_point(|held| held.from_ns <= stay.from_ns);
            self.held.insert(place, stay);
        }
        let until = newest.saturating_sub(SLACK_NS);
        while let Some(&stay) = self.held.front() {
            if stay.from_ns > until && self.held.len() <= MAX_HELD {
                break;
            }
            self.held.pop_front();
            self.begin(stay, bins);
        }
    }

    #[inline(always)]
    fn begin(&mut self, stay: Stay, bins: &mut TimeBins<Bin>) {
        if self.now_ns.is_some_and(|now| stay.from_ns < now) {
            self.begin_late(stay, bins);
            return;
        }
        self.end_until(stay.from_ns, bins);
        self.advance(stay.from_ns, bins);
        self.waiting += 1;
        self.slots += u32::from(stay.has_slot);
        self.note(stay.from_ns, bins);
        self.push_end(stay);
    }

    #[inline(always)]
    fn push_end(&mut self, stay: Stay) {
        if self.ends.len() < MAX_OPEN_CALLS {
            self.ends.push(Reverse((stay.to_ns, stay.has_slot)));
        } else {
            // No capture that the reader follows gets here: it has the same bound.
            self.overflowed += 1;
            self.waiting -= 1;
            self.slots -= u32::from(stay.has_slot);
        }
    }

    #[cold]
    fn begin_late(&mut self, stay: Stay, bins: &mut TimeBins<Bin>) {
        self.late += 1;
        let now = self.now_ns.unwrap_or(stay.from_ns);
        let passed = stay.to_ns.min(now);
        let mut area = 0_i128;
        bins.span(stay.from_ns, passed, |bin, overlap| {
            bin.queue_area += i128::from(overlap);
            area += i128::from(overlap);
        });
        self.area += area;
        if stay.to_ns > now {
            self.waiting += 1;
            self.slots += u32::from(stay.has_slot);
            self.note(now, bins);
            self.push_end(stay);
        }
    }

    /// Ends of stays up to and at `time_ns`.
    #[inline(always)]
    fn end_until(&mut self, time_ns: i64, bins: &mut TimeBins<Bin>) {
        while let Some(&Reverse((end_ns, has_slot))) = self.ends.peek() {
            if end_ns > time_ns {
                break;
            }
            self.ends.pop();
            self.advance(end_ns, bins);
            self.waiting -= 1;
            self.slots -= u32::from(has_slot);
            self.note(end_ns, bins);
        }
    }

    /// Lets the queue stand as it is until `time_ns`.
    #[inline(always)]
    fn advance(&mut self, time_ns: i64, bins: &mut TimeBins<Bin>) {
        let now = self.now_ns.unwrap_or(time_ns);
        let (waiting, slots) = (self.waiting, self.slots);
        self.area += i128::from(waiting) * (i128::from(time_ns) - i128::from(now));
        bins.span(now, time_ns, |bin, overlap| {
            bin.queue_area += i128::from(waiting) * i128::from(overlap);
            bin.slots_area += i128::from(slots) * i128::from(overlap);
            bin.queue(waiting, slots);
        });
        self.now_ns = Some(time_ns);
    }

    #[inline(always)]
    fn note(&mut self, time_ns: i64, bins: &mut TimeBins<Bin>) {
        self.max = self.max.max(self.waiting);
        self.slots_max = self.slots_max.max(self.slots);
        bins.at(time_ns).queue(self.waiting, self.slots);
    }

    /// Up to when the queue is known.
    pub fn now_ns(&self) -> Option<i64> {
        self.now_ns
    }

    /// The capture ended: stays without an end last until `end_ns`.
    pub fn finish(&mut self, end_ns: i64, bins: &mut TimeBins<Bin>) {
        while let Some(stay) = self.held.pop_front() {
            self.begin(stay, bins);
        }
        self.end_until(i64::MAX - 1, bins);
        if self.now_ns.is_some_and(|now| now < end_ns) {
            self.advance(end_ns, bins);
        }
    }
}

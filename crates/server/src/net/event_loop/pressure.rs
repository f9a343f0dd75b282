//! Memory: the books of each connection, the line of those that wait for some, who is closed for
//! them, and what is given back to the operating system.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use super::super::connection::Connection;
use super::super::counters::count;
use super::super::memory::{Claim, GUARANTEED_BYTES};
use super::Loop;

/// A connection that has taken and sent nothing for so long may be closed if others want what it
/// holds, nanoseconds.
const STILL_NS: u64 = 500_000_000;
/// Held at least once, to be worth giving back, bytes.
const GIVE_BACK_BYTES: usize = 16 << 20;
/// For so long less than a quarter of it has to be held, nanoseconds.
const CALM_NS: u64 = 1_000_000_000;

/// Connections that wait for memory, with their serial numbers. Those that have taken what they
/// were sent come before those that were never sent anything.
#[derive(Debug, Default)]
pub(super) struct Line {
    tried: VecDeque<(usize, u64)>,
    untried: VecDeque<(usize, u64)>,
    /// When to look again whether there is some for the first.
    next_ns: Option<u64>,
}

impl Line {
    pub(super) fn len(&self) -> usize {
        self.tried.len() + self.untried.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn first(&self) -> Option<(usize, u64)> {
        self.tried.front().or(self.untried.front()).copied()
    }

    fn pop(&mut self) {
        if self.tried.pop_front().is_none() {
            self.untried.pop_front();
        }
    }

    /// Takes out a connection that is no more.
    pub(super) fn leave(&mut self, serial: u64) {
        for line in [&mut self.tried, &mut self.untried] {
            line.retain(|(_, other)| *other != serial);
        }
    }
}

/// When memory is given back.
#[derive(Debug, Default)]
pub(super) struct GivingBack {
    /// The most that was held since the last time, bytes.
    most: usize,
    /// Since when little is held.
    calm_ns: Option<u64>,
}

impl GivingBack {
    /// Whether it is time to, with so much held.
    fn is_due(&mut self, held: usize, now_ns: u64) -> bool {
        self.most = self.most.max(held);
        if self.most < GIVE_BACK_BYTES || held > self.most / 4 {
            self.calm_ns = None;
            return false;
        }
        let since = *self.calm_ns.get_or_insert(now_ns);
        let due = now_ns >= since + CALM_NS;
        if due {
            self.most = held;
            self.calm_ns = None;
        }
        due
    }

    /// When to look again.
    fn next_ns(&self) -> Option<u64> {
        self.calm_ns.map(|since| since + CALM_NS)
    }
}

/// Makes the allocator return what it keeps for later: it would keep most of it for ever.
fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes no pointer, and is safe to call from any thread (malloc_trim(3)).
    unsafe {
        libc::malloc_trim(0);
    }
}

impl Loop {
    /// Brings the books up to date; `aside_bytes` are held for it elsewhere.
    pub(super) fn settle(&mut self, connection: &mut Connection, aside_bytes: usize) {
        let held = connection.held_bytes() + aside_bytes;
        if held != connection.booked {
            if connection.booked <= GUARANTEED_BYTES && held > GUARANTEED_BYTES {
                connection.still_ns = self.now_ns;
            }
            self.memory.change(connection.booked, held);
            connection.booked = held;
        }
    }

    /// Bytes that a connection may take on now.
    pub(super) fn room(&self, connection: &Connection, first: bool) -> usize {
        let claim = match connection.is_quiet() {
            _ if !first && !self.line.is_empty() => Claim::Nothing,
            true => Claim::Call,
            false => Claim::Share,
        };
        self.memory.room(connection.booked, claim)
    }

    /// Nothing more is taken from a connection. If nothing of its own will end that, it stands in
    /// line for `wants` bytes.
    pub(super) fn block(&mut self, index: usize, connection: &mut Connection, wants: usize) {
        count(&self.counters.back_pressure);
        connection.blocked = true;
        if connection.is_quiet() && connection.wants == 0 {
            count(&self.counters.memory_waits);
            connection.wants = wants;
            // It is quiet: if it was sent anything, it has taken all of it.
            let line = match connection.outgoing.stream_sent {
                0 => &mut self.line.untried,
                _ => &mut self.line.tried,
            };
            line.push_back((index, connection.serial));
        }
    }

    /// Lets those that stand in line have what there is, one after the other.
    pub(super) fn serve_the_line(&mut self) {
        self.line.next_ns = None;
        for _ in 0..self.line.len() {
            let Some((index, booked, wants)) = self.first_in_line() else {
                break;
            };
            if !self.make_room(index, booked, wants) {
                break;
            }
            self.line.pop();
            self.resume(index, true);
        }
    }

    /// Where the first in line is, what it holds and what it wants.
    fn first_in_line(&self) -> Option<(usize, usize, usize)> {
        let (index, serial) = self.line.first()?;
        let slot = self.connections.get(index).and_then(Option::as_ref);
        let first = slot.filter(|found| found.serial == serial)?;
        Some((index, first.booked, first.wants))
    }

    /// True if the first in line can have what it wants.
    pub(super) fn line_can_go_on(&self) -> bool {
        self.first_in_line()
            .is_some_and(|(_, booked, wants)| self.memory.room(booked, Claim::Call) >= wants)
    }

    /// Makes room, if it has to be by closing those that have been still for long and hold much.
    /// False if there are none: `Line::next_ns` is when to look again.
    fn make_room(&mut self, index: usize, booked: usize, wants: usize) -> bool {
        while self.memory.room(booked, Claim::Call) < wants {
            let open = self.connections.iter().enumerate();
            let still = open.filter_map(|(other, slot)| {
                let connection = slot.as_ref().filter(|_| other != index)?;
                let since_ns = connection.still_since()?;
                Some((other, since_ns, connection.booked))
            });
            let (mut worst, mut next_ns) = (None, None);
            for (other, since_ns, held) in still {
                let still_ns = self.now_ns.saturating_sub(since_ns);
                if still_ns >= STILL_NS {
                    // Bytes times time: what it has cost the others.
                    worst = worst.max(Some((u128::from(still_ns) * held as u128, other)));
                }
                let due_ns = since_ns + STILL_NS;
                next_ns = Some(next_ns.map_or(due_ns, |next: u64| next.min(due_ns)));
            }
            let Some((_, other)) = worst else {
                self.line.next_ns = next_ns;
                return false;
            };
            count(&self.counters.stalled_connections);
            self.close(other);
        }
        true
    }

    /// Ends a turn: what is held can be read elsewhere, and goes back when it has become little.
    pub(super) fn end_turn(&mut self) {
        let (held, peak) = (self.memory.held(), self.memory.peak());
        self.counters
            .held_bytes
            .store(held as u64, Ordering::Relaxed);
        self.counters
            .held_bytes_peak
            .store(peak as u64, Ordering::Relaxed);
        if self.giving_back.is_due(held, self.now_ns) {
            count(&self.counters.memory_given_back);
            give_back();
        }
    }

    /// When to look at memory again without an event.
    pub(super) fn memory_ns(&self) -> Option<u64> {
        let instants = [self.line.next_ns, self.giving_back.next_ns()];
        instants.into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_goes_back_once_after_it_has_been_little_for_long() {
        let mut giving = GivingBack::default();
        let much = 4 * GIVE_BACK_BYTES;
        assert!(!giving.is_due(GIVE_BACK_BYTES - 1, 0));
        assert!(!giving.is_due(0, 10 * CALM_NS), "too little was held");
        assert!(!giving.is_due(much, 20 * CALM_NS));
        assert!(!giving.is_due(much / 4, 20 * CALM_NS));
        // In between it is used again: the time begins anew.
        assert!(!giving.is_due(much / 2, 21 * CALM_NS));
        assert!(!giving.is_due(0, 22 * CALM_NS));
        assert_eq!(giving.next_ns(), Some(23 * CALM_NS));
        assert!(!giving.is_due(0, 23 * CALM_NS - 1));
        assert!(giving.is_due(0, 23 * CALM_NS));
        assert!(!giving.is_due(0, 99 * CALM_NS));
        assert_eq!(giving.next_ns(), None);
    }
}

//! What of a file's writes is not on the server's stable storage yet.
//!
//! A piece of data is in exactly one of four places: *gathered* (it waits for its neighbours),
//! *unsent* (it has to be sent, or sent again), *in flight* (a WRITE is under way), or
//! *uncommitted* (the server has it, under a write verifier). Pieces never overlap:
//! [`Dirty::supersede`] takes out what newer data replace, and newer data are not sent while an
//! overlapping WRITE is in flight. Pieces are numbered in the order of their writes, so that
//! whoever waits for what was written before does not wait for what is written after.

use wire::nfs3::{stable_how, writeverf3};

use super::gathering::{Gathering, Run};
use super::pieces::{Overlay, Piece};
use super::place::{Holds, Place};
use super::settling::Waiter;
use crate::engine::SharedBytes;
use crate::error::CallError;

#[derive(Clone, Debug)]
struct Uncommitted {
    piece: Piece,
    verifier: writeverf3,
    /// The COMMIT under way was sent after this piece's WRITE was answered.
    covered: bool,
}

impl Holds for Uncommitted {
    fn piece(&self) -> &Piece {
        &self.piece
    }
}

/// Where the attributes are that WRITEs with DATA_SYNC have changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Attributes {
    /// On stable storage.
    #[default]
    Stable,
    /// Maybe in the server's memory alone.
    Behind,
    /// Likewise, and the COMMIT under way was sent after those WRITEs were answered.
    Covered,
}

/// Syncs in a row, each of one write, after which the next write is expected to be synced, too.
const SYNCS_OF_A_LOG: u32 = 4;

/// How a program syncs what it writes.
#[derive(Debug, Default)]
pub(super) struct Habit {
    writes: u32,
    in_a_row: u32,
    data_alone: bool,
}

impl Habit {
    /// Notes a write; returns how its sync will ask for it, if one is expected at once.
    pub fn wrote(&mut self) -> Option<stable_how> {
        self.writes = self.writes.saturating_add(1);
        if self.writes > 1 {
            self.in_a_row = 0;
        }
        (self.in_a_row >= SYNCS_OF_A_LOG).then(|| stable(self.data_alone))
    }

    /// Notes a sync; returns how a single WRITE is to be sent for it.
    pub fn synced(&mut self, data_alone: bool) -> stable_how {
        if std::mem::take(&mut self.writes) == 1 {
            self.in_a_row = self.in_a_row.saturating_add(1);
        }
        self.data_alone = data_alone;
        stable(data_alone)
    }
}

/// What a sync asks of a WRITE (RFC 1813 3.3.7).
fn stable(data_alone: bool) -> stable_how {
    if data_alone {
        stable_how::DATA_SYNC
    } else {
        stable_how::FILE_SYNC
    }
}

/// The four places, the error that sticks, and who waits.
#[derive(Debug, Default)]
pub(super) struct Dirty {
    gathered: Gathering,
    next_number: u64,
    pub waiters: Vec<Waiter>,
    pub attributes: Attributes,
    pub habit: Habit,
    /// A COMMIT is under way; there is one at a time.
    pub committing: bool,
    /// A COMMIT was asked for because much is kept.
    pub committing_soon: bool,
    /// COMMITs in a row that found another verifier.
    pub commit_rounds: usize,
    /// A thread waits as long as NFS3ERR_JUKEBOX asks for.
    pub waits_out_jukebox: bool,
    in_flight: Place<Piece>,
    uncommitted: Place<Uncommitted>,
    unsent: Place<Piece>,
    error: Option<CallError>,
    /// The server said "later" (NFS3ERR_JUKEBOX) to something unsent.
    later: bool,
}

impl Dirty {
    pub fn in_flight_bytes(&self) -> u64 {
        self.in_flight.bytes()
    }

    /// Takes bytes to be sent when there are `limit` in a row, or when somebody waits for them.
    pub fn gather(&mut self, offset: u64, bytes: &[u8], limit: usize) {
        let ended = self.gathered.take(offset, bytes, limit);
        self.queue(ended, limit);
    }

    /// What was gathered is to be sent; false if nothing was.
    pub fn end_gathering(&mut self) -> bool {
        let ended = self.gathered.end_all();
        self.queue(ended, usize::MAX)
    }

    /// The same of what nobody wrote to since this was called last.
    pub fn end_old_gathering(&mut self) -> bool {
        let ended = self.gathered.end_old();
        self.queue(ended, usize::MAX)
    }

    /// Runs to be sent, `step` at a time; they replace older bytes. False if there are none.
    fn queue(&mut self, runs: Vec<Run>, step: usize) -> bool {
        let any = !runs.is_empty();
        for run in runs {
            let data = SharedBytes::new(run.data);
            let end = run.offset.saturating_add(data.len() as u64);
            self.supersede(run.offset, end);
            let mut done = 0;
            while done < data.len() {
                let part = data.slice(done, step.max(1));
                let piece = self.piece(run.offset.saturating_add(done as u64), part);
                done += piece.data.len();
                self.keep_unsent(piece);
            }
        }
        any
    }

    /// A new piece, numbered.
    pub fn piece(&mut self, offset: u64, data: SharedBytes) -> Piece {
        let number = self.next_number;
        self.next_number += 1;
        Piece {
            offset,
            data,
            number,
        }
    }

    /// The number of the next piece: all before it were written before now.
    pub fn next_number(&self) -> u64 {
        self.next_number
    }

    /// Whether a piece numbered below `before` was not answered yet.
    pub fn any_unanswered(&self, before: u64) -> bool {
        self.in_flight.any_before(before) || self.unsent.any_before(before)
    }

    /// Whether a piece numbered below `before` is not committed.
    pub fn any_uncommitted(&self, before: u64) -> bool {
        self.uncommitted.any_before(before)
    }

    /// Nothing is kept, and nothing is under way.
    pub fn is_clean(&self) -> bool {
        self.kept_bytes() == 0 && self.in_flight.is_empty() && self.gathered.is_empty()
    }

    /// Whether the only thing to be done is one WRITE of what is gathered.
    pub fn only_gathered(&self) -> bool {
        self.gathered.is_one() && self.kept_bytes() == 0 && self.in_flight.is_empty()
    }

    /// Takes a piece that may be sent now, and marks it as in flight.
    pub fn next_to_send(&mut self, limit_bytes: u64) -> Option<Piece> {
        if self.error.is_some() || self.later {
            return None;
        }
        let crowded = |piece: &Piece| {
            self.any_in_flight() && self.in_flight_bytes() + piece.data.len() as u64 > limit_bytes
        };
        // Asked of the first before one is looked for: most pieces may wait for WRITEs in flight.
        if self.unsent.values().next().is_some_and(crowded) {
            return None;
        }
        let may = |piece: &&Piece| !self.is_in_flight(piece.offset, piece.end());
        let free = self.unsent.values().find(may)?;
        if crowded(free) {
            return None;
        }
        let offset = free.offset;
        let piece = self.unsent.remove(offset)?;
        self.begin(piece.clone());
        Some(piece)
    }

    /// Bytes uncommitted or unsent.
    pub fn kept_bytes(&self) -> u64 {
        self.uncommitted.bytes() + self.unsent.bytes()
    }

    /// Bytes that wait for their neighbours.
    pub fn gathered_bytes(&self) -> u64 {
        self.gathered.bytes()
    }

    pub fn is_in_flight(&self, from: u64, to: u64) -> bool {
        self.in_flight.overlapping(from, to).next().is_some()
    }

    /// All that was written to a range and is not surely on the server; `None` if nothing is.
    pub fn overlay(&mut self, from: u64, to: u64) -> Option<Overlay> {
        let reached = self.gathered.end_within(from, to);
        self.queue(reached, usize::MAX);
        let ends = [
            self.gathered.end(),
            self.in_flight.end(),
            self.uncommitted.end(),
            self.unsent.end(),
        ];
        let end = ends.into_iter().flatten().max()?;
        let mut pieces: Vec<Piece> = found(&self.uncommitted, from, to);
        // What waits for an overlapping WRITE to be answered is newer than it.
        pieces.extend(found(&self.in_flight, from, to));
        pieces.extend(found(&self.unsent, from, to));
        Some(Overlay { pieces, end })
    }

    pub fn any_in_flight(&self) -> bool {
        !self.in_flight.is_empty()
    }

    /// Newer data replace this range in all that is kept.
    pub fn supersede(&mut self, from: u64, to: u64) {
        let keys: Vec<u64> = self.uncommitted.overlapping(from, to).collect();
        for key in keys {
            let Some(old) = self.uncommitted.remove(key) else {
                continue;
            };
            for piece in old.piece.without(from, to).into_iter().flatten() {
                self.uncommitted.insert(Uncommitted { piece, ..old });
            }
        }
        let keys: Vec<u64> = self.unsent.overlapping(from, to).collect();
        for key in keys {
            let Some(old) = self.unsent.remove(key) else {
                continue;
            };
            for piece in old.without(from, to).into_iter().flatten() {
                self.keep_unsent(piece);
            }
        }
    }

    /// A WRITE of the piece is on its way.
    pub fn begin(&mut self, piece: Piece) {
        self.in_flight.insert(piece);
    }

    /// The WRITE of the piece at `offset` has ended.
    pub fn end(&mut self, offset: u64) {
        self.in_flight.remove(offset);
    }

    /// The server has the piece, not yet on stable storage.
    pub fn keep_uncommitted(&mut self, piece: Piece, verifier: writeverf3) {
        self.uncommitted.insert(Uncommitted {
            piece,
            verifier,
            covered: false,
        });
    }

    /// As [`Dirty::keep_uncommitted`], but for what newer data, not sent yet, have replaced.
    pub fn keep_taken(&mut self, piece: Piece, verifier: writeverf3) {
        for piece in self.not_replaced(piece) {
            self.keep_uncommitted(piece, verifier);
        }
    }

    /// What of a piece newer data, which wait for its answer, do not replace.
    fn not_replaced(&self, piece: Piece) -> Vec<Piece> {
        let keys = self.unsent.overlapping(piece.offset, piece.end());
        let newer: Vec<(u64, u64)> = keys
            .filter_map(|key| self.unsent.get(key).map(|new| (new.offset, new.end())))
            .collect();
        let mut left = vec![piece];
        for (from, to) in newer {
            let cut = left.iter().flat_map(|piece| piece.without(from, to));
            left = cut.flatten().collect();
        }
        left
    }

    /// The piece has to be sent again.
    pub fn keep_unsent(&mut self, piece: Piece) {
        self.unsent.insert(piece);
    }

    /// The server answered NFS3ERR_JUKEBOX to the piece.
    pub fn keep_for_later(&mut self, piece: Piece) {
        self.later = true;
        for piece in self.not_replaced(piece) {
            self.keep_unsent(piece);
        }
    }

    /// The server answered NFS3ERR_JUKEBOX.
    pub fn be_later(&mut self) {
        self.later = true;
    }

    /// Whether the server answered NFS3ERR_JUKEBOX, and nobody has waited yet.
    pub fn is_later(&self) -> bool {
        self.later
    }

    /// Somebody has waited.
    pub fn now(&mut self) {
        self.later = false;
    }

    /// Takes a piece that has to be sent again.
    #[cfg(test)]
    pub fn take_unsent(&mut self) -> Option<Piece> {
        let offset = self.unsent.values().next()?.offset;
        self.unsent.remove(offset)
    }

    #[cfg(test)]
    pub fn any_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// A COMMIT is about to be sent: it covers all that is uncommitted now. False if nothing is.
    pub fn cover(&mut self) -> bool {
        self.uncommitted
            .values_mut()
            .for_each(|kept| kept.covered = true);
        if self.attributes == Attributes::Behind {
            self.attributes = Attributes::Covered;
        }
        !self.uncommitted.is_empty() || self.attributes != Attributes::Stable
    }

    /// The COMMIT succeeded under `verifier`: pieces taken under the same are safe, the others have
    /// to be sent again. Returns how many of the latter.
    pub fn committed(&mut self, verifier: writeverf3) -> usize {
        let mut lost = 0;
        for kept in self.take_covered() {
            if kept.verifier != verifier {
                self.keep_unsent(kept.piece);
                lost += 1;
            }
        }
        lost
    }

    /// The COMMIT failed for good: what it covered is given up, with an error for the program.
    pub fn give_up_covered(&mut self) {
        self.take_covered();
    }

    fn take_covered(&mut self) -> Vec<Uncommitted> {
        let mut covered = Vec::new();
        for kept in std::mem::take(&mut self.uncommitted) {
            if kept.covered {
                covered.push(kept);
            } else {
                self.uncommitted.insert(kept);
            }
        }
        covered
    }

    /// An error sticks until it is reported; the first one counts.
    pub fn fail(&mut self, error: CallError) {
        self.error.get_or_insert(error);
    }

    pub fn error(&self) -> Option<CallError> {
        self.error
    }

    pub fn take_error(&mut self) -> Option<CallError> {
        self.error.take()
    }
}

/// The pieces of a place that reach into a range.
fn found<T: Holds>(place: &Place<T>, from: u64, to: u64) -> Vec<Piece> {
    let keys = place.overlapping(from, to);
    keys.filter_map(|key| place.get(key).map(|held| held.piece().clone()))
        .collect()
}

#[cfg(test)]
#[path = "dirty_tests.rs"]
mod tests;

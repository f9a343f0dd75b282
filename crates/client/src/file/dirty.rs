//! What of a file's writes is not on the server's stable storage yet.
//!
//! A piece of data is in exactly one of three places: *in flight* (a WRITE is under way),
//! *uncommitted* (the server has it, under a write verifier), or *unsent* (it has to be sent
//! again). Pieces never overlap: [`Dirty::supersede`] takes out what newer data replace, and newer
//! data are not sent while an overlapping WRITE is in flight.

use std::collections::BTreeMap;

use wire::nfs3::writeverf3;

use crate::engine::SharedBytes;
use crate::error::CallError;

/// Some bytes and their place in the file.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    pub offset: u64,
    pub data: SharedBytes,
}

impl Piece {
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(self.data.len() as u64)
    }

    /// What of this piece lies before and behind a range.
    fn without(&self, from: u64, to: u64) -> [Option<Piece>; 2] {
        let cut = |start: u64, end: u64| {
            let length = usize::try_from(end.checked_sub(start)?).ok()?;
            let skip = usize::try_from(start.checked_sub(self.offset)?).ok()?;
            (length > 0).then(|| Piece {
                offset: start,
                data: self.data.slice(skip, length),
            })
        };
        let before = cut(self.offset, self.end().min(from));
        let behind = cut(self.offset.max(to), self.end());
        [before, behind]
    }
}

#[derive(Clone, Debug)]
struct Uncommitted {
    piece: Piece,
    verifier: writeverf3,
    /// The COMMIT under way was sent after this piece's WRITE was answered.
    covered: bool,
}

/// The three places, and the error that sticks.
#[derive(Debug, Default)]
pub(super) struct Dirty {
    in_flight: BTreeMap<u64, Piece>,
    uncommitted: BTreeMap<u64, Uncommitted>,
    unsent: BTreeMap<u64, Piece>,
    in_flight_bytes: u64,
    kept_bytes: u64,
    error: Option<CallError>,
    /// The server said "later" (NFS3ERR_JUKEBOX) to something unsent.
    later: bool,
}

/// Written bytes to be laid over what a server answers to a READ.
#[derive(Debug)]
pub(super) struct Overlay {
    pieces: Vec<Piece>,
    /// The file is at least so long.
    end: u64,
}

impl Overlay {
    /// Lays them over `bytes`, which the server has at `offset`, up to `wanted` bytes in all; false
    /// if the file goes on behind them.
    pub fn apply(&self, offset: u64, wanted: usize, bytes: &mut Vec<u8>) -> bool {
        let known = usize::try_from(self.end.saturating_sub(offset)).unwrap_or(usize::MAX);
        let length = known.min(wanted);
        if bytes.len() < length {
            bytes.resize(length, 0); // a hole, as far as the server knows
        }
        for piece in &self.pieces {
            let skip = usize::try_from(offset.saturating_sub(piece.offset)).unwrap_or(usize::MAX);
            let place = usize::try_from(piece.offset.saturating_sub(offset)).unwrap_or(usize::MAX);
            let source = piece.data.as_slice().get(skip..).unwrap_or_default();
            let room = bytes.get_mut(place..).unwrap_or_default();
            room.iter_mut()
                .zip(source)
                .for_each(|(to, from)| *to = *from);
        }
        self.end <= offset.saturating_add(bytes.len() as u64)
    }
}

fn overlapping<'m, T>(
    map: &'m BTreeMap<u64, T>,
    from: u64,
    to: u64,
    end: impl Fn(&T) -> u64 + 'm,
) -> impl Iterator<Item = u64> + 'm {
    // Pieces do not overlap, so of those that begin before the range only the last can reach in.
    let before = map.range(..from).next_back();
    let within = map.range(from..to.max(from));
    let reaching = before.filter(move |(_, value)| end(value) > from);
    reaching.into_iter().chain(within).map(|(key, _)| *key)
}

impl Dirty {
    pub fn in_flight_bytes(&self) -> u64 {
        self.in_flight_bytes
    }

    /// Bytes uncommitted or unsent.
    pub fn kept_bytes(&self) -> u64 {
        self.kept_bytes
    }

    pub fn is_in_flight(&self, from: u64, to: u64) -> bool {
        overlapping(&self.in_flight, from, to, Piece::end)
            .next()
            .is_some()
    }

    /// All that was written to a range and is not surely on the server; `None` if nothing is.
    pub fn overlay(&self, from: u64, to: u64) -> Option<Overlay> {
        let ends = [
            self.in_flight.values().next_back().map(Piece::end),
            self.uncommitted.values().next_back().map(|k| k.piece.end()),
            self.unsent.values().next_back().map(Piece::end),
        ];
        let end = ends.into_iter().flatten().max()?;
        let find = |map: &BTreeMap<u64, Piece>| -> Vec<Piece> {
            let keys = overlapping(map, from, to, Piece::end);
            keys.filter_map(|key| map.get(&key).cloned()).collect()
        };
        let kept = overlapping(&self.uncommitted, from, to, |kept| kept.piece.end());
        let mut pieces: Vec<Piece> = kept
            .filter_map(|key| self.uncommitted.get(&key).map(|kept| kept.piece.clone()))
            .collect();
        pieces.extend(find(&self.unsent));
        pieces.extend(find(&self.in_flight));
        Some(Overlay { pieces, end })
    }

    pub fn any_in_flight(&self) -> bool {
        !self.in_flight.is_empty()
    }

    /// Newer data replace this range in all that is kept.
    pub fn supersede(&mut self, from: u64, to: u64) {
        let keys: Vec<u64> =
            overlapping(&self.uncommitted, from, to, |kept| kept.piece.end()).collect();
        for key in keys {
            let Some(old) = self.uncommitted.remove(&key) else {
                continue;
            };
            self.kept_bytes -= old.piece.data.len() as u64;
            for piece in old.piece.without(from, to).into_iter().flatten() {
                self.kept_bytes += piece.data.len() as u64;
                let kept = Uncommitted { piece, ..old };
                self.uncommitted.insert(kept.piece.offset, kept);
            }
        }
        let keys: Vec<u64> = overlapping(&self.unsent, from, to, Piece::end).collect();
        for key in keys {
            let Some(old) = self.unsent.remove(&key) else {
                continue;
            };
            self.kept_bytes -= old.data.len() as u64;
            for piece in old.without(from, to).into_iter().flatten() {
                self.keep_unsent(piece);
            }
        }
    }

    /// A WRITE of the piece is on its way.
    pub fn begin(&mut self, piece: Piece) {
        self.in_flight_bytes += piece.data.len() as u64;
        self.in_flight.insert(piece.offset, piece);
    }

    /// The WRITE of the piece at `offset` has ended.
    pub fn end(&mut self, offset: u64) {
        if let Some(piece) = self.in_flight.remove(&offset) {
            self.in_flight_bytes -= piece.data.len() as u64;
        }
    }

    /// The server has the piece, not yet on stable storage.
    pub fn keep_uncommitted(&mut self, piece: Piece, verifier: writeverf3) {
        self.kept_bytes += piece.data.len() as u64;
        let kept = Uncommitted {
            piece,
            verifier,
            covered: false,
        };
        self.uncommitted.insert(kept.piece.offset, kept);
    }

    /// The piece has to be sent again.
    pub fn keep_unsent(&mut self, piece: Piece) {
        self.kept_bytes += piece.data.len() as u64;
        self.unsent.insert(piece.offset, piece);
    }

    /// The server asked for patience with the piece.
    pub fn keep_for_later(&mut self, piece: Piece) {
        self.later = true;
        self.keep_unsent(piece);
    }

    /// Whether the server asked for patience since the last time this was asked.
    pub fn take_later(&mut self) -> bool {
        std::mem::take(&mut self.later)
    }

    /// Takes a piece that has to be sent again.
    pub fn take_unsent(&mut self) -> Option<Piece> {
        let (_, piece) = self.unsent.pop_first()?;
        self.kept_bytes -= piece.data.len() as u64;
        Some(piece)
    }

    pub fn any_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// A COMMIT is about to be sent: it covers all that is uncommitted now. False if nothing is.
    pub fn cover(&mut self) -> bool {
        self.uncommitted
            .values_mut()
            .for_each(|kept| kept.covered = true);
        !self.uncommitted.is_empty()
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
        let all = std::mem::take(&mut self.uncommitted);
        let (covered, rest): (BTreeMap<_, _>, _) =
            all.into_iter().partition(|(_, kept)| kept.covered);
        self.uncommitted = rest;
        let covered: Vec<_> = covered.into_values().collect();
        let bytes: u64 = covered.iter().map(|k| k.piece.data.len() as u64).sum();
        self.kept_bytes -= bytes;
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn piece(offset: u64, length: usize, value: u8) -> Piece {
        let data = SharedBytes::new(vec![value; length]);
        Piece { offset, data }
    }

    proptest! {
        /// Against an array of bytes, the plainest model there is.
        #[test]
        fn what_is_kept_is_the_newest_of_each_byte(
            writes in proptest::collection::vec((0_u64..60, 1_usize..30, any::<bool>()), 1..40),
            committed_after in 0_usize..40,
        ) {
            let mut dirty = Dirty::default();
            let mut model = [None; 100];
            for (number, (offset, length, lost)) in writes.iter().enumerate() {
                let value = u8::try_from(number).unwrap();
                let new = piece(*offset, *length, value);
                dirty.supersede(new.offset, new.end());
                if *lost {
                    dirty.keep_unsent(new);
                } else {
                    dirty.keep_uncommitted(new, [1; 8]);
                }
                let start = usize::try_from(*offset).unwrap();
                model[start..start + length].fill(Some(value));
                if number == committed_after {
                    dirty.cover();
                    // Another verifier: all of it has to be sent again, nothing changes.
                    dirty.committed([2; 8]);
                }
            }
            let kept = model.iter().filter(|byte| byte.is_some()).count() as u64;
            prop_assert_eq!(dirty.kept_bytes(), kept);
            dirty.cover();
            dirty.committed([2; 8]);
            let mut found = [None; 100];
            while let Some(piece) = dirty.take_unsent() {
                for (index, byte) in piece.data.as_slice().iter().enumerate() {
                    let place = &mut found[usize::try_from(piece.offset).unwrap() + index];
                    prop_assert_eq!(*place, None, "pieces overlap");
                    *place = Some(*byte);
                }
            }
            prop_assert_eq!(found, model);
            prop_assert_eq!(dirty.kept_bytes(), 0);
        }
    }

    #[test]
    fn what_was_written_is_laid_over_what_the_server_has() {
        let mut dirty = Dirty::default();
        assert!(dirty.overlay(0, 100).is_none());
        dirty.keep_uncommitted(piece(4, 4, 1), [1; 8]);
        dirty.begin(piece(10, 2, 2));
        let lay = |offset, wanted, mut bytes: Vec<u8>| {
            let overlay = dirty.overlay(offset, offset + wanted as u64).unwrap();
            let end = overlay.apply(offset, wanted, &mut bytes);
            (bytes, end)
        };
        let all = vec![9, 9, 9, 9, 1, 1, 1, 1, 0, 0, 2, 2];
        assert_eq!(lay(0, 50, vec![9; 6]), (all.clone(), true));
        assert_eq!(lay(6, 3, vec![]), (vec![1, 1, 0], false));
        assert_eq!(lay(11, 5, vec![]), (vec![2], true));
        assert_eq!(lay(12, 5, vec![]), (vec![], true));
        assert_eq!(lay(2, 3, vec![7; 3]), (vec![7, 7, 1], false));
    }

    #[test]
    fn a_commit_covers_only_what_was_there_when_it_was_sent() {
        let mut dirty = Dirty::default();
        dirty.keep_uncommitted(piece(0, 10, 1), [1; 8]);
        assert!(dirty.cover());
        dirty.keep_uncommitted(piece(20, 10, 2), [1; 8]);
        assert_eq!(dirty.committed([1; 8]), 0);
        assert_eq!(
            dirty.kept_bytes(),
            10,
            "the later one waits for the next COMMIT"
        );
        assert!(dirty.cover());
        assert_eq!(dirty.committed([9; 8]), 1);
        assert!(dirty.any_unsent() && !dirty.cover());
    }

    #[test]
    fn touching_is_not_overlapping() {
        let mut dirty = Dirty::default();
        dirty.begin(piece(10, 10, 1));
        for (from, to, overlaps) in [
            (0, 10, false),
            (20, 30, false),
            (0, 11, true),
            (19, 20, true),
        ] {
            assert_eq!(dirty.is_in_flight(from, to), overlaps, "{from}..{to}");
        }
        dirty.end(10);
        assert_eq!((dirty.in_flight_bytes(), dirty.any_in_flight()), (0, false));
    }
}

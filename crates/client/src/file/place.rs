//! A place where pieces are kept, found by their offset and told apart by the order of writes.
//!
//! Whoever waits for what was written before a moment asks with every answer whether a piece of
//! before is left ([`Place::any_before`]). A file may be in tens of thousands of pieces (64 MiB
//! in WRITEs of 1 KiB), so that nothing here walks over all of them to answer that.

use std::collections::BTreeMap;

use super::pieces::{Piece, overlapping};

/// What holds a piece.
pub(super) trait Holds {
    /// The piece.
    fn piece(&self) -> &Piece;
}

impl Holds for Piece {
    fn piece(&self) -> &Piece {
        self
    }
}

/// Pieces that do not overlap.
#[derive(Debug)]
pub(super) struct Place<T> {
    by_offset: BTreeMap<u64, T>,
    /// Number of a write: how many pieces are of it (those that were cut keep their number).
    numbers: BTreeMap<u64, usize>,
    bytes: u64,
}

impl<T> Default for Place<T> {
    fn default() -> Self {
        Place {
            by_offset: BTreeMap::new(),
            numbers: BTreeMap::new(),
            bytes: 0,
        }
    }
}

impl<T: Holds> Place<T> {
    /// Keeps a piece; one at the same offset goes.
    pub fn insert(&mut self, held: T) {
        let piece = held.piece();
        let (offset, number, bytes) = (piece.offset, piece.number, piece.data.len() as u64);
        self.remove(offset);
        *self.numbers.entry(number).or_default() += 1;
        self.bytes += bytes;
        self.by_offset.insert(offset, held);
    }

    /// Takes the piece at this offset.
    pub fn remove(&mut self, offset: u64) -> Option<T> {
        let held = self.by_offset.remove(&offset)?;
        let piece = held.piece();
        self.bytes -= piece.data.len() as u64;
        if let Some(count) = self.numbers.get_mut(&piece.number) {
            *count -= 1;
            if *count == 0 {
                self.numbers.remove(&piece.number);
            }
        }
        Some(held)
    }

    /// The piece at this offset.
    pub fn get(&self, offset: u64) -> Option<&T> {
        self.by_offset.get(&offset)
    }

    /// All, by offset.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.by_offset.values()
    }

    /// All, by offset, to be marked; their pieces must stay as they are.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.by_offset.values_mut()
    }

    /// Offsets of the pieces that reach into a range.
    pub fn overlapping(&self, from: u64, to: u64) -> impl Iterator<Item = u64> + '_ {
        overlapping(&self.by_offset, from, to, |held| held.piece().end())
    }

    /// Whether a piece is numbered below `number`.
    pub fn any_before(&self, number: u64) -> bool {
        let first = self.numbers.first_key_value();
        first.is_some_and(|(first, _)| *first < number)
    }

    /// Where the last piece ends.
    pub fn end(&self) -> Option<u64> {
        let (_, held) = self.by_offset.last_key_value()?;
        Some(held.piece().end())
    }

    /// Bytes of all pieces.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.by_offset.is_empty()
    }
}

impl<T> IntoIterator for Place<T> {
    type Item = T;
    type IntoIter = std::collections::btree_map::IntoValues<u64, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.by_offset.into_values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::SharedBytes;

    fn piece(offset: u64, number: u64) -> Piece {
        let data = SharedBytes::new(vec![0_u8; 10]);
        Piece {
            offset,
            data,
            number,
        }
    }

    #[test]
    fn parts_of_one_write_count_until_the_last_has_gone() {
        let mut place = Place::default();
        place.insert(piece(0, 3));
        place.insert(piece(20, 3));
        place.insert(piece(10, 5));
        assert!(place.any_before(4) && !place.any_before(3));
        place.remove(0);
        assert!(place.any_before(4));
        place.remove(20);
        assert!(!place.any_before(5) && place.any_before(6));
        assert_eq!((place.bytes(), place.end()), (10, Some(20)));
    }

    #[test]
    fn a_piece_at_the_same_offset_takes_its_place() {
        let mut place = Place::default();
        place.insert(piece(0, 1));
        place.insert(piece(0, 2));
        assert!(!place.any_before(2));
        assert_eq!(place.bytes(), 10);
        assert_eq!(place.into_iter().count(), 1);
    }
}

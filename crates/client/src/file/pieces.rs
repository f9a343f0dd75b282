//! Pieces of a file's data, and what they say to a reader.

use std::collections::BTreeMap;

use crate::engine::SharedBytes;

/// Some bytes and their place in the file.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    pub offset: u64,
    pub data: SharedBytes,
    /// Position in the order of writes; what is cut off a piece keeps it.
    pub number: u64,
}

impl Piece {
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(self.data.len() as u64)
    }

    /// What of this piece lies before and behind a range.
    pub fn without(&self, from: u64, to: u64) -> [Option<Piece>; 2] {
        let cut = |start: u64, end: u64| {
            let length = usize::try_from(end.checked_sub(start)?).ok()?;
            let skip = usize::try_from(start.checked_sub(self.offset)?).ok()?;
            (length > 0).then(|| Piece {
                offset: start,
                data: self.data.slice(skip, length),
                number: self.number,
            })
        };
        let before = cut(self.offset, self.end().min(from));
        let behind = cut(self.offset.max(to), self.end());
        [before, behind]
    }
}

/// Written bytes to be laid over what a server answers to a READ.
#[derive(Debug)]
pub(super) struct Overlay {
    pub pieces: Vec<Piece>,
    /// The file is at least so long.
    pub end: u64,
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

/// Keys of the pieces that reach into a range.
pub(super) fn overlapping<'m, T>(
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

//! Handles met lately, found without hashing all of their bytes: the next call of a capture is
//! mostly about one of the last thousand files.

use std::num::NonZeroU32;

/// Handles remembered: what a busy server's clients work on at a time, in 16 KiB.
const PLACES: usize = 4096;

/// For each place the number of the last file whose handle led there, and one more.
#[derive(Debug)]
pub(super) struct Recent(Box<[Option<NonZeroU32>; PLACES]>);

impl Default for Recent {
    fn default() -> Self {
        Recent(Box::new([None; PLACES]))
    }
}

impl Recent {
    /// The place of a handle: by its last eight bytes, in which handles differ most.
    #[inline(always)]
    pub(super) fn place(&mut self, handle: &[u8]) -> &mut Option<NonZeroU32> {
        let end = handle
            .last_chunk()
            .map_or(0, |end| u64::from_le_bytes(*end));
        let mixed = end.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &mut self.0[(mixed >> (u64::BITS - PLACES.ilog2())) as usize % PLACES]
    }
}

#[cfg(test)]
mod tests {
    use crate::block::Host;
    use crate::names::Names;

    /// Handles of one place, on one server and several, each keep their number.
    #[test]
    fn handles_that_end_alike_are_told_apart() {
        let mut names = Names::default();
        let (one, other) = (Host::from_v4([10, 0, 0, 1]), Host::from_v4([10, 0, 0, 2]));
        let handles = [
            &b"front A, then the end"[..],
            b"front B, then the end",
            b"the end",
        ];
        let mut first = vec![];
        for _ in 0..3 {
            let ids =
                [one, other].map(|server| handles.map(|handle| names.file_id(server, handle)));
            let ids: Vec<_> = ids.into_iter().flatten().map(|id| id.unwrap().0).collect();
            assert!(first.is_empty() || ids == first);
            first = ids;
        }
        assert_eq!(first, [0, 1, 2, 3, 4, 5]);
        assert_eq!(names.file_id(one, b""), None);
    }
}

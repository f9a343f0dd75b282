//! What stands in the files: a function of seed, file and offset.
//!
//! A file's bytes are a slice of one pool of random bytes that begins at a place of the file's own.
//! So a range is checked by comparing slices, and no compressor finds anything: a byte comes again
//! after [`POOL_BYTES`], which is longer than any file. Slices of two files may overlap: each page
//! of 4 KiB begins with a stamp of 16 bytes made of seed, file and page, so that no two pages are
//! equal and a storage that deduplicates finds nothing either.

use measure::Random;

use super::MAX_FILE_BYTES;

/// Length of the pool: the largest prime below 1 MiB.
pub const POOL_BYTES: usize = 1_048_573;
/// Distance of stamps: the unit in which storages deduplicate.
const PAGE_BYTES: usize = 4096;
const STAMP_BYTES: usize = 16;

/// The content of one seed.
pub struct Content {
    /// The pool, and as much of its front again as the largest file is long.
    pool: Vec<u8>,
    keys: [u64; 2],
}

impl std::fmt::Debug for Content {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Content({} bytes)", self.pool.len())
    }
}

const fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    word ^ (word >> 29)
}

impl Content {
    /// The content that belongs to `seed`: the same on every machine (2 MB, some ms).
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut random = Random::new(seed, &[0x7765_6200]);
        let keys = [random.next_u64(), random.next_u64()];
        let mut pool = vec![0; POOL_BYTES + MAX_FILE_BYTES as usize];
        let (round, behind) = pool.split_at_mut(POOL_BYTES);
        random.fill(round);
        for (to, from) in behind.iter_mut().zip(round) {
            *to = *from;
        }
        Content { pool, keys }
    }

    fn start(&self, file: u64) -> usize {
        let hash = mix(mix(file ^ self.keys[0]));
        ((u128::from(hash) * POOL_BYTES as u128) >> 64) as usize
    }

    fn stamp(&self, file: u64, page: u64) -> [u8; STAMP_BYTES] {
        let place = mix((file << 16 | page) ^ self.keys[0]);
        let second = mix(place ^ self.keys[1]);
        let mut stamp = [0; STAMP_BYTES];
        stamp[..8].copy_from_slice(&place.to_le_bytes());
        stamp[8..].copy_from_slice(&second.to_le_bytes());
        stamp
    }

    /// Hands the expected bytes of a range to `each`, piece by piece, until it returns false.
    fn pieces(
        &self,
        file: u64,
        offset: u64,
        length: usize,
        mut each: impl FnMut(usize, &[u8]) -> bool,
    ) {
        let start = self.start(file);
        let end = (offset as usize).saturating_add(length);
        let end = end.min(MAX_FILE_BYTES as usize);
        let mut at = offset as usize;
        while at < end {
            let in_page = at % PAGE_BYTES;
            let page = at - in_page;
            let done = at - offset as usize;
            let goes_on = if in_page < STAMP_BYTES {
                let stamp = self.stamp(file, (page / PAGE_BYTES) as u64);
                let until = STAMP_BYTES.min(end - page);
                at = page + until;
                each(done, stamp.get(in_page..until).unwrap_or_default())
            } else {
                let until = (page + PAGE_BYTES).min(end);
                let piece = self.pool.get(start + at..start + until);
                at = until;
                each(done, piece.unwrap_or_default())
            };
            if !goes_on {
                return;
            }
        }
    }

    /// Writes what stands at `offset` of a file to `out`; nothing beyond the largest file's end.
    pub fn fill(&self, file: u64, offset: u64, out: &mut [u8]) {
        let length = out.len();
        self.pieces(file, offset, length, |at, piece| {
            if let Some(to) = out.get_mut(at..at + piece.len()) {
                to.copy_from_slice(piece);
            }
            true
        });
    }

    /// Place in `data` of the first byte that does not stand at `offset` of the file.
    #[must_use]
    pub fn mismatch(&self, file: u64, offset: u64, data: &[u8]) -> Option<usize> {
        let (mut wrong, mut right) = (None, 0);
        self.pieces(file, offset, data.len(), |at, piece| {
            let seen = data.get(at..at + piece.len()).unwrap_or_default();
            if seen != piece {
                let first = seen.iter().zip(piece).position(|(a, b)| a != b);
                wrong = Some(at + first.unwrap_or(0));
            }
            right = at + piece.len();
            wrong.is_none()
        });
        wrong.or((right < data.len()).then_some(right))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pool_is_a_prime_and_longer_than_any_file() {
        let prime = (2..1024).all(|divisor| !POOL_BYTES.is_multiple_of(divisor));
        assert!(prime && 1024 * 1024 > POOL_BYTES && POOL_BYTES > MAX_FILE_BYTES as usize);
    }

    #[test]
    fn any_range_is_a_part_of_the_whole_and_one_flipped_byte_is_found() {
        let content = Content::new(5);
        let mut random = fastrand::Rng::with_seed(2);
        for _ in 0..200 {
            let (file, size) = (random.u64(..), random.usize(1..=MAX_FILE_BYTES as usize));
            let mut whole = vec![0; size];
            content.fill(file, 0, &mut whole);
            let from = random.usize(..size);
            let part = &mut whole[from..random.usize(from..size) + 1];
            assert_eq!(content.mismatch(file, from as u64, part), None);
            let at = random.usize(..part.len());
            part[at] ^= 1 << random.u8(..8);
            assert_eq!(content.mismatch(file, from as u64, part), Some(at));
        }
    }

    #[test]
    fn another_file_place_or_seed_is_found() {
        let content = Content::new(5);
        let mut data = vec![0; 8192];
        content.fill(7, 4096, &mut data);
        assert_eq!(Content::new(5).mismatch(7, 4096, &data), None);
        for other in [
            content.mismatch(8, 4096, &data),
            content.mismatch(7, 0, &data),
            Content::new(6).mismatch(7, 4096, &data),
        ] {
            assert!(other.is_some_and(|at| at < 8));
        }
        let longer = vec![0; MAX_FILE_BYTES as usize + 1];
        assert!(content.mismatch(7, 0, &longer).is_some());
    }

    #[test]
    fn pages_differ_and_nothing_repeats_within_a_file() {
        let content = Content::new(1);
        let mut pages = std::collections::HashSet::new();
        // 400 files of 100 pages: 40,000 starts in a pool of 1,048,573: hundreds meet in a page.
        for file in 0..400 {
            let mut bytes = vec![0; 100 * PAGE_BYTES];
            content.fill(file, 0, &mut bytes);
            assert!(
                bytes
                    .chunks(PAGE_BYTES)
                    .all(|page| pages.insert(page.to_vec()))
            );
            if file < 3 {
                let words: std::collections::HashSet<&[u8]> = bytes.chunks(8).collect();
                assert_eq!(words.len(), bytes.len() / 8);
            }
        }
    }
}

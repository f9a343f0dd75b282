//! What stands in the files: a function of file and offset only.
//!
//! One pool of random bytes, the same on every machine; a file begins at a place in it that is a
//! hash of its number and goes round. So overwriting is idempotent, any write in any order leaves
//! the same bytes, a WRITE's payload is a slice of the pool (nothing is copied or made in the timed
//! loop), and a READ is checked by comparing slices.
//!
//! Limits: the pool's length is a prime, so pages of 4 KiB repeat only after [`POOL_BYTES`] pages
//! (17 GB) of one file; two pages of different files are the same with probability
//! 1 / [`POOL_BYTES`]: a storage that deduplicates finds a little.

use std::sync::Arc;

use client::SharedBytes;
use measure::Random;

use crate::plan::MAX_TRANSFER_BYTES;

/// Length of the pool: the largest prime below 4 MiB.
pub const POOL_BYTES: usize = 4_194_301;

/// The pool; clones share it.
#[derive(Clone)]
pub struct Content {
    pool: Arc<Vec<u8>>,
    shared: SharedBytes,
}

impl std::fmt::Debug for Content {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Content({} bytes)", self.pool.len())
    }
}

impl Default for Content {
    /// Makes the pool (some 5 ms).
    fn default() -> Self {
        let mut pool = vec![0; POOL_BYTES + MAX_TRANSFER_BYTES as usize];
        let (round, behind) = pool.split_at_mut(POOL_BYTES);
        Random::new(0x6e66_736c, &[]).fill(round);
        for (to, from) in behind.iter_mut().zip(round) {
            *to = *from;
        }
        let pool = Arc::new(pool);
        let owner: Arc<dyn AsRef<[u8]> + Send + Sync> = pool.clone();
        let shared = SharedBytes::from_owner(owner);
        Content { pool, shared }
    }
}

impl Content {
    fn start(file: u64, offset: u64) -> usize {
        let begin = u128::from(file.wrapping_mul(0x9e37_79b9_7f4a_7c15)) * POOL_BYTES as u128;
        let at = (begin >> 64) as u64 + offset % POOL_BYTES as u64;
        (at % POOL_BYTES as u64) as usize
    }

    /// The bytes at a place, at most [`MAX_TRANSFER_BYTES`] of them.
    #[inline]
    pub fn bytes(&self, file: u64, offset: u64, count: u32) -> &[u8] {
        let start = Self::start(file, offset);
        let end = start + count.min(MAX_TRANSFER_BYTES) as usize;
        self.pool.get(start..end).unwrap_or_default()
    }

    /// The same, to be sent without a copy.
    #[inline]
    pub fn payload(&self, file: u64, offset: u64, count: u32) -> SharedBytes {
        let count = count.min(MAX_TRANSFER_BYTES) as usize;
        self.shared.slice(Self::start(file, offset), count)
    }

    /// Place of the first wrong byte.
    pub fn mismatch(&self, file: u64, offset: u64, data: &[u8]) -> Option<usize> {
        let expected = self.bytes(file, offset, u32::try_from(data.len()).unwrap_or(u32::MAX));
        if expected == data {
            return None;
        }
        let wrong = expected.iter().zip(data).position(|(a, b)| a != b);
        Some(wrong.unwrap_or(expected.len().min(data.len())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_part_is_a_part_of_the_whole() {
        let content = Content::default();
        let mut random = fastrand::Rng::with_seed(2);
        for _ in 0..300 {
            let file = random.u64(..);
            let offset = random.u64(0..1 << 40);
            let count = random.u32(2..=MAX_TRANSFER_BYTES);
            let whole = content.bytes(file, offset, count).to_vec();
            assert_eq!(whole.len(), count as usize);
            let cut = random.u32(1..count);
            assert_eq!(content.bytes(file, offset, cut), &whole[..cut as usize]);
            let rest = content.bytes(file, offset + u64::from(cut), count - cut);
            assert_eq!(rest, &whole[cut as usize..]);
            assert_eq!(content.payload(file, offset, count).as_slice(), whole);
        }
    }

    #[test]
    fn a_wrong_byte_a_wrong_place_and_a_wrong_file_are_found() {
        let content = Content::default();
        let mut data = content.bytes(7, 8192, 4096).to_vec();
        assert_eq!(content.mismatch(7, 8192, &data), None);
        assert_eq!(
            content.mismatch(8, 8192, &data).map(|at| at < 8),
            Some(true)
        );
        assert_eq!(content.mismatch(7, 0, &data).map(|at| at < 8), Some(true));
        data[4000] ^= 1;
        assert_eq!(content.mismatch(7, 8192, &data), Some(4000));
        assert_eq!(
            content.mismatch(7, 0, &[0; 100]).map(|at| at < 8),
            Some(true),
            "zeros"
        );
    }

    #[test]
    fn the_length_is_a_prime() {
        let prime = (2..2048).all(|divisor| !POOL_BYTES.is_multiple_of(divisor));
        assert!(prime && 2048 * 2048 > POOL_BYTES);
    }
}

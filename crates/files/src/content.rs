//! What stands in the files: bytes that neither compress nor deduplicate, and that can be checked.
//!
//! All content comes from one pool of random bytes made before timing. A block is a slice of the
//! pool, blocks in sequence are slices in sequence, so no byte repeats within the pool's length
//! ([`POOL_BYTES`], above the windows of lz4 and of zstd at file-system record sizes). Each
//! [`PAGE_BYTES`] of a block start with a stamp of 16 bytes made of seed, file, offset and
//! generation, so that no two pages are equal and none can be shared by deduplication; writing
//! again raises the generation, so that a block read back tells which write it came from.
//!
//! In the timed part only the stamps are written: some 2 ns for each 4 KiB, inside the measured
//! time. Each thread stamps and writes its own copy of the pool; nothing is copied in user space.

use crate::buffer::AlignedBuffer;
use crate::syscalls::Called;
use measure::Random;

/// Least length of the pool. Half a MiB stays in the L2 cache of servers; fio keeps one hot block.
pub const POOL_BYTES: usize = 512 << 10;
/// Distance of stamps: the unit in which storages deduplicate, and the page size.
pub const PAGE_BYTES: usize = 4096;
const STAMP_BYTES: usize = 16;

/// Which content a block has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// Number of the block over all files.
    pub block: u64,
    /// Number of its file.
    pub file: u64,
    /// Its offset in the file.
    pub offset: u64,
    /// How often it was written, 1 to 255, then from 1 again.
    pub generation: u8,
}

/// Why a block is not what was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mismatch {
    /// The stamp is of another place or write.
    Stamp {
        /// Offset of the stamp in the block.
        at: usize,
        /// File number found in the stamp (of any value, if the stamp is damaged).
        file: u64,
        /// Offset found in it.
        offset: u64,
        /// Generation found in it.
        generation: u8,
    },
    /// The stamp is right, bytes behind it are not.
    Bytes {
        /// Offset of the first wrong byte in the block.
        at: usize,
    },
}

/// The pool, and the way from it to blocks.
#[derive(Debug)]
pub struct Content {
    pool: AlignedBuffer,
    block_bytes: usize,
    slots: u64,
    offset_key: u64,
    write_key: u64,
}

impl Content {
    /// The content that belongs to `seed`: the same on every machine.
    pub fn new(seed: u64, block_bytes: usize) -> Called<Self> {
        let slots = (POOL_BYTES / block_bytes.max(1)).max(1);
        let mut pool = AlignedBuffer::new(slots * block_bytes)?;
        let mut random = Random::new(seed, &[0]);
        random.fill(pool.as_mut());
        let (offset_key, write_key) = (random.next_u64(), random.next_u64());
        Ok(Self {
            pool,
            block_bytes,
            slots: slots as u64,
            offset_key,
            write_key,
        })
    }

    /// A copy for one thread to stamp.
    pub fn copy(&self) -> Called<Self> {
        let mut pool = AlignedBuffer::new(self.pool.as_ref().len())?;
        pool.as_mut().copy_from_slice(self.pool.as_ref());
        Ok(Self { pool, ..*self })
    }

    fn slot(&self, block: u64) -> std::ops::Range<usize> {
        #[allow(clippy::cast_possible_truncation)] // below slots, which came from a usize
        let start = (block % self.slots) as usize * self.block_bytes;
        start..start + self.block_bytes
    }

    /// Makes the second word of each stamp another one too; undone by itself.
    const fn veil(&self, place: u64) -> u64 {
        place.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32) ^ self.write_key
    }

    fn stamp(&self, identity: &Identity, at: usize) -> [u8; STAMP_BYTES] {
        let place = (identity.offset + at as u64) ^ self.offset_key;
        let write = (identity.file << 8 | u64::from(identity.generation)) ^ self.veil(place);
        let mut stamp = [0; STAMP_BYTES];
        stamp[..8].copy_from_slice(&place.to_le_bytes());
        stamp[8..].copy_from_slice(&write.to_le_bytes());
        stamp
    }

    /// The bytes of a block, stamped in place: ready to be written.
    #[inline]
    pub fn block(&mut self, identity: &Identity) -> &[u8] {
        let slot = self.slot(identity.block);
        for at in (0..self.block_bytes).step_by(PAGE_BYTES) {
            let stamp = self.stamp(identity, at);
            self.pool.as_mut()[slot.start + at..][..STAMP_BYTES].copy_from_slice(&stamp);
        }
        &self.pool.as_ref()[slot]
    }

    /// Makes a block that was read into the next generation of itself.
    #[inline]
    pub fn restamp(&self, identity: &Identity, bytes: &mut [u8]) {
        for at in (0..self.block_bytes).step_by(PAGE_BYTES) {
            bytes[at..at + STAMP_BYTES].copy_from_slice(&self.stamp(identity, at));
        }
    }

    /// Compares all bytes of a block that was read.
    pub fn check(&self, identity: &Identity, bytes: &[u8]) -> Result<(), Mismatch> {
        let expected = &self.pool.as_ref()[self.slot(identity.block)];
        for at in (0..self.block_bytes).step_by(PAGE_BYTES) {
            let end = (at + PAGE_BYTES).min(self.block_bytes);
            let (stamp, body) = bytes[at..end].split_at(STAMP_BYTES);
            if stamp != self.stamp(identity, at) {
                return Err(self.read_stamp(stamp, at));
            }
            let right = &expected[at + STAMP_BYTES..end];
            if body != right {
                let wrong = body
                    .iter()
                    .zip(right)
                    .position(|(a, b)| a != b)
                    .unwrap_or(0);
                return Err(Mismatch::Bytes {
                    at: at + STAMP_BYTES + wrong,
                });
            }
        }
        Ok(())
    }

    fn read_stamp(&self, stamp: &[u8], at: usize) -> Mismatch {
        let word = |from: usize| {
            stamp[from..from + 8]
                .iter()
                .rev()
                .fold(0_u64, |word, &byte| word << 8 | u64::from(byte))
        };
        let write = word(8) ^ self.veil(word(0));
        let [generation, ..] = write.to_le_bytes();
        let offset = (word(0) ^ self.offset_key).wrapping_sub(at as u64);
        Mismatch::Stamp {
            at,
            file: write >> 8,
            offset,
            generation,
        }
    }
}

/// The generation after `generation`: 1 to 255, never 0, which means "not written".
#[inline]
#[must_use]
pub const fn next_generation(generation: u8) -> u8 {
    if generation == u8::MAX {
        1
    } else {
        generation + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn identity(block: u64, generation: u8) -> Identity {
        Identity {
            block,
            file: 3,
            offset: block * 8192,
            generation,
        }
    }

    #[test]
    fn a_block_is_what_its_place_seed_and_write_say() {
        let content = Content::new(7, 8192).unwrap();
        let written = content.copy().unwrap().block(&identity(5, 1)).to_vec();
        // Another thread's copy, and another run of the same seed, write the same bytes.
        assert_eq!(
            Content::new(7, 8192).unwrap().block(&identity(5, 1)),
            written
        );
        assert_eq!(content.check(&identity(5, 1), &written), Ok(()));
        // Any other place, write, or seed is told apart.
        let stamp = |file, offset, generation| {
            Err(Mismatch::Stamp {
                at: 0,
                file,
                offset,
                generation,
            })
        };
        assert_eq!(
            content.check(&identity(6, 1), &written),
            stamp(3, 5 * 8192, 1)
        );
        assert_eq!(
            content.check(&identity(5, 2), &written),
            stamp(3, 5 * 8192, 1)
        );
        assert!(
            Content::new(8, 8192)
                .unwrap()
                .check(&identity(5, 1), &written)
                .is_err()
        );
    }

    #[test]
    fn every_damaged_byte_is_found() {
        let mut content = Content::new(1, 4608).unwrap(); // a page and a sector: two stamps
        let identity = identity(2, 9);
        let written = content.block(&identity).to_vec();
        for at in 0..written.len() {
            let mut damaged = written.clone();
            damaged[at] ^= 0x10;
            match content.check(&identity, &damaged) {
                Err(Mismatch::Bytes { at: found }) => assert_eq!(found, at),
                Err(Mismatch::Stamp { at: found, .. }) => {
                    assert!((found..found + 16).contains(&at))
                }
                Ok(()) => panic!("byte {at}"),
            }
        }
    }

    #[test]
    fn restamping_makes_the_next_write() {
        for block_bytes in [512, 4096, 4608, 8192, 65_536] {
            let mut content = Content::new(1, block_bytes).unwrap();
            let mut bytes = content.block(&identity(4, 1)).to_vec();
            content.restamp(&identity(4, 2), &mut bytes);
            assert_eq!(content.block(&identity(4, 2)), bytes);
        }
    }

    #[test]
    fn neither_pages_nor_runs_repeat() {
        // All pages of 8 MiB differ, and a compressor with a 256 KiB window finds nothing: no
        // eight bytes come again within that distance (of 1,024 blocks, every block's pages).
        let mut content = Content::new(1, 8192).unwrap();
        let bytes: Vec<u8> = (0..1024)
            .flat_map(|block| content.block(&identity(block, 1)).to_vec())
            .collect();
        let mut pages: Vec<&[u8]> = bytes.chunks(PAGE_BYTES).collect();
        pages.sort_unstable();
        assert!(pages.windows(2).all(|pair| pair[0] != pair[1]));
        let mut last = std::collections::HashMap::new();
        for (at, word) in bytes.chunks(8).enumerate() {
            if let Some(before) = last.insert(word, at) {
                assert!((at - before) * 8 > 256 << 10, "{before} {at}");
            }
        }
    }

    #[test]
    fn generations_never_come_back_to_unwritten() {
        let mut generation = 0;
        for _ in 0..600 {
            generation = next_generation(generation);
            assert_ne!(generation, 0);
        }
        assert_eq!(next_generation(255), 1);
    }
}

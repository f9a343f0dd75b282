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
use crate::random::Random;
use crate::syscalls::Called;

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

    fn stamp(&self, identity: &Identity, at: usize) -> [u8; STAMP_BYTES] {
        let place = (identity.offset + at as u64) ^ self.offset_key;
        let write = (identity.file << 8 | u64::from(identity.generation)) ^ self.write_key;
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
        let write = word(8) ^ self.write_key;
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

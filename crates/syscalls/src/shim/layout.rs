//! The file between the programs and their reader: the numbers of `shim/layout.h`, and the mapping.
//!
//! Whatever is in it may have been written by anybody who may write in its folder: it is read by
//! whole words, and nothing in it is believed beyond its bounds.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// "NFSLABSH".
pub const MAGIC: u64 = 0x4853_424c_5346_554e;
/// Of the layout.
pub const VERSION: u32 = 1;
/// In front of the table of files.
pub const HEADER_BYTES: usize = 4096;
/// One slot.
pub const SLOT_BYTES: usize = 64;
/// One entry of the table of files.
pub const FILE_BYTES: usize = 32;
/// A slot that is never used again.
pub const DEAD: u64 = u64::MAX;
/// Words of a slot's record.
pub const WORDS: usize = 7;

/// Numbers in the header, by their offset.
#[derive(Clone, Copy, Debug)]
pub enum Figure {
    /// Programs that loaded the shim.
    Loads = 32,
    /// Children that it was forked into.
    Forks = 40,
    /// Calls that found the ring full.
    LostSyncs = 48,
    /// Calls that found the ring full.
    LostEvents = 56,
    /// Calls that found the ring full.
    LostCalls = 64,
    /// Names that could not be told or sent.
    LostNames = 72,
    /// Files that the table had no room for, asked for so often.
    LostFiles = 80,
}

const CLOSED: usize = 28;
const HEAD: usize = 128;

/// The mapping.
#[derive(Debug)]
pub struct Shared {
    at: NonNull<u8>,
    bytes: usize,
    slots_log2: u32,
    files_log2: u32,
}

// SAFETY: all access is by atomic words within the mapping, which lives as long as this does.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    /// Bytes of such a file.
    pub fn bytes(slots_log2: u32, files_log2: u32) -> usize {
        HEADER_BYTES + (FILE_BYTES << files_log2) + (SLOT_BYTES << slots_log2)
    }

    /// Maps a file of the right length, empty so far, and makes it ready.
    pub fn make(
        file: &File,
        slots_log2: u32,
        files_log2: u32,
        level: u32,
        lseek: bool,
    ) -> io::Result<Self> {
        let bytes = Self::bytes(slots_log2, files_log2);
        // SAFETY: a new mapping of an open file, at a place that the kernel chooses.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let at = NonNull::new(at.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let shared = Shared {
            at,
            bytes,
            slots_log2,
            files_log2,
        };
        for slot in 0..1_u64 << slots_log2 {
            shared.turn(slot).store(slot, Ordering::Relaxed);
        }
        let words = [VERSION, level, lseek.into(), slots_log2, files_log2];
        for (place, value) in words.into_iter().enumerate() {
            shared.half(8 + place * 4).store(value, Ordering::Relaxed);
        }
        shared.word(0).store(MAGIC, Ordering::Release);
        Ok(shared)
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        let offset = if offset + 8 <= self.bytes {
            offset & !7
        } else {
            0
        };
        // SAFETY: aligned and within the mapping.
        unsafe { self.at.add(offset).cast::<AtomicU64>().as_ref() }
    }

    fn half(&self, offset: usize) -> &AtomicU32 {
        let offset = if offset + 4 <= self.bytes {
            offset & !3
        } else {
            0
        };
        // SAFETY: aligned and within the mapping.
        unsafe { self.at.add(offset).cast::<AtomicU32>().as_ref() }
    }

    fn slot(&self, position: u64) -> usize {
        let slot = position & ((1 << self.slots_log2) - 1);
        HEADER_BYTES + (FILE_BYTES << self.files_log2) + SLOT_BYTES * slot as usize
    }

    /// Slots.
    pub fn slots(&self) -> u64 {
        1 << self.slots_log2
    }

    /// Whose turn the slot of this position is.
    pub fn turn(&self, position: u64) -> &AtomicU64 {
        self.word(self.slot(position))
    }

    /// The record in the slot of this position.
    pub fn record(&self, position: u64) -> [u64; WORDS] {
        let at = self.slot(position) + 8;
        std::array::from_fn(|word| self.word(at + word * 8).load(Ordering::Relaxed))
    }

    /// The position that is claimed next.
    pub fn head(&self) -> u64 {
        self.word(HEAD).load(Ordering::Acquire)
    }

    /// Claims a slot as a program does, and writes nothing.
    #[cfg(test)]
    pub fn claim(&self) -> u64 {
        self.word(HEAD).fetch_add(1, Ordering::Relaxed)
    }

    /// Writes a record into a slot that was claimed; false if it was given up meanwhile.
    #[cfg(test)]
    pub fn write(&self, position: u64, record: [u64; WORDS]) -> bool {
        let at = self.slot(position) + 8;
        for (word, value) in record.into_iter().enumerate() {
            self.word(at + word * 8).store(value, Ordering::Relaxed);
        }
        let done = Ordering::Release;
        let turn = self.turn(position);
        turn.compare_exchange(position, position + 1, done, Ordering::Relaxed)
            .is_ok()
    }

    /// A number of the header.
    pub fn figure(&self, figure: Figure) -> u64 {
        self.word(figure as usize).load(Ordering::Relaxed)
    }

    /// Tells the programs that nobody reads any more.
    pub fn close(&self) {
        self.half(CLOSED).store(1, Ordering::Relaxed);
    }

    /// Device (major, minor), inode and generation of a file; None if there is no such entry.
    pub fn file(&self, number: u32) -> Option<((u32, u32), u64, u64)> {
        if u64::from(number) >= 1_u64 << self.files_log2 {
            return None;
        }
        let at = HEADER_BYTES + FILE_BYTES * number as usize;
        // Claimed, but not filled in.
        if self.half(at).load(Ordering::Acquire) < 2 {
            return None;
        }
        let half = |offset: usize| self.half(at + offset).load(Ordering::Relaxed);
        let word = |offset: usize| self.word(at + offset).load(Ordering::Relaxed);
        Some(((half(4), half(8)), word(16), word(24)))
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `make`; nothing refers to it any more.
        unsafe {
            libc::munmap(self.at.as_ptr().cast(), self.bytes);
        }
    }
}

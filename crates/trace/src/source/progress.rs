//! What other threads may see of a reader, and how they stop it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

/// Shared between the reading thread and whoever watches it.
#[derive(Debug, Default)]
pub(super) struct Shared {
    stop: AtomicBool,
    read_bytes: AtomicU64,
    frames: AtomicU64,
    /// Sizes of the regular files; `u64::MAX` if an input has none.
    total_bytes: AtomicU64,
    /// Frames in front of each input that was begun.
    begun: Mutex<Vec<u64>>,
}

impl Shared {
    pub(super) fn add_read(&self, bytes: u64) {
        self.read_bytes.fetch_add(bytes, Relaxed);
    }

    pub(super) fn set_frames(&self, frames: u64) {
        self.frames.store(frames, Relaxed);
    }

    pub(super) fn begin_input(&self, frames: u64) {
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        begun.push(frames);
    }

    pub(super) fn set_total(&self, bytes: Option<u64>) {
        self.total_bytes.store(bytes.unwrap_or(u64::MAX), Relaxed);
    }

    pub(super) fn stopped(&self) -> bool {
        self.stop.load(Relaxed)
    }
}

/// How far a reader is; also stops it. Cheap to clone, for any thread.
#[derive(Clone, Debug)]
pub struct Watcher(pub(super) Arc<Shared>);

impl Watcher {
    /// Bytes read of the inputs, as stored (compressed).
    pub fn read_bytes(&self) -> u64 {
        self.0.read_bytes.load(Relaxed)
    }

    /// Size of all inputs as stored, if all are regular files.
    pub fn total_bytes(&self) -> Option<u64> {
        match self.0.total_bytes.load(Relaxed) {
            u64::MAX => None,
            bytes => Some(bytes),
        }
    }

    /// Frames found so far.
    pub fn frames(&self) -> u64 {
        self.0.frames.load(Relaxed)
    }

    /// Frames in front of each input that was begun, in the order in which they are read.
    pub fn begun(&self) -> Vec<u64> {
        let begun = self.0.begun.lock();
        begun.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Asks the reader to end: it gives `Interrupted` with its next block, or within 100 ms if it
    /// waits for a stream.
    pub fn stop(&self) {
        self.0.stop.store(true, Relaxed);
    }
}

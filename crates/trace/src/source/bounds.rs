//! Sizes of blocks, frames and windows.

use crate::limits::{
    BLOCK_BYTES, MAX_FRAGMENT_BYTES, MAX_FRAME_BYTES, MAX_ZSTD_WINDOW_BYTES, WINDOW_BYTES,
};

/// Room of a block beyond the longest packet: headers, options, what a full block leaves.
const MARGIN_BYTES: usize = 16 << 10;

/// Sizes that a reader keeps to; smaller ones are for tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes of a block; raised to what the longest frame needs.
    pub block_bytes: usize,
    /// Longest captured frame that is believed.
    pub frame_bytes: u32,
    /// Bytes of IP fragments that may wait for others.
    pub fragment_bytes: usize,
    /// Bytes of a plain file that are mapped at once, raised to what a block needs; 0: files are
    /// read.
    pub window_bytes: usize,
    /// Largest window of a zstd frame, bytes: a frame that states a larger one cannot be read.
    pub zstd_window_bytes: usize,
}

impl Bounds {
    /// What the longest frame needs.
    pub(super) fn least_bytes(&self) -> usize {
        self.frame_bytes as usize + MARGIN_BYTES
    }
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds {
            block_bytes: BLOCK_BYTES,
            frame_bytes: MAX_FRAME_BYTES,
            fragment_bytes: MAX_FRAGMENT_BYTES,
            window_bytes: WINDOW_BYTES,
            zstd_window_bytes: MAX_ZSTD_WINDOW_BYTES,
        }
    }
}

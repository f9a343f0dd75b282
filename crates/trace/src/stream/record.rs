//! What is kept of a record that spans segments: its head, its inside if that is wanted, its tail.
//!
//! Buffers come from a common stock and grow only with bytes that came; all records under way
//! together are bounded by [`crate::limits::MAX_PARTIAL_BYTES_TOTAL`]. Where there is no room the
//! head ends.

use super::TAIL_BYTES;
use super::shared::Shared;

/// What becomes of a record's bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Fill {
    /// They are the head.
    #[default]
    Head,
    /// They are kept behind the head.
    Whole,
    /// Only the last ones are kept.
    Ends,
}

/// The kept bytes of one record.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Kept {
    bytes: Vec<u8>,
    /// Where the head ended, if it did.
    head_bytes: usize,
    fill: Fill,
}

impl Kept {
    /// Makes ready for a record.
    pub(super) fn begin(&mut self, shared: &mut Shared) {
        self.bytes = shared.take_buffer();
        self.head_bytes = 0;
        self.fill = Fill::Head;
    }

    #[inline(always)]
    pub(super) fn fill(&self) -> Fill {
        self.fill
    }

    /// The bytes from the front, without a gap.
    pub(super) fn head(&self) -> &[u8] {
        self.parts().0
    }

    /// Head, and the bytes at the end without a gap, [`TAIL_BYTES`] at most.
    pub(super) fn parts(&self) -> (&[u8], &[u8]) {
        if self.fill != Fill::Ends {
            return (&self.bytes, &[]);
        }
        let parts = self.bytes.split_at_checked(self.head_bytes);
        let (head, tail) = parts.unwrap_or((&self.bytes, &[]));
        let from = tail.len().saturating_sub(TAIL_BYTES);
        (head, tail.get(from..).unwrap_or_default())
    }

    /// All that comes is kept behind the head.
    pub(super) fn keep_whole(&mut self) {
        self.fill = Fill::Whole;
    }

    /// Appends to the head; false if there is no room: then it ends here.
    pub(super) fn append(&mut self, bytes: &[u8], shared: &mut Shared) -> bool {
        let room = shared.reserve_partial(bytes.len());
        if room {
            self.bytes.extend_from_slice(bytes);
        } else {
            self.end_head();
        }
        room
    }

    /// What comes from now on may be the tail.
    pub(super) fn end_head(&mut self) {
        if self.fill != Fill::Ends {
            self.head_bytes = self.bytes.len();
            self.fill = Fill::Ends;
        }
    }

    /// Of bytes behind the head, keeps those that may be among the last [`TAIL_BYTES`]: `behind`
    /// more bytes are known to follow. False if there is no room.
    pub(super) fn append_tail(&mut self, now: &[u8], behind: usize, shared: &mut Shared) -> bool {
        let wanted = TAIL_BYTES.saturating_sub(behind).min(now.len());
        let bytes = now.get(now.len() - wanted..).unwrap_or_default();
        let kept = self.bytes.len();
        if kept + bytes.len() > self.head_bytes + 2 * TAIL_BYTES {
            // Only the newest ones stay.
            let from = kept.saturating_sub(TAIL_BYTES).max(self.head_bytes);
            self.bytes.copy_within(from..kept, self.head_bytes);
            self.bytes.truncate(self.head_bytes + kept - from);
            shared.release_partial(from - self.head_bytes);
        }
        let room = shared.reserve_partial(bytes.len());
        if room {
            self.bytes.extend_from_slice(bytes);
        } else {
            self.drop_tail(shared);
        }
        room
    }

    /// A gap: what was kept behind the head is not the tail.
    pub(super) fn drop_tail(&mut self, shared: &mut Shared) {
        let tail = self.bytes.len().saturating_sub(self.head_bytes);
        self.bytes.truncate(self.head_bytes);
        shared.release_partial(tail);
    }

    /// Gives buffer and room back.
    pub(super) fn release(&mut self, shared: &mut Shared) {
        let bytes = std::mem::take(&mut self.bytes);
        shared.release_partial(bytes.len());
        shared.give_buffer(bytes);
        self.head_bytes = 0;
        self.fill = Fill::Head;
    }
}

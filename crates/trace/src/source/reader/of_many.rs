//! Reads some of the files of a capture, whose others somebody else reads.

use std::path::PathBuf;
use std::sync::Arc;

use super::super::Input;
use super::super::bounds::Bounds;
use super::super::progress::Shared;
use super::{Reader, total_bytes};
use crate::error::TraceError;

/// Frames of one capture may be out of order by this much, where one file ends and the next one
/// begins too: more is an overlap.
const OVERLAP_NS: i64 = 100_000_000;
/// Whether what begins at one time lies beside what was seen up to another.
pub(crate) fn overlaps(begun_ns: i64, latest_ns: i64) -> bool {
    begun_ns < latest_ns.saturating_sub(OVERLAP_NS)
}

impl Reader {
    /// Opens some of the files of a capture, which are in their order
    /// ([`crate::source::in_order`]).
    ///
    /// # Errors
    /// As [`Reader::open`].
    pub fn open_of_many(paths: &[PathBuf], bounds: Bounds) -> Result<Self, TraceError> {
        let inputs: Vec<Input> = paths.iter().cloned().map(Input::File).collect();
        let shared = Arc::new(Shared::default());
        shared.set_total(total_bytes(&inputs));
        let mut reader = Self::empty(bounds, shared);
        reader.of_many = true;
        reader.waiting = inputs.into();
        reader.next_input()?;
        Ok(reader)
    }

    /// Earliest time where the present input begins; `None` before its first frame.
    pub fn begun_ns(&self) -> Option<i64> {
        self.begun_ns
    }

    /// Whether fragments of IP came at all, and whether some still wait for others.
    pub fn fragments(&self) -> (bool, bool) {
        self.packets.fragments()
    }
}

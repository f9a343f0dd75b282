//! What happened in a part of a capture, written down by who read it, for lenses elsewhere.
//!
//! ```text
//! file 1 ─> reader ─> journal ─┐
//! file 2 ─> reader ─> journal ─┼─> player ─> lenses
//! file 3 ─> reader ─> journal ─┘   names
//! ```
//!
//! Most lenses follow files and connections through the whole capture. Reading and matching is a
//! large part of the work, and can be done for each file by itself ([`crate::analysis::parts`]).
//! What then passes from [`crate::calls`] to the lenses (events, settled calls, what was learned of
//! names) is written into a journal, and journals are played to the lenses in the order of the
//! files. A lens cannot tell the difference.
//!
//! Journals hold numbers as their reader gave them: of calls, frames, connections, files. A player
//! makes those of the whole capture of them.

pub mod bytes;
mod call;
pub mod file;
mod player;
mod ring;
#[cfg(test)]
mod tests;
mod transport;
mod writer;

pub use player::{PlayError, Player, Shift};
pub use writer::Writer;

use crate::limits::MAX_CONNECTIONS;

/// These are not the bytes of a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is not a journal that this version of nfslab wrote")]
pub struct Damaged;

/// Pairs of client and server, each on a connection, between two checkpoints.
const MAX_PAIRS: usize = 4 * MAX_CONNECTIONS;

/// What stands in a record's first byte.
mod record {
    /// Which of three bits are the kind.
    pub const KIND: u8 = 7;
    pub const TRANSPORT: u8 = 0;
    pub const SENT: u8 = 1;
    pub const REPLIED: u8 = 2;
    pub const SETTLED: u8 = 3;
    /// Operations of the log of names.
    pub const NAMES: u8 = 4;
    /// A list of operations, and its number.
    pub const LIST: u8 = 5;
    /// Who calls whom; bit 3: over UDP.
    pub const PAIR: u8 = 6;
    /// Of a call: it is told of for the first time.
    pub const NEW: u8 = 1 << 3;
    /// It was sent, or answered, before.
    pub const AGAIN: u8 = 1 << 4;
    /// The time follows: it is not that of the last send, or of the first reply.
    pub const OTHER_TIME: u8 = 1 << 5;
    /// The number of its file changed.
    pub const FILE: u8 = 1 << 6;
    /// The number of its list of operations changed.
    pub const OPERATIONS: u8 = 1 << 7;
}

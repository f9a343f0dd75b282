//! What happened in a part of a capture, written down by who read it, for lenses elsewhere.
//!
//! Most lenses follow files and connections through the whole capture. Reading and matching is the
//! larger part of the work, and can be done for each file by itself ([`crate::analysis::parts`]);
//! what then passes from [`crate::calls`] to the lenses (events, settled calls, and what was learned
//! of names) is written into a journal instead, and journals are played to the lenses in the order
//! of the files. A lens cannot tell the difference.

pub mod bytes;

/// These are not the bytes of a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is not a journal that this version of nfslab wrote")]
pub struct Damaged;

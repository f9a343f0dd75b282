//! A capture of several files, each read by somebody else, put together as if read in a row.
//!
//! ```text
//! file 1 ─────────────────┐~~~~~┐            read on into file 2 until both ways of reading agree
//!                    file 2 ────│─────────┐~~~┐
//!                               └ counted from this checkpoint on
//! ```
//!
//! Who reads a file ([`read`]) knows nothing of what came before: connections under way, calls that
//! wait. So it keeps apart what it counted between checkpoints, and goes on with the beginning of
//! the next file, which it reads once more from nothing beside; at the first checkpoint where both
//! are in the same state, whatever follows is the same, and the next file's reader has counted it.
//! What that one counted before the checkpoint is thrown away.
//!
//! States are compared, not believed to be alike ([`Streams::pair`](crate::stream::Streams::pair),
//! [`Calls::state_eq`](crate::calls::Calls::state_eq)). What comparing leaves out can matter later
//! only if something looks back behind the checkpoint (old bytes sent again, a connection that was
//! idle coming back, a call sent again on another connection): each reader tells where that
//! happened, and [`Part::join`] refuses parts where it did. Then the files are read in a row.
//!
//! A [`Part`] knows nothing of processes. It is JSON with a version, checked when it is read; parts
//! are joined in the order of their files, two neighbours at a time, whichever first. Its size
//! depends on operations, latencies told apart and connections, not on calls.
//!
//! In parts are the table by operation, and lenses of which what was counted of some calls adds up
//! with the rest ([`Lens::take_counted`](crate::lens::Lens::take_counted)). All others follow files
//! and connections through the whole capture: one process makes those.
//!
//! Limits: while the next file's beginning is read, two passes are held at once, each within
//! [`crate::limits`].

mod numbering;
mod part;
mod reading;
mod stretch;

pub use part::{JoinError, MAX_PART_BYTES, Part};
pub use reading::{Task, read};
pub(super) use stretch::{Stretch, Sums};

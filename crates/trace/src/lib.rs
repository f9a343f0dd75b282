//! Packet captures to NFS calls, in one pass and in bounded memory.
//!
//! ```text
//! source ──> packet ──> stream ──> calls ──> lens (one per analysis)
//! bytes      Segment    Message    Call  └─> columns (Arrow, one row a call)
//! ```
//!
//! * [`source`] opens captures (pcap, pcapng, gz, zstd, several as one, a pipe), reads them in
//!   blocks and, with [`packet`], finds the TCP segments and UDP datagrams in them. It runs on a
//!   thread of its own and hands [`Block`]s over.
//! * [`stream`] puts byte streams together again and takes RPC messages out of them, recognised by
//!   their bytes; after a hole it goes on at the next record and counts what was lost.
//! * [`calls`] matches replies, retransmissions and duplicates to calls and learns paths.
//! * [`lens`] holds the analyses; each sees events in the order of the capture, and settled calls
//!   in the order of the calls.
//! * [`columns`] makes Arrow batches of the settled calls.
//!
//! Decisions: every table and queue has a bound in [`limits`], and reaching one is counted as an
//! anomaly; nothing is dropped silently; no byte of a capture can make this crate panic; plain
//! files are mapped, and one that is cut short meanwhile is an error, not a signal.

pub mod analysis;
mod anomalies;
pub mod block;
pub mod call;
pub mod calls;
pub mod columns;
mod ends;
pub mod error;
pub mod event;
pub mod lens;
pub mod limits;
pub mod names;
pub mod packet;
mod prefetch;
pub mod source;
pub mod stream;

pub use block::{Block, Segment};
pub use call::{Call, Outcome, Stamp};
pub use error::TraceError;
pub use event::{Event, TransportEvent, TransportKind};
pub use names::Names;

//! The client's record of what it does: the collector `rpc`, the rpcstat of 2001.
//!
//! Two levels. There are always totals ([`Counters`]), figures by operation with a histogram of
//! round trips, and, if asked for, samples at fixed intervals ([`Sample`]) that give window,
//! pending queue and rates over time. [`crate::Engine::record_every_call`] adds an [`RpcRecord`]
//! for each call, which goes through a bounded [`ring`] to whoever keeps them; what did not fit
//! is counted, never waited for: watching must not slow what is watched.
//!
//! All instants are nanoseconds of the engine's clock. A round trip is from the *first* send to the
//! reply, as a user waits for it; the last send is in the record too.

mod counters;
mod file_call;
pub mod ring;
mod sample;
mod tcp_info;

pub use counters::{Counters, OperationCounters, Operations, operation_index, operation_name};
pub use file_call::FileCall;
pub use ring::{RecordReader, RecordRing};
pub use sample::{Sample, Samples};
pub use tcp_info::{TcpInfo, tcp_info};

use crate::engine::Times;

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Answered; for NFS and MOUNT procedures with a status this one (0 is success), else 0.
    Answered(u32),
    /// Answered by the RPC layer with an error.
    Refused,
    /// Its reply was malformed.
    Malformed,
    /// Given up (`soft`).
    TimedOut,
    /// Never sent, or dropped when the client was shut down.
    Dropped,
}

/// One call's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RpcRecord {
    /// The number that its submitter gave it.
    pub token: u64,
    /// Transaction id.
    pub xid: u32,
    /// RPC program.
    pub program: u32,
    /// Program version.
    pub version: u32,
    /// Procedure.
    pub procedure: u32,
    /// Instants.
    pub times: Times,
    /// Times it was sent.
    pub sends: u32,
    /// Replies that came for it while it was outstanding (later ones are counted, not recorded).
    pub replies: u32,
    /// Bytes of one send, record mark included.
    pub bytes_out: u32,
    /// Bytes of the reply, record mark excluded.
    pub bytes_in: u32,
    /// Connection it was last sent on.
    pub connection: u32,
    /// Calls that waited when it was enqueued.
    pub queue_at_enqueue: u32,
    /// Calls outstanding when it was sent first, itself included.
    pub outstanding_at_send: u32,
    /// How it ended.
    pub outcome: Outcome,
    /// Bytes that a READ, WRITE or COMMIT was about; None of other calls.
    pub file: Option<FileCall>,
}

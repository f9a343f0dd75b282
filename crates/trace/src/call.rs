//! One RPC call with all that became of it: what every lens and column is made of.

use wire::summary::Stability;

use crate::block::{Endpoint, Transport};

/// An instant of the capture, and the frame that shows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// Nanoseconds since 1970.
    pub time_ns: i64,
    /// Frame number, from 1.
    pub frame: u64,
}

/// What came of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Outcome {
    /// No reply in the capture.
    #[default]
    Unanswered,
    /// The protocol's status (NFS: `nfsstat`; 0 is success).
    Status(u32),
    /// RPC accepted the call, and the protocol has no status (NULL, GETPORT, ...).
    Accepted,
    /// RPC refused it; a name of RFC 5531 (`wire::rpc::ReplyStatus::name`).
    Refused(&'static str),
    /// A reply came, but its status was cut off or is encrypted.
    Unreadable,
}

/// Number of a file handle in [`crate::Names`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId(pub u32);

/// Number of a list of COMPOUND operations in [`crate::Names`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OperationsId(pub u32);

/// What is odd about a call: bits of [`Call::marks`].
pub mod marks {
    /// The capture cut call or reply; fields may be missing.
    pub const TRUNCATED: u16 = 1;
    /// Call or reply break their protocol.
    pub const MALFORMED: u16 = 1 << 1;
    /// Found again behind a hole in the stream.
    pub const RESYNCHRONISED: u16 = 1 << 2;
    /// RPCSEC_GSS with privacy: the body is opaque.
    pub const PRIVATE: u16 = 1 << 3;
    /// RPCSEC_GSS context control: no arguments.
    pub const CONTROL: u16 = 1 << 4;
    /// From the server to the client.
    pub const CALLBACK: u16 = 1 << 5;
    /// A probe for RPC-over-TLS.
    pub const TLS_PROBE: u16 = 1 << 6;
    /// Its xid was used before by another call of this connection.
    pub const XID_REUSED: u16 = 1 << 7;
    /// A bound was reached before it was settled: later replies are not counted with it.
    pub const EVICTED: u16 = 1 << 8;
    /// It was sent again on another connection.
    pub const RECONNECTED: u16 = 1 << 9;
}

/// One RPC call. All times are those of the capture.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Call {
    /// Place in the order of the calls, from 0.
    pub number: u64,
    /// First byte of the first send.
    pub call_first: Stamp,
    /// Last byte of the first send.
    pub call_last: Stamp,
    /// First byte of the last send (equal to `call_first` if it was sent once).
    pub last_send: Stamp,
    /// First byte of the first reply.
    pub reply_first: Option<Stamp>,
    /// Last byte of the first reply.
    pub reply_last: Option<Stamp>,
    /// Who called (for a callback: the NFS server).
    pub client: Endpoint,
    /// Who was called.
    pub server: Endpoint,
    /// TCP or UDP.
    pub transport: Transport,
    /// Number of the connection (UDP: of the pair of endpoints).
    pub connection: u32,
    /// RPC transaction id.
    pub xid: u32,
    /// RPC program.
    pub program: u32,
    /// Its version.
    pub version: u32,
    /// Its procedure.
    pub procedure: u32,
    /// NFSv4 COMPOUND: the opcode that names it; else the procedure.
    pub operation: u32,
    /// Minor version of a COMPOUND.
    pub minor_version: u32,
    /// Operations of a COMPOUND as called, in order.
    pub operations: Option<OperationsId>,
    /// Operations of the reply that were done, the failing one included; 0 if not known.
    pub operations_done: u16,
    /// What came of it.
    pub outcome: Outcome,
    /// Times it was sent (RPC retransmissions included, TCP's own not).
    pub sends: u16,
    /// Replies that came.
    pub replies: u16,
    /// User id of AUTH_SYS.
    pub user: Option<u32>,
    /// The object that it is about.
    pub file: Option<FileId>,
    /// First byte of READ, WRITE, COMMIT, locks.
    pub offset: Option<u64>,
    /// Bytes asked for or stated.
    pub count: Option<u64>,
    /// Stability that a WRITE asked for.
    pub stable: Option<Stability>,
    /// Stability that its reply stated.
    pub committed: Option<Stability>,
    /// File data in the reply (READ), bytes.
    pub bytes_read: u32,
    /// File data in the call (WRITE), bytes; counted once however often it was sent.
    pub bytes_written: u32,
    /// Length of the call on the wire, without record marks.
    pub call_bytes: u32,
    /// Length of the first reply.
    pub reply_bytes: u32,
    /// READ: the reply said end of file.
    pub end_of_file: bool,
    /// Size of the object by the reply's attributes.
    pub file_size_bytes: Option<u64>,
    /// NFSv4.1: slot of SEQUENCE.
    pub slot: Option<u32>,
    /// What is odd: bits of [`marks`].
    pub marks: u16,
}

/// What the table per operation counts of a settled call: all that is kept of calls where nothing
/// else is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Brief {
    /// First byte of the first send, nanoseconds since 1970.
    pub call_first_ns: i64,
    /// [`Call::latency_ns`].
    pub latency_ns: Option<i64>,
    /// [`Call::program`].
    pub program: u32,
    /// [`Call::version`].
    pub version: u32,
    /// [`Call::procedure`].
    pub procedure: u32,
    /// [`Call::operation`].
    pub operation: u32,
    /// [`Call::minor_version`].
    pub minor_version: u32,
    /// [`Call::operations`].
    pub operations: Option<OperationsId>,
    /// [`Call::operations_done`].
    pub operations_done: u16,
    /// [`Call::outcome`].
    pub outcome: Outcome,
    /// [`Call::sends`].
    pub sends: u16,
    /// [`Call::replies`].
    pub replies: u16,
    /// [`Call::bytes_read`].
    pub bytes_read: u32,
    /// [`Call::bytes_written`].
    pub bytes_written: u32,
}

impl Brief {
    /// Sends after the first.
    #[inline(always)]
    pub fn retransmissions(&self) -> u16 {
        self.sends.saturating_sub(1)
    }

    /// Replies after the first.
    #[inline(always)]
    pub fn duplicate_replies(&self) -> u16 {
        self.replies.saturating_sub(1)
    }
}

impl Call {
    /// First byte of the first send to first byte of the first reply; may be negative in a
    /// disordered capture (it is kept, and counted as an anomaly).
    #[inline(always)]
    pub fn latency_ns(&self) -> Option<i64> {
        Some(self.reply_first?.time_ns - self.call_first.time_ns)
    }

    /// Sends after the first.
    #[inline(always)]
    pub fn retransmissions(&self) -> u16 {
        self.sends.saturating_sub(1)
    }

    /// Replies after the first.
    #[inline(always)]
    pub fn duplicate_replies(&self) -> u16 {
        self.replies.saturating_sub(1)
    }

    /// Whether any of these marks is set.
    #[inline(always)]
    pub fn has(&self, marks: u16) -> bool {
        self.marks & marks != 0
    }
}

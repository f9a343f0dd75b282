//! What happens, in the order of the capture: for lenses that look at time, not at calls.

use crate::block::{Endpoint, Sack};
use crate::call::Call;

/// Something that a lens may see at the moment when it happened.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// A call's last byte passed. `again`: a retransmission (`call.sends` counts it already).
    Sent {
        /// First byte of this send.
        time_ns: i64,
        /// The call as known so far.
        call: &'a Call,
        /// Whether it was sent before.
        again: bool,
    },
    /// A reply's last byte passed. `again`: a duplicate.
    Replied {
        /// First byte of this reply.
        time_ns: i64,
        /// The call as known so far.
        call: &'a Call,
        /// Whether it was answered before.
        again: bool,
    },
    /// Something below RPC.
    Transport(&'a TransportEvent),
}

/// Something below RPC, on one connection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TransportEvent {
    /// When: nanoseconds since 1970.
    pub time_ns: i64,
    /// The connection's number, as in [`Call::connection`].
    pub connection: u32,
    /// Whether the sender is the endpoint that sends the NFS calls (`None`: not known yet).
    pub from_client: Option<bool>,
    /// What.
    pub kind: TransportKind,
}

/// What the capture shows of bytes that are sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// They were not seen before: the first ones were lost in front of the capture point.
    Filled,
    /// They were seen, and the other side acknowledged them: needless.
    Acknowledged,
    /// They were seen, and not acknowledged.
    Unacknowledged,
}

/// Kinds of [`TransportEvent`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TransportKind {
    /// SYN seen from this side.
    Opened {
        /// Who sent it, and to whom: no call need have told who is the client.
        ends: [Endpoint; 2],
    },
    /// FIN or RST.
    Closed {
        /// RST.
        reset: bool,
        /// Who sent it, and to whom.
        ends: [Endpoint; 2],
    },
    /// Payload that cannot be looked into: TLS.
    Hidden {
        /// Who sent it, and to whom.
        ends: [Endpoint; 2],
    },
    /// The snapshot length cut away where a message began: it came, and nothing is known of it.
    FrontCut {
        /// Who sent it, and to whom.
        ends: [Endpoint; 2],
    },
    /// This side acknowledged selectively.
    Selective(Sack),
    /// New bytes were sent.
    Sent {
        /// Payload of the segment, bytes.
        bytes: u32,
        /// Bytes sent and not acknowledged, this segment included.
        in_flight_bytes: u64,
    },
    /// This side acknowledged bytes of the other.
    Acknowledged {
        /// From the capture of the newest acknowledged segment to this acknowledgement; `None` if
        /// that segment was sent more than once (Karn) or was not seen.
        round_trip_ns: Option<i64>,
        /// Window that this side offers now, scaled if the scale is known.
        window_bytes: u64,
        /// Whether the window's scale is known (the SYN was in the capture).
        window_known: bool,
    },
    /// Bytes sent before were sent again.
    Retransmitted {
        /// Payload, bytes.
        bytes: u32,
        /// What the capture shows of the bytes so far.
        of: Again,
    },
    /// A segment came before one with lower numbers.
    OutOfOrder,
    /// The window fell to zero.
    ZeroWindow,
    /// It opened again.
    WindowOpened,
    /// A reply whose call is not in the capture.
    WithoutCall {
        /// Who sent it, and to whom.
        ends: [Endpoint; 2],
    },
    /// Bytes that never came were given up.
    Lost {
        /// How many.
        bytes: u64,
    },
}

//! What is odd below RPC, counted by kind; and the bytes that the capture does not have.
//!
//! `python/nfslab/captures/anomalies.py` explains each kind to users.

use crate::anomalies::anomalies;
use crate::packet::Lost;

anomalies! {
    /// Datagrams that are no RPC.
    UdpNotRpc = "udp_not_rpc",
    /// The same packet captured twice: its copy is passed over.
    DuplicatePacket = "duplicate_packet",
    /// TCP connections that carry no RPC.
    TcpNotRpc = "tcp_not_rpc",
    /// Payload bytes of these connections.
    TcpNotRpcBytes = "tcp_not_rpc_bytes",
    /// Connections that carry RPC inside TLS: their calls cannot be seen.
    RpcOverTls = "rpc_over_tls",
    /// Payload bytes of these connections under TLS.
    RpcOverTlsBytes = "rpc_over_tls_bytes",
    /// Connections that begin with TLS and show no sign of RPC.
    TlsStream = "tls_stream",
    /// Connections that carry RDMA (iWARP).
    Iwarp = "iwarp",
    /// Segments all of whose bytes had been sent before.
    TcpRetransmission = "tcp_retransmission",
    /// Segments that came behind one with higher numbers.
    TcpOutOfOrder = "tcp_out_of_order",
    /// Segments whose bytes had been given up as lost before they came.
    TcpLate = "tcp_late",
    /// Segments from before the first one seen of their direction.
    TcpBeforeFirst = "tcp_before_first",
    /// Sequence numbers went elsewhere without a SYN.
    SequenceJump = "sequence_jump",
    /// A new connection between the endpoints of an older one.
    PortReused = "port_reused",
    /// Connections given up because too many were open.
    ConnectionsEvicted = "connections_evicted",
    /// Holes given up because too much waited behind them.
    HeldBound = "held_bound",
    /// Records of which less was kept than asked for, because too many were under way.
    RecordNotKept = "record_not_kept",
    /// Messages delivered although the capture cut bytes of them away (snapshot length).
    RecordCut = "record_cut",
    /// Records delivered although bytes of them were lost.
    RecordIncomplete = "record_incomplete",
    /// Records of which too little was left to be delivered.
    RecordUnreadable = "record_unreadable",
    /// A record mark lay in what the capture cut away: the next record was searched.
    RecordMarkCut = "record_mark_cut",
    /// Bytes where a record was due are no record.
    RecordMarkBad = "record_mark_bad",
    /// The stream of records was found again by searching.
    Resynchronised = "resynchronised",
    /// A record found by searching was not followed by another: it may have been none.
    ResynchronisedWrongly = "resynchronised_wrongly",
    /// Captured bytes of RPC streams passed over while searching.
    UnsynchronisedBytes = "unsynchronised_bytes",
}

/// What [`super::Streams`] counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// How many of each kind.
    pub anomalies: Anomalies,
    /// Holes of TCP streams. Bytes that a short snapshot length cut away are not among them.
    pub lost: Lost,
}

impl Anomalies {
    /// Several more of a kind.
    pub(super) fn add(&mut self, kind: Anomaly, more: u64) {
        self.0[kind as usize] = self.0[kind as usize].saturating_add(more);
    }
}

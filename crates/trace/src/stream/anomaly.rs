//! What is odd below RPC, counted by kind; and the bytes that the capture does not have.
//!
//! `docs/captures.md` explains each kind to users: a line here is a line there.

use crate::packet::Lost;

/// Kinds of oddities that [`super::Streams`] counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Anomaly {
    /// Datagrams that are no RPC.
    UdpNotRpc,
    /// The same packet captured twice: its copy is passed over.
    DuplicatePacket,
    /// TCP connections that carry no RPC.
    TcpNotRpc,
    /// Payload bytes of these connections.
    TcpNotRpcBytes,
    /// Connections that carry RPC inside TLS: their calls cannot be seen.
    RpcOverTls,
    /// Payload bytes of these connections under TLS.
    RpcOverTlsBytes,
    /// Connections that begin with TLS and show no sign of RPC.
    TlsStream,
    /// Segments all of whose bytes had been sent before.
    TcpRetransmission,
    /// Segments that came behind one with higher numbers.
    TcpOutOfOrder,
    /// Segments whose bytes had been given up as lost before they came.
    TcpLate,
    /// Segments from before the first one seen of their direction.
    TcpBeforeFirst,
    /// Sequence numbers went elsewhere without a SYN.
    SequenceJump,
    /// A new connection between the endpoints of an older one.
    PortReused,
    /// Connections given up because too many were open.
    ConnectionsEvicted,
    /// Holes given up because too much waited behind them.
    HeldBound,
    /// Records of which less was kept than asked for, because too many were under way.
    RecordNotKept,
    /// Messages delivered although the capture cut bytes of them away (snapshot length).
    RecordCut,
    /// Records delivered although bytes of them were lost.
    RecordIncomplete,
    /// Records of which too little was left to be delivered.
    RecordUnreadable,
    /// A record mark lay in what the capture cut away: the next record was searched.
    RecordMarkCut,
    /// Bytes where a record was due are no record.
    RecordMarkBad,
    /// The stream of records was found again by searching.
    Resynchronised,
    /// A record found by searching was not followed by another: it may have been none.
    ResynchronisedWrongly,
    /// Captured bytes of RPC streams passed over while searching.
    UnsynchronisedBytes,
}

/// Number of kinds.
const KINDS: usize = 24;

impl Anomaly {
    /// All kinds, in the order of their declaration.
    pub const ALL: [Anomaly; KINDS] = [
        Anomaly::UdpNotRpc,
        Anomaly::DuplicatePacket,
        Anomaly::TcpNotRpc,
        Anomaly::TcpNotRpcBytes,
        Anomaly::RpcOverTls,
        Anomaly::RpcOverTlsBytes,
        Anomaly::TlsStream,
        Anomaly::TcpRetransmission,
        Anomaly::TcpOutOfOrder,
        Anomaly::TcpLate,
        Anomaly::TcpBeforeFirst,
        Anomaly::SequenceJump,
        Anomaly::PortReused,
        Anomaly::ConnectionsEvicted,
        Anomaly::HeldBound,
        Anomaly::RecordNotKept,
        Anomaly::RecordCut,
        Anomaly::RecordIncomplete,
        Anomaly::RecordUnreadable,
        Anomaly::RecordMarkCut,
        Anomaly::RecordMarkBad,
        Anomaly::Resynchronised,
        Anomaly::ResynchronisedWrongly,
        Anomaly::UnsynchronisedBytes,
    ];

    /// Name in JSON and reports.
    pub fn name(self) -> &'static str {
        match self {
            Anomaly::UdpNotRpc => "udp_not_rpc",
            Anomaly::DuplicatePacket => "duplicate_packet",
            Anomaly::TcpNotRpc => "tcp_not_rpc",
            Anomaly::TcpNotRpcBytes => "tcp_not_rpc_bytes",
            Anomaly::RpcOverTls => "rpc_over_tls",
            Anomaly::RpcOverTlsBytes => "rpc_over_tls_bytes",
            Anomaly::TlsStream => "tls_stream",
            Anomaly::TcpRetransmission => "tcp_retransmission",
            Anomaly::TcpOutOfOrder => "tcp_out_of_order",
            Anomaly::TcpLate => "tcp_late",
            Anomaly::TcpBeforeFirst => "tcp_before_first",
            Anomaly::SequenceJump => "sequence_jump",
            Anomaly::PortReused => "port_reused",
            Anomaly::ConnectionsEvicted => "connections_evicted",
            Anomaly::HeldBound => "held_bound",
            Anomaly::RecordNotKept => "record_not_kept",
            Anomaly::RecordCut => "record_cut",
            Anomaly::RecordIncomplete => "record_incomplete",
            Anomaly::RecordUnreadable => "record_unreadable",
            Anomaly::RecordMarkCut => "record_mark_cut",
            Anomaly::RecordMarkBad => "record_mark_bad",
            Anomaly::Resynchronised => "resynchronised",
            Anomaly::ResynchronisedWrongly => "resynchronised_wrongly",
            Anomaly::UnsynchronisedBytes => "unsynchronised_bytes",
        }
    }
}

/// What [`super::Streams`] counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    counts: [u64; KINDS],
    /// Holes of TCP streams. Bytes that a short snapshot length cut away are not among them.
    pub lost: Lost,
}

impl Counters {
    /// One more of a kind.
    #[inline(always)]
    pub(super) fn count(&mut self, kind: Anomaly) {
        self.add(kind, 1);
    }

    /// Several more of a kind.
    #[inline(always)]
    pub(super) fn add(&mut self, kind: Anomaly, more: u64) {
        if let Some(count) = self.counts.get_mut(kind as usize) {
            *count = count.saturating_add(more);
        }
    }

    /// Holes of a connection.
    pub(super) fn lose(&mut self, lost: Lost) {
        self.lost.bytes = self.lost.bytes.saturating_add(lost.bytes);
        self.lost.gaps = self.lost.gaps.saturating_add(lost.gaps);
    }

    /// How many of a kind.
    pub fn of(&self, kind: Anomaly) -> u64 {
        self.counts.get(kind as usize).copied().unwrap_or(0)
    }

    /// Name and count of each kind that occurred.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        Anomaly::ALL
            .iter()
            .map(|kind| (kind.name(), self.of(*kind)))
            .filter(|(_, count)| *count > 0)
    }
}

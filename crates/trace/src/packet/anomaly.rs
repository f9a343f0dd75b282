//! What is odd about a capture, counted by kind; and bytes that it does not have.

use crate::anomalies::anomalies;

anomalies! {
    /// A packet's or block's header cannot be true; reading went on at the next plausible one.
    DamagedPacketHeader = "damaged_packet_header",
    /// A packet header that is odd (a second's fraction above one, more captured than was on the
    /// wire, nothing captured, a time more than a day off) was believed, since the next one fits.
    OddPacketHeader = "odd_packet_header",
    /// A file or stream ends within a packet (or within its compressed data).
    CutAtEnd = "cut_at_end",
    /// A file was longer at its end than when it was opened: somebody still writes it.
    FileGrew = "file_grew",
    /// A file was given in another place than its first packet's time says; it was moved.
    FilesReordered = "files_reordered",
    /// An input begins before the one in front of it ended: captured side by side, given twice, or
    /// streams in the wrong order. They were read one after another.
    FilesOverlap = "files_overlap",
    /// A second pcap header inside a pcap file: files joined by `cat`.
    JoinedCaptures = "joined_captures",
    /// Compressed data is damaged; the file was read up to there.
    DamagedCompression = "damaged_compression",
    /// Bytes behind the compressed data that are no compressed data.
    TrailingBytes = "trailing_bytes",
    /// A pcapng packet of an interface that was not described.
    UnknownInterface = "unknown_interface",
    /// A pcapng packet of an interface whose link type is not read.
    UnknownLinkType = "unknown_link_type",
    /// A pcapng packet without a time (simple packet block): it got its predecessor's.
    NoTimestamp = "no_timestamp",
    /// A frame's time is before its predecessor's.
    TimeWentBack = "time_went_back",
    /// The frame carries no IP packet: ARP, spanning tree, PPPoE, ...
    NotIp = "not_ip",
    /// An IP header contradicts itself.
    MalformedIp = "malformed_ip",
    /// The capture cut the packet within its IP, TCP or UDP header.
    TruncatedHeaders = "truncated_headers",
    /// An IP or UDP header states more bytes than the frame held; the frame was believed.
    LengthExceedsFrame = "length_exceeds_frame",
    /// IP, but neither TCP nor UDP: ICMP, ESP, SCTP, ...
    NotTcpUdp = "not_tcp_udp",
    /// A tunnel of something else than IP or Ethernet, too deep, or with its header cut.
    Tunnelled = "tunnelled",
    /// A packet of RDMA over Ethernet (`RoCE`), of either version.
    Rdma = "rdma",
    /// A TCP or UDP header contradicts itself.
    MalformedTransport = "malformed_transport",
    /// A datagram some of whose IP fragments never came.
    FragmentsLost = "fragments_lost",
    /// An IP fragment with bytes that were there already; the first ones were kept.
    FragmentOverlaps = "fragment_overlaps",
    /// The capture holds first fragments only (a filter by port does that); they were used alone.
    FragmentsNotCaptured = "fragments_not_captured",
    /// A datagram given up early since too many fragments came behind it (also in
    /// `fragments_lost`).
    FragmentLimit = "fragment_limit",
}

/// Bytes that were sent but are not in the capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// How many, as far as it is known.
    pub bytes: u64,
    /// In how many stretches.
    pub gaps: u64,
}

impl std::ops::AddAssign for Lost {
    fn add_assign(&mut self, more: Lost) {
        self.bytes = self.bytes.saturating_add(more.bytes);
        self.gaps = self.gaps.saturating_add(more.gaps);
    }
}

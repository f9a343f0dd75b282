//! Link layers: where the IP packet begins in a frame.
//!
//! Numbers and layouts are those of the list at tcpdump.org/linktypes.html.

use super::anomaly::Anomaly;

/// Tags of VLANs within VLANs that are followed: real networks have two.
const MAX_VLAN_TAGS: usize = 8;
/// RDMA over Ethernet, version 1: an InfiniBand packet in a frame (InfiniBand Architecture, annex
/// A16).
const ROCE: u16 = 0x8915;
/// MPLS labels that are followed.
const MAX_LABELS: usize = 8;

/// A link layer that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// `LINKTYPE_ETHERNET`: 14 bytes, then perhaps VLAN tags.
    Ethernet,
    /// `LINKTYPE_LINUX_SLL`: what `tcpdump -i any` wrote, 16 bytes.
    LinuxSll,
    /// `LINKTYPE_LINUX_SLL2`: what it writes today, 20 bytes.
    LinuxSll2,
    /// `LINKTYPE_RAW` and its kin: nothing before the IP header.
    Raw,
    /// `LINKTYPE_NULL` and `LINKTYPE_LOOP`: a protocol family of four bytes.
    Loopback,
    /// `LINKTYPE_IPOIB`: 40 bytes of address or routing header, then that of RFC 4391 section 6.
    /// (Linux captures its InfiniBand interfaces cooked.)
    IpOverInfiniBand,
}

impl Link {
    /// The link layer with this number in a capture file.
    pub fn of_type(link_type: u32) -> Option<Self> {
        match link_type {
            1 => Some(Link::Ethernet),
            113 => Some(Link::LinuxSll),
            276 => Some(Link::LinuxSll2),
            12 | 14 | 101 | 228 | 229 => Some(Link::Raw),
            0 | 108 => Some(Link::Loopback),
            242 => Some(Link::IpOverInfiniBand),
            _ => None,
        }
    }

    /// Bytes from the frame's begin to its IP header.
    ///
    /// # Errors
    /// `NotIp` or `TruncatedHeaders`.
    pub fn ip_offset(self, frame: &[u8]) -> Result<usize, Anomaly> {
        match self {
            Link::Ethernet => after_ethertype(frame, 12),
            Link::LinuxSll => after_ethertype(frame, 14),
            Link::LinuxSll2 => {
                let kind = u16_at(frame, 0).ok_or(Anomaly::TruncatedHeaders)?;
                match tagged(kind) {
                    // The tag's remaining two bytes and the next type follow the fixed header.
                    true => after_ethertype(frame, 22),
                    false => ip_type(kind).map(|()| 20),
                }
            }
            Link::Raw => Ok(0),
            Link::Loopback => loopback(frame),
            Link::IpOverInfiniBand => {
                let kind = u16_at(frame, 40).ok_or(Anomaly::TruncatedHeaders)?;
                ip_type(kind).map(|()| 44)
            }
        }
    }
}

/// Whether this EtherType announces a VLAN tag: 802.1Q, 802.1ad and what came before it.
fn tagged(kind: u16) -> bool {
    matches!(kind, 0x8100 | 0x88a8 | 0x9100 | 0x9200)
}

fn ip_type(kind: u16) -> Result<(), Anomaly> {
    match kind {
        0x0800 | 0x86dd => Ok(()),
        ROCE => Err(Anomaly::Rdma),
        _ => Err(Anomaly::NotIp),
    }
}

/// Follows VLAN tags from the EtherType at `at` to the IP header.
fn after_ethertype(frame: &[u8], mut at: usize) -> Result<usize, Anomaly> {
    for _ in 0..=MAX_VLAN_TAGS {
        let kind = u16_at(frame, at).ok_or(Anomaly::TruncatedHeaders)?;
        if matches!(kind, 0x8847 | 0x8848) {
            return after_labels(frame, at + 2);
        }
        if !tagged(kind) {
            return ip_type(kind).map(|()| at + 2);
        }
        at += 4;
    }
    Err(Anomaly::NotIp)
}

/// Follows MPLS labels (RFC 3032), of which the last one is marked. What is behind them tells by
/// its version that it is IP, as routers guess, too.
fn after_labels(frame: &[u8], mut at: usize) -> Result<usize, Anomaly> {
    for _ in 0..MAX_LABELS {
        let flags = frame.get(at + 2).ok_or(Anomaly::TruncatedHeaders)?;
        at += 4;
        if flags & 1 != 0 {
            let first = frame.get(at).ok_or(Anomaly::TruncatedHeaders)?;
            return match first >> 4 {
                4 | 6 => Ok(at),
                _ => Err(Anomaly::NotIp),
            };
        }
    }
    Err(Anomaly::NotIp)
}

/// The family is in the byte order of the capturing machine, and `AF_INET6` differs by system:
/// 10 Linux, 24 NetBSD and OpenBSD, 28 FreeBSD, 30 macOS.
fn loopback(frame: &[u8]) -> Result<usize, Anomaly> {
    let family = frame.first_chunk::<4>().ok_or(Anomaly::TruncatedHeaders)?;
    let family = u32::from_le_bytes(*family);
    match family.min(family.swap_bytes()) {
        2 | 10 | 24 | 28 | 30 => Ok(4),
        _ => Err(Anomaly::NotIp),
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let pair = bytes.get(at..)?.first_chunk::<2>()?;
    Some(u16::from_be_bytes(*pair))
}

/// Name of a link type at tcpdump.org, for messages about those that are not read.
pub fn link_type_name(link_type: u32) -> &'static str {
    match link_type {
        0 => "BSD loopback",
        1 => "Ethernet",
        3 => "AX.25",
        6 => "Token Ring",
        7 => "ARCNET",
        8 => "SLIP",
        9 => "PPP",
        10 => "FDDI",
        50 => "PPP in HDLC framing",
        51 => "PPPoE",
        104 => "Cisco HDLC",
        105 => "IEEE 802.11",
        107 => "Frame Relay",
        108 => "OpenBSD loopback",
        117 => "OpenBSD pflog",
        119 => "802.11 with Prism header",
        122 => "IP over Fibre Channel",
        127 => "802.11 with radiotap header",
        147..=162 => "private use",
        163 => "802.11 with AVS header",
        187 => "Bluetooth HCI H4",
        189 | 220 => "Linux USB",
        192 => "PPI",
        195 | 215 | 230 => "IEEE 802.15.4",
        197 => "ERF",
        201 => "Bluetooth HCI H4 with direction",
        227 => "SocketCAN",
        239 => "NFLOG",
        240 => "netANALYZER",
        247 => "InfiniBand",
        249 => "Windows USB",
        252 => "Wireshark exported PDUs",
        253 => "Linux netlink",
        258 => "Apple PKTAP",
        271 => "Linux vsock",
        274 => "Ethernet mPackets",
        _ => "unknown",
    }
}

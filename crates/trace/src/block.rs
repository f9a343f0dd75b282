//! What the reading thread hands over: bytes, and the segments found in them.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::error::TraceError;
use crate::source::Stretch;

/// An IP address; IPv4 as its mapped IPv6 form, so that both compare and hash alike. Two words, not
/// one of 128 bits, whose alignment would make an [`Endpoint`] a third larger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Host {
    high: u64,
    low: u64,
}

impl Host {
    const MAPPED: u64 = 0xffff << 32;

    /// From the number that its sixteen bytes are.
    #[inline(always)]
    pub const fn from_bits(bits: u128) -> Self {
        Host {
            high: (bits >> 64) as u64,
            low: bits as u64,
        }
    }

    /// The number that its sixteen bytes are.
    #[inline(always)]
    pub fn bits(self) -> u128 {
        u128::from(self.high) << 64 | u128::from(self.low)
    }

    /// Its last eight bytes: those that differ between the hosts of one network.
    #[inline(always)]
    pub fn low_bits(self) -> u64 {
        self.low
    }

    /// From the four bytes of an IPv4 header.
    #[inline(always)]
    pub fn from_v4(bytes: [u8; 4]) -> Self {
        Host {
            high: 0,
            low: Self::MAPPED | u64::from(u32::from_be_bytes(bytes)),
        }
    }

    /// From the sixteen bytes of an IPv6 header.
    #[inline(always)]
    pub fn from_v6(bytes: [u8; 16]) -> Self {
        Self::from_bits(u128::from_be_bytes(bytes))
    }

    /// As the standard library's type.
    pub fn address(self) -> IpAddr {
        if self.high == 0 && self.low >> 32 == 0xffff {
            IpAddr::V4(Ipv4Addr::from(self.low as u32))
        } else {
            IpAddr::V6(Ipv6Addr::from(self.bits()))
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address().fmt(out)
    }
}

/// An address and port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Endpoint {
    /// The address.
    pub host: Host,
    /// The port.
    pub port: u16,
}

impl fmt::Display for Endpoint {
    /// `10.0.0.1:2049`, `[fe80::1]:2049`.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.address() {
            IpAddr::V4(address) => write!(out, "{address}:{}", self.port),
            IpAddr::V6(address) => write!(out, "[{address}]:{}", self.port),
        }
    }
}

/// How messages travel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Transport {
    /// A byte stream with record marks.
    #[default]
    Tcp,
    /// One message a datagram.
    Udp,
}

impl Transport {
    /// `tcp` or `udp`.
    pub fn name(self) -> &'static str {
        match self {
            Transport::Tcp => "tcp",
            Transport::Udp => "udp",
        }
    }
}

/// `FIN` of a TCP header's flags (RFC 9293 section 3.1).
pub const FIN: u8 = 0x01;
/// `SYN`.
pub const SYN: u8 = 0x02;
/// `RST`.
pub const RST: u8 = 0x04;
/// `ACK`.
pub const ACK: u8 = 0x10;

/// A TCP segment or UDP datagram of one frame; its payload lies in the block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// When it was captured: nanoseconds since 1970.
    pub time_ns: i64,
    /// Number of its frame, from 1, over all captures read as one. Of a datagram put together
    /// from IP fragments: the frame that completed it.
    pub frame: u64,
    /// Who sent it.
    pub source: Endpoint,
    /// To whom.
    pub destination: Endpoint,
    /// TCP or UDP.
    pub transport: Transport,
    /// TCP flags; 0 for UDP.
    pub flags: u8,
    /// Shift of the window (RFC 7323), stated by a SYN; `NO_SCALE` otherwise.
    pub window_scale: u8,
    /// Identification of the IPv4 datagram (IPv6: of the fragment header), 0 if there is none:
    /// tells a packet captured twice from one sent twice.
    pub ip_id: u32,
    /// Window as it stands in the header, unscaled.
    pub window: u16,
    /// TCP sequence number of the first payload byte (of the SYN, if it is one).
    pub sequence: u32,
    /// TCP acknowledgement number; meaningless without `ACK`.
    pub acknowledgement: u32,
    /// Where the payload begins: see [`Block::payload`].
    pub payload_at: u32,
    /// Payload bytes that were captured.
    pub captured_bytes: u32,
    /// Payload bytes that were on the wire (at least `captured_bytes`).
    pub payload_bytes: u32,
    /// First fragment's time, for a datagram put together from several; else `time_ns`.
    pub first_ns: i64,
    /// First block of a selective acknowledgement (RFC 2018), if there is one.
    pub sack: Option<Sack>,
}

/// What a selective acknowledgement says first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sack {
    /// Bytes came, and some in front of them are missing.
    Missing,
    /// Bytes came that had come before (D-SACK, RFC 2883).
    Duplicate,
}

/// [`Segment::window_scale`] of all but SYNs that state one.
pub const NO_SCALE: u8 = u8::MAX;

/// A stretch of a capture: its bytes and what was found in them.
#[derive(Debug, Default)]
pub struct Block {
    /// Bytes of the packets, unless they lie in `mapped`, and of datagrams put together from
    /// fragments.
    pub bytes: Vec<u8>,
    /// Where packets lie in a mapped file.
    pub mapped: Option<Stretch>,
    /// Segments in the order of the capture.
    pub segments: Vec<Segment>,
    /// Frames in this block, those without a segment included.
    pub frames: u64,
    /// Bytes of these frames on the wire.
    pub wire_bytes: u64,
    /// Earliest and latest time of a frame in this block, nanoseconds since 1970.
    pub times_ns: Option<(i64, i64)>,
    /// Where a part of the capture is asked for: the time that it counts from, of the first frame.
    pub part_begin_ns: Option<i64>,
}

impl Block {
    /// The captured payload of one of its segments.
    #[inline(always)]
    pub fn payload(&self, segment: &Segment) -> &[u8] {
        let (mut at, length) = (segment.payload_at as usize, segment.captured_bytes as usize);
        if let Some(mapped) = &self.mapped {
            match mapped.get(at, length) {
                Ok(bytes) => return bytes,
                Err(own) => at = own,
            }
        }
        self.bytes.get(at..at + length).unwrap_or_default()
    }

    /// The bytes that all packets lie in, but those put together from fragments.
    #[inline(always)]
    pub(crate) fn front(&self) -> &[u8] {
        self.mapped.as_ref().map_or(&self.bytes, Stretch::bytes)
    }

    /// Whether the bytes that were seen are what was captured: to be asked when they were used.
    ///
    /// # Errors
    /// The file was cut short meanwhile: what was made of the block is wrong.
    pub fn verify(&self) -> Result<(), TraceError> {
        self.mapped.as_ref().map_or(Ok(()), Stretch::verify)
    }
}

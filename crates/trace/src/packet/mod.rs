//! From a frame's bytes to the TCP segment or UDP datagram in it.
//!
//! ```text
//! link  ──>  ip  ──>  (fragments)  ──>  transport  ──>  Segment
//! ```
//!
//! One frame costs one call of [`Packets::frame`]. Ethernet, IPv4 and TCP without IP options or
//! fragmentation, nearly all of an NFS capture, go through one fixed-size look at 54 bytes;
//! everything else through layers that read a [`View`]: captured bytes, and how many there were on
//! the wire. Payload is never touched or copied, except that of IP fragments.
//!
//! Decisions: lengths come from the IP header, so Ethernet's padding is no payload; a total length
//! of 0 (segmentation offload of the capturing machine) means the frame's; a capture that cut the
//! payload still gives a segment; checksums are not verified, since offload leaves them empty.
//! Tunnels are counted, not looked into. What gives no segment is counted in [`Anomalies`].

pub mod anomaly;
mod datagram;
mod fragments;
mod ip;
pub mod link;
mod transport;
mod tunnels;

#[cfg(test)]
mod tests;

use crate::block::{Endpoint, Host, NO_SCALE, SYN, Segment, Transport};
use fragments::{Assembled, Fragments};
use tunnels::{Inside, MAX_TUNNELS, inside};

pub use anomaly::{Anomalies, Anomaly, Lost};
pub use link::Link;

/// A captured frame: where it lies, how long it was, when it came.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    /// Its first byte in the block.
    pub at: usize,
    /// Captured bytes.
    pub captured: usize,
    /// Bytes on the wire; at least `captured`.
    pub wire: usize,
    /// Nanoseconds since 1970.
    pub time_ns: i64,
    /// Its number in the capture, from 1.
    pub number: u64,
}

/// A layer's bytes.
#[derive(Clone, Copy, Debug)]
struct View<'a> {
    /// What was captured of it.
    bytes: &'a [u8],
    /// Where that lies in the block.
    at: usize,
    /// Its length on the wire; at least that of `bytes`.
    wire: usize,
}

impl View<'_> {
    /// Without its first `count` bytes.
    #[inline]
    fn skip(self, count: usize) -> Self {
        let skipped = count.min(self.bytes.len());
        View {
            bytes: &self.bytes[skipped..],
            at: self.at + skipped,
            wire: self.wire.saturating_sub(count),
        }
    }

    /// Its first `count` bytes.
    #[inline]
    fn first(self, count: usize) -> Self {
        View {
            bytes: &self.bytes[..count.min(self.bytes.len())],
            at: self.at,
            wire: self.wire.min(count),
        }
    }
}

/// What a segment takes from the layers below its own.
#[derive(Clone, Copy, Debug)]
struct Context {
    source: Host,
    destination: Host,
    time_ns: i64,
    first_ns: i64,
    frame: u64,
    ip_id: u32,
}

impl Context {
    /// A segment without what only TCP or UDP know.
    fn segment(&self, view: &View<'_>, header_bytes: usize, transport: Transport) -> Segment {
        let payload = view.skip(header_bytes);
        let mut segment = Segment {
            time_ns: self.time_ns,
            first_ns: self.first_ns,
            frame: self.frame,
            transport,
            window_scale: NO_SCALE,
            ip_id: self.ip_id,
            payload_at: payload.at as u32,
            captured_bytes: payload.bytes.len() as u32,
            payload_bytes: payload.wire as u32,
            ..Segment::default()
        };
        segment.source.host = self.source;
        segment.destination.host = self.destination;
        segment
    }
}

/// Finds segments in frames; keeps fragments and counts from one frame to the next.
#[derive(Debug)]
pub struct Packets {
    /// What was odd so far.
    pub anomalies: Anomalies,
    /// What is missing of datagrams that were given up since fragments of them never came.
    pub fragments_lost: Lost,
    fragments: Fragments,
    assembled: Vec<u8>,
    assembled_at: usize,
}

impl Packets {
    /// `assembled_at`: where in a block the bytes of datagrams put together from fragments will
    /// be appended. `fragment_bytes`: bytes of fragments that may wait.
    pub fn new(assembled_at: usize, fragment_bytes: usize) -> Self {
        Packets {
            anomalies: Anomalies::default(),
            fragments_lost: Lost::default(),
            fragments: Fragments::new(fragment_bytes),
            assembled: Vec::new(),
            assembled_at,
        }
    }

    /// Appends the frame's segment, if there is one. `block` holds the frame at `frame.at`.
    #[inline(always)]
    pub fn frame(&mut self, block: &[u8], frame: &Frame, link: Link, out: &mut Vec<Segment>) {
        if link != Link::Ethernet || !plain_tcp(block, frame, out) {
            self.layers(block, frame, link, out);
        }
    }

    /// Takes the bytes that datagrams put together point to; they belong at `assembled_at`.
    pub fn append_assembled(&mut self, bytes: &mut Vec<u8>) {
        if !self.assembled.is_empty() {
            bytes.extend_from_slice(&self.assembled);
            self.assembled.clear();
        }
    }

    /// Bytes charged for fragments that wait, bookkeeping included.
    pub fn waiting_bytes(&self) -> usize {
        self.fragments.charged_bytes()
    }

    /// Whether fragments came at all, and whether some still wait for others.
    pub fn fragments(&self) -> (bool, bool) {
        (self.fragments.have_come(), self.fragments.wait())
    }

    /// The capture ended: no fragment will come any more.
    pub fn finish(&mut self, out: &mut Vec<Segment>) {
        self.fragments_lost += self.fragments.finish(&mut self.anomalies);
        self.take_ready(out);
    }

    #[inline(never)]
    fn layers(&mut self, block: &[u8], frame: &Frame, link: Link, out: &mut Vec<Segment>) {
        let bytes = block
            .get(frame.at..frame.at + frame.captured)
            .unwrap_or_default();
        let view = View {
            bytes,
            at: frame.at,
            wire: frame.wire.max(bytes.len()),
        };
        if let Err(anomaly) = self.innermost(view, frame, link, out) {
            self.anomalies.count(anomaly);
        }
    }

    /// Follows tunnels to the packet in them.
    fn innermost(
        &mut self,
        mut view: View<'_>,
        frame: &Frame,
        mut link: Link,
        out: &mut Vec<Segment>,
    ) -> Result<(), Anomaly> {
        for _ in 0..=MAX_TUNNELS {
            let offset = link.ip_offset(view.bytes)?;
            match ip::packet(view.skip(offset), frame, &mut self.anomalies)? {
                ip::Parsed::Whole {
                    protocol,
                    view: payload,
                    context,
                } => match inside(protocol, &payload) {
                    Inside::Payload => {
                        let anomalies = &mut self.anomalies;
                        let found = transport::segment(protocol, &payload, &context, anomalies)?;
                        out.push(found);
                        return Ok(());
                    }
                    Inside::Packet(inner, packet) => (link, view) = (inner, packet),
                    Inside::Unknown => return Err(Anomaly::Tunnelled),
                },
                ip::Parsed::Fragment(fragment) => {
                    let lost = self.fragments.add(&fragment, &mut self.anomalies);
                    self.fragments_lost += lost;
                    self.take_ready(out);
                    return Ok(());
                }
            }
        }
        Err(Anomaly::Tunnelled)
    }

    /// Datagrams that fragments have made whole become segments.
    fn take_ready(&mut self, out: &mut Vec<Segment>) {
        while let Some(ready) = self.fragments.next_ready() {
            let segment = self.whole(&ready);
            self.fragments.reuse(ready.bytes);
            match segment {
                Ok(segment) => out.push(segment),
                Err(anomaly) => self.anomalies.count(anomaly),
            }
        }
    }

    fn whole(&mut self, ready: &Assembled) -> Result<Segment, Anomaly> {
        let at = self.assembled.len();
        let bytes = ready.captured();
        let mut view = View {
            bytes,
            at: self.assembled_at + at,
            wire: ready.wire.max(bytes.len()),
        };
        let mut protocol = ready.protocol;
        if ready.version == 6 {
            (protocol, view) = ip::after_fragment_header(protocol, view)?;
        }
        if !ready.complete && protocol == 17 && view.bytes.len() >= 8 {
            // Only the datagram's front is there: its own header tells the length.
            let stated = u16::from_be_bytes([view.bytes[4], view.bytes[5]]);
            view.wire = view.wire.max(usize::from(stated));
        }
        let segment = transport::segment(protocol, &view, &ready.context, &mut self.anomalies)?;
        self.assembled.extend_from_slice(bytes);
        Ok(segment)
    }
}

/// Ethernet, IPv4 of 20 bytes, not fragmented, TCP, no SYN, lengths that agree: the fast path.
/// All conditions are gathered into one branch, and the segment is written where it will lie.
/// False: the frame is anything else.
#[inline(always)]
fn plain_tcp(block: &[u8], frame: &Frame, out: &mut Vec<Segment>) -> bool {
    let head = block.get(frame.at..).and_then(|bytes| bytes.first_chunk());
    let Some(head): Option<&[u8; 54]> = head else {
        return false;
    };
    let u16_at = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
    let u32_at =
        |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let total = usize::from(u16_at(16));
    let tcp_bytes = usize::from(head[46] >> 4) * 4;
    let headers = 20 + tcp_bytes;
    let flags = head[47];
    // Options that say nothing here: none, or timestamps alone.
    let options = block.get(frame.at + 54..).and_then(<[u8]>::first_chunk);
    let quiet = (tcp_bytes == 20)
        | ((tcp_bytes == transport::PLAIN_BYTES) & (options == Some(&transport::TIMESTAMPS_ALONE)));
    // EtherType 0x0800 with version 4 and header length 5; fragment offset, MF and protocol 6.
    let plain = (u32_at(12) & 0xffff_ff00 == 0x0800_4500)
        & (u32_at(20) & 0x3fff_00ff == 6)
        & quiet
        & (total >= headers)
        & (total + 14 <= frame.wire)
        & (frame.captured >= 54)
        & (flags & SYN == 0);
    if !plain {
        return false;
    }
    let payload_bytes = total - headers;
    let header_end = (14 + headers).min(frame.captured);
    out.push(Segment {
        time_ns: frame.time_ns,
        frame: frame.number,
        source: Endpoint {
            host: Host::from_v4([head[26], head[27], head[28], head[29]]),
            port: u16_at(34),
        },
        destination: Endpoint {
            host: Host::from_v4([head[30], head[31], head[32], head[33]]),
            port: u16_at(36),
        },
        transport: Transport::Tcp,
        flags,
        window_scale: NO_SCALE,
        ip_id: u32::from(u16_at(18)),
        window: u16_at(48),
        sequence: u32_at(38),
        acknowledgement: u32_at(42),
        payload_at: (frame.at + header_end) as u32,
        captured_bytes: payload_bytes.min(frame.captured - header_end) as u32,
        payload_bytes: payload_bytes as u32,
        first_ns: frame.time_ns,
        sack: None,
    });
    true
}

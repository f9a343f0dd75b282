//! Frames written by hand, byte for byte: tcpdump.org's link types, RFC 791, 8200, 9293, 768.

mod fragments;
mod layers;

use super::*;
use crate::block::Block;

/// IPv4 header of 20 bytes: total length, identification, flags and offset, protocol.
fn v4(total: u16, id: u16, place: u16, protocol: u8) -> Vec<u8> {
    let mut out = vec![0x45, 0];
    for half in [total, id, place] {
        out.extend_from_slice(&half.to_be_bytes());
    }
    out.extend_from_slice(&[64, protocol, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
    out
}

/// IPv6 header: payload length and next header; 2001:db8::1 to 2001:db8::2.
fn v6(length: u16, next: u8) -> Vec<u8> {
    let mut out = vec![0x60, 0, 0, 0];
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(&[next, 64]);
    for last in [1, 2] {
        out.extend_from_slice(&[0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
    }
    out
}

/// TCP header from port 1000 to 2049 with these flags and options.
fn tcp(flags: u8, options: &[u8]) -> Vec<u8> {
    let mut out = vec![0x03, 0xe8, 0x08, 0x01, 0, 0, 0, 5, 0, 0, 0, 9];
    out.extend_from_slice(&[
        ((20 + options.len()) as u8 / 4) << 4,
        flags,
        0x20,
        0,
        0,
        0,
        0,
        0,
    ]);
    out.extend_from_slice(options);
    out
}

fn udp(payload: &[u8]) -> Vec<u8> {
    let mut out = vec![0x03, 0xe8, 0x08, 0x01];
    out.extend_from_slice(&(8 + payload.len() as u16).to_be_bytes());
    out.extend_from_slice(&[0, 0]);
    out.extend_from_slice(payload);
    out
}

fn ethernet(kind: u16) -> Vec<u8> {
    let mut out = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    out.extend_from_slice(&kind.to_be_bytes());
    out
}

fn join(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

/// A UDP datagram with `abc` in IPv4.
fn datagram() -> Vec<u8> {
    join(&[&v4(31, 7, 0, 17), &udp(b"abc")])
}

const AT: usize = 0x1000;

/// Feeds frames, one second apart from `AT` on; gives segments with their payloads, and counts.
struct Feed {
    packets: Packets,
    block: Block,
    number: u64,
}

impl Feed {
    fn new(fragment_bytes: usize) -> Self {
        Feed {
            packets: Packets::new(AT, fragment_bytes),
            block: Block::default(),
            number: 0,
        }
    }

    fn frame(&mut self, link: u32, time_ns: i64, bytes: &[u8], wire: usize) {
        self.number += 1;
        let frame = Frame {
            at: 0,
            captured: bytes.len(),
            wire,
            time_ns,
            number: self.number,
        };
        let link = Link::of_type(link).expect("read");
        self.packets
            .frame(bytes, &frame, link, &mut self.block.segments);
    }

    /// The only segment so far, and its payload if it was put together.
    fn assembled(&mut self) -> (Segment, Vec<u8>) {
        assert_eq!(self.block.segments.len(), 1, "{:?}", self.odd());
        self.block.bytes.resize(AT, 0);
        self.packets.append_assembled(&mut self.block.bytes);
        let segment = self.block.segments[0];
        (segment, self.block.payload(&segment).to_vec())
    }

    fn odd(&self) -> Vec<(&'static str, u64)> {
        self.packets.anomalies.iter().collect()
    }
}

/// The segment of one frame and its captured payload, or why there is none.
fn one_cut(link: u32, bytes: &[u8], wire: usize) -> Result<(Segment, Vec<u8>), &'static str> {
    let mut feed = Feed::new(1 << 16);
    feed.frame(link, 5, bytes, wire);
    match feed.block.segments[..] {
        [segment] => {
            let at = segment.payload_at as usize;
            let payload = bytes[at..at + segment.captured_bytes as usize].to_vec();
            Ok((segment, payload))
        }
        _ => Err(feed.odd().first().map_or("nothing", |(kind, _)| *kind)),
    }
}

fn one(link: u32, bytes: &[u8]) -> Result<(Segment, Vec<u8>), &'static str> {
    one_cut(link, bytes, bytes.len())
}

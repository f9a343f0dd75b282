#![no_main]
//! Arbitrary frames of every link layer, several in a row, fragments among them: nothing panics,
//! every frame is a segment, waits, or is counted; the quick look at Ethernet, IPv4 and TCP says
//! what the layers say; fragments stay within their bound and no byte of them is kept at the end.
use bounded::fuzz_target;
use trace::block::{Block, Segment};
use trace::packet::{Anomalies, Anomaly, Frame, Link, Packets};

/// Where datagrams put together begin: behind all frames.
const ASSEMBLED_AT: usize = 1 << 16;
/// Bytes of fragments that may wait.
const FRAGMENT_BYTES: usize = 20_000;
/// Longest datagram and what is charged besides it: the bound may be passed by one.
const BEYOND_BYTES: usize = (1 << 16) + 1024;
const LINKS: [u32; 9] = [1, 1, 1, 113, 276, 101, 0, 108, 242];
/// Kinds that say what is odd about a frame that is used all the same.
const USED_ALL_THE_SAME: [Anomaly; 3] = [
    Anomaly::LengthExceedsFrame,
    Anomaly::FragmentsNotCaptured,
    Anomaly::FragmentOverlaps,
];
/// Kinds that tell of other frames than the one that was looked at.
const OF_OTHERS: [Anomaly; 2] = [Anomaly::FragmentsLost, Anomaly::FragmentLimit];

/// Takes bytes from the front of the input; zeros behind its end.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn take(&mut self, bytes: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(bytes.min(self.0.len()));
        self.0 = rest;
        taken
    }
    fn byte(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or(0)
    }
    fn word(&mut self) -> u16 {
        u16::from_be_bytes([self.byte(), self.byte()])
    }

    /// A frame: bytes as they are, or headers that are right but for what the script says; and
    /// whether it may be a fragment.
    fn frame(&mut self, link: u32) -> (Vec<u8>, bool) {
        let (what, length) = (self.byte(), usize::from(self.byte()));
        if what & 3 == 0 {
            return (self.take(length * 4).to_vec(), true);
        }
        let version_6 = what & 4 != 0;
        let mut upper = self.upper(what);
        let place = match what >> 4 & 3 {
            0 | 1 => 0,
            2 => u16::from(self.byte() & 31) | u16::from(self.byte()) << 8 & 0x2000,
            _ => self.word(),
        };
        if place & 0x2000 != 0 {
            upper.truncate(upper.len() & !7);
        }
        let mut out = front(link, version_6);
        match version_6 {
            true => self.version_6(&mut out, &upper, place),
            false => self.version_4(&mut out, &upper, place),
        }
        out.resize(out.len() + length % 50, 0);
        (out, place != 0)
    }

    /// TCP, UDP, or bytes as they are.
    fn upper(&mut self, what: u8) -> Vec<u8> {
        let mut out = Vec::new();
        let size = usize::from(self.word() & 0x7ff);
        match what >> 6 {
            0 | 1 => {
                out.extend_from_slice(self.take(12));
                out.resize(12, 0);
                let shape = self.byte();
                out.extend_from_slice(&[0x50 | shape << 4 & 0xa0, shape & 0x3f, 1, 0, 0, 0, 0, 0]);
            }
            2 => {
                let bytes = (8 + size as u16).to_be_bytes();
                out.extend_from_slice(&[3, 0xe8, 8, 1, bytes[0], bytes[1], 0, 0]);
            }
            _ => {}
        }
        out.extend_from_slice(self.take(size.min(64)));
        out.resize(out.len().max(size), what);
        out
    }

    fn version_4(&mut self, out: &mut Vec<u8>, upper: &[u8], place: u16) {
        let style = self.byte();
        let total = match style & 7 {
            0 => self.word(),
            1 => 0,
            _ => 20 + upper.len() as u16,
        };
        out.extend_from_slice(&[if style & 0x70 == 0x70 { 0x46 } else { 0x45 }, 0]);
        for half in [total, u16::from(style >> 5), place] {
            out.extend_from_slice(&half.to_be_bytes());
        }
        let protocol = if style & 8 != 0 { 6 } else { 17 };
        out.extend_from_slice(&[64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        out.extend_from_slice(upper);
    }

    fn version_6(&mut self, out: &mut Vec<u8>, upper: &[u8], place: u16) {
        let style = self.byte();
        let mut next = if style & 8 != 0 { 6 } else { 17 };
        let mut inner = Vec::new();
        if place != 0 {
            let place = place << 3 | place >> 13 & 1;
            inner.extend_from_slice(&[next, 0]);
            inner.extend_from_slice(&place.to_be_bytes());
            inner.extend_from_slice(&[0, 0, 0, style >> 5]);
            next = 44;
        } else if style & 0x10 != 0 {
            let kinds = [0, 43, 51, 60, 135, 44, 139, 140];
            let first = kinds[usize::from(style >> 5)];
            inner.extend_from_slice(&[next, self.byte() & 1, 0, 0, 0, 0, 0, 0]);
            next = first;
        }
        inner.extend_from_slice(upper);
        let length = match style & 7 {
            0 => self.word(),
            1 => 0,
            _ => inner.len() as u16,
        };
        out.extend_from_slice(&[0x60, 0, 0, 0]);
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(&[next, 64]);
        out.extend_from_slice(&[0xfe; 32]);
        out.extend_from_slice(&inner);
    }
}

/// A link layer's header that says which version of IP follows.
fn front(link: u32, version_6: bool) -> Vec<u8> {
    let kind: [u8; 2] = if version_6 { [0x86, 0xdd] } else { [8, 0] };
    let mut out = vec![0; 64];
    let bytes = match link {
        1 => 14,
        113 => 16,
        276 => 20,
        242 => 44,
        101 => 0,
        _ => 4,
    };
    out.truncate(bytes);
    match link {
        1 => out[12..14].copy_from_slice(&kind),
        113 => out[14..16].copy_from_slice(&kind),
        276 => out[..2].copy_from_slice(&kind),
        242 => out[40..42].copy_from_slice(&kind),
        101 => {}
        _ => out[0] = if version_6 { 30 } else { 2 },
    }
    out
}

/// Checks what a frame became.
fn check(
    before: &(Anomalies, usize),
    packets: &Packets,
    new: &[Segment],
    frame: &Frame,
    perhaps_fragment: bool,
) {
    let grown = |kind: Anomaly| packets.anomalies.of(kind) - before.0.of(kind);
    let left_out: u64 = Anomaly::ALL
        .iter()
        .filter(|kind| !USED_ALL_THE_SAME.contains(kind) && !OF_OTHERS.contains(kind))
        .map(|kind| grown(*kind))
        .sum();
    let of_others: u64 = OF_OTHERS.iter().map(|kind| grown(*kind)).sum();
    let waits = packets.waiting_bytes() != before.1;
    let echo = grown(Anomaly::FragmentOverlaps) > 0;
    let seen = !new.is_empty() || left_out > 0 || waits || echo || of_others > 0;
    // A fragment that fills a hole needs no more room than the hole.
    assert!(
        seen || perhaps_fragment,
        "a frame is neither used nor counted"
    );
    assert!(packets.waiting_bytes() <= FRAGMENT_BYTES + BEYOND_BYTES);
    for segment in new {
        assert!(segment.captured_bytes <= segment.payload_bytes);
        assert!((1..=frame.number).contains(&segment.frame));
        let end = (segment.payload_at + segment.captured_bytes) as usize;
        let own = segment.payload_at as usize >= frame.at && end <= frame.at + frame.captured;
        assert!(own || segment.payload_at as usize >= ASSEMBLED_AT);
    }
}

/// The same IP packet without its Ethernet header goes another way.
fn compare(bytes: &[u8], frame: &Frame, new: &[Segment]) {
    let inner = Frame {
        at: frame.at + 14,
        captured: frame.captured - 14,
        wire: frame.wire - 14,
        ..*frame
    };
    let raw = Link::of_type(101).expect("raw IP is read");
    let mut out = Vec::new();
    Packets::new(ASSEMBLED_AT, FRAGMENT_BYTES).frame(bytes, &inner, raw, &mut out);
    if let ([one], [other]) = (new, &out[..]) {
        assert!(one == other || one.payload_at as usize >= ASSEMBLED_AT);
    } else if let [segment] = out[..] {
        // Not fragmented: the way by Ethernet gave it too.
        assert!(
            new.iter().any(|one| *one == segment),
            "lost behind Ethernet"
        );
    }
}

fuzz_target!(|data: &[u8]| {
    let mut input = Input(data);
    let link_type = LINKS[usize::from(input.byte()) % LINKS.len()];
    let link = Link::of_type(link_type).expect("a link type that is read");
    let mut packets = Packets::new(ASSEMBLED_AT, FRAGMENT_BYTES);
    let mut block = Block::default();
    let mut time_ns = 1_700_000_000_000_000_000_i64;
    let mut number = 0;
    while !input.0.is_empty() {
        let (bytes, perhaps_fragment) = input.frame(link_type);
        let style = input.byte();
        if block.bytes.len() + bytes.len() > ASSEMBLED_AT {
            break;
        }
        time_ns += match style >> 6 {
            0 => 1000,
            1 => 200_000_000,
            2 => 31_000_000_000,
            _ => -1_000_000,
        };
        number += 1;
        let cut = if style & 0x30 == 0x30 {
            usize::from(style & 15) * 8
        } else {
            bytes.len()
        };
        let frame = Frame {
            at: block.bytes.len(),
            captured: bytes.len().min(cut),
            wire: bytes.len() + usize::from(style & 15) * usize::from(style >> 4 & 1),
            time_ns,
            number,
        };
        block.bytes.extend_from_slice(&bytes[..frame.captured]);
        let before = (packets.anomalies, packets.waiting_bytes());
        let known = block.segments.len();
        packets.frame(&block.bytes, &frame, link, &mut block.segments);
        let new = &block.segments[known..];
        check(&before, &packets, new, &frame, perhaps_fragment);
        if link_type == 1 && frame.captured >= 14 {
            let kind = &block.bytes[frame.at + 12..frame.at + 14];
            if kind == [8, 0] || kind == [0x86, 0xdd] {
                compare(&block.bytes, &frame, new);
            }
        }
    }
    packets.finish(&mut block.segments);
    assert_eq!(packets.waiting_bytes(), 0);
    block.bytes.resize(ASSEMBLED_AT, 0);
    packets.append_assembled(&mut block.bytes);
    for segment in &block.segments {
        assert_eq!(
            block.payload(segment).len(),
            segment.captured_bytes as usize
        );
    }
});

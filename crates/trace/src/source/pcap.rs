//! The pcap format (draft-ietf-opsawg-pcap; libpcap's savefile.c).
//!
//! A header of 24 bytes, then for each packet a header of 16 bytes and what was captured. The magic
//! number tells byte order and whether times have micro- or nanoseconds; `0xa1b2cd34` is a variant
//! with packet headers of 24 bytes.
//!
//! A packet header is believed unless its captured length is impossible, or the next header
//! contradicts one that is odd: no captured byte, more captured than was on the wire, a fraction of
//! a second above one, a time more than a day from its predecessor's. Behind one that is not
//! believed the reader looks for the next place where two headers (three, if they are there)
//! follow each other with lengths and times that fit; what it passes over is counted. Runs of zero
//! bytes, as a crash leaves them, and files joined by `cat` are recognised so. Times fit when they
//! are near the last packet's or near those of the capture before any odd header, which may have
//! been payload with a time of its own.

use super::magic::{Magic, magic};
use super::sink::{Record, Sink};
use super::start::Refused;
use crate::packet::Anomaly;
use crate::packet::link::Link;

/// Length of the file's header.
pub(super) const FILE_HEADER_BYTES: usize = 24;
/// A time further than this from its predecessor's needs a second opinion; a search for the next
/// packet looks no further.
const NEAR_NS: i64 = 86_400_000_000_000;
/// How far a search lets the time go back: clocks of several interfaces differ, not by more.
const BACK_NS: i64 = 10_000_000_000;
/// So many bytes of packets in a row whose headers raise no question are of the capture: payload
/// that looks like headers does not go on for so long.
const SETTLED_BYTES: usize = 4096;
/// Longest frame on the wire that a search believes: twice the largest offloaded segment.
const MAX_WIRE_BYTES: u32 = 1 << 20;

/// How a file is to be read, from its header.
#[derive(Clone, Copy, Debug)]
struct Layout {
    big_endian: bool,
    /// Nanoseconds of one unit of a time's fraction.
    unit_ns: u32,
    record_header_bytes: usize,
    /// Before version 2.4 some wrote the two lengths the other way round.
    old: bool,
    link: Link,
}

impl Layout {
    fn of(header: &[u8; FILE_HEADER_BYTES]) -> Result<Self, Refused> {
        let (magic, rest) = (&header[..4], &header[4..]);
        let (big_endian, unit_ns, record_header_bytes) = match magic {
            [0xa1, 0xb2, 0xc3, 0xd4] => (true, 1000, 16),
            [0xd4, 0xc3, 0xb2, 0xa1] => (false, 1000, 16),
            [0xa1, 0xb2, 0x3c, 0x4d] => (true, 1, 16),
            [0x4d, 0x3c, 0xb2, 0xa1] => (false, 1, 16),
            [0xa1, 0xb2, 0xcd, 0x34] => (true, 1000, 24),
            [0x34, 0xcd, 0xb2, 0xa1] => (false, 1000, 24),
            _ => return Err(Refused::Format("no pcap header".to_owned())),
        };
        let major = u16_at(rest, 0, big_endian);
        let minor = u16_at(rest, 2, big_endian);
        if major != 2 || minor > 4 {
            let why = format!("pcap of version {major}.{minor}; versions up to 2.4 are read");
            return Err(Refused::Format(why));
        }
        // The upper bits tell of a frame check sequence, which the IP length leaves out anyway.
        let link_type = u32_at(rest, 16, big_endian) & 0x03ff_ffff;
        Ok(Layout {
            big_endian,
            unit_ns,
            record_header_bytes,
            old: minor < 4,
            link: Link::of_type(link_type).ok_or(Refused::LinkType(link_type))?,
        })
    }

    /// Units of a time's fraction in a second.
    fn fractions(&self) -> u32 {
        1_000_000_000 / self.unit_ns
    }

    /// The packet header at this place, if all of it is there.
    #[inline(always)]
    fn header(&self, bytes: &[u8], at: usize) -> Option<Header> {
        match self.big_endian {
            true => self.header_in::<true>(bytes, at),
            false => self.header_in::<false>(bytes, at),
        }
    }

    /// The same in a byte order known when this is compiled: for the fast loop.
    #[inline(always)]
    fn header_in<const BIG: bool>(&self, bytes: &[u8], at: usize) -> Option<Header> {
        let words: &[u8; 16] = bytes.get(at..)?.first_chunk()?;
        let (words, _) = words.as_chunks::<4>();
        let [seconds, fraction, captured, wire] = words else {
            return None;
        };
        let number = |word: &[u8; 4]| match BIG {
            true => u32::from_be_bytes(*word),
            false => u32::from_le_bytes(*word),
        };
        let (seconds, fraction) = (number(seconds), number(fraction));
        let (captured, wire) = (number(captured), number(wire));
        Some(Header {
            time_ns: i64::from(seconds) * 1_000_000_000
                + i64::from(fraction) * i64::from(self.unit_ns),
            fraction,
            captured,
            wire,
        })
    }
}

fn u16_at(bytes: &[u8], at: usize, big_endian: bool) -> u16 {
    let pair = [bytes[at], bytes[at + 1]];
    match big_endian {
        true => u16::from_be_bytes(pair),
        false => u16::from_le_bytes(pair),
    }
}

fn u32_at(bytes: &[u8], at: usize, big_endian: bool) -> u32 {
    let word = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
    match big_endian {
        true => u32::from_be_bytes(word),
        false => u32::from_le_bytes(word),
    }
}

#[derive(Clone, Copy, Debug)]
struct Header {
    time_ns: i64,
    fraction: u32,
    captured: u32,
    wire: u32,
}

/// What becomes of a header that looks odd.
enum Verdict {
    Good,
    /// Odd, but what follows confirms it.
    Confirmed,
    /// More bytes have to be seen.
    Later,
    /// Another file's header.
    Joined(Layout),
    Damaged,
}

/// A pcap file being read.
#[derive(Debug)]
pub(super) struct Pcap {
    layout: Layout,
    frame_bytes: u32,
    header_seen: bool,
    /// Time of the packet before; meaningless before the first one.
    last_ns: i64,
    any: bool,
    /// Looking for a plausible packet header.
    lost: bool,
    /// Bytes of packets without a question since the last one with.
    straight_bytes: usize,
    /// Time of the first packet, or of the last one of at least [`SETTLED_BYTES`] in a row: payload
    /// that was taken for a header, with a time of its own, does not change it.
    settled_ns: Option<i64>,
}

impl Pcap {
    /// From the file's first bytes, at least [`FILE_HEADER_BYTES`].
    pub(super) fn new(bytes: &[u8], frame_bytes: u32) -> Result<Self, Refused> {
        let header = bytes.first_chunk();
        let header = header.ok_or_else(|| Refused::Format("a cut pcap header".to_owned()))?;
        Ok(Pcap {
            layout: Layout::of(header)?,
            frame_bytes,
            header_seen: false,
            last_ns: 0,
            any: false,
            lost: false,
            straight_bytes: 0,
            settled_ns: None,
        })
    }

    /// Whether it is looking for a plausible packet header.
    pub(super) fn is_lost(&self) -> bool {
        self.lost
    }

    /// Hands all whole packets from `at` on to the sink; gives the place of what is left.
    /// `end`: no bytes will follow.
    pub(super) fn walk(
        &mut self,
        bytes: &[u8],
        mut at: usize,
        end: bool,
        sink: &mut Sink<'_>,
    ) -> usize {
        if !self.header_seen {
            if bytes.len() < at + FILE_HEADER_BYTES {
                return at;
            }
            self.header_seen = true;
            at += FILE_HEADER_BYTES;
        }
        loop {
            if self.lost {
                let (found, place) = self.search(bytes, at, end);
                sink.skipped(place - at);
                at = place;
                if !found {
                    return at;
                }
                self.lost = false;
            }
            let from = at;
            at = match self.layout.big_endian {
                true => self.run::<true>(bytes, at, sink),
                false => self.run::<false>(bytes, at, sink),
            };
            self.straight_bytes += at - from;
            if self.straight_bytes >= SETTLED_BYTES {
                self.settled_ns = Some(self.last_ns);
            }
            match self.judge(bytes, at, end) {
                verdict @ (Verdict::Good | Verdict::Confirmed) => {
                    let header = self.layout.header(bytes, at);
                    self.last_ns = header.map_or(self.last_ns, |header| header.time_ns);
                    if !self.any {
                        self.settled_ns = Some(self.last_ns);
                    }
                    // The next run takes it for near.
                    self.any = true;
                    if !self.take_odd(bytes, &mut at, sink) {
                        return at;
                    }
                    if matches!(verdict, Verdict::Confirmed) {
                        sink.odd(Anomaly::OddPacketHeader);
                        self.straight_bytes = 0;
                    }
                }
                Verdict::Later => return at,
                Verdict::Joined(layout) => {
                    sink.odd(Anomaly::JoinedCaptures);
                    self.layout = layout;
                    self.any = false;
                    self.straight_bytes = 0;
                    at += FILE_HEADER_BYTES;
                }
                Verdict::Damaged => {
                    sink.odd(Anomaly::DamagedPacketHeader);
                    sink.skipped(1);
                    self.lost = true;
                    self.straight_bytes = 0;
                    at += 1;
                }
            }
        }
    }

    /// The fast loop: packets whose headers raise no question.
    #[inline(always)]
    fn run<const BIG: bool>(&mut self, bytes: &[u8], mut at: usize, sink: &mut Sink<'_>) -> usize {
        let Layout {
            record_header_bytes,
            link,
            ..
        } = self.layout;
        let fractions = self.layout.fractions();
        let mut last_ns = self.last_ns;
        while let Some(header) = self.layout.header_in::<BIG>(bytes, at) {
            let captured = header.captured as usize;
            let start = at + record_header_bytes;
            let odd_length = header.captured.wrapping_sub(1) >= self.frame_bytes;
            let odd_time = header.fraction >= fractions;
            let jump = header.time_ns.wrapping_sub(last_ns).wrapping_add(NEAR_NS);
            let far = jump as u64 > 2 * NEAR_NS as u64;
            let longer = header.captured > header.wire;
            if odd_length | odd_time | far | longer | !self.any | (start + captured > bytes.len()) {
                break;
            }
            last_ns = header.time_ns;
            let record = Record {
                at: start,
                captured,
                wire: header.wire as usize,
                time_ns: header.time_ns,
            };
            sink.frame(bytes, record, Some(link));
            at = start + captured;
        }
        self.last_ns = last_ns;
        at
    }

    /// Takes a packet that was judged good though odd; false if it is not whole yet.
    fn take_odd(&mut self, bytes: &[u8], at: &mut usize, sink: &mut Sink<'_>) -> bool {
        let Some(header) = self.layout.header(bytes, *at) else {
            return false;
        };
        let (captured, wire) = self.lengths(&header);
        let start = *at + self.layout.record_header_bytes;
        if start + captured > bytes.len() {
            return false;
        }
        let record = Record {
            at: start,
            captured,
            wire,
            time_ns: header.time_ns,
        };
        sink.frame(bytes, record, Some(self.layout.link));
        *at = start + captured;
        true
    }

    /// Captured length and length on the wire.
    fn lengths(&self, header: &Header) -> (usize, usize) {
        let (captured, wire) = (header.captured as usize, header.wire as usize);
        if self.layout.old && captured > wire {
            (wire, captured)
        } else {
            (captured, wire)
        }
    }

    /// Looks closer at the header where the fast loop stopped.
    fn judge(&self, bytes: &[u8], at: usize, end: bool) -> Verdict {
        let Some(header) = self.layout.header(bytes, at) else {
            return Verdict::Later;
        };
        let rest = bytes.get(at..).unwrap_or_default();
        if magic(rest) == Magic::Pcap {
            match rest.first_chunk().map(Layout::of) {
                Some(Ok(layout)) => return Verdict::Joined(layout),
                None if !end => return Verdict::Later,
                _ => {}
            }
        }
        let (captured, _) = self.lengths(&header);
        let next = at + self.layout.record_header_bytes + captured;
        let empty = header.captured == 0 && (header.wire == 0 || header.time_ns == 0);
        if captured > self.frame_bytes as usize || empty {
            return Verdict::Damaged;
        }
        let near = |time_ns: i64, to: i64| time_ns.abs_diff(to) <= NEAR_NS as u64;
        let longer = header.captured > header.wire && !self.layout.old;
        let odd = header.captured == 0 || header.fraction >= self.layout.fractions() || longer;
        let far = self.any && !near(header.time_ns, self.last_ns);
        if !odd && !far {
            return if next > bytes.len() {
                Verdict::Later
            } else {
                Verdict::Good
            };
        }
        // What follows has to confirm it.
        match self.layout.header(bytes, next) {
            None if end && next <= bytes.len() => Verdict::Confirmed,
            None if end => Verdict::Damaged,
            None => Verdict::Later,
            Some(after) => {
                let (captured, _) = self.lengths(&after);
                let fits = captured.wrapping_sub(1) < self.frame_bytes as usize
                    && (near(after.time_ns, header.time_ns) || near(after.time_ns, self.last_ns));
                // Another time is much to believe: payload has such, seldom twice without fault.
                let sound = !far || self.plausible(&after, None) || self.layout.old;
                if fits && sound {
                    Verdict::Confirmed
                } else {
                    Verdict::Damaged
                }
            }
        }
    }

    /// Finds the next place where packet headers follow each other: whether it is sure, and where
    /// it or the first place that is still undecided is.
    fn search(&self, bytes: &[u8], from: usize, end: bool) -> (bool, usize) {
        let last = self.any.then_some(self.last_ns);
        let settled = self.settled_ns.filter(|_| self.any).or(last);
        for at in from..bytes.len() {
            let Some(first) = self.layout.header(bytes, at) else {
                return (false, if end { bytes.len() } else { at });
            };
            if !self.plausible(&first, last) && !self.plausible(&first, settled) {
                continue;
            }
            match self.confirmed(bytes, at, &first, end) {
                Some(true) => return (true, at),
                Some(false) => {}
                None => return (false, at),
            }
        }
        (false, bytes.len())
    }

    fn plausible(&self, header: &Header, reference: Option<i64>) -> bool {
        let near = reference.is_none_or(|reference| {
            (reference - BACK_NS..reference + NEAR_NS).contains(&header.time_ns)
        });
        near && header.fraction < self.layout.fractions()
            && header.captured.wrapping_sub(1) < self.frame_bytes
            && header.captured <= header.wire
            && header.wire <= MAX_WIRE_BYTES
    }

    /// Whether one or two more plausible headers follow; `None`: not known before more is read.
    fn confirmed(&self, bytes: &[u8], at: usize, first: &Header, end: bool) -> Option<bool> {
        let mut next = at + self.layout.record_header_bytes + first.captured as usize;
        let mut before = *first;
        for seen in 0..2 {
            if end && next == bytes.len() {
                return Some(true);
            }
            // Looked for no further than every block reaches: what is found does not depend on
            // how the bytes come.
            if seen == 1 && next - at > self.frame_bytes as usize {
                return Some(true);
            }
            let Some(header) = self.layout.header(bytes, next) else {
                return end.then_some(seen == 1);
            };
            if !self.plausible(&header, Some(before.time_ns)) {
                return Some(false);
            }
            next += self.layout.record_header_bytes + header.captured as usize;
            before = header;
        }
        Some(true)
    }
}

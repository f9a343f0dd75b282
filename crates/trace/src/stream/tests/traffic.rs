//! Random traffic of several connections: handshakes with and without scales, calls and replies in
//! pieces, losses, copies, overtaking, shut windows, pauses, ends, ports used anew.

use wire::rpc::{OpaqueAuth, encode_call};

use super::kit::{Stream, call, filler, reply};
use crate::block::{ACK, Endpoint, FIN, Host, NO_SCALE, RST, SYN, Sack, Segment};

pub(super) type Packet = (Segment, Vec<u8>);

const US: i64 = 1000;
const MS: i64 = 1000 * US;

/// What a connection carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Carries {
    Rpc,
    /// Calls one way, callbacks the other.
    Both,
    Other,
    Tls,
}

/// Between one pair of endpoints; sides: client and server.
struct Pair {
    random: fastrand::Rng,
    packets: Vec<Packet>,
    ends: [Endpoint; 2],
    time_ns: i64,
    /// Next sequence number of each side, and up to where the other acknowledged.
    next: [u32; 2],
    acknowledged: [u32; 2],
    ip_id: [u32; 2],
    xid: u32,
    carries: Carries,
    /// Nothing odd happens.
    smooth: bool,
}

impl Pair {
    fn chance(&mut self, one_in: u32) -> bool {
        self.random.u32(..one_in) == 0
    }

    fn pass(&mut self, most_ns: i64) {
        self.time_ns += self.random.i64(1..most_ns);
    }

    fn segment(&mut self, side: usize, flags: u8, sequence: u32) -> Segment {
        self.time_ns += self.random.i64(US..100 * US);
        self.ip_id[side] = self.ip_id[side] % 0xffff + 1;
        let acks = flags & ACK != 0;
        Segment {
            time_ns: self.time_ns,
            first_ns: self.time_ns,
            source: self.ends[side],
            destination: self.ends[1 - side],
            flags,
            sequence,
            acknowledgement: if acks { self.acknowledged[1 - side] } else { 0 },
            ip_id: self.ip_id[side],
            window: self.random.u16(100..60_000),
            window_scale: NO_SCALE,
            ..Segment::default()
        }
    }

    fn put(&mut self, segment: Segment, payload: &[u8]) {
        let bytes = payload.len() as u32;
        let segment = Segment {
            payload_bytes: bytes,
            captured_bytes: bytes,
            ..segment
        };
        self.packets.push((segment, payload.to_vec()));
    }

    fn open(&mut self) {
        self.next = [self.random.u32(..), self.random.u32(..)];
        let scales = [7, 2, 14, 0, NO_SCALE];
        let first_seen = !self.chance(8);
        let answer_seen = !self.chance(8);
        for side in 0..2 {
            let flags = if side == 0 { SYN } else { SYN | ACK };
            let mut segment = self.segment(side, flags, self.next[side]);
            segment.window_scale = scales[self.random.usize(..scales.len())];
            self.next[side] = self.next[side].wrapping_add(1);
            self.acknowledged[side] = self.next[side];
            let seen = if side == 0 { first_seen } else { answer_seen };
            if seen {
                self.put(segment, &[]);
                if self.chance(20) {
                    segment.time_ns += 50 * US;
                    self.put(segment, &[]);
                }
            }
        }
        if first_seen || answer_seen || self.chance(2) {
            self.ack(0);
        }
    }

    /// An acknowledgement by `side` of all that the other sent.
    fn ack(&mut self, side: usize) {
        self.acknowledged[1 - side] = self.next[1 - side];
        let mut segment = self.segment(side, ACK, self.next[side]);
        if !self.smooth && self.chance(20) {
            let zero = Segment {
                window: 0,
                ..segment
            };
            self.put(zero, &[]);
            if self.chance(2) {
                self.pass(20 * MS);
            }
            if self.chance(6) {
                return;
            }
            segment = self.segment(side, ACK, self.next[side]);
        }
        if !self.smooth && self.chance(25) {
            segment.sack = Some(match self.chance(2) {
                true => Sack::Missing,
                false => Sack::Duplicate,
            });
        }
        self.put(segment, &[]);
    }

    /// Sends bytes in segments; the other side acknowledges some on their way.
    fn send(&mut self, side: usize, bytes: &[u8]) {
        let largest = [120, 300, 600, 1448, 4000][self.random.usize(..5)];
        let mut from = 0;
        let mut back: Option<Packet> = None;
        while from < bytes.len() {
            let to = bytes.len().min(from + largest);
            let segment = self.segment(side, ACK, self.next[side]);
            self.next[side] = self.next[side].wrapping_add((to - from) as u32);
            let piece = &bytes[from..to];
            let odd = match self.smooth {
                true => 100,
                false => self.random.u32(..70),
            };
            match odd {
                // Lost on its way to the capture.
                0 => {}
                // Overtaken.
                1 if back.is_none() => back = Some((segment, piece.to_vec())),
                // Lost on its way, and sent again.
                2 | 3 => {
                    self.put(segment, piece);
                    self.pass(3 * MS);
                    let again = self.segment(side, ACK, segment.sequence);
                    self.put(again, piece);
                    if self.chance(2) {
                        self.ack(1 - side);
                    }
                }
                // Captured twice.
                4 => {
                    self.put(segment, piece);
                    let copy = Segment {
                        time_ns: segment.time_ns + 10 * US,
                        ..segment
                    };
                    self.put(copy, piece);
                }
                // Sent again though it was acknowledged.
                5 => {
                    self.put(segment, piece);
                    self.ack(1 - side);
                    let again = self.segment(side, ACK, segment.sequence);
                    self.put(again, piece);
                }
                _ => self.put(segment, piece),
            }
            if odd != 1
                && let Some((mut early, piece)) = back.take()
            {
                early.time_ns = self.time_ns + 5 * US;
                self.time_ns += 10 * US;
                self.put(early, &piece);
            }
            if self.chance(4) {
                self.ack(1 - side);
            }
            from = to;
        }
        if let Some((early, piece)) = back {
            self.put(early, &piece);
        }
    }

    /// A call and its reply, or some of each.
    fn exchange(&mut self) {
        match self.carries {
            Carries::Rpc | Carries::Both => {}
            Carries::Other => {
                let some = self.random.usize(1..900);
                let side = self.random.usize(..2);
                let junk = filler(self.random.u32(..), some);
                return self.send(side, &junk);
            }
            Carries::Tls => {
                let mut record = vec![0x17, 3, 3, 0, 200];
                record.extend(filler(self.xid, 200));
                let side = self.random.usize(..2);
                return self.send(side, &record);
            }
        }
        let back = self.carries == Carries::Both && self.chance(4);
        let (client, server) = if back { (1, 0) } else { (0, 1) };
        let count = if self.chance(4) { 3 } else { 1 };
        let sizes = [0, 60, 300, 2500, 9000];
        let size = |random: &mut fastrand::Rng| match random.u32(..4) {
            0 => sizes[random.usize(..sizes.len())],
            _ => random.usize(..120),
        };
        let first = self.xid;
        self.xid += count;
        let xids = first..self.xid;
        let calls = Stream::of(xids.clone().map(|xid| match back {
            true => callback(xid),
            false => call(xid, size(&mut self.random)),
        }));
        let replies = Stream::of(xids.map(|xid| reply(xid, size(&mut self.random))));
        self.send(client, &calls.bytes);
        if self.chance(4) {
            self.ack(server);
            self.pass(5 * MS);
        }
        self.acknowledged[client] = self.next[client];
        self.send(server, &replies.bytes);
        if !self.chance(12) {
            self.ack(client);
        }
    }

    fn close(&mut self) {
        if self.chance(4) {
            let flags = if self.chance(2) { RST } else { RST | ACK };
            let segment = self.segment(0, flags, self.next[0]);
            return self.put(segment, &[]);
        }
        let first = self.random.usize(..2);
        for side in [first, 1 - first] {
            let segment = self.segment(side, FIN | ACK, self.next[side]);
            self.put(segment, &[]);
            self.next[side] = self.next[side].wrapping_add(1);
            self.acknowledged[side] = self.next[side];
        }
        if !self.chance(6) {
            self.ack(first);
        }
    }

    fn run(&mut self) {
        for _ in 0..self.random.usize(1..4) {
            self.open();
            for _ in 0..self.random.usize(1..60) {
                self.exchange();
                match self.random.u32(..14) {
                    0 => self.pass(20_000 * MS),
                    1..4 => self.pass(900 * MS),
                    _ => self.pass(30 * MS),
                }
                if self.chance(15) {
                    self.ack(self.xid as usize % 2);
                }
            }
            if !self.chance(3) {
                self.close();
            }
            self.pass(10_000 * MS);
        }
    }
}

fn callback(xid: u32) -> Vec<u8> {
    let mut out = Vec::new();
    let null = OpaqueAuth::NONE;
    encode_call(&mut out, xid, [0x4000_0000, 1, 1], &null, &null).unwrap();
    out
}

/// Packets in the order of their times.
pub(super) fn traffic(seed: u64) -> Vec<Packet> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut all = Vec::new();
    for number in 0..random.u16(1..6) {
        let carries = match random.u32(..12) {
            0 => Carries::Other,
            1 => Carries::Tls,
            2 => Carries::Both,
            _ => Carries::Rpc,
        };
        let client = Endpoint {
            host: Host::from_v4([10, 0, 0, random.u8(..4)]),
            port: 700 + number,
        };
        let server = Endpoint {
            host: Host::from_v4([10, 0, 0, 2]),
            port: 2049,
        };
        let mut pair = Pair {
            ends: [client, server],
            time_ns: random.i64(1..20_000 * MS),
            next: [0; 2],
            acknowledged: [0; 2],
            ip_id: [random.u32(1..0xffff), 1],
            xid: u32::from(number) << 24 | 0x0010_1010,
            packets: Vec::new(),
            carries,
            smooth: random.bool(),
            random: random.fork(),
        };
        if random.u32(..3) > 0 {
            pair.run();
        } else {
            pair.smooth = true;
            pair.open();
            for _ in 0..40 {
                pair.exchange();
                pair.pass(2500 * MS);
            }
        }
        all.extend(pair.packets);
    }
    all.sort_by_key(|(segment, _)| segment.time_ns);
    for (frame, (segment, _)) in all.iter_mut().enumerate() {
        segment.frame = frame as u64 + 1;
    }
    all
}

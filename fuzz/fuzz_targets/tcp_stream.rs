#![no_main]
//! Arbitrary sequences of segments, of several connections in both directions, never panic, keep
//! no more than their bounds, and give messages whose parts add up.
use bounded::fuzz_target;
use trace::block::{Endpoint, Host, Segment, Transport};
use trace::event::TransportEvent;
use trace::limits::{MAX_FLIGHT_TOTAL, MAX_HELD_BYTES_TOTAL, MAX_PARTIAL_BYTES_TOTAL};
use trace::stream::{Front, HEAD_BYTES, Keep, Message, Sink, Streams, TAIL_BYTES};
use wire::record::RecordMark;
use wire::rpc::{OpaqueAuth, ReplyStatus, encode_call, encode_reply};

/// Bounds, and a segment that may go above them.
const BOUND: usize = MAX_HELD_BYTES_TOTAL + MAX_PARTIAL_BYTES_TOTAL + MAX_FLIGHT_TOTAL + (1 << 20);

struct Check {
    transport: bool,
    expects: bool,
    keep: Keep,
}

impl Sink for Check {
    fn message(&mut self, message: &Message<'_>) {
        let (head, tail) = (message.head.len(), message.tail.len());
        assert_eq!(head + message.missing + tail, message.wire_bytes as usize);
        assert!(tail <= TAIL_BYTES);
        assert!(message.complete || message.missing > 0 || message.transport == Transport::Tcp);
        if message.complete && message.missing > 0 {
            assert_eq!((head, tail), (HEAD_BYTES, TAIL_BYTES));
        }
        assert!(message.first.frame > 0 && message.last.frame > 0);
    }
    fn keep(&mut self, front: &Front<'_>) -> Keep {
        assert!(front.head.len() >= HEAD_BYTES);
        self.keep
    }
    fn expects(&self, _: u32, _: &Endpoint, _: &Endpoint, _: u32) -> bool {
        self.expects
    }
    fn wants_transport(&self) -> bool {
        self.transport
    }
    fn transport(&mut self, _: &TransportEvent) {}
}

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
    fn far(&mut self) -> u32 {
        u32::from(self.word()) << 16 | u32::from(self.word())
    }

    /// Raw bytes, or the front of a record that says what it is.
    fn payload(&mut self) -> Vec<u8> {
        let kind = self.byte();
        let bytes = usize::from(self.word()) % 3000;
        let mut message = Vec::new();
        match kind % 6 {
            0 => return self.take(bytes % 100).to_vec(),
            1 => return vec![kind; bytes],
            2 | 3 => {
                let place = [100_003, 3, u32::from(kind) % 22];
                let xid = u32::from(kind);
                let none = &OpaqueAuth::NONE;
                encode_call(&mut message, xid, place, none, none).expect("encodes");
            }
            _ => encode_reply(&mut message, 1, &OpaqueAuth::NONE, ReplyStatus::Success)
                .expect("encodes"),
        }
        message.resize(message.len() + bytes, kind);
        let claims = match kind >> 6 {
            0 => message.len(),
            1 => message.len() + usize::from(self.word()),
            2 => message.len() << 8,
            _ => 30,
        };
        let mark = RecordMark {
            length: claims as u32 & 0x1ff_ffff,
            last: kind % 5 > 0,
        };
        let mut record = mark.to_bytes().to_vec();
        record.append(&mut message);
        record
    }
}

fn segment(input: &mut Input<'_>, next: &mut [[u32; 2]; 4], frame: u64) -> (Segment, Vec<u8>) {
    let what = input.byte();
    let (flow, side) = (usize::from(what & 3), usize::from(what >> 2 & 1));
    let payload = if what & 0x80 == 0 {
        input.payload()
    } else {
        Vec::new()
    };
    let sequence = match what >> 4 & 7 {
        1 => next[flow][side].wrapping_add(u32::from(input.word())),
        2 => next[flow][side].wrapping_sub(u32::from(input.word())),
        3 => input.far(),
        _ => next[flow][side],
    };
    let style = input.byte();
    let acknowledgement = match style & 3 {
        0 | 1 => next[flow][1 - side],
        2 => next[flow][1 - side].wrapping_add(u32::from(input.word())),
        _ => input.far(),
    };
    let extra = if style & 0x0c == 0x0c {
        u32::from(input.word()) * 3
    } else {
        0
    };
    let ends = [0, 1].map(|end| Endpoint {
        host: Host::from_bits(end),
        port: [700 + flow as u16, 2049][end as usize],
    });
    let flags = match style >> 4 & 7 {
        0 => input.byte(),
        1 => 0,
        _ => 0x10,
    };
    let payload_bytes = payload.len() as u32 + extra;
    next[flow][side] = sequence
        .wrapping_add(payload_bytes)
        .wrapping_add(u32::from(flags) >> 1 & 1);
    let time_ns = if style & 0x80 == 0 {
        frame as i64
    } else {
        i64::from(input.far()) << 8
    };
    let segment = Segment {
        time_ns,
        first_ns: time_ns,
        sack: None,
        frame,
        source: ends[side],
        destination: ends[1 - side],
        transport: if flow == 3 {
            Transport::Udp
        } else {
            Transport::Tcp
        },
        flags,
        window_scale: style,
        ip_id: u32::from(style & 7),
        window: u16::from(style & 1),
        sequence,
        acknowledgement,
        payload_at: 0,
        captured_bytes: payload.len() as u32,
        payload_bytes,
    };
    (segment, payload)
}

fuzz_target!(|data: &[u8]| {
    let mut input = Input(data);
    let options = input.byte();
    let mut sink = Check {
        transport: options & 1 != 0,
        expects: options & 2 != 0,
        keep: if options & 4 != 0 {
            Keep::Ends
        } else {
            Keep::Whole
        },
    };
    let mut streams = Streams::default();
    let mut next = [[u32::MAX - 1000; 2]; 4];
    let mut frame = 0;
    while !input.0.is_empty() {
        frame += 1;
        let (segment, payload) = segment(&mut input, &mut next, frame);
        streams.segment(&segment, &payload, &mut sink);
        assert!(streams.kept_bytes() <= BOUND);
    }
    streams.finish(&mut sink);
    assert_eq!(streams.kept_bytes(), 0);
});

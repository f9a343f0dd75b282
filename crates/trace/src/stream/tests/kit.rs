//! Makes streams of RPC messages and packets of them, and records what comes out.

use std::collections::HashSet;

use wire::record::RecordMark;
use wire::rpc::{OpaqueAuth, ReplyStatus, encode_call, encode_reply};

use crate::block::{ACK, Endpoint, Host, NO_SCALE, SYN, Segment, Transport};
use crate::event::TransportEvent;
use crate::stream::{Anomaly, Front, Keep, Message, Sink, Streams};

pub(super) const CLIENT: Endpoint = Endpoint {
    host: Host::from_bits(0xffff_0a00_0001),
    port: 705,
};
pub(super) const SERVER: Endpoint = Endpoint {
    host: Host::from_bits(0xffff_0a00_0002),
    port: 2049,
};

/// A message that came out.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Got {
    pub connection: u32,
    pub from: Endpoint,
    pub xid: u32,
    pub head: Vec<u8>,
    pub missing: usize,
    pub tail: Vec<u8>,
    pub complete: bool,
    pub wire_bytes: u32,
    pub first: (i64, u64),
    pub last: (i64, u64),
    pub resynchronised: bool,
}

/// Keeps all it is told.
#[derive(Debug, Default)]
pub(super) struct Recorder {
    pub messages: Vec<Got>,
    pub events: Vec<TransportEvent>,
    pub transport: bool,
    pub ends: bool,
    pub asked: usize,
    pub awaited: HashSet<u32>,
}

impl Sink for Recorder {
    fn message(&mut self, message: &Message<'_>) {
        let xid = message
            .head
            .first_chunk()
            .map_or(0, |x| u32::from_be_bytes(*x));
        self.messages.push(Got {
            connection: message.connection,
            from: *message.from,
            xid,
            head: message.head.to_vec(),
            missing: message.missing,
            tail: message.tail.to_vec(),
            complete: message.complete,
            wire_bytes: message.wire_bytes,
            first: (message.first.time_ns, message.first.frame),
            last: (message.last.time_ns, message.last.frame),
            resynchronised: message.resynchronised,
        });
    }
    fn keep(&mut self, front: &Front<'_>) -> Keep {
        assert!(front.head.len() >= crate::stream::HEAD_BYTES);
        self.asked += 1;
        if self.ends { Keep::Ends } else { Keep::Whole }
    }
    fn expects(&self, _: u32, _: &Endpoint, _: &Endpoint, xid: u32) -> bool {
        self.awaited.contains(&xid)
    }
    fn wants_transport(&self) -> bool {
        self.transport
    }
    fn transport(&mut self, event: &TransportEvent) {
        self.events.push(*event);
    }
}

/// Bytes that look like nothing: never zero, so never a record.
pub(super) fn filler(seed: u32, bytes: usize) -> Vec<u8> {
    let mut state = u64::from(seed) | 1 << 40;
    (0..bytes)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 56) as u8 | 0x10
        })
        .collect()
}

/// An NFSv3 WRITE call with this many bytes behind its header.
pub(super) fn call(xid: u32, body_bytes: usize) -> Vec<u8> {
    let mut out = Vec::new();
    encode_call(
        &mut out,
        xid,
        [100_003, 3, 7],
        &OpaqueAuth::NONE,
        &OpaqueAuth::NONE,
    )
    .unwrap();
    out.extend(filler(xid, body_bytes));
    out
}

/// An accepted reply with this many bytes behind its header.
pub(super) fn reply(xid: u32, body_bytes: usize) -> Vec<u8> {
    let mut out = Vec::new();
    encode_reply(&mut out, xid, &OpaqueAuth::NONE, ReplyStatus::Success).unwrap();
    out.extend(filler(xid, body_bytes));
    out
}

/// A message's place in a stream: from its first record mark's first byte to its end.
#[derive(Clone, Debug)]
pub(super) struct Placed {
    pub start: usize,
    pub end: usize,
    pub message: Vec<u8>,
}

impl Placed {
    pub(super) fn xid(&self) -> u32 {
        u32::from_be_bytes(*self.message.first_chunk().unwrap())
    }
}

/// A stream of records.
#[derive(Clone, Debug, Default)]
pub(super) struct Stream {
    pub bytes: Vec<u8>,
    pub placed: Vec<Placed>,
}

impl Stream {
    /// Appends a message in fragments that end at these offsets, and at its end.
    pub(super) fn put(&mut self, message: Vec<u8>, fragment_ends: &[usize]) {
        let start = self.bytes.len();
        let mut from = 0;
        let inner = fragment_ends
            .iter()
            .copied()
            .filter(|end| *end < message.len());
        for to in inner.chain([message.len()]) {
            if to < from || to == from && to > 0 {
                continue;
            }
            let mark = RecordMark {
                length: (to - from) as u32,
                last: to == message.len(),
            };
            self.bytes.extend(mark.to_bytes());
            self.bytes.extend(&message[from..to]);
            from = to;
        }
        let end = self.bytes.len();
        self.placed.push(Placed {
            start,
            end,
            message,
        });
    }

    pub(super) fn of(messages: impl IntoIterator<Item = Vec<u8>>) -> Self {
        let mut stream = Stream::default();
        for message in messages {
            stream.put(message, &[]);
        }
        stream
    }

    /// Stretches between these cuts.
    pub(super) fn cut_at(&self, cuts: &[usize]) -> Vec<(usize, usize)> {
        let mut all: Vec<usize> = cuts
            .iter()
            .map(|cut| cut % (self.bytes.len() + 1))
            .collect();
        all.extend([0, self.bytes.len()]);
        all.sort_unstable();
        all.dedup();
        all.windows(2).map(|pair| (pair[0], pair[1])).collect()
    }

    /// Stretches of a fixed size.
    pub(super) fn cut_every(&self, bytes: usize) -> Vec<(usize, usize)> {
        (0..self.bytes.len())
            .step_by(bytes)
            .map(|from| (from, (from + bytes).min(self.bytes.len())))
            .collect()
    }

    pub(super) fn xids(&self) -> HashSet<u32> {
        self.placed.iter().map(Placed::xid).collect()
    }
}

/// A capture under way: gives packets their time (1 us apart) and frame.
#[derive(Debug, Default)]
pub(super) struct Wire {
    pub streams: Streams,
    pub sink: Recorder,
    pub frame: u64,
    pub time_ns: i64,
    pub ip_id: u32,
    /// Of segments with data. With `ACK`, as real ones have it, they may take the fast paths; none
    /// has an acknowledgement, so the other side must not send.
    pub data_flags: u8,
}

impl Wire {
    pub(super) fn base(&mut self, from: Endpoint) -> Segment {
        self.frame += 1;
        self.time_ns += 1000;
        self.ip_id = (self.ip_id + 1) & 0xffff;
        self.ip_id += u32::from(self.ip_id == 0);
        Segment {
            time_ns: self.time_ns,
            first_ns: self.time_ns,
            frame: self.frame,
            source: from,
            destination: if from == SERVER { CLIENT } else { SERVER },
            transport: Transport::Tcp,
            window_scale: NO_SCALE,
            window: 1000,
            ip_id: self.ip_id,
            flags: self.data_flags,
            ..Segment::default()
        }
    }

    pub(super) fn give(&mut self, segment: &Segment, payload: &[u8]) {
        self.streams.segment(segment, payload, &mut self.sink);
    }

    pub(super) fn syn(&mut self, from: Endpoint, isn: u32) {
        let segment = Segment {
            flags: SYN,
            sequence: isn,
            ..self.base(from)
        };
        self.give(&segment, &[]);
    }

    pub(super) fn flags(&mut self, from: Endpoint, flags: u8, sequence: u32) {
        let segment = Segment {
            flags,
            sequence,
            ..self.base(from)
        };
        self.give(&segment, &[]);
    }

    /// A segment whose payload is captured up to `snaplen` bytes; gives its time and frame.
    pub(super) fn data(
        &mut self,
        from: Endpoint,
        sequence: u32,
        payload: &[u8],
        snaplen: usize,
    ) -> (i64, u64) {
        let captured = payload.len().min(snaplen);
        let segment = Segment {
            sequence,
            payload_bytes: payload.len() as u32,
            captured_bytes: captured as u32,
            ..self.base(from)
        };
        self.give(&segment, &payload[..captured]);
        (segment.time_ns, segment.frame)
    }

    pub(super) fn ack(&mut self, from: Endpoint, acknowledgement: u32) {
        let segment = Segment {
            flags: ACK,
            acknowledgement,
            ..self.base(from)
        };
        self.give(&segment, &[]);
    }

    pub(super) fn finish(&mut self) {
        self.streams.finish(&mut self.sink);
    }

    pub(super) fn count(&self, kind: Anomaly) -> u64 {
        self.streams.counters().anomalies.of(kind)
    }

    pub(super) fn xids(&self) -> Vec<u32> {
        self.sink.messages.iter().map(|got| got.xid).collect()
    }
}

/// All of a message that was handed on whole.
pub(super) fn whole(got: &Got) -> &[u8] {
    assert!(
        got.complete && got.missing == 0 && got.tail.is_empty(),
        "{got:?}"
    );
    &got.head
}

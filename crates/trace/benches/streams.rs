//! Cost of a segment in the streams: `cargo bench -p nfslab-trace --bench streams`.
//!
//! Prints the best nanoseconds a segment for small records of one flow and of sixteen, and for
//! 1448-byte segments inside large READ replies, with and without transport events. With arguments
//! (`NAME ROUNDS`) it runs one of them and prints nothing, for instruction counts:
//! `valgrind --tool=callgrind target/release/deps/streams-* small 20`.

use std::hint::black_box;
use std::time::Instant;

use trace::block::{ACK, Endpoint, Host, NO_SCALE, SYN, Segment, Transport};
use trace::event::TransportEvent;
use trace::stream::{Front, Keep, Message, Sink, Streams};
use wire::record::RecordMark;
use wire::rpc::{OpaqueAuth, ReplyStatus, encode_call, encode_reply};

const ROUNDS: usize = 15;
const SEGMENTS: usize = 100_000;

/// Counts, so that nothing is left out.
#[derive(Default)]
struct Count {
    transport: bool,
    messages: u64,
    bytes: u64,
    events: u64,
}

impl Sink for Count {
    fn message(&mut self, message: &Message<'_>) {
        self.messages += 1;
        self.bytes += u64::from(message.wire_bytes) + message.head.len() as u64;
    }
    fn keep(&mut self, _: &Front<'_>) -> Keep {
        Keep::Ends
    }
    fn expects(&self, _: u32, _: &Endpoint, _: &Endpoint, _: u32) -> bool {
        true
    }
    fn wants_transport(&self) -> bool {
        self.transport
    }
    fn transport(&mut self, _: &TransportEvent) {
        self.events += 1;
    }
}

fn record(message: &[u8]) -> Vec<u8> {
    let mark = RecordMark {
        length: message.len() as u32,
        last: true,
    };
    [&mark.to_bytes(), message].concat()
}

fn call() -> Vec<u8> {
    let mut out = Vec::new();
    let place = [wire::programs::NFS, 3, 1];
    encode_call(&mut out, 7, place, &OpaqueAuth::NONE, &OpaqueAuth::NONE).unwrap_or_default();
    out.resize(120, 0x55);
    record(&out)
}

fn reply(bytes: usize) -> Vec<u8> {
    let mut out = Vec::new();
    encode_reply(&mut out, 7, &OpaqueAuth::NONE, ReplyStatus::Success).unwrap_or_default();
    out.resize(bytes, 0x55);
    record(&out)
}

/// Segments of a capture, with their payloads in one buffer.
#[derive(Default)]
struct Capture {
    bytes: Vec<u8>,
    segments: Vec<Segment>,
    sequences: Vec<[u32; 2]>,
}

impl Capture {
    fn flow(&mut self, flow: usize) -> &mut [u32; 2] {
        if self.sequences.len() <= flow {
            self.sequences.resize(flow + 1, [0, 0]);
            for side in [0, 1] {
                self.segment(flow, side, &[], SYN);
                self.sequences[flow][side] = 1;
            }
        }
        &mut self.sequences[flow]
    }

    fn segment(&mut self, flow: usize, side: usize, payload: &[u8], flags: u8) {
        let end = |host: u128, port: u16| Endpoint {
            host: Host::from_bits(0xffff_0a00_0000 + host),
            port,
        };
        let ends = [end(1, 700 + flow as u16), end(2, 2049)];
        let number = self.segments.len() as u64;
        self.segments.push(Segment {
            time_ns: number as i64 * 1000,
            first_ns: number as i64 * 1000,
            frame: number + 1,
            source: ends[side],
            destination: ends[1 - side],
            transport: Transport::Tcp,
            flags,
            window_scale: NO_SCALE,
            ip_id: number as u32 & 0xffff,
            window: 500,
            sequence: self.sequences[flow][side],
            acknowledgement: self.sequences[flow][1 - side],
            payload_at: self.bytes.len() as u32,
            captured_bytes: payload.len() as u32,
            payload_bytes: payload.len() as u32,
            sack: None,
        });
        self.bytes.extend_from_slice(payload);
        let sequence = &mut self.sequences[flow][side];
        *sequence = sequence.wrapping_add(payload.len() as u32);
    }

    /// Calls and replies of one segment each, flows taking turns.
    fn small(flows: usize) -> Self {
        let mut capture = Capture::default();
        let (call, reply) = (call(), reply(140));
        for at in 0..SEGMENTS / 2 {
            capture.flow(at % flows);
            capture.segment(at % flows, 0, &call, ACK);
            capture.segment(at % flows, 1, &reply, ACK);
        }
        capture
    }

    /// READ replies of 1 MiB in segments of 1448 bytes, every second one acknowledged.
    fn large() -> Self {
        let mut capture = Capture::default();
        let (call, reply) = (call(), reply((1 << 20) + 128));
        capture.flow(0);
        while capture.segments.len() < SEGMENTS {
            capture.segment(0, 0, &call, ACK);
            for (at, part) in reply.chunks(1448).enumerate() {
                capture.segment(0, 1, part, ACK);
                if at % 2 == 1 {
                    capture.segment(0, 0, &[], ACK);
                }
            }
        }
        capture
    }

    fn run(&self, transport: bool) -> Count {
        let mut streams = Streams::default();
        let mut sink = Count {
            transport,
            ..Count::default()
        };
        for segment in &self.segments {
            let from = segment.payload_at as usize;
            let payload = &self.bytes[from..from + segment.captured_bytes as usize];
            streams.segment(segment, payload, &mut sink);
        }
        streams.finish(&mut sink);
        assert_eq!(
            streams.counters().anomalies.iter().count(),
            0,
            "{:?}",
            streams.counters()
        );
        sink
    }
}

/// Name, how to make the capture, whether events below RPC are wanted.
type Case = (&'static str, fn() -> Capture, bool);

fn main() {
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    let cases: [Case; 5] = [
        ("small", || Capture::small(1), false),
        ("small_16_flows", || Capture::small(16), false),
        ("large", Capture::large, false),
        ("small_transport", || Capture::small(1), true),
        ("large_transport", Capture::large, true),
    ];
    for (name, make, transport) in cases {
        if arguments.first().is_some_and(|wanted| wanted != name) {
            continue;
        }
        let capture = make();
        if let Some(rounds) = arguments.get(1).and_then(|rounds| rounds.parse().ok()) {
            for _ in 0..rounds {
                black_box(capture.run(transport));
            }
            continue;
        }
        let best_ns = (0..ROUNDS)
            .map(|_| {
                let start = Instant::now();
                black_box(capture.run(transport));
                start.elapsed().as_nanos()
            })
            .min()
            .unwrap_or(0);
        let sink = capture.run(transport);
        let each = best_ns as f64 / capture.segments.len() as f64;
        let (messages, events) = (sink.messages, sink.events);
        println!("{name:18} {each:6.1} ns a segment ({messages} messages, {events} events)");
    }
}

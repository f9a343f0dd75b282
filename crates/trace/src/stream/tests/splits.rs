//! Any split of a stream into segments, in any order within the window, with copies and overlaps,
//! gives the messages, in order, with the instants of the packets that first carried their bytes.

use proptest::prelude::*;

use super::kit::{CLIENT, Recorder, SERVER, Stream, Wire, call, reply, whole};
use crate::block::ACK;
use crate::stream::Anomaly;

/// A packet to be sent: stretch of the stream, and whether its bytes are spoiled.
#[derive(Clone, Copy, Debug)]
struct Packet {
    from: usize,
    to: usize,
    spoiled: bool,
    /// Same packet as the one before.
    copy: bool,
}

#[derive(Clone, Debug)]
struct Plan {
    stream: Stream,
    calls: bool,
    packets: Vec<Packet>,
    isn: u32,
    ip_ids: bool,
}

fn stream(calls: bool) -> impl Strategy<Value = Stream> {
    let size = prop_oneof![4 => 0..200usize, 2 => 0..3000usize, 1 => 0..20_000usize];
    let fragments = prop_oneof![
        5 => Just(Vec::new()),
        1 => proptest::collection::vec(0..3000usize, 1..6),
    ];
    proptest::collection::vec((size, fragments), 1..12).prop_map(move |messages| {
        let mut stream = Stream::default();
        for (xid, (size, mut ends)) in messages.into_iter().enumerate() {
            ends.sort_unstable();
            let xid = 0x1234_5600 + xid as u32;
            let message = if calls {
                call(xid, size)
            } else {
                reply(xid, size)
            };
            stream.put(message, &ends);
        }
        stream
    })
}

fn plan() -> impl Strategy<Value = Plan> {
    let isn = prop_oneof![Just(u32::MAX - 1), Just(u32::MAX - 500), any::<u32>()];
    (
        any::<bool>().prop_flat_map(|calls| (Just(calls), stream(calls))),
        isn,
        any::<bool>(),
    )
        .prop_flat_map(|((calls, stream), isn, ip_ids)| {
            let length = stream.bytes.len();
            let pieces = 1 + length / 40;
            let cuts = proptest::collection::vec(0..=length, 0..pieces.min(300));
            let delays = proptest::collection::vec(0..12usize, 300);
            let extra = proptest::collection::vec(
                (0..length, 1..2000usize, 0..300usize, any::<bool>()),
                0..8,
            );
            (Just((calls, stream, isn, ip_ids)), cuts, delays, extra)
        })
        .prop_map(|((calls, stream, isn, ip_ids), cuts, delays, extra)| {
            let packets = order(&stream, &cuts, &delays, &extra);
            Plan {
                stream,
                calls,
                packets,
                isn,
                ip_ids,
            }
        })
}

/// Each stretch is sent once, delayed by a few packets; further packets overlap others.
fn order(
    stream: &Stream,
    cuts: &[usize],
    delays: &[usize],
    extra: &[(usize, usize, usize, bool)],
) -> Vec<Packet> {
    let mut timed: Vec<(usize, Packet)> = stream
        .cut_at(cuts)
        .into_iter()
        .enumerate()
        .map(|(at, (from, to))| {
            let delay = delays[at % delays.len()];
            let packet = Packet {
                from,
                to,
                spoiled: false,
                copy: false,
            };
            (2 * (at + delay / 3 * delay), packet)
        })
        .collect();
    let count = timed.len();
    for &(from, bytes, when, copy) in extra {
        let to = (from + bytes).min(stream.bytes.len());
        let packet = Packet {
            from,
            to,
            spoiled: true,
            copy: false,
        };
        let when = 2 * (when % (count + 10)) + 1;
        timed.push((when, packet));
        if copy {
            timed.push((
                when,
                Packet {
                    copy: true,
                    ..packet
                },
            ));
        }
    }
    timed.sort_by_key(|(when, _)| *when);
    timed.into_iter().map(|(_, packet)| packet).collect()
}

struct Expected {
    stamps: Vec<Option<(i64, u64)>>,
}

/// Sends a plan. A packet whose bytes nobody sent before is never spoiled.
fn send(plan: &Plan, sink: Recorder) -> (Wire, Expected) {
    let mut wire = Wire {
        sink,
        data_flags: ACK,
        ..Wire::default()
    };
    let sender = if plan.calls { CLIENT } else { SERVER };
    wire.syn(sender, plan.isn);
    let mut stamps = vec![None; plan.stream.bytes.len()];
    for packet in &plan.packets {
        let mut bytes = plan.stream.bytes[packet.from..packet.to].to_vec();
        for (byte, stamp) in bytes.iter_mut().zip(&stamps[packet.from..packet.to]) {
            if packet.spoiled && stamp.is_some() {
                *byte ^= 0xff;
            }
        }
        if packet.copy {
            wire.ip_id -= 1;
        }
        let ip_id = wire.ip_id;
        if !plan.ip_ids {
            wire.ip_id = 0xffff_0000;
        }
        let sequence = plan.isn.wrapping_add(1 + packet.from as u32);
        let stamp = if plan.ip_ids {
            wire.data(sender, sequence, &bytes, usize::MAX)
        } else {
            without_id(&mut wire, sender, sequence, &bytes)
        };
        if !plan.ip_ids {
            wire.ip_id = ip_id + 1;
        }
        for slot in &mut stamps[packet.from..packet.to] {
            slot.get_or_insert(stamp);
        }
    }
    wire.finish();
    (wire, Expected { stamps })
}

fn without_id(
    wire: &mut Wire,
    sender: crate::block::Endpoint,
    sequence: u32,
    bytes: &[u8],
) -> (i64, u64) {
    let segment = crate::block::Segment {
        sequence,
        payload_bytes: bytes.len() as u32,
        captured_bytes: bytes.len() as u32,
        ip_id: 0,
        ..wire.base(sender)
    };
    wire.give(&segment, bytes);
    (segment.time_ns, segment.frame)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn any_split_and_order_gives_the_messages(plan in plan()) {
        let (wire, expected) = send(&plan, Recorder::default());
        let got = &wire.sink.messages;
        prop_assert_eq!(got.len(), plan.stream.placed.len());
        for (got, placed) in got.iter().zip(&plan.stream.placed) {
            prop_assert_eq!(whole(got), &placed.message[..]);
            prop_assert_eq!(got.wire_bytes as usize, placed.message.len());
            prop_assert_eq!(Some(got.first), expected.stamps[placed.start]);
            prop_assert_eq!(Some(got.last), expected.stamps[placed.end - 1]);
            prop_assert!(!got.resynchronised);
        }
        prop_assert_eq!(wire.streams.counters().lost.bytes, 0);
        prop_assert_eq!(wire.count(Anomaly::UnsynchronisedBytes), 0);
    }

    #[test]
    fn ends_are_kept_by_arithmetic(plan in plan()) {
        let (wire, expected) = send(&plan, Recorder { ends: true, ..Recorder::default() });
        let got = &wire.sink.messages;
        // Who wants to know of segments is not given the fast paths.
        let all = Recorder { ends: true, transport: true, ..Recorder::default() };
        let (in_full, _) = send(&plan, all);
        prop_assert_eq!(got, &in_full.sink.messages);
        prop_assert_eq!(got.len(), plan.stream.placed.len());
        for (got, placed) in got.iter().zip(&plan.stream.placed) {
            prop_assert!(got.complete);
            let length = placed.message.len();
            prop_assert_eq!(got.wire_bytes as usize, length);
            prop_assert_eq!(got.head.len() + got.missing + got.tail.len(), length);
            prop_assert_eq!(&got.head[..], &placed.message[..got.head.len()]);
            prop_assert_eq!(&got.tail[..], &placed.message[length - got.tail.len()..]);
            if got.missing > 0 {
                prop_assert_eq!((got.head.len(), got.tail.len()), (2048, 1024));
            }
            prop_assert_eq!(Some(got.first), expected.stamps[placed.start]);
            prop_assert_eq!(Some(got.last), expected.stamps[placed.end - 1]);
        }
    }
}

#[test]
fn one_byte_a_segment() {
    let stream = Stream::of([call(1, 0), call(2, 13), call(3, 700)]);
    let mut wire = Wire::default();
    wire.syn(CLIENT, 7);
    for (from, byte) in stream.bytes.iter().enumerate() {
        wire.data(CLIENT, 8 + from as u32, &[*byte], usize::MAX);
    }
    wire.finish();
    assert_eq!(wire.xids(), [1, 2, 3]);
    let got = &wire.sink.messages[1];
    assert_eq!(whole(got), &stream.placed[1].message[..]);
    // The SYN is frame 1.
    assert_eq!(got.first.1, 2 + stream.placed[1].start as u64);
    assert_eq!(got.last.1, 1 + stream.placed[1].end as u64);
}

#[test]
fn kept_whole_or_in_its_ends_as_the_sink_says() {
    for (ends, missing) in [(false, 0), (true, 100_000 + 40 - 2048 - 1024)] {
        let stream = Stream::of([call(1, 10), call(2, 100_000), call(3, 10)]);
        let mut wire = Wire {
            data_flags: ACK,
            ..Wire::default()
        };
        wire.sink.ends = ends;
        wire.syn(CLIENT, 7);
        for (from, to) in stream.cut_every(1448) {
            wire.data(CLIENT, 8 + from as u32, &stream.bytes[from..to], usize::MAX);
        }
        wire.finish();
        assert_eq!(wire.xids(), [1, 2, 3]);
        assert_eq!(wire.sink.asked, 1);
        assert_eq!(wire.sink.messages[1].missing, missing);
        assert!(wire.sink.messages[1].complete);
    }
}

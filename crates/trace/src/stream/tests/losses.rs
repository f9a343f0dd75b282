//! Holes: every message that touches none is found again, the holes' bytes are counted exactly,
//! and what is handed on of a message in a hole is a front and an end of it.

use proptest::prelude::*;

use super::kit::{CLIENT, Got, Placed, Recorder, SERVER, Stream, Wire, call, reply};
use crate::block::Endpoint;
use crate::limits::NOT_RPC_BYTES;
use crate::stream::{Anomaly, Lost};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Acknowledged {
    Never,
    AfterEach,
    AtTheEnd,
}

#[derive(Clone, Debug)]
struct Plan {
    stream: Stream,
    sender: Endpoint,
    pieces: Vec<(usize, usize, bool)>,
    acknowledged: Acknowledged,
    isn: u32,
    ends: bool,
}

fn plan() -> impl Strategy<Value = Plan> {
    let size = prop_oneof![4 => 0..200usize, 2 => 0..3000usize, 1 => 0..20_000usize];
    let fragment = prop_oneof![4 => Just(0usize), 1 => 40..2000usize];
    let messages = proptest::collection::vec((size, fragment), 2..30);
    let acknowledged = prop_oneof![
        Just(Acknowledged::Never),
        Just(Acknowledged::AfterEach),
        Just(Acknowledged::AtTheEnd),
    ];
    let how = (acknowledged, any::<bool>(), any::<u32>(), any::<bool>());
    (messages, how)
        .prop_flat_map(|(messages, how)| {
            let mut stream = Stream::default();
            for (xid, (size, fragment)) in messages.into_iter().enumerate() {
                let xid = 0x7777_0000 + xid as u32;
                let message = if how.1 {
                    call(xid, size)
                } else {
                    reply(xid, size)
                };
                stream.put(
                    message,
                    if fragment == 0 {
                        &[]
                    } else {
                        std::slice::from_ref(&fragment)
                    },
                );
            }
            let length = stream.bytes.len();
            let cuts = proptest::collection::vec(0..=length, 2..60);
            let dropped = proptest::collection::vec(prop::bool::weighted(0.2), 62);
            (Just((stream, how)), cuts, dropped)
        })
        .prop_map(|((stream, how), cuts, dropped)| {
            let cut = stream.cut_at(&cuts);
            let last = cut.len() - 1;
            let pieces = cut
                .into_iter()
                .zip(dropped)
                .enumerate()
                .map(|(at, ((from, to), dropped))| (from, to, dropped && at != last))
                .collect();
            let (acknowledged, calls, isn, ends) = how;
            let sender = if calls { CLIENT } else { SERVER };
            Plan {
                stream,
                sender,
                pieces,
                acknowledged,
                isn,
                ends,
            }
        })
}

fn send(plan: &Plan) -> Wire {
    let mut wire = Wire {
        sink: Recorder {
            awaited: plan.stream.xids(),
            ends: plan.ends,
            ..Recorder::default()
        },
        ..Wire::default()
    };
    let receiver = if plan.sender == CLIENT {
        SERVER
    } else {
        CLIENT
    };
    wire.syn(plan.sender, plan.isn);
    for &(from, to, dropped) in &plan.pieces {
        let sequence = plan.isn.wrapping_add(1 + from as u32);
        if !dropped {
            wire.data(
                plan.sender,
                sequence,
                &plan.stream.bytes[from..to],
                usize::MAX,
            );
        }
        let end = plan.isn.wrapping_add(1 + to as u32);
        let all = to == plan.stream.bytes.len();
        match plan.acknowledged {
            Acknowledged::AfterEach => wire.ack(receiver, end),
            Acknowledged::AtTheEnd if all => wire.ack(receiver, end),
            _ => {}
        }
    }
    wire.finish();
    wire
}

fn holes(plan: &Plan) -> Vec<(usize, usize)> {
    let mut holes: Vec<(usize, usize)> = Vec::new();
    for &(from, to, _) in plan.pieces.iter().filter(|piece| piece.2) {
        match holes.last_mut() {
            Some(hole) if hole.1 == from => hole.1 = to,
            _ => holes.push((from, to)),
        }
    }
    holes
}

fn check_part(got: &Got, placed: &Placed) -> Result<(), TestCaseError> {
    let length = placed.message.len();
    prop_assert!(!got.complete);
    prop_assert!(got.head.len() >= 12 && got.wire_bytes as usize <= length);
    prop_assert_eq!(&got.head[..], &placed.message[..got.head.len()]);
    let end = got.wire_bytes as usize;
    prop_assert_eq!(&got.tail[..], &placed.message[end - got.tail.len()..end]);
    prop_assert_eq!(got.head.len() + got.missing + got.tail.len(), end);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn a_hole_costs_only_what_lies_in_it(plan in plan()) {
        let holes = holes(&plan);
        let touched =
            |placed: &Placed| holes.iter().any(|(from, to)| *from < placed.end && *to > placed.start);
        // A connection that shows no RPC for so long is passed over.
        let first = plan.stream.placed.iter().find(|placed| !touched(placed));
        prop_assume!(first.is_none_or(|placed| (placed.start as u64) < NOT_RPC_BYTES));
        let wire = send(&plan);
        let lost = Lost {
            bytes: holes.iter().map(|(from, to)| (to - from) as u64).sum(),
            gaps: holes.len() as u64,
        };
        let mut got = wire.sink.messages.iter().peekable();
        let mut found_any = false;
        for placed in &plan.stream.placed {
            let touched = touched(placed);
            let this = got.next_if(|got| got.xid == placed.xid());
            match this {
                Some(got) if !touched => {
                    prop_assert!(got.complete);
                    prop_assert_eq!(&got.head[..], &placed.message[..got.head.len()]);
                    prop_assert_eq!(got.wire_bytes as usize, placed.message.len());
                    found_any = true;
                }
                Some(got) => {
                    check_part(got, placed)?;
                    found_any = true;
                }
                None => prop_assert!(touched, "message {:x} is missing", placed.xid()),
            }
        }
        prop_assert!(got.next().is_none(), "a message that nobody sent");
        // Of a connection in which nothing was found, nothing is known to be lost.
        if found_any {
            prop_assert_eq!(wire.streams.counters().lost, lost);
        }
        prop_assert_eq!(wire.count(Anomaly::ResynchronisedWrongly), 0);
    }
}

/// Records of 140 bytes, 10 to a segment.
fn regular(calls: bool, count: u32) -> Stream {
    Stream::of((0..count).map(|xid| {
        if calls {
            call(xid, 96)
        } else {
            reply(xid, 112)
        }
    }))
}

#[test]
fn a_lost_tail_is_counted_if_it_was_acknowledged() {
    let stream = regular(true, 30);
    let mut wire = Wire::default();
    wire.syn(CLIENT, 0);
    wire.data(CLIENT, 1, &stream.bytes[..2800], usize::MAX);
    wire.ack(SERVER, 1 + 4200);
    wire.finish();
    assert_eq!(wire.sink.messages.len(), 20);
    assert_eq!(
        wire.streams.counters().lost,
        Lost {
            bytes: 1400,
            gaps: 1
        }
    );
}

#[test]
fn a_record_goes_on_behind_a_hole_inside_it() {
    let stream = Stream::of([reply(1, 0), reply(2, 60_000), reply(3, 0)]);
    for ends in [false, true] {
        let mut wire = Wire::default();
        wire.sink.ends = ends;
        wire.syn(SERVER, 0);
        for (from, to) in stream
            .cut_every(1000)
            .into_iter()
            .filter(|(from, _)| *from != 30_000)
        {
            wire.data(SERVER, 1 + from as u32, &stream.bytes[from..to], usize::MAX);
        }
        wire.ack(CLIENT, 1 + stream.bytes.len() as u32);
        wire.finish();
        assert_eq!(wire.xids(), [1, 2, 3]);
        let long = &wire.sink.messages[1];
        assert!(!long.complete && long.wire_bytes == 60_024);
        assert_eq!(long.tail, stream.placed[1].message[60_024 - 1024..]);
        let head = if ends { 2048 } else { 30_000 - 28 - 4 };
        assert_eq!(long.head, stream.placed[1].message[..head]);
        // Segment k (from 0) is frame k + 2; the one of 30,000 is not there.
        assert_eq!((long.first.1, long.last.1), (2, 61));
        assert!(wire.sink.messages.iter().all(|got| !got.resynchronised));
        assert_eq!(
            wire.streams.counters().lost,
            Lost {
                bytes: 1000,
                gaps: 1
            }
        );
    }
}

#[test]
fn the_first_record_behind_a_hole_says_so() {
    let stream = regular(true, 30);
    let mut wire = Wire::default();
    wire.syn(CLIENT, 0);
    wire.data(CLIENT, 1, &stream.bytes[..1000], usize::MAX);
    wire.ack(SERVER, 1 + 2000);
    wire.data(CLIENT, 1 + 2000, &stream.bytes[2000..], usize::MAX);
    assert_eq!(wire.sink.messages.len(), 7);
    // Acknowledged beyond: given up soon, not only at the end. Record 7 began in front.
    wire.ack(SERVER, 1 + 2000);
    wire.time_ns += 4_000_000;
    wire.ack(SERVER, 1 + 2000);
    let expected: Vec<u32> = (0..8).chain(15..30).collect();
    assert_eq!(wire.xids(), expected);
    let marked: Vec<u32> = wire
        .sink
        .messages
        .iter()
        .filter(|got| got.resynchronised)
        .map(|got| got.xid)
        .collect();
    assert_eq!(marked, [15]);
    wire.finish();
    assert_eq!(wire.count(Anomaly::Resynchronised), 1);
    // From 2000 to record 15 at 2100.
    assert_eq!(wire.count(Anomaly::UnsynchronisedBytes), 100);
}

#[test]
fn a_hole_is_waited_for_while_nothing_tells_that_it_stays() {
    let stream = regular(true, 30);
    let mut wire = Wire::default();
    wire.syn(CLIENT, 0);
    wire.data(CLIENT, 1, &stream.bytes[..1400], usize::MAX);
    wire.data(CLIENT, 2801, &stream.bytes[2800..], usize::MAX);
    wire.ack(SERVER, 1401);
    wire.time_ns += 9_000_000_000;
    wire.ack(SERVER, 1401);
    assert_eq!(wire.sink.messages.len(), 10);
    wire.data(CLIENT, 1401, &stream.bytes[1400..2800], usize::MAX);
    assert_eq!(wire.sink.messages.len(), 30);
    wire.finish();
    assert_eq!(wire.streams.counters().lost, Lost::default());
}

#[test]
fn a_hole_is_given_up_after_a_while() {
    let stream = regular(true, 40);
    let mut wire = Wire::default();
    wire.syn(CLIENT, 0);
    wire.data(CLIENT, 1, &stream.bytes[..1400], usize::MAX);
    wire.data(CLIENT, 2801, &stream.bytes[2800..4200], usize::MAX);
    wire.time_ns += 11_000_000_000;
    wire.data(CLIENT, 4201, &stream.bytes[4200..], usize::MAX);
    assert_eq!(wire.sink.messages.len(), 30);
    // What comes later was given up.
    wire.data(CLIENT, 1401, &stream.bytes[1400..2800], usize::MAX);
    wire.finish();
    assert_eq!(
        wire.streams.counters().lost,
        Lost {
            bytes: 1400,
            gaps: 1
        }
    );
    assert_eq!(wire.count(Anomaly::TcpLate), 1);
}

#[test]
fn no_more_is_held_than_the_bound() {
    // 6 MB behind a hole that nobody fills, in pieces of all sizes.
    for piece in [60_000, 1448, 70] {
        let stream = Stream::of((0..6000).map(|xid| call(xid, 956)));
        let mut wire = Wire::default();
        wire.syn(CLIENT, 0);
        for (from, to) in stream.cut_every(piece).into_iter().skip(1) {
            wire.data(CLIENT, 1 + from as u32, &stream.bytes[from..to], usize::MAX);
        }
        let before_the_end = wire.sink.messages.len();
        wire.finish();
        assert!(before_the_end > 1000, "{before_the_end}");
        let lost = stream
            .placed
            .iter()
            .filter(|placed| placed.start < piece)
            .count();
        assert_eq!(wire.sink.messages.len(), 6000 - lost);
        assert_eq!(
            wire.streams.counters().lost,
            Lost {
                bytes: piece as u64,
                gaps: 1
            }
        );
        assert!(wire.count(Anomaly::HeldBound) >= 1);
    }
}

#[test]
fn replies_in_the_middle_of_segments_need_a_witness() {
    // One reply, alone, at an odd place behind a hole: believed if its xid is awaited.
    for awaited in [false, true] {
        let stream = Stream::of([reply(1, 500), reply(2, 500), reply(3, 500)]);
        let mut wire = Wire::default();
        // Calls were seen: xids can be told.
        wire.syn(CLIENT, 0);
        wire.syn(SERVER, 0);
        let calls = Stream::of([call(1, 0), call(2, 0), call(3, 0)]);
        wire.data(CLIENT, 1, &calls.bytes, usize::MAX);
        if awaited {
            wire.sink.awaited = stream.xids();
        }
        // The second's mark is lost, its bytes go on; the third ends with the segment.
        wire.data(SERVER, 1, &stream.bytes[..500], usize::MAX);
        wire.data(SERVER, 1 + 600, &stream.bytes[600..], usize::MAX);
        wire.finish();
        let replies: Vec<u32> = wire.xids()[3..].to_vec();
        assert_eq!(replies, if awaited { vec![1, 3] } else { vec![1] });
    }
}

#[test]
fn a_hole_of_three_gigabytes_does_not_end_the_stream() {
    let stream = regular(true, 300_000);
    let mut wire = Wire::default();
    wire.syn(CLIENT, 0);
    wire.data(CLIENT, 1, &stream.bytes[..1400], usize::MAX);
    let far = 3_000_000_000u32;
    for (from, to) in stream.cut_every(1400).into_iter().skip(1) {
        wire.data(
            CLIENT,
            far + from as u32,
            &stream.bytes[from..to],
            usize::MAX,
        );
    }
    wire.finish();
    assert_eq!(wire.count(Anomaly::SequenceJump), 1);
    // The two segments that were not believed yet are all that is missing.
    assert_eq!(wire.sink.messages.len(), 300_000 - 20);
}

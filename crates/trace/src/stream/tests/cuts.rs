//! Packets cut by a short snapshot length.

use super::kit::{CLIENT, SERVER, Stream, Wire, call, reply};
use crate::stream::{Anomaly, Lost};

/// TCP payload that a snapshot length leaves: Ethernet, IPv4, TCP with timestamps.
fn payload(snaplen: usize) -> usize {
    snaplen - 14 - 20 - 32
}

#[test]
fn large_replies_keep_header_and_instants() {
    for snaplen in [96, 128, 256, 1514] {
        let stream = Stream::of((0..20).map(|xid| reply(xid, 65_536 + 104)));
        let mut wire = Wire::default();
        wire.sink.ends = true;
        wire.syn(SERVER, 0);
        // A server hands each reply to TCP by itself: it begins a segment.
        let mut frames = Vec::new();
        for placed in &stream.placed {
            let record = &stream.bytes[placed.start..placed.end];
            let mut last = 0;
            let first = wire.frame + 1;
            for (at, part) in record.chunks(1448).enumerate() {
                let sequence = 1 + (placed.start + at * 1448) as u32;
                last = wire.data(SERVER, sequence, part, payload(snaplen)).1;
            }
            frames.push((first, last));
        }
        wire.finish();
        assert_eq!(wire.xids(), (0..20).collect::<Vec<u32>>());
        for (got, frames) in wire.sink.messages.iter().zip(frames) {
            assert_eq!((got.first.1, got.last.1), frames);
            assert_eq!(got.wire_bytes, 65_536 + 104 + 24);
            let whole = got.head.len() + got.missing + got.tail.len();
            assert_eq!(whole, got.wire_bytes as usize);
            assert_eq!(got.complete, snaplen == 1514);
            if snaplen < 1514 {
                assert_eq!(got.head.len(), payload(snaplen) - 4);
            }
            assert!(!got.resynchronised);
        }
        assert_eq!(wire.streams.counters().lost, Lost::default());
        let cut = if snaplen == 1514 { 0 } else { 20 };
        assert_eq!(wire.count(Anomaly::RecordCut), cut);
    }
}

#[test]
fn the_next_segment_is_tried_when_a_mark_was_cut_away() {
    // Two calls to a segment: the second's mark lies in the cut, the next segment's first call
    // begins it.
    let stream = Stream::of((0..40).map(|xid| call(xid, 160)));
    let mut wire = Wire::default();
    wire.syn(CLIENT, 0);
    for (from, to) in stream.cut_every(2 * 204) {
        wire.data(CLIENT, 1 + from as u32, &stream.bytes[from..to], 100);
    }
    wire.finish();
    assert_eq!(wire.xids(), (0..40).step_by(2).collect::<Vec<u32>>());
    assert_eq!(wire.count(Anomaly::RecordMarkCut), 20);
    assert_eq!(wire.count(Anomaly::Resynchronised), 19);
    assert!(
        wire.sink
            .messages
            .iter()
            .all(|got| !got.complete && got.head.len() == 96)
    );
    assert!(wire.sink.messages[1..].iter().all(|got| got.resynchronised));
    assert_eq!(wire.streams.counters().lost, Lost::default());
}

#[test]
fn a_record_that_ends_with_the_cut_keeps_the_step() {
    let stream = Stream::of((0..40).map(|xid| call(xid, 160)));
    let mut wire = Wire::default();
    wire.syn(CLIENT, 0);
    for (from, to) in stream.cut_every(204) {
        wire.data(CLIENT, 1 + from as u32, &stream.bytes[from..to], 30);
    }
    wire.finish();
    assert_eq!(wire.sink.messages.len(), 40);
    for (at, got) in wire.sink.messages.iter().enumerate() {
        assert_eq!((got.first.1, got.last.1), (at as u64 + 2, at as u64 + 2));
        assert_eq!(
            (got.head.len(), got.missing, got.wire_bytes),
            (26, 174, 200)
        );
        assert!(!got.resynchronised);
    }
}

#[test]
fn cut_segments_in_any_order() {
    let stream = Stream::of((0..8).map(|xid| call(xid, 5000)));
    let mut wire = Wire::default();
    wire.syn(CLIENT, 0);
    let mut pieces: Vec<(usize, usize)> = Vec::new();
    for placed in &stream.placed {
        for from in (placed.start..placed.end).step_by(1448) {
            pieces.push((from, (from + 1448).min(placed.end)));
        }
    }
    for pair in pieces.chunks(2) {
        for (from, to) in pair.iter().rev() {
            wire.data(CLIENT, 1 + *from as u32, &stream.bytes[*from..*to], 190);
        }
    }
    wire.finish();
    assert_eq!(wire.xids(), (0..8).collect::<Vec<u32>>());
    assert!(wire.sink.messages.iter().all(|got| got.wire_bytes == 5040));
    assert_eq!(wire.streams.counters().lost, Lost::default());
}

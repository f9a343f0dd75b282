//! pcap files by hand: byte orders, resolutions, damage.

use proptest::prelude::*;

use super::made::{pcap_header, pcap_packet, udp_frame, words};
use super::{odd, read_bytes};
use crate::error::TraceError;

const MICROSECONDS: u32 = 0xa1b2_c3d4;
/// November 2023: times near 1970 look like lengths.
const BEGIN_S: u32 = 1_700_000_000;

/// A capture of packets that hold their number, a second apart from `BEGIN_S` on; and where each
/// packet's header begins.
fn numbered(count: u32) -> (Vec<u8>, Vec<usize>) {
    let mut out = pcap_header(MICROSECONDS, 1, false);
    let mut places = Vec::new();
    for number in 0..count {
        places.push(out.len());
        let payload = number.to_be_bytes().repeat(5 + number as usize % 7);
        let frame = udp_frame(&payload);
        pcap_packet(
            &mut out,
            [BEGIN_S + number, 5],
            frame.len() as u32,
            &frame,
            false,
        );
    }
    (out, places)
}

/// Numbers of the packets found; `u32::MAX` for one that is cut in front of it.
fn numbers(bytes: &[u8]) -> (Vec<u32>, Vec<(&'static str, u64)>, u64) {
    let (found, totals) = read_bytes(bytes).expect("a capture");
    let number = |payload: &[u8]| {
        let first = payload.first_chunk();
        first.map_or(u32::MAX, |bytes| u32::from_be_bytes(*bytes))
    };
    let numbers = found.iter().map(|(_, payload)| number(payload)).collect();
    (numbers, odd(&totals), totals.skipped_bytes)
}

#[test]
fn both_byte_orders_and_all_resolutions() {
    for (magic, time_ns) in [(MICROSECONDS, 7_000_123_000), (0xa1b2_3c4d, 7_000_000_123)] {
        for big_endian in [false, true] {
            let mut file = pcap_header(magic, 1, big_endian);
            let frame = udp_frame(b"abcd");
            pcap_packet(&mut file, [7, 123], 60, &frame, big_endian);
            let (found, totals) = read_bytes(&file).expect("a capture");
            assert_eq!(found.len(), 1);
            assert_eq!(found[0].0.time_ns, time_ns);
            assert_eq!(found[0].1, b"abcd");
            assert_eq!(totals.wire_bytes, 60);
            assert_eq!(totals.captured_bytes, frame.len() as u64);
            assert_eq!(totals.truncated_frames, 1);
            assert_eq!(totals.times_ns, Some((time_ns, time_ns)));
        }
    }
}

#[test]
fn the_variant_with_longer_packet_headers() {
    let mut file = pcap_header(0xa1b2_cd34, 1, false);
    for number in 0..3 {
        let frame = udp_frame(b"abcd");
        words(
            &mut file,
            &[9 + number, 1, frame.len() as u32, frame.len() as u32],
            false,
        );
        words(&mut file, &[2, 0x0004_0800], false);
        file.extend_from_slice(&frame);
    }
    let (found, totals) = read_bytes(&file).expect("a capture");
    assert_eq!(found.iter().filter(|it| it.1 == b"abcd").count(), 3);
    assert!(odd(&totals).is_empty());
}

#[test]
fn before_version_2_4_lengths_may_be_swapped() {
    let mut file = pcap_header(MICROSECONDS, 1, false);
    file[6] = 3;
    let frame = udp_frame(b"abcd");
    let length = frame.len() as u32;
    words(&mut file, &[7, 1, 60, length], false);
    file.extend_from_slice(&frame);
    words(&mut file, &[7, 2, length, 60], false);
    file.extend_from_slice(&frame);
    let (found, totals) = read_bytes(&file).expect("a capture");
    assert_eq!((found.len(), totals.wire_bytes), (2, 120));
}

#[test]
fn a_frame_check_sequence_is_no_part_of_the_link_type() {
    let mut file = pcap_header(MICROSECONDS, 0x2400_0001, false);
    let frame = udp_frame(b"abcd");
    pcap_packet(&mut file, [7, 1], frame.len() as u32, &frame, false);
    assert_eq!(read_bytes(&file).expect("a capture").0.len(), 1);
}

#[test]
fn what_is_refused_is_told() {
    let refused = |bytes: &[u8]| read_bytes(bytes).expect_err("refused").to_string();
    let wifi = pcap_header(MICROSECONDS, 105, false);
    let expected = "test has link type 105 (IEEE 802.11), which is not read";
    assert_eq!(refused(&wifi), expected);
    let mut old = pcap_header(MICROSECONDS, 1, true);
    old[5] = 9;
    assert!(refused(&old).contains("pcap of version 9.4"));
    assert!(refused(&old[..20]).contains("pcap header cut after 20 bytes"));
    assert!(matches!(read_bytes(b""), Err(TraceError::Empty(_))));
    assert!(refused(b"words").contains("is not a packet capture: text"));
}

#[test]
fn a_header_alone_is_a_capture_without_packets() {
    let (found, totals) = read_bytes(&pcap_header(MICROSECONDS, 1, false)).expect("a capture");
    assert!(found.is_empty() && odd(&totals).is_empty());
    assert_eq!(totals.times_ns, None);
}

#[test]
fn cut_anywhere_all_whole_packets_are_there() {
    let (file, places) = numbered(4);
    for length in 24..file.len() {
        let whole = places[1..].iter().filter(|place| **place <= length).count();
        let (found, anomalies, _) = numbers(&file[..length]);
        assert_eq!(found.len(), whole);
        let cut = length != 24 && !places.contains(&length);
        let expected: &[_] = if cut { &[("cut_at_end", 1)] } else { &[] };
        assert_eq!(anomalies, expected, "{length}");
    }
}

#[test]
fn a_page_of_zero_bytes_costs_what_it_covers() {
    let (mut file, places) = numbered(400);
    let page = places[150] + 7..places[150] + 4096;
    let lost = 150..=places.partition_point(|place| *place < page.end) - 1;
    file[page].fill(0);
    let (found, anomalies, skipped) = numbers(&file);
    // The packet before has whole bytes; the one whose header is hit is lost with all behind it.
    let kept: Vec<u32> = (0..400)
        .filter(|it| !lost.contains(&(*it as usize)))
        .collect();
    assert_eq!(found, kept);
    assert_eq!(anomalies, [("damaged_packet_header", 1)]);
    assert_eq!(skipped as usize, places[*lost.end() + 1] - places[150]);
}

#[test]
fn zero_bytes_at_the_end_are_no_packets() {
    let (mut file, _) = numbered(20);
    file.resize(file.len() + 50_000, 0);
    let (found, anomalies, skipped) = numbers(&file);
    assert_eq!(found.len(), 20);
    assert_eq!(
        (anomalies, skipped),
        (vec![("damaged_packet_header", 1)], 50_000)
    );
}

#[test]
fn bytes_missing_in_the_middle() {
    let (file, places) = numbered(300);
    for missing in [1, 10, 100, 1000] {
        let hole = places[100] + 33;
        let file = [&file[..hole], &file[hole + missing..]].concat();
        let (found, anomalies, _) = numbers(&file);
        let next = places.partition_point(|place| *place < hole + missing) as u32;
        // The packet in the hole swallows the next one's front, which is lost with it.
        assert!(
            found.ends_with(&(next + 1..300).collect::<Vec<_>>()),
            "{missing}"
        );
        assert!(found.starts_with(&(0..100).collect::<Vec<_>>()));
        assert_eq!(anomalies[0], ("damaged_packet_header", 1), "{missing}");
    }
}

#[test]
fn a_clock_that_steps_by_years_is_believed_when_the_next_packet_agrees() {
    let mut file = pcap_header(MICROSECONDS, 1, false);
    for seconds in [1000, 1001, 900_000_000, 900_000_001, 1002] {
        let frame = udp_frame(b"abcd");
        pcap_packet(&mut file, [seconds, 0], frame.len() as u32, &frame, false);
    }
    let (found, totals) = read_bytes(&file).expect("a capture");
    assert_eq!(found.len(), 5);
    assert_eq!(
        odd(&totals),
        [("odd_packet_header", 2), ("time_went_back", 1)]
    );
}

#[test]
fn odd_headers_are_believed_and_told_when_the_next_one_fits() {
    // Nanoseconds in a file that says microseconds; more captured than was on the wire.
    let frame = udp_frame(b"abcd");
    let bytes = frame.len() as u32;
    for (time, wire) in [([1000, 999_000_000], bytes), ([1000, 7], bytes - 1)] {
        let mut file = pcap_header(MICROSECONDS, 1, false);
        pcap_packet(&mut file, [1000, 5], bytes, &frame, false);
        pcap_packet(&mut file, time, wire, &frame, false);
        pcap_packet(&mut file, [1001, 5], bytes, &frame, false);
        let (found, totals) = read_bytes(&file).expect("a capture");
        assert_eq!((found.len(), totals.frames), (3, 3));
        assert_eq!(totals.wire_bytes, 3 * u64::from(bytes));
        assert_eq!(odd(&totals)[0], ("odd_packet_header", 1));
    }
}

#[test]
fn files_joined_by_cat_are_read_on() {
    let (first, _) = numbered(5);
    let mut second = pcap_header(0xa1b2_3c4d, 101, true);
    let frame = udp_frame(b"abcd");
    pcap_packet(
        &mut second,
        [2000, 1],
        frame.len() as u32 - 14,
        &frame[14..],
        true,
    );
    let (found, totals) = read_bytes(&[first, second].concat()).expect("a capture");
    assert_eq!(found.len(), 6);
    assert_eq!(
        (found[5].0.time_ns, found[5].0.frame),
        (2_000_000_000_001, 6)
    );
    // The second begins before the first one's end.
    assert_eq!(
        odd(&totals),
        [("joined_captures", 1), ("time_went_back", 1)]
    );
}

#[test]
fn payload_that_was_taken_for_headers_does_not_change_the_time_of_the_capture() {
    // 17 bytes less: what begins there says 58 s after 1970, and 58 bytes; what follows, 0 s.
    // 37 bytes less: 0 s, and what follows is each packet's header but for its first four bytes.
    for (packet, length) in [(58, 53), (25, 41)] {
        let (mut file, places) = numbered(300);
        file[places[packet] + 8] = length;
        let (found, _, _) = numbers(&file);
        let last: Vec<u32> = (packet as u32 + 3..300).collect();
        assert!(found.ends_with(&last), "{found:?}");
    }
}

proptest! {
    /// Whatever a few bytes are changed to, packets well before are found, and after the damage
    /// reading goes on: at least the last packets are there.
    #[test]
    fn damage_stays_local(
        packet in 20..60_usize,
        offset in 0..12_usize,
        noise in prop::collection::vec(any::<u8>(), 1..5),
    ) {
        let (mut file, places) = numbered(300);
        let at = places[packet] + offset;
        file[at..at + noise.len()].copy_from_slice(&noise);
        let (found, _, _) = numbers(&file);
        let before: Vec<u32> = (0..packet as u32).collect();
        let last: Vec<u32> = (290..300).collect();
        prop_assert!(found.starts_with(&before));
        prop_assert!(found.ends_with(&last), "{:?}", found);
    }
}

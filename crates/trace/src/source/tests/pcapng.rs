//! pcapng files by hand: byte orders, sections, interfaces, options, damage.

use super::made::{block, enhanced, halves, interface, option, section, udp_frame, words};
use super::{odd, read_bytes};

const ETHERNET: u16 = 1;

/// Times of the segments found, after checking that each holds `abcd`.
fn times(bytes: &[u8]) -> Vec<i64> {
    let (found, _) = read_bytes(bytes).expect("a capture");
    assert!(found.iter().all(|(_, payload)| payload == b"abcd"));
    found.iter().map(|(segment, _)| segment.time_ns).collect()
}

#[test]
fn both_byte_orders() {
    for big in [false, true] {
        let frame = udp_frame(b"abcd");
        let packet = enhanced(0, 0x0001_0000_0002, &frame, &[], big);
        let file = [section(big), interface(ETHERNET, 0, &[], big), packet].concat();
        // Microseconds unless told otherwise: (1 << 32 | 2) of them.
        assert_eq!(times(&file), [4_294_967_298_000]);
    }
}

#[test]
fn resolutions_and_offsets() {
    let cases: &[(u8, u64, i64)] = &[
        (0, 5, 5_000_000_000),
        (3, 5, 5_000_000),
        (6, 5, 5_000),
        (9, 5, 5),
        (12, 5_999, 5),
        // Powers of two: 10 / 2^3 s, 3 / 2^32 s = 0.698 ns.
        (0x83, 10, 1_250_000_000),
        (0x80 | 32, 3 << 31, 1_500_000_000),
        (0x80 | 64, 1 << 63, 500_000_000),
    ];
    for big in [false, true] {
        for (resolution, units, expected_ns) in cases {
            let offset = match big {
                true => 100_i64.to_be_bytes(),
                false => 100_i64.to_le_bytes(),
            };
            let options = [option(9, &[*resolution], big), option(14, &offset, big)].concat();
            let packet = enhanced(0, *units, &udp_frame(b"abcd"), &[], big);
            let file = [section(big), interface(ETHERNET, 0, &options, big), packet].concat();
            assert_eq!(
                times(&file),
                [100_000_000_000 + expected_ns],
                "{resolution}"
            );
        }
    }
}

#[test]
fn times_whose_distance_would_not_fit_are_damage() {
    let frame = udp_frame(b"abcd");
    // 2^62 ns are 4,611,686,018.4 s; the packet's own second comes on top.
    for (offset_s, believed) in [
        (4_611_686_016, true),
        (4_611_686_018, false),
        (-4_611_686_019, true),
        (-4_611_686_020, false),
        (i64::MAX / 1_000_000_000, false),
        (i64::MIN / 1_000_000_000, false),
    ] {
        let options = option(14, &i64::to_le_bytes(offset_s), false);
        let file = [
            section(false),
            interface(ETHERNET, 0, &options, false),
            enhanced(0, 1_000_000, &frame, &[], false),
        ];
        let (found, totals) = read_bytes(&file.concat()).expect("a capture");
        assert_eq!(found.len(), usize::from(believed), "{offset_s}");
        let damaged: &[_] = &[("damaged_packet_header", 1)];
        assert_eq!(odd(&totals), if believed { &[] } else { damaged });
    }
}

#[test]
fn sections_of_both_byte_orders_begin_anew() {
    let mut file = Vec::new();
    for (number, big) in [false, true, false].into_iter().enumerate() {
        let options = option(9, &[9], big);
        file.extend(section(big));
        file.extend(interface(ETHERNET, 0, &options, big));
        file.extend(enhanced(0, number as u64, &udp_frame(b"abcd"), &[], big));
    }
    assert_eq!(times(&file), [0, 1, 2]);
}

#[test]
fn simple_and_obsolete_packets() {
    let frame = udp_frame(b"abcd");
    let length = frame.len() as u32;
    let mut simple = Vec::new();
    words(&mut simple, &[length + 40], false);
    simple.extend_from_slice(&frame);
    let mut obsolete = Vec::new();
    halves(&mut obsolete, &[0, 3], false);
    words(&mut obsolete, &[0, 8_000_000, length, length], false);
    obsolete.extend_from_slice(&frame);
    let file = [
        section(false),
        interface(ETHERNET, length, &[], false),
        block(2, &obsolete, false),
        block(3, &simple, false),
    ];
    let (found, totals) = read_bytes(&file.concat()).expect("a capture");
    // A simple packet has no time of its own; its length is bounded by the snap length.
    let seen: Vec<i64> = found.iter().map(|(segment, _)| segment.time_ns).collect();
    assert_eq!(seen, [8_000_000_000, 8_000_000_000]);
    assert_eq!((totals.kernel_drops, totals.truncated_frames), (3, 1));
    assert_eq!(odd(&totals), [("no_timestamp", 1)]);
}

#[test]
fn dropped_packets_are_told() {
    let statistics = |interface: u32, by_interface: u64, by_system: u64| {
        let mut body = Vec::new();
        words(&mut body, &[interface, 0, 0], false);
        body.extend(option(2, &[0; 8], false));
        body.extend(option(5, &by_interface.to_le_bytes(), false));
        body.extend(option(7, &by_system.to_le_bytes(), false));
        body.extend(option(0, &[], false));
        block(5, &body, false)
    };
    let drops = option(4, &9_u64.to_le_bytes(), false);
    let frame = udp_frame(b"abcd");
    let file = [
        section(false),
        interface(ETHERNET, 0, &[], false),
        interface(ETHERNET, 0, &[], false),
        enhanced(1, 0, &frame, &drops, false),
        statistics(0, 1, 2),
        statistics(0, 10, 20),
        statistics(1, 1, 1),
        section(false),
        interface(ETHERNET, 0, &[], false),
        statistics(0, 100, 0),
    ];
    // Statistics are totals: 10 + 20; interface 1: 9 before a packet, more than 2; 100 later.
    let (_, totals) = read_bytes(&file.concat()).expect("a capture");
    assert_eq!(totals.kernel_drops, 30 + 9 + 100);
}

#[test]
fn other_blocks_are_passed_over_however_long() {
    let frame = udp_frame(b"abcd");
    let mut file = [section(true), interface(ETHERNET, 0, &[], true)].concat();
    for (number, length) in [0, 4, 5000, 1 << 20].into_iter().enumerate() {
        file.extend(block(0x0bad_0000 + number as u32, &vec![6; length], true));
        file.extend(enhanced(0, number as u64, &frame, &[], true));
    }
    assert_eq!(times(&file), [0, 1000, 2000, 3000]);
    // A packet with more options than are waited for.
    let long = option(1, &[b'x'; 30_000], true);
    file.extend(enhanced(0, 4, &frame, &long, true));
    file.extend(enhanced(0, 5, &frame, &[], true));
    assert_eq!(times(&file), [0, 1000, 2000, 3000, 4000, 5000]);
}

#[test]
fn interfaces_that_are_unknown_or_not_read() {
    let frame = udp_frame(b"abcd");
    let usb = interface(220, 0, &[], false);
    let file = [
        section(false),
        usb.clone(),
        interface(ETHERNET, 0, &[], false),
        enhanced(0, 0, &[1; 20], &[], false),
        enhanced(1, 0, &frame, &[], false),
        enhanced(2, 0, &frame, &[], false),
    ];
    let (found, totals) = read_bytes(&file.concat()).expect("a capture");
    assert_eq!((found.len(), totals.frames), (1, 2));
    assert_eq!(
        odd(&totals),
        [("unknown_interface", 1), ("unknown_link_type", 1)]
    );
    let only = [section(false), usb, enhanced(0, 0, &[1; 20], &[], false)].concat();
    let refused = read_bytes(&only).expect_err("refused").to_string();
    assert_eq!(
        refused,
        "test has link type 220 (Linux USB), which is not read"
    );
}

#[test]
fn damage_costs_what_it_covers() {
    let frame = udp_frame(b"abcd");
    let begin = [section(false), interface(ETHERNET, 0, &[], false)].concat();
    let packets: Vec<Vec<u8>> = (0..50)
        .map(|number| enhanced(0, number, &frame, &[], false))
        .collect();
    let size = packets[0].len();
    let file = [begin.clone(), packets.concat()].concat();
    let expected = |lost: std::ops::RangeInclusive<i64>| -> Vec<i64> {
        (0..50)
            .filter(|it| !lost.contains(it))
            .map(|it| it * 1000)
            .collect()
    };
    // Lengths that differ, an impossible length, a captured length beyond the block.
    for (offset, bytes) in [(4, [9, 0, 0, 0]), (4, [0xff; 4]), (20, [0, 8, 0, 0])] {
        let mut file = file.clone();
        let at = begin.len() + 10 * size + offset;
        file[at..at + 4].copy_from_slice(&bytes);
        assert_eq!(times(&file), expected(10..=10));
        let (_, totals) = read_bytes(&file).expect("a capture");
        assert_eq!(odd(&totals), [("damaged_packet_header", 1)]);
        assert_eq!(totals.skipped_bytes as usize, size);
    }
    // Bytes missing within a packet: it and the one it runs into.
    let mut missing = file.clone();
    missing.drain(begin.len() + 10 * size + 40..begin.len() + 10 * size + 43);
    assert_eq!(times(&missing), expected(10..=10));
    // Cut in the middle.
    let (found, totals) = read_bytes(&file[..file.len() - 5]).expect("a capture");
    assert_eq!((found.len(), odd(&totals)), (49, vec![("cut_at_end", 1)]));
}

#[test]
fn a_section_header_that_is_none() {
    let mut file = section(false);
    file[8] = 0;
    let refused = read_bytes(&file).expect_err("refused").to_string();
    assert!(refused.contains("damaged section header"), "{refused}");
    let mut file = section(true);
    file[13] = 7;
    let refused = read_bytes(&file).expect_err("refused").to_string();
    assert!(refused.contains("pcapng of version 7"), "{refused}");
}

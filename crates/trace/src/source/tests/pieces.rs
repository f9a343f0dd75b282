//! However the bytes come, the segments are the same.

use std::io::{self, Write};

use proptest::prelude::*;

use super::made::{enhanced, interface, pcap_header, pcap_packet, section, udp_frame};
use super::{Bounds, Found, Pieces, drain, odd, read_bytes, small};
use crate::block::Block;
use crate::error::TraceError;
use crate::source::Reader;

/// Payloads of packets, from empty to the longest that Ethernet carries.
fn payloads() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let payload = prop_oneof![0..8_usize, 0..1400_usize].prop_map(|length| vec![0xab; length]);
    prop::collection::vec(payload, 1..80)
}

fn pcap(payloads: &[Vec<u8>]) -> Vec<u8> {
    let mut out = pcap_header(0xa1b2_c3d4, 1, true);
    for (number, payload) in (1_700_000_000..).zip(payloads) {
        let frame = udp_frame(payload);
        pcap_packet(&mut out, [number, 1], frame.len() as u32, &frame, true);
    }
    out
}

fn pcapng(payloads: &[Vec<u8>]) -> Vec<u8> {
    let mut out = [section(false), interface(1, 0, &[], false)].concat();
    for (number, payload) in (1_700_000_000_000_001..).step_by(1_000_000).zip(payloads) {
        out.extend(enhanced(0, number, &udp_frame(payload), &[], false));
    }
    out
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    out.write_all(bytes).expect("memory");
    out.finish().expect("memory")
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    ::zstd::encode_all(bytes, 1).expect("memory")
}

/// Reads bytes that come in pieces, within these bounds.
fn in_pieces(bytes: &[u8], lengths: &[usize], block_bytes: usize) -> Vec<Found> {
    let pieces = Pieces {
        bytes: io::Cursor::new(bytes.to_vec()),
        lengths: lengths.to_vec(),
        next: 0,
    };
    let bounds = Bounds {
        block_bytes,
        frame_bytes: 2048,
        fragment_bytes: 1 << 16,
        window_bytes: 0,
        ..Bounds::default()
    };
    let mut reader = Reader::of_bytes("pieces", pieces, bounds).expect("a capture");
    drain(&mut reader).expect("readable").0
}

/// Length of a piece: none (a pause), less than a header or two, some packets.
fn length() -> impl Strategy<Value = usize> {
    prop_oneof![Just(0_usize), 1..40_usize, 1..9000_usize]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Any pieces, with pauses, any block size, compressed or not: the same segments.
    #[test]
    fn any_pieces_give_the_same_segments(
        payloads in payloads(),
        mut lengths in prop::collection::vec(length(), 1..12),
        block_bytes in prop_oneof![Just(0_usize), 18_000..40_000_usize, Just(1 << 19)],
    ) {
        lengths.push(700);
        let plain = pcap(&payloads);
        let expected = read_bytes(&plain).expect("a capture").0;
        prop_assert_eq!(expected.len(), payloads.len());
        let (half, rest) = plain.split_at(plain.len() / 2);
        let forms = [
            pcapng(&payloads),
            gzip(&plain),
            zstd(&plain),
            [gzip(half), gzip(rest)].concat(),
            [zstd(half), zstd(rest)].concat(),
            gzip(&zstd(&plain)),
            plain.clone(),
        ];
        for form in &forms {
            prop_assert!(in_pieces(form, &lengths, block_bytes) == expected);
        }
    }
}

#[test]
fn cut_compressed_data_gives_what_came_before() {
    let payloads: Vec<Vec<u8>> = (0..200_u32)
        .map(|it| it.wrapping_mul(2_654_435_761).to_be_bytes().repeat(1000))
        .collect();
    for stored in [gzip(&pcap(&payloads)), zstd(&pcap(&payloads))] {
        let (found, totals) = read_bytes(&stored[..stored.len() / 2]).expect("a capture");
        assert!(found.len() < 200);
        assert_eq!(odd(&totals), [("cut_at_end", 1)]);
        let mut damaged = stored.clone();
        let at = stored.len() - 6;
        damaged[at..].fill(0x55);
        let (found, totals) = read_bytes(&damaged).expect("a capture");
        assert!(!found.is_empty() || stored.starts_with(&[0x28]));
        assert_eq!(odd(&totals), [("damaged_compression", 1)]);
    }
}

#[test]
fn what_follows_compressed_data() {
    let payloads = vec![vec![1, 2, 3]; 4];
    let stored = gzip(&pcap(&payloads));
    let padded = [&stored[..], &[0; 700]].concat();
    let (found, totals) = read_bytes(&padded).expect("a capture");
    assert_eq!((found.len(), odd(&totals)), (4, vec![]));
    let followed = [&stored[..], b"something else"].concat();
    let (found, totals) = read_bytes(&followed).expect("a capture");
    assert_eq!(
        (found.len(), odd(&totals)),
        (4, vec![("trailing_bytes", 1)])
    );
}

/// A frame that states a window of two to this power.
fn with_window(bytes: &[u8], log: u32) -> Vec<u8> {
    let mut encoder = ::zstd::Encoder::new(Vec::new(), 1).expect("memory");
    encoder.window_log(log).expect("a size that zstd has");
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

#[test]
fn windows_of_zstd_frames_are_bounded_and_those_of_frames_in_frames_do_not_add_up() {
    let plain = pcap(&vec![vec![1, 2, 3]; 4]);
    let frames = |stored: Vec<u8>, zstd_window_bytes: usize| {
        let bounds = Bounds {
            zstd_window_bytes,
            ..small()
        };
        let mut reader = Reader::of_bytes("test", io::Cursor::new(stored), bounds)?;
        while reader.read(&mut Block::default())? {}
        Ok::<u64, TraceError>(reader.totals().frames)
    };
    let usual = Bounds::default().zstd_window_bytes;
    let refused_above = |found: Result<u64, TraceError>| match found {
        Err(TraceError::Window { most_bytes, .. }) => Some(most_bytes),
        _ => None,
    };
    // `zstd --long`, and `zstd --long=31`.
    assert_eq!(frames(with_window(&plain, 27), usual).expect("read"), 4);
    let long = with_window(&plain, 28);
    assert_eq!(refused_above(frames(long.clone(), usual)), Some(128 << 20));
    // Behind a frame that is read.
    let second = [with_window(&plain, 20), long].concat();
    assert_eq!(refused_above(frames(second, usual)), Some(128 << 20));
    assert_eq!(frames(with_window(&plain, 20), 1 << 20).expect("read"), 4);
    let found = frames(with_window(&plain, 21), 1 << 20);
    assert_eq!(refused_above(found), Some(1 << 20));
    for outer in [gzip, zstd] {
        let inner = with_window(&plain, 23);
        assert_eq!(frames(outer(&inner), usual).expect("read"), 4);
    }
    let inner = with_window(&plain, 24);
    assert_eq!(frames(gzip(&inner), usual).expect("read"), 4);
    assert_eq!(refused_above(frames(zstd(&inner), usual)), Some(8 << 20));
}

#[test]
fn compression_is_told_with_what_is_in_it() {
    let refused = |bytes: &[u8]| read_bytes(bytes).expect_err("refused").to_string();
    let words = "test is not a packet capture: text, in gzip compression";
    assert_eq!(refused(&gzip(b"words")), words);
    let words = "test is not a packet capture: a PDF document, in zstd in gzip compression";
    assert_eq!(refused(&zstd(&gzip(b"%PDF-1.7"))), words);
    assert_eq!(refused(&gzip(b"")), "test is empty");
    let mut onion = b"words".to_vec();
    for _ in 0..5 {
        onion = gzip(&onion);
    }
    assert!(refused(&onion).contains("compressed data again and again"));
    let damaged = refused(b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\xff\xff\xff\xff\xff");
    assert!(
        damaged.contains("compressed data is damaged after 0 bytes"),
        "{damaged}"
    );
}

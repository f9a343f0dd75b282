//! Cost of a packet in the reader: `cargo bench -p nfslab-trace --bench reader`.
//!
//! Prints the best nanoseconds a packet of captures held in memory: small packets (as of GETATTR)
//! and 1448-byte segments, as pcap, as pcapng, and cooked (Linux SLL2, which the quick look at
//! Ethernet does not take). Beside them `walk`: a bare look at all headers where they lie, as
//! `examples/header_walk.rs` does it. The reader also copies every byte once, as read(2) would,
//! so its large packets cost what copying costs.
//!
//! With arguments (`NAME ROUNDS`) it runs one of them and prints nothing, for instruction counts:
//! `valgrind --tool=callgrind target/release/deps/reader-* pcap_small 20`.

use std::hint::black_box;
use std::io::Cursor;
use std::sync::Arc;
use std::time::Instant;

use trace::block::Block;
use trace::source::{Bounds, Reader};

const ROUNDS: usize = 15;
const SMALL_PACKETS: u32 = 200_000;
const LARGE_PACKETS: u32 = 40_000;
const SMALL_BYTES: usize = 180;
const LARGE_BYTES: usize = 1448;

/// Link layer and file format of a capture.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    Pcap,
    PcapNg,
    Cooked,
}

/// IPv4 and TCP with timestamps, between two hosts, to the left and to the right in turn.
fn packet(number: u32, payload_bytes: usize, out: &mut Vec<u8>) {
    let to_server = number.is_multiple_of(2);
    let (client, server) = ([10, 0, 0, 2], [10, 0, 0, 1]);
    let total = (20 + 32 + payload_bytes) as u16;
    out.extend_from_slice(&[0x45, 0]);
    out.extend_from_slice(&total.to_be_bytes());
    out.extend_from_slice(&(number as u16).to_be_bytes());
    out.extend_from_slice(&[0x40, 0, 64, 6, 0, 0]);
    let (hosts, ports) = match to_server {
        true => ([client, server], [700_u16, 2049]),
        false => ([server, client], [2049, 700]),
    };
    out.extend_from_slice(&hosts.concat());
    for port in ports {
        out.extend_from_slice(&port.to_be_bytes());
    }
    for word in [number * 90, number * 91] {
        out.extend_from_slice(&word.to_be_bytes());
    }
    out.extend_from_slice(&[
        0x80, 0x18, 1, 0, 0, 0, 0, 0, 1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2,
    ]);
    out.resize(out.len() + payload_bytes, number as u8);
}

fn words(out: &mut Vec<u8>, words: &[u32]) {
    for word in words {
        out.extend_from_slice(&word.to_le_bytes());
    }
}

fn link_header(style: Style) -> &'static [u8] {
    match style {
        Style::Cooked => &[8, 0, 0, 0, 0, 0, 0, 2, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0],
        _ => &[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0],
    }
}

fn capture(style: Style, packets: u32, payload_bytes: usize) -> Vec<u8> {
    let mut out = Vec::new();
    match style {
        Style::PcapNg => {
            words(
                &mut out,
                &[0x0a0d_0d0a, 28, 0x1a2b_3c4d, 1, u32::MAX, u32::MAX, 28],
            );
            words(&mut out, &[1, 20, 1, 0, 20]);
        }
        Style::Pcap => words(&mut out, &[0xa1b2_c3d4, 0x0004_0002, 0, 0, 262_144, 1]),
        Style::Cooked => words(&mut out, &[0xa1b2_c3d4, 0x0004_0002, 0, 0, 262_144, 276]),
    }
    let mut frame = Vec::new();
    for number in 0..packets {
        frame.clear();
        frame.extend_from_slice(link_header(style));
        packet(number, payload_bytes, &mut frame);
        let bytes = frame.len() as u32;
        let seconds = 1_700_000_000 + number / 100_000;
        let fraction = number % 100_000 * 10;
        if style == Style::PcapNg {
            let time = u64::from(seconds) * 1_000_000 + u64::from(fraction);
            let padded = bytes.next_multiple_of(4);
            let total = 32 + padded;
            words(
                &mut out,
                &[6, total, 0, (time >> 32) as u32, time as u32, bytes, bytes],
            );
            frame.resize(padded as usize, 0);
            out.extend_from_slice(&frame);
            words(&mut out, &[total]);
        } else {
            words(&mut out, &[seconds, fraction, bytes, bytes]);
            out.extend_from_slice(&frame);
        }
    }
    out
}

/// Shared bytes, so that a round does not pay for a copy of its own.
#[derive(Clone)]
struct Held(Arc<Vec<u8>>);

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// Segments and a sum over them.
fn read(capture: &Held, block: &mut Block) -> (u64, u64) {
    let (mut segments, mut sum) = (0, 0_u64);
    let bytes = Cursor::new(capture.clone());
    let Ok(mut reader) = Reader::of_bytes("bench", bytes, Bounds::default()) else {
        return (0, 0);
    };
    while let Ok(true) = reader.read(block) {
        segments += block.segments.len() as u64;
        for segment in &block.segments {
            sum = sum.wrapping_add(u64::from(segment.sequence) + u64::from(segment.payload_bytes));
        }
    }
    (segments, sum)
}

/// The same by a bare look at the headers of a pcap file of Ethernet.
fn walk(capture: &Held, _: &mut Block) -> (u64, u64) {
    let bytes = capture.as_ref();
    let (mut at, mut segments, mut sum) = (24, 0, 0_u64);
    while let Some(header) = bytes.get(at..).and_then(|rest| rest.first_chunk::<16>()) {
        let captured = u32::from_le_bytes([header[8], header[9], header[10], header[11]]) as usize;
        let Some(frame) = bytes.get(at + 16..at + 16 + captured) else {
            break;
        };
        if let Some((sequence, payload)) = headers(frame) {
            segments += 1;
            sum = sum.wrapping_add(sequence + payload);
        }
        at += 16 + captured;
    }
    (segments, sum)
}

fn headers(frame: &[u8]) -> Option<(u64, u64)> {
    let u16_at = |bytes: &[u8], at: usize| {
        let pair = bytes.get(at..)?.first_chunk::<2>()?;
        Some(u16::from_be_bytes(*pair))
    };
    if u16_at(frame, 12)? != 0x0800 {
        return None;
    }
    let ip = frame.get(14..)?;
    let header_bytes = usize::from(ip.first()? & 15) * 4;
    let total = usize::from(u16_at(ip, 2)?);
    if *ip.get(9)? != 6 {
        return None;
    }
    let tcp = ip.get(header_bytes..)?;
    let sequence = u32::from_be_bytes(*tcp.get(4..)?.first_chunk()?);
    let data_at = usize::from(tcp.get(12)? >> 4) * 4;
    Some((
        u64::from(sequence),
        total.checked_sub(header_bytes + data_at)? as u64,
    ))
}

/// Name, capture, and what is done with it.
type Case = (
    &'static str,
    Style,
    bool,
    fn(&Held, &mut Block) -> (u64, u64),
);

fn main() {
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    let cases: [Case; 7] = [
        ("walk_small", Style::Pcap, true, walk),
        ("pcap_small", Style::Pcap, true, read),
        ("pcapng_small", Style::PcapNg, true, read),
        ("cooked_small", Style::Cooked, true, read),
        ("walk_large", Style::Pcap, false, walk),
        ("pcap_large", Style::Pcap, false, read),
        ("pcapng_large", Style::PcapNg, false, read),
    ];
    let mut block = Block::default();
    for (name, style, small, run) in cases {
        if arguments.first().is_some_and(|wanted| wanted != name) {
            continue;
        }
        let (packets, bytes) = match small {
            true => (SMALL_PACKETS, SMALL_BYTES),
            false => (LARGE_PACKETS, LARGE_BYTES),
        };
        let capture = Held(Arc::new(capture(style, packets, bytes)));
        if let Some(rounds) = arguments.get(1).and_then(|rounds| rounds.parse().ok()) {
            for _ in 0..rounds {
                black_box(run(&capture, &mut block));
            }
            continue;
        }
        let best_ns = (0..ROUNDS)
            .map(|_| {
                let start = Instant::now();
                black_box(run(&capture, &mut block));
                start.elapsed().as_nanos()
            })
            .min()
            .unwrap_or(0);
        let (segments, sum) = run(&capture, &mut block);
        assert_eq!(segments, u64::from(packets), "{name}");
        let each = best_ns as f64 / f64::from(packets);
        println!("{name:14} {each:6.1} ns a packet ({segments} segments, sum {sum})");
    }
}

//! What is counted does not depend on what else is asked for: the table per operation alone (which
//! takes the quick way through usual calls) against the same table beside a lens that looks at
//! single calls (which never does). Shared captures as they are, and spoilt at random: packets
//! lost, doubled, swapped, cut, bits turned over.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // Also outside the test functions themselves.

mod rows;

use std::io::{Cursor, Read};

use flate2::read::GzDecoder;
use serde_json::Value;
use trace::analysis::{Findings, Options, analyse_bytes};

use rows::captures;

const HEADER_BYTES: usize = 24;

/// All whole captures of the shared folder, uncompressed.
fn shared() -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(captures()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name.ends_with(".pcap.gz") {
            let mut bytes = Vec::new();
            let file = std::fs::File::open(&path).unwrap();
            GzDecoder::new(file).read_to_end(&mut bytes).unwrap();
            found.push((name, bytes));
        }
    }
    found.sort();
    assert!(found.len() >= 6, "captures are missing");
    found
}

fn analysed(capture: &[u8], lenses: &[&str]) -> Findings {
    let options = Options {
        lenses: lenses.iter().map(|name| (*name).to_owned()).collect(),
        ..Options::default()
    };
    analyse_bytes(Cursor::new(capture.to_vec()), &options).unwrap()
}

fn table(findings: &Findings) -> &Value {
    let found = findings.sections.iter();
    let mut found = found.filter(|(name, _)| name == "operations");
    &found.next().unwrap().1.json
}

fn agree(capture: &[u8], what: &str) {
    let quick = analysed(capture, &["operations"]);
    let full = analysed(capture, &["operations", "clients"]);
    assert_eq!(table(&quick), table(&full), "{what}");
    for key in ["calls", "anomalies", "lost", "packets"] {
        assert_eq!(quick.summary[key], full.summary[key], "{what}: {key}");
    }
}

#[test]
fn shared_captures_are_counted_alike() {
    for (name, capture) in shared() {
        agree(&capture, &name);
    }
}

/// A small generator of random numbers (splitmix64): the same captures in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ mixed >> 31) % bound as u64) as usize
    }
}

/// Packets with their record headers.
fn packets(capture: &[u8]) -> Vec<&[u8]> {
    let mut found = Vec::new();
    let mut rest = &capture[HEADER_BYTES..];
    while rest.len() >= 16 {
        let captured = u32::from_le_bytes(rest[8..12].try_into().unwrap()) as usize;
        let (packet, behind) = rest.split_at(16 + captured);
        found.push(packet);
        rest = behind;
    }
    found
}

/// About one packet of fifty is spoilt.
fn spoilt(capture: &[u8], seed: u64) -> Vec<u8> {
    let mut random = Random(seed);
    let mut packets: Vec<Vec<u8>> = packets(capture).iter().map(|it| it.to_vec()).collect();
    for at in 0..packets.len() {
        if random.below(50) > 0 {
            continue;
        }
        match random.below(5) {
            0 => packets[at].clear(),
            1 => packets[at] = packets[at].repeat(2),
            2 if at > 0 => packets.swap(at, at - 1),
            3 => {
                let length = packets[at].len();
                if length > 120 {
                    let kept = 100 + random.below(length - 100);
                    packets[at].truncate(kept);
                    packets[at][8..12].copy_from_slice(&(kept as u32 - 16).to_le_bytes());
                }
            }
            _ => {
                let length = packets[at].len();
                if length > 100 {
                    let place = 70 + random.below(length - 70);
                    packets[at][place] ^= 1 << random.below(8);
                }
            }
        }
    }
    [capture[..HEADER_BYTES].to_vec(), packets.concat()].concat()
}

#[test]
fn spoilt_captures_are_counted_alike() {
    let captures = shared();
    for (name, capture) in &captures {
        assert_eq!(
            capture[..4],
            [0xd4, 0xc3, 0xb2, 0xa1],
            "{name}: another format"
        );
        let seeds = if capture.len() > 4 << 20 { 2 } else { 12 };
        for seed in 0..seeds {
            agree(&spoilt(capture, seed), &format!("{name}, seed {seed}"));
        }
    }
}

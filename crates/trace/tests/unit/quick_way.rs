//! What is found does not depend on the way that calls go: the quick one of usual calls against the
//! full one, for the table per operation alone, the rows of the calls beside it, and all lenses.
//! Shared captures as they are, and spoilt at random: packets lost, doubled, swapped, cut, bits
//! turned over.

use std::io::{Cursor, Read};
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use arrow_array::RecordBatch;
use flate2::read::GzDecoder;
use trace::analysis::{Findings, Options, Pass};
use trace::block::Block;
use trace::source::{Bounds, Reader};

use crate::rows::captures;

pub const HEADER_BYTES: usize = 24;

/// All whole captures of the shared folder, uncompressed.
pub fn shared() -> Vec<(String, Vec<u8>)> {
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

/// What is asked for: nothing but the table, rows beside it, everything.
const ASKED: [(&[&str], bool); 3] = [
    (&["operations"], false),
    (&["operations"], true),
    (&[], true),
];
/// Batches that may wait: more than any capture here has.
const BATCHES: usize = 64;

fn analysed(capture: &[u8], asked: (&[&str], bool), quick: bool) -> (Findings, Vec<RecordBatch>) {
    let options = Options {
        lenses: asked.0.iter().map(|name| (*name).to_owned()).collect(),
        ..Options::default()
    };
    let bytes = Cursor::new(capture.to_vec());
    let mut reader = Reader::of_bytes("capture", bytes, Bounds::default()).unwrap();
    let mut pass = Pass::new(&options, Arc::default()).unwrap();
    let (sender, batches) = sync_channel(BATCHES);
    if asked.1 {
        pass.set_columns(sender);
    }
    if !quick {
        pass.leave_quick_way();
    }
    let mut block = Block::default();
    while reader.read(&mut block).unwrap() {
        pass.block(&block).unwrap();
    }
    let findings = pass.finish(&reader.totals(), &[]).unwrap();
    (findings, batches.try_iter().collect())
}

fn agree(capture: &[u8], what: &str) {
    for asked in ASKED {
        let (quick, quick_rows) = analysed(capture, asked, true);
        let (full, full_rows) = analysed(capture, asked, false);
        assert_eq!(quick.summary, full.summary, "{what}, {asked:?}");
        assert_eq!(quick.sections.len(), full.sections.len());
        for ((name, mine), (_, theirs)) in quick.sections.iter().zip(&full.sections) {
            assert_eq!(mine.json, theirs.json, "{what}, {asked:?}, {name}");
            assert_eq!(mine.blobs.len(), theirs.blobs.len());
            let mut blobs = mine.blobs.iter().zip(&theirs.blobs);
            assert!(blobs.all(|(a, b)| a.bytes == b.bytes), "{what}, {name}");
        }
        assert!(quick_rows == full_rows, "{what}, {asked:?}");
        let rows: usize = quick_rows.iter().map(RecordBatch::num_rows).sum();
        let calls = quick.summary["calls"].as_u64().unwrap();
        assert_eq!(rows as u64, if asked.1 { calls } else { 0 });
    }
}

#[test]
fn shared_captures_are_counted_alike() {
    for (name, capture) in shared() {
        agree(&capture, &name);
    }
}

/// Packets with their record headers.
pub fn packets(capture: &[u8]) -> Vec<&[u8]> {
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
pub fn spoilt(capture: &[u8], seed: u64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut packets: Vec<Vec<u8>> = packets(capture).iter().map(|it| it.to_vec()).collect();
    for at in 0..packets.len() {
        if random.usize(..50) > 0 {
            continue;
        }
        match random.usize(..5) {
            0 => packets[at].clear(),
            1 => packets[at] = packets[at].repeat(2),
            2 if at > 0 => packets.swap(at, at - 1),
            3 => {
                let length = packets[at].len();
                if length > 120 {
                    let kept = 100 + random.usize(..length - 100);
                    packets[at].truncate(kept);
                    packets[at][8..12].copy_from_slice(&(kept as u32 - 16).to_le_bytes());
                }
            }
            _ => {
                let length = packets[at].len();
                if length > 100 {
                    let place = 70 + random.usize(..length - 70);
                    packets[at][place] ^= 1 << random.usize(..8);
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
        let seeds = if capture.len() > 4 << 20 { 1 } else { 5 };
        for seed in 0..seeds {
            agree(&spoilt(capture, seed), &format!("{name}, seed {seed}"));
        }
    }
}

//! The fuzz targets of both ends, a short run on stable Rust: seeds, and seeds changed at random,
//! go through the very files of `fuzz/nfs_targets`. It finds what breaks at once; `fuzz/run`
//! searches for the rest.
//!
//! As `crates/trace/tests/fuzz_smoke.rs` does for the codec: `libfuzzer_sys` is this crate, the
//! allocator counts, inputs come from a fixed seed, and a failure says target, seed and round.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

extern crate self as libfuzzer_sys;

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Makes a function of a target.
#[macro_export]
macro_rules! fuzz_target {
    (|$data:ident: &[u8]| $body:expr) => {
        pub fn entry($data: &[u8]) {
            $body
        }
    };
}

#[allow(
    unused,
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::unwrap_used
)]
#[path = "../../../fuzz/nfs_targets/client_replies.rs"]
mod client_replies;
#[allow(
    unused,
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::unwrap_used
)]
#[path = "../../../fuzz/nfs_targets/server_calls.rs"]
mod server_calls;

type Entry = fn(&[u8]);
/// Name, function, changed inputs (those over sockets are slow).
const TARGETS: [(&str, Entry, usize); 2] = [
    ("client_replies", client_replies::entry, 1500),
    ("server_calls", server_calls::entry, 10_000),
];
/// Longest input.
const MAX_INPUT_BYTES: usize = 4096;
/// Most that one execution may hold.
const MAX_HELD_BYTES: usize = 32 << 20;

static HELD: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

struct Counting;

// SAFETY: every call is handed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let held = HELD.fetch_add(layout.size(), Relaxed) + layout.size();
        MOST.fetch_max(held, Relaxed);
        // SAFETY: as our own caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as our own caller promises.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Messages of the codec's tests, as they are and as pieces of a script.
fn seeds() -> Vec<Vec<u8>> {
    let path = repository().join("crates/wire/tests/data/captured_messages.txt");
    let text = std::fs::read_to_string(path).unwrap();
    let hexadecimal = |word: &&str| word.len() > 40 && word.bytes().all(|b| b.is_ascii_hexdigit());
    let mut found = Vec::new();
    for word in text.split_whitespace().filter(hexadecimal) {
        let digit = |at| u8::from_str_radix(&word[at..at + 2], 16).unwrap();
        let message: Vec<u8> = (0..word.len() / 2).map(|n| digit(n * 2)).collect();
        let piece = &message[..message.len().min(255)];
        for kind in [0, 1, 0xe0] {
            found.push([&[kind, piece.len() as u8], piece].concat());
        }
        // The arguments behind the header, for a call with a handle of the server's own.
        let number = found.len() as u8;
        let behind = &piece[piece.len().min(100)..];
        let name = [0, 0, 0, 1, b'x', 0, 0, 0];
        let made = [&[8, 36][..], &name, &[0; 28], &[9, 32], &name, &[0; 24]].concat();
        let asked = [(number % 22) | ((number & 1) << 5), behind.len() as u8];
        found.push([&made[..], &asked, behind].concat());
        found.push(message);
    }
    assert!(found.len() > 50, "the codec's messages are seeds");
    found
}

fn change(seed: &[u8], other: &[u8], random: &mut server::model::Random) -> Vec<u8> {
    let mut below = |bound: usize| random.up_to(bound.max(1) as u64 - 1) as usize;
    let mut data: Vec<u8> = seed.iter().copied().take(MAX_INPUT_BYTES).collect();
    for _ in 0..=below(6) {
        let at = below(data.len());
        match below(5) {
            0 => data.truncate(at),
            1 if !data.is_empty() => data[at] ^= 1 << below(8),
            2 if !data.is_empty() => data[at] = below(256) as u8,
            3 if at + 4 <= data.len() => {
                let word = [0_u32, 1, 0xff, 0xffff, 0x7fff_ffff, 0x8000_0000, u32::MAX][below(7)];
                data[at..at + 4].copy_from_slice(&word.to_be_bytes());
            }
            _ => {
                let begin = below(other.len());
                let end = (begin + below(256)).min(other.len());
                data.splice(at..at, other[begin..end].iter().copied());
            }
        }
    }
    data.truncate(MAX_INPUT_BYTES);
    data
}

fn run(name: &str, entry: Entry, data: &[u8], origin: &str) {
    let before = HELD.load(Relaxed);
    MOST.store(before, Relaxed);
    let ended = catch_unwind(AssertUnwindSafe(|| entry(data)));
    let most = MOST.load(Relaxed).saturating_sub(before);
    let hex = || {
        data.iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>()
    };
    assert!(ended.is_ok(), "{name}: panic on {origin}: {}", hex());
    assert!(
        most <= MAX_HELD_BYTES,
        "{name}: {most} bytes held on {origin}: {}",
        hex()
    );
}

#[test]
fn every_target_stands_changed_seeds() {
    let seeds = seeds();
    for (name, entry, rounds) in TARGETS {
        let mut random = server::model::Random::new(name.len() as u64);
        run(name, entry, &[], "nothing");
        for (number, seed) in seeds.iter().enumerate() {
            run(
                name,
                entry,
                &seed[..seed.len().min(MAX_INPUT_BYTES)],
                &format!("seed {number}"),
            );
        }
        for round in 0..rounds {
            let mut pick = || &seeds[random.up_to(seeds.len() as u64 - 1) as usize];
            let (seed, other) = (pick(), pick());
            let data = change(seed, other, &mut random);
            run(name, entry, &data, &format!("round {round}"));
        }
    }
}

#[test]
fn every_target_is_run_here() {
    let files: BTreeSet<String> = std::fs::read_dir(repository().join("fuzz/nfs_targets"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| path.file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    let here: BTreeSet<String> = TARGETS
        .iter()
        .map(|(name, ..)| (*name).to_owned())
        .collect();
    assert_eq!(files, here);
    let manifest = std::fs::read_to_string(repository().join("fuzz/Cargo.toml")).unwrap();
    for name in &files {
        assert!(
            manifest.contains(&format!("name = \"{name}\"")),
            "{name} is built"
        );
    }
}

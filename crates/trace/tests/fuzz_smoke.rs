//! The fuzz targets, a short run on stable Rust: seeds, and seeds changed at random, go through the
//! very files of `fuzz/fuzz_targets`. It finds what breaks at once; `fuzz/run` searches for the
//! rest.
//!
//! The targets name `libfuzzer_sys`; here that is this crate, with a macro that makes a function of
//! a target. The allocator counts: no execution may hold more than 64 MiB beyond what was held
//! before it. Inputs come from a fixed seed; a failure says target, seed file and round.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

extern crate self as libfuzzer_sys;

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::BTreeSet;
use std::io::Read;
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

macro_rules! targets {
    ($($name:ident = $path:literal,)+) => {
        $(
            #[allow(unused, missing_docs, unreachable_pub, clippy::all)]
            #[path = $path]
            mod $name;
        )+
        const TARGETS: &[(&str, fn(&[u8]))] = &[$((stringify!($name), $name::entry),)+];
    };
}

targets! {
    capture_file = "../../../fuzz/fuzz_targets/capture_file.rs",
    packet = "../../../fuzz/fuzz_targets/packet.rs",
    record_marking = "../../../fuzz/fuzz_targets/record_marking.rs",
    rpc_message = "../../../fuzz/fuzz_targets/rpc_message.rs",
    sequence = "../../../fuzz/fuzz_targets/sequence.rs",
    tcp_stream = "../../../fuzz/fuzz_targets/tcp_stream.rs",
    v3_call = "../../../fuzz/fuzz_targets/v3_call.rs",
    v3_reply = "../../../fuzz/fuzz_targets/v3_reply.rs",
    v4_compound_call = "../../../fuzz/fuzz_targets/v4_compound_call.rs",
    v4_compound_reply = "../../../fuzz/fuzz_targets/v4_compound_reply.rs",
}

/// Changed inputs of each target.
const ROUNDS: usize = 20_000;
/// Longest input.
const MAX_INPUT_BYTES: usize = 8192;
/// Most that one execution may hold.
const MAX_HELD_BYTES: usize = 64 << 20;

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

/// xorshift64*: enough to change bytes by.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() >> 33) as usize % bound.max(1)
    }
}

/// Numbers that break careless readers.
const WORDS: [u32; 12] = [
    0,
    1,
    2,
    3,
    0x7f,
    0xff,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0x8000_0064,
    0xffff_fffc,
    u32::MAX,
];

fn change(seed: &[u8], other: &[u8], random: &mut Random) -> Vec<u8> {
    let from = random.below(seed.len());
    // Captures keep their front, where the format is told.
    let from = if random.below(4) == 0 { from } else { 0 };
    let mut data: Vec<u8> = seed[from..].iter().copied().take(MAX_INPUT_BYTES).collect();
    for _ in 0..=random.below(6) {
        let at = random.below(data.len());
        match random.below(6) {
            0 => data.truncate(at),
            1 if !data.is_empty() => data[at] ^= 1 << random.below(8),
            2 if !data.is_empty() => data[at] = random.next() as u8,
            3 if at + 4 <= data.len() => {
                let word = WORDS[random.below(WORDS.len())];
                let bytes = if random.below(2) == 0 {
                    word.to_be_bytes()
                } else {
                    word.to_le_bytes()
                };
                data[at..at + 4].copy_from_slice(&bytes);
            }
            4 if !other.is_empty() => {
                let begin = random.below(other.len());
                let end = (begin + random.below(256)).min(other.len());
                data.splice(at..at, other[begin..end].iter().copied());
            }
            _ => {
                let end = (at + random.below(64)).min(data.len());
                data.drain(at..end);
            }
        }
    }
    data.truncate(MAX_INPUT_BYTES);
    data
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn hexadecimal(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text
        .bytes()
        .filter_map(|byte| (byte as char).to_digit(16))
        .map(|digit| digit as u8)
        .collect();
    digits
        .chunks_exact(2)
        .map(|pair| pair[0] << 4 | pair[1])
        .collect()
}

/// Messages of the codec's tests, and the fronts of real captures, plain and compressed.
fn seeds() -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let messages = repository().join("crates/wire/tests/data/captured_messages.txt");
    for (number, line) in std::fs::read_to_string(messages)
        .unwrap()
        .lines()
        .enumerate()
    {
        let longest = line
            .split_whitespace()
            .filter(|word| word.len() > 40 && word.bytes().all(|byte| byte.is_ascii_hexdigit()))
            .max_by_key(|word| word.len());
        if let Some(word) = longest {
            found.push((format!("message {number}"), hexadecimal(word)));
        }
    }
    assert!(found.len() > 10, "the codec's messages are seeds");
    for entry in std::fs::read_dir(repository().join("tests/captures")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|suffix| suffix == "gz") {
            let bytes = std::fs::read(&path).unwrap();
            let mut front = Vec::new();
            flate2::read::MultiGzDecoder::new(&bytes[..])
                .take(MAX_INPUT_BYTES as u64)
                .read_to_end(&mut front)
                .unwrap();
            found.push((format!("{}", path.display()), front));
            found.push((format!("{} as stored", path.display()), bytes));
        }
    }
    found.sort();
    found
}

/// Whether an execution ended well, and the most bytes that it held.
fn held_by(entry: fn(&[u8]), data: &[u8]) -> (bool, usize) {
    let before = HELD.load(Relaxed);
    MOST.store(before, Relaxed);
    let ended = catch_unwind(AssertUnwindSafe(|| entry(data)));
    (ended.is_ok(), MOST.load(Relaxed).saturating_sub(before))
}

fn run(name: &str, entry: fn(&[u8]), data: &[u8], origin: &str) {
    let (well, most) = held_by(entry, data);
    assert!(well, "{name}: panic on {origin}: {}", hex(data));
    assert!(
        most <= MAX_HELD_BYTES,
        "{name}: {most} bytes held on {origin}: {}",
        hex(data)
    );
}

fn hex(data: &[u8]) -> String {
    data.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn every_target_stands_changed_seeds() {
    let greedy = |_: &[u8]| drop(std::hint::black_box(vec![1u8; MAX_HELD_BYTES + 1]));
    assert!(
        held_by(greedy, &[]).1 > MAX_HELD_BYTES,
        "too much is noticed"
    );
    let seeds = seeds();
    for (name, entry) in TARGETS {
        let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ name.len() as u64);
        run(name, *entry, &[], "nothing");
        for (origin, seed) in &seeds {
            run(
                name,
                *entry,
                &seed[..seed.len().min(MAX_INPUT_BYTES)],
                origin,
            );
        }
        for round in 0..ROUNDS {
            let (origin, seed) = &seeds[random.below(seeds.len())];
            let (_, other) = &seeds[random.below(seeds.len())];
            let data = change(seed, other, &mut random);
            run(name, *entry, &data, &format!("{origin}, round {round}"));
        }
    }
}

#[test]
fn every_target_is_run_here() {
    let files: BTreeSet<String> = std::fs::read_dir(repository().join("fuzz/fuzz_targets"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|suffix| suffix == "rs"))
        .map(|path| path.file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    let here = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(files, here);
    let manifest = std::fs::read_to_string(repository().join("fuzz/Cargo.toml")).unwrap();
    for name in &files {
        assert!(
            manifest.contains(&format!("name = \"{name}\"")),
            "{name} is built"
        );
    }
}

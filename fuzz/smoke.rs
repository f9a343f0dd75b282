//! What the short runs of fuzz targets on stable Rust share (`crates/*/tests/fuzz.rs`): seeds
//! changed at random go through the very files of this folder.
//!
//! The targets name `bounded` (`lib.rs`); there that is the test's own crate, with a macro that
//! makes a function of a target. Allocations are counted (`held.rs`): no execution may hold more
//! than the test allows beyond what was held before it. Inputs come from a fixed seed; a failure
//! says target, origin of the input and round.

#[path = "held.rs"]
pub mod held;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use fastrand::Rng;

/// Makes a function of a target.
#[macro_export]
macro_rules! fuzz_target {
    (|$data:ident: &[u8]| $body:expr) => {
        pub fn entry($data: &[u8]) {
            $body
        }
    };
}

/// The targets of a test, each with how many changed inputs it gets.
macro_rules! targets {
    ($($name:ident = $path:literal, $rounds:expr;)+) => {
        $(
            #[allow(unused, missing_docs, unreachable_pub, clippy::all, clippy::unwrap_used)]
            #[path = $path]
            mod $name;
        )+
        const TARGETS: &[$crate::smoke::Target] = &[$($crate::smoke::Target {
            name: stringify!($name),
            entry: $name::entry,
            rounds: $rounds,
        },)+];
    };
}

/// The tests of these targets: `seeds()` and what is changed of them within `LIMITS`, and whether
/// they are all of `folder`.
macro_rules! smoke_tests {
    ($folder:literal) => {
        #[test]
        fn every_target_stands_changed_seeds() {
            $crate::smoke::run_all(TARGETS, &seeds(), LIMITS, 1);
        }

        #[test]
        #[ignore = "takes minutes"]
        fn every_target_stands_changed_seeds_at_length() {
            $crate::smoke::run_all(TARGETS, &seeds(), LIMITS, 3);
        }

        #[test]
        fn every_target_is_run_here() {
            $crate::smoke::check_that_none_is_left_out(TARGETS, $folder);
        }
    };
}

pub struct Target {
    pub name: &'static str,
    pub entry: fn(&[u8]),
    pub rounds: usize,
}

/// Longest input, and most that one execution may hold.
#[derive(Clone, Copy)]
pub struct Limits {
    pub input_bytes: usize,
    pub held_bytes: usize,
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

fn change(seed: &[u8], other: &[u8], random: &mut Rng, input_bytes: usize) -> Vec<u8> {
    let from = random.usize(..seed.len().max(1));
    // Most keep their front, where a format or a procedure is told.
    let from = if random.usize(..4) == 0 { from } else { 0 };
    let mut data: Vec<u8> = seed[from..].iter().copied().take(input_bytes).collect();
    for _ in 0..=random.usize(..6) {
        let at = random.usize(..data.len().max(1));
        match random.usize(..6) {
            0 => data.truncate(at),
            1 if !data.is_empty() => data[at] ^= 1 << random.usize(..8),
            2 if !data.is_empty() => data[at] = random.u8(..),
            3 if at + 4 <= data.len() => {
                let word = WORDS[random.usize(..WORDS.len())];
                let bytes = if random.usize(..2) == 0 {
                    word.to_be_bytes()
                } else {
                    word.to_le_bytes()
                };
                data[at..at + 4].copy_from_slice(&bytes);
            }
            4 if !other.is_empty() => {
                let begin = random.usize(..other.len().max(1));
                let end = (begin + random.usize(..256)).min(other.len());
                data.splice(at..at, other[begin..end].iter().copied());
            }
            _ => {
                let end = (at + random.usize(..64)).min(data.len());
                data.drain(at..end);
            }
        }
    }
    data.truncate(input_bytes);
    data
}

/// The repository, from a crate of it.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Messages of the codec's tests, with where they stand.
pub fn messages() -> Vec<(String, Vec<u8>)> {
    let path = repository().join("crates/wire/tests/data/captured_messages.txt");
    let text = std::fs::read_to_string(path).unwrap();
    let hexadecimal = |word: &&str| word.len() > 40 && word.bytes().all(|b| b.is_ascii_hexdigit());
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        for word in line.split_whitespace().filter(hexadecimal) {
            let digit = |at| u8::from_str_radix(&word[at..at + 2], 16).unwrap();
            let bytes = (0..word.len() / 2).map(|n| digit(n * 2)).collect();
            found.push((format!("message {number}"), bytes));
        }
    }
    assert!(found.len() > 10, "the codec's messages are seeds");
    found
}

fn hex(data: &[u8]) -> String {
    data.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether an execution ended well, and the most bytes that it held.
fn held_by(entry: fn(&[u8]), data: &[u8]) -> (bool, usize) {
    let (most, ended) = held::most_held(|| catch_unwind(AssertUnwindSafe(|| entry(data))));
    (ended.is_ok(), most)
}

fn run(target: &Target, limits: Limits, data: &[u8], origin: &str) {
    let (well, most) = held_by(target.entry, data);
    let name = target.name;
    assert!(well, "{name}: panic on {origin}: {}", hex(data));
    assert!(
        most <= limits.held_bytes,
        "{name}: {most} bytes held on {origin}: {}",
        hex(data)
    );
}

/// Runs every target on the seeds, and on so many times its rounds of seeds that were changed.
pub fn run_all(targets: &[Target], seeds: &[(String, Vec<u8>)], limits: Limits, times: usize) {
    let greedy = |data: &[u8]| {
        let bytes = usize::from_le_bytes(data.try_into().unwrap());
        drop(std::hint::black_box(vec![1u8; bytes]));
    };
    // Another thread may give a little back meanwhile.
    let too_much = limits.held_bytes + (1 << 20);
    assert!(
        held_by(greedy, &too_much.to_le_bytes()).1 > limits.held_bytes,
        "too much is noticed"
    );
    for target in targets {
        let mut random = Rng::with_seed(target.name.len() as u64);
        run(target, limits, &[], "nothing");
        for (origin, seed) in seeds {
            let data = &seed[..seed.len().min(limits.input_bytes)];
            run(target, limits, data, origin);
        }
        for round in 0..target.rounds * times {
            let (origin, seed) = &seeds[random.usize(..seeds.len().max(1))];
            let (_, other) = &seeds[random.usize(..seeds.len().max(1))];
            let data = change(seed, other, &mut random, limits.input_bytes);
            run(target, limits, &data, &format!("{origin}, round {round}"));
        }
    }
}

/// Whether these are all the targets of a folder, and the fuzzer's own build has them.
pub fn check_that_none_is_left_out(targets: &[Target], folder: &str) {
    let files: BTreeSet<String> = std::fs::read_dir(repository().join(folder))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|suffix| suffix == "rs"))
        .map(|path| path.file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    let here = targets.iter().map(|t| t.name.to_owned()).collect();
    assert_eq!(files, here);
    let manifest = std::fs::read_to_string(repository().join("fuzz/Cargo.toml")).unwrap();
    for name in &files {
        assert!(
            manifest.contains(&format!("name = \"{name}\"")),
            "{name} is built"
        );
    }
}

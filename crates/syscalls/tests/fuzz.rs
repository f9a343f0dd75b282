//! The fuzz target of text of strace and perf trace, a short run on stable Rust (see
//! `fuzz/smoke.rs`). Seeds: `tests/data`, what strace 6.1 and perf 6.1 wrote of
//! `tests/programs/known.c`, in pieces, and forms that are hard to provoke.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

extern crate self as bounded;

#[macro_use]
#[allow(dead_code)]
#[path = "../../../fuzz/smoke.rs"]
mod smoke;

targets! {
    strace_text = "../../../fuzz/text_targets/strace_text.rs", 20_000;
}

const LIMITS: smoke::Limits = smoke::Limits {
    input_bytes: 8192,
    held_bytes: 64 << 20,
};

fn seeds() -> Vec<(String, Vec<u8>)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data");
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read(&path).unwrap();
        for (number, piece) in text.chunks(4096).enumerate() {
            found.push((format!("{} {number}", path.display()), piece.to_vec()));
        }
    }
    found.sort();
    assert!(found.len() > 8);
    found
}

smoke_tests!("fuzz/text_targets");

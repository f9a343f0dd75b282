//! The fuzz target of catalogues, a short run on stable Rust (see `fuzz/smoke.rs`). Seeds: lines as
//! `nfslab.results.catalogue` writes them, with checksums and, as older ones, without.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

extern crate self as bounded;

#[macro_use]
#[allow(dead_code)]
#[path = "../../../fuzz/smoke.rs"]
mod smoke;

use sealed::lines::Lines;

targets! {
    catalogue_lines = "../../../fuzz/sealed_targets/catalogue_lines.rs", 20_000;
}

const LIMITS: smoke::Limits = smoke::Limits {
    input_bytes: 10_000,
    held_bytes: 1 << 20,
};
const CATALOGUE: &str = include_str!("data/catalogue.jsonl");

fn seeds() -> Vec<(String, Vec<u8>)> {
    let whole = ("all lines".to_owned(), CATALOGUE.into());
    let each = CATALOGUE.split_inclusive('\n').enumerate();
    let each = each.map(|(number, line)| (format!("line {number}"), line.into()));
    each.chain([whole]).collect()
}

smoke_tests!("fuzz/sealed_targets");

#[test]
fn all_seeds_are_read() {
    for (name, bytes) in seeds() {
        assert!(Lines::read(&bytes).is_some(), "{name}");
    }
    assert_eq!(Lines::read(CATALOGUE.as_bytes()).unwrap().run_id.len(), 4);
}

//! The fuzz targets of reading captures, a short run on stable Rust (see `fuzz/smoke.rs`). It finds
//! what breaks at once; `fuzz/run` searches for the rest.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

extern crate self as bounded;

#[macro_use]
#[path = "../../../fuzz/smoke.rs"]
mod smoke;

use std::io::Read;

/// Changed inputs of each target.
const ROUNDS: usize = 4_000;

targets! {
    capture_file = "../../../fuzz/fuzz_targets/capture_file.rs", ROUNDS;
    capture_part = "../../../fuzz/fuzz_targets/capture_part.rs", ROUNDS;
    packet = "../../../fuzz/fuzz_targets/packet.rs", ROUNDS;
    record_marking = "../../../fuzz/fuzz_targets/record_marking.rs", ROUNDS;
    rpc_message = "../../../fuzz/fuzz_targets/rpc_message.rs", ROUNDS;
    sequence = "../../../fuzz/fuzz_targets/sequence.rs", ROUNDS;
    tcp_stream = "../../../fuzz/fuzz_targets/tcp_stream.rs", ROUNDS;
    v3_message = "../../../fuzz/fuzz_targets/v3_message.rs", 2 * ROUNDS;
    v4_compound = "../../../fuzz/fuzz_targets/v4_compound.rs", 2 * ROUNDS;
}

const LIMITS: smoke::Limits = smoke::Limits {
    input_bytes: 8192,
    held_bytes: 64 << 20,
};

/// Messages of the codec's tests, and the fronts of real captures, plain and compressed.
fn seeds() -> Vec<(String, Vec<u8>)> {
    let mut found = smoke::messages();
    for entry in std::fs::read_dir(smoke::repository().join("tests/captures")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|suffix| suffix == "gz") {
            let bytes = std::fs::read(&path).unwrap();
            let mut front = Vec::new();
            flate2::read::MultiGzDecoder::new(&bytes[..])
                .take(LIMITS.input_bytes as u64)
                .read_to_end(&mut front)
                .unwrap();
            found.push((format!("{}", path.display()), front));
            found.push((format!("{} as stored", path.display()), bytes));
        }
    }
    found.sort();
    found
}

smoke_tests!("fuzz/fuzz_targets");

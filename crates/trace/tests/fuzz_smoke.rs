//! The fuzz targets of reading captures, a short run on stable Rust (see `fuzz/smoke.rs`). It finds
//! what breaks at once; `fuzz/run` searches for the rest.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

extern crate self as bounded;

#[macro_use]
#[path = "../../../fuzz/smoke.rs"]
mod smoke;

use std::io::Read;

/// Changed inputs of each target.
const ROUNDS: usize = 20_000;

targets! {
    capture_file = "../../../fuzz/fuzz_targets/capture_file.rs", ROUNDS;
    packet = "../../../fuzz/fuzz_targets/packet.rs", ROUNDS;
    record_marking = "../../../fuzz/fuzz_targets/record_marking.rs", ROUNDS;
    rpc_message = "../../../fuzz/fuzz_targets/rpc_message.rs", ROUNDS;
    sequence = "../../../fuzz/fuzz_targets/sequence.rs", ROUNDS;
    tcp_stream = "../../../fuzz/fuzz_targets/tcp_stream.rs", ROUNDS;
    v3_call = "../../../fuzz/fuzz_targets/v3_call.rs", ROUNDS;
    v3_reply = "../../../fuzz/fuzz_targets/v3_reply.rs", ROUNDS;
    v4_compound_call = "../../../fuzz/fuzz_targets/v4_compound_call.rs", ROUNDS;
    v4_compound_reply = "../../../fuzz/fuzz_targets/v4_compound_reply.rs", ROUNDS;
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

/// zstd's window is C's memory: RFC 8878 section 3.1.1.1.2, an exponent of 15 is 32 MiB.
#[test]
fn what_c_allocates_is_counted() {
    use std::io::Cursor;
    use trace::source::{Bounds, Reader};

    let frame = [0x28, 0xb5, 0x2f, 0xfd, 0, 15 << 3, 1, 0, 0];
    let read = || Reader::of_bytes("frame", Cursor::new(frame), Bounds::default()).is_err();
    let (most, refused) = smoke::held::most_held(read);
    assert!(refused && most >= 32 << 20, "{most} bytes");
    // What the fuzzer found: six bytes that state 64 MiB.
    let found = [0x28, 0xb5, 0x2f, 0xfd, 0x10, 0x80];
    let (most, ()) = smoke::held::most_held(|| capture_file::entry(&found));
    assert!(most <= LIMITS.held_bytes / 2, "{most} bytes");
}

/// Other tests of this process take and give back meanwhile, but not so much.
#[test]
fn what_is_held_is_what_was_taken_and_not_given_back() {
    const UNIT: usize = 16 << 20;
    let is = |run: &dyn Fn(), units: usize| {
        let (most, ()) = smoke::held::most_held(run);
        assert!(
            most.abs_diff(units * UNIT) < UNIT / 2,
            "{most} bytes, not {units}"
        );
    };
    let one = || std::hint::black_box(vec![1_u8; UNIT]);
    is(&|| (0..5).for_each(|_| drop(one())), 1);
    is(&|| drop([one(), one(), one()]), 3);
    // Zeroed by the C library, and grown: both places may be there for a moment.
    is(&|| drop(std::hint::black_box(vec![0_u8; 2 * UNIT])), 2);
    is(&|| one().reserve_exact(2 * UNIT), 4);
    // Larger alignments go another way.
    #[repr(align(4096))]
    struct Page(#[allow(dead_code)] [u8; 4096]);
    let page = || Box::new(std::hint::black_box(Page([1; 4096])));
    let pages = 0..UNIT / 4096;
    is(&|| pages.clone().for_each(|_| drop(page())), 0);
    is(
        &|| drop(pages.clone().map(|_| page()).collect::<Vec<_>>()),
        1,
    );
    // What was held before is no part of it, whether it is given back or not.
    let before = std::cell::Cell::new(one());
    is(&|| drop([before.take(), one()]), 1);
}

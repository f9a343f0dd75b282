//! Whether the count of what a fuzz target holds (`fuzz/held.rs`) is right. It counts for a whole
//! process: so this is one of its own, in which nothing else allocates much meanwhile.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(dead_code, unused_macros)]

extern crate self as bounded;

#[macro_use]
#[path = "../../../fuzz/smoke.rs"]
mod smoke;

targets! {
    capture_file = "../../../fuzz/fuzz_targets/capture_file.rs", 0;
}

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
    assert!(most <= 32 << 20, "{most} bytes");
}

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

//! `fuzz_target!` as libFuzzer's, with a bound: an execution that holds more than [`MOST_BYTES`]
//! beyond what was held before it fails, as if it had panicked. At the end of the process the most
//! that any execution held is told like libFuzzer's own figures: `stat::peak_held_bytes: N`.
//!
//! AddressSanitizer counts in its own way: without the feature `counts` nothing is counted here.

pub use libfuzzer_sys;

#[cfg(feature = "counts")]
#[path = "held.rs"]
mod held;
#[cfg(not(feature = "counts"))]
mod held {
    pub fn most_held<R>(run: impl FnOnce() -> R) -> (usize, R) {
        (0, run())
    }
}

use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Most bytes that one execution may hold.
pub const MOST_BYTES: usize = 64 << 20;

static PEAK: AtomicUsize = AtomicUsize::new(0);
static BEGUN: Once = Once::new();

unsafe extern "C" {
    fn atexit(function: extern "C" fn()) -> i32;
}

extern "C" fn tell_peak() {
    eprintln!("stat::peak_held_bytes: {}", PEAK.load(Relaxed));
}

fn begin() {
    // SAFETY: it may be called at any time, with a function that stays.
    unsafe { atexit(tell_peak) };
    if cfg!(feature = "counts") {
        let bytes = 1 << 20;
        let (most, ()) = held::most_held(|| drop(std::hint::black_box(vec![1_u8; bytes])));
        assert!(most >= bytes, "allocations are not counted");
    }
}

/// Runs one execution within the bound.
pub fn bounded(run: impl FnOnce()) {
    BEGUN.call_once(begin);
    let (most, ()) = held::most_held(run);
    PEAK.fetch_max(most, Relaxed);
    assert!(
        most <= MOST_BYTES,
        "one execution held {most} bytes, more than {MOST_BYTES}"
    );
}

/// Makes a fuzz target of a function of bytes.
#[macro_export]
macro_rules! fuzz_target {
    (|$data:ident: &[u8]| $body:expr) => {
        fn execute($data: &[u8]) {
            $body
        }
        $crate::libfuzzer_sys::fuzz_target!(|bytes: &[u8]| $crate::bounded(|| execute(bytes)));
    };
}

#![no_main]
//! Not a target: holds as many MiB as its input's first byte says, so that `fuzz/run` sees the
//! bound on memory at work before it trusts it. The second byte: by Rust's allocator, or by C's.
use std::ffi::c_void;

use bounded::fuzz_target;

unsafe extern "C" {
    fn malloc(bytes: usize) -> *mut c_void;
    fn free(at: *mut c_void);
}

fuzz_target!(|data: &[u8]| {
    let &[mib, by_c, ..] = data else { return };
    let bytes = usize::from(mib) << 20;
    if by_c == 0 {
        drop(std::hint::black_box(Vec::<u8>::with_capacity(bytes)));
    } else {
        // SAFETY: what is given is given back at once.
        unsafe { free(std::hint::black_box(malloc(bytes))) };
    }
});

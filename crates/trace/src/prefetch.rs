//! Asks the processor for bytes that will be looked at soon.

/// Has cache lines fetched, the one at this place first; changes nothing but time.
#[inline(always)]
pub(crate) fn prefetch<const LINES: usize>(bytes: &[u8], place: usize) {
    #[cfg(target_arch = "x86_64")]
    for line in 0..LINES {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let line = bytes.as_ptr().wrapping_add(place + line * 64);
        // SAFETY: a prefetch of any address is harmless; SSE is part of every x86-64.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (bytes, place);
}

//! Asks the processor for memory that will be looked at soon; changes nothing but time.

/// Bytes of a line of the cache.
const LINE_BYTES: usize = 64;

/// Has lines of the cache fetched, the one at this place first.
#[inline(always)]
pub(crate) fn prefetch<const LINES: usize>(bytes: &[u8], place: usize) {
    let place = bytes.as_ptr().wrapping_add(place);
    (0..LINES).for_each(|line| fetch(place.wrapping_add(line * LINE_BYTES)));
}

/// Has an element's first and last line fetched.
#[inline(always)]
pub(crate) fn prefetch_element<T>(elements: &[T], place: usize) {
    let element = elements.as_ptr().wrapping_add(place).cast::<u8>();
    fetch(element);
    fetch(element.wrapping_add(size_of::<T>().saturating_sub(1)));
}

#[inline(always)]
fn fetch(line: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch of any address is harmless; SSE is part of every x86-64.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = line;
}

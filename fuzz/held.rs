//! Counts the bytes that a fuzz target holds: every allocation of the process, those of C libraries
//! (zstd) among them.
//!
//! The C library's own functions stand behind ours, which the linker finds first: Rust's allocator,
//! C and C++ all call them. (A counting `GlobalAlloc` would see Rust's share alone, and libFuzzer's
//! `-malloc_limit_mb` sees nothing without a sanitizer.) Counted is what the allocator really gave,
//! `malloc_usable_size`. Not counted: mapped files, stacks, and what the allocator keeps beyond.
//!
//! Needs glibc.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// Bytes in use by all threads. It may wrap around below what was in use before the first count.
static HELD: AtomicUsize = AtomicUsize::new(0);
/// Most bytes in use since an execution began, as a distance from `BASE`.
static MOST: AtomicUsize = AtomicUsize::new(0);
/// Bytes in use when the execution began.
static BASE: AtomicUsize = AtomicUsize::new(0);

#[inline(always)]
fn grow(bytes: usize) {
    let held = HELD.fetch_add(bytes, Relaxed).wrapping_add(bytes);
    let above = held.wrapping_sub(BASE.load(Relaxed));
    // Below the base the distance wraps around: nothing new is held.
    if above > MOST.load(Relaxed) && above <= isize::MAX as usize {
        MOST.fetch_max(above, Relaxed);
    }
}

#[inline(always)]
fn shrink(bytes: usize) {
    HELD.fetch_sub(bytes, Relaxed);
}

/// One execution at a time: there is one count.
static ALONE: Mutex<()> = Mutex::new(());

/// Calls `run`; gives the most bytes that were in use at any time beyond those before, and what
/// `run` gave. What other threads allocate meanwhile is counted, too; another call waits.
pub fn most_held<R>(run: impl FnOnce() -> R) -> (usize, R) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    BASE.store(HELD.load(Relaxed), Relaxed);
    MOST.store(0, Relaxed);
    let given = run();
    (MOST.load(Relaxed), given)
}

unsafe extern "C" {
    fn __libc_malloc(bytes: usize) -> *mut c_void;
    fn __libc_calloc(count: usize, bytes: usize) -> *mut c_void;
    fn __libc_realloc(at: *mut c_void, bytes: usize) -> *mut c_void;
    fn __libc_memalign(alignment: usize, bytes: usize) -> *mut c_void;
    fn __libc_free(at: *mut c_void);
    fn malloc_usable_size(at: *mut c_void) -> usize;
}

/// What the allocator gave there.
#[inline(always)]
fn size(at: *mut c_void) -> usize {
    // SAFETY: null, or a place that the C library's allocator gave and that was not freed.
    unsafe { malloc_usable_size(at) }
}

#[inline(always)]
fn counted(at: *mut c_void) -> *mut c_void {
    grow(size(at));
    at
}

/// `malloc(3)`.
///
/// # Safety
/// That of the C library, as of all functions here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc(bytes: usize) -> *mut c_void {
    // SAFETY: handed on as it is.
    counted(unsafe { __libc_malloc(bytes) })
}

/// `calloc(3)`.
///
/// # Safety
/// See [`malloc`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn calloc(count: usize, bytes: usize) -> *mut c_void {
    // SAFETY: handed on as it is.
    counted(unsafe { __libc_calloc(count, bytes) })
}

/// `realloc(3)`: counted as if both places were there for a moment, as they may be.
///
/// # Safety
/// See [`malloc`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn realloc(at: *mut c_void, bytes: usize) -> *mut c_void {
    let before = size(at);
    // SAFETY: handed on as it is.
    let now = counted(unsafe { __libc_realloc(at, bytes) });
    // Nothing is given where there is no room, and then the old place stays; or for no bytes.
    if !now.is_null() || bytes == 0 {
        shrink(before);
    }
    now
}

/// `memalign(3)`.
///
/// # Safety
/// See [`malloc`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memalign(alignment: usize, bytes: usize) -> *mut c_void {
    // SAFETY: handed on as it is.
    counted(unsafe { __libc_memalign(alignment, bytes) })
}

/// `aligned_alloc(3)`.
///
/// # Safety
/// See [`malloc`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aligned_alloc(alignment: usize, bytes: usize) -> *mut c_void {
    // SAFETY: handed on as it is.
    counted(unsafe { __libc_memalign(alignment, bytes) })
}

/// `posix_memalign(3)`.
///
/// # Safety
/// See [`malloc`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_memalign(
    place: *mut *mut c_void,
    alignment: usize,
    bytes: usize,
) -> c_int {
    const EINVAL: c_int = 22;
    const ENOMEM: c_int = 12;
    if !alignment.is_power_of_two() || !alignment.is_multiple_of(size_of::<*mut c_void>()) {
        return EINVAL;
    }
    // SAFETY: the alignment was looked at.
    let at = counted(unsafe { __libc_memalign(alignment, bytes) });
    if at.is_null() {
        return ENOMEM;
    }
    // SAFETY: as our own caller promises.
    unsafe { place.write(at) };
    0
}

/// `free(3)`.
///
/// # Safety
/// See [`malloc`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free(at: *mut c_void) {
    let bytes = size(at);
    // SAFETY: handed on as it is.
    unsafe { __libc_free(at) };
    shrink(bytes);
}

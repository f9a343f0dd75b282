//! Page-aligned memory, as `O_DIRECT` wants it.

use std::ptr::NonNull;

use crate::syscalls::{Called, Errno};

/// Memory at a page boundary whose pages are there before timing starts.
#[derive(Debug)]
pub struct AlignedBuffer {
    start: NonNull<u8>,
    length: usize,
}

const ALIGNMENT_BYTES: usize = 4096;

impl AlignedBuffer {
    /// A buffer of `length` bytes (at least one).
    pub fn new(length: usize) -> Called<Self> {
        let length = length.max(1);
        let layout = Self::layout(length)?;
        // SAFETY: the layout has a size above zero.
        let start = NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) });
        let mut buffer = Self {
            start: start.ok_or(Errno(libc::ENOMEM))?,
            length,
        };
        buffer.as_mut().fill(0xff); // touches each page: no page faults in the timed part
        Ok(buffer)
    }

    fn layout(length: usize) -> Called<std::alloc::Layout> {
        std::alloc::Layout::from_size_align(length, ALIGNMENT_BYTES)
            .map_err(|_| Errno(libc::ENOMEM))
    }
}

impl AsRef<[u8]> for AlignedBuffer {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        // SAFETY: start points to length initialised bytes that live as long as self.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

impl AsMut<[u8]> for AlignedBuffer {
    #[inline]
    fn as_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `&mut self` makes it exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }
}

impl Drop for AlignedBuffer {
    fn drop(&mut self) {
        if let Ok(layout) = Self::layout(self.length) {
            // SAFETY: allocated with this very layout.
            unsafe { std::alloc::dealloc(self.start.as_ptr(), layout) };
        }
    }
}

// SAFETY: owns its memory like a Vec<u8>.
unsafe impl Send for AlignedBuffer {}
// SAFETY: shared references only read.
unsafe impl Sync for AlignedBuffer {}

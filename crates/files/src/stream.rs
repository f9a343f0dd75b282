//! stdio streams, for the phases that move one character at a time.
//!
//! Bonnie used the macros `putc` and `getc` of its time, which did not lock; their successors are
//! `putc_unlocked` and `getc_unlocked`. glibc inlines them in C; here they are calls of the
//! exported functions, some 2 ns each: a per-character figure says what such a program gets, and
//! is bound by the CPU on any storage faster than some 500 MB/s. The library's own buffer
//! (st_blksize bytes) is kept, so the kernel sees requests of that size.

use std::ffi::CStr;
use std::ptr::NonNull;

use crate::syscalls::{Called, Descriptor, Errno};

unsafe extern "C" {
    // Exported by glibc and musl, absent from the libc crate. What C code gets from the macro.
    fn putc_unlocked(character: libc::c_int, stream: *mut libc::FILE) -> libc::c_int;
    fn getc_unlocked(stream: *mut libc::FILE) -> libc::c_int;
}

/// An open stdio stream.
#[derive(Debug)]
pub struct Stream(NonNull<libc::FILE>);

impl Stream {
    /// Stream over `descriptor`, which it takes over; `mode` as in fdopen(3).
    pub fn over(descriptor: Descriptor, mode: &CStr) -> Called<Self> {
        let fd = descriptor.into_raw();
        // SAFETY: the descriptor is open and the mode NUL-terminated.
        let stream = NonNull::new(unsafe { libc::fdopen(fd, mode.as_ptr()) });
        stream.map(Self).ok_or_else(|| {
            let errno = Errno::last();
            // SAFETY: the descriptor is still ours, as fdopen failed.
            unsafe { libc::close(fd) };
            errno
        })
    }

    /// Goes to `offset` from the start.
    pub fn seek(&mut self, offset: u64) -> Called<()> {
        // SAFETY: the stream is open.
        let failed = unsafe { libc::fseeko(self.0.as_ptr(), offset.cast_signed(), libc::SEEK_SET) };
        if failed == 0 {
            Ok(())
        } else {
            Err(Errno::last())
        }
    }

    /// Writes `data` one character at a time.
    #[inline]
    pub fn put_all(&mut self, data: &[u8]) -> Called<()> {
        for &character in data {
            // SAFETY: the stream is open, and `&mut self` keeps other threads away.
            if unsafe { putc_unlocked(libc::c_int::from(character), self.0.as_ptr()) } == libc::EOF
            {
                return Err(Errno::last());
            }
        }
        Ok(())
    }

    /// Reads one character at a time until `data` is full or the file ends; gives the number read.
    #[inline]
    pub fn get_all(&mut self, data: &mut [u8]) -> Called<usize> {
        for (index, place) in data.iter_mut().enumerate() {
            // SAFETY: the stream is open, and `&mut self` keeps other threads away.
            match u8::try_from(unsafe { getc_unlocked(self.0.as_ptr()) }) {
                Ok(character) => *place = character,
                Err(_) => {
                    // SAFETY: the stream is open.
                    let failed = unsafe { libc::ferror(self.0.as_ptr()) } != 0;
                    return if failed {
                        Err(Errno::last())
                    } else {
                        Ok(index)
                    };
                }
            }
        }
        Ok(data.len())
    }

    /// Hands buffered characters to the kernel.
    pub fn flush(&mut self) -> Called<()> {
        // SAFETY: the stream is open.
        if unsafe { libc::fflush(self.0.as_ptr()) } == 0 {
            Ok(())
        } else {
            Err(Errno::last())
        }
    }

    /// fsync(2) of what was flushed.
    pub fn sync(&mut self) -> Called<()> {
        // SAFETY: the stream is open, and so is its descriptor.
        if unsafe { libc::fsync(libc::fileno(self.0.as_ptr())) } == 0 {
            Ok(())
        } else {
            Err(Errno::last())
        }
    }

    /// fclose(3).
    pub fn close(self) -> Called<()> {
        let stream = self.0;
        std::mem::forget(self);
        // SAFETY: the stream is ours and used no more.
        if unsafe { libc::fclose(stream.as_ptr()) } == 0 {
            Ok(())
        } else {
            Err(Errno::last())
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: the stream is ours and used no more.
        unsafe { libc::fclose(self.0.as_ptr()) };
    }
}

// SAFETY: a FILE may be used from any thread, one at a time; `&mut self` sees to that.
unsafe impl Send for Stream {}

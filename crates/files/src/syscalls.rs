//! System calls on files. `unsafe` code of this crate is here, in `stream` and in `buffer` only.
//!
//! `std::fs` is not used for timed calls: it hides their number (short writes are retried silently
//! in `write_all`) and the errors of close(2), and knows no advice on the page cache. Interrupted
//! calls (EINTR) are retried here; everything else goes up as an errno.

use std::ffi::CString;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// An errno.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Errno(pub i32);

impl Errno {
    /// What the last failed call left.
    pub(crate) fn last() -> Self {
        Self(
            std::io::Error::last_os_error()
                .raw_os_error()
                .unwrap_or(libc::EIO),
        )
    }
}

impl std::fmt::Display for Errno {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}", std::io::Error::from_raw_os_error(self.0))
    }
}

/// Result of one call.
pub type Called<T> = Result<T, Errno>;

fn c_path(path: &Path) -> Called<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| Errno(libc::EINVAL))
}

/// Calls that wait for stable storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncCall {
    /// fsync(2).
    Fsync,
    /// fdatasync(2).
    Fdatasync,
}

/// An open file whose close can fail, and is told so (NFS reports lost writes there).
#[derive(Debug)]
pub struct Descriptor(i32);

impl Descriptor {
    /// open(2) with `O_CLOEXEC`; new files get mode 0600.
    pub fn open(path: &Path, flags: i32) -> Called<Self> {
        let path = c_path(path)?;
        let mode: libc::c_uint = 0o600;
        // SAFETY: the path is NUL-terminated and lives through the call.
        let fd = unsafe { libc::open(path.as_ptr(), flags | libc::O_CLOEXEC, mode) };
        if fd < 0 {
            Err(Errno::last())
        } else {
            Ok(Self(fd))
        }
    }

    /// One pwrite(2); may write less than asked.
    #[inline]
    pub fn write_at(&self, data: &[u8], offset: u64) -> Called<usize> {
        loop {
            // SAFETY: the pointer and length are of a live slice.
            let done = unsafe {
                libc::pwrite(
                    self.0,
                    data.as_ptr().cast(),
                    data.len(),
                    offset.cast_signed(),
                )
            };
            if let Ok(done) = usize::try_from(done) {
                return Ok(done);
            }
            retry_if_interrupted()?;
        }
    }

    /// One pread(2); may read less than asked, 0 at the end of the file.
    #[inline]
    pub fn read_at(&self, data: &mut [u8], offset: u64) -> Called<usize> {
        loop {
            // SAFETY: the pointer and length are of a live slice that is ours to write.
            let done = unsafe {
                libc::pread(
                    self.0,
                    data.as_mut_ptr().cast(),
                    data.len(),
                    offset.cast_signed(),
                )
            };
            if let Ok(done) = usize::try_from(done) {
                return Ok(done);
            }
            retry_if_interrupted()?;
        }
    }

    /// fsync(2) or fdatasync(2).
    pub fn sync(&self, call: SyncCall) -> Called<()> {
        loop {
            let failed = match call {
                // SAFETY: takes an integer only.
                SyncCall::Fsync => unsafe { libc::fsync(self.0) },
                // SAFETY: takes an integer only.
                SyncCall::Fdatasync => unsafe { libc::fdatasync(self.0) },
            };
            if failed == 0 {
                return Ok(());
            }
            retry_if_interrupted()?;
        }
    }

    /// close(2), not retried (on Linux the descriptor is gone in any case).
    pub fn close(self) -> Called<()> {
        // SAFETY: the descriptor was ours and is used no more.
        if unsafe { libc::close(self.into_raw()) } == 0 {
            Ok(())
        } else {
            Err(Errno::last())
        }
    }

    /// Gives the number away; whoever takes it closes it.
    pub(crate) const fn into_raw(self) -> i32 {
        let fd = self.0;
        std::mem::forget(self);
        fd
    }

    /// Asks the kernel to forget clean pages of the whole file.
    pub fn drop_cache(&self) -> Called<()> {
        // SAFETY: takes integers only. Length 0 means to the end; gives an errno, sets none.
        match unsafe { libc::posix_fadvise(self.0, 0, 0, libc::POSIX_FADV_DONTNEED) } {
            0 => Ok(()),
            errno => Err(Errno(errno)),
        }
    }

    /// Of `bytes` of the file, those in the page cache, by mincore(2): whole pages, so of a range
    /// that begins or ends within one a little more.
    pub fn resident_bytes(&self, bytes: Range<u64>) -> Called<u64> {
        let page = page_bytes();
        let (mut offset, mut resident) = (bytes.start / page * page, 0);
        while offset < bytes.end {
            let length = (bytes.end - offset).min(MAPPED_AT_ONCE_BYTES);
            resident += self.resident_pages(offset, length, page)? * page;
            offset += length;
        }
        Ok(resident.min(bytes.end - bytes.start))
    }

    fn resident_pages(&self, offset: u64, length: u64, page: u64) -> Called<u64> {
        let length = usize::try_from(length).map_err(|_| Errno(libc::EFBIG))?;
        let (none, fd) = (std::ptr::null_mut(), self.0);
        let (prot, share) = (libc::PROT_NONE, libc::MAP_SHARED);
        // SAFETY: a new mapping at an address of the kernel's choice touches no other memory; with
        // PROT_NONE nobody reads through it. offset is a multiple of the page size.
        let map = unsafe { libc::mmap(none, length, prot, share, fd, offset.cast_signed()) };
        if map == libc::MAP_FAILED {
            return Err(Errno::last());
        }
        let pages = length.div_ceil(usize::try_from(page).unwrap_or(4096));
        let mut flags = vec![0_u8; pages];
        // SAFETY: the range is the mapping just made; flags has one byte for each of its pages.
        let failed = unsafe { libc::mincore(map, length, flags.as_mut_ptr()) };
        let result = if failed == 0 {
            Ok(())
        } else {
            Err(Errno::last())
        };
        // SAFETY: unmaps exactly what was mapped above; no reference into it exists.
        unsafe { libc::munmap(map, length) };
        result.map(|()| flags.iter().filter(|&&flag| flag & 1 == 1).count() as u64)
    }
}

/// How much is mapped at a time to look at the page cache: bounds the page flags to 64 KiB.
const MAPPED_AT_ONCE_BYTES: u64 = 256 << 20;

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: the descriptor is ours and used no more.
        unsafe { libc::close(self.0) };
    }
}

fn retry_if_interrupted() -> Called<()> {
    match Errno::last() {
        Errno(libc::EINTR) => Ok(()),
        errno => Err(errno),
    }
}

fn page_bytes() -> u64 {
    // SAFETY: takes an integer only.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// Bytes an unprivileged user may still write on the file system of `path`; None where the file
/// system does not tell (it claims to have no blocks at all).
pub fn available_bytes(path: &Path) -> Called<Option<u64>> {
    let path = c_path(path)?;
    // SAFETY: statvfs is plain integers, for which all zeroes is a value.
    let mut answer: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: the path is NUL-terminated; the answer lives through the call.
    if unsafe { libc::statvfs(path.as_ptr(), &raw mut answer) } != 0 {
        return Err(Errno::last());
    }
    Ok((answer.f_blocks > 0).then(|| answer.f_bavail.saturating_mul(answer.f_frsize)))
}

//! Bytes from the operating system: files and streams, as they are stored.
//!
//! Regular files that are not mapped (`mapped.rs`) are read with read(2), told to the kernel as
//! sequential, in pieces that end on page bounds.
//! Pipes, sockets and terminals are polled first, so that a slow writer (live tcpdump) never holds
//! back packets that are already here, and a stop is noticed.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use super::Input;
use super::mapped::{Mapped, Shrank};
use super::progress::Shared;
use crate::error::TraceError;

/// How long a stream is waited for before the reader looks around, milliseconds.
const POLL_MS: i32 = 100;
/// Size of a page; pieces of files end on such bounds.
const PAGE_BYTES: u64 = 4096;

/// An open file or stream.
#[derive(Debug)]
pub(super) struct Raw {
    file: File,
    /// Polled before it is read; else a regular file.
    polled: bool,
    /// Size of a regular file when it was opened.
    opened_bytes: u64,
    read_bytes: u64,
    shared: Arc<Shared>,
}

impl Raw {
    /// Opens a file by its path.
    pub(super) fn open(path: &Path, shared: &Arc<Shared>) -> Result<Self, TraceError> {
        let failed = |source| TraceError::Io {
            name: path.display().to_string(),
            source,
        };
        if std::fs::metadata(path).map_err(failed)?.is_dir() {
            return Err(TraceError::Directory(path.to_owned()));
        }
        // A named pipe without a writer is not to be waited for here, where nobody could stop it.
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(path)
            .map_err(failed)?;
        Self::of(file, shared).map_err(failed)
    }

    /// Takes an input's descriptor or opens its path.
    pub(super) fn of_input(input: Input, shared: &Arc<Shared>) -> Result<Self, TraceError> {
        match input {
            Input::File(path) => Self::open(&path, shared),
            Input::Stream { name, descriptor } => Self::of(File::from(descriptor), shared)
                .map_err(|source| TraceError::Io { name, source }),
        }
    }

    fn of(file: File, shared: &Arc<Shared>) -> io::Result<Self> {
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return Err(io::Error::from_raw_os_error(libc::EISDIR));
        }
        let polled = !metadata.is_file();
        if !polled {
            // SAFETY: a plain call on a descriptor that `file` keeps open. It is advice: an error
            // changes nothing.
            unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_SEQUENTIAL) };
        }
        Ok(Raw {
            file,
            polled,
            opened_bytes: metadata.len(),
            read_bytes: 0,
            shared: Arc::clone(shared),
        })
    }

    /// Whether reading may have to wait for a writer.
    pub(super) fn is_live(&self) -> bool {
        self.polled
    }

    /// A second handle to tell at the end whether the file grew; `None` for streams.
    pub(super) fn watch(&self) -> Option<Watch> {
        let file = (!self.polled).then(|| self.file.try_clone().ok())??;
        Some(Watch {
            file,
            opened_bytes: self.opened_bytes,
        })
    }

    /// Whether the end that was met is none but of a file that was cut short.
    fn shrank(&self, buffer: &[u8]) -> bool {
        let now = self.file.metadata();
        !buffer.is_empty() && !self.polled && now.is_ok_and(|now| now.len() < self.opened_bytes)
    }

    /// Waits a little for bytes (or the end); false if none came.
    fn wait(&self) -> io::Result<bool> {
        let mut poll = libc::pollfd {
            fd: self.file.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one pollfd, which lives across the call; the descriptor is open.
        match unsafe { libc::poll(&mut poll, 1, POLL_MS) } {
            -1 => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => Ok(false),
                error => Err(error),
            },
            0 => Ok(false),
            _ => Ok(true),
        }
    }
}

impl Read for Raw {
    /// `WouldBlock` when a stream has nothing yet.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut room = buffer.len();
        if self.polled {
            if !self.wait()? {
                return Err(io::ErrorKind::WouldBlock.into());
            }
        } else if room as u64 >= 2 * PAGE_BYTES {
            room -= ((self.read_bytes + room as u64) % PAGE_BYTES) as usize;
        }
        loop {
            match self.file.read(&mut buffer[..room]) {
                Ok(0) if self.shrank(buffer) => return Err(io::Error::other(Shrank)),
                Ok(count) => {
                    self.read_bytes += count as u64;
                    self.shared.add_read(count as u64);
                    return Ok(count);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Tells whether a file grew while it was read.
#[derive(Debug)]
pub(super) struct Watch {
    file: File,
    opened_bytes: u64,
}

impl Watch {
    pub(super) fn grew(&self) -> bool {
        let now = self.file.metadata();
        now.is_ok_and(|now| now.len() > self.opened_bytes)
    }

    /// Maps the file, of this name, of which so many bytes were read, if that can be.
    pub(super) fn map(&self, name: &str, read: usize, window_bytes: usize) -> Option<Mapped> {
        let file = self.file.try_clone().ok()?;
        Mapped::begin(file, name, [self.opened_bytes, read as u64], window_bytes)
    }
}

//! A file of /proc or of a control group that is read again and again.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Most bytes taken of one file. /proc/stat of a machine with 1,024 CPUs has about 150 KB.
pub const MAX_BYTES: usize = 4 << 20;

/// First size of the buffer; grows when a file needs more.
const FIRST_BYTES: usize = 32 << 10;

/// Reading buffer, shared by all sources.
#[derive(Debug)]
pub struct Buffer(Vec<u8>);

impl Buffer {
    /// Large enough for most files.
    pub fn new() -> Self {
        Self(vec![0; FIRST_BYTES])
    }
}

/// An open file.
#[derive(Debug)]
pub struct Source(File);

impl Source {
    /// Opens `path` for reading.
    pub fn open(path: &Path) -> std::io::Result<Self> {
        File::open(path).map(Self)
    }

    /// All bytes from the start, by pread(2) until the end: seq files give a page at a time.
    pub fn read<'a>(&self, buffer: &'a mut Buffer) -> std::io::Result<&'a [u8]> {
        let mut filled = 0;
        loop {
            if filled == buffer.0.len() {
                if filled >= MAX_BYTES {
                    return Err(std::io::Error::from_raw_os_error(libc::EFBIG));
                }
                buffer.0.resize(filled * 2, 0);
            }
            match self.0.read_at(&mut buffer.0[filled..], filled as u64) {
                Ok(0) => return Ok(&buffer.0[..filled]),
                Ok(more) => filled += more,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

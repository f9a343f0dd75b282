//! A plain capture file, mapped window by window instead of copied.
//!
//! Copying a file out of the page cache costs as much as finding its segments. A mapped one is
//! looked at where it lies: a [`Stretch`] of a window takes the place of a block's bytes, and the
//! next one begins with the first packet that was not whole in it, so nothing is carried over.
//! Windows are small, since their pages count as the process's memory, and go when the last block
//! that points into them does. They begin at bounds of huge pages: one fault then has 2 MiB mapped,
//! and one entry of the processor's table of pages serves them.
//!
//! A file that was cut short meanwhile ends in zeroes (`window.rs`), so whoever used a stretch asks
//! [`Stretch::verify`] afterwards, and throws away what it made if that is an error. Blocks that
//! hold only memory of their own are always good.
//!
//! Where a window is refused, and behind the end of a file that grew, reading takes over.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::sync::Arc;

use super::window::{Window, page_bytes};
use crate::error::TraceError;

/// The kernel maps so much of a file at once if it lies together in memory, and if the window
/// begins at a multiple of it. Where that is no size of pages, nothing is lost.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// The error of a file that has fewer bytes than when it was opened.
#[derive(Debug, thiserror::Error)]
#[error("the file was cut short while it was read")]
pub(super) struct Shrank;

impl Shrank {
    /// As the error of the file with this name.
    pub(super) fn of_file(self, name: &str) -> TraceError {
        TraceError::Io {
            name: name.to_owned(),
            source: io::Error::other(self),
        }
    }
}

/// What a file was when it was opened.
#[derive(Debug)]
struct Opened {
    file: File,
    name: String,
    bytes: u64,
}

/// A mapped window and whose it is.
#[derive(Debug)]
struct Mapping {
    window: Window,
    of: Arc<Opened>,
}

/// A file that is mapped as it is read.
#[derive(Debug)]
pub(super) struct Mapped {
    of: Arc<Opened>,
    window_bytes: usize,
    /// Where the next packet begins.
    at: u64,
    /// Bytes that progress was told of.
    told: u64,
    /// The present window and its place in the file.
    present: Option<(u64, Arc<Mapping>)>,
}

impl Mapped {
    /// Maps the front of a file of this size; `None` if that is refused. `file` shares its place
    /// with the reader that [`Mapped::hand_back`] gives the rest to, who has read `told` bytes.
    pub(super) fn begin(
        file: File,
        name: &str,
        [bytes, told]: [u64; 2],
        window_bytes: usize,
    ) -> Option<Self> {
        let name = name.to_owned();
        let mut mapped = Mapped {
            of: Arc::new(Opened { file, name, bytes }),
            window_bytes: window_bytes.next_multiple_of(page_bytes()),
            at: 0,
            told,
            present: None,
        };
        mapped.present = Some(mapped.map()?);
        Some(mapped)
    }

    /// The window that begins with the page of the next packet: a huge one, if windows have room
    /// for some.
    fn map(&self) -> Option<(u64, Arc<Mapping>)> {
        let page_bytes = match self.window_bytes >= 2 * HUGE_PAGE_BYTES {
            true => HUGE_PAGE_BYTES,
            false => page_bytes(),
        };
        let from = self.at - self.at % page_bytes as u64;
        let left = usize::try_from(self.of.bytes.saturating_sub(from)).unwrap_or(usize::MAX);
        let window = Window::map(&self.of.file, from, left.min(self.window_bytes))?;
        let of = Arc::clone(&self.of);
        Some((from, Arc::new(Mapping { window, of })))
    }

    /// What lies at the next packet: as much as fits a window, at least `least` bytes (or what is
    /// left) and at most `most`; and whether the file ends with it. `None`: it has to be read,
    /// since it grew or cannot be mapped.
    pub(super) fn next(&mut self, least: usize, most: usize) -> Option<(Stretch, bool)> {
        let left = usize::try_from(self.of.bytes - self.at).unwrap_or(usize::MAX);
        let fits = |(from, mapping): &(u64, Arc<Mapping>)| {
            let from = usize::try_from(self.at.checked_sub(*from)?).ok()?;
            let there = mapping.window.bytes().len().checked_sub(from)?;
            (there >= least.min(left)).then_some((from, there.min(most)))
        };
        let known = self.present.as_ref().and_then(fits);
        let (from, length) = match known {
            Some(place) => place,
            None => {
                self.present = None;
                let present = self.map()?;
                let place = fits(&present)?;
                self.present = Some(present);
                place
            }
        };
        let ended = length == left;
        if ended
            && self
                .of
                .file
                .metadata()
                .is_ok_and(|now| now.len() > self.of.bytes)
        {
            return None;
        }
        let (_, mapping) = self.present.as_ref()?;
        let mapping = Arc::clone(mapping);
        let stretch = Stretch {
            mapping,
            from,
            length,
            behind: most,
        };
        Some((stretch, ended))
    }

    /// So many bytes more are done with; gives how many of them progress was not told of.
    pub(super) fn advance(&mut self, bytes: usize) -> u64 {
        self.at += bytes as u64;
        let news = self.at.saturating_sub(self.told);
        self.told += news;
        news
    }

    /// Puts the file's place to the next packet, for whoever reads on; `false`: nothing was done
    /// yet, and the place is right.
    pub(super) fn hand_back(&self) -> Result<bool, TraceError> {
        if self.at == 0 {
            return Ok(false);
        }
        let mut file = &self.of.file;
        let seeked = file.seek(SeekFrom::Start(self.at));
        seeked.map(|_| true).map_err(|source| TraceError::Io {
            name: self.of.name.clone(),
            source,
        })
    }
}

/// Bytes of a mapped file, at most a window, in front of a block's own ones.
#[derive(Clone, Debug)]
pub struct Stretch {
    mapping: Arc<Mapping>,
    from: usize,
    length: usize,
    behind: usize,
}

impl Stretch {
    /// The bytes at this place of a block; `None`: it is one of the block's own memory, and which.
    #[inline(always)]
    pub(crate) fn get(&self, at: usize, length: usize) -> Result<&[u8], usize> {
        match at.checked_sub(self.behind) {
            Some(own) => Err(own),
            None => Ok(self.bytes().get(at..at + length).unwrap_or_default()),
        }
    }

    /// The bytes; what was made of them counts only if [`Stretch::verify`] is well afterwards.
    #[inline(always)]
    pub(crate) fn bytes(&self) -> &[u8] {
        let window = self.mapping.window.bytes();
        window
            .get(self.from..self.from + self.length)
            .unwrap_or_default()
    }

    /// Whether its bytes were those of the file up to now.
    ///
    /// # Errors
    /// The file was cut short, or its storage could not give a page.
    pub(crate) fn verify(&self) -> Result<(), TraceError> {
        let of = &self.mapping.of;
        // Where it was cut within a page, zeroes come without a signal.
        let now = of.file.metadata();
        if now.is_ok_and(|now| now.len() < of.bytes) {
            return Err(Shrank.of_file(&of.name));
        }
        if self.mapping.window.is_torn() {
            let source = io::Error::from_raw_os_error(libc::EIO);
            let name = of.name.clone();
            return Err(TraceError::Io { name, source });
        }
        Ok(())
    }
}

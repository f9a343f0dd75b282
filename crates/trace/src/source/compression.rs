//! gzip and zstd, taken off while reading; also one inside the other.
//!
//! Both may hold several members or frames one after another (`cat a.gz b.gz`, pigz, pzstd).
//! Memory: gzip 32 KiB of window; zstd the window that the frame states (levels up to 19 use
//! 8 MiB), at most [`MAX_ZSTD_WINDOW_BYTES`], and in a frame within a frame
//! [`MAX_INNER_ZSTD_WINDOW_BYTES`]. The decoder checks it before it allocates: six bytes are enough
//! to ask for it.
//!
//! A stream that has nothing yet says `WouldBlock`, which passes through both decoders without
//! loss; cut data gives `UnexpectedEof`; damaged data any other error.

use std::io::{self, BufRead, BufReader, Read};

use flate2::bufread::GzDecoder;

use super::magic::{MAGIC_BYTES, Magic, magic};
use crate::error::TraceError;
use crate::limits::MAX_INNER_ZSTD_WINDOW_BYTES;
#[cfg(doc)]
use crate::limits::MAX_ZSTD_WINDOW_BYTES;

/// Compressed bytes read at once.
const COMPRESSED_BYTES: usize = 128 << 10;
/// Compressions within compressions that are taken off.
pub(super) const MAX_NESTING: usize = 3;

/// A layer that may be wrapped.
pub(super) type Bytes = Box<dyn Read + Send>;

/// Largest window of a zstd frame where so many zstd layers lie around it.
pub(super) fn zstd_window_bytes(outermost_bytes: usize, around: usize) -> usize {
    match around {
        0 => outermost_bytes,
        _ => outermost_bytes.min(MAX_INNER_ZSTD_WINDOW_BYTES),
    }
}

/// Takes off one layer of compression; a zstd frame may state a window of so many bytes.
pub(super) fn decompress(kind: Magic, stored: Bytes, window_bytes: usize) -> io::Result<Bytes> {
    let stored = BufReader::with_capacity(COMPRESSED_BYTES, stored);
    if kind == Magic::Gzip {
        return Ok(Box::new(Gunzip(State::Between(stored))));
    }
    let mut frames = zstd::stream::read::Decoder::with_buffer(stored)?;
    frames.window_log_max(window_bytes.max(1).ilog2())?;
    Ok(Box::new(Unzstd {
        frames,
        window_bytes,
    }))
}

/// The error that a zstd frame gives which states a longer window than is allowed.
#[derive(Debug, thiserror::Error)]
#[error("a zstd frame asks for a window of more than {most_bytes} bytes")]
pub(super) struct LongWindow {
    most_bytes: usize,
}

impl LongWindow {
    /// As an error of this input, if it is one.
    pub fn of(error: &io::Error, name: &str) -> Option<TraceError> {
        let found = error.get_ref()?.downcast_ref::<LongWindow>()?;
        Some(TraceError::Window {
            name: name.to_owned(),
            most_bytes: found.most_bytes,
        })
    }
}

/// What zstd says then (`ZSTD_error_frameParameter_windowTooLarge`).
const WINDOW_TOO_LARGE: &str = "Frame requires too much memory for decoding";

/// Frames of a zstd file, one after another.
struct Unzstd {
    frames: zstd::stream::read::Decoder<'static, Stored>,
    window_bytes: usize,
}

impl Read for Unzstd {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.frames.read(buffer);
        read.map_err(|error| match error.to_string() == WINDOW_TOO_LARGE {
            true => io::Error::other(LongWindow {
                most_bytes: self.window_bytes,
            }),
            false => error,
        })
    }
}

/// The error that bytes behind compressed data give which are no compressed data.
#[derive(Debug, thiserror::Error)]
#[error("bytes behind the compressed data")]
pub(super) struct Trailing;

type Stored = BufReader<Bytes>;

/// Members of a gzip file, one after another.
struct Gunzip(State);

enum State {
    Between(Stored),
    Member(Box<GzDecoder<Stored>>),
    Ended,
}

impl Read for Gunzip {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            match std::mem::replace(&mut self.0, State::Ended) {
                State::Ended => return Ok(0),
                State::Between(mut stored) => match next_member(&mut stored) {
                    Ok(true) => self.0 = State::Member(Box::new(GzDecoder::new(stored))),
                    Ok(false) => return Ok(0),
                    Err(error) => {
                        if error.kind() == io::ErrorKind::WouldBlock {
                            self.0 = State::Between(stored);
                        }
                        return Err(error);
                    }
                },
                State::Member(mut member) => match member.read(buffer) {
                    Ok(0) => self.0 = State::Between(member.into_inner()),
                    read => {
                        self.0 = State::Member(member);
                        return read;
                    }
                },
            }
        }
    }
}

/// Whether another member follows. Zero bytes are padding (RFC 1952 leaves it open, tapes and
/// gzip itself allow it); anything else is an error.
fn next_member(stored: &mut Stored) -> io::Result<bool> {
    loop {
        let bytes = stored.fill_buf()?;
        match bytes.first() {
            None => return Ok(false),
            Some(0) => {
                let zeros = bytes.iter().take_while(|&&byte| byte == 0).count();
                stored.consume(zeros);
            }
            Some(0x1f) if bytes.len() < MAGIC_BYTES || magic(bytes) == Magic::Gzip => {
                return Ok(true);
            }
            Some(_) => return Err(io::Error::other(Trailing)),
        }
    }
}

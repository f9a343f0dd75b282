//! The body of a reply: something in front, a file in pieces, something behind.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use hyper::body::{Body, Bytes, Frame, SizeHint};
use tokio::task::JoinHandle;

use super::{Counters, count};

/// Bytes of one read of a file.
pub(crate) const PIECE_BYTES: u64 = 64 << 10;

/// A file that is being read.
struct Reading {
    file: Arc<File>,
    offset: u64,
    end: u64,
    /// The read under way.
    pending: Option<JoinHandle<io::Result<Bytes>>>,
}

/// See the module.
pub(crate) struct PageBody {
    /// What comes first: a prefix, and the file's first piece or all of it.
    front: Bytes,
    rest: Option<Reading>,
    back: Bytes,
    left: u64,
    counters: Arc<Counters>,
}

impl PageBody {
    /// Of bytes alone.
    pub fn of(front: impl Into<Bytes>, counters: &Arc<Counters>) -> Self {
        let front = front.into();
        PageBody {
            left: front.len() as u64,
            front,
            rest: None,
            back: Bytes::new(),
            counters: Arc::clone(counters),
        }
    }

    /// Of a file from `offset` to `end`, with something in front and behind.
    pub fn with_file(
        front: Bytes,
        (file, offset, end): (Arc<File>, u64, u64),
        back: Bytes,
        counters: &Arc<Counters>,
    ) -> Self {
        PageBody {
            left: front.len() as u64 + (end - offset) + back.len() as u64,
            front,
            rest: (offset < end).then_some(Reading {
                file,
                offset,
                end,
                pending: None,
            }),
            back,
            counters: Arc::clone(counters),
        }
    }

    fn give(&mut self, bytes: Bytes) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        self.left = self.left.saturating_sub(bytes.len() as u64);
        count(&self.counters.body_bytes, bytes.len() as u64);
        Poll::Ready(Some(Ok(Frame::data(bytes))))
    }
}

/// Reads a piece, all of it.
fn read_piece(file: &File, offset: u64, end: u64) -> io::Result<Bytes> {
    let length = (end - offset).min(PIECE_BYTES);
    let mut piece = vec![0; usize::try_from(length).unwrap_or_default()];
    file.read_exact_at(&mut piece, offset)?;
    Ok(piece.into())
}

impl Body for PageBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if !self.front.is_empty() {
            let front = std::mem::take(&mut self.front);
            return self.give(front);
        }
        if let Some(reading) = &mut self.rest {
            let (offset, end) = (reading.offset, reading.end);
            let pending = reading.pending.get_or_insert_with(|| {
                let file = Arc::clone(&reading.file);
                tokio::task::spawn_blocking(move || read_piece(&file, offset, end))
            });
            let read = ready!(Pin::new(pending).poll(context));
            reading.pending = None;
            let piece = read
                .map_err(io::Error::other)
                .and_then(|piece| piece)
                .inspect_err(|_| {
                    count(&self.counters.io_errors, 1);
                })?;
            let next = offset + piece.len() as u64;
            self.rest = self
                .rest
                .take()
                .filter(|_| next < end)
                .map(|reading| Reading {
                    offset: next,
                    ..reading
                });
            return self.give(piece);
        }
        if !self.back.is_empty() {
            let back = std::mem::take(&mut self.back);
            return self.give(back);
        }
        Poll::Ready(None)
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

//! A bound on all that is sent: a token bucket whose tokens are instants.
//!
//! What is written takes its time on a line that all connections share; a connection writes again
//! when its last piece has gone over that line. So connections that all want more get the same.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep_until};

/// Most bytes of one write: what a connection may be ahead of its share.
const PIECE_BYTES: usize = 4096;

/// The line that is shared.
#[derive(Debug)]
pub(crate) struct Bandwidth {
    bytes_per_s: u64,
    /// When all that was written will have gone.
    free: Mutex<Option<Instant>>,
}

impl Bandwidth {
    pub const fn new(bytes_per_s: u64) -> Self {
        Bandwidth {
            bytes_per_s,
            free: Mutex::new(None),
        }
    }

    /// When these bytes, written now, will have gone.
    fn take(&self, bytes: usize) -> Instant {
        let now = Instant::now();
        let lasts = Duration::from_secs_f64(bytes as f64 / self.bytes_per_s as f64);
        let mut free = self
            .free
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let gone = free.map_or(now, |free| free.max(now)) + lasts;
        *free = Some(gone);
        gone
    }
}

/// A connection that writes no faster than the line lets it.
#[derive(Debug)]
pub(crate) struct Limited {
    stream: TcpStream,
    bandwidth: Arc<Bandwidth>,
    waiting: Option<Pin<Box<Sleep>>>,
}

impl Limited {
    pub const fn new(stream: TcpStream, bandwidth: Arc<Bandwidth>) -> Self {
        Limited {
            stream,
            bandwidth,
            waiting: None,
        }
    }
}

impl AsyncRead for Limited {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Limited {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if let Some(waiting) = &mut self.waiting {
            if waiting.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            self.waiting = None;
        }
        let piece = bytes
            .get(..PIECE_BYTES.min(bytes.len()))
            .unwrap_or_default();
        let written = Pin::new(&mut self.stream).poll_write(context, piece);
        if let Poll::Ready(Ok(count)) = written {
            let gone = self.bandwidth.take(count);
            self.waiting = Some(Box::pin(sleep_until(gone)));
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

//! A bound on all that is sent: one line that all connections share, fair by bytes.
//!
//! A connection asks for a piece; pieces go over the line one after the other, in the order of
//! their start tags: start-time fair queueing (Goyal, Vin and Cheng, SIGCOMM 1996). So connections
//! that all want more get the same number of bytes, whatever the sizes of their replies; and no
//! more is ever handed to sockets than the line has carried.

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep_until};

/// Most bytes of one piece: a segment's.
const PIECE_BYTES: usize = 1460;

/// Pieces that wait, by start tag and then in the order they came.
#[derive(Debug, Default)]
struct Waiting {
    /// Start tag of the piece that went last.
    virtual_bytes: u64,
    count: u64,
    pieces: BTreeMap<(u64, u64), (usize, oneshot::Sender<()>)>,
}

/// The line.
#[derive(Debug)]
pub(crate) struct Bandwidth {
    bytes_per_s: u64,
    waiting: Mutex<Waiting>,
    came: Notify,
}

impl Bandwidth {
    pub fn new(bytes_per_s: u64) -> Self {
        Bandwidth {
            bytes_per_s,
            waiting: Mutex::default(),
            came: Notify::new(),
        }
    }

    /// Asks for a piece of a connection whose last one ended at `finish_bytes` of virtual time.
    fn ask(&self, finish_bytes: &mut u64, bytes: usize) -> oneshot::Receiver<()> {
        let (turn, told) = oneshot::channel();
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let start = waiting.virtual_bytes.max(*finish_bytes);
        *finish_bytes = start + bytes as u64;
        waiting.count += 1;
        let tag = (start, waiting.count);
        waiting.pieces.insert(tag, (bytes, turn));
        drop(waiting);
        self.came.notify_one();
        told
    }

    fn next(&self) -> Option<(usize, oneshot::Sender<()>)> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let ((start, _), piece) = waiting.pieces.pop_first()?;
        waiting.virtual_bytes = start;
        Some(piece)
    }

    /// Carries pieces, for ever. Sleeps are as coarse as tokio's timer; the sum is exact.
    pub async fn carry(self: Arc<Self>) {
        let mut free = Instant::now();
        loop {
            let Some((bytes, turn)) = self.next() else {
                self.came.notified().await;
                free = free.max(Instant::now());
                continue;
            };
            if turn.send(()).is_ok() {
                free += Duration::from_secs_f64(bytes as f64 / self.bytes_per_s as f64);
                sleep_until(free).await;
            }
        }
    }
}

/// A connection that writes what the line carries.
#[derive(Debug)]
pub(crate) struct Limited {
    stream: TcpStream,
    bandwidth: Arc<Bandwidth>,
    finish_bytes: u64,
    asked: Option<(usize, oneshot::Receiver<()>)>,
    /// Carried, and not yet taken by the socket.
    carried_bytes: usize,
}

impl Limited {
    pub const fn new(stream: TcpStream, bandwidth: Arc<Bandwidth>) -> Self {
        Limited {
            stream,
            bandwidth,
            finish_bytes: 0,
            asked: None,
            carried_bytes: 0,
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
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        while this.carried_bytes == 0 && !bytes.is_empty() {
            let (asked, turn) = this.asked.get_or_insert_with(|| {
                let piece = bytes.len().min(PIECE_BYTES);
                (piece, this.bandwidth.ask(&mut this.finish_bytes, piece))
            });
            let asked = *asked;
            // The line goes on as long as the server does.
            let told = ready!(Pin::new(turn).poll(context));
            this.asked = None;
            told.map_err(io::Error::other)?;
            this.carried_bytes = asked;
        }
        let piece = bytes
            .get(..this.carried_bytes.min(bytes.len()))
            .unwrap_or_default();
        let written = ready!(Pin::new(&mut this.stream).poll_write(context, piece))?;
        this.carried_bytes -= written;
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

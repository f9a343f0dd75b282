//! How a reply is read: as much as the line lets through, checked as it comes.
//!
//! Bodies whose bytes are not compared are thrown away by the kernel (`MSG_TRUNC` of tcp(7)) where
//! they are long.

use measure::{Clock, MonotonicClock};
use rustix::io::Errno;
use rustix::net::RecvFlags;

use super::connection::{Connection, Line, Phase};
use super::fault::Fault;
use super::worker::{Worker, WorkerError};
use crate::reply::Step;

/// Longer bodies are thrown away by the kernel.
const DISCARD_BYTES: u64 = 10 << 10;
/// First read of a reply whose body is to be thrown away.
const HEAD_BYTES: usize = 1024;

impl Worker<'_> {
    /// Reads what is there, or as much as the line lets through.
    pub(super) fn receive(&mut self, slot: u32, mut now_ns: u64) -> Result<(), WorkerError> {
        let mut buffer = std::mem::take(&mut self.state.buffer);
        let result = loop {
            let Some(connection) = self.state.connections.get_mut(slot as usize) else {
                break Ok(());
            };
            if connection.phase != Phase::Busy || !connection.readable {
                break Ok(());
            }
            if self.line.is_some() && connection.line_free_ns > now_ns {
                let at_ns = connection.line_free_ns;
                self.set_timer(slot, at_ns);
                break Ok(());
            }
            let kept = connection.kept.len();
            if let Some(front) = buffer.get_mut(..kept) {
                front.copy_from_slice(&connection.kept);
            }
            let (room, flags) = room(connection, self.line.as_ref(), buffer.len() - kept);
            let to = buffer.get_mut(kept..kept + room).unwrap_or_default();
            let Some(socket) = &connection.socket else {
                break Ok(());
            };
            let received = rustix::net::recv(socket, to, flags);
            now_ns = MonotonicClock.now_ns(); // many events may have come before this one
            match received {
                Ok((_, 0)) => break self.closed(slot, now_ns),
                Ok((_, count)) => {
                    connection.readable = connection.hung_up || count == room;
                    self.received(slot, count as u64, now_ns);
                    let outcome = match flags.contains(RecvFlags::TRUNC) {
                        true => self.discarded(slot, count as u64, now_ns),
                        false => {
                            self.feed(slot, buffer.get(..kept + count).unwrap_or_default(), now_ns)
                        }
                    };
                    if outcome.is_err() {
                        break outcome;
                    }
                }
                Err(Errno::AGAIN) => {
                    connection.readable = false;
                    break Ok(());
                }
                Err(Errno::INTR) => {}
                Err(errno) => break self.fail(slot, Fault::of_moving(errno), now_ns),
            }
        };
        self.state.buffer = buffer;
        result
    }

    /// Accounts for bytes: the timed part's, and their time on the line.
    #[inline]
    fn received(&mut self, slot: u32, bytes: u64, now_ns: u64) {
        let counts = self.meter.received(now_ns, bytes);
        let Some(connection) = self.state.connections.get_mut(slot as usize) else {
            return;
        };
        if connection.first_byte_ns == 0 {
            connection.first_byte_ns = now_ns;
        }
        if counts {
            connection.window_bytes += bytes;
        }
        if let Some(line) = &self.line {
            // The line was idle while there was nothing, and never because this thread was late.
            let from_ns = connection.line_free_ns.max(connection.readable_ns);
            connection.line_free_ns = from_ns + (bytes as f64 * line.ns_per_byte) as u64;
            connection.readable = true; // the line's end is when to look again
        }
    }

    fn discarded(&mut self, slot: u32, bytes: u64, now_ns: u64) -> Result<(), WorkerError> {
        if let Some(connection) = self.state.connections.get_mut(slot as usize) {
            connection.reply.skip(bytes);
            connection.body_bytes += bytes;
        }
        self.feed(slot, &[], now_ns)
    }

    /// Reads a reply on, from bytes that begin where it was left.
    fn feed(&mut self, slot: u32, input: &[u8], now_ns: u64) -> Result<(), WorkerError> {
        let Some(connection) = self.state.connections.get_mut(slot as usize) else {
            return Ok(());
        };
        connection.kept.clear();
        let mut rest = input;
        let outcome = loop {
            let (used, step) = match connection.reply.step(rest) {
                Ok(step) => step,
                Err(error) => break Err(Fault::from(error)),
            };
            let taken = rest.get(..used).unwrap_or_default();
            rest = rest.get(used..).unwrap_or_default();
            match step {
                Step::More => {
                    connection.kept.extend_from_slice(rest);
                    return Ok(());
                }
                Step::Head(head) if head.status != 200 => break Err(Fault::Status(head.status)),
                Step::Head(head) => {
                    if head
                        .length
                        .is_some_and(|length| length != connection.expected_bytes)
                    {
                        break Err(Fault::WrongLength);
                    }
                    connection.close = head.closes;
                }
                Step::Data(count) => {
                    let data = taken.get(used - count..).unwrap_or_default();
                    let offset = connection.body_bytes;
                    connection.body_bytes += count as u64;
                    if connection.body_bytes > connection.expected_bytes {
                        break Err(Fault::WrongLength);
                    }
                    if connection.drawn.verify && !connection.is_right(offset, data, self.content) {
                        break Err(Fault::WrongBytes);
                    }
                }
                Step::End if rest.is_empty() => break Ok(()),
                Step::End => break Err(Fault::WrongLength), // more than it said
            }
        };
        match outcome {
            Ok(()) => self.complete(slot, now_ns),
            Err(fault) => self.fail(slot, fault, now_ns),
        }
    }

    /// The server has closed.
    fn closed(&mut self, slot: u32, now_ns: u64) -> Result<(), WorkerError> {
        let Some(connection) = self.state.connections.get_mut(slot as usize) else {
            return Ok(());
        };
        connection.hung_up = true;
        let whole = connection.reply.ends_with_connection();
        match whole && connection.body_bytes == connection.expected_bytes {
            true => self.complete(slot, now_ns),
            false if whole => self.fail(slot, Fault::WrongLength, now_ns),
            false => self.fail(slot, Fault::ClosedEarly, now_ns),
        }
    }

    /// All of a reply was read: it is here when the line has brought it.
    fn complete(&mut self, slot: u32, now_ns: u64) -> Result<(), WorkerError> {
        let Some(connection) = self.state.connections.get_mut(slot as usize) else {
            return Ok(());
        };
        if connection.body_bytes != connection.expected_bytes {
            return self.fail(slot, Fault::WrongLength, now_ns);
        }
        if self.line.is_some() && connection.line_free_ns > now_ns {
            connection.phase = Phase::OnTheLine;
            let at_ns = connection.line_free_ns;
            self.set_timer(slot, at_ns);
            return Ok(());
        }
        self.done(slot, now_ns, now_ns)
    }
}

/// How much may be read now, and whether the kernel is to throw it away.
fn room(connection: &Connection, line: Option<&Line>, free: usize) -> (usize, RecvFlags) {
    let most = line.map_or(free, |line| line.quantum_bytes.min(free));
    if connection.drawn.verify || connection.expected_bytes <= DISCARD_BYTES {
        return (most, RecvFlags::empty());
    }
    match connection.reply.left() {
        Some(left) if left > 0 => {
            let left = usize::try_from(left).unwrap_or(usize::MAX);
            (most.min(left), RecvFlags::TRUNC)
        }
        _ if connection.reply.awaits_head() => (most.min(HEAD_BYTES), RecvFlags::empty()),
        _ => (most, RecvFlags::empty()),
    }
}

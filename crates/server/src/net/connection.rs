//! One TCP connection: its socket, what was read of it, what is to be written, what that holds.

use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;

use measure::clock::{Clock, MonotonicClock};
use rustix::event::epoll::EventFlags;
use rustix::event::{PollFd, PollFlags, poll};
use wire::record::RecordDecoder;

use super::fair_queue::Flow;
use super::memory::{GUARANTEED_BYTES, MAX_CONNECTION_BYTES};
use super::outgoing::Outgoing;
use super::{AT_ONCE, MAX_REQUEST_BYTES};
use crate::record::{CallRecord, Reading, Recorder, Session};

/// Replies that may be made ahead for a client that has not shown yet that it takes them, bytes.
const FIRST_WINDOW_BYTES: usize = 2 << 20;
/// What a client has to take or send to count as one that goes on, bytes.
const PROGRESS_BYTES: usize = 64 << 10;

/// What came of sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// All that there was.
    All,
    /// What the socket took.
    Full,
    /// What one turn allows.
    Enough,
}

/// A connection.
#[derive(Debug)]
pub struct Connection {
    /// The socket.
    pub stream: TcpStream,
    /// The other end.
    pub peer: SocketAddr,
    /// Tells connections apart that had the same place; later ones have higher numbers.
    pub serial: u64,
    /// Takes records out of the stream.
    pub decoder: RecordDecoder,
    /// A whole call that is not run yet: it came before what is held back.
    pub waiting: Option<Vec<u8>>,
    /// Bytes read but not looked at yet; they are of one read.
    pub held: Vec<u8>,
    /// Where in `held` they begin.
    pub held_from: usize,
    /// When that was, if it is to be recorded.
    pub held_reading: Option<Reading>,
    /// Replies on their way.
    pub outgoing: Outgoing,
    /// Calls in work elsewhere.
    pub outstanding: usize,
    /// What they hold, bytes: requests, and replies that are expected.
    pub outstanding_bytes: usize,
    /// The replies' part of it.
    pub expected_bytes: usize,
    /// Bytes of replies that may be expected or wait: grows with what the client takes, shrinks
    /// when its socket is full.
    window: usize,
    /// Records of replies that are not sent whole, with the end of each in the stream.
    pub unsent: VecDeque<(u64, (Session, CallRecord))>,
    /// What epoll watches for.
    pub interest: EventFlags,
    /// True if it waits to be flushed in this turn.
    pub dirty: bool,
    /// True if it has its next turn without an event.
    pub ready: bool,
    /// True if nothing is taken from it until something of its own, or of others, has gone.
    pub blocked: bool,
    /// Bytes for which it stands in line with others; 0 if it does not.
    pub wants: usize,
    /// True if something of it has ended since it was last looked at.
    pub moved_on: bool,
    /// True once the other end sends no more: replies still go out, then it is closed.
    pub ending: bool,
    /// True once reading or writing failed.
    pub is_broken: bool,
    /// True once it made a call that must not run twice.
    pub runs_once: bool,
    /// True once it has sent a whole call.
    pub has_called: bool,
    /// When its last call came.
    pub called_ns: u64,
    /// Since when it has neither taken nor sent [`PROGRESS_BYTES`].
    pub still_ns: u64,
    moved_bytes: usize,
    /// What the books say that it holds, bytes.
    pub booked: usize,
    /// Where its next call stands among those for the workers.
    pub flow: Flow,
}

impl Connection {
    /// A new connection.
    pub fn new(stream: TcpStream, peer: SocketAddr, serial: u64, now_ns: u64) -> Self {
        Connection {
            stream,
            peer,
            serial,
            decoder: RecordDecoder::new(MAX_REQUEST_BYTES),
            waiting: None,
            held: Vec::new(),
            held_from: 0,
            held_reading: None,
            outgoing: Outgoing::default(),
            outstanding: 0,
            outstanding_bytes: 0,
            expected_bytes: 0,
            window: FIRST_WINDOW_BYTES,
            unsent: VecDeque::new(),
            interest: EventFlags::IN,
            dirty: false,
            ready: false,
            blocked: false,
            wants: 0,
            moved_on: false,
            ending: false,
            is_broken: false,
            runs_once: false,
            has_called: false,
            called_ns: now_ns,
            still_ns: now_ns,
            moved_bytes: 0,
            booked: 0,
            flow: Flow::default(),
        }
    }

    /// Sends what the socket takes, at most so many bytes; replies that are sent whole go to the
    /// recorder.
    pub fn send(
        &mut self,
        recorder: &Recorder,
        most_bytes: usize,
        now_ns: u64,
    ) -> io::Result<Sent> {
        let before = self.outgoing.stream_sent;
        let mut result = Sent::All;
        while self.outgoing.queued_bytes() > 0 {
            let sent = usize::try_from(self.outgoing.stream_sent - before).unwrap_or(usize::MAX);
            let left = most_bytes.saturating_sub(sent);
            if left == 0 {
                result = Sent::Enough;
                break;
            }
            // Before the kernel has it: the client may read it before we come back.
            let (_sending, sent_ns) = match self.unsent.is_empty() {
                true => (None, 0),
                false => (Some(recorder.sending()), MonotonicClock.now_ns()),
            };
            let more = self.outgoing.write(&self.stream, left)?;
            self.record_sent(recorder, sent_ns);
            if !more {
                result = Sent::Full;
                break;
            }
        }
        let taken = usize::try_from(self.outgoing.stream_sent - before).unwrap_or(usize::MAX);
        if taken > 0 {
            self.moved_on = true;
            self.progress(taken, now_ns);
        }
        if result == Sent::Full {
            self.window = (self.window / 2).max(FIRST_WINDOW_BYTES);
        } else {
            self.window = (self.window + taken).min(MAX_CONNECTION_BYTES);
        }
        Ok(result)
    }

    fn record_sent(&mut self, recorder: &Recorder, sent_ns: u64) {
        if self.unsent.is_empty() {
            return;
        }
        let sent = self.outgoing.stream_sent;
        let whole = self.unsent.partition_point(|(end, _)| *end <= sent);
        recorder.add(self.unsent.drain(..whole).map(|(_, (session, record))| {
            let record = CallRecord { sent_ns, ..record };
            (session, record)
        }));
    }

    /// The client has taken or sent so many bytes.
    pub fn progress(&mut self, bytes: usize, now_ns: u64) {
        self.moved_bytes += bytes;
        if self.moved_bytes >= PROGRESS_BYTES {
            self.moved_bytes = 0;
            self.still_ns = now_ns;
        }
    }

    /// What is held for it, bytes.
    pub fn held_bytes(&self) -> usize {
        self.decoder.held_bytes()
            + self.waiting.as_ref().map_or(0, Vec::capacity)
            + self.held.capacity()
            + self.outstanding_bytes
            + self.outgoing.held_bytes()
            + self.unsent.len() * size_of::<(u64, (Session, CallRecord))>()
    }

    /// True if the replies it is to get leave room for one of `bytes` more. One may always be
    /// made.
    pub fn window_takes(&self, bytes: usize) -> bool {
        let there = self.expected_bytes + self.outgoing.held_bytes();
        there == 0 || there + bytes <= self.window
    }

    /// True if it has read calls or bytes that nobody has looked at yet.
    pub fn has_rest(&self) -> bool {
        self.waiting.is_some() || self.held_from < self.held.len()
    }

    /// True if no call of it is in work and no reply waits.
    pub fn is_quiet(&self) -> bool {
        self.outgoing.queued_bytes() + self.outstanding == 0
    }

    /// True if it is quiet and no call waits: what it may have begun to send is no call yet.
    pub fn is_idle(&self) -> bool {
        self.is_quiet() && !self.has_rest()
    }

    /// Since when this connection has held more than is its own without going on; `None` if it
    /// does not, or if it waits for us.
    pub fn still_since(&self) -> Option<u64> {
        let waits_for_us = self.outstanding > 0 && self.outgoing.queued_bytes() == 0;
        (self.booked > GUARANTEED_BYTES && !waits_for_us).then_some(self.still_ns)
    }

    /// True if its client, should it have gone, went with all replies: nothing is left to be sent,
    /// the other kernel has acknowledged the rest, and no reset came, which a kernel sends for a
    /// program that goes before it has read everything (RFC 2525 section 2.17).
    pub fn has_taken_all(&self) -> bool {
        let mut unacknowledged: libc::c_int = 0;
        // SAFETY: SIOCOUTQ (tcp(7), the same as TIOCOUTQ) writes one int, to a local.
        let asked = unsafe {
            libc::ioctl(
                self.stream.as_raw_fd(),
                libc::TIOCOUTQ,
                &raw mut unacknowledged,
            )
        };
        self.is_idle() && !self.is_broken && asked == 0 && unacknowledged == 0
    }

    /// True if the other end has said that it sends no more, be it read here or not, or is gone.
    pub fn has_hung_up(&self) -> bool {
        let mut look = [PollFd::new(&self.stream, PollFlags::RDHUP)];
        self.ending || poll(&mut look, Some(&AT_ONCE)).is_ok_and(|changed| changed > 0)
    }

    /// True if it has ended and nothing is left to be sent.
    pub fn is_over(&self) -> bool {
        self.ending && self.is_idle()
    }

    /// What epoll should watch for now.
    pub fn wanted(&self) -> EventFlags {
        let mut wanted = EventFlags::empty();
        if !self.blocked && !self.has_rest() && !self.ending {
            wanted |= EventFlags::IN;
        }
        if self.outgoing.queued_bytes() > 0 {
            wanted |= EventFlags::OUT;
        }
        wanted
    }
}

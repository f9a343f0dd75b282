//! One TCP connection: its socket, what was read of it, what is to be written.

use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;

use measure::clock::{Clock, MonotonicClock};
use rustix::event::epoll::EventFlags;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use wire::record::RecordDecoder;

use super::outgoing::Outgoing;
use super::{MAX_OUTSTANDING, MAX_OUTSTANDING_BYTES, MAX_QUEUED_BYTES, MAX_REQUEST_BYTES};
use crate::record::{CallRecord, Reading, Recorder, Session};

/// A connection.
#[derive(Debug)]
pub struct Connection {
    /// The socket.
    pub stream: TcpStream,
    /// The other end.
    pub peer: SocketAddr,
    /// Tells connections apart that had the same place.
    pub serial: u64,
    /// Takes records out of the stream.
    pub decoder: RecordDecoder,
    /// Bytes read but not looked at, because of back-pressure; they are of one read.
    pub held: Vec<u8>,
    /// When that was, if it is to be recorded.
    pub held_reading: Option<Reading>,
    /// Replies on their way.
    pub outgoing: Outgoing,
    /// Calls in work elsewhere.
    pub outstanding: usize,
    /// What they cost, bytes.
    pub outstanding_bytes: usize,
    /// Records of replies that are not sent whole, with the end of each in the stream.
    pub unsent: VecDeque<(u64, (Session, CallRecord))>,
    /// What epoll watches for.
    pub interest: EventFlags,
    /// True if it waits to be flushed in this turn.
    pub dirty: bool,
    /// True once the other end sends no more: replies still go out, then it is closed.
    pub ending: bool,
    /// True once reading or writing failed.
    pub is_broken: bool,
    /// True once it made a call that must not run twice.
    pub has_calls: bool,
    /// When bytes were last read.
    pub heard_ns: u64,
}

impl Connection {
    /// A new connection.
    pub fn new(stream: TcpStream, peer: SocketAddr, serial: u64, now_ns: u64) -> Self {
        Connection {
            stream,
            peer,
            serial,
            decoder: RecordDecoder::new(MAX_REQUEST_BYTES),
            held: Vec::new(),
            held_reading: None,
            outgoing: Outgoing::default(),
            outstanding: 0,
            outstanding_bytes: 0,
            unsent: VecDeque::new(),
            interest: EventFlags::IN,
            dirty: false,
            ending: false,
            is_broken: false,
            has_calls: false,
            heard_ns: now_ns,
        }
    }

    /// Sends what the socket takes; replies that are sent whole go to the recorder.
    pub fn send(&mut self, recorder: &Recorder) -> io::Result<()> {
        if self.unsent.is_empty() {
            return self.outgoing.send(&self.stream).map(drop);
        }
        while self.outgoing.queued_bytes() > 0 {
            // Before the kernel has it: the client may read it before we come back.
            let sent_ns = MonotonicClock.now_ns();
            let more = self.outgoing.write(&self.stream)?;
            let sent = self.outgoing.stream_sent;
            let whole = self.unsent.partition_point(|(end, _)| *end <= sent);
            recorder.add(self.unsent.drain(..whole).map(|(_, (session, record))| {
                let record = CallRecord { sent_ns, ..record };
                (session, record)
            }));
            if !more {
                break;
            }
        }
        Ok(())
    }

    /// True if no more calls are to be taken from it for now.
    pub fn is_blocked(&self) -> bool {
        self.outgoing.queued_bytes() > MAX_QUEUED_BYTES
            || self.outstanding >= MAX_OUTSTANDING
            || self.outstanding_bytes > MAX_OUTSTANDING_BYTES
    }

    /// True if no call of it is in work and no reply waits: what it may have begun to send is no
    /// call yet.
    pub fn is_idle(&self) -> bool {
        self.outgoing.queued_bytes() + self.outstanding + self.held.len() == 0
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
        const NOW: Timespec = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let mut look = [PollFd::new(&self.stream, PollFlags::RDHUP)];
        self.ending || poll(&mut look, Some(&NOW)).is_ok_and(|changed| changed > 0)
    }

    /// True if it has ended and nothing is left to be sent.
    pub fn is_over(&self) -> bool {
        self.ending && self.is_idle()
    }

    /// What epoll should watch for now.
    pub fn wanted(&self) -> EventFlags {
        let mut wanted = EventFlags::empty();
        if !self.is_blocked() && self.held.is_empty() && !self.ending {
            wanted |= EventFlags::IN;
        }
        if self.outgoing.queued_bytes() > 0 {
            wanted |= EventFlags::OUT;
        }
        wanted
    }
}

//! One connection (or datagram socket) of the engine: its state, and what waits to be sent on it.
//!
//! A stream is written with one system call for as many messages as there are; a message half
//! written stays at the queue's front until its last byte is out, even if its call has ended
//! meanwhile: the stream's framing depends on it.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, recv, sendmsg, sockopt};
use wire::record::MARK_BYTES;

use super::calls::{Call, Calls, Entry, State};
use super::core::{Core, End};
use super::incoming::{Incoming, Received};
use super::request::{Completion, SharedBytes};
use super::socket;
use crate::error::CallError;
use crate::options::Transport;

/// Pieces of one system call; a message has up to three (Linux: `UIO_MAXIOV` is 1024).
const MAX_SLICES: usize = 192;
/// System calls that receive on one connection before the others have their turn.
const MAX_RECEIVES_IN_ROW: usize = 8;
/// Datagrams taken before others have their turn.
const MAX_DATAGRAMS_IN_ROW: usize = 256;
/// Largest datagram (UDP's length field).
const MAX_DATAGRAM_BYTES: usize = 65_535;
/// Wait after a failed attempt to connect; doubled each time.
const FIRST_BACKOFF_NS: u64 = 50_000_000;
/// Longest wait between attempts to connect (Linux: first 3 s, up to 5 min; a client on a
/// laboratory's network can ask oftener).
const MAX_BACKOFF_NS: u64 = 3_000_000_000;
/// Longest wait for a connection to be established before it is tried anew.
const CONNECT_NS: u64 = 15_000_000_000;

/// State of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LinkState {
    /// No connection; not tried before `retry_at_ns`.
    Down { retry_at_ns: u64 },
    /// On its way.
    Connecting { until_ns: u64 },
    /// Established (a datagram socket always is).
    Up,
}

#[derive(Debug)]
pub(super) struct Link {
    pub transport: Transport,
    pub address: SocketAddr,
    pub reserved_port: Option<bool>,
    pub socket: Option<OwnedFd>,
    pub state: LinkState,
    queue: VecDeque<Entry>,
    /// Bytes of the queue's front that are out.
    front_written: usize,
    /// The kernel's buffer was full: wait until the socket can be written.
    pub blocked: bool,
    /// What epoll was told about writing.
    pub watches_writing: bool,
    incoming: Incoming,
    datagram: Vec<u8>,
    backoff_ns: u64,
    /// Last bytes from the peer.
    pub received_ns: u64,
    zeroes: [u8; 3],
}

impl Link {
    pub fn new(transport: Transport, address: SocketAddr, reserved_port: Option<bool>) -> Self {
        Link {
            transport,
            address,
            reserved_port,
            socket: None,
            state: LinkState::Down { retry_at_ns: 0 },
            queue: VecDeque::new(),
            front_written: 0,
            blocked: false,
            watches_writing: false,
            incoming: Incoming::default(),
            datagram: match transport {
                Transport::Tcp => Vec::new(),
                Transport::Udp => vec![0; MAX_DATAGRAM_BYTES],
            },
            backoff_ns: 0,
            received_ns: 0,
            zeroes: [0; 3],
        }
    }

    /// Begins to connect. On an error the next attempt waits.
    pub fn open(&mut self, now_ns: u64) -> Result<(), Errno> {
        match socket::open(self.transport, self.address, self.reserved_port) {
            Ok(socket) => {
                self.socket = Some(socket);
                self.state = match self.transport {
                    Transport::Tcp => LinkState::Connecting {
                        until_ns: now_ns.saturating_add(CONNECT_NS),
                    },
                    Transport::Udp => LinkState::Up,
                };
                Ok(())
            }
            Err(error) => {
                self.back_off(now_ns);
                Err(error)
            }
        }
    }

    /// The socket became writable or failed: whether the connection stands.
    pub fn finish_open(&mut self) -> Result<(), Errno> {
        let socket = self.socket.as_ref().ok_or(Errno::NOTCONN)?;
        match sockopt::socket_error(socket) {
            Ok(Ok(())) => {
                self.state = LinkState::Up;
                Ok(())
            }
            Ok(Err(error)) | Err(error) => Err(error),
        }
    }

    fn back_off(&mut self, now_ns: u64) {
        self.state = LinkState::Down {
            retry_at_ns: now_ns.saturating_add(self.backoff_ns),
        };
        self.backoff_ns = (self.backoff_ns * 2).clamp(FIRST_BACKOFF_NS, MAX_BACKOFF_NS);
    }

    /// The connection is lost: what was queued is sent again on the next one.
    ///
    /// The first attempt comes at once if the peer has answered on this connection.
    pub fn close(&mut self, calls: &mut Calls, now_ns: u64) {
        self.socket = None;
        self.watches_writing = false;
        self.blocked = false;
        self.front_written = 0;
        self.incoming.clear();
        for entry in self.queue.drain(..) {
            match calls.get_mut(entry) {
                Some(call) if call.state == State::Draining => calls.release(entry),
                Some(call) => call.queued = false,
                None => {}
            }
        }
        self.back_off(now_ns);
    }

    /// The peer proved that it works: the next loss is repaired at once.
    pub fn answered(&mut self, now_ns: u64) {
        self.backoff_ns = 0;
        self.received_ns = now_ns;
    }

    /// Puts a call's message behind what is queued.
    #[inline]
    pub fn enqueue(&mut self, entry: Entry) {
        self.queue.push_back(entry);
    }

    /// Whether there is something to be sent, and it can be.
    pub fn can_flush(&self) -> bool {
        self.state == LinkState::Up && !self.blocked && !self.queue.is_empty()
    }

    /// The call whose message is half written.
    pub fn midway(&self) -> Option<Entry> {
        (self.front_written > 0)
            .then(|| self.queue.front().copied())
            .flatten()
    }

    /// Sends what is queued, as much as the socket takes.
    ///
    /// # Errors
    /// The connection is lost.
    pub fn flush(
        &mut self,
        core: &mut Core,
        now_ns: u64,
        sink: &mut impl FnMut(Completion<'_>),
    ) -> Result<(), Errno> {
        while self.can_flush() {
            let sent = match self.transport {
                Transport::Tcp => self.send_stream(core, now_ns),
                Transport::Udp => self.send_datagram(core, now_ns, sink),
            };
            match sent {
                Ok(()) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => self.blocked = true,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    #[inline]
    fn send_stream(&mut self, core: &mut Core, now_ns: u64) -> Result<(), Errno> {
        let socket = self.socket.as_ref().ok_or(Errno::NOTCONN)?;
        let mut slices = [IoSlice::new(&[]); MAX_SLICES];
        let mut used = 0;
        let mut skip = self.front_written;
        for entry in &self.queue {
            if used + 3 > MAX_SLICES {
                break;
            }
            let Some(call) = core.calls.get(*entry) else {
                continue;
            };
            for piece in pieces(call, &self.zeroes) {
                let left = piece.get(skip.min(piece.len())..).unwrap_or_default();
                skip = skip.saturating_sub(piece.len());
                if let (false, Some(slice)) = (left.is_empty(), slices.get_mut(used)) {
                    *slice = IoSlice::new(left);
                    used += 1;
                }
            }
        }
        if used == 0 {
            self.queue.clear(); // all of them have ended
            return Ok(());
        }
        let filled = slices.get(..used).unwrap_or_default();
        let offered: usize = filled.iter().map(|slice| slice.len()).sum();
        let mut control = SendAncillaryBuffer::default();
        let flags = SendFlags::NOSIGNAL;
        let written = sendmsg(socket, filled, &mut control, flags)?;
        let counters = &mut core.recorder.counters;
        counters.writes += 1;
        counters.bytes_out += written as u64;
        self.advance(core, written, now_ns);
        self.blocked = written < offered;
        Ok(())
    }

    /// Takes what was written off the queue's front.
    #[inline]
    fn advance(&mut self, core: &mut Core, mut written: usize, now_ns: u64) {
        while let Some(entry) = self.queue.front().copied() {
            let Some(call) = core.calls.get(entry) else {
                self.queue.pop_front();
                continue;
            };
            if written == 0 {
                return;
            }
            let bytes = call.bytes();
            if self.front_written == 0 {
                core.begin_send(entry, now_ns);
            }
            let left = bytes - self.front_written;
            if written < left {
                self.front_written += written;
                return;
            }
            written -= left;
            self.front_written = 0;
            self.queue.pop_front();
            core.end_send(entry);
        }
    }

    fn send_datagram(
        &mut self,
        core: &mut Core,
        now_ns: u64,
        sink: &mut impl FnMut(Completion<'_>),
    ) -> Result<(), Errno> {
        let socket = self.socket.as_ref().ok_or(Errno::NOTCONN)?;
        let Some(entry) = self.queue.front().copied() else {
            return Ok(());
        };
        let Some(call) = core.calls.get(entry) else {
            self.queue.pop_front();
            return Ok(());
        };
        let [message, payload, padding] = pieces(call, &self.zeroes);
        let message = message.get(MARK_BYTES..).unwrap_or_default();
        let slices = [message, payload, padding].map(IoSlice::new);
        let mut control = SendAncillaryBuffer::default();
        let sent = sendmsg(socket, &slices, &mut control, SendFlags::NOSIGNAL);
        core.recorder.counters.writes += 1;
        match sent {
            Ok(bytes) => {
                core.recorder.counters.bytes_out += bytes as u64;
                self.queue.pop_front();
                core.begin_send(entry, now_ns);
                core.end_send(entry);
                Ok(())
            }
            Err(Errno::MSGSIZE) => {
                self.queue.pop_front();
                let end = End::failure(CallError::Unsendable(Errno::MSGSIZE));
                core.complete(entry, end, None, now_ns, sink);
                Ok(())
            }
            Err(error @ (Errno::AGAIN | Errno::INTR)) => Err(error),
            Err(_) => {
                // What an earlier datagram met (ICMP), or a full device queue: as if lost.
                core.recorder.counters.socket_errors += 1;
                self.queue.pop_front();
                core.begin_send(entry, now_ns);
                core.end_send(entry);
                Ok(())
            }
        }
    }

    /// Receives what is there and ends the calls that it answers.
    ///
    /// # Errors
    /// The connection is lost, or its bytes make no sense.
    pub fn receive(
        &mut self,
        index: usize,
        core: &mut Core,
        now_ns: impl Fn() -> u64,
        sink: &mut impl FnMut(Completion<'_>),
    ) -> Result<(), Errno> {
        match self.transport {
            Transport::Tcp => self.receive_stream(index, core, now_ns, sink),
            Transport::Udp => self.receive_datagrams(index, core, now_ns, sink),
        }
    }

    fn receive_stream(
        &mut self,
        index: usize,
        core: &mut Core,
        now_ns: impl Fn() -> u64,
        sink: &mut impl FnMut(Completion<'_>),
    ) -> Result<(), Errno> {
        let midway = self.midway();
        for _ in 0..MAX_RECEIVES_IN_ROW {
            let socket = self.socket.as_ref().ok_or(Errno::NOTCONN)?;
            core.recorder.counters.reads += 1;
            let (bytes, full) = match self.incoming.receive(socket)? {
                Received::Bytes { bytes, full } => (bytes, full),
                Received::Nothing => return Ok(()),
                Received::End => return Err(Errno::CONNRESET),
            };
            core.recorder.counters.bytes_in += bytes as u64;
            let now_ns = now_ns();
            self.received_ns = now_ns;
            let mut any = false;
            loop {
                match self.incoming.next_record() {
                    Ok(Some(message)) => {
                        any |= core.on_message(message, (index, midway), now_ns, sink);
                    }
                    Ok(None) => break,
                    Err(_) => {
                        core.recorder.counters.framing_errors += 1;
                        return Err(Errno::BADMSG);
                    }
                }
            }
            if any {
                self.answered(now_ns);
            }
            if !full {
                return Ok(());
            }
        }
        Ok(())
    }

    fn receive_datagrams(
        &mut self,
        index: usize,
        core: &mut Core,
        now_ns: impl Fn() -> u64,
        sink: &mut impl FnMut(Completion<'_>),
    ) -> Result<(), Errno> {
        let socket = self.socket.as_ref().ok_or(Errno::NOTCONN)?;
        for _ in 0..MAX_DATAGRAMS_IN_ROW {
            core.recorder.counters.reads += 1;
            let room = self.datagram.as_mut_slice();
            let bytes = match recv(socket, room, RecvFlags::empty()) {
                Ok((_, bytes)) => bytes,
                Err(Errno::AGAIN | Errno::INTR) => return Ok(()),
                Err(_) => {
                    // ECONNREFUSED and its like: nobody listens now; the timers go on.
                    core.recorder.counters.socket_errors += 1;
                    continue;
                }
            };
            core.recorder.counters.bytes_in += bytes as u64;
            let now_ns = now_ns();
            self.received_ns = now_ns;
            let message = self.datagram.get(..bytes).unwrap_or_default();
            core.on_message(message, (index, None), now_ns, sink);
        }
        Ok(())
    }
}

/// A message as it goes over a stream.
#[inline]
fn pieces<'a>(call: &'a Call, zeroes: &'a [u8; 3]) -> [&'a [u8]; 3] {
    let payload = call.payload.as_ref().map_or(&[][..], SharedBytes::as_slice);
    let padding = zeroes.get(..call.padding).unwrap_or_default();
    [&call.message, payload, padding]
}

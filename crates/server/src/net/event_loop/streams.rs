//! TCP: accepting, reading, finding calls, answering them, sending.

use std::io::{self, ErrorKind, Read};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;

use measure::clock::{Clock, MonotonicClock};
use rustix::event::epoll;
use rustix::io::Errno;
use wire::record::MARK_BYTES;

use super::super::connection::Connection;
use super::super::counters::count;
use super::super::pending::Origin;
use super::super::{MAX_CONNECTIONS, is_allowed};
use super::{
    Loop, MAX_BROKEN, TAKEN_PER_TURN, TOKEN_CONNECTION, came_back, mark_dirty, record_at_once,
};
use crate::protocol::{Received, receive, refuse, runs_once};
use crate::reply_cache::{CallKey, Seen, Sender};

/// Open for nothing, to be closed when there is no other descriptor left.
pub(super) fn spare_descriptor() -> Option<OwnedFd> {
    std::fs::File::open("/dev/null").ok().map(OwnedFd::from)
}

fn is_out_of_descriptors(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::MFILE | Errno::NFILE)
    )
}

impl Loop {
    pub(super) fn accept(&mut self, index: usize) {
        for _ in 0..TAKEN_PER_TURN {
            let Some(accepted) = self.listeners.get(index).map(TcpListener::accept) else {
                return;
            };
            match accepted {
                Ok((stream, peer)) => {
                    if !is_allowed(&self.options.allow, peer.ip()) {
                        count(&self.counters.refused_connections);
                    } else if self.connected() >= MAX_CONNECTIONS && !self.end_the_most_silent() {
                        count(&self.counters.surplus_connections);
                    } else if self.welcome(stream, peer).is_err() {
                        count(&self.counters.broken_connections);
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if is_out_of_descriptors(&error) && self.turn_away(index) => {}
                Err(_) => return,
            }
        }
    }

    /// Connections and, of those that are closed, what still runs for them.
    fn connected(&self) -> usize {
        self.connected + self.orphans.len()
    }

    /// Ends the connection that was silent longest, of those for which nothing is in work; its
    /// client will connect anew when it has something to ask. False if there is none.
    fn end_the_most_silent(&mut self) -> bool {
        let open = self.connections.iter().enumerate();
        let idle = open
            .filter_map(|(index, slot)| slot.as_ref().map(|connection| (index, connection)))
            .filter(|(_, connection)| connection.is_idle());
        let silent = idle.min_by_key(|(_, connection)| connection.heard_ns);
        let Some(index) = silent.map(|(index, _)| index) else {
            return false;
        };
        count(&self.counters.surplus_connections);
        self.close(index);
        true
    }

    /// No descriptor is left for the connection that waits: takes it with the spare one and closes
    /// it, rather than find it waiting again and again.
    fn turn_away(&mut self, index: usize) -> bool {
        drop(self.spare.take());
        if let Some(Ok(_)) = self.listeners.get(index).map(TcpListener::accept) {
            count(&self.counters.surplus_connections);
        }
        self.spare = spare_descriptor();
        self.spare.is_some()
    }

    fn welcome(&mut self, stream: std::net::TcpStream, peer: SocketAddr) -> io::Result<()> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        let free = self.connections.iter().position(Option::is_none);
        let index = free.unwrap_or(self.connections.len());
        let data = epoll::EventData::new_u64(TOKEN_CONNECTION + index as u64);
        epoll::add(&self.epoll, &stream, data, epoll::EventFlags::IN)?;
        self.next_serial += 1;
        let connection = Some(Connection::new(stream, peer, self.next_serial, self.now_ns));
        match self.connections.get_mut(index) {
            Some(slot) => *slot = connection,
            None => self.connections.push(connection),
        }
        self.connected += 1;
        count(&self.counters.connections);
        Ok(())
    }

    fn close(&mut self, index: usize) {
        if let Some(closed) = self.connections.get_mut(index).and_then(Option::take) {
            // Closing the socket takes it out of epoll.
            self.forget(&closed);
        }
    }

    /// A connection is no more. Its calls in work count on: else a peer that comes and goes could
    /// have any number of them.
    fn forget(&mut self, closed: &Connection) {
        self.connected -= 1;
        if closed.has_calls && !closed.has_taken_all() {
            if self.broken.len() >= MAX_BROKEN {
                self.broken.pop_front();
            }
            self.broken.push_back(closed.serial);
        }
        if closed.outstanding > 0 {
            self.orphans.insert(closed.serial, closed.outstanding);
        }
    }

    pub(super) fn connection_event(
        &mut self,
        index: usize,
        flags: epoll::EventFlags,
        buffer: &mut [u8],
    ) {
        let Some(Some(connection)) = self.connections.get_mut(index) else {
            return;
        };
        mark_dirty(&mut self.dirty, connection, index);
        let gone = epoll::EventFlags::ERR | epoll::EventFlags::HUP;
        if !flags.intersects(epoll::EventFlags::IN | gone) {
            return;
        }
        if connection.is_blocked() || !connection.held.is_empty() || connection.ending {
            // Nothing is read under back-pressure, nor before what was held back.
            if flags.intersects(gone) {
                connection.is_broken = true;
                self.close(index);
            }
            return;
        }
        match connection.stream.read(buffer) {
            // Half closed: what is in work is still answered (`flush` closes in the end).
            Ok(0) => connection.ending = true,
            Ok(taken) => {
                connection.heard_ns = self.now_ns;
                self.look_at_the_clock();
                let bytes = buffer.get(..taken).unwrap_or_default();
                self.take_bytes(index, bytes);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => {
                connection.is_broken = true;
                count(&self.counters.broken_connections);
                self.close(index);
            }
        }
    }

    /// Takes calls out of a connection's bytes until they end or it is blocked.
    fn take_bytes(&mut self, index: usize, bytes: &[u8]) {
        let Some(mut connection) = self.connections.get_mut(index).and_then(Option::take) else {
            return;
        };
        let mut rest = bytes;
        let mut broken = false;
        let mut decoder =
            std::mem::replace(&mut connection.decoder, wire::record::RecordDecoder::new(0));
        while !rest.is_empty() {
            if connection.is_blocked() {
                count(&self.counters.back_pressure);
                connection.held.extend_from_slice(rest);
                connection.held_reading = self.reading;
                break;
            }
            match decoder.feed(rest) {
                Ok(fed) => {
                    rest = rest.get(fed.consumed..).unwrap_or_default();
                    if let Some(message) = fed.record {
                        self.take_call(index, &mut connection, message, rest.is_empty());
                    }
                }
                Err(_) => {
                    broken = true;
                    break;
                }
            }
        }
        connection.decoder = decoder;
        if broken {
            // The stream cannot be followed any more: what was answered still goes out.
            count(&self.counters.broken_connections);
            let _ = connection.outgoing.send(&connection.stream);
            connection.is_broken = true;
            self.forget(&connection);
            return;
        }
        if let Some(slot) = self.connections.get_mut(index) {
            *slot = Some(connection);
        }
    }

    /// A call from a connection: answered here, from the cache, or put in work.
    fn take_call(
        &mut self,
        index: usize,
        connection: &mut Connection,
        message: &[u8],
        alone: bool,
    ) {
        let call = match receive(message) {
            Received::Call(call) => call,
            Received::Refused(xid, status) => {
                count(&self.counters.replies);
                connection
                    .outgoing
                    .record(&mut self.payload, |head, _| refuse(xid, status, head));
                return;
            }
            Received::Ignored => return count(&self.counters.ignored_messages),
        };
        count(&self.counters.calls);
        let mut ticket = None;
        if runs_once(&call) {
            connection.has_calls = true;
            let sender = Sender::Connection(index, connection.serial);
            let key = CallKey::new(connection.peer, sender, &call, message);
            let is_left = came_back::among(&self.connections, &self.broken, connection.peer);
            match self.cache.begin(key, sender, self.now_ns, is_left) {
                Seen::First(begun) => ticket = Some(begun),
                Seen::Running => return count(&self.counters.duplicates_dropped),
                Seen::TakenOver(running) => {
                    count(&self.counters.duplicates_dropped);
                    return self.take_over(running, index, connection);
                }
                Seen::Answered(reply) => {
                    count(&self.counters.duplicates_answered);
                    connection
                        .outgoing
                        .record(&mut self.payload, |head, _| head.extend_from_slice(reply));
                    return;
                }
            }
        }
        if self.goes_to_work(&call, alone) {
            let origin = Origin::Connection(index, connection.serial);
            let cost = self.put_in_work(origin, connection.peer, message, ticket);
            connection.outstanding += 1;
            connection.outstanding_bytes += cost;
            return;
        }
        let timed = self.reading.is_some() || self.pool.is_some();
        let queued_before = connection.outgoing.stream_queued;
        let started_ns = if timed { MonotonicClock.now_ns() } else { 0 };
        let (service, cache, now_ns) = (&self.service, &mut self.cache, self.now_ns);
        let peer = connection.peer;
        let outcome = connection
            .outgoing
            .record(&mut self.payload, |head, payload| {
                let start = head.len();
                let outcome = service.answer(peer, &call, head, payload);
                if let Some(ticket) = ticket {
                    cache.finish(ticket, head.get(start..).unwrap_or_default(), now_ns);
                }
                outcome
            });
        count(&self.counters.replies);
        let finished_ns = if timed { MonotonicClock.now_ns() } else { 0 };
        self.at_once.took(finished_ns - started_ns);
        if let Some(reading) = self.reading {
            let end = connection.outgoing.stream_queued;
            let framed_bytes = usize::try_from(end - queued_before).unwrap_or(usize::MAX);
            let sizes = [message.len(), framed_bytes.saturating_sub(MARK_BYTES)];
            let work = ([started_ns, finished_ns], outcome);
            let record = record_at_once(reading, peer, &call, sizes, work);
            connection.unsent.push_back((end, record));
        }
    }

    /// Sends what waits, takes up connections that were held back, and tells epoll what to watch.
    pub(super) fn flush(&mut self) {
        while let Some(index) = self.dirty.pop() {
            let Some(Some(connection)) = self.connections.get_mut(index) else {
                continue;
            };
            connection.dirty = false;
            if connection.send(&self.options.recorder).is_err() {
                connection.is_broken = true;
                count(&self.counters.broken_connections);
                self.close(index);
                continue;
            }
            if !connection.held.is_empty() && !connection.is_blocked() {
                let held = std::mem::take(&mut connection.held);
                self.reading = connection.held_reading.take();
                mark_dirty(&mut self.dirty, connection, index);
                self.take_bytes(index, &held);
                continue;
            }
            if connection.is_over() {
                self.close(index);
                continue;
            }
            let wanted = connection.wanted();
            if wanted != connection.interest {
                connection.interest = wanted;
                let data = epoll::EventData::new_u64(TOKEN_CONNECTION + index as u64);
                if epoll::modify(&self.epoll, &connection.stream, data, wanted).is_err() {
                    self.close(index);
                }
            }
        }
    }
}

//! TCP: reading, finding calls, answering them, sending. All of it in turns: what one connection
//! may have of a turn of the loop is bounded, and what is left over is held back for the next.

use std::borrow::Cow;
use std::io::{ErrorKind, Read};

use measure::clock::{Clock, MonotonicClock, times_slept};
use rustix::event::epoll;
use wire::record::MARK_BYTES;
use wire::rpc::Call;

use super::super::connection::{Connection, Sent};
use super::super::counters::count;
use super::super::pending::{CALL_BYTES, Origin, reply_bytes_most};
use super::super::{MAX_OUTSTANDING, READ_BUFFER_BYTES};
use super::{Loop, TOKEN_CONNECTION, came_back, mark_dirty, record_at_once};
use crate::protocol::{Received, receive, refuse, runs_once};
use crate::reply_cache::{CallKey, Seen, Sender, Ticket};

/// Bytes of calls and replies of one connection in one turn; the last call may pass it.
const TURN_BYTES: usize = 1 << 20;

/// What each connection may have of a turn. A turn is no longer for many than for few: what all may
/// have together is shared, but for the least that each has.
#[derive(Clone, Copy, Debug)]
pub(super) struct TurnOfEach {
    /// Calls that are taken.
    pub calls: usize,
    /// Bytes that are read.
    read_bytes: usize,
    /// Bytes that are sent.
    send_bytes: usize,
}

impl TurnOfEach {
    /// One alone has this.
    const MOST: Self = TurnOfEach {
        calls: 64,
        read_bytes: READ_BUFFER_BYTES,
        send_bytes: 1 << 20,
    };
    /// All together have this.
    pub const OF_ALL: Self = TurnOfEach {
        calls: 2048,
        read_bytes: 16 << 20,
        send_bytes: 16 << 20,
    };
    const LEAST: Self = TurnOfEach {
        calls: 8,
        read_bytes: 32 << 10,
        send_bytes: 64 << 10,
    };

    /// Where so many have something.
    pub fn of(active: usize) -> Self {
        let active = active.max(1);
        let (all, least, most) = (Self::OF_ALL, Self::LEAST, Self::MOST);
        TurnOfEach {
            calls: (all.calls / active).clamp(least.calls, most.calls),
            read_bytes: (all.read_bytes / active).clamp(least.read_bytes, most.read_bytes),
            send_bytes: (all.send_bytes / active).clamp(least.send_bytes, most.send_bytes),
        }
    }
}

/// What is waited for before a socket is read, if there is no memory for what it has.
const READ_WANTED_BYTES: usize = 64 << 10;

/// What is left of a connection's turn.
struct Turn {
    calls: usize,
    bytes: usize,
    /// Memory that the bytes lie in which are being looked at, if they are held back already.
    aside_bytes: usize,
    /// True for the one that stands first in line for memory.
    first: bool,
}

impl Turn {
    fn new(calls: usize, aside_bytes: usize, first: bool) -> Self {
        Turn {
            calls,
            bytes: TURN_BYTES,
            aside_bytes,
            first,
        }
    }

    fn is_over(&self) -> bool {
        self.calls == 0 || self.bytes == 0
    }
}

/// A connection's bytes are no records: it cannot be followed any more.
struct Broken;

impl Loop {
    pub(super) fn connection_event(&mut self, index: usize, flags: epoll::EventFlags) {
        let Some(Some(connection)) = self.connections.get_mut(index) else {
            return;
        };
        mark_dirty(&mut self.dirty, connection, index);
        let gone = epoll::EventFlags::ERR | epoll::EventFlags::HUP;
        if !flags.intersects(epoll::EventFlags::IN | gone) {
            return;
        }
        if connection.blocked || connection.has_rest() || connection.ending {
            // Nothing is read under back-pressure, nor before what was held back.
            if flags.intersects(gone) {
                connection.is_broken = true;
                self.close(index);
            }
            return;
        }
        let Some(mut connection) = self.connections.get_mut(index).and_then(Option::take) else {
            return;
        };
        let done = self.read(index, &mut connection, false);
        self.put_back(index, connection, done);
    }

    /// A connection's next turn without an event: first what was held back, then its socket.
    /// `first`: it stands first in line for memory.
    pub(super) fn resume(&mut self, index: usize, first: bool) {
        let Some(mut connection) = self.connections.get_mut(index).and_then(Option::take) else {
            return;
        };
        mark_dirty(&mut self.dirty, &mut connection, index);
        connection.ready = false;
        let wants = std::mem::take(&mut connection.wants);
        let was_blocked = std::mem::take(&mut connection.blocked);
        let done = if connection.has_rest() {
            self.take_up(index, &mut connection, first);
            self.take_held(index, &mut connection, first)
        } else if was_blocked && wants > 0 && !connection.ending {
            self.read(index, &mut connection, first)
        } else {
            Ok(())
        };
        self.put_back(index, connection, done);
    }

    fn put_back(&mut self, index: usize, mut connection: Connection, done: Result<(), Broken>) {
        if done.is_err() {
            count(&self.counters.broken_connections);
            // What was answered still goes out.
            let _ = connection.send(
                &self.options.recorder,
                self.turn_of_each.send_bytes,
                self.now_ns,
            );
            self.settle(&mut connection, 0);
            connection.is_broken = true;
            self.forget(&connection);
            return;
        }
        self.settle(&mut connection, 0);
        if connection.has_rest() && !connection.blocked {
            self.next_turn(index, &mut connection);
        }
        if let Some(slot) = self.connections.get_mut(index) {
            *slot = Some(connection);
        }
    }

    /// Reads once, as much as there is memory for.
    fn read(
        &mut self,
        index: usize,
        connection: &mut Connection,
        first: bool,
    ) -> Result<(), Broken> {
        self.settle(connection, 0);
        let room = self.room(connection, first);
        let mut buffer = std::mem::take(&mut self.buffer);
        let result = match buffer.get_mut(..room.min(self.turn_of_each.read_bytes)) {
            None | Some([]) => {
                self.block(index, connection, READ_WANTED_BYTES);
                Ok(())
            }
            Some(room) => match connection.stream.read(room) {
                // Half closed: what is in work is still answered (`flush` closes in the end).
                Ok(0) => {
                    connection.ending = true;
                    Ok(())
                }
                Ok(taken) => {
                    connection.progress(taken, self.now_ns);
                    self.look_at_the_clock();
                    let bytes = buffer.get(..taken).unwrap_or_default();
                    self.take_read(index, connection, bytes, first)
                }
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) =>
                {
                    Ok(())
                }
                Err(_) => Err(Broken),
            },
        };
        self.buffer = buffer;
        result
    }

    /// Takes what was just read; what is left over is held back.
    fn take_read(
        &mut self,
        index: usize,
        connection: &mut Connection,
        bytes: &[u8],
        first: bool,
    ) -> Result<(), Broken> {
        let mut turn = Turn::new(self.turn_of_each.calls, 0, first);
        let taken = self.take_bytes(index, connection, bytes, &mut turn)?;
        let rest = bytes.get(taken..).unwrap_or_default();
        connection.held = rest.to_vec();
        connection.held_from = 0;
        connection.held_reading = self.reading;
        Ok(())
    }

    /// Takes up the call that was not run.
    fn take_up(&mut self, index: usize, connection: &mut Connection, first: bool) {
        if let Some(message) = connection.waiting.take() {
            self.reading = connection.held_reading;
            let mut turn = Turn::new(1, connection.held.capacity(), first);
            let held = std::mem::take(&mut connection.held);
            let alone = connection.held_from >= held.len();
            self.take_message(index, connection, Cow::Owned(message), alone, &mut turn);
            connection.held = held;
        }
    }

    /// Takes what was held back.
    fn take_held(
        &mut self,
        index: usize,
        connection: &mut Connection,
        first: bool,
    ) -> Result<(), Broken> {
        if connection.blocked {
            return Ok(());
        }
        self.reading = connection.held_reading;
        let held = std::mem::take(&mut connection.held);
        let mut turn = Turn::new(self.turn_of_each.calls, held.capacity(), first);
        let bytes = held.get(connection.held_from..).unwrap_or_default();
        connection.held_from += self.take_bytes(index, connection, bytes, &mut turn)?;
        if connection.held_from < held.len() {
            connection.held = held;
        } else {
            connection.held_from = 0;
        }
        Ok(())
    }

    /// Takes calls out of a connection's bytes until they or its turn end, or it is blocked;
    /// returns how many bytes that were.
    fn take_bytes(
        &mut self,
        index: usize,
        connection: &mut Connection,
        bytes: &[u8],
        turn: &mut Turn,
    ) -> Result<usize, Broken> {
        let mut rest = bytes;
        while !rest.is_empty() && !turn.is_over() && !connection.blocked {
            let fed = connection.decoder.feed(rest).map_err(|_| Broken)?;
            let length = fed.record.map(<[u8]>::len);
            let (front, behind) = rest.split_at_checked(fed.consumed).unwrap_or((rest, &[]));
            rest = behind;
            let Some(length) = length else { continue };
            let message = match connection.decoder.take_record() {
                Some(message) => Cow::Owned(message),
                // It lies in one piece where its bytes end.
                None => Cow::Borrowed(front.get(front.len() - length..).unwrap_or_default()),
            };
            let aside_bytes = turn.aside_bytes;
            turn.aside_bytes = aside_bytes.max(rest.len());
            self.take_message(index, connection, message, rest.is_empty(), turn);
            turn.aside_bytes = aside_bytes;
        }
        Ok(bytes.len() - rest.len())
    }

    /// A message of a connection: answered here, from the cache, put in work, or held back.
    fn take_message(
        &mut self,
        index: usize,
        connection: &mut Connection,
        message: Cow<'_, [u8]>,
        alone: bool,
        turn: &mut Turn,
    ) {
        turn.calls -= 1;
        let received = receive(&message);
        let reply_most = match &received {
            Received::Call(call) => reply_bytes_most(call),
            _ => CALL_BYTES,
        };
        self.settle(connection, turn.aside_bytes + message.len());
        let room = self.room(connection, turn.first);
        let is_full = connection.outstanding >= MAX_OUTSTANDING;
        if is_full || reply_most > room || !connection.window_takes(reply_most) {
            connection.waiting = Some(message.into_owned());
            return self.block(index, connection, reply_most);
        }
        turn.bytes = turn.bytes.saturating_sub(message.len() + reply_most);
        let call = match received {
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
        connection.has_called = true;
        connection.called_ns = self.now_ns;
        let mut ticket = None;
        if runs_once(&call) {
            connection.runs_once = true;
            let sender = Sender::Connection(index, connection.serial);
            let key = CallKey::new(connection.peer, sender, &call, &message);
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
            let flow = &mut connection.flow;
            let message = message.into_owned();
            connection.outstanding += 1;
            connection.outstanding_bytes += message.capacity() + reply_most;
            connection.expected_bytes += reply_most;
            self.put_in_work(origin, connection.peer, message, ticket, flow);
        } else {
            self.answer_here(connection, &call, message.len(), ticket);
        }
    }

    /// Answers a call where it was read.
    fn answer_here(
        &mut self,
        connection: &mut Connection,
        call: &Call<'_>,
        message_bytes: usize,
        ticket: Option<Ticket>,
    ) {
        let timed = self.reading.is_some() || self.pool.is_some();
        let queued_before = connection.outgoing.stream_queued;
        let watched = self.at_once.watch();
        let started_ns = if timed { MonotonicClock.now_ns() } else { 0 };
        let (service, cache, now_ns) = (&self.service, &mut self.cache, self.now_ns);
        let peer = connection.peer;
        let outcome = connection
            .outgoing
            .record(&mut self.payload, |head, payload| {
                let start = head.len();
                let outcome = service.answer(peer, call, head, payload);
                if let Some(ticket) = ticket {
                    cache.finish(ticket, head.get(start..).unwrap_or_default(), now_ns);
                }
                outcome
            });
        count(&self.counters.replies);
        let finished_ns = if timed { MonotonicClock.now_ns() } else { 0 };
        self.at_once
            .took(finished_ns - started_ns, watched, times_slept);
        if let Some(reading) = self.reading {
            let end = connection.outgoing.stream_queued;
            let framed_bytes = usize::try_from(end - queued_before).unwrap_or(usize::MAX);
            let sizes = [message_bytes, framed_bytes.saturating_sub(MARK_BYTES)];
            let work = ([started_ns, finished_ns], outcome);
            let record = record_at_once(reading, peer, call, sizes, work);
            connection.unsent.push_back((end, record));
        }
    }

    /// Sends what waits, gives those their next turn that got on, tells epoll what to watch.
    pub(super) fn flush(&mut self) {
        while let Some(index) = self.dirty.pop() {
            let Some(mut connection) = self.connections.get_mut(index).and_then(Option::take)
            else {
                continue;
            };
            connection.dirty = false;
            let sent = connection.send(
                &self.options.recorder,
                self.turn_of_each.send_bytes,
                self.now_ns,
            );
            self.settle(&mut connection, 0);
            let Ok(sent) = sent else {
                connection.is_broken = true;
                count(&self.counters.broken_connections);
                self.forget(&connection);
                continue;
            };
            if connection.is_over() {
                self.forget(&connection);
                continue;
            }
            let moved_on = std::mem::take(&mut connection.moved_on);
            let goes_on = moved_on && (connection.blocked || connection.has_rest());
            if sent == Sent::Enough || goes_on {
                self.next_turn(index, &mut connection);
            }
            let wanted = connection.wanted();
            let mut watched = Ok(());
            if wanted != connection.interest && !connection.ready {
                connection.interest = wanted;
                let data = epoll::EventData::new_u64(TOKEN_CONNECTION + index as u64);
                watched = epoll::modify(&self.epoll, &connection.stream, data, wanted);
            }
            if watched.is_err() {
                self.forget(&connection);
            } else if let Some(slot) = self.connections.get_mut(index) {
                *slot = Some(connection);
            }
        }
    }

    /// Its next turn comes without an event.
    fn next_turn(&mut self, index: usize, connection: &mut Connection) {
        // Who stands in line for memory goes on from there.
        if !connection.ready && connection.wants == 0 {
            connection.ready = true;
            self.ready.push_back((index, connection.serial));
        }
    }
}

//! Who gets a place: accepting, and who goes when all places or descriptors are taken.
//!
//! First go those that never sent a whole call, the oldest first (half a record is none); then
//! those that did, the one whose last call is longest ago; then one that does not take its replies.
//! A client whose connection is closed comes back when it has something to ask.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;

use measure::peer::Carrier;
use rustix::event::epoll;
use rustix::io::Errno;

use super::super::MAX_CONNECTIONS;
use super::super::connection::Connection;
use super::super::counters::count;
use super::came_back::MAX_BROKEN;
use super::{Loop, Orphans, TAKEN_PER_TURN, TOKEN_CONNECTION};

/// Open for nothing, to be closed when there is no other descriptor left.
pub(super) fn spare_descriptor() -> Option<OwnedFd> {
    std::fs::File::open("/dev/null").ok().map(OwnedFd::from)
}

/// Descriptors that are left to the store (256 files of a folder are kept open) and to the process.
const OTHER_DESCRIPTORS: u64 = 320;

/// Connections that may be there at a time: of few descriptors the store gets half.
pub(super) fn places() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let most = limit.map_or(MAX_CONNECTIONS as u64, |limit| {
        limit.saturating_sub(OTHER_DESCRIPTORS).max(limit / 2)
    });
    usize::try_from(most).map_or(MAX_CONNECTIONS, |most| most.clamp(1, MAX_CONNECTIONS))
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
                    let own = stream.local_addr().ok();
                    if !self.access.admits(Carrier::Tcp, peer, own) {
                        count(&self.counters.refused_connections);
                    } else if self.connected() >= self.places && !self.end_the_most_silent() {
                        count(&self.counters.surplus_connections);
                    } else if self.welcome(stream, peer).is_err() {
                        count(&self.counters.broken_connections);
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error)
                    if is_out_of_descriptors(&error)
                        && (self.end_the_most_silent() || self.turn_away(index)) => {}
                Err(_) => return,
            }
        }
    }

    /// Connections and, of those that are closed, what still runs for them.
    fn connected(&self) -> usize {
        self.connected + self.orphans.len()
    }

    /// Ends the connection that can best be done without; false if all have calls in work.
    fn end_the_most_silent(&mut self) -> bool {
        let open = self.connections.iter().enumerate();
        let open = open.filter_map(|(index, slot)| slot.as_ref().map(|open| (index, open)));
        let silent = open.filter_map(|(index, connection)| {
            let rank = match (connection.is_idle(), connection.has_called) {
                (true, false) => (0, connection.serial),
                (true, true) => (1, connection.called_ns),
                // Closing it would not end its calls in work: it would keep its place.
                (false, _) if connection.outstanding == 0 => (2, connection.still_ns),
                (false, _) => return None,
            };
            Some((rank, index))
        });
        let Some((_, index)) = silent.min() else {
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

    pub(super) fn close(&mut self, index: usize) {
        if let Some(closed) = self.connections.get_mut(index).and_then(Option::take) {
            // Closing the socket takes it out of epoll.
            self.forget(&closed);
        }
    }

    /// A connection is no more. Its calls in work count on, with what they hold: else a peer that
    /// comes and goes could have any number of them.
    pub(super) fn forget(&mut self, closed: &Connection) {
        self.connected -= 1;
        if closed.runs_once && !closed.has_taken_all() {
            if self.broken.len() >= MAX_BROKEN {
                self.broken.pop_front();
            }
            self.broken.push_back(closed.serial);
        }
        if closed.wants > 0 {
            self.line.leave(closed.serial);
        }
        self.memory.change(closed.booked, closed.outstanding_bytes);
        if closed.outstanding > 0 {
            let left = Orphans {
                calls: closed.outstanding,
                bytes: closed.outstanding_bytes,
            };
            self.orphans.insert(closed.serial, left);
        }
    }

    /// A call has ended whose connection is closed.
    pub(super) fn orphan_ended(&mut self, serial: u64, bytes: usize) {
        if let Some(left) = self.orphans.get_mut(&serial) {
            self.memory.change(left.bytes, left.bytes - bytes);
            left.bytes -= bytes;
            left.calls -= 1;
            if left.calls == 0 {
                self.orphans.remove(&serial);
            }
        }
    }
}

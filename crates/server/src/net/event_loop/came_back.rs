//! Clients that come back on another connection and send again what they have no reply to.

use std::collections::VecDeque;
use std::net::SocketAddr;

use super::super::connection::Connection;
use super::super::pending::Origin;
use super::{Loop, mark_dirty};
use crate::reply_cache::{Sender, Ticket};

/// Broken connections remembered: as many as may be open.
pub(super) const MAX_BROKEN: usize = super::super::MAX_CONNECTIONS;

/// Tells whether the client of a connection may have come back as `peer`: that connection has
/// ended before all replies were taken. An open one is another client's; so is one that ended with
/// all of them, whose client has nothing to send again.
pub(super) fn among(
    connections: &[Option<Connection>],
    broken: &VecDeque<u64>,
    peer: SocketAddr,
) -> impl Fn(Sender) -> bool {
    move |sender| {
        let Sender::Connection(index, serial) = sender else {
            return false;
        };
        let slot = connections.get(index).and_then(Option::as_ref);
        match slot.filter(|open| open.serial == serial) {
            // No two connections have the same ends: the older one is dead.
            Some(open) if open.peer == peer => true,
            Some(open) => open.has_hung_up() && !open.has_taken_all(),
            None => broken.contains(&serial),
        }
    }
}

impl Loop {
    /// A call in work is now this connection's.
    pub(super) fn take_over(&mut self, ticket: Ticket, index: usize, connection: &mut Connection) {
        let is_it = |ours: &Option<Ticket>| *ours == Some(ticket);
        let mut running = self.pending.values_mut();
        let Some(pending) = running.find(|pending| is_it(&pending.ticket)) else {
            return;
        };
        let before = pending.origin;
        pending.origin = Origin::Connection(index, connection.serial);
        let (cost_bytes, reply_most) = (pending.cost_bytes, pending.reply_most);
        connection.outstanding += 1;
        connection.outstanding_bytes += cost_bytes;
        connection.expected_bytes += reply_most;
        let Origin::Connection(place, serial) = before else {
            return;
        };
        let slot = self.connections.get_mut(place).and_then(Option::as_mut);
        match slot.filter(|found| found.serial == serial) {
            Some(left) => {
                left.outstanding -= 1;
                left.outstanding_bytes -= cost_bytes;
                left.expected_bytes -= reply_most;
                mark_dirty(&mut self.dirty, left, place);
            }
            None => self.orphan_ended(serial, cost_bytes),
        }
    }
}

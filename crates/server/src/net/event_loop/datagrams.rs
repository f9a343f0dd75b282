//! UDP: one datagram, one call; a reply that no datagram holds is counted and becomes an error.

use std::io::ErrorKind;
use std::net::SocketAddr;

use measure::clock::{Clock, MonotonicClock, times_slept};
use measure::peer::Carrier;

use super::super::counters::count;
use super::super::pending::{Origin, reply_bytes_most};
use super::super::{MAX_DATAGRAM_BYTES, MAX_DATAGRAMS, MAX_DATAGRAMS_BYTES};
use super::{Loop, TAKEN_PER_TURN, record_at_once};
use wire::rpc::ReplyStatus;

use crate::model::Engine;
use crate::protocol::{Received, receive, refuse, runs_once};
use crate::record::{CallRecord, Session};
use crate::reply_cache::{CallKey, Seen, Sender};

impl Loop {
    pub(super) fn receive_datagrams(&mut self, socket: usize) {
        let mut buffer = std::mem::take(&mut self.buffer);
        self.receive_into(socket, &mut buffer);
        self.buffer = buffer;
    }

    fn receive_into(&mut self, socket: usize, buffer: &mut [u8]) {
        for _ in 0..TAKEN_PER_TURN {
            let Some(received) = self.datagrams.get(socket).map(|s| s.recv_from(buffer)) else {
                return;
            };
            match received {
                Ok((length, peer)) => {
                    self.look_at_the_clock();
                    let own = self.datagrams.get(socket).and_then(|s| s.local_addr().ok());
                    if !self.access.admits(Carrier::Udp, peer, own) {
                        count(&self.counters.refused_datagrams);
                    } else if self.model.as_mut().is_some_and(Engine::loses) {
                        count(&self.counters.model_lost);
                    } else {
                        let message = buffer.get(..length).unwrap_or_default();
                        self.take_datagram(socket, peer, message);
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                // An earlier reply's refusal (ICMP) or a signal: go on with the next.
                Err(_) => {}
            }
        }
    }

    fn take_datagram(&mut self, socket: usize, peer: SocketAddr, message: &[u8]) {
        let mut reply = std::mem::take(&mut self.datagram);
        reply.clear();
        let call = match receive(message) {
            Received::Call(call) => call,
            Received::Refused(xid, status) => {
                refuse(xid, status, &mut reply);
                self.send_datagram(socket, peer, &reply, None);
                return;
            }
            Received::Ignored => return count(&self.counters.ignored_messages),
        };
        count(&self.counters.calls);
        let in_work = self.goes_to_work(&call, true);
        let cost = message.len() + reply_bytes_most(&call);
        if in_work
            && (self.datagrams_in_work >= MAX_DATAGRAMS
                || self.datagrams_bytes + cost > MAX_DATAGRAMS_BYTES)
        {
            return count(&self.counters.surplus_datagrams);
        }
        let mut ticket = None;
        if runs_once(&call) {
            let sender = Sender::Port(peer.port());
            let key = CallKey::new(peer, sender, &call, message);
            match self.cache.begin(key, sender, self.now_ns, |_| false) {
                Seen::First(begun) => ticket = Some(begun),
                Seen::Running | Seen::TakenOver(_) => {
                    return count(&self.counters.duplicates_dropped);
                }
                Seen::Answered(kept) => {
                    count(&self.counters.duplicates_answered);
                    reply.extend_from_slice(kept);
                    self.send_datagram(socket, peer, &reply, None);
                    return;
                }
            }
        }
        if in_work {
            let message = message.to_vec();
            self.datagrams_in_work += 1;
            self.datagrams_bytes += message.capacity() + reply_bytes_most(&call);
            let mut flow = self.datagrams_flow;
            self.put_in_work(Origin::Datagram(socket), peer, message, ticket, &mut flow);
            self.datagrams_flow = flow;
            return;
        }
        let timed = self.reading.is_some() || self.pool.is_some();
        let watched = self.at_once.watch();
        let started_ns = if timed { MonotonicClock.now_ns() } else { 0 };
        let mut payload = std::mem::take(&mut self.payload);
        let outcome = self.service.answer(peer, &call, &mut reply, &mut payload);
        if let Some(ticket) = ticket {
            self.cache.finish(ticket, &reply, self.now_ns);
        }
        let finished_ns = if timed { MonotonicClock.now_ns() } else { 0 };
        self.at_once
            .took(finished_ns - started_ns, watched, times_slept);
        for chunk in payload.drain() {
            reply.extend_from_slice(chunk.as_bytes());
        }
        self.payload = payload;
        count(&self.counters.replies);
        let record = self.reading.map(|reading| {
            let sizes = [message.len(), reply.len()];
            let work = ([started_ns, finished_ns], outcome);
            record_at_once(reading, peer, &call, sizes, work)
        });
        self.send_datagram(socket, peer, &reply, record);
        self.datagram = reply;
    }

    /// Sends a reply (one that the model loses has left, too); its record is then whole.
    pub(super) fn send_datagram(
        &mut self,
        socket: usize,
        peer: SocketAddr,
        reply: &[u8],
        record: Option<(Session, CallRecord)>,
    ) {
        if let Some((session, record)) = record {
            let sent_ns = MonotonicClock.now_ns();
            let whole = CallRecord { sent_ns, ..record };
            self.options.recorder.add([(session, whole)]);
        }
        let mut copies = 1;
        if let Some(model) = &mut self.model {
            if model.loses() {
                return count(&self.counters.model_lost);
            }
            if model.doubles() {
                count(&self.counters.model_doubled);
                copies = 2;
            }
        }
        let mut refused = Vec::new();
        let mut reply = reply;
        if reply.len() > MAX_DATAGRAM_BYTES {
            // The client hears that this cannot be, rather than nothing again and again.
            count(&self.counters.unsent_datagrams);
            let xid = reply
                .first_chunk()
                .map_or(0, |xid| u32::from_be_bytes(*xid));
            refuse(xid, ReplyStatus::SystemError, &mut refused);
            reply = &refused;
        }
        for _ in 0..copies {
            let sent = match self.datagrams.get(socket) {
                Some(socket) => socket.send_to(reply, peer),
                None => Err(ErrorKind::NotConnected.into()),
            };
            if sent.is_err() {
                count(&self.counters.unsent_datagrams);
            }
        }
    }
}

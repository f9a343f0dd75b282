//! The engine's inner turns: which connection a call goes to, timers, connections lost and found.

use measure::Clock;
use rustix::event::epoll;

use super::Engine;
use super::calls::{Entry, State};
use super::core::{Due, End};
use super::link::LinkState;
use super::request::Completion;
use super::timers::Expiry;
use crate::options::Transport;

impl<C: Clock> Engine<C> {
    /// Gives pending calls to connections as far as the window allows.
    pub(super) fn dispatch(&mut self, now_ns: u64) {
        if let Some(held) = &mut self.held {
            held.let_go(&mut self.core.calls, now_ns);
        }
        while self.core.calls.outstanding < self.core.window() {
            if self.core.calls.pending.is_empty() {
                return;
            }
            let index = self.choose_link();
            let Some(entry) = self.core.dispatch_next(index, now_ns) else {
                continue;
            };
            let Some(link) = self.links.get_mut(index) else {
                return;
            };
            if link.state == LinkState::Up {
                link.enqueue(entry);
            } else if let Some(call) = self.core.calls.get_mut(entry) {
                call.queued = false; // goes out when the connection stands
            }
        }
    }

    /// Round robin over connections that stand; over all if none does.
    fn choose_link(&mut self) -> usize {
        let count = self.links.len().max(1);
        let turn = |step: usize| (self.next_link + step) % count;
        let up = (0..count)
            .map(turn)
            .find(|index| matches!(self.links.get(*index), Some(l) if l.state == LinkState::Up));
        let chosen = up.unwrap_or(self.next_link % count);
        self.next_link = (chosen + 1) % count;
        chosen
    }

    /// Sends on every connection what can be sent.
    pub(super) fn flush(&mut self, now_ns: u64, sink: &mut impl FnMut(Completion<'_>)) {
        for index in 0..self.links.len() {
            let Some(link) = self.links.get_mut(index) else {
                continue;
            };
            if !link.can_flush() {
                continue;
            }
            match link.flush(&mut self.core, now_ns, sink) {
                Ok(()) => self.watch(index),
                Err(_) => self.lose(index, now_ns),
            }
        }
    }

    /// Does what is due: timers, connections, samples.
    pub(super) fn tend(&mut self, now_ns: u64, sink: &mut impl FnMut(Completion<'_>)) {
        let mut due = std::mem::take(&mut self.due);
        due.clear();
        let mut note = |_: &mut _, Due { entry, expiry }| due.push((entry, expiry));
        self.core.expired(now_ns, &mut note);
        for (entry, expiry) in &due {
            self.on_timeout(*entry, *expiry, now_ns, sink);
        }
        self.due = due;
        if self.in_flight() > 0 {
            for index in 0..self.links.len() {
                self.reconnect_if_due(index, now_ns);
            }
        }
        if self.core.recorder.samples.is_due(now_ns) {
            let tcp = self.tcp_info();
            let recorder = &mut self.core.recorder;
            let (counters, operations) = (recorder.counters, &recorder.operations);
            recorder.samples.take(now_ns, counters, operations, tcp);
            if let Some(ring) = &mut recorder.ring {
                ring.hand_over();
            }
        }
    }

    fn reconnect_if_due(&mut self, index: usize, now_ns: u64) {
        match self.links.get(index).map(|link| link.state) {
            Some(LinkState::Down { retry_at_ns }) if now_ns >= retry_at_ns => {
                if self.open_link(index, now_ns).is_err() {
                    self.core.recorder.counters.connect_failures += 1;
                } else if let Some(link) = self.links.get(index)
                    && link.state == LinkState::Up
                {
                    self.resend_all(index);
                }
            }
            Some(LinkState::Connecting { until_ns }) if now_ns >= until_ns => {
                self.core.recorder.counters.connect_failures += 1;
                if let Some(link) = self.links.get_mut(index) {
                    link.close(&mut self.core.calls, now_ns);
                }
            }
            _ => {}
        }
    }

    fn on_timeout(
        &mut self,
        entry: Entry,
        expiry: Expiry,
        now_ns: u64,
        sink: &mut impl FnMut(Completion<'_>),
    ) {
        let Some(call) = self.core.calls.get_mut(entry) else {
            return;
        };
        if call.state != State::Outstanding {
            return;
        }
        let index = call.connection;
        let (queued, sent_ns, sends) = (call.queued, call.times.sent_last_ns, call.sends);
        let Some(link) = self.links.get_mut(index) else {
            return;
        };
        let major = expiry == Expiry::Major;
        if let (true, Some(error)) = (major, self.core.soft_error()) {
            let midway = link.midway();
            self.core
                .complete(entry, End::failure(error), midway, now_ns, sink);
        }
        // The last send had time to be answered, and not one byte came.
        let waited_ns = now_ns.saturating_sub(sent_ns);
        let silent =
            sends > 0 && link.received_ns < sent_ns && waited_ns >= self.core.policy.initial_ns();
        if major && silent && link.transport == Transport::Tcp && link.state == LinkState::Up {
            self.lose(index, now_ns);
            return;
        }
        if let Some(call) = self.core.calls.get_mut(entry)
            && call.state == State::Outstanding
            && !queued
            && link.state == LinkState::Up
        {
            call.queued = true;
            link.enqueue(entry);
        }
    }

    /// Begins to connect and has epoll tell the end.
    pub(super) fn open_link(&mut self, index: usize, now_ns: u64) -> Result<(), rustix::io::Errno> {
        let Some(link) = self.links.get_mut(index) else {
            return Ok(());
        };
        link.open(now_ns)?;
        if let Some(socket) = &link.socket {
            let data = epoll::EventData::new_u64(index as u64);
            let connecting = link.state != LinkState::Up;
            let mut flags = epoll::EventFlags::IN;
            if connecting {
                flags |= epoll::EventFlags::OUT;
            }
            link.watches_writing = connecting;
            epoll::add(&self.epoll, socket, data, flags)?;
        }
        Ok(())
    }

    /// Tells epoll whether the connection waits to be written.
    pub(super) fn watch(&mut self, index: usize) {
        let Some(link) = self.links.get_mut(index) else {
            return;
        };
        let wanted = link.blocked || matches!(link.state, LinkState::Connecting { .. });
        let Some(socket) = &link.socket else {
            return;
        };
        if wanted == link.watches_writing {
            return;
        }
        let mut flags = epoll::EventFlags::IN;
        if wanted {
            flags |= epoll::EventFlags::OUT;
        }
        let data = epoll::EventData::new_u64(index as u64);
        // It cannot fail for a socket that was added; if it did, a timer would notice.
        let _ = epoll::modify(&self.epoll, socket, data, flags);
        link.watches_writing = wanted;
    }

    /// A connection is lost.
    pub(super) fn lose(&mut self, index: usize, now_ns: u64) {
        if let Some(link) = self.links.get_mut(index) {
            if link.state == LinkState::Up {
                self.core.recorder.counters.disconnects += 1;
            } else {
                self.core.recorder.counters.connect_failures += 1;
            }
            link.close(&mut self.core.calls, now_ns);
        }
    }

    /// A connection stands: its outstanding calls go out (again) in the order of submission.
    fn resend_all(&mut self, index: usize) {
        self.core.recorder.counters.connects += 1;
        let mut waiting: Vec<(u64, Entry)> = self
            .core
            .calls
            .entries()
            .filter(|(_, call)| call.state == State::Outstanding && call.connection == index)
            .map(|(entry, call)| (call.sequence, entry))
            .collect();
        waiting.sort_unstable_by_key(|(sequence, _)| *sequence);
        let Some(link) = self.links.get_mut(index) else {
            return;
        };
        for (_, entry) in waiting {
            if let Some(call) = self.core.calls.get_mut(entry) {
                call.queued = true;
                link.enqueue(entry);
            }
        }
    }

    /// epoll has news of a connection.
    pub(super) fn on_event(
        &mut self,
        index: usize,
        flags: epoll::EventFlags,
        sink: &mut impl FnMut(Completion<'_>),
    ) {
        let Some(link) = self.links.get_mut(index) else {
            return;
        };
        if matches!(link.state, LinkState::Connecting { .. }) {
            let now_ns = self.clock.now_ns();
            match link.finish_open() {
                Ok(()) => self.resend_all(index),
                Err(_) => self.lose(index, now_ns),
            }
            self.watch(index);
            self.flush(now_ns, sink);
            return;
        }
        if flags.contains(epoll::EventFlags::OUT) {
            link.blocked = false;
            let now_ns = self.clock.now_ns();
            self.flush(now_ns, sink);
            self.watch(index);
        }
        let readable = epoll::EventFlags::IN | epoll::EventFlags::HUP | epoll::EventFlags::ERR;
        if !flags.intersects(readable) {
            return;
        }
        let Some(link) = self.links.get_mut(index) else {
            return;
        };
        if link.socket.is_none() {
            return; // lost while it was flushed
        }
        let clock = &self.clock;
        let received = link.receive(index, &mut self.core, || clock.now_ns(), sink);
        if received.is_err() {
            let now_ns = self.clock.now_ns();
            self.lose(index, now_ns);
        }
    }
}

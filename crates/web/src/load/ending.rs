//! How a thread's load ends: what is under way, and what is handed over.

use generator::ThreadReport;
use measure::{Clock, MonotonicClock};

use super::connection::Connection;
use super::meter::Meter;
use super::worker::Worker;
use crate::page::Kind;

/// What a thread hands over.
#[derive(Debug)]
pub(crate) struct Done {
    pub meter: Meter,
    pub writer: u32,
    /// POSTs drawn, and those of them that were not acknowledged.
    pub posts: u64,
    pub unacknowledged: Vec<u64>,
    /// Of each connection within the timed part.
    pub window_bytes: Vec<u64>,
    pub thread: ThreadReport,
    pub began_ns: u64,
    pub stopped: bool,
}

impl Worker<'_> {
    /// Nothing more is begun; what is under way is counted.
    pub(super) fn end_load(&mut self) {
        self.state.ending = true;
        let connections = self.state.connections.iter();
        let under_way = connections.filter(|connection| connection.phase.is_under_way());
        let under_way = under_way.map(|connection| connection.planned_ns);
        let waiting = self.state.queue.iter().copied();
        self.meter.accounts.note_left(under_way.chain(waiting));
    }

    pub(super) fn is_drained(&self) -> bool {
        let ended = |connection: &Connection| !connection.phase.is_under_way();
        self.state.ending && self.state.queue.is_empty() && self.state.connections.iter().all(ended)
    }

    pub(super) fn finish(mut self, stopped: bool) -> Done {
        let mut window_bytes = Vec::with_capacity(self.state.connections.len());
        for connection in &self.state.connections {
            window_bytes.push(connection.window_bytes);
            if connection.phase.is_under_way() {
                self.state.queue.push_back(connection.planned_ns);
                if connection.drawn.kind == Kind::Post {
                    self.state.unacknowledged.push(connection.id.number);
                }
            }
        }
        self.meter.counts.unfinished += self.state.queue.len() as u64;
        for planned_ns in self.state.queue {
            self.meter.accounts.remain(planned_ns);
        }
        let thread = self
            .state
            .thread
            .report(self.process, MonotonicClock.now_ns());
        Done {
            meter: self.meter,
            writer: self.writer,
            posts: self.state.posts,
            unacknowledged: self.state.unacknowledged,
            window_bytes,
            thread,
            began_ns: self.state.began_ns,
            stopped,
        }
    }
}

//! How a thread's load ends: what is under way, and what is handed over.

use measure::ThreadUsage;

use super::connection::{Connection, Phase};
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
    pub usage: ThreadUsage,
    pub waited_ns: Option<u64>,
    pub window_ns: u64,
    pub began_ns: u64,
    pub stopped: bool,
}

/// CPU time and waiting for a processor, from the window's start to its end.
#[derive(Default)]
pub(crate) struct Usage {
    /// When the thread was there to begin.
    pub began_ns: u64,
    pub from: Option<(ThreadUsage, Option<u64>, u64)>,
    pub to: Option<(ThreadUsage, Option<u64>, u64)>,
}

impl Worker<'_> {
    /// Nothing more is begun; what is under way is counted.
    pub(super) fn end_load(&mut self, now_ns: u64) {
        self.state.ending = true;
        let of_connection = |connection: &Connection| match connection.phase {
            Phase::Connecting | Phase::Busy | Phase::OnTheLine | Phase::Waiting => {
                Some(connection.planned_ns)
            }
            _ => None,
        };
        let waiting = self.state.queue.iter().copied();
        let left = self
            .state
            .connections
            .iter()
            .filter_map(of_connection)
            .chain(waiting);
        let (mut count, mut oldest_ns) = (0, now_ns);
        for planned_ns in left {
            count += 1;
            oldest_ns = oldest_ns.min(planned_ns);
        }
        self.meter.counts.left = count;
        self.meter.counts.oldest_left_ns = now_ns - oldest_ns;
    }

    pub(super) fn is_drained(&self) -> bool {
        let ended = |connection: &Connection| {
            matches!(
                connection.phase,
                Phase::Closed | Phase::Idle | Phase::Closing
            )
        };
        self.state.ending && self.state.queue.is_empty() && self.state.connections.iter().all(ended)
    }

    pub(super) fn finish(mut self, usage: &Usage, stopped: bool) -> Done {
        let mut window_bytes = Vec::with_capacity(self.state.connections.len());
        for connection in &mut self.state.connections {
            window_bytes.push(connection.window_bytes);
            let unfinished = match connection.phase {
                Phase::Connecting | Phase::Busy | Phase::OnTheLine | Phase::Waiting => true,
                Phase::Closed | Phase::Idle | Phase::Closing => false,
            };
            self.meter.counts.unfinished += u64::from(unfinished);
            if unfinished && connection.drawn.kind == Kind::Post {
                self.state.unacknowledged.push(connection.id.number);
            }
        }
        self.meter.counts.unfinished += self.state.queue.len() as u64;
        let (used, waited_ns, window_ns) = match (&usage.from, &usage.to) {
            (Some((from, waited_from, from_ns)), Some((to, waited_to, to_ns))) => {
                let waited_ns = waited_to.zip(*waited_from);
                let waited_ns = waited_ns.map(|(to, from)| to.saturating_sub(from));
                (to.since(from), waited_ns, to_ns - from_ns)
            }
            _ => (ThreadUsage::default(), None, 0),
        };
        Done {
            meter: self.meter,
            writer: self.writer,
            posts: self.state.posts,
            unacknowledged: self.state.unacknowledged,
            window_bytes,
            usage: used,
            waited_ns,
            window_ns,
            began_ns: usage.began_ns,
            stopped,
        }
    }
}

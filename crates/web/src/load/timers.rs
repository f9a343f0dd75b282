//! What happens at an instant: lines free again, pauses over, waits that took too long.

use std::cmp::Reverse;

use measure::{Clock, MonotonicClock};

use super::connection::Phase;
use super::fault::Fault;
use super::worker::{Worker, WorkerError};
use crate::page::Kind;

/// How long a server may take to close.
const CLOSE_NS: u64 = 1_000_000_000;

impl Worker<'_> {
    pub(super) fn set_timer(&mut self, slot: u32, at_ns: u64) {
        if let Some(connection) = self.state.connections.get_mut(slot as usize)
            && connection.timer_ns != at_ns
        {
            connection.timer_ns = at_ns;
            self.state.timers.push(Reverse((at_ns, slot)));
        }
    }

    /// Timers that are due: lines that are free, pauses that are over.
    pub(super) fn fire(&mut self, now_ns: u64) -> Result<(), WorkerError> {
        // Requests that wait though connections are free, after failures.
        while !self.state.queue.is_empty() && !self.state.free.is_empty() {
            if let (Some(planned_ns), Some(slot)) =
                (self.state.queue.pop_front(), self.state.free.pop())
            {
                self.begin(slot, planned_ns)?;
            }
        }
        while let Some(Reverse((at_ns, slot))) = self.state.timers.peek().copied() {
            if at_ns > now_ns {
                break;
            }
            let now_ns = MonotonicClock.now_ns(); // many may be due
            self.state.timers.pop();
            let Some(connection) = self.state.connections.get_mut(slot as usize) else {
                continue;
            };
            if connection.timer_ns != at_ns {
                continue; // another one was set since
            }
            connection.timer_ns = 0;
            match connection.phase {
                Phase::Waiting if self.state.ending => self.fail_waiting(slot),
                Phase::Waiting => self.connect(slot)?,
                Phase::OnTheLine => {
                    self.meter.accounts.handed(now_ns, at_ns);
                    self.done(slot, at_ns, now_ns)?;
                }
                Phase::Busy => {
                    self.meter.accounts.handed(now_ns, at_ns);
                    self.receive(slot, now_ns)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// A request that waited for its pause when the load ended was never sent.
    fn fail_waiting(&mut self, slot: u32) {
        if let Some(connection) = self.state.connections.get_mut(slot as usize) {
            connection.phase = Phase::Closed;
            self.meter.counts.unfinished += 1;
            self.meter.accounts.remain(connection.planned_ns);
            if connection.drawn.kind == Kind::Post {
                self.state.unacknowledged.push(connection.id.number);
            }
        }
    }

    /// Ends what has waited for too long.
    pub(super) fn sweep(&mut self, now_ns: u64) -> Result<(), WorkerError> {
        let ns_per_byte = self.line.map_or(0.0, |line| line.ns_per_byte);
        for slot in 0..u32::try_from(self.state.connections.len()).unwrap_or(u32::MAX) {
            let Some(connection) = self.state.connections.get_mut(slot as usize) else {
                break;
            };
            let since_ns = now_ns.saturating_sub(connection.active_ns);
            let line_ns = (connection.expected_bytes as f64 * ns_per_byte) as u64;
            match connection.phase {
                Phase::Connecting | Phase::Busy if since_ns > self.timeout_ns + line_ns => {
                    self.fail(slot, Fault::Timeout, now_ns)?;
                }
                Phase::Closing if since_ns > CLOSE_NS => {
                    connection.close();
                    self.meter.counts.close_ignored += 1;
                    self.free(slot, now_ns)?;
                }
                _ => {}
            }
        }
        Ok(())
    }
}

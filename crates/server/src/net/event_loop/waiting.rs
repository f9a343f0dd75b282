//! Waiting for the next thing, to the microsecond where the model has an instant.

use std::io;

use measure::clock::{Clock, MonotonicClock};
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::io::Errno;

use super::Loop;
use crate::model::Engine;
use crate::net::AT_ONCE;

impl Loop {
    /// Waits for something to happen.
    pub(super) fn wait(
        &mut self,
        events: &mut Vec<epoll::Event>,
        timeout: Option<&Timespec>,
    ) -> io::Result<()> {
        events.clear();
        let mut waited = Ok(0);
        if timeout.is_some_and(|timeout| *timeout != AT_ONCE) {
            // epoll_wait(2) would round up to whole milliseconds, which the model's times are not.
            waited = poll(&mut [PollFd::new(&self.epoll, PollFlags::IN)], timeout);
        }
        let timeout = timeout.map(|_| &AT_ONCE);
        let room = rustix::buffer::spare_capacity(events);
        match waited.and_then(|_| epoll::wait(&self.epoll, room, timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        self.now_ns = MonotonicClock.now_ns();
        Ok(())
    }

    /// How long: at once, until the model or the memory has something to do, or for whatever comes.
    pub(super) fn timeout(&self) -> Option<Timespec> {
        if !self.ready.is_empty() || self.line_can_go_on() {
            return Some(AT_ONCE);
        }
        let model_ns = self.model.as_ref().and_then(Engine::next_ns);
        let instants = [model_ns, self.memory_ns()];
        let next_ns = instants.into_iter().flatten().min()?;
        let left = next_ns.saturating_sub(MonotonicClock.now_ns());
        Some(Timespec {
            tv_sec: i64::try_from(left / 1_000_000_000).unwrap_or(i64::MAX),
            tv_nsec: (left % 1_000_000_000) as _,
        })
    }
}

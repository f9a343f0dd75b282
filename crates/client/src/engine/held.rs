//! Calls that `call_delay` holds back before they join the queue: planted latency.
//!
//! A held call has no slot of the window and no timer of its own, so others go past it unaffected.
//! Whoever waits for the engine is woken by a timer of the kernel's (timerfd), which is exact where
//! epoll_wait(2) counts whole milliseconds. A sleeper wakes late by tens of microseconds, so the
//! timer goes off so much before, and again until it is time: turns of the engine, in which all
//! others go on. Without the option there is none of this.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};

use super::calls::{Calls, Entry};
use crate::options::CallDelays;

/// What waking up takes on a machine that has gone to sleep meanwhile.
const AWAKE_NS: u64 = 60_000;

#[derive(Debug)]
pub(super) struct Held {
    delays: CallDelays,
    /// When it is let go, order of submission, which.
    calls: BinaryHeap<Reverse<(u64, u64, Entry)>>,
    pub timer: OwnedFd,
    /// When the timer goes off; `u64::MAX`: not at all.
    armed_ns: u64,
}

impl Held {
    pub fn new(delays: CallDelays) -> Result<Self, Errno> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        Ok(Held {
            delays,
            calls: BinaryHeap::new(),
            timer: timerfd_create(TimerfdClockId::Monotonic, flags)?,
            armed_ns: u64::MAX,
        })
    }

    /// Keeps a call that was taken at `now_ns`, if its operation waits.
    pub fn holds(
        &mut self,
        (entry, sequence): (Entry, u64),
        target: [u32; 3],
        now_ns: u64,
    ) -> bool {
        let delay_ns = self.delays.of(target);
        if delay_ns == 0 {
            return false;
        }
        let until_ns = now_ns.saturating_add(delay_ns);
        self.calls.push(Reverse((until_ns, sequence, entry)));
        self.arm(now_ns);
        true
    }

    /// Gives the queue what has waited long enough.
    pub fn let_go(&mut self, calls: &mut Calls, now_ns: u64) {
        while let Some(Reverse((until_ns, _, entry))) = self.calls.peek().copied() {
            if until_ns > now_ns {
                break;
            }
            self.calls.pop();
            calls.held -= 1;
            calls.pending.push_back(entry);
        }
        self.arm(now_ns);
    }

    /// The timer went off.
    pub fn rang(&mut self) {
        let mut count = [0; 8];
        // Nothing to be read: somebody else has set it anew meanwhile.
        let _ = rustix::io::read(&self.timer, &mut count);
        self.armed_ns = u64::MAX;
    }

    pub fn clear(&mut self) {
        self.calls.clear();
    }

    /// Sets the timer to be awake at the next call's instant, unless it goes off before.
    fn arm(&mut self, now_ns: u64) {
        let Some(Reverse((until_ns, ..))) = self.calls.peek() else {
            return;
        };
        // Zero would stop it.
        let left_ns = until_ns.saturating_sub(now_ns + AWAKE_NS).max(1);
        if self.armed_ns <= now_ns + left_ns {
            return;
        }
        let wait = Itimerspec {
            it_interval: super::timespec(std::time::Duration::ZERO),
            it_value: super::timespec(std::time::Duration::from_nanos(left_ns)),
        };
        // It cannot fail for a timer that was made and a time that is one.
        if timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &wait).is_ok() {
            self.armed_ns = now_ns + left_ns;
        }
    }
}

//! A turn of the engine in its three parts: what is done before the wait, the wait, and after it.
//!
//! [`Engine::poll`] does them in a row. A threaded front gives the engine to other threads while
//! one waits ([`Waits`] needs nothing of it): these submit and send by themselves
//! ([`Engine::push`]), which saves waking the one that waits.

use std::time::Duration;

use measure::Clock;
use rustix::event::{Timespec, epoll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;

use super::link::LinkState;
use super::request::Completion;
use super::{Engine, timespec};

/// Events taken from one epoll_wait: a connection each, the waker, the timer of calls held back.
const MAX_EVENTS: usize = 18;
pub(super) const WAKER: u64 = u64::MAX;
pub(super) const HELD_TIMER: u64 = u64::MAX - 1;

/// What a wait found.
pub(crate) struct Events {
    found: [epoll::Event; MAX_EVENTS],
    count: usize,
}

/// Waits for an engine's connections, timers and waker, without the engine.
#[derive(Debug)]
pub(crate) struct Waits(OwnedFd);

impl Waits {
    /// Waits; an interrupted wait found nothing.
    pub fn wait(&self, timeout: Option<Timespec>) -> Result<Events, Errno> {
        wait(&self.0, timeout)
    }
}

fn wait(epoll: &OwnedFd, timeout: Option<Timespec>) -> Result<Events, Errno> {
    let nothing = epoll::Event {
        flags: epoll::EventFlags::empty(),
        data: epoll::EventData::new_u64(0),
    };
    let mut found = [nothing; MAX_EVENTS];
    let count = match epoll::wait(epoll, &mut found, timeout.as_ref()) {
        Ok(count) => count,
        Err(Errno::INTR) => 0,
        Err(error) => return Err(error),
    };
    Ok(Events { found, count })
}

/// Readable while [`Engine::poll`] would find something: for whoever waits for more than it, or for
/// fractions of a millisecond, which epoll_wait(2) rounds up.
impl<C: Clock> AsFd for Engine<C> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

impl<C: Clock> Engine<C> {
    /// Sends, waits up to `timeout` (`None`: until something happens) and hands out ended calls.
    ///
    /// Returns early as soon as at least one call ended, or the waker was used. Calls that the
    /// sink's owner submits in answer go out with the next `poll`.
    ///
    /// # Errors
    /// epoll itself failed, which no server can cause.
    pub fn poll(
        &mut self,
        timeout: Option<Duration>,
        sink: &mut impl FnMut(Completion<'_>),
    ) -> Result<(), Errno> {
        let timeout = self.begin(timeout, sink);
        let events = wait(&self.epoll, timeout)?;
        self.finish(&events, sink);
        Ok(())
    }

    /// What waits for this engine in another place.
    pub(crate) fn waits(&self) -> Result<Waits, Errno> {
        rustix::io::fcntl_dupfd_cloexec(&self.epoll, 0).map(Waits)
    }

    /// Sends what can be sent; how long to wait then, at most `timeout`.
    pub(crate) fn begin(
        &mut self,
        timeout: Option<Duration>,
        sink: &mut impl FnMut(Completion<'_>),
    ) -> Option<Timespec> {
        self.core.delivered = 0;
        let now_ns = self.clock.now_ns();
        self.dispatch(now_ns);
        self.flush(now_ns, sink);
        if self.core.delivered > 0 {
            return Some(timespec(Duration::ZERO));
        }
        let now_ns = self.clock.now_ns();
        let most_ns = timeout.map_or(u64::MAX, |timeout| {
            u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX)
        });
        self.waits_until_ns = self.due_ns().min(now_ns.saturating_add(most_ns));
        let left_ns = self.waits_until_ns.saturating_sub(now_ns);
        (self.waits_until_ns != u64::MAX).then(|| timespec(Duration::from_nanos(left_ns)))
    }

    /// Takes what the wait found, and does what is due.
    pub(crate) fn finish(&mut self, events: &Events, sink: &mut impl FnMut(Completion<'_>)) {
        self.waits_until_ns = 0;
        for event in events.found.get(..events.count).unwrap_or_default() {
            let data = event.data;
            if data.u64() == WAKER {
                self.waker.reset();
            } else if data.u64() == HELD_TIMER {
                if let Some(held) = &mut self.held {
                    held.rang();
                }
            } else if let Ok(index) = usize::try_from(data.u64()) {
                self.on_event(index, event.flags, sink);
            }
        }
        // Timers last: a reply that is there already is an answer in time, however late we look.
        let now_ns = self.clock.now_ns();
        self.tend(now_ns, sink);
    }

    /// Sends what can be sent, while another thread waits.
    pub(crate) fn push(&mut self, sink: &mut impl FnMut(Completion<'_>)) {
        let now_ns = self.clock.now_ns();
        self.dispatch(now_ns);
        self.flush(now_ns, sink);
    }

    /// Whether whoever waits has to be woken, because something is due before it wakes by itself.
    pub(crate) fn is_due_sooner(&mut self) -> bool {
        let due_ns = self.due_ns();
        let sooner = due_ns < self.waits_until_ns;
        self.waits_until_ns = self.waits_until_ns.min(due_ns);
        sooner
    }

    /// How long a call waits for its answer before something is done.
    pub(crate) fn first_timeout(&self) -> Duration {
        Duration::from_nanos(self.core.policy.initial_ns())
    }

    /// When the next timer, sample or attempt to connect is due.
    fn due_ns(&self) -> u64 {
        let mut due_ns = self.core.next_due_ns;
        if let Some(sample_ns) = self.core.recorder.samples.next_ns() {
            due_ns = due_ns.min(sample_ns);
        }
        let wanted = self.in_flight() > 0;
        for link in &self.links {
            match link.state {
                LinkState::Connecting { until_ns } => due_ns = due_ns.min(until_ns),
                LinkState::Down { retry_at_ns } if wanted => due_ns = due_ns.min(retry_at_ns),
                _ => {}
            }
        }
        due_ns
    }
}

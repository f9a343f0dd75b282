//! The hand-over: an engine among threads, of which one waits for it.
//!
//! States and who changes them:
//!
//! * `working` is the engine, behind a lock. The reactor's thread has it for the two halves of a
//!   turn ([`Turns::begin`], [`Turns::finish`]) and gives it back for the wait between them.
//! * `inbox.calls` are calls of those who found `working` taken.
//! * `inbox.awake`: the reactor looks into the inbox before it waits. It sets this when a wait has
//!   ended, and takes it back only together with a look that found the inbox empty, under the
//!   inbox's lock.
//! * The waker (an eventfd that epoll watches) remembers a wake-up until the reactor has read it,
//!   which it does after the wait and before that look.
//! * Connections are watched level-triggered, by the same epoll: what nobody has read, and what is
//!   sent while the reactor is anywhere between two waits, ends its next wait at once.
//!
//! Why nothing stays unseen while the reactor waits:
//!
//! * A call in the inbox: whoever puts it there sees `awake` under the lock. True: the look that
//!   takes `awake` back is yet to come, and finds the call. False: this thread sets it and wakes;
//!   the wake-up ends this wait or the next one, and the look comes before the one after it.
//! * A call that its maker sends ([`Shared::put`]): sent under the lock of `working`, so in the
//!   middle of no half of a turn. Its reply makes the connection readable. What is due for it
//!   before the wait ends is told by [`Turns::is_due_sooner`], and the reactor is woken then.
//! * A call that a continuation makes: the thread that runs it is at the engine, so the call goes
//!   to the inbox, and is seen as any other there.
//! * The end: `stopped` is set under the inbox's lock before the wake-up, and the look sees it.
//!
//! The tests have loom try all of this in every order of threads, without timeouts: there a wake-up
//! that is lost is a deadlock.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use super::Continuation;
use super::reactor::Working;
use super::sync::{Condvar, Mutex, MutexGuard};
use super::turns::{Turns, Wakes};
use crate::engine::{Caller, SharedBytes};
use crate::error::CallError;

pub(super) struct Submission {
    pub target: [u32; 3],
    pub caller: Option<Caller>,
    pub arguments: Vec<u8>,
    pub payload: Option<SharedBytes>,
    pub continuation: Continuation,
}

#[derive(Default)]
pub(super) struct Inbox {
    pub calls: VecDeque<Submission>,
    /// The reactor will look here before it waits.
    pub awake: bool,
    pub stopped: bool,
}

/// See the module's text. Who has both locks took `working` first.
pub(super) struct Shared<E: Turns> {
    /// Nobody holds it for long, and the reactor not while it waits. None at the end.
    working: Mutex<Option<Working<E>>>,
    inbox: Mutex<Inbox>,
    /// Calls that the inbox takes.
    pub room: usize,
    /// Room in the inbox, or the end.
    pub changed: Condvar,
    waker: E::Waker,
}

#[cfg(not(test))]
thread_local! {
    /// Whose engine this thread is at.
    static AT_ENGINE: Cell<usize> = const { Cell::new(0) };
}
#[cfg(test)]
loom::thread_local! {
    static AT_ENGINE: Cell<usize> = Cell::new(0);
}

/// The engine, with a mark on the thread that has it.
pub(super) struct AtEngine<'a, E: Turns> {
    pub working: MutexGuard<'a, Option<Working<E>>>,
    before: usize,
}

impl<'a, E: Turns> AtEngine<'a, E> {
    fn new(shared: &Shared<E>, working: MutexGuard<'a, Option<Working<E>>>) -> Self {
        let here = std::ptr::from_ref(shared).addr();
        let before = AT_ENGINE.with(|at| at.replace(here));
        AtEngine { working, before }
    }
}

impl<E: Turns> Drop for AtEngine<'_, E> {
    fn drop(&mut self) {
        AT_ENGINE.with(|at| at.set(self.before));
    }
}

impl<E: Turns> Shared<E> {
    pub fn new(engine: E, waker: E::Waker, room: usize) -> Self {
        Shared {
            working: Mutex::new(Some(Working::new(engine))),
            inbox: Mutex::new(Inbox::default()),
            room,
            changed: Condvar::new(),
            waker,
        }
    }

    pub fn working(&self) -> AtEngine<'_, E> {
        AtEngine::new(
            self,
            self.working.lock().unwrap_or_else(PoisonError::into_inner),
        )
    }

    /// As [`Shared::working`], if nobody else is there.
    fn working_now(&self) -> Option<AtEngine<'_, E>> {
        self.working
            .try_lock()
            .ok()
            .map(|working| AtEngine::new(self, working))
    }

    /// Whether this thread is at the engine: it must not wait for it then.
    pub fn is_held_here(&self) -> bool {
        AT_ENGINE.with(Cell::get) == std::ptr::from_ref(self).addr()
    }

    pub fn lock(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends the call, or leaves it to the reactor; `waits` for room in the inbox if there is none.
    /// On an error it is still there.
    pub fn put(&self, call: &mut Option<Submission>, waits: bool) -> Result<(), CallError> {
        self.send_at_once(call);
        if call.is_none() {
            return Ok(());
        }
        let mut inbox = self.lock();
        while inbox.calls.len() >= self.room && !inbox.stopped {
            if !waits {
                return Err(CallError::Full);
            }
            inbox = self
                .changed
                .wait(inbox)
                .unwrap_or_else(PoisonError::into_inner);
        }
        if inbox.stopped {
            return Err(CallError::Closed);
        }
        let was_awake = std::mem::replace(&mut inbox.awake, true);
        inbox.calls.extend(call.take());
        drop(inbox);
        if !was_awake {
            self.waker.wake();
        }
        Ok(())
    }

    /// Takes the call and sends it, if nobody is at the engine and none came before it.
    fn send_at_once(&self, call: &mut Option<Submission>) {
        let Some(mut at_engine) = self.working_now() else {
            return;
        };
        let Some(working) = at_engine
            .working
            .as_mut()
            .filter(|working| working.is_free())
        else {
            return;
        };
        let inbox = self.lock();
        if inbox.stopped || !inbox.calls.is_empty() {
            return;
        }
        drop(inbox);
        if let Some(call) = call.take() {
            working.send(call);
        }
        if working.engine.is_due_sooner() {
            self.waker.wake();
        }
    }

    /// Runs something short on the engine, between its turns.
    ///
    /// # Errors
    /// [`CallError::Closed`].
    pub fn with_engine<T>(&self, run: impl FnOnce(&mut E) -> T) -> Result<T, CallError> {
        let mut at_engine = self.working();
        let engine = at_engine
            .working
            .as_mut()
            .map(|working| &mut working.engine);
        let engine = engine.ok_or(CallError::Closed)?;
        let value = run(engine);
        if engine.is_due_sooner() {
            self.waker.wake();
        }
        Ok(value)
    }

    /// Waits so long, or until the end.
    ///
    /// # Errors
    /// [`CallError::Closed`].
    pub fn rest(&self, long: Duration) -> Result<(), CallError> {
        let begun = Instant::now();
        let mut inbox = self.lock();
        while !inbox.stopped {
            let left = long.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return Ok(());
            }
            let waited = self.changed.wait_timeout(inbox, left);
            inbox = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        Err(CallError::Closed)
    }

    /// Has the reactor's thread end, with all calls.
    pub fn stop(&self) {
        self.lock().stopped = true;
        self.changed.notify_all();
        self.waker.wake();
    }
}

#[cfg(test)]
#[path = "shared_tests.rs"]
mod tests;

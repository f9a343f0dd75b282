//! The engine among threads: who submits sends by himself if he can; the reactor's thread waits.

use std::collections::VecDeque;

use super::Continuation;
use super::shared::{Shared, Submission};
use super::turns::{Turns, WaitsFor};
use crate::engine::{Completion, Encoded, Request};
use crate::error::CallError;

/// Continuations of the calls that the engine has, by token.
#[derive(Default)]
struct Waiting {
    places: Vec<Option<Continuation>>,
    unused: Vec<u64>,
}

impl Waiting {
    fn put(&mut self, continuation: Continuation) -> u64 {
        let place = self.unused.pop();
        match place.and_then(|token| Some((token, self.places.get_mut(usize_of(token))?))) {
            Some((token, place)) => {
                *place = Some(continuation);
                token
            }
            None => {
                self.places.push(Some(continuation));
                self.places.len() as u64 - 1
            }
        }
    }

    fn take(&mut self, token: u64) -> Option<Continuation> {
        let continuation = self.places.get_mut(usize_of(token))?.take()?;
        self.unused.push(token);
        Some(continuation)
    }

    fn end(&mut self, end: Completion<'_>) {
        if let Some(continuation) = self.take(end.token) {
            continuation(end.result);
        }
    }
}

fn usize_of(token: u64) -> usize {
    usize::try_from(token).unwrap_or(usize::MAX)
}

/// The engine, who waits for its calls, and calls that it has no room for yet.
pub(super) struct Working<E> {
    pub engine: E,
    waiting: Waiting,
    taken: VecDeque<Submission>,
}

impl<E: Turns> Working<E> {
    pub fn new(engine: E) -> Self {
        Working {
            engine,
            waiting: Waiting::default(),
            taken: VecDeque::new(),
        }
    }

    /// Whether a call may go to the engine without overtaking one that came before it.
    pub fn is_free(&self) -> bool {
        self.taken.is_empty() && !self.engine.is_full()
    }

    /// Sends a call in the thread of who makes it.
    pub fn send(&mut self, call: Submission) {
        self.submit(call);
        let waiting = &mut self.waiting;
        self.engine.push(&mut |end| waiting.end(end));
    }

    fn submit(&mut self, call: Submission) {
        let token = self.waiting.put(call.continuation);
        let request = Request {
            target: call.target,
            caller: call.caller.as_ref(),
            arguments: &Encoded(&call.arguments),
            payload: call.payload,
        };
        if let Err(error) = self.engine.submit(request, token)
            && let Some(continuation) = self.waiting.take(token)
        {
            continuation(Err(error));
        }
    }

    /// Gives the engine what lies in the inbox, as much as it has room for; false at the end.
    fn take_in(&mut self, shared: &Shared<E>) -> bool {
        loop {
            let mut inbox = shared.lock();
            if inbox.stopped {
                return false;
            }
            if self.taken.is_empty() {
                let was_full = inbox.calls.len() >= shared.room;
                std::mem::swap(&mut inbox.calls, &mut self.taken);
                inbox.awake = !self.taken.is_empty();
                drop(inbox);
                if was_full {
                    shared.changed.notify_all();
                }
                if self.taken.is_empty() {
                    return true;
                }
            } else {
                drop(inbox);
            }
            while !self.engine.is_full() {
                match self.taken.pop_front() {
                    Some(call) => self.submit(call),
                    None => break,
                }
            }
            if !self.taken.is_empty() {
                return true; // answers first
            }
        }
    }

    fn close(mut self) {
        let waiting = &mut self.waiting;
        self.engine.close(&mut |end| waiting.end(end));
        for call in self.taken {
            (call.continuation)(Err(CallError::Closed));
        }
    }
}

/// Tells all who come later that the thread has ended, however it did.
struct EndOfThread<'a, E: Turns>(&'a Shared<E>);

impl<E: Turns> Drop for EndOfThread<'_, E> {
    fn drop(&mut self) {
        let mut inbox = self.0.lock();
        inbox.stopped = true;
        let left = std::mem::take(&mut inbox.calls);
        drop(inbox);
        let working = self.0.working().working.take();
        drop(working);
        self.0.changed.notify_all();
        for call in left {
            (call.continuation)(Err(CallError::Closed));
        }
    }
}

/// The reactor's thread, until the client is shut down.
pub(super) fn run<E: Turns>(waits: &impl WaitsFor<E::Events>, shared: &Shared<E>) {
    let _end = EndOfThread(shared);
    loop {
        let timeout = {
            let mut at_engine = shared.working();
            let Some(working) = at_engine.working.as_mut() else {
                return;
            };
            if !working.take_in(shared) {
                break;
            }
            // A call that another thread sends meanwhile is then not due before this wait ends.
            let timeout = Some(working.engine.first_timeout());
            let waiting = &mut working.waiting;
            working.engine.begin(timeout, &mut |end| waiting.end(end))
        };
        let Ok(events) = waits.wait(timeout) else {
            break;
        };
        shared.lock().awake = true;
        if let Some(working) = shared.working().working.as_mut() {
            let waiting = &mut working.waiting;
            working.engine.finish(&events, &mut |end| waiting.end(end));
        }
    }
    // Also where the wait failed: a continuation that calls on is told, and does not wait for us.
    shared.lock().stopped = true;
    let working = shared.working().working.take();
    if let Some(working) = working {
        working.close();
    }
}

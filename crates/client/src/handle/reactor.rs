//! The reactor's thread.

use std::collections::VecDeque;

use super::{Command, Continuation, Shared, Submission};
use crate::engine::{Completion, Encoded, Engine, Request};
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

/// Tells all who come later that the thread has ended, however it did.
struct EndOfThread<'a>(&'a Shared);

impl Drop for EndOfThread<'_> {
    fn drop(&mut self) {
        let mut inbox = self.0.lock();
        inbox.stopped = true;
        let left = std::mem::take(&mut inbox.commands);
        drop(inbox);
        self.0.changed.notify_all();
        for command in left {
            if let Command::Submit(submission) = command {
                (submission.continuation)(Err(CallError::Closed));
            }
        }
    }
}

pub(super) fn run(mut engine: Engine, shared: &Shared) {
    measure::thread::leave_signals_to_others();
    let _end = EndOfThread(shared);
    let mut waiting = Waiting::default();
    let mut taken = VecDeque::new();
    loop {
        if taken.is_empty() {
            let mut inbox = shared.lock();
            if inbox.stopped {
                break;
            }
            let was_full = inbox.commands.len() >= super::MAX_INBOX;
            std::mem::swap(&mut inbox.commands, &mut taken);
            drop(inbox);
            if was_full {
                shared.changed.notify_all();
            }
        } else if shared.lock().stopped {
            break;
        }
        while let Some(command) = taken.pop_front() {
            match command {
                Command::Control(run) => run(&mut engine),
                Command::Submit(submission) => {
                    if let Some(refused) = submit(&mut engine, &mut waiting, submission) {
                        taken.push_front(Command::Submit(refused));
                        break; // the engine is full: answers first
                    }
                }
            }
        }
        if engine.poll(None, &mut |end| waiting.end(end)).is_err() {
            break;
        }
    }
    engine.close(&mut |end| waiting.end(end));
    for command in taken {
        if let Command::Submit(submission) = command {
            (submission.continuation)(Err(CallError::Closed));
        }
    }
}

/// Gives a call to the engine; gives it back if the engine is full.
fn submit(engine: &mut Engine, waiting: &mut Waiting, call: Submission) -> Option<Submission> {
    if engine.is_full() {
        return Some(call);
    }
    let token = waiting.put(call.continuation);
    let request = Request {
        target: call.target,
        caller: call.caller.as_ref(),
        arguments: &Encoded(&call.arguments),
        payload: call.payload,
    };
    if let Err(error) = engine.submit(request, token)
        && let Some(continuation) = waiting.take(token)
    {
        continuation(Err(error));
    }
    None
}

//! The hand-over in every order of threads, as loom makes them: the code is that of the client, the
//! engine a model. No timeout ever ends a wait here, so a wake-up that is lost is a deadlock, which
//! loom notices.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use loom::sync::{Condvar, Mutex};
use loom::thread;
use rustix::event::Timespec;
use rustix::io::Errno;

use super::super::promise::{Awaited, Promise};
use super::super::reactor;
use super::super::turns::{Turns, WaitsFor, Wakes};
use super::{Shared, Submission};
use crate::engine::{Completion, Reply, Request, Times};
use crate::error::CallError;

/// A procedure to which the model's server never answers.
const UNANSWERED: [u32; 3] = [100_003, 3, 99];

/// What is outside the engine: a socket whose peer answers at once, and an eventfd.
#[derive(Default)]
struct Outside {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    replies: VecDeque<u64>,
    woken: bool,
}

impl Outside {
    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock().unwrap());
        self.changed.notify_all();
    }
}

struct ModelWaker(Arc<Outside>);

impl Wakes for ModelWaker {
    fn wake(&self) {
        self.0.change(|state| state.woken = true);
    }
}

/// epoll's: level-triggered, what is there ends the wait.
struct ModelWaits(Arc<Outside>);

struct Found {
    readable: bool,
    woken: bool,
}

impl WaitsFor<Found> for ModelWaits {
    fn wait(&self, timeout: Option<Timespec>) -> Result<Found, Errno> {
        let mut state = self.0.state.lock().unwrap();
        let at_once = timeout.is_some_and(|time| (time.tv_sec, time.tv_nsec) == (0, 0));
        while !at_once && state.replies.is_empty() && !state.woken {
            state = self.0.changed.wait(state).unwrap();
        }
        Ok(Found {
            readable: !state.replies.is_empty(),
            woken: state.woken,
        })
    }
}

/// As much of an engine as the hand-over can see.
struct ModelEngine {
    outside: Arc<Outside>,
    pending: VecDeque<(u64, [u32; 3])>,
    silent: Vec<u64>,
    outstanding: usize,
    most_pending: usize,
    window: usize,
    /// Something that a turn of the engine has to do as soon as it can, and who waits for it.
    due: Option<Promise<()>>,
    /// As the engine's: whoever waits would not wake by itself for what is due.
    waits: bool,
}

impl ModelEngine {
    fn send(&mut self) {
        while self.outstanding < self.window {
            let Some((token, target)) = self.pending.pop_front() else {
                return;
            };
            self.outstanding += 1;
            if target == UNANSWERED {
                self.silent.push(token);
            } else {
                self.outside.change(|state| state.replies.push_back(token));
            }
        }
    }
}

fn end(token: u64, result: Result<Reply<'_>, CallError>) -> Completion<'_> {
    Completion {
        token,
        xid: 0,
        result,
        times: Times::default(),
        sends: 1,
    }
}

impl Turns for ModelEngine {
    type Waker = ModelWaker;
    type Events = Found;

    fn is_full(&self) -> bool {
        self.pending.len() >= self.most_pending
    }

    fn submit(&mut self, request: Request<'_>, token: u64) -> Result<(), CallError> {
        if self.is_full() {
            return Err(CallError::Full);
        }
        self.pending.push_back((token, request.target));
        Ok(())
    }

    fn push(&mut self, _: &mut impl FnMut(Completion<'_>)) {
        self.send();
    }

    fn begin(
        &mut self,
        _: Option<Duration>,
        _: &mut impl FnMut(Completion<'_>),
    ) -> Option<Timespec> {
        self.send();
        if self.due.is_some() {
            return Some(Timespec::default());
        }
        self.waits = true;
        None
    }

    fn finish(&mut self, found: &Found, sink: &mut impl FnMut(Completion<'_>)) {
        self.waits = false;
        if found.woken {
            self.outside.change(|state| state.woken = false);
        }
        if found.readable {
            let mut replies = VecDeque::new();
            self.outside
                .change(|state| std::mem::swap(&mut replies, &mut state.replies));
            for token in replies {
                self.outstanding -= 1;
                sink(end(
                    token,
                    Ok(Reply {
                        body: &[],
                        sends: 1,
                    }),
                ));
            }
        }
        if let Some(due) = self.due.take() {
            due.give(Ok(()));
        }
    }

    fn is_due_sooner(&mut self) -> bool {
        self.due.is_some() && std::mem::take(&mut self.waits)
    }

    fn first_timeout(&self) -> Duration {
        Duration::ZERO
    }

    fn close(&mut self, sink: &mut impl FnMut(Completion<'_>)) {
        let unsent = self.pending.drain(..).map(|(token, _)| token);
        let all: Vec<u64> = unsent.chain(self.silent.drain(..)).collect();
        let mut replies = VecDeque::new();
        self.outside
            .change(|state| std::mem::swap(&mut replies, &mut state.replies));
        for token in replies.into_iter().chain(all) {
            sink(end(token, Err(CallError::Closed)));
        }
    }
}

type Model = Shared<ModelEngine>;
type Outcome = Result<(), CallError>;

/// A call of `target`, and what its caller waits for.
fn call(target: [u32; 3]) -> (Submission, Arc<Awaited<()>>) {
    let (promise, awaited) = Promise::pair();
    let continuation = Box::new(move |result: Result<Reply<'_>, CallError>| {
        promise.give(result.map(drop));
    });
    (submission(target, continuation), awaited)
}

fn submission(target: [u32; 3], continuation: crate::handle::Continuation) -> Submission {
    Submission {
        target,
        caller: None,
        arguments: Vec::new(),
        payload: None,
        continuation,
    }
}

/// Makes a call and waits for its end.
fn ask(shared: &Model, target: [u32; 3]) -> Outcome {
    let (call, awaited) = call(target);
    shared.put(&mut Some(call), true)?;
    awaited.wait()
}

/// How much the engine and the inbox take; and in how many places a thread that could go on is made
/// to wait, in each order. Defects of waking need two.
#[derive(Clone, Copy)]
struct Room {
    switches: usize,
    inbox: usize,
    pending: usize,
    window: usize,
}

const WIDE: Room = Room {
    switches: 2,
    inbox: 8,
    pending: 8,
    window: 8,
};

const NARROW: Room = Room {
    switches: 2,
    inbox: 1,
    pending: 1,
    window: 1,
};

/// Runs `scene` beside a reactor, in every order; at its end the client is stopped.
fn in_every_order(room: Room, scene: impl Fn(&Arc<Model>) + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(room.switches);
    model.check(move || {
        let outside = Arc::new(Outside::default());
        let engine = ModelEngine {
            outside: Arc::clone(&outside),
            pending: VecDeque::new(),
            silent: Vec::new(),
            outstanding: 0,
            most_pending: room.pending,
            window: room.window,
            due: None,
            waits: false,
        };
        let waker = ModelWaker(Arc::clone(&outside));
        let shared = Arc::new(Shared::new(engine, waker, room.inbox));
        let inside = Arc::clone(&shared);
        let reactor = thread::spawn(move || reactor::run(&ModelWaits(outside), &inside));
        scene(&shared);
        shared.stop();
        reactor.join().unwrap();
        assert_eq!(ask(&shared, [0; 3]), Err(CallError::Closed));
    });
}

fn beside(shared: &Arc<Model>, run: impl Fn(&Arc<Model>) + 'static) -> thread::JoinHandle<()> {
    let shared = Arc::clone(shared);
    thread::spawn(move || run(&shared))
}

#[test]
fn every_call_is_answered_whoever_sends_it() {
    in_every_order(WIDE, |shared| {
        let other = beside(shared, |shared| assert_eq!(ask(shared, [0; 3]), Ok(())));
        assert_eq!(ask(shared, [0; 3]), Ok(()));
        assert_eq!(ask(shared, [0; 3]), Ok(()));
        other.join().unwrap();
    });
}

#[test]
fn a_call_that_a_continuation_makes_is_answered() {
    in_every_order(WIDE, |shared| {
        let (second, awaited) = call([0; 3]);
        let again = Arc::clone(shared);
        let first = submission(
            [0; 3],
            Box::new(move |result| {
                assert!(result.is_ok());
                assert!(again.is_held_here());
                again.put(&mut Some(second), false).unwrap();
            }),
        );
        shared.put(&mut Some(first), true).unwrap();
        assert_eq!(awaited.wait(), Ok(()));
    });
}

#[test]
fn what_becomes_due_while_the_reactor_waits_is_done() {
    in_every_order(WIDE, |shared| {
        let other = beside(shared, |shared| assert_eq!(ask(shared, [0; 3]), Ok(())));
        let (promise, awaited) = Promise::pair();
        shared
            .with_engine(|engine| engine.due = Some(promise))
            .unwrap();
        assert_eq!(awaited.wait(), Ok(()));
        other.join().unwrap();
    });
}

#[test]
fn whoever_waits_for_room_gets_it() {
    in_every_order(NARROW, |shared| {
        let other = beside(shared, |shared| {
            let (first, one) = call([0; 3]);
            let (second, two) = call([0; 3]);
            shared.put(&mut Some(first), true).unwrap();
            shared.put(&mut Some(second), true).unwrap();
            assert_eq!((one.wait(), two.wait()), (Ok(()), Ok(())));
        });
        assert_eq!(ask(shared, [0; 3]), Ok(()));
        other.join().unwrap();
    });
}

#[test]
fn calls_of_one_thread_go_out_in_their_order() {
    // The reactor rests with the engine, the caller between its calls, the reactor without it.
    let more = Room {
        switches: 3,
        ..WIDE
    };
    in_every_order(more, |shared| {
        assert_eq!(ask(shared, [0; 3]), Ok(()));
        let ends = Arc::new(Mutex::new(Vec::new()));
        let (promise, last) = Promise::pair();
        let mut last_ends = Some(promise);
        for number in 0..2 {
            let ends = Arc::clone(&ends);
            let promise = (number == 1).then(|| last_ends.take()).flatten();
            let noted = Box::new(move |result: Result<Reply<'_>, CallError>| {
                ends.lock().unwrap().push(number);
                if let Some(promise) = promise {
                    promise.give(result.map(drop));
                }
            });
            let call = submission([0; 3], noted);
            shared.put(&mut Some(call), true).unwrap();
        }
        assert_eq!(last.wait(), Ok(()));
        assert_eq!(*ends.lock().unwrap(), [0, 1]);
    });
}

#[test]
fn the_end_reaches_whoever_waits() {
    // One call is sent, one waits in the engine; the others have no room there.
    for room in [WIDE, NARROW] {
        in_every_order(room, |shared| {
            let waiting = beside(shared, |shared| {
                assert_eq!(ask(shared, UNANSWERED), Err(CallError::Closed));
            });
            let mut all = Vec::new();
            for _ in 0..3 {
                let (unanswered, awaited) = call(UNANSWERED);
                match shared.put(&mut Some(unanswered), false) {
                    Ok(()) => all.push(awaited),
                    Err(error) => assert_eq!(error, CallError::Full),
                }
            }
            shared.stop();
            for awaited in all {
                assert_eq!(awaited.wait(), Err(CallError::Closed));
            }
            waiting.join().unwrap();
        });
    }
}

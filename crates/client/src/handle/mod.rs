//! The threaded front: one [`Client`] for many threads, an engine in a thread of its own.
//!
//! Flow: a call is encoded by its caller's thread, put into an inbox, and the reactor is woken if
//! the inbox was empty; the reactor submits what it finds, polls, and runs each call's continuation
//! on the reply where it lies. [`Client::call`] waits for it; [`Client::call_then`] does not.
//!
//! Decisions: continuations run in the reactor's thread, so they have to be short, and must not
//! wait for another call (that is noticed and refused). Each is run exactly once: with its answer,
//! or with [`CallError::Closed`] when the client is shut down, which dropping the last handle does.
//!
//! Limits: [`MAX_INBOX`] calls wait in the inbox; threads that wait for their answer wait for room
//! too, others get [`CallError::Full`].

mod reactor;

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle, ThreadId};
use std::time::Duration;

use measure::MonotonicClock;
use wire::Encode;
use wire::nfs3::{WRITE3args, nfsstat3};

use crate::engine::{Caller, Engine, Reply, SharedBytes, Waker};
use crate::error::{CallError, ConnectError};
use crate::nfs3::{Procedure, Write, WriteHead};
use crate::record::{Counters, Operations, RecordReader, Sample};

/// Calls that wait to be taken by the reactor.
pub const MAX_INBOX: usize = 1 << 16;
/// Wait after NFS3ERR_JUKEBOX (Linux: `NFS_JUKEBOX_RETRY_TIME`).
const JUKEBOX_WAIT: Duration = Duration::from_secs(5);

/// What is done with a call's end, in the reactor's thread.
pub type Continuation = Box<dyn FnOnce(Result<Reply<'_>, CallError>) + Send>;

struct Submission {
    target: [u32; 3],
    caller: Option<Caller>,
    arguments: Vec<u8>,
    payload: Option<SharedBytes>,
    continuation: Continuation,
}

enum Command {
    Submit(Submission),
    Control(Box<dyn FnOnce(&mut Engine) + Send>),
}

#[derive(Default)]
struct Inbox {
    commands: VecDeque<Command>,
    stopped: bool,
}

struct Shared {
    inbox: Mutex<Inbox>,
    /// Room in the inbox, or the end.
    changed: Condvar,
    waker: Waker,
    reactor: OnceLock<ThreadId>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A client that many threads use. Dropping it shuts it down.
pub struct Client {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
    jukebox_wait: Duration,
}

impl fmt::Debug for Client {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Client").finish_non_exhaustive()
    }
}

/// A value that another thread will give, exactly once; giving up gives [`CallError::Closed`].
pub(crate) struct Promise<T>(Option<Arc<Awaited<T>>>);

pub(crate) struct Awaited<T> {
    value: Mutex<Option<Result<T, CallError>>>,
    given: Condvar,
}

impl<T> Promise<T> {
    pub(crate) fn pair() -> (Self, Arc<Awaited<T>>) {
        let awaited = Arc::new(Awaited {
            value: Mutex::new(None),
            given: Condvar::new(),
        });
        (Promise(Some(Arc::clone(&awaited))), awaited)
    }

    pub(crate) fn give(mut self, value: Result<T, CallError>) {
        self.put(value);
    }

    fn put(&mut self, value: Result<T, CallError>) {
        if let Some(awaited) = self.0.take() {
            *awaited.value.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
            awaited.given.notify_one();
        }
    }
}

impl<T> Drop for Promise<T> {
    fn drop(&mut self) {
        self.put(Err(CallError::Closed));
    }
}

impl<T> Awaited<T> {
    pub(crate) fn wait(&self) -> Result<T, CallError> {
        let mut value = self.value.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(value) = value.take() {
                return value;
            }
            value = self
                .given
                .wait(value)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Results of a call, copied out of the reactor; they are decoded where they are used.
#[derive(Debug)]
pub struct Answer<P: Procedure> {
    body: Vec<u8>,
    procedure: std::marker::PhantomData<P>,
}

impl<P: Procedure> Answer<P> {
    /// The results.
    ///
    /// # Errors
    /// [`CallError::Malformed`].
    pub fn decode(&self) -> Result<P::Results<'_>, CallError> {
        Reply { body: &self.body }.decode()
    }
}

impl Client {
    /// Gives an engine a thread.
    ///
    /// # Errors
    /// No thread could be had.
    pub fn start(engine: Engine<MonotonicClock>) -> Result<Arc<Self>, ConnectError> {
        Self::start_with(engine, JUKEBOX_WAIT)
    }

    /// [`Client::start`] with another wait after NFS3ERR_JUKEBOX than Linux's five seconds.
    ///
    /// # Errors
    /// No thread could be had.
    pub fn start_with(
        engine: Engine<MonotonicClock>,
        jukebox_wait: Duration,
    ) -> Result<Arc<Self>, ConnectError> {
        let shared = Arc::new(Shared {
            inbox: Mutex::new(Inbox::default()),
            changed: Condvar::new(),
            waker: engine.waker(),
            reactor: OnceLock::new(),
        });
        let inside = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("nfs-client".to_owned())
            .spawn(move || reactor::run(engine, &inside))
            .map_err(|source| ConnectError::System {
                what: "a thread for the client",
                source,
            })?;
        let _ = shared.reactor.set(thread.thread().id());
        Ok(Arc::new(Client {
            shared,
            thread: Mutex::new(Some(thread)),
            jukebox_wait,
        }))
    }

    pub(crate) fn in_reactor(&self) -> bool {
        self.shared.reactor.get() == Some(&thread::current().id())
    }

    /// Puts the command into the inbox; `waits` for room if there is none. On an error it is still
    /// there.
    fn put(&self, command: &mut Option<Command>, waits: bool) -> Result<(), CallError> {
        let mut inbox = self.shared.lock();
        while inbox.commands.len() >= MAX_INBOX && !inbox.stopped {
            if !waits {
                return Err(CallError::Full);
            }
            inbox = self
                .shared
                .changed
                .wait(inbox)
                .unwrap_or_else(PoisonError::into_inner);
        }
        if inbox.stopped {
            return Err(CallError::Closed);
        }
        let was_empty = inbox.commands.is_empty();
        inbox.commands.extend(command.take());
        drop(inbox);
        if was_empty {
            self.shared.waker.wake();
        }
        Ok(())
    }

    /// Makes a call with encoded arguments; `continuation` is run once, in the reactor's thread (or
    /// here, if the call cannot even be queued).
    pub fn submit(
        &self,
        target: [u32; 3],
        caller: Option<&Caller>,
        arguments: Vec<u8>,
        payload: Option<SharedBytes>,
        continuation: Continuation,
    ) {
        let submission = Submission {
            target,
            caller: caller.cloned(),
            arguments,
            payload,
            continuation,
        };
        let mut command = Some(Command::Submit(submission));
        if let Err(error) = self.put(&mut command, false)
            && let Some(Command::Submit(refused)) = command
        {
            (refused.continuation)(Err(error));
        }
    }

    /// Makes a call; `continuation` gets its results, borrowed, in the reactor's thread.
    pub fn call_then<P: Procedure>(
        &self,
        caller: Option<&Caller>,
        arguments: &P::Arguments<'_>,
        continuation: impl FnOnce(Result<P::Results<'_>, CallError>) + Send + 'static,
    ) {
        let mut bytes = Vec::new();
        match arguments.encode(&mut bytes) {
            Err(error) => continuation(Err(CallError::Malformed(error))),
            Ok(()) => {
                let decoded = move |result: Result<Reply<'_>, CallError>| {
                    continuation(crate::nfs3::decode::<P>(result));
                };
                self.submit(P::TARGET, caller, bytes, None, Box::new(decoded));
            }
        }
    }

    /// WRITE of shared bytes, which are not copied; `continuation` gets its results.
    pub fn write_then(
        &self,
        caller: Option<&Caller>,
        arguments: WRITE3args<'_>,
        payload: SharedBytes,
        continuation: impl FnOnce(Result<wire::nfs3::WRITE3res, CallError>) + Send + 'static,
    ) {
        let mut bytes = Vec::new();
        match WriteHead(arguments).encode(&mut bytes) {
            Err(error) => continuation(Err(CallError::Malformed(error))),
            Ok(()) => {
                let decoded = move |result: Result<Reply<'_>, CallError>| {
                    continuation(crate::nfs3::decode::<Write>(result));
                };
                self.submit(
                    Write::TARGET,
                    caller,
                    bytes,
                    Some(payload),
                    Box::new(decoded),
                );
            }
        }
    }

    /// Makes a call and waits for its results. NFS3ERR_JUKEBOX ("later") is waited out, as Linux's
    /// `nfs3_rpc_wrapper` does.
    ///
    /// # Errors
    /// The call's; [`CallError::WouldDeadlock`] from a continuation.
    pub fn call<P: Procedure>(
        &self,
        caller: Option<&Caller>,
        arguments: &P::Arguments<'_>,
    ) -> Result<Answer<P>, CallError> {
        if self.in_reactor() {
            return Err(CallError::WouldDeadlock);
        }
        let mut bytes = Vec::new();
        arguments.encode(&mut bytes).map_err(CallError::Malformed)?;
        loop {
            let body = self.call_bytes(P::TARGET, caller, bytes.clone())?;
            let status = body
                .first_chunk::<4>()
                .map(|word| u32::from_be_bytes(*word));
            let [program, _, procedure] = P::TARGET;
            let jukebox = program == wire::programs::NFS
                && procedure != 0
                && status == Some(nfsstat3::NFS3ERR_JUKEBOX.code);
            if !jukebox {
                return Ok(Answer {
                    body,
                    procedure: std::marker::PhantomData,
                });
            }
            self.wait_out_jukebox()?;
        }
    }

    fn call_bytes(
        &self,
        target: [u32; 3],
        caller: Option<&Caller>,
        arguments: Vec<u8>,
    ) -> Result<Vec<u8>, CallError> {
        let (promise, awaited) = Promise::pair();
        let submission = Submission {
            target,
            caller: caller.cloned(),
            arguments,
            payload: None,
            continuation: Box::new(move |result| {
                promise.give(result.map(|reply| reply.body.to_vec()));
            }),
        };
        self.put(&mut Some(Command::Submit(submission)), true)?;
        awaited.wait()
    }

    /// Waits as long as NFS3ERR_JUKEBOX asks for.
    ///
    /// # Errors
    /// [`CallError::Closed`].
    pub fn wait_out_jukebox(&self) -> Result<(), CallError> {
        let inbox = self.shared.lock();
        let (inbox, _) = self
            .shared
            .changed
            .wait_timeout_while(inbox, self.jukebox_wait, |inbox| !inbox.stopped)
            .unwrap_or_else(PoisonError::into_inner);
        if inbox.stopped {
            return Err(CallError::Closed);
        }
        Ok(())
    }

    /// Runs something on the engine, in the reactor's thread, and waits for it.
    ///
    /// # Errors
    /// [`CallError::Closed`], or [`CallError::WouldDeadlock`] from a continuation.
    pub fn with_engine<T: Send + 'static>(
        &self,
        run: impl FnOnce(&mut Engine) -> T + Send + 'static,
    ) -> Result<T, CallError> {
        if self.in_reactor() {
            return Err(CallError::WouldDeadlock);
        }
        let (promise, awaited) = Promise::pair();
        let control = Box::new(move |engine: &mut Engine| promise.give(Ok(run(engine))));
        self.put(&mut Some(Command::Control(control)), true)?;
        awaited.wait()
    }

    /// Totals, gauges and figures by operation.
    ///
    /// # Errors
    /// As [`Client::with_engine`].
    pub fn figures(&self) -> Result<(Counters, Operations), CallError> {
        self.with_engine(|engine| (*engine.counters(), engine.operations().clone()))
    }

    /// Records every call from now on.
    ///
    /// # Errors
    /// As [`Client::with_engine`].
    pub fn record_every_call(&self, records: usize) -> Result<RecordReader, CallError> {
        self.with_engine(move |engine| engine.record_every_call(records))
    }

    /// Takes samples from now on (zero: no more).
    ///
    /// # Errors
    /// As [`Client::with_engine`].
    pub fn sample_every(&self, interval: Duration) -> Result<(), CallError> {
        self.with_engine(move |engine| engine.sample_every(interval))
    }

    /// Samples taken since the last time, and how many were lost in all.
    ///
    /// # Errors
    /// As [`Client::with_engine`].
    pub fn samples(&self) -> Result<(Vec<Sample>, u64), CallError> {
        self.with_engine(|engine| {
            let mut samples = Vec::new();
            let lost = engine.drain_samples(&mut samples);
            (samples, lost)
        })
    }

    /// Ends all calls with [`CallError::Closed`] and the reactor's thread; later calls get the same
    /// error. Waits for the thread, except in a continuation.
    pub fn shutdown(&self) {
        self.shared.lock().stopped = true;
        self.shared.changed.notify_all();
        self.shared.waker.wake();
        if self.in_reactor() {
            return;
        }
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(thread) = thread.take() {
            // It ends by itself; had a continuation panicked, the waiting were told by its promise.
            let _ = thread.join();
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.shutdown();
    }
}

//! The threaded front: one [`Client`] for many threads, an engine in a thread of its own.
//!
//! Flow: a call is encoded and sent by its caller's thread, while the reactor's thread waits for
//! replies and runs each call's continuation on the reply where it lies. [`Client::call`] waits for
//! it; [`Client::call_then`] does not. Where somebody else is at the engine, or calls wait for room
//! in it, the call is put into an inbox, and the reactor sends it.
//!
//! Decisions: continuations run in the reactor's thread, so they have to be short, and must not
//! wait for another call (that is noticed and refused). Each is run exactly once: with its answer,
//! or with [`CallError::Closed`] when the client is shut down, which dropping the last handle does.
//!
//! Limits: [`MAX_INBOX`] calls wait in the inbox; threads that wait for their answer wait for room
//! too, others get [`CallError::Full`].

mod promise;
mod reactor;

use std::cell::Cell;
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use measure::MonotonicClock;
use wire::Encode;
use wire::nfs3::{WRITE3args, nfsstat3};

use crate::engine::{Caller, Engine, Reply, SharedBytes, Waker};
use crate::error::{CallError, ConnectError};
use crate::nfs3::{Procedure, Write, WriteHead};
use crate::record::{Counters, Operations, RecordReader, Sample};

pub(crate) use self::promise::Promise;
use self::reactor::Working;

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

#[derive(Default)]
struct Inbox {
    calls: VecDeque<Submission>,
    /// The reactor will look here before it waits.
    awake: bool,
    stopped: bool,
}

/// Who has both locks took `working` first.
struct Shared {
    /// Nobody holds it for long, and the reactor not while it waits. None at the end.
    working: Mutex<Option<Working>>,
    inbox: Mutex<Inbox>,
    /// Room in the inbox, or the end.
    changed: Condvar,
    waker: Waker,
}

impl Shared {
    fn working(&self) -> AtEngine<'_> {
        AtEngine::new(
            self,
            self.working.lock().unwrap_or_else(PoisonError::into_inner),
        )
    }

    /// As [`Shared::working`], if nobody else is there.
    fn working_now(&self) -> Option<AtEngine<'_>> {
        self.working
            .try_lock()
            .ok()
            .map(|working| AtEngine::new(self, working))
    }

    /// Whether this thread is at the engine: it must not wait for it then.
    fn is_held_here(&self) -> bool {
        AT_ENGINE.get() == std::ptr::from_ref(self).addr()
    }

    fn lock(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

thread_local! {
    /// Whose engine this thread is at.
    static AT_ENGINE: Cell<usize> = const { Cell::new(0) };
}

/// The engine, with a mark on the thread that has it.
struct AtEngine<'a> {
    working: MutexGuard<'a, Option<Working>>,
    before: usize,
}

impl<'a> AtEngine<'a> {
    fn new(shared: &Shared, working: MutexGuard<'a, Option<Working>>) -> Self {
        let before = AT_ENGINE.replace(std::ptr::from_ref(shared).addr());
        AtEngine { working, before }
    }
}

impl Drop for AtEngine<'_> {
    fn drop(&mut self) {
        AT_ENGINE.set(self.before);
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
        let failed = |what| move |source: std::io::Error| ConnectError::System { what, source };
        let waits = engine
            .waits()
            .map_err(|error| failed("epoll")(error.into()))?;
        let shared = Arc::new(Shared {
            inbox: Mutex::new(Inbox::default()),
            changed: Condvar::new(),
            waker: engine.waker(),
            working: Mutex::new(Some(Working::new(engine))),
        });
        let inside = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("nfs-client".to_owned())
            .spawn(move || reactor::run(&waits, &inside))
            .map_err(failed("a thread for the client"))?;
        Ok(Arc::new(Client {
            shared,
            thread: Mutex::new(Some(thread)),
            jukebox_wait,
        }))
    }

    pub(crate) fn would_deadlock(&self) -> bool {
        self.shared.is_held_here()
    }

    /// Sends the call, or leaves it to the reactor; `waits` for room in the inbox if there is none.
    /// On an error it is still there.
    fn put(&self, call: &mut Option<Submission>, waits: bool) -> Result<(), CallError> {
        self.send_at_once(call);
        if call.is_none() {
            return Ok(());
        }
        let mut inbox = self.shared.lock();
        while inbox.calls.len() >= MAX_INBOX && !inbox.stopped {
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
        let was_awake = std::mem::replace(&mut inbox.awake, true);
        inbox.calls.extend(call.take());
        drop(inbox);
        if !was_awake {
            self.shared.waker.wake();
        }
        Ok(())
    }

    /// Takes the call and sends it, if nobody is at the engine and none came before it.
    fn send_at_once(&self, call: &mut Option<Submission>) {
        let Some(mut at_engine) = self.shared.working_now() else {
            return;
        };
        let Some(working) = at_engine
            .working
            .as_mut()
            .filter(|working| working.is_free())
        else {
            return;
        };
        let inbox = self.shared.lock();
        if inbox.stopped || !inbox.calls.is_empty() {
            return;
        }
        drop(inbox);
        if let Some(call) = call.take() {
            working.send(call);
        }
        if working.engine.is_due_sooner() {
            self.shared.waker.wake();
        }
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
        let mut call = Some(submission);
        if let Err(error) = self.put(&mut call, false)
            && let Some(refused) = call
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
        if self.would_deadlock() {
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
        self.put(&mut Some(submission), true)?;
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

    /// Runs something short on the engine, between its turns.
    ///
    /// # Errors
    /// [`CallError::Closed`], or [`CallError::WouldDeadlock`] from a continuation.
    pub fn with_engine<T>(&self, run: impl FnOnce(&mut Engine) -> T) -> Result<T, CallError> {
        if self.would_deadlock() {
            return Err(CallError::WouldDeadlock);
        }
        let mut at_engine = self.shared.working();
        let engine = at_engine
            .working
            .as_mut()
            .map(|working| &mut working.engine);
        let engine = engine.ok_or(CallError::Closed)?;
        let value = run(engine);
        if engine.is_due_sooner() {
            self.shared.waker.wake();
        }
        Ok(value)
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
        if self.would_deadlock() {
            return;
        }
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        // At its end the reactor's thread is at no engine, and may drop the last handle.
        let other = thread
            .take()
            .filter(|thread| thread.thread().id() != thread::current().id());
        if let Some(thread) = other {
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

//! The threaded front: one [`Client`] for many threads, an engine in a thread of its own.
//!
//! Flow: a call is encoded and sent by its caller's thread, while the reactor's thread waits for
//! replies and runs each call's continuation on the reply where it lies. [`Client::call`] waits for
//! it; [`Client::call_then`] does not. Where somebody else is at the engine, or calls wait for room
//! in it, the call is put into an inbox, and the reactor sends it. Who may sleep, and who wakes
//! whom: `shared.rs`.
//!
//! Decisions: continuations run in the reactor's thread, so they have to be short, and must not
//! wait for another call (that is noticed and refused). Each is run exactly once: with its answer,
//! or with [`CallError::Closed`] when the client is shut down, which dropping the last handle does.
//!
//! Limits: [`MAX_INBOX`] calls wait in the inbox; threads that wait for their answer wait for room
//! too, others get [`CallError::Full`].

mod promise;
mod reactor;
mod shared;
mod sync;
mod turns;

use std::fmt;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use measure::MonotonicClock;
use parking_lot::Mutex;
use wire::nfs3::{WRITE3args, nfsstat3};
use wire::{Decode, Encode};

use crate::engine::{Caller, Engine, Reply, SharedBytes};
use crate::error::{CallError, ConnectError};
use crate::nfs3::{Procedure, Write, WriteHead};
use crate::record::{Counters, Operations, RecordReader, Sample};

use self::promise::Promise;
use self::shared::{Shared, Submission};

/// Calls that wait to be taken by the reactor.
pub const MAX_INBOX: usize = 1 << 16;
/// Wait after NFS3ERR_JUKEBOX (Linux: `NFS_JUKEBOX_RETRY_TIME`).
const JUKEBOX_WAIT: Duration = Duration::from_secs(5);

/// What is done with a call's end, in the reactor's thread.
pub type Continuation = Box<dyn FnOnce(Result<Reply<'_>, CallError>) + Send>;

/// A client that many threads use. Dropping it shuts it down.
pub struct Client {
    shared: Arc<Shared<Engine>>,
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
        P::Results::decode_whole(&self.body, "results").map_err(CallError::Malformed)
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
        let waker = engine.waker();
        let shared = Arc::new(Shared::new(engine, waker, MAX_INBOX));
        let inside = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("nfs-client".to_owned())
            .spawn(move || {
                measure::thread::leave_signals_to_others();
                reactor::run(&waits, &inside);
            })
            .map_err(failed("a thread for the client"))?;
        Ok(Arc::new(Client {
            shared,
            thread: Mutex::new(Some(thread)),
            jukebox_wait,
        }))
    }

    fn would_deadlock(&self) -> bool {
        self.shared.is_held_here()
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
        if let Err(error) = self.shared.put(&mut call, false)
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
        self.shared.put(&mut Some(submission), true)?;
        awaited.wait()
    }

    /// Waits as long as NFS3ERR_JUKEBOX asks for.
    ///
    /// # Errors
    /// [`CallError::Closed`].
    pub fn wait_out_jukebox(&self) -> Result<(), CallError> {
        self.shared.rest(self.jukebox_wait)
    }

    /// Runs something short on the engine, between its turns.
    ///
    /// # Errors
    /// [`CallError::Closed`], or [`CallError::WouldDeadlock`] from a continuation.
    pub fn with_engine<T>(&self, run: impl FnOnce(&mut Engine) -> T) -> Result<T, CallError> {
        if self.would_deadlock() {
            return Err(CallError::WouldDeadlock);
        }
        self.shared.with_engine(run)
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
        self.shared.stop();
        if self.would_deadlock() {
            return;
        }
        let mut thread = self.thread.lock();
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

//! Worker threads for calls that may wait for a device.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;

use measure::clock::{Clock, MonotonicClock};
use parking_lot::{Condvar, Mutex};

use wire::rpc::ReplyStatus;

use super::fair_queue::{FairQueue, Flow};
use crate::protocol::{Outcome, Received, Service, receive, refuse};
use crate::store::Payload;

/// Most worker threads.
pub const MAX_THREADS: usize = 1024;

/// A call for a worker.
#[derive(Debug)]
pub struct Work {
    /// Its number in the loop.
    pub call: u64,
    /// Who sent it.
    pub peer: SocketAddr,
    /// The whole message.
    pub message: Vec<u8>,
    /// Whether the instants are wanted.
    pub timed: bool,
}

/// What a worker made of a call.
#[derive(Debug)]
pub struct Finished {
    /// Its number in the loop.
    pub call: u64,
    /// The reply without its data.
    pub head: Vec<u8>,
    /// The data of a READ.
    pub payload: Payload,
    /// How it ended.
    pub outcome: Outcome,
    /// When the procedure began; 0 if nobody wanted to know.
    pub started_ns: u64,
    /// When the procedure ended; 0 likewise.
    pub finished_ns: u64,
}

#[derive(Debug, Default)]
struct Queue {
    work: FairQueue<Work>,
    closed: bool,
}

#[derive(Debug)]
struct Shared {
    queue: Mutex<Queue>,
    there_is_work: Condvar,
    finished: Mutex<Vec<Finished>>,
    wake: Arc<OwnedFd>,
    service: Arc<Service>,
}

/// The threads; they end when it is dropped.
#[derive(Debug)]
pub struct Pool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

fn now_if(timed: bool) -> u64 {
    if timed { MonotonicClock.now_ns() } else { 0 }
}

/// Runs a call here and now. `None` if the message is no call.
pub fn execute(service: &Service, work: &Work) -> Option<Finished> {
    let Received::Call(call) = receive(&work.message) else {
        return None;
    };
    let (mut head, mut payload) = (Vec::with_capacity(256), Payload::new());
    let started_ns = now_if(work.timed);
    let outcome = service.answer(work.peer, &call, &mut head, &mut payload);
    Some(Finished {
        call: work.call,
        head,
        payload,
        outcome,
        started_ns,
        finished_ns: now_if(work.timed),
    })
}

/// The answer to a call whose procedure panicked (its message is on standard error).
fn failed(work: &Work) -> Finished {
    let now_ns = now_if(work.timed);
    let xid = work
        .message
        .first_chunk()
        .map_or(0, |xid| u32::from_be_bytes(*xid));
    let mut head = Vec::new();
    refuse(xid, ReplyStatus::SystemError, &mut head);
    Finished {
        call: work.call,
        head,
        payload: Payload::new(),
        outcome: Outcome::Refused(ReplyStatus::SystemError),
        started_ns: now_ns,
        finished_ns: now_ns,
    }
}

impl Pool {
    /// Starts threads (1 to [`MAX_THREADS`]); each finished call writes to `wake`.
    pub fn start(
        threads: usize,
        service: Arc<Service>,
        wake: Arc<OwnedFd>,
    ) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            there_is_work: Condvar::new(),
            finished: Mutex::default(),
            wake,
            service,
        });
        let mut pool = Pool {
            shared,
            threads: Vec::new(),
        };
        for number in 0..threads.clamp(1, MAX_THREADS) {
            let shared = Arc::clone(&pool.shared);
            let thread = std::thread::Builder::new()
                .name(format!("nfs-worker-{number}"))
                .spawn(move || run(&shared))?;
            pool.threads.push(thread);
        }
        Ok(pool)
    }

    /// Queues a call of a connection that moves so many bytes (the loop bounds how many wait).
    pub fn submit(&self, work: Work, flow: &mut Flow, bytes: usize) {
        let mut queue = self.shared.queue.lock();
        queue.work.push(flow, bytes, work);
        drop(queue);
        self.shared.there_is_work.notify_one();
    }

    /// Takes what is finished.
    pub fn take(&self, into: &mut Vec<Finished>) {
        let mut finished = self.shared.finished.lock();
        into.append(&mut finished);
    }
}

fn run(shared: &Shared) {
    loop {
        let mut queue = shared.queue.lock();
        let work = loop {
            if let Some(work) = queue.work.pop() {
                break work;
            }
            if queue.closed {
                return;
            }
            shared.there_is_work.wait(&mut queue);
        };
        drop(queue);
        // A defect in a store must not leave its caller without an answer for ever.
        let guarded = AssertUnwindSafe(|| execute(&shared.service, &work));
        let done = match catch_unwind(guarded) {
            Ok(Some(done)) => done,
            Ok(None) => continue,
            Err(_) => failed(&work),
        };
        let mut finished = shared.finished.lock();
        let first = finished.is_empty();
        finished.push(done);
        drop(finished);
        if first {
            super::wake(&shared.wake);
        }
    }
}

impl Pool {
    /// Ends the threads after the work that is queued; returns what nobody has taken.
    pub fn end(mut self) -> Vec<Finished> {
        self.join();
        let mut rest = Vec::new();
        self.take(&mut rest);
        rest
    }

    fn join(&mut self) {
        let mut queue = self.shared.queue.lock();
        queue.closed = true;
        drop(queue);
        self.shared.there_is_work.notify_all();
        for thread in self.threads.drain(..) {
            // A worker that panicked has been told of on standard error already.
            let _ = thread.join();
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.join();
    }
}

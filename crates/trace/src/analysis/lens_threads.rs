//! Lenses on threads of their own: what happens is handed over in chunks.
//!
//! A chunk is written once, in the order of the capture, and read by all threads; the last one
//! gives it back. At most [`LENS_CHUNKS`] exist: lenses that are slow slow the reader, and memory
//! stays flat.

use std::slice;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{Builder, JoinHandle, available_parallelism};

use measure::clock::thread_cpu_ns;

use super::lenses::Lenses;
use crate::call::Call;
use crate::error::TraceError;
use crate::event::{Event, TransportEvent};
use crate::lens::Interest;
use crate::limits::{LENS_CHUNK, LENS_CHUNKS};

/// What happened, in the order of the kinds.
#[derive(Debug, Default)]
struct Chunk {
    kinds: Vec<Kind>,
    /// Those sent, answered and settled.
    calls: Vec<Call>,
    /// When, for those sent and answered.
    times_ns: Vec<i64>,
    transport: Vec<TransportEvent>,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Sent { again: bool },
    Replied { again: bool },
    Settled,
    Transport,
}

impl Chunk {
    fn clear(&mut self) {
        self.kinds.clear();
        self.calls.clear();
        self.times_ns.clear();
        self.transport.clear();
    }

    #[inline(always)]
    fn add_event(&mut self, event: &Event<'_>) {
        match *event {
            Event::Sent {
                time_ns,
                call,
                again,
            } => self.add_message(Kind::Sent { again }, time_ns, call),
            Event::Replied {
                time_ns,
                call,
                again,
            } => self.add_message(Kind::Replied { again }, time_ns, call),
            Event::Transport(event) => {
                self.kinds.push(Kind::Transport);
                self.transport.push(*event);
            }
        }
    }

    #[inline(always)]
    fn add_message(&mut self, kind: Kind, time_ns: i64, call: &Call) {
        self.times_ns.push(time_ns);
        self.add_call(kind, call);
    }

    #[inline(always)]
    fn add_call(&mut self, kind: Kind, call: &Call) {
        self.kinds.push(kind);
        // Not `push`: it would be copied twice.
        self.calls.extend_from_slice(slice::from_ref(call));
    }

    fn tell(&self, lenses: &mut Lenses) {
        let mut transport = self.transport.iter().map(Event::Transport);
        let (mut calls, mut times_ns) = (self.calls.iter(), self.times_ns.iter());
        for kind in &self.kinds {
            let event = match *kind {
                Kind::Transport => transport.next(),
                Kind::Settled => {
                    calls
                        .next()
                        .into_iter()
                        .for_each(|call| lenses.call(call, None));
                    None
                }
                Kind::Sent { again } => {
                    times_ns
                        .next()
                        .zip(calls.next())
                        .map(|(time_ns, call)| Event::Sent {
                            time_ns: *time_ns,
                            call,
                            again,
                        })
                }
                Kind::Replied { again } => {
                    times_ns
                        .next()
                        .zip(calls.next())
                        .map(|(time_ns, call)| Event::Replied {
                            time_ns: *time_ns,
                            call,
                            again,
                        })
                }
            };
            event.iter().for_each(|event| lenses.event(event));
        }
    }
}

/// A chunk that goes back once no thread needs it any more, whatever became of them.
#[derive(Debug)]
struct Lent {
    chunk: Chunk,
    back: Sender<Chunk>,
}

impl Drop for Lent {
    fn drop(&mut self) {
        // Nobody takes it where the analysis ended.
        let _ = self.back.send(std::mem::take(&mut self.chunk));
    }
}

#[derive(Debug)]
struct Thread {
    chunks: SyncSender<Arc<Lent>>,
    thread: JoinHandle<(Lenses, u64)>,
}

/// Threads with lenses. Dropping it waits for them.
#[derive(Debug)]
pub(super) struct LensThreads {
    threads: Vec<Thread>,
    interest: Interest,
    /// Being filled.
    chunk: Chunk,
    made: usize,
    back: Sender<Chunk>,
    empty: Receiver<Chunk>,
    died: bool,
}

impl LensThreads {
    /// Threads that gain something beside those that read: what two lens threads do takes less
    /// than to find the calls.
    pub(super) fn useful() -> usize {
        const MOST: usize = 2;
        available_parallelism().map_or(0, |processors| (processors.get() - 1).min(MOST))
    }

    /// One for each of these.
    ///
    /// # Errors
    /// One cannot be begun.
    pub(super) fn begin(shares: Vec<Lenses>) -> Result<Self, TraceError> {
        let (back, empty) = channel();
        let mut all = LensThreads {
            threads: Vec::new(),
            interest: Interest::default(),
            chunk: Chunk::default(),
            made: 1,
            back,
            empty,
            died: false,
        };
        for lenses in shares {
            all.interest = all.interest.with(lenses.interest());
            let (chunks, received) = sync_channel(LENS_CHUNKS);
            let thread = Builder::new()
                .name("lenses".to_owned())
                .spawn(move || follow(lenses, &received))
                .map_err(|error| TraceError::Thread(error.to_string()))?;
            all.threads.push(Thread { chunks, thread });
        }
        Ok(all)
    }

    /// Something happened.
    #[inline(always)]
    pub(super) fn event(&mut self, event: &Event<'_>) {
        if self.interest.wants(event) {
            self.chunk.add_event(event);
            self.send_if_full();
        }
    }

    /// A call is settled.
    #[inline(always)]
    pub(super) fn call(&mut self, call: &Call) {
        if self.interest.calls {
            self.chunk.add_call(Kind::Settled, call);
            self.send_if_full();
        }
    }

    /// Why it cannot go on: a lens panicked.
    pub(super) fn failure(&self) -> Option<TraceError> {
        self.died.then(panicked)
    }

    /// All was seen: gives the lenses, and the CPU time of their threads in nanoseconds.
    ///
    /// # Errors
    /// A lens panicked.
    pub(super) fn finish(mut self) -> Result<(Vec<Lenses>, u64), TraceError> {
        self.send();
        let mut all = Vec::new();
        let mut cpu_ns = 0u64;
        for Thread { chunks, thread } in self.threads.drain(..) {
            drop(chunks);
            let (lenses, took_ns) = thread.join().map_err(|_| panicked())?;
            all.push(lenses);
            cpu_ns = cpu_ns.saturating_add(took_ns);
        }
        Ok((all, cpu_ns))
    }

    #[inline(always)]
    fn send_if_full(&mut self) {
        if self.chunk.kinds.len() >= LENS_CHUNK {
            self.send();
        }
    }

    #[inline(never)]
    fn send(&mut self) {
        let next = match self.empty.try_recv() {
            Err(_) if self.made < LENS_CHUNKS => {
                self.made += 1;
                Chunk::default()
            }
            // All go back in the end.
            Err(_) => self.empty.recv().unwrap_or_default(),
            Ok(chunk) => chunk,
        };
        let lent = Arc::new(Lent {
            chunk: std::mem::replace(&mut self.chunk, next),
            back: self.back.clone(),
        });
        self.chunk.clear();
        for thread in &self.threads {
            self.died |= thread.chunks.send(Arc::clone(&lent)).is_err();
        }
    }
}

impl Drop for LensThreads {
    fn drop(&mut self) {
        for Thread { chunks, thread } in self.threads.drain(..) {
            drop(chunks);
            let _ = thread.join();
        }
    }
}

fn panicked() -> TraceError {
    TraceError::Thread("a lens panicked".to_owned())
}

/// Tells lenses what comes until nothing more does; gives them back, and the thread's CPU time.
fn follow(mut lenses: Lenses, chunks: &Receiver<Arc<Lent>>) -> (Lenses, u64) {
    measure::thread::leave_signals_to_others();
    for lent in chunks {
        lent.chunk.tell(&mut lenses);
    }
    (lenses, thread_cpu_ns())
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::Receiver;

    use super::*;
    use crate::lens::{Extent, Lens, Section};
    use crate::names::Names;

    /// Panics at a call, once it may; else counts them.
    struct Fragile {
        calls: u64,
        last: Option<u64>,
        go: Receiver<()>,
    }

    impl Lens for Fragile {
        fn call(&mut self, call: &Call) {
            self.calls += 1;
            if self.last == Some(call.number) {
                // Nobody tells any more where the test is over.
                let _ = self.go.recv();
                panic!("a lens that is planted");
            }
        }

        fn finish(&mut self, _: &Names, _: &Extent) -> Section {
            serde_json::json!(self.calls).into()
        }
    }

    fn fragile(last: Option<u64>) -> (Lenses, Sender<()>) {
        let (told, go) = channel();
        let lens = Fragile { calls: 0, last, go };
        (Lenses::of_one(Box::new(lens)), told)
    }

    fn calls(threads: &mut LensThreads, count: usize) {
        for number in 0..count as u64 {
            threads.call(&Call {
                number,
                ..Call::default()
            });
        }
    }

    fn counted(mut lenses: Lenses) -> u64 {
        let section = lenses.finish(&Names::default(), &Extent::default()).next();
        section.unwrap().1.json.as_u64().unwrap()
    }

    #[test]
    fn a_lens_that_panics_is_an_error_for_those_that_go_on() {
        let (whole, _told) = fragile(None);
        let (panics, told) = fragile(Some(LENS_CHUNK as u64 + 7));
        let mut threads = LensThreads::begin(vec![whole, panics]).unwrap();
        // As many as exist: with the next one somebody has to give one back.
        calls(&mut threads, LENS_CHUNKS * LENS_CHUNK - 1);
        assert!(threads.failure().is_none());
        told.send(()).unwrap();
        // Its thread gives back what it had; the other one's calls come to their end.
        let told_of = (0..100_000).any(|_| {
            calls(&mut threads, LENS_CHUNK);
            threads.failure().is_some()
        });
        assert!(told_of);
        calls(&mut threads, 5 * LENS_CHUNKS * LENS_CHUNK);
        let error = threads.finish().unwrap_err();
        assert_eq!(error.to_string(), panicked().to_string());
    }

    #[test]
    fn all_is_told_in_chunks_of_which_few_exist() {
        for count in [
            0,
            1,
            LENS_CHUNK - 1,
            LENS_CHUNK,
            LENS_CHUNK + 1,
            50 * LENS_CHUNK + 3,
        ] {
            let shares = (0..3).map(|_| fragile(None).0).collect();
            let mut threads = LensThreads::begin(shares).unwrap();
            calls(&mut threads, count);
            assert!(threads.made <= LENS_CHUNKS);
            let (lenses, cpu_ns) = threads.finish().unwrap();
            assert!(cpu_ns > 0);
            for lenses in lenses {
                assert_eq!(counted(lenses), count as u64);
            }
        }
    }

    #[test]
    fn who_gives_up_ends_the_threads() {
        let (lenses, told) = fragile(Some(1));
        let mut threads = LensThreads::begin(vec![lenses]).unwrap();
        calls(&mut threads, 3 * LENS_CHUNK);
        drop(told);
        drop(threads);
    }
}

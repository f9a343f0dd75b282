//! One step on all its threads: ready, go, watch, collect.
//!
//! Workers prepare (open, allocate) and report ready; then one gate opens for all, and the time
//! starts: now, or at the instant that all processes of the run were given. The coordinator wakes
//! [`TICK`] after tick to ask the observer whether to go on, and at once when a worker ends. A
//! worker that fails makes the others stop after their operation.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use measure::Clock;
use measure::thread::leave_signals_to_others;
use parking_lot::{Condvar, Mutex};

use crate::error::FilesError;
use crate::meter::{Counter, Meter, Start, Stop};
use crate::worker::{Report, Run, Shared, Worker};

/// How often the observer is asked: well within the second that a Ctrl-C may take.
pub const TICK: Duration = Duration::from_millis(200);

/// Where workers wait for the common start.
#[derive(Default)]
struct Gate {
    /// None: closed. Some(None): do not start. Some(Some(t)): started at t.
    state: Mutex<Option<Option<u64>>>,
    changed: Condvar,
}

impl Gate {
    fn open(&self, start_ns: Option<u64>) {
        *self.state.lock() = Some(start_ns);
        self.changed.notify_all();
    }

    fn wait(&self) -> Option<u64> {
        let mut state = self.state.lock();
        loop {
            if let Some(start_ns) = *state {
                return start_ns;
            }
            self.changed.wait(&mut state);
        }
    }
}

/// What a worker tells the coordinator.
enum News {
    Ready,
    Ended,
}

/// The measurements of a step.
pub struct Done<'a> {
    pub start_ns: u64,
    pub reports: Vec<Report<'a>>,
}

/// What a step runs with.
#[derive(Clone, Copy)]
pub struct Control<'a> {
    pub clock: &'a dyn Clock,
    pub cancel: &'a AtomicBool,
    pub counters: &'a [Counter],
    pub series_interval_ns: u64,
}

/// Whoever is asked while a step runs.
pub trait Watch {
    /// Whether to go on, with so many operations done since the start.
    fn goes_on(&mut self, done: u64, elapsed_ns: u64) -> bool;
    /// All workers are ready: when they are to begin; None: never.
    fn start_ns(&mut self) -> Option<u64>;
}

/// Runs a step to its end. `generations` holds one byte for each block of this process.
pub fn run<'a>(
    shared: Shared<'a>,
    control: Control<'a>,
    generations: &'a mut [u8],
    watch: &mut dyn Watch,
) -> Run<Done<'a>> {
    let gate = Gate::default();
    let (sender, news) = channel();
    std::thread::scope(|scope| {
        let mut handles = Vec::new();
        let mut rest = generations;
        let mut failed = None;
        for (index, counter) in (0..shared.threads).zip(control.counters) {
            let range = shared.layout.range(shared.threads, index);
            let length = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
            let (mine, others) = std::mem::take(&mut rest).split_at_mut(length);
            rest = others;
            let (gate, sender) = (&gate, sender.clone());
            let thread = std::thread::Builder::new().name(format!("files-{index}"));
            let spawned = thread.spawn_scoped(scope, move || {
                work(shared, control, index, mine, counter, gate, &sender)
            });
            match spawned {
                Ok(handle) => handles.push(handle),
                Err(error) => {
                    failed = Some(FilesError::Thread(error.to_string()));
                    break;
                }
            }
        }
        drop(sender);
        let start_ns = start(&news, handles.len(), failed.is_none(), &gate, watch);
        if let Some(start_ns) = start_ns {
            await_end(&news, control, start_ns, watch);
        }
        let mut reports = Vec::new();
        for handle in handles {
            match handle.join() {
                Ok(Ok(report)) => reports.push(report),
                Ok(Err(error)) => failed = Some(first_cause(failed, error)),
                Err(_) => failed = Some(FilesError::Thread("ended by a panic".to_owned())),
            }
        }
        if let Some(error) = failed {
            return Err(error);
        }
        if reports.iter().any(|report| report.stop == Stop::Cancelled) {
            return Err(FilesError::Cancelled);
        }
        Ok(Done {
            start_ns: start_ns.unwrap_or(0),
            reports,
        })
    })
}

/// A real cause is worth more than the cancelling it led to.
fn first_cause(known: Option<FilesError>, new: FilesError) -> FilesError {
    match known {
        Some(known) if !matches!(known, FilesError::Cancelled) => known,
        _ => new,
    }
}

/// Waits until all workers are ready, then opens the gate; None when one of them failed.
fn start(
    news: &Receiver<News>,
    workers: usize,
    all_there: bool,
    gate: &Gate,
    watch: &mut dyn Watch,
) -> Option<u64> {
    let ready = (0..workers)
        .filter(|_| matches!(news.recv(), Ok(News::Ready)))
        .count();
    let all_ready = all_there && ready == workers;
    let start_ns = all_ready.then(|| watch.start_ns()).flatten();
    gate.open(start_ns);
    start_ns
}

/// Asks at each tick until all workers have ended.
fn await_end(news: &Receiver<News>, control: Control<'_>, start_ns: u64, watch: &mut dyn Watch) {
    let mut ended = 0;
    while ended < control.counters.len() {
        match news.recv_timeout(TICK) {
            Ok(_) => ended += 1,
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                let operations = control.counters.iter().map(Counter::operations).sum();
                let elapsed_ns = control.clock.now_ns().saturating_sub(start_ns);
                if !watch.goes_on(operations, elapsed_ns) {
                    control.cancel.store(true, Ordering::Relaxed);
                }
            }
        }
    }
}

/// Never too early.
fn wait_until(clock: &dyn Clock, start_ns: u64) {
    while let Some(left_ns) = start_ns.checked_sub(clock.now_ns()).filter(|&ns| ns > 0) {
        std::thread::sleep(Duration::from_nanos(left_ns));
    }
}

/// One worker's thread.
fn work<'a>(
    shared: Shared<'a>,
    control: Control<'a>,
    index: u64,
    generations: &'a mut [u8],
    counter: &'a Counter,
    gate: &Gate,
    sender: &Sender<News>,
) -> Run<Report<'a>> {
    leave_signals_to_others();
    let prepared = Meter::new(Start {
        clock: control.clock,
        cancel: control.cancel,
        counter,
        block_bytes: shared.plan.block_size_bytes,
        series_interval_ns: control.series_interval_ns,
    })
    .map_err(FilesError::from)
    .and_then(|meter| Worker::prepare(shared, index, generations, meter));
    // The coordinator outlives its workers, so sending cannot fail.
    let tell = |news| drop(sender.send(news));
    let worker = match prepared {
        Ok(worker) => worker,
        Err(error) => {
            tell(News::Ended);
            return Err(error);
        }
    };
    tell(News::Ready);
    let Some(start_ns) = gate.wait() else {
        return Err(FilesError::Cancelled);
    };
    wait_until(control.clock, start_ns);
    let result = worker.run(start_ns);
    if result.is_err() {
        control.cancel.store(true, Ordering::Relaxed);
    }
    tell(News::Ended);
    result
}

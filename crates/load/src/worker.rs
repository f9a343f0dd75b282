//! One generator thread: an engine, its files, and a loop that never waits for an answer it does
//! not need.
//!
//! A turn: arrivals that are due join a queue; while slots are free they are drawn, encoded and
//! handed to the engine; one `poll` sends them all, waits until the next instant of interest, and
//! takes the replies, each of which is checked where it lies.
//!
//! Pacing: the thread's timer slack is 1 ns, the wait ends [`SPIN_NS`] early, and the rest is
//! spent looking at sockets without waiting. That costs up to [`SPIN_NS`] of CPU for each gap
//! between operations (all of a core above some 30,000 operations a second); how much it was is
//! measured, and does not count as work in the guard.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::time::Duration;

use client::record::Counters;
use client::{Completion, Engine};
use generator::{ThreadMeter, ThreadReport, Times};
use measure::{Clock, HistogramError, Random};
use rustix::event::{PollFd, PollFlags, Timespec};

use crate::exchange::World;
use crate::fault::{Fault, describe};
use crate::meter::{Ending, Meter};
use crate::operation::Operation;
use crate::progress::Board;
use crate::source::Source;
use crate::targets::{Call, Targets};
use measure::weights::Weights;

/// Time before a planned instant from which on a thread does not sleep: waking takes about as
/// long on a machine with idle cores.
pub const SPIN_NS: u64 = 30_000;
/// Operations handed over before they are sent: bounds how long the first waits for the last.
const MAX_BATCH: usize = 64;
/// Arrivals that wait for a slot in one thread; further ones are counted as not sent.
pub const MAX_WAITING: usize = 1 << 16;
/// Longest sleep: how soon a request to stop is seen.
const MAX_SLEEP_NS: u64 = 50_000_000;

/// What one thread hands over.
pub(crate) struct Done {
    /// Which of the plan's servers it loaded.
    pub mount: usize,
    pub meter: Meter,
    pub ending: Ending,
    pub thread: ThreadReport,
    pub touched: (u64, u64),
    pub counters: Counters,
    pub system_error: Option<String>,
}

pub(crate) struct Worker<'w, C: Clock> {
    /// Which of several generator processes this is.
    pub process: u32,
    /// Which of the plan's servers it loads.
    pub mount: usize,
    pub engine: Engine<C>,
    pub world: World<'w>,
    pub targets: Targets,
    pub mix: &'w Weights<Operation>,
    pub source: Source,
    /// Apart from each other, so that arrivals and operations of a seed are always the same.
    pub schedule_random: Random,
    pub mix_random: Random,
    pub random: Random,
    pub meter: Meter,
    pub board: &'w Board,
    pub outstanding_max: u32,
    pub silence_ns: u64,
    pub state: State,
}

/// What changes from turn to turn.
#[derive(Debug, Default)]
pub(crate) struct State {
    slots: Vec<Call>,
    free: Vec<u32>,
    outstanding: u32,
    waiting: VecDeque<(u64, u32)>,
    /// Instants from which on what is handed over now could have been.
    batch: Vec<u64>,
    /// When a slot became free last while none was.
    free_since_ns: u64,
    /// When the server answered last, or was asked something when it had nothing to answer.
    answered_ns: u64,
    verifier: Option<[u8; 8]>,
    thread: ThreadMeter,
    /// What the board was told: unexpected answers, calls under way.
    told: (u64, u64),
    broken: Option<HistogramError>,
}

impl<C: Clock> Worker<'_, C> {
    fn times(&self) -> Times {
        self.meter.sums.accounts.times
    }

    /// Runs until the point's end, a request to stop, or silence.
    pub fn run(mut self) -> Done {
        let times = self.times();
        self.state.answered_ns = times.start_ns;
        self.state.free_since_ns = times.start_ns;
        self.state.thread = ThreadMeter::of_this_thread(self.engine.clock().now_ns());
        let mut system_error = None;
        let ending = loop {
            let now_ns = self.engine.clock().now_ns();
            // What was due before the end belongs to the load, however late this thread is.
            self.take_due(now_ns.min(times.end_ns.saturating_sub(1)));
            self.cross(now_ns);
            if let Some(ending) = self.ending(now_ns) {
                break ending;
            }
            self.hand_over(now_ns);
            if let Err(error) = self.turn(times.end_ns) {
                system_error = Some(format!("epoll: {error}"));
                break Ending::Stopped;
            }
        };
        let ending = match (ending, &system_error) {
            (Ending::Complete, None) => {
                self.hand_over_rest();
                self.drain()
            }
            (ending, _) => ending,
        };
        self.finish(ending, system_error)
    }

    fn ending(&self, now_ns: u64) -> Option<Ending> {
        if self.board.stop.load(Ordering::Relaxed) || self.state.broken.is_some() {
            return Some(Ending::Stopped);
        }
        let silent_ns = now_ns.saturating_sub(self.state.answered_ns);
        if self.state.outstanding > 0 && silent_ns > self.silence_ns {
            return Some(Ending::Silent);
        }
        (now_ns >= self.times().end_ns).then_some(Ending::Complete)
    }

    /// Notes CPU and what is left where the window begins and ends.
    fn cross(&mut self, now_ns: u64) {
        let times = self.times();
        if self.state.thread.cross(&times, now_ns) {
            let left = self.left();
            self.meter.sums.accounts.note_left(left.into_iter());
        }
    }

    /// Planned instants of what waits and of what is under way.
    fn left(&self) -> Vec<u64> {
        let waiting = self.state.waiting.iter().map(|(planned, _)| *planned);
        waiting.chain(self.under_way()).collect()
    }

    /// Planned instants of what is under way.
    fn under_way(&self) -> impl Iterator<Item = u64> + '_ {
        let mut busy = vec![true; self.state.slots.len()];
        for slot in &self.state.free {
            if let Some(place) = busy.get_mut(*slot as usize) {
                *place = false;
            }
        }
        let calls = self.state.slots.iter().zip(busy);
        calls
            .filter(|(_, busy)| *busy)
            .map(|(call, _)| call.planned_ns)
    }

    /// Arrivals that are due join the queue, as far as it has room.
    fn take_due(&mut self, now_ns: u64) {
        while let Some((planned_ns, process)) =
            self.source.take_due(now_ns, &mut self.schedule_random)
        {
            self.meter.arrive(planned_ns);
            if self.state.waiting.len() >= MAX_WAITING {
                let free = self.state.outstanding < self.outstanding_max;
                self.meter.sums.accounts.refuse(planned_ns, free);
                continue;
            }
            self.meter.sums.accounts.enter(planned_ns, now_ns);
            self.state.waiting.push_back((planned_ns, process));
        }
    }

    /// Draws, encodes and hands over while slots are free.
    fn hand_over(&mut self, now_ns: u64) {
        while self.state.outstanding < self.outstanding_max && self.state.batch.len() < MAX_BATCH {
            let Some((planned_ns, process)) = self.state.waiting.pop_front() else {
                return;
            };
            let Some(operation) = self.mix.draw(&mut self.mix_random) else {
                return;
            };
            let Some(call) = self.targets.draw(operation, &mut self.random) else {
                self.give_up(operation, (planned_ns, process), now_ns);
                continue;
            };
            let call = Call {
                planned_ns,
                process,
                ..call
            };
            self.submit(call, now_ns);
        }
    }

    /// The last arrivals, as far as slots are free: this thread was late for them.
    fn hand_over_rest(&mut self) {
        loop {
            let now_ns = self.engine.clock().now_ns();
            self.hand_over(now_ns);
            if self.state.batch.is_empty() {
                return;
            }
            self.note_handed(now_ns);
        }
    }

    fn note_handed(&mut self, now_ns: u64) {
        for due_ns in self.state.batch.drain(..) {
            self.meter.sums.accounts.handed(now_ns, due_ns);
        }
    }

    /// Nothing was free for an operation: it is counted, and its process goes on.
    #[cold]
    fn give_up(&mut self, operation: Operation, (planned_ns, process): (u64, u32), now_ns: u64) {
        let in_window = self.times().in_window(planned_ns);
        if let Some(figures) = self.meter.figures(operation) {
            figures.not_drawn += u64::from(in_window);
        }
        self.meter.sums.accounts.leave(planned_ns, now_ns);
        self.source
            .ended(process, now_ns, 0, &mut self.schedule_random);
    }

    #[inline]
    fn submit(&mut self, call: Call, now_ns: u64) {
        let state = &mut self.state;
        let slot = match state.free.pop() {
            Some(slot) => slot,
            None => {
                state.slots.push(call);
                u32::try_from(state.slots.len() - 1).unwrap_or(u32::MAX)
            }
        };
        if let Some(place) = state.slots.get_mut(slot as usize) {
            *place = call;
        }
        let token = u64::from(slot);
        let taken = self
            .world
            .submit(&mut self.engine, &call, &self.targets, token);
        if let Some(figures) = self.meter.figures(call.operation) {
            figures.calls += u64::from(taken.is_ok());
        }
        match taken {
            Ok(()) => {
                if state.outstanding == 0 {
                    state.answered_ns = state.answered_ns.max(now_ns); // it had nothing to answer
                }
                state.outstanding += 1;
                state.batch.push(call.planned_ns.max(state.free_since_ns));
            }
            Err(error) => {
                state.free.push(slot);
                let kind = (call.operation, Fault::of(&error));
                self.meter.faults.add(kind, now_ns, || error.to_string());
                self.targets.release(&call, false);
                self.meter.sums.accounts.leave(call.planned_ns, now_ns);
                self.source
                    .ended(call.process, now_ns, 0, &mut self.schedule_random);
            }
        }
    }

    /// Sends, waits until something is to be done, takes replies.
    fn turn(&mut self, end_ns: u64) -> Result<(), rustix::io::Errno> {
        let now_ns = self.engine.clock().now_ns();
        let idle = self.state.batch.is_empty();
        self.note_handed(now_ns);
        let full = self.state.outstanding >= self.outstanding_max;
        let more = !full && !self.state.waiting.is_empty();
        let wait_ns = if more {
            0
        } else {
            self.wait_ns(now_ns, end_ns)
        };
        let spins = wait_ns <= SPIN_NS;
        if spins && idle && self.state.outstanding == 0 {
            let until_ns = now_ns + wait_ns;
            while self.engine.clock().now_ns() < until_ns {
                std::hint::spin_loop();
            }
            self.state.thread.spin_ns += wait_ns;
            self.state.thread.looked_ns = self.engine.clock().now_ns();
            return Ok(());
        }
        let taken = match wait_ns.saturating_sub(SPIN_NS) {
            0 => self.poll(Duration::ZERO)?,
            sleep_ns => self.sleep(sleep_ns)?,
        };
        let then_ns = self.engine.clock().now_ns();
        let delay_ns = self.state.thread.pick_up_delay_ns(then_ns, !spins);
        if taken > 0 {
            self.meter.taken(then_ns, taken, delay_ns);
        } else if spins && idle {
            self.state.thread.spin_ns += then_ns.saturating_sub(now_ns);
        }
        Ok(())
    }

    /// Sends and waits; returns how many calls ended. epoll_wait(2) knows whole milliseconds only:
    /// it is used as far as these go, ppoll(2) for what is less.
    fn sleep(&mut self, sleep_ns: u64) -> Result<u64, rustix::io::Errno> {
        const MS: u64 = 1_000_000;
        if sleep_ns >= MS {
            return self.poll(Duration::from_millis(sleep_ns / MS));
        }
        let taken = self.poll(Duration::ZERO)?;
        if taken > 0 {
            return Ok(taken);
        }
        let timeout = Timespec {
            tv_sec: 0,
            tv_nsec: i64::try_from(sleep_ns).unwrap_or(0),
        };
        let mut waited = [PollFd::new(&self.engine, PollFlags::IN)];
        match rustix::event::poll(&mut waited, Some(&timeout)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => Ok(0),
            Ok(_) => self.poll(Duration::ZERO),
            Err(error) => Err(error),
        }
    }

    /// Time until the next instant of interest.
    fn wait_ns(&self, now_ns: u64, end_ns: u64) -> u64 {
        let times = self.times();
        let edges = [times.window_start_ns, times.window_end_ns, end_ns];
        let ahead = edges.into_iter().filter(|edge| *edge > now_ns);
        let next = ahead.chain(self.source.next_ns()).min().unwrap_or(end_ns);
        next.saturating_sub(now_ns).min(MAX_SLEEP_NS)
    }

    /// One poll of the engine; returns how many calls ended.
    fn poll(&mut self, timeout: Duration) -> Result<u64, rustix::io::Errno> {
        let Worker {
            engine,
            world,
            targets,
            source,
            schedule_random,
            meter,
            state,
            ..
        } = self;
        let full = state.outstanding >= self.outstanding_max;
        let mut taken = 0;
        engine.poll(Some(timeout), &mut |end| {
            if full && taken == 0 {
                state.free_since_ns = end.times.completed_ns;
            }
            taken += 1;
            end_call(end, world, (targets, source, schedule_random), meter, state);
        })?;
        if taken > 0 {
            let (faults, under_way) = (meter.faults.total(), u64::from(state.outstanding));
            let grown = under_way.wrapping_sub(state.told.1);
            self.board.answered.fetch_add(taken, Ordering::Relaxed);
            self.board
                .unexpected
                .fetch_add(faults - state.told.0, Ordering::Relaxed);
            self.board.outstanding.fetch_add(grown, Ordering::Relaxed); // modulo 2^64
            state.told = (faults, under_way);
        }
        Ok(taken)
    }

    /// After the end: what is under way may still be answered.
    fn drain(&mut self) -> Ending {
        loop {
            let now_ns = self.engine.clock().now_ns();
            self.cross(now_ns);
            if self.state.outstanding == 0 {
                return Ending::Complete;
            }
            match self.ending(now_ns) {
                Some(Ending::Complete) | None => {}
                // The load was answered to its end; that some replies never came is counted.
                Some(Ending::Silent) => return Ending::Complete,
                Some(Ending::Stopped) => return Ending::Stopped,
            }
            if self.poll(Duration::from_nanos(MAX_SLEEP_NS)).is_err() {
                return Ending::Stopped;
            }
        }
    }

    fn finish(mut self, ending: Ending, system_error: Option<String>) -> Done {
        let left = self.left();
        let counts = &mut self.meter.sums.counts;
        counts.unsent = self.state.waiting.len() as u64;
        counts.unanswered = left.len() as u64 - counts.unsent;
        for planned_ns in left {
            self.meter.sums.accounts.remain(planned_ns);
        }
        self.engine.record_counters_only(); // the records go to their reader
        let counters = *self.engine.counters();
        let now_ns = self.engine.clock().now_ns();
        let broken = self.state.broken.take().map(|error| error.to_string());
        Done {
            mount: self.mount,
            ending,
            thread: self.state.thread.report(self.process, now_ns),
            touched: self.targets.touched(),
            counters,
            system_error: system_error.or(broken),
            meter: self.meter,
        }
    }
}

/// A call ended: check it, measure it, let its process go on.
#[inline]
fn end_call(
    end: Completion<'_>,
    world: &World<'_>,
    (targets, source, random): (&mut Targets, &mut Source, &mut Random),
    meter: &mut Meter,
    state: &mut State,
) {
    let slot = u32::try_from(end.token).unwrap_or(u32::MAX);
    let Some(call) = state.slots.get(slot as usize).copied() else {
        return;
    };
    let ended_ns = end.times.completed_ns;
    let checked = world.check(&call, targets, end.result);
    targets.release(&call, checked.is_ok());
    state.free.push(slot);
    state.outstanding = state.outstanding.saturating_sub(1);
    meter.sums.accounts.leave(call.planned_ns, ended_ns);
    if let Some(figures) = meter.figures(call.operation) {
        figures.ended += 1;
    }
    match checked {
        Ok(moved) => {
            state.answered_ns = ended_ns;
            if let Some(verifier) = moved.verifier {
                let before = state.verifier.replace(verifier);
                let changed = before.is_some_and(|old| old != verifier);
                meter.sums.counts.verifier_changes += u64::from(changed);
            }
            if let Err(error) = meter.expected(&call, ended_ns, &moved) {
                state.broken = Some(error);
            }
        }
        Err(fault) => {
            if !matches!(fault, Fault::TimedOut | Fault::Unsendable) {
                state.answered_ns = ended_ns;
            }
            let example = || describe(&call, targets, world);
            meter.faults.add((call.operation, fault), ended_ns, example);
        }
    }
    let response_ns = ended_ns.saturating_sub(call.planned_ns);
    source.ended(call.process, ended_ns, response_ns, random);
}

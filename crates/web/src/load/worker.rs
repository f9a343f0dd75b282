//! One thread of the generator: its connections, one epoll instance, one buffer.
//!
//! Sockets are watched edge-triggered and once for all: a request costs one send, one receive, and
//! its part of a wait. Replies are read in `receive`, the end is in `ending`, what waits for an
//! instant in `timers`.
//!
//! Who asks for the connection to be closed waits until the server has done so, at most
//! `timers::CLOSE_NS`: else the port would stay in TIME_WAIT here, and ports would run out.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use generator::{Schedule, ThreadMeter};
use measure::{Clock, HistogramError, MonotonicClock, Random};
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::io::Errno;
use rustix::net::{SendFlags, sockopt};

use super::connection::{Connection, Line, Phase};
use super::draw::Draws;
use super::ending::Done;
use super::fault::Fault;
use super::meter::{Arrival, Meter};
use crate::fileset::Content;
use crate::page::{Kind, RequestId, next_ad, reply_bytes};
use crate::reply::Reply;

/// Bytes of one read.
const BUFFER_BYTES: usize = 256 << 10;
/// Events of one wait.
const EVENTS: usize = 512;
/// How often timeouts are looked for; longest wait.
const SWEEP_NS: u64 = 50_000_000;
/// Shortest and longest pause after failures in a row.
const PAUSE_NS: u64 = 10_000_000;
const MOST_DOUBLINGS: u32 = 7;
/// Between the first requests of two connections, if the warm-up is long enough.
const RAMP_GAP_NS: u64 = 200_000;

/// What all threads share with whoever watches.
#[derive(Debug, Default)]
pub(crate) struct Board {
    pub stop: AtomicBool,
    pub done: AtomicU64,
    pub failed: AtomicU64,
}

/// What ends a thread before its time.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WorkerError {
    #[error("epoll: {0}")]
    System(#[from] Errno),
    #[error("{0}")]
    Histogram(#[from] HistogramError),
}

pub(crate) struct Worker<'w> {
    pub address: SocketAddr,
    pub host: String,
    pub post_bytes: usize,
    pub timeout_ns: u64,
    pub line: Option<Line>,
    /// Open load: planned instants, and requests that may wait for a connection.
    pub schedule: Option<(Schedule, Random)>,
    pub backlog: usize,
    pub content: &'w Content,
    pub draws: Draws,
    pub meter: Meter,
    pub board: &'w Board,
    pub writer: u32,
    /// Which of several processes this is.
    pub process: u32,
    pub state: State,
}

/// What changes.
pub(crate) struct State {
    pub(super) epoll: OwnedFd,
    pub(super) connections: Vec<Connection>,
    /// Free connections of an open load, the last used one on top.
    pub(super) free: Vec<u32>,
    pub(super) queue: VecDeque<u64>,
    pub(super) timers: BinaryHeap<Reverse<(u64, u32)>>,
    pub(super) buffer: Vec<u8>,
    pub(super) out: Vec<u8>,
    pub(super) posts: u64,
    pub(super) unacknowledged: Vec<u64>,
    pub(super) requests: u64,
    pub(super) ending: bool,
    pub(super) thread: ThreadMeter,
    /// When the thread was there to begin.
    pub(super) began_ns: u64,
}

impl State {
    pub fn new(connections: u32, first_user: u32) -> Result<Self, Errno> {
        Ok(State {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            connections: (0..connections)
                .map(|number| Connection::new(first_user + number))
                .collect(),
            free: Vec::new(),
            queue: VecDeque::new(),
            timers: BinaryHeap::new(),
            buffer: vec![0; BUFFER_BYTES],
            out: Vec::with_capacity(1024),
            posts: 0,
            unacknowledged: Vec::new(),
            requests: 0,
            ending: false,
            thread: ThreadMeter::default(),
            began_ns: 0,
        })
    }
}

impl Worker<'_> {
    pub fn run(mut self) -> Result<Done, WorkerError> {
        self.state.thread = ThreadMeter::of_this_thread(MonotonicClock.now_ns());
        let times = self.meter.accounts.times;
        let mut events: Vec<epoll::Event> = Vec::with_capacity(EVENTS);
        let mut sweep_ns = times.start_ns;
        self.wait(&mut events, times.start_ns)?;
        self.state.began_ns = MonotonicClock.now_ns();
        self.begin_load()?;
        let stopped = loop {
            let now_ns = MonotonicClock.now_ns();
            self.take_arrivals()?;
            if self.state.thread.cross(&times, now_ns) {
                self.end_load();
            }
            let stopped = self.board.stop.load(Ordering::Relaxed);
            if stopped || now_ns >= times.end_ns || self.is_drained() {
                break stopped;
            }
            self.fire(now_ns)?;
            if now_ns >= sweep_ns {
                sweep_ns = now_ns + SWEEP_NS;
                self.sweep(now_ns)?;
            }
            let next_ns = self.next_ns();
            match next_ns < sweep_ns {
                true => self.wait(&mut events, next_ns)?,
                false => self.look(&mut events, sweep_ns.saturating_sub(now_ns))?,
            }
            let now_ns = MonotonicClock.now_ns();
            for event in &events {
                self.event(*event, now_ns)?;
            }
        };
        Ok(self.finish(stopped))
    }

    fn begin_load(&mut self) -> Result<(), WorkerError> {
        let all = 0..u32::try_from(self.state.connections.len()).unwrap_or(u32::MAX);
        if self.schedule.is_some() {
            self.state.free = all.rev().collect();
            return Ok(());
        }
        // Not all at once: a server's queue of new connections is short.
        let times = self.meter.accounts.times;
        let warm_up_ns = times.window_start_ns - times.start_ns;
        let gap_ns = RAMP_GAP_NS.min(warm_up_ns / 2 / u64::from(all.end.max(1)));
        for slot in all {
            let at_ns = times.start_ns + u64::from(slot) * gap_ns;
            self.meter.accounts.enter(at_ns, at_ns);
            self.draw(slot, at_ns);
            if let Some(connection) = self.state.connections.get_mut(slot as usize) {
                connection.phase = Phase::Waiting;
            }
            self.set_timer(slot, at_ns);
        }
        Ok(())
    }

    /// The next instant at which something is to be done.
    fn next_ns(&self) -> u64 {
        let times = &self.meter.accounts.times;
        let mut next_ns = match self.state.ending {
            true => times.end_ns,
            false => times.window_end_ns,
        };
        if let Some((schedule, _)) = self.schedule.as_ref().filter(|_| !self.state.ending) {
            next_ns = next_ns.min(schedule.next_ns());
        }
        if !self.state.queue.is_empty() && !self.state.free.is_empty() {
            return 0;
        }
        match self.state.timers.peek() {
            Some(Reverse((at_ns, _))) => next_ns.min(*at_ns),
            None => next_ns,
        }
    }

    /// Waits for events until an instant, and no longer: epoll_wait(2) rounds up to milliseconds
    /// (epoll_pwait2(2) does not, but needs Linux 5.11).
    fn wait(&self, events: &mut Vec<epoll::Event>, until_ns: u64) -> Result<(), Errno> {
        self.look(events, 0)?;
        let left_ns = until_ns.saturating_sub(MonotonicClock.now_ns());
        if left_ns == 0 || !events.is_empty() {
            return Ok(());
        }
        let mut all = [PollFd::new(&self.state.epoll, PollFlags::IN)];
        match poll(&mut all, Some(&timespec(left_ns))) {
            Ok(0) | Err(Errno::INTR) => Ok(()),
            Ok(_) => self.look(events, 0),
            Err(errno) => Err(errno),
        }
    }

    fn look(&self, events: &mut Vec<epoll::Event>, timeout_ns: u64) -> Result<(), Errno> {
        events.clear();
        let room = rustix::buffer::spare_capacity(events);
        match epoll::wait(&self.state.epoll, room, Some(&timespec(timeout_ns))) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(errno),
        }
    }

    /// Arrivals that are due get a connection, wait, or are skipped.
    fn take_arrivals(&mut self) -> Result<(), WorkerError> {
        let end_ns = self.meter.accounts.times.window_end_ns;
        // Those before the load's end are taken, however late.
        let until_ns = MonotonicClock.now_ns().min(end_ns - 1);
        loop {
            let Some((schedule, random)) = &mut self.schedule else {
                return Ok(());
            };
            let Some(planned_ns) = schedule.take_due(until_ns, random) else {
                return Ok(());
            };
            let accounts = &mut self.meter.accounts;
            accounts.handed(MonotonicClock.now_ns(), planned_ns);
            accounts.arrive(planned_ns);
            let slot = self.state.free.pop();
            if slot.is_none() && self.state.queue.len() >= self.backlog {
                accounts.refuse(planned_ns, false);
                continue;
            }
            accounts.enter(planned_ns, until_ns);
            match slot {
                Some(slot) => self.begin(slot, planned_ns)?,
                None => self.state.queue.push_back(planned_ns),
            }
        }
    }

    /// Draws a request for a connection and sends it, or connects first.
    pub(super) fn begin(&mut self, slot: u32, planned_ns: u64) -> Result<(), WorkerError> {
        self.draw(slot, planned_ns);
        let Some(connection) = self.state.connections.get_mut(slot as usize) else {
            return Ok(());
        };
        if connection.phase == Phase::Idle {
            return self.send(slot);
        }
        if connection.failures == 0 || self.schedule.is_some() {
            return self.connect(slot);
        }
        connection.phase = Phase::Waiting;
        let pause_ns = PAUSE_NS << (connection.failures - 1).min(MOST_DOUBLINGS);
        self.set_timer(slot, MonotonicClock.now_ns() + pause_ns);
        Ok(())
    }

    fn draw(&mut self, slot: u32, planned_ns: u64) {
        let drawn = self.draws.next();
        self.meter.drawn(&drawn, planned_ns);
        let number = match drawn.kind {
            Kind::Post => &mut self.state.posts,
            _ => &mut self.state.requests,
        };
        let id = RequestId {
            writer: self.writer,
            number: *number,
        };
        *number += 1;
        if let Some(connection) = self.state.connections.get_mut(slot as usize) {
            connection.drawn = drawn;
            connection.id = id;
            connection.planned_ns = planned_ns;
            connection.expected_bytes = reply_bytes(drawn.kind, drawn.file);
        }
    }

    pub(super) fn connect(&mut self, slot: u32) -> Result<(), WorkerError> {
        let now_ns = MonotonicClock.now_ns();
        let (address, line) = (self.address, self.line);
        let Some(connection) = self.state.connections.get_mut(slot as usize) else {
            return Ok(());
        };
        connection.active_ns = now_ns;
        self.meter.counts.connects += 1;
        if let Err(errno) = connection.connect(&address, line.as_ref()) {
            return self.fail(slot, Fault::of_connecting(errno), now_ns);
        }
        connection.phase = Phase::Connecting;
        let Some(socket) = &connection.socket else {
            return Ok(());
        };
        let data = u64::from(connection.generation) << 32 | u64::from(slot);
        let (data, all) = (epoll::EventData::new_u64(data), epoll::EventFlags::IN);
        let all = all | epoll::EventFlags::OUT | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
        match epoll::add(&self.state.epoll, socket, data, all) {
            Ok(()) => Ok(()),
            Err(_) => self.fail(slot, Fault::System, now_ns),
        }
    }

    fn send(&mut self, slot: u32) -> Result<(), WorkerError> {
        let mut out = std::mem::take(&mut self.state.out);
        out.clear();
        let Some(connection) = self.state.connections.get_mut(slot as usize) else {
            return Ok(());
        };
        connection.write_request(&self.host, self.post_bytes, &mut out);
        connection.phase = Phase::Busy;
        connection.readable = connection.hung_up; // nothing is left of the last reply
        connection.reply = Reply::default();
        connection.body_bytes = 0;
        connection.first_byte_ns = 0;
        connection.active_ns = connection.planned_ns.max(connection.active_ns);
        let sent = send_some(connection, &out);
        self.state.out = out;
        match sent {
            Ok(()) => Ok(()),
            Err(errno) => self.fail(slot, Fault::of_moving(errno), MonotonicClock.now_ns()),
        }
    }

    fn event(&mut self, event: epoll::Event, now_ns: u64) -> Result<(), WorkerError> {
        let (data, flags) = (event.data.u64(), event.flags);
        let slot = data as u32;
        let Some(connection) = self.state.connections.get_mut(slot as usize) else {
            return Ok(());
        };
        if connection.generation != (data >> 32) as u32 || connection.socket.is_none() {
            return Ok(()); // of a socket that was closed meanwhile
        }
        let gone = epoll::EventFlags::RDHUP | epoll::EventFlags::HUP | epoll::EventFlags::ERR;
        connection.hung_up |= flags.intersects(gone);
        if flags.intersects(gone | epoll::EventFlags::IN) && !connection.readable {
            connection.readable = true;
            connection.readable_ns = now_ns;
        }
        match connection.phase {
            Phase::Connecting => self.connected(slot, now_ns),
            Phase::Busy => {
                if !connection.unsent.is_empty() && flags.contains(epoll::EventFlags::OUT) {
                    let rest = std::mem::take(&mut connection.unsent);
                    if let Err(errno) = send_some(connection, &rest) {
                        return self.fail(slot, Fault::of_moving(errno), now_ns);
                    }
                }
                self.receive(slot, now_ns)
            }
            Phase::Idle if connection.hung_up => {
                connection.close();
                self.meter.counts.idle_closed += 1;
                Ok(())
            }
            Phase::Closing if connection.hung_up => {
                connection.close();
                self.free(slot, now_ns)
            }
            _ => Ok(()),
        }
    }

    fn connected(&mut self, slot: u32, now_ns: u64) -> Result<(), WorkerError> {
        let connection = self.state.connections.get(slot as usize);
        let socket = connection.and_then(|connection| connection.socket.as_ref());
        match socket.map(sockopt::socket_error) {
            Some(Ok(Ok(()))) => self.send(slot),
            Some(Ok(Err(errno)) | Err(errno)) => {
                self.fail(slot, Fault::of_connecting(errno), now_ns)
            }
            None => Ok(()),
        }
    }

    pub(super) fn done(
        &mut self,
        slot: u32,
        last_byte_ns: u64,
        now_ns: u64,
    ) -> Result<(), WorkerError> {
        let Some(connection) = self.state.connections.get_mut(slot as usize) else {
            return Ok(());
        };
        connection.failures = 0;
        connection.active_ns = now_ns;
        if connection.drawn.kind == Kind::AdGet {
            connection.cookie.last_ad = next_ad(connection.cookie);
        }
        let arrival = Arrival {
            planned_ns: connection.planned_ns,
            first_byte_ns: connection.first_byte_ns,
            last_byte_ns,
            body_bytes: connection.body_bytes,
        };
        self.meter.accounts.leave(arrival.planned_ns, last_byte_ns);
        self.meter.done(&connection.drawn, &arrival)?;
        self.board.done.fetch_add(1, Ordering::Relaxed);
        let closes = connection.close || connection.drawn.close;
        if connection.hung_up {
            connection.close();
        } else if closes {
            connection.phase = Phase::Closing;
            return Ok(());
        } else {
            connection.phase = Phase::Idle;
        }
        self.free(slot, now_ns)
    }

    #[cold]
    pub(super) fn fail(&mut self, slot: u32, fault: Fault, now_ns: u64) -> Result<(), WorkerError> {
        let Some(connection) = self.state.connections.get_mut(slot as usize) else {
            return Ok(());
        };
        connection.close();
        connection.failures += 1;
        self.meter.accounts.leave(connection.planned_ns, now_ns);
        self.meter.failed(connection.drawn.kind, fault, now_ns);
        self.board.failed.fetch_add(1, Ordering::Relaxed);
        if connection.drawn.kind == Kind::Post {
            self.state.unacknowledged.push(connection.id.number);
        }
        self.free(slot, now_ns)
    }

    /// A connection has nothing to do: the next request, where there is one.
    pub(super) fn free(&mut self, slot: u32, now_ns: u64) -> Result<(), WorkerError> {
        if self.schedule.is_some() {
            // A failed request must not begin the next one from within itself without end.
            match self.state.queue.pop_front() {
                Some(planned_ns) if !self.has_failed(slot) => return self.begin(slot, planned_ns),
                Some(planned_ns) => self.state.queue.push_front(planned_ns),
                None => {}
            }
            self.state.free.push(slot);
            return Ok(());
        }
        match self.state.ending {
            true => Ok(()),
            false => {
                self.meter.accounts.enter(now_ns, now_ns);
                self.begin(slot, now_ns)
            }
        }
    }

    fn has_failed(&self, slot: u32) -> bool {
        let connection = self.state.connections.get(slot as usize);
        connection.is_some_and(|connection| connection.failures > 0)
    }
}

const fn timespec(ns: u64) -> Timespec {
    Timespec {
        tv_sec: (ns / 1_000_000_000) as i64,
        tv_nsec: (ns % 1_000_000_000) as i64,
    }
}

/// Sends what the socket takes; the rest is kept.
fn send_some(connection: &mut Connection, bytes: &[u8]) -> Result<(), Errno> {
    let Some(socket) = &connection.socket else {
        return Err(Errno::BADF);
    };
    let sent = match rustix::net::send(socket, bytes, SendFlags::NOSIGNAL) {
        Ok(sent) => sent,
        Err(Errno::AGAIN | Errno::INTR) => 0,
        Err(errno) => return Err(errno),
    };
    connection
        .unsent
        .extend_from_slice(bytes.get(sent..).unwrap_or_default());
    Ok(())
}

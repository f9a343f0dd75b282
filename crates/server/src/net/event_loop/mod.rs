//! The loop: waits, and hands on what comes: [`streams`], [`datagrams`], finished work, the model.
//! Whose call it is that comes again from elsewhere: [`came_back`].
//! [`places`] says who may connect and who has to go, [`pressure`] who may hold how much,
//! [`waiting`] until when.

mod came_back;
mod datagrams;
mod places;
mod pressure;
mod streams;
#[cfg(test)]
mod tests;
mod waiting;

use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hashbrown::HashMap;
use measure::clock::{Clock, MonotonicClock};
use rustix::event::epoll;
use wire::rpc::Call;

use self::streams::TurnOfEach;
use super::access::Access;
use super::at_once::AtOnce;
use super::connection::Connection;
use super::counters::{Counters, count};
use super::fair_queue::Flow;
use super::memory::Memory;
use super::pending::{Origin, Pending, reply_bytes_most, shape_of};
use super::pool::{Finished, Pool, Work, execute};
use super::{READ_BUFFER_BYTES, ServerOptions, Sockets};
use crate::model::{Action, Engine};
use crate::protocol::{Outcome, Received, Service, receive};
use crate::record::{CallRecord, Reading, Session};
use crate::reply_cache::{ReplyCache, Ticket};
use crate::store::Payload;

const EVENTS: usize = 256;
/// Accepted or received in one turn, so that no socket starves another.
const TAKEN_PER_TURN: usize = 64;
const TOKEN_WAKE: u64 = 0;
const TOKEN_LISTENER: u64 = 1 << 32;
const TOKEN_DATAGRAM: u64 = 2 << 32;
const TOKEN_CONNECTION: u64 = 3 << 32;

pub(super) struct Loop {
    service: Arc<Service>,
    options: ServerOptions,
    listeners: Vec<TcpListener>,
    datagrams: Vec<UdpSocket>,
    epoll: OwnedFd,
    wake: Arc<OwnedFd>,
    pool: Option<Pool>,
    at_once: AtOnce,
    model: Option<Engine>,
    counters: Arc<Counters>,
    connections: Vec<Option<Connection>>,
    connected: usize,
    /// Most of them: fewer than [`MAX_CONNECTIONS`] where there are few descriptors.
    places: usize,
    /// Calls in work of connections that are closed, by serial number.
    orphans: HashMap<u64, Orphans>,
    /// Connections that ended before their clients had all replies, by serial number, the last
    /// [`came_back::MAX_BROKEN`].
    broken: VecDeque<u64>,
    /// Connections that have their next turn without an event, with their serial numbers.
    ready: VecDeque<(usize, u64)>,
    line: pressure::Line,
    memory: Memory,
    giving_back: pressure::GivingBack,
    spare: Option<OwnedFd>,
    next_serial: u64,
    dirty: Vec<usize>,
    cache: ReplyCache,
    pending: HashMap<u64, Pending>,
    next_call: u64,
    datagrams_in_work: usize,
    datagrams_bytes: usize,
    datagrams_flow: Flow,
    /// What each connection may have of this turn.
    turn_of_each: TurnOfEach,
    /// What was read from a socket, while it is looked at.
    buffer: Vec<u8>,
    payload: Payload,
    access: Access,
    datagram: Vec<u8>,
    now_ns: u64,
    /// When the bytes in hand were read, if they are to be recorded.
    reading: Option<Reading>,
}

impl Loop {
    pub fn new(
        service: Arc<Service>,
        mut options: ServerOptions,
        sockets: Sockets,
        pool: Option<Pool>,
        wake: Arc<OwnedFd>,
        counters: Arc<Counters>,
    ) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let watch = |fd: &dyn AsFd, token| {
            let data = epoll::EventData::new_u64(token);
            epoll::add(&epoll, fd.as_fd(), data, epoll::EventFlags::IN)
        };
        watch(&*wake, TOKEN_WAKE)?;
        for (listener, token) in sockets.tcp.iter().zip(TOKEN_LISTENER..) {
            watch(listener, token)?;
        }
        for (socket, token) in sockets.udp.iter().zip(TOKEN_DATAGRAM..) {
            watch(socket, token)?;
        }
        let now_ns = MonotonicClock.now_ns();
        let model = options.model.take().map(|model| Engine::new(model, now_ns));
        let memory = Memory::new(options.client_memory_bytes);
        let at_once = AtOnce::new(service.names_block());
        let access = Access::new(std::mem::take(&mut options.allow), options.secure);
        Ok(Loop {
            service,
            options,
            listeners: sockets.tcp,
            datagrams: sockets.udp,
            epoll,
            wake,
            pool,
            at_once,
            model,
            counters,
            connections: Vec::new(),
            connected: 0,
            places: places::places(),
            orphans: HashMap::new(),
            broken: VecDeque::new(),
            ready: VecDeque::new(),
            line: pressure::Line::default(),
            memory,
            giving_back: pressure::GivingBack::default(),
            spare: places::spare_descriptor(),
            next_serial: 0,
            dirty: Vec::new(),
            cache: ReplyCache::default(),
            pending: HashMap::new(),
            next_call: 0,
            datagrams_in_work: 0,
            datagrams_bytes: 0,
            datagrams_flow: Flow::default(),
            turn_of_each: TurnOfEach::of(1),
            buffer: vec![0; READ_BUFFER_BYTES],
            payload: Payload::new(),
            access,
            datagram: Vec::new(),
            now_ns,
            reading: None,
        })
    }

    /// Runs until `stop` is set.
    pub fn run(&mut self, stop: &AtomicBool) -> io::Result<()> {
        let mut events = Vec::with_capacity(EVENTS);
        while !stop.load(Ordering::Acquire) {
            let timeout = self.timeout();
            self.wait(&mut events, timeout.as_ref())?;
            self.turn(&events);
        }
        // Work in hand ends, and what the sockets take is sent.
        self.pool_end();
        self.flush();
        Ok(())
    }

    /// Gives everyone who has something a turn.
    fn turn(&mut self, events: &[epoll::Event]) {
        // Who has had its turn in this one waits for the next.
        let ready = self.ready.len();
        self.turn_of_each = TurnOfEach::of(events.len() + ready);
        for event in events {
            let token = event.data.u64();
            let index = token as u32 as usize;
            match token & !u64::from(u32::MAX) {
                TOKEN_WAKE => self.finished_work(),
                TOKEN_LISTENER => self.accept(index),
                TOKEN_DATAGRAM => self.receive_datagrams(index),
                _ => self.connection_event(index, event.flags),
            }
        }
        for _ in 0..ready {
            self.next_ready();
        }
        self.model_actions();
        self.flush();
        if !self.line.is_empty() {
            self.serve_the_line();
            self.flush();
        }
        self.end_turn();
    }

    fn next_ready(&mut self) {
        let Some((index, serial)) = self.ready.pop_front() else {
            return;
        };
        let slot = self.connections.get_mut(index).and_then(Option::as_mut);
        if let Some(connection) = slot.filter(|found| found.serial == serial) {
            connection.ready = false;
            // Who has come to stand in line for memory meanwhile stays there.
            if connection.wants == 0 {
                self.resume(index, false);
            }
        }
    }

    /// Bytes were read. Records want the moment, and so does the model (whether or not there are
    /// records): a turn's own may be many calls ago, before these bytes were even sent.
    fn look_at_the_clock(&mut self) {
        let session = self.options.recorder.session();
        if session.is_none() && self.model.is_none() {
            self.reading = None;
            return;
        }
        let now_ns = MonotonicClock.now_ns();
        if self.model.is_some() {
            self.now_ns = now_ns;
        }
        self.reading = session.map(|session| Reading {
            session,
            received_ns: now_ns,
        });
    }

    /// Whether a call is put in work, rather than answered where it was read. `alone`: no other
    /// came behind it.
    fn goes_to_work(&mut self, call: &Call<'_>, alone: bool) -> bool {
        if self.model.is_some() {
            return true;
        }
        let idle = alone && self.pending.is_empty();
        self.pool.is_some() && !(idle && self.at_once.may(call))
    }

    /// Hands a call to the model, or to the workers, where it stands as `flow` says.
    fn put_in_work(
        &mut self,
        origin: Origin,
        peer: SocketAddr,
        message: Vec<u8>,
        ticket: Option<Ticket>,
        flow: &mut Flow,
    ) {
        let Received::Call(call) = receive(&message) else {
            return;
        };
        let message_bytes = message.len();
        let shape = shape_of(&call, message_bytes);
        let reply_most = reply_bytes_most(&call);
        let number = self.next_call;
        self.next_call += 1;
        let pending = Pending {
            origin,
            peer,
            ticket,
            numbers: [call.xid, call.program, call.procedure],
            reading: self.reading,
            message_bytes,
            cost_bytes: message.capacity() + reply_most,
            reply_most,
            message,
            finished: None,
            released: self.model.is_none(),
            stages: None,
        };
        self.pending.insert(number, pending);
        match &mut self.model {
            Some(model) => model.arrive(number, shape, self.now_ns),
            None => self.start(number, flow),
        }
    }

    fn start(&mut self, number: u64, flow: &mut Flow) {
        let Some(pending) = self.pending.get_mut(&number) else {
            return;
        };
        let work = Work {
            call: number,
            peer: pending.peer,
            message: std::mem::take(&mut pending.message),
            timed: pending.reading.is_some(),
        };
        match &self.pool {
            Some(pool) => pool.submit(work, flow, pending.cost_bytes),
            None => {
                if let Some(finished) = execute(&self.service, &work) {
                    self.finished(finished);
                }
            }
        }
    }

    fn model_actions(&mut self) {
        while let Some((_, action)) = {
            let now_ns = self.now_ns;
            self.model.as_mut().and_then(|model| model.act(now_ns))
        } {
            match action {
                // Its order is the model's.
                Action::Start(number) => self.start(number, &mut Flow::default()),
                Action::Finish(number, stages) => {
                    if let Some(pending) = self.pending.get_mut(&number) {
                        pending.released = true;
                        pending.stages = Some(stages);
                    }
                    self.reply_if_ready(number);
                }
            }
        }
    }

    fn finished_work(&mut self) {
        let mut count = [0; 8];
        // Only resets the counter; an empty one (EAGAIN) is as good.
        let _ = rustix::io::read(&*self.wake, &mut count);
        let mut finished = Vec::new();
        if let Some(pool) = &self.pool {
            pool.take(&mut finished);
        }
        for one in finished {
            self.finished(one);
        }
    }

    fn pool_end(&mut self) {
        if let Some(pool) = self.pool.take() {
            for one in pool.end() {
                self.finished(one);
            }
        }
    }

    fn finished(&mut self, finished: Finished) {
        let number = finished.call;
        if let Some(pending) = self.pending.get_mut(&number) {
            if let Some(ticket) = pending.ticket {
                self.cache.finish(ticket, &finished.head, self.now_ns);
            }
            pending.finished = Some(finished);
        }
        self.reply_if_ready(number);
    }

    /// Sends a reply that is there and released.
    fn reply_if_ready(&mut self, number: u64) {
        let ready = |pending: &Pending| pending.released && pending.finished.is_some();
        if !self.pending.get(&number).is_some_and(ready) {
            return;
        }
        let Some(mut pending) = self.pending.remove(&number) else {
            return;
        };
        let Some(mut done) = pending.finished.take() else {
            return;
        };
        count(&self.counters.replies);
        let record = record_of(&pending, &done);
        match pending.origin {
            Origin::Datagram(socket) => {
                self.datagrams_in_work -= 1;
                self.datagrams_bytes -= pending.cost_bytes;
                done.head.extend(done.payload.to_vec());
                self.send_datagram(socket, pending.peer, &done.head, record);
            }
            Origin::Connection(index, serial) => {
                let slot = self.connections.get_mut(index);
                let Some(slot) = slot.filter(|slot| is(slot.as_ref(), serial)) else {
                    return self.orphan_ended(serial, pending.cost_bytes);
                };
                let Some(mut connection) = slot.take() else {
                    return;
                };
                connection.outstanding -= 1;
                connection.outstanding_bytes -= pending.cost_bytes;
                connection.expected_bytes -= pending.reply_most;
                connection.moved_on = true;
                let head = &done.head;
                connection
                    .outgoing
                    .record(&mut done.payload, |out, _| out.extend_from_slice(head));
                if let Some(record) = record {
                    let end = connection.outgoing.stream_queued;
                    connection.unsent.push_back((end, record));
                }
                self.settle(&mut connection, 0);
                mark_dirty(&mut self.dirty, &mut connection, index);
                if let Some(slot) = self.connections.get_mut(index) {
                    *slot = Some(connection);
                }
            }
        }
    }
}

/// Calls in work of a connection that is closed.
#[derive(Debug)]
struct Orphans {
    calls: usize,
    /// What they hold.
    bytes: usize,
}

fn is(slot: Option<&Connection>, serial: u64) -> bool {
    slot.is_some_and(|found| found.serial == serial)
}

fn mark_dirty(dirty: &mut Vec<usize>, connection: &mut Connection, index: usize) {
    if !connection.dirty {
        connection.dirty = true;
        dirty.push(index);
    }
}

/// What is known of a call before its reply is sent, if it is to be recorded. A model's instants
/// are its own: what it was told to take lies where it was planted. The real procedure may take
/// longer than the modelled one, never shorter.
fn record_of(pending: &Pending, done: &Finished) -> Option<(Session, CallRecord)> {
    let reading = pending.reading?;
    let [xid, program, procedure] = pending.numbers;
    let stages = pending.stages;
    let served_ns = stages.map_or(0, |stages| stages.served_ns);
    let record = CallRecord {
        received_ns: reading.received_ns + stages.map_or(0, |stages| stages.way_in_ns),
        started_ns: stages.map_or(done.started_ns, |stages| stages.started_ns),
        finished_ns: done.finished_ns.max(served_ns),
        sent_ns: 0,
        xid,
        client: pending.peer,
        program,
        procedure,
        call_bytes: record_bytes(pending.message_bytes),
        reply_bytes: record_bytes(done.head.len() + done.payload.len()),
        outcome: done.outcome,
    };
    Some((reading.session, record))
}

/// The same of a call that was answered where it was read: sizes of call and reply, when the
/// procedure began and ended, and how.
fn record_at_once(
    reading: Reading,
    client: SocketAddr,
    call: &Call<'_>,
    [call_bytes, reply_bytes]: [usize; 2],
    ([started_ns, finished_ns], outcome): ([u64; 2], Outcome),
) -> (Session, CallRecord) {
    let record = CallRecord {
        received_ns: reading.received_ns,
        started_ns,
        finished_ns,
        sent_ns: 0,
        xid: call.xid,
        client,
        program: call.program,
        procedure: call.procedure,
        call_bytes: record_bytes(call_bytes),
        reply_bytes: record_bytes(reply_bytes),
        outcome,
    };
    (reading.session, record)
}

/// Size of a message for its record: all are far below 4 GiB.
fn record_bytes(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

//! The engine: RPC over TCP and UDP, many calls at once, no thread of its own.
//!
//! Purpose: one reactor for all users of NFS here: a threaded front ([`crate::handle`]) runs it in
//! a thread, a load generator in its own loop.
//!
//! Flow: [`Engine::submit`] encodes a call into a slot and queues it. [`Engine::poll`] gives queued
//! calls to connections as long as fewer than `max_requests` are outstanding, sends all that can be
//! sent with one system call per connection, waits, takes all replies that are there with one more,
//! and hands each call's end to the caller's sink: exactly once per submitted call.
//!
//! Decisions:
//! * A call keeps its transaction id through all sends, also over a new connection, so that a
//!   server's reply cache recognises it. Ids go up from a random start and none is used twice at a
//!   time: reused ids hang servers.
//! * A lost connection is set up again when there are calls for it, at once if the peer has
//!   answered on it, else with growing waits; then all its outstanding calls are sent again in the
//!   order of their submission. `hard` waits for ever, `soft` until the major timeout.
//! * A major timeout over TCP without one byte from the peer since the call was sent drops the
//!   connection: that is what helps against half-open ones.
//! * In steady state nothing is allocated per call, and payloads are not copied.
//! * Hostile replies cost a counter each (see [`Counters`]); what a stream claims about lengths is
//!   bounded before memory is used.
//!
//! Limits: `max_requests` outstanding, [`MAX_PENDING`] waiting calls, messages of
//! [`MAX_CALL_BYTES`], replies of 1 MiB and headers.

mod calls;
mod core;
mod held;
mod incoming;
mod link;
mod request;
mod socket;
mod tending;
mod timers;
mod turn;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use measure::{Clock, FileCounts, MonotonicClock};
use rustix::event::{PollFd, PollFlags, Timespec, epoll};
use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};
use wire::record::{begin_record, finish_record};
use wire::xdr::padding;

pub use request::{Caller, Completion, Encoded, Reply, Request, SharedBytes, Times};
pub use socket::Waker;
pub use timers::TimeoutPolicy;

use self::calls::Entry;
use self::core::{Core, End, queue_length};
use self::held::Held;
use self::link::{Link, LinkState};
pub(crate) use self::socket::is_root;
use self::timers::Expiry;
pub(crate) use self::turn::{Events, Waits};
use self::turn::{HELD_TIMER, WAKER};
use crate::error::{CallError, ConnectError};
use crate::options::{Family, MountOptions, Transport};
use crate::record::{Counters, Operations, RecordReader, RecordRing, Sample, TcpInfo, tcp_info};

/// Most calls that wait to be sent; `submit` refuses more.
pub const MAX_PENDING: usize = 1 << 14;
/// Largest message of a call, payload included: a WRITE of the largest `wsize` and its headers.
pub const MAX_CALL_BYTES: usize = (1 << 20) + wire::limits::MAX_HEADER_BYTES as usize;
/// Longest wait for the first connection.
const FIRST_CONNECT: Duration = Duration::from_secs(15);

/// A reactor for one server address. See the module's text.
#[derive(Debug)]
pub struct Engine<C: Clock = MonotonicClock> {
    clock: C,
    caller: Caller,
    core: Core,
    links: Vec<Link>,
    next_link: usize,
    epoll: rustix::fd::OwnedFd,
    waker: Waker,
    due: Vec<(Entry, Expiry)>,
    /// With `call_delay` only.
    held: Option<Box<Held>>,
    /// Whoever waits wakes then by itself; 0 while nobody waits.
    waits_until_ns: u64,
}

impl<C: Clock> Engine<C> {
    /// Connects to a program's port, `nconnect` times over TCP, and waits until that is done.
    ///
    /// # Errors
    /// [`ConnectError`] if one connection cannot be had now: at the start nobody retries.
    pub fn connect(
        address: SocketAddr,
        options: &MountOptions,
        clock: C,
    ) -> Result<Self, ConnectError> {
        if options.family == Family::V6 && address.is_ipv4() {
            return Err(ConnectError::Family { address });
        }
        let system = |what| {
            move |error: Errno| ConnectError::System {
                what,
                source: error.into(),
            }
        };
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(system("epoll"))?;
        let waker = Waker::new().map_err(system("eventfd"))?;
        let data = epoll::EventData::new_u64(WAKER);
        epoll::add(&epoll, waker.fd(), data, epoll::EventFlags::IN).map_err(system("epoll"))?;
        let held = match options.call_delays {
            none if none.is_none() => None,
            delays => {
                let held = Held::new(delays).map_err(system("timerfd"))?;
                let data = epoll::EventData::new_u64(HELD_TIMER);
                epoll::add(&epoll, &held.timer, data, epoll::EventFlags::IN)
                    .map_err(system("epoll"))?;
                Some(Box::new(held))
            }
        };
        let count = match options.transport {
            Transport::Tcp => options.connections,
            Transport::Udp => 1,
        };
        let capacity = options.max_requests as usize + MAX_PENDING;
        let first_xid = random_u32().map_err(system("getrandom"))?;
        let mut engine = Engine {
            clock,
            caller: Caller::process(),
            core: Core::new(options, capacity, first_xid),
            links: (0..count)
                .map(|_| Link::new(options.transport, address, options.reserved_port))
                .collect(),
            next_link: 0,
            epoll,
            waker,
            due: Vec::new(),
            held,
            waits_until_ns: 0,
        };
        engine
            .connect_all()
            .map_err(|error| ConnectError::Unreachable {
                address,
                source: error.into(),
            })?;
        Ok(engine)
    }

    fn connect_all(&mut self) -> Result<(), Errno> {
        let now_ns = self.clock.now_ns();
        for index in 0..self.links.len() {
            self.open_link(index, now_ns)?;
        }
        let until = Instant::now() + FIRST_CONNECT;
        for index in 0..self.links.len() {
            let Some(link) = self.links.get_mut(index) else {
                continue;
            };
            while let (LinkState::Connecting { .. }, Some(socket)) = (link.state, &link.socket) {
                let left = until.saturating_duration_since(Instant::now());
                let mut waited = [PollFd::new(socket, PollFlags::OUT)];
                match rustix::event::poll(&mut waited, Some(&timespec(left))) {
                    Ok(0) => return Err(Errno::TIMEDOUT),
                    Ok(_) => link.finish_open()?,
                    Err(Errno::INTR) => {}
                    Err(error) => return Err(error),
                }
            }
            self.core.recorder.counters.connects += 1;
            self.watch(index);
        }
        Ok(())
    }

    /// Uses another caller for requests that name none.
    pub fn set_caller(&mut self, caller: Caller) {
        self.caller = caller;
    }

    /// Records every call from now on, into a ring of at most `records`.
    pub fn record_every_call(&mut self, records: usize) -> RecordReader {
        let (ring, reader) = RecordRing::new(records);
        self.core.recorder.ring = Some(ring);
        reader
    }

    /// Keeps counters only from now on; records not yet handed over go to the reader.
    pub fn record_counters_only(&mut self) {
        self.core.recorder.ring = None;
    }

    /// Takes a [`Sample`] every `interval` from now on, in `poll`; zero stops that.
    pub fn sample_every(&mut self, interval: Duration) {
        let interval_ns = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX);
        let now_ns = self.clock.now_ns();
        self.core.recorder.samples.start(interval_ns, now_ns);
    }

    /// Moves the samples taken so far to `out`; returns how many were lost so far.
    pub fn drain_samples(&mut self, out: &mut Vec<Sample>) -> u64 {
        self.core.recorder.samples.drain(out)
    }

    /// Totals and gauges.
    pub fn counters(&self) -> &Counters {
        &self.core.recorder.counters
    }

    /// Figures by operation.
    pub fn operations(&self) -> &Operations {
        &self.core.recorder.operations
    }

    /// READs, WRITEs and COMMITs by the file's number since the last time, from the first time on.
    pub fn take_files(&mut self) -> Vec<(u64, FileCounts)> {
        let by_file = &mut self.core.recorder.by_file;
        by_file.get_or_insert_default().take()
    }

    /// `TCP_INFO` of each connection; `None` for those that are down. Empty over UDP.
    pub fn tcp_info(&self) -> Vec<Option<TcpInfo>> {
        let tcp = self.links.iter().filter(|l| l.transport == Transport::Tcp);
        tcp.map(|link| link.socket.as_ref().and_then(|s| tcp_info(s).ok()))
            .collect()
    }

    /// Wakes `poll` from another thread.
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// The engine's clock.
    pub fn clock(&self) -> &C {
        &self.clock
    }

    /// Calls submitted whose end was not handed out yet.
    pub fn in_flight(&self) -> usize {
        self.core.calls.unsent() + self.core.calls.outstanding as usize
    }

    /// Whether [`Engine::submit`] would refuse a call now.
    pub fn is_full(&self) -> bool {
        self.core.calls.unsent() >= MAX_PENDING
    }

    /// Takes a call; `token` comes back with its end. Nothing is sent before the next `poll`.
    ///
    /// # Errors
    /// [`CallError::Full`] if [`MAX_PENDING`] calls wait, [`CallError::Malformed`] if the arguments
    /// cannot be encoded or are too large: then the call was not taken.
    #[inline]
    pub fn submit(&mut self, request: Request<'_>, token: u64) -> Result<(), CallError> {
        let queue = queue_length(&self.core.calls);
        if queue as usize >= MAX_PENDING {
            self.core.recorder.counters.refused += 1;
            return Err(CallError::Full);
        }
        let now_ns = self.clock.now_ns();
        let Some((entry, call)) = self.core.calls.take() else {
            self.core.recorder.counters.refused += 1;
            return Err(CallError::Full);
        };
        let xid = call.xid;
        let payload_bytes = request.payload.as_ref().map_or(0, SharedBytes::len);
        call.padding = padding(payload_bytes);
        let place = begin_record(&mut call.message);
        let caller = request.caller.unwrap_or(&self.caller);
        let none = Encoded(&[]); // a Caller brings its verifier
        let encoded = wire::rpc::encode_call(&mut call.message, xid, request.target, caller, &none)
            .and_then(|()| request.arguments.encode(&mut call.message))
            .and_then(|()| {
                let tail = payload_bytes + call.padding;
                if call.message.len() + tail > MAX_CALL_BYTES {
                    let length = u32::try_from(call.message.len() + tail).unwrap_or(u32::MAX);
                    let limit = u32::try_from(MAX_CALL_BYTES).unwrap_or(u32::MAX);
                    let kind = wire::ErrorKind::TooLong { length, limit };
                    return Err(wire::Error::new(kind, 0, "call"));
                }
                finish_record(&mut call.message, place, tail)
            });
        if let Err(error) = encoded {
            self.core.calls.forget_xid(xid);
            self.core.calls.release(entry);
            return Err(CallError::Malformed(error));
        }
        call.token = token;
        call.target = request.target;
        call.timer_class = timers::timer_class(request.target);
        call.payload = request.payload;
        call.times = core::enqueued(now_ns);
        call.queue_at_enqueue = queue;
        let place = (entry, call.sequence);
        let held = self.held.as_mut();
        if held.is_some_and(|held| held.holds(place, request.target, now_ns)) {
            self.core.calls.held += 1;
        } else {
            self.core.calls.pending.push_back(entry);
        }
        let counters = &mut self.core.recorder.counters;
        counters.enqueued += 1;
        counters.queue = queue + 1;
        counters.queue_max = counters.queue_max.max(queue + 1);
        Ok(())
    }

    /// Ends all calls with [`CallError::Closed`].
    pub fn close(&mut self, sink: &mut impl FnMut(Completion<'_>)) {
        let now_ns = self.clock.now_ns();
        for link in &mut self.links {
            link.close(&mut self.core.calls, now_ns);
        }
        self.core.calls.pending.clear();
        self.core.calls.held = 0;
        if let Some(held) = &mut self.held {
            held.clear();
        }
        self.core.recorder.counters.queue = 0;
        let entries: Vec<Entry> = self.core.calls.entries().map(|(entry, _)| entry).collect();
        for entry in entries {
            let end = End::failure(CallError::Closed);
            self.core.complete(entry, end, None, now_ns, sink);
        }
        if let Some(ring) = &mut self.core.recorder.ring {
            ring.hand_over();
        }
    }
}

fn random_u32() -> Result<u32, Errno> {
    let mut bytes = [0; 4];
    getrandom(&mut bytes, GetRandomFlags::empty())?;
    Ok(u32::from_ne_bytes(bytes))
}

fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(duration.subsec_nanos()),
    }
}

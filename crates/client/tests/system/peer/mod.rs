//! A scripted server: it takes calls apart with `wire`, and says only what a test makes it say.
//!
//! Nothing happens by itself and nothing waits: a test pumps the engine and the peer in turns, in
//! one thread, with a clock that it moves. `Peer::close`, `Peer::send_raw` and not answering are
//! all the faults there are.

#![allow(dead_code)] // Each test binary uses its own part.

pub mod memory;

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use client::engine::Encoded;
use client::record::Counters;
use client::{CallError, Engine, MountOptions, Request};
use measure::{Clock, ManualClock};
use wire::record::RecordDecoder;
use wire::rpc::{Call, OpaqueAuth, ReplyStatus, encode_reply};

pub const NFS: u32 = wire::programs::NFS;

/// A clock that a test moves.
#[derive(Clone, Debug)]
pub struct TestClock(pub Arc<ManualClock>);

impl TestClock {
    pub fn new() -> Self {
        TestClock(Arc::new(ManualClock::new(1_000_000_000)))
    }

    pub fn advance(&self, milliseconds: u64) {
        self.0.advance(milliseconds * 1_000_000);
    }
}

impl Clock for TestClock {
    fn now_ns(&self) -> u64 {
        self.0.now_ns()
    }
}

/// A call as it arrived.
#[derive(Clone, Debug)]
pub struct Arrived {
    pub connection: usize,
    pub peer: Option<SocketAddr>,
    pub xid: u32,
    pub target: [u32; 3],
    pub ids: Option<(u32, u32)>,
    pub arguments: Vec<u8>,
}

struct Connection {
    stream: TcpStream,
    decoder: RecordDecoder,
}

enum Socket {
    Tcp(TcpListener),
    Udp(UdpSocket),
}

pub struct Peer {
    socket: Option<Socket>,
    pub address: SocketAddr,
    connections: Vec<Option<Connection>>,
    /// Whether whatever is accepted is read at all.
    pub reads: bool,
}

impl Peer {
    pub fn tcp(address: &str) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        Self::around(Socket::Tcp(listener), address)
    }

    pub fn udp(address: &str) -> Self {
        let socket = UdpSocket::bind(address).unwrap();
        socket.set_nonblocking(true).unwrap();
        let address = socket.local_addr().unwrap();
        Self::around(Socket::Udp(socket), address)
    }

    fn around(socket: Socket, address: SocketAddr) -> Self {
        Peer {
            socket: Some(socket),
            address,
            connections: Vec::new(),
            reads: true,
        }
    }

    /// Stops listening and closes everything.
    pub fn stop(&mut self) {
        self.socket = None;
        self.connections.iter_mut().for_each(|c| *c = None);
    }

    /// Listens again on the same port.
    pub fn start(&mut self) {
        let listener = TcpListener::bind(self.address).unwrap();
        listener.set_nonblocking(true).unwrap();
        self.socket = Some(Socket::Tcp(listener));
    }

    pub fn close(&mut self, connection: usize) {
        self.connections[connection] = None;
    }

    pub fn open_connections(&self) -> Vec<usize> {
        let open = |(index, c): (usize, &Option<Connection>)| c.as_ref().map(|_| index);
        self.connections
            .iter()
            .enumerate()
            .filter_map(open)
            .collect()
    }

    /// Waits until there is something (or a test may have changed something).
    pub fn wait(&self) {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let mut fds = Vec::new();
        if let Some(Socket::Tcp(listener)) = &self.socket {
            fds.push(PollFd::new(listener, PollFlags::IN));
        }
        for connection in self.connections.iter().flatten() {
            fds.push(PollFd::new(&connection.stream, PollFlags::IN));
        }
        let timeout = Timespec {
            tv_sec: 0,
            tv_nsec: 2_000_000,
        };
        let _ = poll(&mut fds, Some(&timeout));
    }

    /// Takes what is there.
    pub fn pump(&mut self) -> Vec<Arrived> {
        let mut arrived = Vec::new();
        match &self.socket {
            Some(Socket::Tcp(listener)) => {
                while let Ok((stream, _)) = listener.accept() {
                    stream.set_nonblocking(true).unwrap();
                    stream.set_nodelay(true).unwrap();
                    let decoder = RecordDecoder::new(u32::MAX);
                    self.connections.push(Some(Connection { stream, decoder }));
                }
            }
            Some(Socket::Udp(socket)) => {
                let mut buffer = vec![0; 65_536];
                while let Ok((bytes, peer)) = socket.recv_from(&mut buffer) {
                    arrived.push(arrival(&buffer[..bytes], 0, Some(peer)));
                }
            }
            None => {}
        }
        if self.reads {
            for index in 0..self.connections.len() {
                self.read(index, &mut arrived);
            }
        }
        arrived
    }

    fn read(&mut self, index: usize, arrived: &mut Vec<Arrived>) {
        let mut buffer = vec![0; 1 << 16];
        while let Some(connection) = &mut self.connections[index] {
            match connection.stream.read(&mut buffer) {
                Ok(0) => self.connections[index] = None,
                Ok(bytes) => {
                    let mut rest = &buffer[..bytes];
                    while !rest.is_empty() {
                        let fed = connection.decoder.feed(rest).unwrap();
                        if let Some(record) = fed.record {
                            arrived.push(arrival(record, index, None));
                        }
                        rest = &rest[fed.consumed..];
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => self.connections[index] = None,
            }
        }
    }

    /// The first bytes that wait on a connection; they stay there.
    pub fn peek(&mut self, connection: usize, bytes: usize) -> Vec<u8> {
        let mut buffer = vec![0; bytes];
        let stream = &self.connections[connection].as_ref().unwrap().stream;
        let there = stream.peek(&mut buffer).unwrap();
        assert_eq!(there, bytes);
        buffer
    }

    /// A message on the call's way back: record mark over TCP, datagram over UDP.
    pub fn send(&mut self, to: &Arrived, message: &[u8]) {
        match &self.socket {
            Some(Socket::Udp(socket)) => {
                socket.send_to(message, to.peer.unwrap()).unwrap();
            }
            _ => self.send_raw(to.connection, &framed(message)),
        }
    }

    /// Bytes as they are; a closed connection takes none.
    pub fn send_raw(&mut self, connection: usize, mut bytes: &[u8]) {
        while let (Some(to), false) = (&mut self.connections[connection], bytes.is_empty()) {
            match to.stream.write(bytes) {
                Ok(written) => bytes = &bytes[written..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::yield_now(),
                Err(_) => return,
            }
        }
    }

    /// SUCCESS with these results.
    pub fn reply(&mut self, to: &Arrived, results: &[u8]) {
        self.send(to, &success(to.xid, results));
    }
}

pub fn framed(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap();
    let mark = wire::record::RecordMark { length, last: true };
    [mark.to_bytes().as_slice(), message].concat()
}

pub fn success(xid: u32, results: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    encode_reply(&mut out, xid, &OpaqueAuth::NONE, ReplyStatus::Success).unwrap();
    out.extend_from_slice(results);
    out
}

fn arrival(message: &[u8], connection: usize, peer: Option<SocketAddr>) -> Arrived {
    let call = Call::parse(message).unwrap();
    Arrived {
        connection,
        peer,
        xid: call.xid,
        target: [call.program, call.version, call.procedure],
        ids: call.credential.as_ref().and_then(|c| c.ids()),
        arguments: call.body.unwrap().to_vec(),
    }
}

/// What became of a call, copied out of the sink.
#[derive(Clone, Debug, PartialEq)]
pub struct Ended {
    pub token: u64,
    pub xid: u32,
    pub result: Result<Vec<u8>, CallError>,
    pub sends: u32,
}

/// An engine, its clock, and the ends of calls so far.
pub struct Bench {
    pub engine: Engine<TestClock>,
    pub clock: TestClock,
    pub ended: Vec<Ended>,
}

impl Bench {
    pub fn new(peer: &Peer, options: &str) -> Self {
        let clock = TestClock::new();
        let options = MountOptions::parse(options).unwrap();
        let engine = Engine::connect(peer.address, &options, clock.clone()).unwrap();
        Bench {
            engine,
            clock,
            ended: Vec::new(),
        }
    }

    /// A call whose arguments are its token.
    pub fn submit(&mut self, token: u64) {
        self.submit_to([NFS, 3, 1], token);
    }

    pub fn submit_to(&mut self, target: [u32; 3], token: u64) {
        let request = Request {
            target,
            caller: None,
            arguments: &Encoded(&token.to_be_bytes()),
            payload: None,
        };
        self.engine.submit(request, token).unwrap();
    }

    /// One turn of the engine, without waiting longer than 1 ms.
    pub fn turn(&mut self) {
        let ended = &mut self.ended;
        let mut sink = |end: client::Completion<'_>| {
            ended.push(Ended {
                token: end.token,
                xid: end.xid,
                result: end.result.map(|reply| reply.body.to_vec()),
                sends: end.sends,
            });
        };
        self.engine
            .poll(Some(Duration::from_millis(1)), &mut sink)
            .unwrap();
    }

    /// Turns until `count` calls arrived at the peer.
    pub fn until_arrived(&mut self, peer: &mut Peer, count: usize) -> Vec<Arrived> {
        let mut arrived = Vec::new();
        for _ in 0..5_000 {
            self.turn();
            arrived.extend(peer.pump());
            if arrived.len() >= count {
                return arrived;
            }
        }
        panic!("{} of {count} calls arrived", arrived.len());
    }

    /// Turns until `count` calls ended in all.
    pub fn until_ended(&mut self, count: usize) {
        for _ in 0..5_000 {
            if self.ended.len() >= count {
                return;
            }
            self.turn();
        }
        panic!(
            "{} of {count} calls ended: {:?}",
            self.ended.len(),
            self.engine.counters()
        );
    }

    /// Turns until the counters say so: what was sent may arrive late, even on the loopback, where
    /// the kernel leaves it to a thread.
    pub fn until_counted(&mut self, so: impl Fn(&Counters) -> bool) {
        for _ in 0..5_000 {
            if so(self.engine.counters()) {
                return;
            }
            self.turn();
        }
        panic!("it was never so: {:?}", self.engine.counters());
    }

    /// A few turns in which nothing is expected to happen.
    pub fn settle(&mut self, peer: &mut Peer) -> Vec<Arrived> {
        let mut arrived = Vec::new();
        for _ in 0..5 {
            self.turn();
            arrived.extend(peer.pump());
        }
        arrived
    }
}

//! The loop turn by turn, with clients of this very thread and a clock that stands: what happens in
//! which turn is certain.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

use rustix::event::{EventfdFlags, eventfd};
use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_send_buffer_size};
use wire::Encode;
use wire::mount::dirpath;
use wire::nfs3::*;
use wire::rpc::{AuthSysParms, OpaqueAuth, encode_call};

use super::super::memory::{CALL_BYTES_MAX, MIN_MEMORY_BYTES};
use super::streams::TurnOfEach;
use super::*;
use crate::protocol::{Export, ExportOptions};
use crate::store::memory::MemoryStore;
use crate::store::{READ_BYTES_MAX, Store};
use crate::{Caller, HandleKey};

const NFS3: [u32; 2] = [wire::programs::NFS, 3];
const MOUNT3: [u32; 2] = [wire::programs::MOUNT, 3];
/// The time of all turns.
const NOW_NS: u64 = 1 << 50;
/// More turns than anything here may take.
const MANY_TURNS: usize = 10_000;

fn call(xid: u32, [program, version]: [u32; 2], number: u32, arguments: &impl Encode) -> Vec<u8> {
    let mut message = vec![0; 4];
    let credential = AuthSysParms {
        stamp: 1,
        machine_name: b"test",
        uid: 0,
        gid: 0,
        gids: &[],
    };
    let target = [program, version, number];
    encode_call(&mut message, xid, target, &credential, &OpaqueAuth::NONE).unwrap();
    arguments.encode(&mut message).unwrap();
    let mark = 0x8000_0000 | (message.len() as u32 - 4);
    message[..4].copy_from_slice(&mark.to_be_bytes());
    message
}

/// A server of one file of 1 MiB, that takes its turns when it is told to.
struct Turns {
    inner: Loop,
    address: SocketAddr,
    file: Vec<u8>,
    events: Vec<epoll::Event>,
}

impl Turns {
    fn new() -> Self {
        let owner = Caller::with_ids("127.0.0.1:700".parse().unwrap(), 0, 0);
        let store = MemoryStore::new(64 << 20, 5, &owner);
        let how = createhow3::UNCHECKED(sattr3::UNCHANGED);
        let made = store
            .create(&owner, (&store.root(), b"file"), &how)
            .unwrap();
        let file = made.0.handle;
        let data = vec![7; READ_BYTES_MAX as usize];
        let stable = stable_how::UNSTABLE;
        store.write(&owner, &file, 0, &data, stable).unwrap();
        let key = HandleKey::new(&[3; 16]);
        let export = Export::new("/export", Arc::new(store), ExportOptions::default());
        let service = Arc::new(Service::new(vec![export], key));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let sockets = Sockets {
            tcp: vec![listener],
            udp: Vec::new(),
        };
        let options = ServerOptions {
            client_memory_bytes: MIN_MEMORY_BYTES,
            ..ServerOptions::default()
        };
        let wake = Arc::new(eventfd(0, EventfdFlags::NONBLOCK).unwrap());
        let counters = Arc::new(Counters::default());
        let inner = Loop::new(service, options, sockets, None, wake, counters).unwrap();
        let mut turns = Turns {
            inner,
            address,
            file: Vec::new(),
            events: Vec::with_capacity(EVENTS),
        };
        let mut client = turns.client();
        client
            .write_all(&call(1, MOUNT3, 1, &dirpath(b"/export")))
            .unwrap();
        let reply = turns.reply(&mut client, MANY_TURNS).unwrap();
        let root = &reply[32..32 + reply[31] as usize];
        let what = diropargs3 {
            dir: nfs_fh3(root),
            name: filename3(b"file"),
        };
        client
            .write_all(&call(2, NFS3, 3, &LOOKUP3args { what }))
            .unwrap();
        let reply = turns.reply(&mut client, MANY_TURNS).unwrap();
        turns.file = reply[32..32 + reply[31] as usize].to_vec();
        turns
    }

    fn turn(&mut self) {
        let at_once = rustix::event::Timespec::default();
        self.inner.wait(&mut self.events, Some(&at_once)).unwrap();
        self.inner.now_ns = NOW_NS;
        self.inner.turn(&self.events);
    }

    fn client(&mut self) -> TcpStream {
        let client = TcpStream::connect(self.address).unwrap();
        client.set_nonblocking(true).unwrap();
        self.turn();
        client
    }

    fn getattr(&self) -> Vec<u8> {
        let object = nfs_fh3(&self.file);
        call(7, NFS3, 1, &GETATTR3args { object })
    }

    fn read(&self, count: u32) -> Vec<u8> {
        let file = nfs_fh3(&self.file);
        call(
            8,
            NFS3,
            6,
            &READ3args {
                file,
                offset: 0,
                count,
            },
        )
    }

    /// The next reply to a client, if it comes within so many turns.
    fn reply(&mut self, client: &mut TcpStream, turns: usize) -> Option<Vec<u8>> {
        let mut got = Vec::new();
        let mut piece = vec![0; 1 << 20];
        for _ in 0..turns {
            self.turn();
            match client.read(&mut piece) {
                Ok(0) => return None,
                Ok(bytes) => got.extend_from_slice(&piece[..bytes]),
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
            if let Some(mark) = got.first_chunk() {
                let length = (u32::from_be_bytes(*mark) & 0x7fff_ffff) as usize;
                if got.len() >= length + 4 {
                    assert_eq!(got.len(), length + 4, "one reply");
                    return Some(got.split_off(4));
                }
            }
        }
        None
    }

    /// Whether a large reply begins to come with the next turn; the rest of it comes.
    fn large_reply(&mut self, client: &mut TcpStream) -> bool {
        self.turn();
        client.read(&mut [0; 4]).is_ok_and(|bytes| bytes > 0) && {
            let mut piece = vec![0; 1 << 20];
            let mut got = 4;
            while got < READ_BYTES_MAX as usize {
                self.turn();
                got += client.read(&mut piece).unwrap_or(0);
            }
            true
        }
    }

    /// Turns until nothing more happens.
    fn settle(&mut self) {
        for _ in 0..MANY_TURNS {
            let before = self.state();
            self.turn();
            if before == self.state() && self.inner.ready.is_empty() {
                return;
            }
        }
        panic!("no end of turns");
    }

    fn state(&self) -> (u64, usize) {
        let sent = self.open().map(|open| open.outgoing.stream_sent).sum();
        (sent, self.inner.memory.held())
    }

    fn open(&self) -> impl Iterator<Item = &Connection> {
        self.inner.connections.iter().flatten()
    }

    /// Clients that ask for much and take nothing.
    fn greedy(&mut self, clients: usize, calls: usize) -> Vec<TcpStream> {
        let asked = self.read(READ_BYTES_MAX).repeat(calls);
        let open = |turns: &mut Self| {
            let mut client = turns.client();
            // The kernels' buffers hold as little as they can.
            let ours = turns.open().max_by_key(|open| open.serial).unwrap();
            set_socket_send_buffer_size(&ours.stream, 4096).unwrap();
            set_socket_recv_buffer_size(&client, 4096).unwrap();
            client.write_all(&asked).unwrap();
            client
        };
        let all = (0..clients).map(|_| open(self)).collect();
        self.settle();
        all
    }

    /// As if so much time had gone by, for the connection at `index`.
    fn age(&mut self, index: usize, seconds: u64) {
        let connection = self.inner.connections[index].as_mut().unwrap();
        connection.still_ns = connection.still_ns.saturating_sub(seconds * 1_000_000_000);
    }

    fn count(&self, name: &str) -> u64 {
        let named = self.inner.counters.read().named();
        named.iter().find(|(known, _)| *known == name).unwrap().1
    }
}

#[test]
fn a_flood_of_calls_has_its_turn_and_no_more() {
    let mut turns = Turns::new();
    let mut flood = turns.client();
    let mut good = turns.client();
    let many = turns.getattr().repeat(1500);
    flood.write_all(&many).unwrap();
    good.write_all(&turns.getattr()).unwrap();
    let before = turns.count("calls");
    let reply = turns.reply(&mut good, 1);
    assert!(reply.is_some(), "answered in the very turn");
    let others = turns.count("calls") - before - 1;
    assert!(
        others <= TurnOfEach::of(2).calls as u64,
        "{others} calls of the other in it"
    );
    // The flood goes on without an event: turn by turn, to its end.
    turns.settle();
    assert_eq!(turns.count("calls") - before, 1501);
}

#[test]
fn a_turn_is_no_longer_for_many_floods() {
    let mut turns = Turns::new();
    let many = turns.getattr().repeat(300);
    let mut floods: Vec<TcpStream> = (0..200).map(|_| turns.client()).collect();
    let mut good = turns.client();
    for flood in &mut floods {
        flood.write_all(&many).unwrap();
    }
    good.write_all(&turns.getattr()).unwrap();
    for _ in 0..5 {
        let before = turns.count("calls");
        assert!(turns.reply(&mut good, 1).is_some());
        let others = turns.count("calls") - before - 1;
        assert!(
            (200..=TurnOfEach::OF_ALL.calls as u64).contains(&others),
            "{others}"
        );
        good.write_all(&turns.getattr()).unwrap();
    }
}

#[test]
fn what_a_reader_gets_in_one_turn_is_bounded() {
    let mut turns = Turns::new();
    let mut greedy = turns.client();
    let asked = turns.read(READ_BYTES_MAX).repeat(30);
    greedy.write_all(&asked).unwrap();
    // It takes all that comes, as fast as it comes.
    let mut piece = vec![0; 8 << 20];
    let (mut got, mut most) = (0, 0);
    let whole = 30 * (READ_BYTES_MAX as usize + 132);
    for _ in 0..MANY_TURNS {
        turns.turn();
        let mut this_turn = 0;
        while let Ok(bytes) = greedy.read(&mut piece) {
            assert!(bytes > 0);
            this_turn += bytes;
        }
        most = most.max(this_turn);
        got += this_turn;
        if got == whole {
            break;
        }
    }
    assert_eq!(got, whole);
    assert!(most <= 3 << 20, "{most} bytes in one turn");
}

#[test]
fn one_that_takes_nothing_holds_little() {
    let mut turns = Turns::new();
    let held = turns.greedy(1, 100);
    // Two windows of replies at most, of which one may be on its way into the socket.
    assert!(
        turns.inner.memory.held() <= 5 << 20,
        "{}",
        turns.inner.memory.held()
    );
    assert!(turns.count("back_pressure") > 0);
    drop(held);
    turns.settle();
    assert_eq!(turns.inner.memory.held(), 0);
}

#[test]
fn the_sum_is_bounded_and_small_calls_never_wait() {
    let mut turns = Turns::new();
    let mut good = turns.client();
    let greedy = turns.greedy(40, 30);
    assert!(!turns.inner.line.is_empty(), "all that there is is held");
    assert!(turns.inner.memory.peak() <= MIN_MEMORY_BYTES);
    let booked: usize = turns.open().map(|open| open.booked).sum();
    assert_eq!(booked, turns.inner.memory.held());
    let held: usize = turns.open().map(Connection::held_bytes).sum();
    assert_eq!(held, booked);
    for _ in 0..100 {
        good.write_all(&turns.getattr()).unwrap();
        assert!(turns.reply(&mut good, 1).is_some());
        good.write_all(&turns.read(32 << 10)).unwrap();
        assert!(turns.reply(&mut good, 1).is_some());
    }
    assert_eq!(turns.count("stalled_connections"), 0);
    drop(greedy);
    turns.settle();
    assert_eq!((turns.inner.memory.held(), turns.inner.line.len()), (0, 0));
}

#[test]
fn for_a_large_call_the_one_that_costs_most_is_closed() {
    let mut turns = Turns::new();
    let mut good = turns.client();
    // One that has taken a reply is served before those that never did.
    good.write_all(&turns.getattr()).unwrap();
    assert!(turns.reply(&mut good, 1).is_some());
    let greedy = turns.greedy(40, 30);
    good.write_all(&turns.read(READ_BYTES_MAX)).unwrap();
    let reply = turns.reply(&mut good, 50);
    assert!(reply.is_none(), "nobody has been still for long");
    assert_eq!(turns.count("stalled_connections"), 0);
    assert!(turns.inner.line.len() > 10, "others came before");
    let all = turns.inner.connections.iter().enumerate();
    let holds = |slot: &Option<Connection>| slot.as_ref().is_some_and(|o| o.booked > 1 << 19);
    let holders: Vec<usize> = all
        .filter(|(_, slot)| holds(slot))
        .map(|(i, _)| i)
        .collect();
    let worst = holders[holders.len() / 2];
    for index in &holders {
        turns.age(*index, if *index == worst { 1000 } else { 100 });
    }
    let serial = turns.inner.connections[worst].as_ref().unwrap().serial;
    assert!(turns.large_reply(&mut good));
    assert!(turns.open().all(|open| open.serial != serial), "the worst");
    assert!(turns.count("stalled_connections") >= 1);
    assert!(turns.inner.memory.peak() <= MIN_MEMORY_BYTES);
    drop(greedy);
    turns.settle();
    assert_eq!(turns.inner.memory.held(), 0);
}

#[test]
fn half_records_are_on_the_books_too() {
    let mut turns = Turns::new();
    let mut good = turns.client();
    // Half of a WRITE of 1 MiB from each: 20 MiB, where 12 are shared.
    let half = [&[0x80, 0x10, 0, 0][..], &[0; 512 << 10]].concat();
    let mut silent = Vec::new();
    for _ in 0..40 {
        let mut client = turns.client();
        let mut sent = 0;
        for _ in 0..100 {
            sent += client.write(&half[sent..]).unwrap_or(0);
            turns.turn();
        }
        silent.push(client);
    }
    turns.settle();
    assert!(
        turns.inner.memory.held() > 10 << 20,
        "{}",
        turns.inner.memory.held()
    );
    assert!(turns.inner.memory.peak() <= MIN_MEMORY_BYTES);
    good.write_all(&turns.getattr()).unwrap();
    assert!(turns.reply(&mut good, 1).is_some());
    let holders: Vec<usize> = (0..turns.inner.connections.len()).collect();
    for index in holders {
        if turns.inner.connections[index].is_some() {
            turns.age(index, 2);
        }
    }
    good.write_all(&turns.read(READ_BYTES_MAX)).unwrap();
    assert!(turns.large_reply(&mut good));
    assert!(turns.count("stalled_connections") > 0);
}

#[test]
fn no_reply_holds_more_than_was_kept_free_for_it() {
    use crate::net::outgoing::Outgoing;
    let turns = Turns::new();
    let peer = "127.0.0.1:700".parse().unwrap();
    let file = nfs_fh3(&turns.file);
    let mut calls = vec![turns.getattr(), call(1, MOUNT3, 5, &())];
    for (offset, count) in [
        (0, 1),
        (4095, 2),
        (4095, READ_BYTES_MAX),
        (0, u32::MAX),
        (3, 5000),
    ] {
        calls.push(call(
            3,
            NFS3,
            6,
            &READ3args {
                file,
                offset,
                count,
            },
        ));
    }
    // As many mounts as are remembered, of the longest paths.
    for number in 0..1024 {
        let path = format!("/export/{number:01000}");
        calls.push(call(4, MOUNT3, 1, &dirpath(path.as_bytes())));
    }
    calls.push(call(5, MOUNT3, 2, &()));
    for message in calls {
        let Received::Call(call) = receive(&message[4..]) else {
            panic!("no call")
        };
        let mut outgoing = Outgoing::default();
        let mut payload = Payload::new();
        outgoing.record(&mut payload, |head, payload| {
            turns.inner.service.answer(peer, &call, head, payload)
        });
        let most = reply_bytes_most(&call);
        assert!(
            outgoing.held_bytes() <= most,
            "{} {most}",
            outgoing.held_bytes()
        );
        assert!(message.len() + most <= CALL_BYTES_MAX);
    }
}

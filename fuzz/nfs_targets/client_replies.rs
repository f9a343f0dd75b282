//! The client's engine against a hostile server: whatever comes over TCP (in pieces) or UDP, no
//! call ends twice, nothing is kept that was not asked for, and the engine can be closed, which
//! ends every call. Results are decoded as every procedure, too.
#![no_main]

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use bounded::fuzz_target;
use client::nfs3::*;
use client::{Engine, MountOptions, Reply};
use measure::ManualClock;
use wire::nfs3::{GETATTR3args, nfs_fh3};

const CALLS: u64 = 3;
const MAX_PIECES: usize = 16;

thread_local! {
    static TCP: TcpListener = TcpListener::bind("127.0.0.1:0").unwrap();
    static UDP: UdpSocket = UdpSocket::bind("127.0.0.1:0").unwrap();
}

/// Where a call's transaction id is put into the bytes: so that some are replies to it.
fn addressed(bytes: &[u8], xid: [u8; 4], framed: bool) -> Vec<u8> {
    let mut out = bytes.to_vec();
    let place = if framed { 4 } else { 0 };
    if let Some(room) = out.get_mut(place..place + 4) {
        room.copy_from_slice(&xid);
    }
    out
}

fn pieces(data: &[u8]) -> Vec<&[u8]> {
    let mut found = Vec::new();
    let mut rest = data;
    while let Some((&length, behind)) = rest.split_first() {
        let (piece, behind) = behind.split_at(behind.len().min(usize::from(length)));
        found.push(piece);
        rest = behind;
        if found.len() == MAX_PIECES {
            break;
        }
    }
    found
}

fn engine(address: SocketAddr, options: &str) -> Engine<ManualClock> {
    let options = MountOptions::parse(options).unwrap();
    Engine::connect(address, &options, ManualClock::new(1_000_000_000)).unwrap()
}

struct Ends([u32; CALLS as usize]);

impl Ends {
    fn turn(&mut self, engine: &mut Engine<ManualClock>) {
        let ends = &mut self.0;
        let mut sink = |end: client::Completion<'_>| ends[end.token as usize] += 1;
        engine.poll(Some(Duration::ZERO), &mut sink).unwrap();
    }
}

fn submit(engine: &mut Engine<ManualClock>) {
    for token in 0..CALLS {
        let arguments = GETATTR3args {
            object: nfs_fh3(&[1; 32]),
        };
        engine.submit_typed::<GetAttr>(&arguments, token).unwrap();
    }
}

fn finish(mut engine: Engine<ManualClock>, mut ends: Ends) {
    let counted = &mut ends.0;
    engine.close(&mut |end| counted[end.token as usize] += 1);
    assert_eq!(ends.0, [1; CALLS as usize]);
    let counters = engine.counters();
    assert_eq!(counters.enqueued, counters.answered + counters.failed);
}

fn stream(listener: &TcpListener, data: &[u8]) {
    let mut engine = engine(listener.local_addr().unwrap(), "soft,timeo=600");
    let (mut peer, _): (TcpStream, _) = listener.accept().unwrap();
    submit(&mut engine);
    let mut ends = Ends([0; CALLS as usize]);
    ends.turn(&mut engine);
    let mut call = [0; 8];
    peer.read_exact(&mut call).unwrap();
    let xid = [call[4], call[5], call[6], call[7]];
    for piece in pieces(data) {
        // A client that gave the connection up takes nothing more.
        if peer.write_all(&addressed(piece, xid, true)).is_err() {
            break;
        }
        ends.turn(&mut engine);
    }
    drop(peer);
    ends.turn(&mut engine);
    finish(engine, ends);
    // The engine may have connected again.
    listener.set_nonblocking(true).unwrap();
    while listener.accept().is_ok() {}
    listener.set_nonblocking(false).unwrap();
}

fn datagrams(socket: &UdpSocket, data: &[u8]) {
    let mut engine = engine(socket.local_addr().unwrap(), "udp,soft,timeo=600");
    submit(&mut engine);
    let mut ends = Ends([0; CALLS as usize]);
    ends.turn(&mut engine);
    let mut call = [0; 2048];
    let (_, peer) = socket.recv_from(&mut call).unwrap();
    let xid = [call[0], call[1], call[2], call[3]];
    for piece in pieces(data) {
        socket.send_to(&addressed(piece, xid, false), peer).unwrap();
        ends.turn(&mut engine);
    }
    finish(engine, ends);
    socket.set_nonblocking(true).unwrap();
    while socket.recv_from(&mut call).is_ok() {}
    socket.set_nonblocking(false).unwrap();
}

fn results<P: Procedure>(body: &[u8]) {
    let _ = Reply { body, sends: 1 }.decode::<P::Results<'_>>();
}

fuzz_target!(|data: &[u8]| {
    results::<GetAttr>(data);
    results::<Lookup>(data);
    results::<Access>(data);
    results::<ReadLink>(data);
    results::<Read>(data);
    results::<Write>(data);
    results::<Create>(data);
    results::<Rename>(data);
    results::<Link>(data);
    results::<ReadDir>(data);
    results::<ReadDirPlus>(data);
    results::<FsStat>(data);
    results::<FsInfo>(data);
    results::<PathConf>(data);
    results::<Commit>(data);
    results::<Mnt>(data);
    results::<Dump>(data);
    results::<ListExports>(data);
    results::<GetAddr>(data);
    match data.split_first() {
        Some((kind, rest)) if kind & 1 == 0 => TCP.with(|listener| stream(listener, rest)),
        Some((_, rest)) => UDP.with(|socket| datagrams(socket, rest)),
        None => {}
    }
});

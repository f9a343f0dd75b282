//! The load of the benchmarks: a sliding window of one kind of call on one connection.

use std::error::Error;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::ops::Range;
use std::time::Instant;

use wire::Encode;
use wire::nfs3::{GETATTR3args, READ3args, nfs_fh3};
use wire::rpc::{AuthSysParms, OpaqueAuth, encode_call};

pub type Outcome<T> = Result<T, Box<dyn Error>>;

/// Rounds, of which the median is shown.
pub const ROUNDS: usize = 7;
/// Calls of a round at depth 64, unless an argument says otherwise; a tenth at depth 1.
pub const CALLS: usize = 200_000;
/// Bytes of a READ.
const BLOCK: u32 = 4096;
/// Where the id of a call is, behind the record mark.
const XID: Range<usize> = 4..8;

/// The same call again and again, each time with an id of its own: servers that know one again
/// may leave it without an answer.
struct Calls<'a> {
    call: &'a [u8],
    window: Vec<u8>,
    xid: u32,
}

impl Calls<'_> {
    /// Bytes of so many more calls.
    fn next(&mut self, count: usize) -> &[u8] {
        let bytes = &mut self.window[..count * self.call.len()];
        for call in bytes.chunks_exact_mut(self.call.len()) {
            self.xid = self.xid.wrapping_add(1);
            call[XID].copy_from_slice(&self.xid.to_be_bytes());
        }
        bytes
    }
}

/// Runs `count` calls, `depth` outstanding; every reply has `reply_bytes` with mark.
fn drive(
    stream: &mut TcpStream,
    (call, reply_bytes): (&[u8], usize),
    (depth, count): (usize, usize),
) -> Outcome<()> {
    let mut calls = Calls {
        call,
        window: call.repeat(depth),
        xid: measure::clock::realtime_ns() as u32,
    };
    let mut buffer = vec![0; 1 << 20];
    let (mut sent, mut replied, mut partial) = (depth.min(count), 0, 0);
    stream.write_all(calls.next(sent))?;
    while replied < count {
        let taken = stream.read(&mut buffer)?;
        assert!(taken > 0, "the server closed the connection");
        partial += taken;
        let whole = partial / reply_bytes;
        partial %= reply_bytes;
        replied += whole;
        let more = whole.min(count - sent);
        stream.write_all(calls.next(more))?;
        sent += more;
    }
    Ok(())
}

/// A call as it goes over TCP.
fn call_bytes(procedure: u32, args: &impl Encode) -> Outcome<Vec<u8>> {
    let credential = AuthSysParms {
        stamp: 1,
        machine_name: b"bench",
        uid: 0,
        gid: 0,
        gids: &[],
    };
    let mut call = vec![0; 4];
    let none = OpaqueAuth::NONE;
    encode_call(&mut call, 1, [100_003, 3, procedure], &credential, &none)?;
    args.encode(&mut call)?;
    let mark = 0x8000_0000 | (call.len() as u32 - 4);
    call[..4].copy_from_slice(&mark.to_be_bytes());
    Ok(call)
}

/// GETATTR and READ of a file, by name, as they go over TCP.
pub fn operations(file: &[u8]) -> Outcome<[(&'static str, Vec<u8>); 2]> {
    let object = nfs_fh3(file);
    let read = READ3args {
        file: object,
        offset: 8192,
        count: BLOCK,
    };
    Ok([
        ("GETATTR", call_bytes(1, &GETATTR3args { object })?),
        ("READ_4K", call_bytes(6, &read)?),
    ])
}

/// (CPU ns per operation of the other side, wall ns per operation).
pub fn measured(
    address: SocketAddr,
    cpu: impl Fn() -> Option<u64>,
    (call, reply_bytes): (&[u8], usize),
    (depth, count): (usize, usize),
) -> Outcome<(f64, f64)> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    drive(&mut stream, (call, reply_bytes), (depth, count / 10))?;
    let gone = "the server's loop has ended";
    let (before, start) = (cpu().ok_or(gone)?, Instant::now());
    drive(&mut stream, (call, reply_bytes), (depth, count))?;
    let wall = start.elapsed().as_nanos() as f64;
    let used = cpu().ok_or(gone)? - before;
    Ok((used as f64 / count as f64, wall / count as f64))
}

/// Medians of both.
pub fn median(mut values: Vec<(f64, f64)>) -> (f64, f64) {
    let mut pick = |key: fn(&(f64, f64)) -> f64| {
        values.sort_by(|a, b| key(a).total_cmp(&key(b)));
        key(&values[values.len() / 2])
    };
    (pick(|v| v.0), pick(|v| v.1))
}

//! Connections that begin and do not go on, ask and do not take, come and say nothing.

use std::io::{ErrorKind, Write};
use std::net::TcpStream;

use server::net::MAX_CONNECTIONS;
use wire::nfs3::*;

use super::good::{Client, record};
use super::target::At;
use crate::calls::{NFS3, call};

/// Bytes of a WRITE that never ends.
const HALF: usize = 512 << 10;

/// Sends what the kernel takes and no more.
fn push(stream: &TcpStream, bytes: &[u8]) {
    let mut sent = 0;
    let mut out = stream;
    while sent < bytes.len() {
        match out.write(&bytes[sent..]) {
            Ok(more) => sent += more,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return,
            // Closed by the server: that is its right.
            Err(_) => return,
        }
    }
}

fn open(at: &At) -> TcpStream {
    let stream = TcpStream::connect(at.address).unwrap();
    stream.set_nonblocking(true).unwrap();
    stream
}

/// Waits until a client that has just come is served: by then what came before it was looked at.
fn looked_at(at: &At) {
    let mut last = Client::connect(at.address);
    for _ in 0..100 {
        last.null();
    }
}

/// Marks alone, some bytes, half a large WRITE.
pub fn half_records(at: &At, connections: usize) -> u64 {
    let mut half = vec![0x80, 0x10, 0, 0];
    half.resize(HALF, 0);
    let streams: Vec<TcpStream> = (0..connections)
        .map(|number| {
            let stream = open(at);
            push(&stream, &half[..[2, 4, 100, HALF][number % 4]]);
            stream
        })
        .collect();
    // What did not fit at once.
    for stream in &streams {
        push(stream, &half[..HALF / 2]);
    }
    looked_at(at);
    connections as u64
}

fn greedy(at: &At, connections: usize, asked: &[u8]) -> u64 {
    let mut streams = Vec::new();
    for _ in 0..connections {
        let stream = open(at);
        push(&stream, asked);
        streams.push(stream);
    }
    looked_at(at);
    // A good client reads much, too, beside them.
    let mut client = Client::connect(at.address);
    for _ in 0..20 {
        let (file, offset, count) = (nfs_fh3(&at.file), 0, 1 << 20);
        let reply = client.ask(
            NFS3,
            6,
            &READ3args {
                file,
                offset,
                count,
            },
        );
        assert!(reply.len() > 1 << 20);
    }
    connections as u64
}

/// READs of 1 MiB that nobody takes.
pub fn unread_reads(at: &At, connections: usize, calls: usize) -> u64 {
    let (file, offset, count) = (nfs_fh3(&at.file), 0, 1 << 20);
    let asks: Vec<u8> = (0..calls as u32)
        .flat_map(|xid| {
            record(&call(
                xid,
                NFS3,
                6,
                &READ3args {
                    file,
                    offset,
                    count,
                },
            ))
        })
        .collect();
    greedy(at, connections, &asks)
}

/// Small replies that nobody takes, as many as the kernel takes calls.
pub fn unread_small(at: &At, connections: usize) -> u64 {
    let object = nfs_fh3(&at.root);
    let asks: Vec<u8> = (0..20_000)
        .flat_map(|xid| record(&call(xid, NFS3, 1, &GETATTR3args { object })))
        .collect();
    greedy(at, connections, &asks)
}

/// More silent connections than there are places, beside an idle one that had called before.
pub fn silent(at: &At, connections: usize) -> u64 {
    let mut idle = Client::connect(at.address);
    idle.null();
    let mut streams = std::collections::VecDeque::new();
    for number in 0..connections {
        let stream = open(at);
        if number % 2 == 0 {
            push(&stream, &[0x80, 0, 0, 40, 1, 2, 3]);
        }
        streams.push_back(stream);
        // As many at a time as this process may have, twice the places at least.
        if streams.len() > 8 * MAX_CONNECTIONS {
            streams.pop_front();
        }
    }
    looked_at(at);
    idle.null();
    connections as u64
}

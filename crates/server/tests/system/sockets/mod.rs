//! A server on a socket of the loopback, and the smallest client that can ask it something.
#![allow(dead_code, clippy::unwrap_used)]

use std::io::Read;
use std::net::TcpStream;
use std::sync::Arc;

use server::net::{RunningServer, ServerOptions};
use server::protocol::Service;
use wire::nfs3::{GETATTR3args, nfs_fh3};

use crate::calls::{NFS3, call};

pub fn start(service: Arc<Service>, options: ServerOptions) -> RunningServer {
    let listen = if options.listen.is_empty() {
        vec!["127.0.0.1:0".parse().unwrap()]
    } else {
        options.listen.clone()
    };
    RunningServer::start(service, ServerOptions { listen, ..options }).unwrap()
}

pub fn connect(server: &RunningServer) -> TcpStream {
    TcpStream::connect(server.addresses()[0]).unwrap()
}

pub fn marked(message: &[u8]) -> Vec<u8> {
    let mut record = (0x8000_0000 | message.len() as u32).to_be_bytes().to_vec();
    record.extend_from_slice(message);
    record
}

pub fn next_reply(stream: &mut TcpStream) -> Vec<u8> {
    let mut mark = [0; 4];
    stream.read_exact(&mut mark).unwrap();
    let mut reply = vec![0; (u32::from_be_bytes(mark) & 0x7fff_ffff) as usize];
    stream.read_exact(&mut reply).unwrap();
    reply
}

pub fn getattr(xid: u32, handle: &[u8]) -> Vec<u8> {
    call(
        xid,
        NFS3,
        1,
        &GETATTR3args {
            object: nfs_fh3(handle),
        },
    )
}

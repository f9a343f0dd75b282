//! Messages written word by word (RFC 5531, 1813, 8881), and what becomes of them.

#![allow(clippy::unwrap_used)]

mod limits;
mod matching;
mod naming;

use super::{Calls, Output};
use crate::block::{Endpoint, Host, Transport};
use crate::call::{Brief, Call, Stamp};
use crate::event::Event;
use crate::names::Names;
use crate::stream::{Message, Sink};

pub(super) const MS: i64 = 1_000_000;
const START_NS: i64 = 1_700_000_000_000_000_000;

/// XDR, appended.
#[derive(Clone, Debug, Default)]
pub(super) struct Xdr(pub(super) Vec<u8>);

impl Xdr {
    pub(super) fn word(mut self, word: u32) -> Self {
        self.0.extend_from_slice(&word.to_be_bytes());
        self
    }

    pub(super) fn words(self, words: &[u32]) -> Self {
        words.iter().fold(self, |xdr, word| xdr.word(*word))
    }

    pub(super) fn long(self, long: u64) -> Self {
        self.word((long >> 32) as u32).word(long as u32)
    }

    pub(super) fn opaque(self, bytes: &[u8]) -> Self {
        let mut xdr = self.word(bytes.len() as u32);
        xdr.0.extend_from_slice(bytes);
        xdr.0.resize(xdr.0.len().next_multiple_of(4), 0);
        xdr
    }

    pub(super) fn raw(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }
}

/// AUTH_SYS of user 1000.
pub(super) fn call(xid: u32, place: [u32; 3], arguments: Xdr) -> Vec<u8> {
    let credential = Xdr::default()
        .word(9)
        .opaque(b"host")
        .words(&[1000, 100, 0]);
    Xdr::default()
        .words(&[xid, 0, 2])
        .words(&place)
        .word(1)
        .opaque(&credential.0)
        .words(&[0, 0])
        .raw(&arguments.0)
        .0
}

pub(super) fn reply(xid: u32, results: Xdr) -> Vec<u8> {
    Xdr::default()
        .words(&[xid, 1, 0, 0, 0, 0])
        .raw(&results.0)
        .0
}

pub(super) const NFS: u32 = 100_003;
pub(super) const GETATTR: [u32; 3] = [NFS, 3, 1];
pub(super) const READ: [u32; 3] = [NFS, 3, 6];
pub(super) const COMPOUND: [u32; 3] = [NFS, 4, 1];

pub(super) fn getattr(xid: u32, handle: &[u8]) -> Vec<u8> {
    call(xid, GETATTR, Xdr::default().opaque(handle))
}

/// `fattr3` of a file (or whatever type) of 4096 bytes.
pub(super) fn fattr3(file_type: u32) -> Xdr {
    Xdr::default()
        .words(&[file_type, 0o644, 1, 1000, 100])
        .long(4096)
        .long(4096)
        .words(&[0, 0])
        .long(1)
        .long(2)
        .words(&[1, 2, 3, 4, 5, 6])
}

pub(super) fn getattr_reply(xid: u32) -> Vec<u8> {
    reply(xid, Xdr::default().word(0).raw(&fattr3(1).0))
}

/// What came out.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) calls: Vec<Call>,
    /// What was counted of each, told before it.
    pub(super) briefs: Vec<Brief>,
    /// Path of each call's file when it was given out.
    pub(super) paths: Vec<Option<String>>,
    /// `s` sent, `S` sent again, `r` replied, `R` duplicate; with the call's number.
    pub(super) events: Vec<(char, u64)>,
}

impl Output for Seen {
    fn wants_messages(&self) -> bool {
        true
    }

    fn wants_transport(&self) -> bool {
        false
    }

    fn event(&mut self, event: &Event<'_>, _names: &Names) {
        let (kind, call) = match event {
            Event::Sent { again, call, .. } => (if *again { 'S' } else { 's' }, call),
            Event::Replied { again, call, .. } => (if *again { 'R' } else { 'r' }, call),
            Event::Transport(_) => return,
        };
        self.events.push((kind, call.number));
    }

    fn brief(&mut self, brief: &Brief, _: &Names) {
        self.briefs.push(*brief);
    }

    fn call(&mut self, call: &Call, names: &Names) {
        let brief = self.briefs.last();
        assert_eq!(brief.map(|brief| brief.latency_ns), Some(call.latency_ns()));
        assert_eq!(brief.map(|brief| brief.outcome), Some(call.outcome));
        self.paths.push(call.file.and_then(|file| names.path(file)));
        self.calls.push(*call);
    }
}

/// A capture of client 10.0.0.2 and server 10.0.0.1.
#[derive(Debug)]
pub(super) struct Capture {
    pub(super) calls: Calls<Seen>,
    pub(super) now_ns: i64,
    pub(super) connection: u32,
    pub(super) client_port: u16,
    pub(super) transport: Transport,
    pub(super) resynchronised: bool,
    frame: u64,
}

impl Capture {
    pub(super) fn new() -> Self {
        Capture {
            calls: Calls::new(Seen::default()),
            now_ns: START_NS,
            connection: 0,
            client_port: 700,
            transport: Transport::Tcp,
            resynchronised: false,
            frame: 0,
        }
    }

    fn ends(&self) -> (Endpoint, Endpoint) {
        let client = Endpoint {
            host: Host::from_v4([10, 0, 0, 2]),
            port: self.client_port,
        };
        let server = Endpoint {
            host: Host::from_v4([10, 0, 0, 1]),
            port: 2049,
        };
        (client, server)
    }

    /// A message from client to server, or back; one millisecond after the one before.
    pub(super) fn message(&mut self, to_server: bool, bytes: &[u8]) {
        self.cut(to_server, bytes, 0, &[], true);
    }

    pub(super) fn cut(
        &mut self,
        to_server: bool,
        head: &[u8],
        missing: usize,
        tail: &[u8],
        complete: bool,
    ) {
        self.now_ns += MS;
        let (client, server) = self.ends();
        self.frame += 1;
        let stamp = Stamp {
            time_ns: self.now_ns,
            frame: self.frame,
        };
        self.calls.message(&Message {
            connection: self.connection,
            from: if to_server { &client } else { &server },
            to: if to_server { &server } else { &client },
            transport: self.transport,
            head,
            missing,
            tail,
            complete,
            wire_bytes: (head.len() + missing + tail.len()) as u32,
            first: stamp,
            last: stamp,
            resynchronised: self.resynchronised,
            ip_id: 0,
        });
    }

    /// A call and its reply.
    pub(super) fn pair(&mut self, call: &[u8], reply: &[u8]) {
        self.message(true, call);
        self.message(false, reply);
    }

    /// What came out; the anomalies by name.
    pub(super) fn end(mut self) -> (Seen, Vec<(&'static str, u64)>) {
        self.calls.finish();
        let anomalies = self.calls.anomalies().iter().collect();
        let (_, seen) = self.calls.into_parts();
        (seen, anomalies)
    }
}

//! The server's protocol layer against hostile clients: a script of calls, some of them any bytes,
//! some with a true header and the root's handle in front of any arguments, on a small memory store.
//! Each call gets one reply that is whole and small enough; the store keeps its limit.
#![no_main]

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use bounded::fuzz_target;
use server::protocol::{Export, ExportOptions, Received, Service, receive, refuse};
use server::store::memory::MemoryStore;
use server::store::{Payload, Store};
use server::{Caller, HandleKey};
use wire::Encode;
use wire::rpc::{AuthSysParms, OpaqueAuth, Reply, encode_call};

const PEER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 1);
const STORE_BYTES: u64 = 1 << 20;
/// The largest READ, a directory's reply, and their surroundings.
const MAX_REPLY_BYTES: usize = (1 << 20) + 4096;
const MAX_CALLS: usize = 64;
const HANDLE_BYTES: usize = 32;

struct World {
    service: Service,
    store: Arc<MemoryStore>,
    root: Vec<u8>,
    /// The handle of the last reply that had one: so that scripts get at what they made.
    last: Vec<u8>,
}

impl World {
    fn new() -> Self {
        let owner = Caller::with_ids(PEER, 0, 0);
        let store = Arc::new(MemoryStore::new(STORE_BYTES, 7, &owner));
        let shared: Arc<dyn Store> = Arc::clone(&store) as Arc<dyn Store>;
        let export = Export::new("/e", shared, ExportOptions::default());
        let service = Service::new(vec![export], HandleKey::new(&[5; 16]));
        let mut world = World {
            service,
            store,
            root: Vec::new(),
            last: Vec::new(),
        };
        let mut mount = head([100_005, 3, 1]);
        wire::mount::dirpath(b"/e").encode(&mut mount).unwrap();
        let reply = world.ask(&mount).unwrap();
        world.root = reply[32..32 + HANDLE_BYTES].to_vec();
        world.last = world.root.clone();
        world
    }

    /// One message; its reply if it gets one.
    fn ask(&mut self, message: &[u8]) -> Option<Vec<u8>> {
        let (mut reply, mut payload) = (Vec::new(), Payload::new());
        let xid = match receive(message) {
            Received::Ignored => return None,
            Received::Refused(xid, status) => {
                refuse(xid, status, &mut reply);
                xid
            }
            Received::Call(call) => {
                self.service.answer(PEER, &call, &mut reply, &mut payload);
                call.xid
            }
        };
        assert!(reply.len() + payload.len() <= MAX_REPLY_BYTES);
        reply.extend(payload.to_vec());
        let parsed = Reply::parse(&reply).unwrap();
        assert_eq!(parsed.xid, xid);
        Some(reply)
    }
}

/// A call's header with AUTH_SYS of root.
fn head(target: [u32; 3]) -> Vec<u8> {
    let credential = AuthSysParms {
        stamp: 0,
        machine_name: b"f",
        uid: 0,
        gid: 0,
        gids: &[],
    };
    let mut out = Vec::new();
    encode_call(&mut out, 3, target, &credential, &OpaqueAuth::NONE).unwrap();
    out
}

/// Kind, length, bytes; then the rest.
fn step(data: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[kind, length], rest) = data.split_first_chunk::<2>()?;
    let (bytes, rest) = rest.split_at_checked(usize::from(length))?;
    Some((kind, bytes, rest))
}

fuzz_target!(|data: &[u8]| {
    let mut world = World::new();
    world.ask(data);
    let mut rest = data;
    for _ in 0..MAX_CALLS {
        let Some((kind, bytes, behind)) = step(rest) else {
            break;
        };
        rest = behind;
        let mut message = match kind >> 5 {
            7 => Vec::new(),
            6 => head([100_005, u32::from(kind & 3), u32::from(kind >> 2 & 7)]),
            _ => head([100_003, 3, u32::from(kind & 31)]),
        };
        if kind >> 5 < 5 {
            let handle = if kind >> 5 & 1 == 0 {
                &world.root
            } else {
                &world.last
            };
            (handle.len() as u32).encode(&mut message).unwrap();
            message.extend_from_slice(handle);
        }
        message.extend_from_slice(bytes);
        // Where a reply to CREATE, MKDIR, SYMLINK and MKNOD has the new handle.
        if let Some(reply) = world.ask(&message) {
            let made = reply.get(24..36) == Some(&[0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 32]);
            if let (true, Some(handle)) = (made, reply.get(36..36 + HANDLE_BYTES)) {
                world.last = handle.to_vec();
            }
        }
    }
    let root = world.store.root();
    let state = world.store.fsstat(&root).unwrap();
    assert!(state.fbytes <= STORE_BYTES && state.tbytes == STORE_BYTES);
});

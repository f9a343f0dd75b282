//! Calls as a client writes them, and a server without sockets to send them to.
#![allow(dead_code, clippy::unwrap_used, clippy::panic)]

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use server::HandleKey;
use server::protocol::{Export, ExportOptions, Received, Service, receive, refuse};
use server::store::Payload;
use server::store::memory::MemoryStore;
use wire::mount::{dirpath, mountres3};
use wire::nfs3::{createhow3, diropargs3, filename3, nfs_fh3, sattr3};
use wire::rpc::{AuthSysParms, OpaqueAuth, Reply, encode_call};
use wire::{Decode, Encode, Reader, programs};

pub const PEER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 701);
pub const NFS3: [u32; 2] = [programs::NFS, 3];
pub const MOUNT3: [u32; 2] = [programs::MOUNT, 3];

pub fn call_as(
    xid: u32,
    [program, version]: [u32; 2],
    procedure: u32,
    uid: u32,
    args: &impl Encode,
) -> Vec<u8> {
    let mut out = Vec::new();
    let credential = AuthSysParms {
        stamp: 1,
        machine_name: b"test",
        uid,
        gid: uid,
        gids: &[],
    };
    encode_call(
        &mut out,
        xid,
        [program, version, procedure],
        &credential,
        &OpaqueAuth::NONE,
    )
    .unwrap();
    args.encode(&mut out).unwrap();
    out
}

pub fn call(xid: u32, program: [u32; 2], procedure: u32, args: &impl Encode) -> Vec<u8> {
    call_as(xid, program, procedure, 0, args)
}

pub fn memory_service(options: ExportOptions) -> Service {
    let owner = server::Caller::with_ids(PEER, 0, 0);
    let store = Arc::new(MemoryStore::new(64 << 20, 5, &owner));
    Service::new(
        vec![Export::new("/export", store, options)],
        HandleKey::new(&[3; 16]),
    )
}

/// The whole reply, if there is one.
pub fn ask(service: &Service, message: &[u8]) -> Option<Vec<u8>> {
    let mut head = Vec::new();
    let mut payload = Payload::new();
    match receive(message) {
        Received::Ignored => return None,
        Received::Refused(xid, status) => refuse(xid, status, &mut head),
        Received::Call(call) => {
            service.answer(PEER, &call, &mut head, &mut payload);
        }
    }
    head.extend(payload.to_vec());
    Some(head)
}

/// The results of a reply that says SUCCESS.
pub fn results(reply: &[u8]) -> &[u8] {
    let parsed = Reply::parse(reply).unwrap();
    parsed
        .body
        .unwrap_or_else(|| panic!("refused: {:?}", parsed.status))
}

pub fn decoded<'a, T: Decode<'a>>(reply: &'a [u8]) -> T {
    let mut reader = Reader::new(results(reply));
    let value = T::decode(&mut reader, "result").unwrap();
    reader.finish("result").unwrap();
    value
}

pub fn root_handle(service: &Service) -> Vec<u8> {
    let reply = ask(service, &call(1, MOUNT3, 1, &dirpath(b"/export"))).unwrap();
    match decoded::<mountres3<'_>>(&reply) {
        mountres3::Ok(ok) => ok.fhandle.0.to_vec(),
        mountres3::Fail(status) => panic!("{status:?}"),
    }
}

pub fn at<'a>(dir: &'a [u8], name: &'a [u8]) -> diropargs3<'a> {
    diropargs3 {
        dir: nfs_fh3(dir),
        name: filename3(name),
    }
}

pub fn create(service: &Service, dir: &[u8], name: &[u8]) -> Vec<u8> {
    let args = wire::nfs3::CREATE3args {
        where_: at(dir, name),
        how: createhow3::UNCHECKED(sattr3::UNCHANGED),
    };
    let reply = ask(service, &call(2, NFS3, 8, &args)).unwrap();
    match decoded::<wire::nfs3::CREATE3res<'_>>(&reply) {
        wire::nfs3::Res::Ok(ok) => ok.obj.unwrap().0.to_vec(),
        wire::nfs3::Res::Fail(status, _) => panic!("{status:?}"),
    }
}

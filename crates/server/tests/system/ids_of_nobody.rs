//! The id 0xffffffff, which no user has: in a credential it is nobody's, as Linux' server takes it;
//! as a new owner it is refused. Never a fault of the server's.

use std::sync::Arc;

use crate::calls::{NFS3, PEER, ask, at, decoded, memory_service, root_handle};
use server::protocol::{Export, ExportOptions, Service};
use server::store::directory::{DirectoryOptions, DirectoryStore};
use server::{Caller, HandleKey};
use wire::Encode;
use wire::nfs3::*;
use wire::rpc::{AuthSysParms, OpaqueAuth, encode_call};

const NO_ID: u32 = u32::MAX;

fn call_with(xid: u32, procedure: u32, ids: [u32; 3], args: &impl Encode) -> Vec<u8> {
    let [uid, gid, group] = ids;
    let mut out = Vec::new();
    let credential = AuthSysParms {
        stamp: 1,
        machine_name: b"test",
        uid,
        gid,
        gids: &[group],
    };
    let [program, version] = NFS3;
    let numbers = [program, version, procedure];
    encode_call(&mut out, xid, numbers, &credential, &OpaqueAuth::NONE).unwrap();
    args.encode(&mut out).unwrap();
    out
}

/// Memory and, where this process may act as others, a folder; all may write to both.
fn services() -> Vec<(Service, Option<tempfile::TempDir>)> {
    let folder = tempfile::tempdir().unwrap();
    let options = DirectoryOptions {
        stable_names: false,
        kernel_handles: true,
        instance: 1,
    };
    let store = Arc::new(DirectoryStore::open(folder.path(), options).unwrap());
    let export = Export::new("/export", store, ExportOptions::default());
    let served = Service::new(vec![export], HandleKey::new(&[3; 16]));
    vec![
        (memory_service(ExportOptions::default()), None),
        (served, Some(folder)),
    ]
}

fn set(service: &Service, object: &[u8], ids: [u32; 3], new: sattr3) -> nfsstat3 {
    let args = SETATTR3args {
        object: nfs_fh3(object),
        new_attributes: new,
        guard: None,
    };
    let reply = ask(service, &call_with(9, 2, ids, &args)).unwrap();
    match decoded::<SETATTR3res>(&reply) {
        Res::Ok(_) => nfsstat3::NFS3_OK,
        Res::Fail(status, _) => status,
    }
}

#[test]
fn callers_and_owners_that_cannot_be() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root gives the memory store's folder another mode");
        return;
    }
    let me = rustix::process::geteuid().as_raw();
    for (service, folder) in services() {
        let root = root_handle(&service);
        let open = sattr3 {
            mode: Some(0o777),
            ..sattr3::UNCHANGED
        };
        assert_eq!(set(&service, &root, [me; 3], open), nfsstat3::NFS3_OK);
        let cases = [
            [NO_ID, 5, 6],
            [5, NO_ID, 6],
            [5, 5, NO_ID],
            [NO_ID, NO_ID, NO_ID],
        ];
        for (number, ids) in cases.into_iter().enumerate() {
            let name = format!("f{number}").into_bytes();
            let args = CREATE3args {
                where_: at(&root, &name),
                how: createhow3::GUARDED(sattr3::UNCHANGED),
            };
            // A thread that has not acted as anyone yet.
            let message = call_with(number as u32, 8, ids, &args);
            let reply =
                std::thread::scope(|scope| scope.spawn(|| ask(&service, &message)).join().unwrap());
            let reply = reply.unwrap();
            let Res::Ok(made) = decoded::<CREATE3res<'_>>(&reply) else {
                panic!("{ids:?}: {reply:?}");
            };
            let seen = made.obj_attributes.unwrap();
            if folder.is_none() || me == 0 {
                let nobody = |id| if id == NO_ID { 65534 } else { id };
                assert_eq!((seen.uid, seen.gid), (nobody(ids[0]), nobody(ids[1])));
            }
            let file = made.obj.unwrap().0.to_vec();
            for (uid, gid) in [(Some(NO_ID), None), (None, Some(NO_ID))] {
                let new = sattr3 {
                    uid,
                    gid,
                    ..sattr3::UNCHANGED
                };
                assert_eq!(set(&service, &file, [me; 3], new), nfsstat3::NFS3ERR_INVAL);
            }
        }
    }
}

#[test]
fn nobodys_rights_are_not_roots() {
    let sys = AuthSysParms {
        stamp: 1,
        machine_name: b"test",
        uid: NO_ID,
        gid: NO_ID,
        gids: &[0, NO_ID, 7],
    };
    let mut message = Vec::new();
    encode_call(&mut message, 1, [100_003, 3, 0], &sys, &OpaqueAuth::NONE).unwrap();
    let call = wire::rpc::Call::parse(&message).unwrap();
    let Some(wire::rpc::Credential::Sys(sys)) = &call.credential else {
        panic!()
    };
    let seen = Caller::from_auth_sys(PEER, sys);
    assert_eq!((seen.uid, seen.gid), (65534, 65534));
    assert_eq!(seen.groups(), [0, 7]);
}

//! The protocol by its bytes: RPC refusals (RFC 5531 section 9), MOUNT, NFSv3 results.

use crate::calls;
use crate::calls::{
    MOUNT3, NFS3, ask, at, call, call_as, create, decoded, memory_service, root_handle,
};
use server::protocol::{ExportOptions, Squash};
use wire::mount::{dirpath, exports, fhstatus, mountlist, mountres3, mountstat3};
use wire::nfs3::*;
use wire::rpc::{OpaqueAuth, Reply, ReplyStatus, encode_call};
use wire::{Decode, Encode, Reader};

fn status_of(message: &[u8]) -> ReplyStatus {
    let service = memory_service(ExportOptions::default());
    let reply = ask(&service, message).unwrap();
    let parsed = Reply::parse(&reply).unwrap();
    assert_eq!(
        parsed.xid,
        u32::from_be_bytes(message[..4].try_into().unwrap())
    );
    parsed.status.unwrap()
}

#[test]
fn rpc_refusals() {
    let null = call(9, NFS3, 0, &());
    assert_eq!(status_of(&null), ReplyStatus::Success);
    let mut other_rpc = null.clone();
    other_rpc[11] = 3;
    assert_eq!(
        status_of(&other_rpc),
        ReplyStatus::RpcMismatch { low: 2, high: 2 }
    );
    let mismatch = ReplyStatus::ProgramMismatch { low: 3, high: 3 };
    assert_eq!(status_of(&call(1, [100_003, 2], 0, &())), mismatch);
    assert_eq!(status_of(&call(1, [100_003, 4], 0, &())), mismatch);
    let mismatch = ReplyStatus::ProgramMismatch { low: 1, high: 3 };
    assert_eq!(status_of(&call(1, [100_005, 4], 0, &())), mismatch);
    let unavailable = ReplyStatus::ProgramUnavailable;
    assert_eq!(status_of(&call(1, [100_021, 4], 0, &())), unavailable);
    let unavailable = ReplyStatus::ProcedureUnavailable;
    assert_eq!(status_of(&call(1, NFS3, 22, &())), unavailable);
    assert_eq!(status_of(&call(1, MOUNT3, 6, &())), unavailable);
    let garbage = ReplyStatus::GarbageArguments;
    assert_eq!(status_of(&call(1, NFS3, 1, &77u32)), garbage);
    assert_eq!(status_of(&call(1, NFS3, 7, &())), garbage);
}

#[test]
fn credentials_that_are_too_weak_or_broken() {
    let with = |procedure, flavor, body| {
        let mut message = Vec::new();
        let auth = OpaqueAuth { flavor, body };
        encode_call(
            &mut message,
            1,
            [100_003, 3, procedure],
            &auth,
            &OpaqueAuth::NONE,
        )
        .unwrap();
        status_of(&message)
    };
    assert_eq!(with(0, 0, &[]), ReplyStatus::Success);
    assert_eq!(with(3, 0, &[]), ReplyStatus::AuthError(5));
    assert_eq!(with(3, 6, &[0; 20]), ReplyStatus::AuthError(5));
    assert_eq!(with(3, 1, &[0; 3]), ReplyStatus::AuthError(1));
    assert_eq!(with(0, 7, &[]), ReplyStatus::AuthError(2));
    // A GETATTR of nobody gets as far as its arguments.
    assert_eq!(with(1, 0, &[]), ReplyStatus::GarbageArguments);
}

#[test]
fn what_is_no_call_is_not_answered() {
    let service = memory_service(ExportOptions::default());
    let null = call(9, NFS3, 0, &());
    for length in 0..24 {
        assert_eq!(ask(&service, &null[..length]), None);
    }
    let mut reply = null;
    reply[7] = 1;
    assert_eq!(ask(&service, &reply), None);
}

#[test]
fn a_hidden_export_is_mounted_and_not_told() {
    let hidden = ExportOptions {
        hidden: true,
        ..ExportOptions::default()
    };
    let service = memory_service(hidden);
    root_handle(&service);
    let listed = ask(&service, &call(1, MOUNT3, 5, &())).unwrap();
    assert!(decoded::<exports<'_>>(&listed).0.is_empty());
    let dumped = ask(&service, &call(1, MOUNT3, 2, &())).unwrap();
    assert!(decoded::<mountlist<'_>>(&dumped).0.is_empty());
}

#[test]
fn mount_in_all_versions() {
    let service = memory_service(ExportOptions::default());
    let root = root_handle(&service);
    let path = dirpath(b"/export/");
    for version in [1, 2] {
        let reply = ask(&service, &call(1, [100_005, version], 1, &path)).unwrap();
        assert_eq!(
            decoded::<fhstatus>(&reply),
            fhstatus::Ok(root.clone().try_into().unwrap())
        );
    }
    let listed = ask(&service, &call(1, MOUNT3, 5, &())).unwrap();
    let list: exports<'_> = decoded(&listed);
    assert_eq!(list.0[0].ex_dir, dirpath(b"/export"));
    let dumped = |service| {
        decoded::<mountlist<'_>>(&ask(service, &call(1, MOUNT3, 2, &())).unwrap())
            .0
            .len()
    };
    assert_eq!(dumped(&service), 2);
    ask(&service, &call(1, MOUNT3, 3, &path)).unwrap();
    assert_eq!(dumped(&service), 1);
    ask(&service, &call(1, MOUNT3, 4, &())).unwrap();
    assert_eq!(dumped(&service), 0);
    create(&service, &root, b"file");
    for (path, status) in [
        (&b"/exports"[..], mountstat3::MNT3ERR_NOENT),
        (b"/", mountstat3::MNT3ERR_NOENT),
        (b"/export/none", mountstat3::MNT3ERR_NOENT),
        (b"/export/file", mountstat3::MNT3ERR_NOTDIR),
        (b"/export/../etc", mountstat3::MNT3ERR_INVAL),
    ] {
        let reply = ask(&service, &call(1, MOUNT3, 1, &dirpath(path))).unwrap();
        assert_eq!(decoded::<mountres3<'_>>(&reply), mountres3::Fail(status));
    }
}

#[test]
fn read_sends_the_data_behind_its_head_with_padding() {
    let service = memory_service(ExportOptions::default());
    let file = create(&service, &root_handle(&service), b"f");
    let args = WRITE3args {
        file: nfs_fh3(&file),
        offset: 1,
        count: 5,
        stable: stable_how::UNSTABLE,
        data: payload3(b"hello world"),
    };
    let reply = ask(&service, &call(1, NFS3, 7, &args)).unwrap();
    let Res::Ok(written) = decoded::<WRITE3res>(&reply) else {
        panic!()
    };
    assert_eq!(written.count, 5);
    let args = READ3args {
        file: nfs_fh3(&file),
        offset: 0,
        count: 100,
    };
    let reply = ask(&service, &call(1, NFS3, 6, &args)).unwrap();
    let Res::Ok(read) = decoded::<READ3res<'_>>(&reply) else {
        panic!()
    };
    assert_eq!(
        (read.count, read.eof, read.data.0),
        (6, true, &b"\0hello"[..])
    );
    // More bytes promised than there are: refused, nothing written.
    let args = WRITE3args {
        file: nfs_fh3(&file),
        offset: 0,
        count: 12,
        stable: stable_how::UNSTABLE,
        data: payload3(b"hello world"),
    };
    let reply = ask(&service, &call(1, NFS3, 7, &args)).unwrap();
    assert_eq!(
        decoded::<WRITE3res>(&reply).status(),
        nfsstat3::NFS3ERR_INVAL
    );
}

#[test]
fn handles_that_were_not_made_here() {
    let service = memory_service(ExportOptions::default());
    let mut root = root_handle(&service);
    let getattr = |handle: &[u8]| {
        let args = GETATTR3args {
            object: nfs_fh3(handle),
        };
        decoded::<GETATTR3res>(&ask(&service, &call(1, NFS3, 1, &args)).unwrap()).status()
    };
    assert_eq!(getattr(&root), nfsstat3::NFS3_OK);
    root[12] ^= 1;
    assert_eq!(getattr(&root), nfsstat3::NFS3ERR_BADHANDLE);
    assert_eq!(getattr(b""), nfsstat3::NFS3ERR_BADHANDLE);
    // Sealed with the right key for an export that is not there.
    let sealed = server::HandleKey::new(&[3; 16]).seal(1, &server::Handle::new(1, 1));
    assert_eq!(getattr(sealed.as_bytes()), nfsstat3::NFS3ERR_STALE);
}

#[test]
fn names_that_cannot_be() {
    let service = memory_service(ExportOptions::default());
    let root = root_handle(&service);
    let long = [b'x'; 256];
    for (name, status) in [
        (&b""[..], nfsstat3::NFS3ERR_ACCES),
        (b"a/b", nfsstat3::NFS3ERR_ACCES),
        (b"a\0b", nfsstat3::NFS3ERR_ACCES),
        (&long, nfsstat3::NFS3ERR_NAMETOOLONG),
        (&long[..255], nfsstat3::NFS3ERR_NOENT),
    ] {
        let args = LOOKUP3args {
            what: at(&root, name),
        };
        let reply = ask(&service, &call(1, NFS3, 3, &args)).unwrap();
        assert_eq!(decoded::<LOOKUP3res<'_>>(&reply).status(), status);
    }
    for (name, remove, make) in [
        (&b"."[..], nfsstat3::NFS3ERR_INVAL, nfsstat3::NFS3ERR_EXIST),
        (b"..", nfsstat3::NFS3ERR_EXIST, nfsstat3::NFS3ERR_EXIST),
    ] {
        let args = RMDIR3args {
            object: at(&root, name),
        };
        let reply = ask(&service, &call(1, NFS3, 13, &args)).unwrap();
        assert_eq!(decoded::<RMDIR3res>(&reply).status(), remove);
        let args = MKDIR3args {
            where_: at(&root, name),
            attributes: sattr3::UNCHANGED,
        };
        let reply = ask(&service, &call(1, NFS3, 9, &args)).unwrap();
        assert_eq!(decoded::<MKDIR3res<'_>>(&reply).status(), make);
    }
}

#[test]
fn directories_within_the_size_that_was_asked_for() {
    let service = memory_service(ExportOptions::default());
    let root = root_handle(&service);
    for i in 0..100 {
        create(&service, &root, format!("name-{i:03}").as_bytes());
    }
    for plus in [false, true] {
        let (mut cookie, mut cookieverf, mut seen) = (0, [0; 8], Vec::new());
        loop {
            let reply = if plus {
                let (dircount, maxcount) = (300, 1000);
                let dir = nfs_fh3(&root);
                let args = READDIRPLUS3args {
                    dir,
                    cookie,
                    cookieverf,
                    dircount,
                    maxcount,
                };
                ask(&service, &call(1, NFS3, 17, &args)).unwrap()
            } else {
                let args = READDIR3args {
                    dir: nfs_fh3(&root),
                    cookie,
                    cookieverf,
                    count: 512,
                };
                ask(&service, &call(1, NFS3, 16, &args)).unwrap()
            };
            // RPC head 24 bytes, status 4, then the counted resok.
            assert!(reply.len() <= 28 + if plus { 1000 } else { 512 });
            let end;
            if plus {
                let Res::Ok(page) = decoded::<READDIRPLUS3res<'_>>(&reply) else {
                    panic!()
                };
                cookieverf = page.cookieverf;
                for entry in &page.entries.0 {
                    assert!(entry.name_handle.is_some() && entry.name_attributes.is_some());
                    seen.push(entry.name.0.to_vec());
                    cookie = entry.cookie;
                }
                end = page.eof;
            } else {
                let Res::Ok(page) = decoded::<READDIR3res<'_>>(&reply) else {
                    panic!()
                };
                cookieverf = page.cookieverf;
                for entry in &page.entries.0 {
                    seen.push(entry.name.0.to_vec());
                    cookie = entry.cookie;
                }
                end = page.eof;
            }
            if end {
                break;
            }
        }
        assert_eq!(seen.len(), 102);
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), 102);
    }
    let args = READDIR3args {
        dir: nfs_fh3(&root),
        cookie: 0,
        cookieverf: [0; 8],
        count: 100,
    };
    let reply = ask(&service, &call(1, NFS3, 16, &args)).unwrap();
    assert_eq!(
        decoded::<READDIR3res<'_>>(&reply).status(),
        nfsstat3::NFS3ERR_TOOSMALL
    );
    let args = READDIR3args {
        dir: nfs_fh3(&root),
        cookie: 9,
        cookieverf: [1; 8],
        count: 1000,
    };
    let reply = ask(&service, &call(1, NFS3, 16, &args)).unwrap();
    assert_eq!(
        decoded::<READDIR3res<'_>>(&reply).status(),
        nfsstat3::NFS3ERR_BAD_COOKIE
    );
}

#[test]
fn exports_that_squash_or_refuse_changes() {
    let read_only = memory_service(ExportOptions {
        read_only: true,
        ..ExportOptions::default()
    });
    let root = root_handle(&read_only);
    let args = MKDIR3args {
        where_: at(&root, b"d"),
        attributes: sattr3::UNCHANGED,
    };
    let reply = ask(&read_only, &call(1, NFS3, 9, &args)).unwrap();
    assert_eq!(
        decoded::<MKDIR3res<'_>>(&reply).status(),
        nfsstat3::NFS3ERR_ROFS
    );
    let args = ACCESS3args {
        object: nfs_fh3(&root),
        access: 0x3f,
    };
    let reply = ask(&read_only, &call(1, NFS3, 4, &args)).unwrap();
    let Res::Ok(granted) = decoded::<ACCESS3res>(&reply) else {
        panic!()
    };
    assert_eq!(granted.access, access::READ | access::LOOKUP);
    for (squash, uid, seen) in [
        (Squash::None, 0, 0),
        (Squash::Root, 0, 65534),
        (Squash::Root, 7, 7),
        (Squash::All, 7, 65534),
    ] {
        let service = memory_service(ExportOptions {
            squash,
            ..ExportOptions::default()
        });
        let root = root_handle(&service);
        let where_ = at(&root, b"d");
        let args = MKDIR3args {
            where_,
            attributes: sattr3::UNCHANGED,
        };
        let reply = ask(&service, &call_as(1, NFS3, 9, uid, &args)).unwrap();
        let Res::Ok(made) = decoded::<MKDIR3res<'_>>(&reply) else {
            panic!()
        };
        assert_eq!(made.obj_attributes.unwrap().uid, seen);
    }
}

/// Bodies of the procedures that the typed tests above leave out decode to the last byte.
#[test]
fn remaining_results_decode() {
    let service = memory_service(ExportOptions::default());
    let root = root_handle(&service);
    let file = create(&service, &root, b"f");
    let one = |procedure, args: &dyn Fn(&mut Vec<u8>)| {
        let mut message = call(1, NFS3, procedure, &());
        args(&mut message);
        ask(&service, &message).unwrap()
    };
    let handle = |out: &mut Vec<u8>| nfs_fh3(&root).encode(out).unwrap();
    assert_eq!(
        decoded::<FSSTAT3res>(&one(18, &handle)).status(),
        nfsstat3::NFS3_OK
    );
    let reply = one(19, &handle);
    let Res::Ok(info) = decoded::<FSINFO3res>(&reply) else {
        panic!()
    };
    assert_eq!((info.rtmax, info.wtmax), (1 << 20, 1 << 20));
    assert_eq!(
        decoded::<PATHCONF3res>(&one(20, &handle)).status(),
        nfsstat3::NFS3_OK
    );
    let link = LINK3args {
        file: nfs_fh3(&file),
        link: at(&root, b"g"),
    };
    let reply = one(15, &|out| link.encode(out).unwrap());
    assert_eq!(decoded::<LINK3res>(&reply).status(), nfsstat3::NFS3_OK);
    let rename = RENAME3args {
        from: at(&root, b"g"),
        to: at(&root, b"h"),
    };
    let reply = one(14, &|out| rename.encode(out).unwrap());
    assert_eq!(decoded::<RENAME3res>(&reply).status(), nfsstat3::NFS3_OK);
    let commit = COMMIT3args {
        file: nfs_fh3(&file),
        offset: 0,
        count: 0,
    };
    let reply = one(21, &|out| commit.encode(out).unwrap());
    assert_eq!(decoded::<COMMIT3res>(&reply).status(), nfsstat3::NFS3_OK);
    let mknod = MKNOD3args {
        where_: at(&root, b"p"),
        what: mknoddata3::FIFO(sattr3::UNCHANGED),
    };
    let reply = one(11, &|out| mknod.encode(out).unwrap());
    assert_eq!(decoded::<MKNOD3res<'_>>(&reply).status(), nfsstat3::NFS3_OK);
    let mknod = MKNOD3args {
        where_: at(&root, b"q"),
        what: mknoddata3::REG,
    };
    let reply = one(11, &|out| mknod.encode(out).unwrap());
    assert_eq!(
        decoded::<MKNOD3res<'_>>(&reply).status(),
        nfsstat3::NFS3ERR_BADTYPE
    );
    let bad = READLINK3args {
        symlink: nfs_fh3(&file),
    };
    let reply = one(5, &|out| bad.encode(out).unwrap());
    assert_eq!(
        decoded::<READLINK3res<'_>>(&reply).status(),
        nfsstat3::NFS3ERR_INVAL
    );
    let mut reader = Reader::new(calls::results(&reply));
    assert!(nfsstat3::decode(&mut reader, "status").is_ok());
}

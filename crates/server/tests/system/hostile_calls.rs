//! Hostile bytes against the whole protocol: no panic, bounded replies, at most one answer each.

use crate::calls::{MOUNT3, NFS3, ask, at, call, create, memory_service, root_handle};
use proptest::prelude::*;
use server::protocol::ExportOptions;
use wire::mount::dirpath;
use wire::nfs3::*;
use wire::rpc::Reply;

/// Head, attributes and what surrounds a payload of 1 MiB.
const REPLY_BYTES_MAX: usize = (1 << 20) + 1024;

fn valid_calls(root: &[u8], file: &[u8]) -> Vec<Vec<u8>> {
    let new = sattr3::UNCHANGED;
    let (dir, cookieverf, place) = (nfs_fh3(root), [0; 8], at(root, b"name"));
    let (object, symlink_data) = (nfs_fh3(file), nfspath3(b"text"));
    let symlink = symlinkdata3 {
        symlink_attributes: new,
        symlink_data,
    };
    let data = payload3(b"some data");
    let stable = stable_how::FILE_SYNC;
    let [readdir, plus] = [(16, 4096), (17, 4096)];
    vec![
        call(1, NFS3, 1, &GETATTR3args { object }),
        call(
            2,
            NFS3,
            2,
            &SETATTR3args {
                object,
                new_attributes: new,
                guard: None,
            },
        ),
        call(3, NFS3, 3, &LOOKUP3args { what: place }),
        call(4, NFS3, 4, &ACCESS3args { object, access: 63 }),
        call(
            5,
            NFS3,
            6,
            &READ3args {
                file: object,
                offset: 0,
                count: 1 << 20,
            },
        ),
        call(
            6,
            NFS3,
            7,
            &WRITE3args {
                file: object,
                offset: 0,
                count: 9,
                stable,
                data,
            },
        ),
        call(
            7,
            NFS3,
            8,
            &CREATE3args {
                where_: place,
                how: createhow3::EXCLUSIVE([1; 8]),
            },
        ),
        call(
            8,
            NFS3,
            10,
            &SYMLINK3args {
                where_: place,
                symlink,
            },
        ),
        call(
            9,
            NFS3,
            14,
            &RENAME3args {
                from: place,
                to: at(root, b"other"),
            },
        ),
        call(
            10,
            NFS3,
            readdir.0,
            &READDIR3args {
                dir,
                cookie: 0,
                cookieverf,
                count: readdir.1,
            },
        ),
        call(
            11,
            NFS3,
            plus.0,
            &READDIRPLUS3args {
                dir,
                cookie: 0,
                cookieverf,
                dircount: plus.1,
                maxcount: plus.1,
            },
        ),
        call(12, MOUNT3, 1, &dirpath(b"/export")),
        call(
            13,
            NFS3,
            21,
            &COMMIT3args {
                file: object,
                offset: 0,
                count: 0,
            },
        ),
    ]
}

fn check(message: &[u8], reply: Option<Vec<u8>>) {
    let Some(reply) = reply else { return };
    assert!(reply.len() <= REPLY_BYTES_MAX && reply.len().is_multiple_of(4));
    let parsed = Reply::parse(&reply).unwrap();
    assert_eq!(parsed.xid.to_be_bytes(), message[..4]);
    assert!(parsed.status.is_some());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn random_bytes(message in proptest::collection::vec(any::<u8>(), 0..600)) {
        let service = memory_service(ExportOptions::default());
        check(&message, ask(&service, &message));
    }

    #[test]
    fn random_arguments(procedure in 0u32..24, body in proptest::collection::vec(any::<u8>(), 0..300)) {
        let service = memory_service(ExportOptions::default());
        for program in [NFS3, MOUNT3] {
            let mut message = call(7, program, procedure, &());
            message.extend_from_slice(&body);
            check(&message, ask(&service, &message));
        }
    }

    #[test]
    fn mutated_calls(
        which in 0usize..13, cut in any::<u16>(),
        flips in proptest::collection::vec((any::<u16>(), any::<u8>()), 0..6),
        second in 0usize..13,
    ) {
        let service = memory_service(ExportOptions::default());
        let root = root_handle(&service);
        let file = create(&service, &root, b"name");
        let all = valid_calls(&root, &file);
        let mut message = all[which].clone();
        for (place, value) in flips {
            let place = place as usize % message.len();
            message[place] ^= value;
        }
        message.truncate(message.len() - (cut as usize % 5) * (cut as usize % message.len()) / 5);
        check(&message, ask(&service, &message));
        // The server goes on answering.
        let reply = ask(&service, &all[second]);
        prop_assert!(reply.is_some());
        check(&all[second], reply);
    }
}

//! Calls of every kind with bytes changed, cut, doubled: whatever comes back is a reply to one of
//! them, of bounded size, and holds nothing from beside the export.

use std::collections::HashMap;
use std::io::Write;

use wire::Encode;
use wire::mount::dirpath;
use wire::nfs3::*;
use wire::rpc::Reply;

use super::good::{Client, record};
use super::target::At;
use crate::calls::{MOUNT3, NFS3, at, call};

/// Calls sent before replies are read.
const BATCH: usize = 64;
/// Calls on one connection; then another one.
const CALLS_PER_CONNECTION: usize = 10_000;
/// Head, attributes and what surrounds 1 MiB of data.
const REPLY_BYTES_MAX: usize = (1 << 20) + 1024;

/// A call of NFS whose id is set later.
fn nfs(number: u32, args: &impl Encode) -> Vec<u8> {
    call(0, NFS3, number, args)
}

/// Calls that change nothing, some of them aimed at what lies beside the export.
fn asking(root: &[u8], file: &[u8]) -> Vec<Vec<u8>> {
    let (dir, object, cookieverf) = (nfs_fh3(root), nfs_fh3(file), [0; 8]);
    let (dircount, maxcount) = (4096, 8192);
    let listed = READDIRPLUS3args {
        dir,
        cookie: 0,
        cookieverf,
        dircount,
        maxcount,
    };
    let mut all = Vec::new();
    for (dir, name) in [
        (root, "name"),
        (root, ".."),
        (root, "../canary"),
        (file, "x"),
    ] {
        let what = at(dir, name.as_bytes());
        all.push(nfs(3, &LOOKUP3args { what }));
    }
    for (offset, count) in [(0, 4096), (4090, 1 << 16)] {
        let file = object;
        all.push(nfs(
            6,
            &READ3args {
                file,
                offset,
                count,
            },
        ));
    }
    for path in ["/export", "/export/../canary", "/export/link"] {
        all.push(call(0, MOUNT3, 1, &dirpath(path.as_bytes())));
    }
    all.push(nfs(1, &GETATTR3args { object }));
    all.push(nfs(4, &ACCESS3args { object, access: 63 }));
    all.push(nfs(5, &READLINK3args { symlink: object }));
    all.push(nfs(17, &listed));
    all.push(nfs(18, &FSSTAT3args { fsroot: dir }));
    all.push(call(0, MOUNT3, 2, &()));
    all.push(call(0, MOUNT3, 5, &()));
    all
}

/// Calls that change something, or try to.
fn changing(root: &[u8], file: &[u8]) -> Vec<Vec<u8>> {
    let (new_attributes, object) = (sattr3::UNCHANGED, nfs_fh3(file));
    let attributes = new_attributes;
    let named = |name: &'static [u8]| at(root, name);
    let (place, where_) = (named(b"name"), named(b"dir"));
    let symlink = symlinkdata3 {
        symlink_attributes: attributes,
        symlink_data: nfspath3(b"../canary"),
    };
    let made = CREATE3args {
        where_: place,
        how: createhow3::UNCHECKED(attributes),
    };
    let linked = SYMLINK3args {
        where_: named(b"link"),
        symlink,
    };
    let hard = LINK3args {
        file: object,
        link: named(b"hard"),
    };
    let set = SETATTR3args {
        object,
        new_attributes,
        guard: None,
    };
    let write = WRITE3args {
        file: object,
        offset: 0,
        count: 9,
        stable: stable_how::UNSTABLE,
        data: payload3(b"some data"),
    };
    let commit = COMMIT3args {
        file: object,
        offset: 0,
        count: 0,
    };
    let moved = |to| RENAME3args { from: place, to };
    vec![
        nfs(2, &set),
        nfs(7, &write),
        nfs(8, &made),
        nfs(9, &MKDIR3args { where_, attributes }),
        nfs(10, &linked),
        nfs(12, &REMOVE3args { object: place }),
        nfs(13, &RMDIR3args { object: where_ }),
        nfs(14, &moved(named(b"../canary"))),
        nfs(14, &moved(named(b"other"))),
        nfs(15, &hard),
        nfs(21, &commit),
    ]
}

fn mutate(message: &mut Vec<u8>, random: &mut fastrand::Rng) {
    // Most of the time behind the header, which else refuses nearly all.
    let from = match random.u8(..8) {
        0 => 4,
        _ => (message.len() / 2).min(88),
    };
    for _ in 0..random.usize(0..4) {
        let place = random.usize(from..message.len());
        match random.u8(..4) {
            0 => message[place] ^= 1 << random.u8(..8),
            1 => message[place] = random.u8(..),
            2 => message[place] = [0, 0xff, 0x7f, 0x80][random.usize(..4)],
            _ => {
                let word = place / 4 * 4;
                let value = [0, 1, u32::MAX, i32::MAX as u32, 1 << 20][random.usize(..5)];
                if let Some(room) = message.get_mut(word..word + 4) {
                    room.copy_from_slice(&value.to_be_bytes());
                }
            }
        }
    }
    match random.u8(..40) {
        0 => message.truncate(random.usize(4..=message.len())),
        1 => message.extend_from_within(from..),
        _ => {}
    }
}

fn holds(reply: &[u8], secret: &[u8]) -> bool {
    reply.windows(secret.len()).any(|part| part == secret)
}

/// Replies that are still to come, by transaction id.
type Open = HashMap<u32, u32>;

/// Takes replies up to that of a NULL, which may come before others.
fn replies_until(client: &mut Client, marker: u32, open: &mut Open, secret: &[u8]) {
    loop {
        let reply = client.next_reply().unwrap();
        assert!(reply.len() <= REPLY_BYTES_MAX && reply.len().is_multiple_of(4));
        let xid = Reply::parse(&reply).unwrap().xid;
        if xid == marker {
            return;
        }
        let left = open
            .get_mut(&xid)
            .unwrap_or_else(|| panic!("a reply to no call: {xid:x}"));
        *left = left
            .checked_sub(1)
            .unwrap_or_else(|| panic!("two replies to {xid:x}"));
        assert!(!holds(&reply, secret), "bytes from outside the export");
    }
}

/// So many of them.
pub fn mutated(at: &At, count: usize, random: &mut fastrand::Rng) -> u64 {
    let mut all = asking(&at.root, &at.file);
    all.extend(changing(&at.root, &at.file));
    let (mut made, mut connections) = (0, 0);
    while made < count {
        let mut client = Client::connect(at.address);
        let mut open = Open::new();
        connections += 1;
        for _ in 0..CALLS_PER_CONNECTION.min(count - made).div_ceil(BATCH) {
            let mut batch = Vec::new();
            for _ in 0..BATCH {
                made += 1;
                let mut message = all[random.usize(..all.len())].clone();
                mutate(&mut message, random);
                // Ids of their own, apart from the marker's.
                let xid = made as u32 & 0x7fff_ffff;
                message[..4].copy_from_slice(&xid.to_be_bytes());
                *open.entry(xid).or_default() += 1;
                batch.extend(record(&message));
            }
            client.stream.write_all(&batch).unwrap();
            let marker = client.mark();
            replies_until(&mut client, marker, &mut open, &at.secret);
        }
    }
    connections
}

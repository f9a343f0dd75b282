//! Handles that the server never made, and handles of what is gone.

use wire::nfs3::*;
use wire::rpc::Reply;

use super::good::Client;
use super::target::At;
use crate::calls::{NFS3, at};

const REFUSED: [nfsstat3; 2] = [nfsstat3::NFS3ERR_BADHANDLE, nfsstat3::NFS3ERR_STALE];

/// Procedures that take a handle first; asked with it alone or with what they need.
const GETATTR: u32 = 1;
const LOOKUP: u32 = 3;
const READ: u32 = 6;
const WRITE: u32 = 7;

/// Asks by a handle, in one of several ways; the status.
fn used(client: &mut Client, handle: &[u8], way: usize) -> Vec<u8> {
    let (file, count) = (nfs_fh3(handle), 4096);
    match way % 4 {
        0 => client.ask(NFS3, GETATTR, &GETATTR3args { object: file }),
        1 => client.ask(
            NFS3,
            LOOKUP,
            &LOOKUP3args {
                what: at(handle, b"canary"),
            },
        ),
        2 => {
            let offset = 0;
            client.ask(
                NFS3,
                READ,
                &READ3args {
                    file,
                    offset,
                    count,
                },
            )
        }
        _ => {
            let args = WRITE3args {
                file,
                offset: 0,
                count: 4,
                stable: stable_how::FILE_SYNC,
                data: payload3(b"hurt"),
            };
            client.ask(NFS3, WRITE, &args)
        }
    }
}

fn status(reply: &[u8]) -> Option<nfsstat3> {
    let body = Reply::parse(reply).unwrap().body?;
    let code = u32::from_be_bytes(*body.first_chunk()?);
    REFUSED.into_iter().find(|status| status.code == code)
}

/// Changed, cut, mixed and random ones.
pub fn forged(at: &At, count: usize, random: &mut fastrand::Rng) -> u64 {
    let mut client = Client::connect(at.address);
    let real = [&at.root, &at.file];
    for number in 0..count {
        let mut handle = real[random.usize(..2)].clone();
        match random.usize(..4) {
            0 => {
                let bit = random.usize(..handle.len() * 8);
                handle[bit / 8] ^= 1 << (bit % 8);
            }
            1 => {
                // Another object, generation or kernel handle; the checksum stays.
                let from = random.usize(4..handle.len() - 8);
                random.fill(&mut handle[from..from + 8]);
            }
            2 => {
                handle.clear();
                handle.resize(random.usize(0..=64), 0);
                random.fill(&mut handle);
            }
            _ => {
                let length = handle.len();
                handle.truncate(random.usize(..length));
                handle.resize(random.usize(handle.len()..=64), random.u8(..));
            }
        }
        if real.contains(&&handle) {
            continue;
        }
        let reply = used(&mut client, &handle, number);
        assert!(
            status(&reply).is_some(),
            "a forged handle {handle:x?}: {reply:x?}"
        );
    }
    1
}

/// Of files that were removed, also when their numbers are used again.
pub fn stale(at: &At, count: usize) -> u64 {
    let mut client = Client::connect(at.address);
    let mut gone: Vec<Vec<u8>> = Vec::new();
    for number in 0..count {
        let handle = client.create(&at.root, b"short-lived");
        client.write(&handle, 0, b"gone");
        client.remove(&at.root, b"short-lived");
        gone.push(handle);
        let old = gone[number / 2].clone();
        for handle in [&gone[number], &old] {
            let reply = used(&mut client, handle, number % 4);
            assert!(status(&reply).is_some(), "a file that is gone: {reply:x?}");
        }
    }
    1
}

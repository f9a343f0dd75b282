//! Cost of one header parse and one body summary: `cargo bench -p nfslab-wire`.
//!
//! Prints nanoseconds for the messages that dominate captures. With an argument (`NAME COUNT`) it
//! runs one of them COUNT times and prints nothing, for instruction counts:
//! `valgrind --tool=callgrind target/release/deps/summaries-* v3_read_call 1000000`.

use std::hint::black_box;
use std::time::Instant;

use wire::nfs3;
use wire::rpc::{AuthSysParms, Call, OpaqueAuth, Reply, ReplyStatus, encode_call, encode_reply};
use wire::xdr::put_opaque;
use wire::{Encode, End, summarise_call, summarise_reply};

const NFS: u32 = wire::programs::NFS;
const HANDLE: [u8; 28] = [0x5a; 28];
const ROUNDS: usize = 9;
const PER_ROUND: u32 = 400_000;

fn call_header(version: u32, procedure: u32) -> Vec<u8> {
    let mut out = Vec::new();
    let credential = AuthSysParms {
        stamp: 1,
        machine_name: b"client.example",
        uid: 1000,
        gid: 100,
        gids: &[100],
    };
    let place = [NFS, version, procedure];
    encode_call(&mut out, 7, place, &credential, &OpaqueAuth::NONE).unwrap_or_default();
    out
}

fn reply_header() -> Vec<u8> {
    let mut out = Vec::new();
    encode_reply(&mut out, 7, &OpaqueAuth::NONE, ReplyStatus::Success).unwrap_or_default();
    out
}

fn words(out: &mut Vec<u8>, words: &[u32]) {
    for word in words {
        out.extend_from_slice(&word.to_be_bytes());
    }
}

fn attributes() -> nfs3::fattr3 {
    let time = nfs3::nfstime3 {
        seconds: 1,
        nseconds: 2,
    };
    nfs3::fattr3 {
        type_: nfs3::ftype3::NF3REG,
        mode: 0o644,
        nlink: 1,
        uid: 1000,
        gid: 100,
        size: 1 << 20,
        used: 1 << 20,
        rdev: nfs3::specdata3 {
            specdata1: 0,
            specdata2: 0,
        },
        fsid: 3,
        fileid: 4,
        atime: time,
        mtime: time,
        ctime: time,
    }
}

fn compound_call() -> Vec<u8> {
    let mut out = call_header(4, 1);
    // Tag, minor version 1, 4 operations; SEQUENCE: session, sequence, slot, highest, cache.
    words(&mut out, &[0, 1, 4, 53, 1, 2, 3, 4, 77, 0, 7, 0]);
    words(&mut out, &[22]);
    put_opaque(&mut out, &HANDLE, 128, "fh").unwrap_or_default();
    // READ: state id, offset, count; GETATTR: bitmap of two words.
    words(
        &mut out,
        &[
            25,
            1,
            2,
            3,
            4,
            0,
            65536,
            4096,
            9,
            2,
            0x0010_011a,
            0x00b0_a23a,
        ],
    );
    out
}

fn compound_reply() -> Vec<u8> {
    let mut out = reply_header();
    words(&mut out, &[0, 0, 4, 53, 0, 1, 2, 3, 4, 77, 0, 7, 7, 0]);
    words(&mut out, &[22, 0, 25, 0, 0, 4096]);
    out.extend_from_slice(&[0x33; 4096]);
    // GETATTR: type, change, size, fsid, fileid; mode, numlinks, owner, group, rawdev, used, times.
    words(&mut out, &[9, 0, 2, 0x0010_011a, 0x00b0_a23a, 128]);
    words(&mut out, &[1, 0, 9, 0, 1 << 20, 0, 3, 0, 4, 0, 5, 0o644, 1]);
    words(
        &mut out,
        &[4, 0x3130_3030, 3, 0x3130_3000, 0, 0, 0, 1 << 20],
    );
    words(&mut out, &[0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 5]);
    out
}

fn messages() -> Vec<(&'static str, Vec<u8>)> {
    let file = nfs3::nfs_fh3(&HANDLE);
    let with = |mut head: Vec<u8>, body: &dyn Fn(&mut Vec<u8>) -> wire::Result<()>| {
        body(&mut head).unwrap_or_default();
        head
    };
    let read = nfs3::READ3args {
        file,
        offset: 65536,
        count: 4096,
    };
    let data = nfs3::payload3(&[0x33; 4096]);
    let resok = nfs3::READ3resok {
        file_attributes: Some(attributes()),
        count: 4096,
        eof: false,
        data,
    };
    let read_res = nfs3::READ3res::Ok(resok);
    let getattr_res = nfs3::GETATTR3res::Ok(nfs3::GETATTR3resok {
        obj_attributes: attributes(),
    });
    vec![
        (
            "v3_read_call",
            with(call_header(3, 6), &|out| read.encode(out)),
        ),
        (
            "v3_read_reply",
            with(reply_header(), &|out| read_res.encode(out)),
        ),
        (
            "v3_getattr_call",
            with(call_header(3, 1), &|out| file.encode(out)),
        ),
        (
            "v3_getattr_reply",
            with(reply_header(), &|out| getattr_res.encode(out)),
        ),
        ("v41_read_call", compound_call()),
        ("v41_read_reply", compound_reply()),
    ]
}

/// Header and body, as a capture reader does it.
#[inline(never)]
fn whole(version: u32, procedure: u32, is_call: bool, message: &[u8]) -> u64 {
    if is_call {
        Call::parse(message).map_or(0, |call| {
            let body = call.body.unwrap_or_default();
            let summary = summarise_call(call.program, call.version, call.procedure, body, true);
            summary.arguments.offset.unwrap_or(1) + u64::from(call.xid)
        })
    } else {
        Reply::parse(message).map_or(0, |reply| {
            let body = reply.body.unwrap_or_default();
            let summary = summarise_reply(NFS, version, procedure, body, true);
            summary.results.count.unwrap_or(1) + u64::from(reply.xid)
        })
    }
}

/// Body alone: what the aims are stated for.
#[inline(never)]
fn body_only(version: u32, procedure: u32, is_call: bool, body: &[u8]) -> u64 {
    if is_call {
        let summary = summarise_call(NFS, version, procedure, body, true);
        summary.arguments.offset.unwrap_or(1)
    } else {
        let summary = summarise_reply(NFS, version, procedure, body, true);
        summary.results.count.unwrap_or(1)
    }
}

fn time_ns(mut work: impl FnMut() -> u64) -> f64 {
    let mut best = f64::MAX;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        for _ in 0..PER_ROUND {
            black_box(work());
        }
        best = best.min(start.elapsed().as_nanos() as f64 / f64::from(PER_ROUND));
    }
    best
}

fn main() {
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| a != "--bench")
        .collect();
    for (name, message) in messages() {
        let version = if name.starts_with("v3") { 3 } else { 4 };
        let procedure = if name.contains("getattr") || version == 4 {
            1
        } else {
            6
        };
        let is_call = name.ends_with("call");
        let place = if is_call {
            Call::parse(&message).map_or(0, |call| call.body_offset)
        } else {
            Reply::parse(&message).map_or(0, |reply| reply.body_offset)
        };
        let body = message.get(place..).unwrap_or_default();
        let end = if is_call {
            summarise_call(NFS, version, procedure, body, true).end
        } else {
            summarise_reply(NFS, version, procedure, body, true).end
        };
        // A message that is not decoded to its end would be measured on the wrong path.
        assert_eq!(end, End::Complete, "{name}");
        if let [wanted, count] = arguments.as_slice() {
            if wanted == name {
                for _ in 0..count.parse::<u64>().unwrap_or(0) {
                    black_box(body_only(version, procedure, is_call, black_box(body)));
                }
            }
            continue;
        }
        let body_ns = time_ns(|| body_only(version, procedure, is_call, black_box(body)));
        let whole_ns = time_ns(|| whole(version, procedure, is_call, black_box(&message)));
        println!("{name:18} body {body_ns:6.1} ns   header and body {whole_ns:6.1} ns");
    }
}

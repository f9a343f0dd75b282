//! Cost of matching calls: `cargo bench -p nfslab-trace --bench calls`.
//!
//! Prints CPU nanoseconds a pair of call and reply, parsed, matched and given out to the operations
//! lens, for NFSv3 GETATTR and READ and an NFSv4.1 READ COMPOUND, from sixteen clients with 50,000
//! calls settling. With arguments (`NAME PAIRS`) it runs one of them once and prints nothing, for
//! instruction counts: `valgrind --tool=callgrind target/release/deps/calls-* v3_getattr 200000`.

use std::hint::black_box;

use measure::clock::thread_cpu_ns;
use trace::block::{Endpoint, Host, Transport};
use trace::call::{Brief, Call, Stamp};
use trace::calls::{Calls, Output};
use trace::event::Event;
use trace::lens::operations::Operations;
use trace::names::Names;
use trace::stream::{Message, Sink};

const ROUNDS: usize = 7;
const PAIRS: u32 = 400_000;
const CLIENTS: u32 = 16;
const FILES: u32 = 1000;
const NFS: u32 = 100_003;

/// Only the table by operation, as `nfslab trace` has it at least.
struct Table(Operations);

impl Output for Table {
    fn wants_messages(&self) -> bool {
        false
    }
    fn wants_transport(&self) -> bool {
        false
    }
    fn event(&mut self, _: &Event<'_>, _: &Names) {}
    fn wants_calls(&self) -> bool {
        false
    }
    fn wants_files(&self) -> bool {
        false
    }
    fn brief(&mut self, brief: &Brief, names: &Names) {
        self.0.brief(brief, names);
    }
    fn call(&mut self, _: &Call, _: &Names) {}
}

fn words(out: &mut Vec<u8>, words: &[u32]) {
    for word in words {
        out.extend_from_slice(&word.to_be_bytes());
    }
}

/// Call header with AUTH_SYS, as a Linux client sends it; the handle's place follows.
fn call(version: u32, procedure: u32, before: &[u32], behind: &[u32]) -> (Vec<u8>, usize) {
    let mut out = Vec::new();
    words(&mut out, &[0, 0, 2, NFS, version, procedure, 1, 32]);
    words(
        &mut out,
        &[1, 8, 0x636c_6965, 0x6e74_3031, 0, 0, 1, 0, 0, 0],
    );
    words(&mut out, before);
    words(&mut out, &[28]);
    let place = out.len();
    out.extend_from_slice(&[0x5a; 28]);
    words(&mut out, behind);
    (out, place)
}

fn reply(results: &[u32], payload_bytes: usize, behind: &[u32]) -> Vec<u8> {
    let mut out = Vec::new();
    words(&mut out, &[0, 1, 0, 0, 0, 0]);
    words(&mut out, results);
    out.resize(out.len() + payload_bytes, 0x33);
    words(&mut out, behind);
    out
}

const FATTR3: [u32; 21] = [
    1, 0o644, 1, 0, 0, 0, 4096, 0, 4096, 0, 0, 0, 1, 0, 2, 1, 2, 3, 4, 5, 6,
];

struct Pair {
    name: &'static str,
    call: Vec<u8>,
    handle: usize,
    reply: Vec<u8>,
}

fn pairs() -> Vec<Pair> {
    let mut getattr = vec![0];
    getattr.extend(FATTR3);
    let mut read = vec![0, 1];
    read.extend(FATTR3);
    read.extend([4096, 0, 4096]);
    let sequence = [0, 1, 4, 53, 1, 2, 3, 4, 77, 0, 7, 0, 22];
    let read4 = [25, 1, 2, 3, 4, 0, 65536, 4096, 9, 2, 0x10, 0];
    let results = [
        0, 0, 4, 53, 0, 1, 2, 3, 4, 77, 0, 7, 7, 0, 22, 0, 25, 0, 0, 4096,
    ];
    let make = |name, (call, handle), reply| Pair {
        name,
        call,
        handle,
        reply,
    };
    vec![
        make("v3_getattr", call(3, 1, &[], &[]), reply(&getattr, 0, &[])),
        make(
            "v3_read",
            call(3, 6, &[], &[0, 65536, 4096]),
            reply(&read, 4096, &[]),
        ),
        make(
            "v41_read",
            call(4, 1, &sequence, &read4),
            reply(&results, 4096, &[9, 0, 1, 0x10, 8, 0, 4096]),
        ),
    ]
}

fn message<'a>(
    from: &'a Endpoint,
    to: &'a Endpoint,
    client: u32,
    bytes: &'a [u8],
    at: u64,
) -> Message<'a> {
    let stamp = Stamp {
        time_ns: at as i64 * 1000,
        frame: at,
    };
    Message {
        connection: client,
        from,
        to,
        transport: Transport::Tcp,
        head: bytes,
        missing: 0,
        tail: &[],
        complete: true,
        wire_bytes: bytes.len() as u32,
        first: stamp,
        last: stamp,
        resynchronised: false,
        ip_id: 0,
    }
}

/// Runs pairs; each client has four calls outstanding.
fn run(pair: &mut Pair, count: u32) -> u64 {
    let mut calls = Calls::new(Table(Operations::default()));
    let server = Endpoint {
        host: Host::from_v4([10, 0, 0, 1]),
        port: 2049,
    };
    let client = |number: u32| {
        let host = Host::from_v4([10, 0, 1, number as u8]);
        Endpoint { host, port: 700 }
    };
    let mut at = 0;
    for burst in 0..count / (CLIENTS * 4) {
        for number in 0..CLIENTS * 4 {
            let xid = (number % CLIENTS) << 24 | (burst * 4 + number / CLIENTS);
            let file = (burst.wrapping_mul(7919) + number) % FILES;
            pair.call[..4].copy_from_slice(&xid.to_be_bytes());
            pair.call[pair.handle..pair.handle + 4].copy_from_slice(&file.to_be_bytes());
            at += 1;
            let from = client(number % CLIENTS);
            calls.message(&message(&from, &server, number % CLIENTS, &pair.call, at));
        }
        for number in 0..CLIENTS * 4 {
            let xid = (number % CLIENTS) << 24 | (burst * 4 + number / CLIENTS);
            pair.reply[..4].copy_from_slice(&xid.to_be_bytes());
            at += 1;
            let to = client(number % CLIENTS);
            calls.message(&message(&server, &to, number % CLIENTS, &pair.reply, at));
        }
    }
    calls.finish();
    calls.calls()
}

fn main() {
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| a != "--bench")
        .collect();
    for mut pair in pairs() {
        if let [name, count] = arguments.as_slice() {
            if name == pair.name {
                black_box(run(&mut pair, count.parse().unwrap_or(0)));
            }
            continue;
        }
        let mut best = f64::MAX;
        for _ in 0..ROUNDS {
            let before = thread_cpu_ns();
            let calls = black_box(run(&mut pair, PAIRS));
            best = best.min((thread_cpu_ns() - before) as f64 / calls as f64);
        }
        println!("{:12} {best:6.1} ns a pair", pair.name);
    }
}

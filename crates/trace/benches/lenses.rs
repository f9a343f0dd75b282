//! Cost of a settled call in the tables and in the columns: `cargo bench -p nfslab-trace --bench
//! lenses`.
//!
//! Prints nanoseconds of CPU time a call, the least of several rounds, for two loads: a database
//! over NFSv3 (READ, WRITE, GETATTR, COMMIT on 500 files from 4 connections) and the same as
//! NFSv4.1 COMPOUNDs. With `NAME LOAD COUNT` it runs one of them over COUNT calls and prints
//! nothing, for instruction counts:
//! `valgrind --tool=callgrind target/release/deps/lenses-* operations v3 1000000`.

use std::hint::black_box;
use std::io;

use trace::block::{Endpoint, Host, Transport};
use trace::call::{Brief, Call, FileId, Outcome, Stamp};
use trace::columns::Batches;
use trace::lens::operations::Operations;
use trace::lens::{Extent, LENSES, Lens, LensOptions};
use trace::names::Names;
use wire::programs::NFS;

const CALLS: usize = 200_000;
const ROUNDS: usize = 9;
const FILES: u32 = 500;
const NAMES: [&str; 3] = ["operations", "clients", "files"];
const LOADS: [&str; 2] = ["v3", "v41"];

/// A multiplicative generator (MMIX, Knuth): the same calls every time.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005);
        self.0 = self.0.wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as u32
    }
}

fn names() -> Names {
    let mut names = Names::default();
    let server = Host::from_v4([10, 0, 0, 1]);
    let Some(root) = names.file_id(server, &[0; 28]) else {
        return names;
    };
    names.set_root(root, Some(b"/export/base/16384"));
    for number in 1..FILES {
        let mut handle = [7; 28];
        handle[..4].copy_from_slice(&number.to_be_bytes());
        if let Some(id) = names.file_id(server, &handle) {
            names.set_name(root, number.to_string().as_bytes(), id);
        }
    }
    // PUTROOTFH, LOOKUPP, GETFH: as many operations as a READ's COMPOUND usually has.
    let body: Vec<u8> = [0u32, 1, 3, 24, 16, 10]
        .iter()
        .flat_map(|word| word.to_be_bytes())
        .collect();
    if let Some(list) = wire::summarise_call(NFS, 4, 1, &body, true).compound {
        names.operations_id(&list.operations);
    }
    names
}

fn load(version: &str, count: usize) -> Vec<Call> {
    let mut numbers = Numbers(1);
    let compound = version == "v41";
    let operations = if compound {
        [25, 38, 9, 5]
    } else {
        [6, 7, 1, 21]
    };
    let calls = (0..count).map(|number| {
        let which = [0, 0, 0, 0, 1, 1, 1, 2, 2, 3][numbers.next() as usize % 10];
        let connection = numbers.next() % 4;
        let time_ns = 1_700_000_000_000_000_000 + number as i64 * 1000;
        let stamp = |time_ns, frame| Stamp { time_ns, frame };
        let latency_ns = 50_000 + i64::from(numbers.next() % 400_000);
        let operation = operations[which];
        Call {
            number: number as u64,
            call_first: stamp(time_ns, number as u64 * 2 + 1),
            call_last: stamp(time_ns, number as u64 * 2 + 1),
            last_send: stamp(time_ns, number as u64 * 2 + 1),
            reply_first: Some(stamp(time_ns + latency_ns, number as u64 * 2 + 2)),
            reply_last: Some(stamp(time_ns + latency_ns, number as u64 * 2 + 2)),
            client: Endpoint {
                host: Host::from_v4([10, 0, 0, 2 + (connection / 2) as u8]),
                port: 700 + connection as u16,
            },
            server: Endpoint {
                host: Host::from_v4([10, 0, 0, 1]),
                port: 2049,
            },
            transport: Transport::Tcp,
            connection,
            xid: number as u32,
            program: NFS,
            version: if compound { 4 } else { 3 },
            procedure: if compound { 1 } else { operation },
            operation,
            minor_version: u32::from(compound),
            operations: compound.then_some(trace::call::OperationsId(0)),
            operations_done: 3,
            outcome: Outcome::Status(0),
            sends: 1,
            replies: 1,
            user: Some(26),
            file: Some(FileId(numbers.next() % FILES)),
            offset: (which < 2).then(|| u64::from(numbers.next() % 100_000) * 8192),
            count: (which < 2).then_some(8192),
            bytes_read: if which == 0 { 8192 } else { 0 },
            bytes_written: if which == 1 { 8192 } else { 0 },
            slot: compound.then_some(numbers.next() % 64),
            ..Call::default()
        }
    });
    calls.collect()
}

fn lens(name: &str) -> Option<Box<dyn Lens>> {
    let (_, make, _) = LENSES.iter().find(|(known, ..)| *known == name)?;
    make(&LensOptions::default()).ok()
}

/// What the table per operation is given of a call.
fn brief(call: &Call) -> Brief {
    Brief {
        call_first_ns: call.call_first.time_ns,
        latency_ns: call.latency_ns(),
        program: call.program,
        version: call.version,
        procedure: call.procedure,
        operation: call.operation,
        minor_version: call.minor_version,
        operations: call.operations,
        operations_done: call.operations_done,
        outcome: call.outcome,
        sends: call.sends,
        replies: call.replies,
        bytes_read: call.bytes_read,
        bytes_written: call.bytes_written,
    }
}

/// CPU time of one pass of all calls through a lens (without its end), or the columns.
fn pass(name: &str, calls: &[Call], names: &Names) -> u64 {
    let begin = cpu_ns();
    if name == "columns" {
        let mut batches = Batches::default();
        for call in calls {
            drop(black_box(batches.push(black_box(call), names)));
        }
        drop(black_box(batches.finish()));
        cpu_ns() - begin
    } else if name == "operations" {
        let briefs: Vec<Brief> = calls.iter().map(brief).collect();
        let mut operations = Operations::default();
        let begin = cpu_ns();
        for brief in &briefs {
            operations.brief(black_box(brief), names);
        }
        let spent = cpu_ns() - begin;
        black_box(operations.finish(names, &Extent::default()));
        spent
    } else if let Some(mut lens) = lens(name) {
        let begin = cpu_ns();
        let interest = lens.interest();
        for call in calls.iter().filter(|_| interest.calls) {
            match interest.names {
                true => lens.call_named(black_box(call), names),
                false => lens.call(black_box(call)),
            }
        }
        let spent = cpu_ns() - begin;
        black_box(lens.finish(names, &Extent::default()));
        spent
    } else {
        0
    }
}

/// CPU time of this thread.
fn cpu_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is valid for writing; the clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn main() -> io::Result<()> {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let names = names();
    if let [name, version, count] = given.as_slice()
        && let Ok(count) = count.parse::<usize>()
    {
        let calls = load(version, CALLS.min(count));
        for _ in 0..count.div_ceil(calls.len().max(1)) {
            pass(name, &calls, &names);
        }
        return Ok(());
    }
    println!("{:12} {:>8} {:>8}   CPU ns a call", "", LOADS[0], LOADS[1]);
    for name in NAMES.into_iter().chain(["columns"]) {
        let cost = LOADS.map(|version| {
            let calls = load(version, CALLS);
            let rounds = (0..ROUNDS).map(|_| pass(name, &calls, &names));
            rounds.min().unwrap_or(0) as f64 / CALLS as f64
        });
        println!("{name:12} {:8.1} {:8.1}", cost[0], cost[1]);
    }
    Ok(())
}

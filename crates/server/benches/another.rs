//! CPU of another server's process per operation, under the load of the benchmark `operations`.
//!
//! `another NAME HOST:PORT MOUNT_PORT EXPORT PID [CALLS]`: GETATTR and READ of 4 KiB of the file
//! `f` in its export, 64 calls outstanding and one. CPU is user and system time of the whole
//! process (/proc/PID/stat, in ticks of 10 ms), since such servers have many threads.

mod load;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use client::Caller;
use client::nfs3::{Export, Lookup};
use client::options::MountOptions;
use wire::nfs3::{LOOKUP3args, Res, diropargs3, filename3};

use load::{CALLS, Outcome, ROUNDS, measured, median, operations};

/// Nanoseconds of a tick (USER_HZ is 100 on all that Linux runs on).
const TICK_NS: u64 = 10_000_000;

/// User and system time of a process (proc(5): fields 14 and 15).
fn cpu_ns(pid: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, behind_name) = text.rsplit_once(')')?;
    let fields: Vec<&str> = behind_name.split_whitespace().collect();
    let ticks = |index: usize| fields.get(index)?.parse::<u64>().ok();
    Some((ticks(11)? + ticks(12)?) * TICK_NS)
}

/// Length of the reply with its mark; its status must be NFS3_OK.
fn reply_length(address: SocketAddr, call: &[u8]) -> Outcome<usize> {
    let mut stream = TcpStream::connect(address)?;
    stream.write_all(call)?;
    let mut mark = [0; 4];
    stream.read_exact(&mut mark)?;
    let mut reply = vec![0; (u32::from_be_bytes(mark) & 0x7fff_ffff) as usize];
    stream.read_exact(&mut reply)?;
    // xid, REPLY, accepted, an empty verifier (flavor, length), SUCCESS: then NFS's status.
    if reply.get(24..28) != Some(&[0; 4]) {
        return Err("the server refuses the call".into());
    }
    Ok(mark.len() + reply.len())
}

fn file_handle(address: SocketAddr, mount_port: &str, export: &str) -> Outcome<Vec<u8>> {
    let options = format!("port={},mountport={mount_port}", address.port());
    let mounted = Export::mount(address.ip(), export, MountOptions::parse(&options)?)?;
    let what = diropargs3 {
        dir: mounted.root.as_fh(),
        name: filename3(b"f"),
    };
    let caller = Caller::process();
    let answer = mounted
        .client
        .call::<Lookup>(Some(&caller), &LOOKUP3args { what })?;
    match answer.decode()? {
        Res::Ok(found) => Ok(found.object.0.to_vec()),
        Res::Fail(status, _) => Err(format!("LOOKUP of f: {status:?}").into()),
    }
}

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().filter(|word| word != "--bench").collect();
    let [_, name, address, mount_port, export, pid, rest @ ..] = arguments.as_slice() else {
        println!("another NAME HOST:PORT MOUNT_PORT EXPORT PID [CALLS]: see the source");
        return Ok(());
    };
    let (address, pid): (SocketAddr, u32) = (address.parse()?, pid.parse()?);
    let calls = match rest.first() {
        Some(calls) => calls.parse::<usize>()?.max(640),
        None => CALLS,
    };
    let handle = file_handle(address, mount_port, export)?;
    println!("server  operation  depth  process_ns  wall_ns");
    for (operation, call) in operations(&handle)? {
        let kind = (call.as_slice(), reply_length(address, &call)?);
        for (depth, count) in [(64, calls), (1, calls / 10)] {
            let mut rounds = Vec::new();
            for _ in 0..ROUNDS {
                rounds.push(measured(address, || cpu_ns(pid), kind, (depth, count))?);
            }
            let (cpu, wall) = median(rounds);
            println!("{name:<7} {operation:<10} {depth:>5} {cpu:>11.0} {wall:>8.0}");
        }
    }
    Ok(())
}

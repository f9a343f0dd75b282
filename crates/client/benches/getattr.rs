//! CPU of the client per GETATTR: `cargo bench -p nfslab-client --bench getattr`.
//!
//! A server thread answers each call with canned attributes; what is measured is the CPU time of
//! the client's own thread (`CLOCK_THREAD_CPUTIME_ID`), system calls included, results decoded.
//! Beside it the floor: a bare epoll loop that sends as many NULL calls and takes their replies
//! without looking at them. All ways take turns in every round; medians over rounds, with the least
//! and the greatest. With an argument that is a number, so many calls per round.

use std::error::Error;
use std::hint::black_box;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::Instant;

use client::nfs3::{GetAttr, decode};
use client::record::RpcRecord;
use client::{Engine, MountOptions};
use measure::MonotonicClock;
use measure::clock::thread_cpu_ns;
use rustix::event::epoll;
use wire::Encode;
use wire::nfs3::{GETATTR3args, GETATTR3resok, Res, fattr3, nfs_fh3, nfstime3};
use wire::rpc::{OpaqueAuth, ReplyStatus, encode_call, encode_reply};

const HANDLE: [u8; 28] = [0x5a; 28];
const ROUNDS: usize = 7;
const CALLS: u64 = 200_000;
const DEPTHS: [usize; 2] = [64, 1];

/// A reply with its record mark; the transaction id stands at byte 4.
fn canned(body: impl FnOnce(&mut Vec<u8>) -> wire::Result<()>) -> wire::Result<Vec<u8>> {
    let mut out = Vec::new();
    let place = wire::record::begin_record(&mut out);
    encode_reply(&mut out, 0, &OpaqueAuth::NONE, ReplyStatus::Success)?;
    body(&mut out)?;
    wire::record::finish_record(&mut out, place, 0)?;
    Ok(out)
}

fn attributes(out: &mut Vec<u8>) -> wire::Result<()> {
    let time = nfstime3 {
        seconds: 1,
        nseconds: 2,
    };
    let obj_attributes = fattr3::plain_file(1 << 20, time);
    let result: wire::nfs3::GETATTR3res = Res::Ok(GETATTR3resok { obj_attributes });
    result.encode(out)
}

/// The big-endian word at `place`, as it stands.
fn word(bytes: &[u8], place: usize) -> Option<[u8; 4]> {
    bytes.get(place..)?.first_chunk::<4>().copied()
}

/// Answers GETATTR and NULL with as little work as can be, until the client has gone.
fn serve(mut stream: TcpStream) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let getattr = canned(attributes).ok()?;
    let null = canned(|_| Ok(())).ok()?;
    let mut input = vec![0; 1 << 18];
    let mut held = 0;
    let mut output = Vec::new();
    loop {
        match stream.read(&mut input[held..]).ok()? {
            0 => return None,
            bytes => held += bytes,
        }
        let mut at = 0;
        output.clear();
        while held - at >= 28 {
            let mark = u32::from_be_bytes(word(&input, at)?);
            let length = (mark & 0x7fff_ffff) as usize;
            if held - at < 4 + length {
                break;
            }
            let procedure = u32::from_be_bytes(word(&input, at + 24)?);
            let reply = if procedure == 1 { &getattr } else { &null };
            let start = output.len();
            output.extend_from_slice(reply);
            output[start + 4..start + 8].copy_from_slice(&word(&input, at + 4)?);
            at += 4 + length;
        }
        input.copy_within(at..held, 0);
        held -= at;
        stream.write_all(&output).ok()?;
    }
}

fn start_server() -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    std::thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            std::thread::spawn(move || serve(stream));
        }
    });
    Ok(address)
}

/// CPU and wall nanoseconds per call.
type Cost = (f64, f64);
type Outcome<T> = Result<T, Box<dyn Error>>;

fn per_call(calls: u64, run: impl FnOnce() -> Outcome<()>) -> Outcome<Cost> {
    let (cpu, wall) = (thread_cpu_ns(), Instant::now());
    run()?;
    let cpu = (thread_cpu_ns() - cpu) as f64;
    let wall = wall.elapsed().as_nanos() as f64;
    Ok((cpu / calls as f64, wall / calls as f64))
}

fn engine(address: SocketAddr, depth: usize) -> Outcome<Engine> {
    let text = format!("max_requests={depth}");
    let options = MountOptions::parse(&text)?;
    Ok(Engine::connect(address, &options, MonotonicClock)?)
}

fn getattrs(engine: &mut Engine, depth: usize, calls: u64) -> Outcome<()> {
    let arguments = GETATTR3args {
        object: nfs_fh3(&HANDLE),
    };
    let (mut submitted, mut ended, mut failed) = (0, 0, 0);
    while ended < calls {
        while submitted < calls && submitted - ended < depth as u64 {
            engine.submit_typed::<GetAttr>(&arguments, submitted)?;
            submitted += 1;
        }
        engine.poll(None, &mut |end| {
            failed += u64::from(black_box(decode::<GetAttr>(end.result)).is_err());
            ended += 1;
        })?;
    }
    assert_eq!(failed, 0);
    Ok(())
}

/// The floor: `depth` NULL calls out, their bytes in, nothing looked at.
fn bare(stream: &mut TcpStream, depth: usize, calls: u64) -> Outcome<()> {
    let mut call = Vec::new();
    let place = wire::record::begin_record(&mut call);
    let none = OpaqueAuth::NONE;
    encode_call(&mut call, 1, [wire::programs::NFS, 3, 0], &none, &none)?;
    wire::record::finish_record(&mut call, place, 0)?;
    let batch = call.repeat(depth);
    let reply_bytes = canned(|_| Ok(()))?.len();
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let data = epoll::EventData::new_u64(0);
    epoll::add(&epoll, stream.as_fd(), data, epoll::EventFlags::IN)?;
    let mut events = [epoll::Event {
        flags: epoll::EventFlags::empty(),
        data,
    }; 4];
    let mut input = vec![0; 1 << 16];
    let (mut sent, mut bytes_in) = (0_u64, 0);
    while sent < calls {
        stream.write_all(&batch)?;
        sent += depth as u64;
        while bytes_in < sent as usize * reply_bytes {
            epoll::wait(&epoll, &mut events, None)?;
            bytes_in += stream.read(&mut input)?;
        }
    }
    Ok(())
}

fn main() -> Outcome<()> {
    let calls = std::env::args()
        .find_map(|a| a.parse().ok())
        .unwrap_or(CALLS);
    let address = start_server()?;
    let names = [
        "bare NULL, epoll",
        "GETATTR, counters",
        "GETATTR, every call",
    ];
    println!("client thread's CPU per call in us: median (least to greatest); wall: median");
    let mut drained: Vec<RpcRecord> = Vec::new();
    for depth in DEPTHS {
        let calls = if depth == 1 { calls / 10 } else { calls } / 64 * 64;
        let mut stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        let mut plain = engine(address, depth)?;
        let mut recorded = engine(address, depth)?;
        let reader = recorded.record_every_call(client::record::ring::DEFAULT_RING_RECORDS);
        let mut costs: [Vec<Cost>; 3] = Default::default();
        for round in 0..=ROUNDS {
            for turn in 0..3 {
                let way = (round + turn) % 3;
                let cost = match way {
                    0 => per_call(calls, || bare(&mut stream, depth, calls))?,
                    1 => per_call(calls, || getattrs(&mut plain, depth, calls))?,
                    _ => per_call(calls, || getattrs(&mut recorded, depth, calls))?,
                };
                if round > 0 {
                    costs[way].push(cost); // round 0 warms up
                }
            }
            drained.clear();
            assert_eq!(reader.drain(&mut drained), 0, "records were lost");
        }
        for (name, mut costs) in names.iter().zip(costs) {
            costs.sort_by(|a, b| a.0.total_cmp(&b.0));
            let (least, most) = (costs[0].0, costs[costs.len() - 1].0);
            let cpu = costs[costs.len() / 2].0;
            costs.sort_by(|a, b| a.1.total_cmp(&b.1));
            let wall = costs[costs.len() / 2].1;
            let us = |ns: f64| ns / 1000.0;
            println!(
                "depth {depth:>2}  {name:<20} {:.3} ({:.3} to {:.3})  wall {:.3}",
                us(cpu),
                us(least),
                us(most),
                us(wall)
            );
        }
        let counters = plain.counters();
        println!(
            "depth {depth:>2}  calls per write {:.1}",
            counters.sends as f64 / counters.writes as f64
        );
    }
    Ok(())
}

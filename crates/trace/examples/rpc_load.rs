//! A load for `benches/capture_cost.py`: NFSv3 GETATTRs over loopback at a fixed rate.
//!
//! `rpc_load TRANSPORT RATE SECONDS CLIENTS OUTSTANDING` (TRANSPORT is tcp or udp) prints its
//! port, waits for a line on standard input, exchanges calls, and prints how many, in how many
//! seconds, with how many seconds of CPU (user and system of the whole process: both ends, and
//! what the kernel does for them in their time, which on loopback is all of the network's work),
//! and how many calls were sent more than one period late.
//!
//! Each client is a thread with a socket of its own and one of the server's threads at the other
//! end. It sends OUTSTANDING calls one by one, waits for their replies, and sleeps until the next
//! are due; one that is late catches up. Every call and reply is a packet of its own.

use std::error::Error;
use std::io::{self, BufRead, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

type Failed = Box<dyn Error + Send + Sync>;

const LAST_FRAGMENT: u32 = 0x8000_0000;
const DATAGRAM_MOST: usize = 1024;
const CLIENT_SHIFT: u32 = 26;
/// Ends a server's thread: shorter than any call.
const END: &[u8] = b"end";

/// What one client did.
struct Done {
    calls: u64,
    late: u64,
}

#[derive(Clone, Copy)]
struct Plan {
    /// Xid of a client's first call: no two clients of one machine use the same.
    first_xid: u32,
    period: Duration,
    length: Duration,
    outstanding: u32,
}

impl Plan {
    fn xid(&self, number: u64) -> u32 {
        self.first_xid.wrapping_add(number as u32)
    }
}

fn words(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// RFC 5531 and RFC 1813: GETATTR with `AUTH_SYS` and a file handle of 32 bytes; xid first.
fn call() -> Vec<u8> {
    let mut made = words(&[0, 0, 2, 100_003, 3, 1, 1, 28, 0, 8]);
    made.extend(b"loopback");
    made.extend(words(&[0, 0, 0, 0, 0, 32]));
    made.extend(b"file-handle-of-the-one-file-here");
    made
}

/// Accepted, `SUCCESS`, `NFS3_OK` and 84 bytes of attributes; xid first.
fn reply() -> Vec<u8> {
    let mut made = words(&[0, 1, 0, 0, 0, 0, 0]);
    made.extend(words(&[1, 0o644, 1, 0, 0]));
    made.extend(words(&[0; 16]));
    made
}

/// With the record mark of RFC 5531 section 11 in front.
fn record(message: &[u8]) -> Vec<u8> {
    let mut made = (LAST_FRAGMENT | message.len() as u32)
        .to_be_bytes()
        .to_vec();
    made.extend(message);
    made
}

/// Sends a client's calls when they are due; `exchange` sends those numbered and takes the replies.
fn pace(
    plan: Plan,
    mut exchange: impl FnMut(std::ops::Range<u64>) -> io::Result<()>,
) -> io::Result<Done> {
    let (began, mut due) = (Instant::now(), Duration::ZERO);
    let mut done = Done { calls: 0, late: 0 };
    while due < plan.length {
        let now = began.elapsed();
        if let Some(wait) = due.checked_sub(now) {
            thread::sleep(wait);
        } else if now > due + plan.period {
            done.late += u64::from(plan.outstanding);
        }
        let last = done.calls + u64::from(plan.outstanding);
        exchange(done.calls..last)?;
        done.calls = last;
        due += plan.period;
    }
    Ok(done)
}

fn call_tcp(port: u16, plan: Plan) -> Result<Done, Failed> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_nodelay(true)?;
    let mut message = record(&call());
    let mut replies = vec![0; record(&reply()).len() * plan.outstanding as usize];
    Ok(pace(plan, |numbers| {
        for number in numbers {
            message[4..8].copy_from_slice(&plan.xid(number).to_be_bytes());
            stream.write_all(&message)?;
        }
        stream.read_exact(&mut replies)
    })?)
}

fn serve_tcp(mut stream: TcpStream) -> Result<(), Failed> {
    stream.set_nodelay(true)?;
    let (mut message, mut answer) = (record(&call()), record(&reply()));
    loop {
        match stream.read_exact(&mut message) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            other => other?,
        }
        answer[4..8].copy_from_slice(&message[4..8]);
        stream.write_all(&answer)?;
    }
}

fn call_udp(port: u16, plan: Plan) -> Result<Done, Failed> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.connect((Ipv4Addr::LOCALHOST, port))?;
    socket.set_read_timeout(Some(Duration::from_secs(60)))?;
    let (mut message, mut buffer) = (call(), [0; DATAGRAM_MOST]);
    let done = pace(plan, |numbers| {
        for number in numbers.clone() {
            message[..4].copy_from_slice(&plan.xid(number).to_be_bytes());
            socket.send(&message)?;
        }
        numbers.into_iter().try_for_each(|_| {
            socket.recv(&mut buffer)?;
            Ok(())
        })
    })?;
    socket.send(END)?;
    Ok(done)
}

fn serve_udp(socket: &UdpSocket) -> Result<(), Failed> {
    let (mut buffer, mut answer) = ([0; DATAGRAM_MOST], reply());
    loop {
        let (length, from) = socket.recv_from(&mut buffer)?;
        if length <= END.len() {
            return Ok(());
        }
        answer[..4].copy_from_slice(&buffer[..4]);
        socket.send_to(&answer, from)?;
    }
}

/// User and system time of this process, in seconds.
fn cpu_s() -> f64 {
    // SAFETY: plain numbers, for which zeroes are a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is a live rusage, and RUSAGE_SELF always exists.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
    let of = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    of(usage.ru_utime) + of(usage.ru_stime)
}

/// Waits for the word to begin, runs one thread for each client, adds up what they did.
fn run(
    port: u16,
    clients: u32,
    plan: Plan,
    client: fn(u16, Plan) -> Result<Done, Failed>,
) -> Result<(), Failed> {
    println!("{port}");
    io::stdin().lock().read_line(&mut String::new())?;
    // SAFETY: no pointers; threads made from here on inherit it, so that sleeps end in time.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_usize) };
    let (began, cpu_before_s) = (Instant::now(), cpu_s());
    let threads: Vec<_> = (0..clients)
        .map(|number| {
            let first_xid = number << CLIENT_SHIFT;
            let plan = Plan { first_xid, ..plan };
            thread::spawn(move || client(port, plan))
        })
        .collect();
    let mut whole = Done { calls: 0, late: 0 };
    for thread in threads {
        let done = thread
            .join()
            .map_err(|_| "a client's thread ended badly")??;
        whole.calls += done.calls;
        whole.late += done.late;
    }
    let (took, used_s) = (began.elapsed().as_secs_f64(), cpu_s() - cpu_before_s);
    println!("{} {took:.6} {used_s:.6} {}", whole.calls, whole.late);
    Ok(())
}

fn told() -> Result<(), Failed> {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let [transport, rate, seconds, clients, outstanding] = given.as_slice() else {
        return Err("rpc_load TRANSPORT RATE SECONDS CLIENTS OUTSTANDING".into());
    };
    let (rate, seconds): (f64, f64) = (rate.parse()?, seconds.parse()?);
    let (clients, outstanding): (u32, u32) = (clients.parse()?, outstanding.parse()?);
    let plan = Plan {
        first_xid: 0,
        period: Duration::from_secs_f64(f64::from(clients * outstanding) / rate),
        length: Duration::from_secs_f64(seconds),
        outstanding,
    };
    if transport == "udp" {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = socket.local_addr()?.port();
        for _ in 0..clients {
            let end = socket.try_clone()?;
            thread::spawn(move || serve_udp(&end));
        }
        return run(port, clients, plan, call_udp);
    }
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = listener.local_addr()?.port();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || serve_tcp(stream));
        }
    });
    run(port, clients, plan, call_tcp)
}

fn main() -> ExitCode {
    match told() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rpc_load: {error}");
            ExitCode::FAILURE
        }
    }
}

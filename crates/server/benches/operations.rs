//! CPU of the server's loop thread per operation, beside a bare epoll echo of RPC NULL.
//!
//! `cargo bench -p nfslab-server --bench operations`: memory and null store, GETATTR and READ of
//! 4 KiB, 64 calls outstanding and one. The client is a sliding window on one connection in the
//! main thread. CPU is CLOCK_THREAD_CPUTIME_ID of the server's thread over the timed part alone;
//! rounds of echo and server alternate, the median of each is printed. A debug build says so.

mod load;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::event::epoll;
use server::net::{RunningServer, ServerOptions};
use server::protocol::{Export, ExportOptions, Received, Service, receive};
use server::store::memory::MemoryStore;
use server::store::null::NullStore;
use server::store::{Payload, Store};
use server::{Caller, HandleKey};
use wire::Encode;
use wire::nfs3::{createhow3, nfsstat3, sattr3, stable_how};
use wire::rpc::{OpaqueAuth, encode_call};

use load::{CALLS, Outcome, ROUNDS, measured, median, operations};

/// The reply to a NULL: a mark and 24 bytes.
const ECHO_REPLY_BYTES: usize = 28;

/// An epoll loop that answers each call of `call_bytes` with `reply_bytes` bytes.
fn echo(
    listener: TcpListener,
    call_bytes: usize,
    reply_bytes: usize,
    cpu: Arc<AtomicU64>,
) -> std::io::Result<()> {
    let (mut stream, _) = listener.accept()?;
    stream.set_nodelay(true)?;
    let epoll: OwnedFd = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let data = epoll::EventData::new_u64(0);
    epoll::add(&epoll, &stream, data, epoll::EventFlags::IN)?;
    let mut events: Vec<epoll::Event> = Vec::with_capacity(16);
    let mut buffer = vec![0; 256 << 10];
    let replies = vec![0; 1024 * reply_bytes];
    let mut partial = 0;
    loop {
        events.clear();
        epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut events), None)?;
        let taken = stream.read(&mut buffer)?;
        if taken == 0 {
            return Ok(());
        }
        partial += taken;
        let whole = partial / call_bytes;
        partial %= call_bytes;
        stream.write_all(&replies[..whole * reply_bytes])?;
        cpu.store(measure::clock::thread_cpu_ns(), Ordering::Release);
    }
}

fn main() -> Outcome<()> {
    if cfg!(debug_assertions) {
        println!("debug build: these figures mean nothing");
    }
    let given = std::env::args().find_map(|argument| argument.parse().ok());
    let calls: usize = given.unwrap_or(CALLS).max(640);
    let peer: SocketAddr = "127.0.0.1:1".parse()?;
    let admin = Caller::with_ids(peer, 0, 0);
    let memory = MemoryStore::new(1 << 28, 1, &admin);
    let how = createhow3::UNCHECKED(sattr3::UNCHANGED);
    let failed = |status: nfsstat3| format!("the store says {status:?}");
    let created = memory.create(&admin, (&memory.root(), b"f"), &how);
    let file = created.map_err(|e| failed(e.0))?.0;
    let data = vec![7; 1 << 20];
    let unstable = stable_how::UNSTABLE;
    memory
        .write(&admin, &file.handle, 0, &data, unstable)
        .map_err(|e| failed(e.0))?;
    let null = NullStore::new(1 << 30);
    let found = null.lookup(&admin, (&null.root(), b"f"));
    let null_file = found.map_err(|e| failed(e.0))?.0;
    let stores: [(&str, Arc<dyn Store>, server::Handle); 2] = [
        ("memory", Arc::new(memory), file.handle),
        ("null", Arc::new(null), null_file.handle),
    ];
    println!("store   operation  depth  server_ns  echo_ns  ratio  wall_ns  echo_wall_ns  ratio");
    for (name, store, handle) in stores {
        let key = HandleKey::new(&[1; 16]);
        let export = Export::new("/", store, ExportOptions::default());
        let service = Arc::new(Service::new(vec![export], key));
        // The export's number is the service's own: a handle comes from MNT as for any client.
        let sealed = sealed_like(&service, &key, &handle)?;
        for (operation, call) in operations(&sealed)? {
            for run in [(64, calls), (1, calls / 10)] {
                println!(
                    "{name:<7} {operation:<10} {}",
                    compared(&service, &call, run)?
                );
            }
        }
    }
    Ok(())
}

/// Alternates echo and server; a line of the medians.
fn compared(service: &Arc<Service>, call: &[u8], run: (usize, usize)) -> Outcome<String> {
    let reply_bytes = reply_length(service, call);
    let (mut servers, mut echoes) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let call_length = call.len();
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let cpu = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&cpu);
        let thread = std::thread::spawn(move || echo(listener, call_length, ECHO_REPLY_BYTES, cpu));
        let now = || Some(counted.load(Ordering::Acquire));
        echoes.push(measured(address, now, (call, ECHO_REPLY_BYTES), run)?);
        thread.join().map_err(|_| "the echo panicked")??;
        let listen = vec!["127.0.0.1:0".parse()?];
        let options = ServerOptions {
            listen,
            ..ServerOptions::default()
        };
        let server = RunningServer::start(Arc::clone(service), options)?;
        let now = || server.loop_cpu_ns();
        servers.push(measured(
            server.addresses()[0],
            now,
            (call, reply_bytes),
            run,
        )?);
        server.stop()?;
    }
    let ((cpu, wall), (echo_cpu, echo_wall)) = (median(servers), median(echoes));
    let (depth, _) = run;
    Ok(format!(
        "{depth:>5} {cpu:>10.0} {echo_cpu:>8.0} {:>6.2} {wall:>8.0} {echo_wall:>13.0} {:>6.2}",
        cpu / echo_cpu,
        wall / echo_wall
    ))
}

fn ask(service: &Service, message: &[u8]) -> (Vec<u8>, usize) {
    let (mut head, mut payload) = (Vec::new(), Payload::new());
    if let Received::Call(call) = receive(message) {
        let peer = SocketAddr::from(([127, 0, 0, 1], 1));
        service.answer(peer, &call, &mut head, &mut payload);
    }
    (head, payload.len())
}

/// Length of the reply with its mark; the call must succeed.
fn reply_length(service: &Service, call: &[u8]) -> usize {
    let (head, payload) = ask(service, &call[4..]);
    assert_eq!(&head[24..28], &[0; 4], "NFS3_OK");
    4 + head.len() + payload
}

/// The handle as a client holds it: the root's from MNT tells the export's number.
fn sealed_like(service: &Service, key: &HandleKey, handle: &server::Handle) -> Outcome<Vec<u8>> {
    let mut call = Vec::new();
    let none = OpaqueAuth::NONE;
    encode_call(&mut call, 1, [100_005, 3, 1], &none, &none)?;
    wire::mount::dirpath(b"/").encode(&mut call)?;
    let (reply, _) = ask(service, &call);
    let length = u32::from_be_bytes(reply[28..32].try_into()?) as usize;
    let opened = key.open(&reply[32..32 + length]);
    let (export, _) = opened.map_err(|status| format!("MNT: {status:?}"))?;
    Ok(key.seal(export, handle).as_bytes().to_vec())
}

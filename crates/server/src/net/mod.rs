//! The network: one loop thread with epoll over TCP and UDP, and how to start and stop it.
//!
//! The loop takes many calls from one read and sends many replies with one `writev`. Stores that
//! do not block run in it; the others on worker threads ([`pool`]), but for calls that are quick
//! ([`at_once`]). Back-pressure: a connection whose replies are not taken, or that has too much in
//! work, is not read any more until it is; bytes already read stay in its buffer. A thread waits in
//! epoll for sockets, an eventfd (stop, finished work) and the model's next instant.
//!
//! Decisions: nothing but loopback may connect unless addresses are allowed, and a server that
//! listens elsewhere without an allow list refuses to start. Another user's socket is closed before
//! it is read ([`access`]). Bounds: the constants below.

mod access;
mod at_once;
mod connection;
mod counters;
mod event_loop;
mod fair_queue;
mod memory;
mod outgoing;
mod pending;
mod pool;

use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::net::sockopt;

use crate::model::{ModelDescription, ModelError};
use crate::protocol::Service;
use crate::record::Recorder;
pub use access::{AllowedClient, MAX_ALLOWED, NoNetwork, Secure, is_allowed};
pub use counters::{Counters, Counts};
use event_loop::Loop;
pub use memory::{DEFAULT_MEMORY_BYTES, GUARANTEED_BYTES, MAX_CONNECTION_BYTES, MIN_MEMORY_BYTES};
pub use pool::MAX_THREADS;

/// Connections at a time, with those closed ones whose calls are still in work; one more ends
/// another one ([`event_loop`]) or, if all have calls in work, is closed (a client comes back).
pub const MAX_CONNECTIONS: usize = 1024;
/// Largest request: a WRITE of the largest size with its surroundings.
pub const MAX_REQUEST_BYTES: u32 = crate::store::WRITE_BYTES_MAX + wire::limits::MAX_HEADER_BYTES;
/// Calls of one connection that are in work (on workers or in the model).
pub const MAX_OUTSTANDING: usize = 1024;
/// Datagrams in work; more are dropped and counted.
pub const MAX_DATAGRAMS: usize = 1024;
/// What they and their replies may hold, bytes; likewise.
pub const MAX_DATAGRAMS_BYTES: usize = 16 << 20;
/// Largest UDP payload (RFC 768 with IPv4's header).
pub const MAX_DATAGRAM_BYTES: usize = 65_507;
/// What the kernel may hold of datagrams that were not read yet, bytes.
pub const SOCKET_BUFFER_BYTES: usize = 8 << 20;
/// What is read from a socket at a time, bytes.
pub const READ_BUFFER_BYTES: usize = 256 << 10;
/// How long a look waits that waits for nothing.
const AT_ONCE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 0,
};

/// How to serve.
#[derive(Debug, Default)]
pub struct ServerOptions {
    /// Where to listen; port 0 is any free one. TCP and UDP get the same port.
    pub listen: Vec<SocketAddr>,
    /// True to serve UDP too.
    pub udp: bool,
    /// Who may connect besides loopback.
    pub allow: Vec<AllowedClient>,
    /// Whose sockets there may.
    pub secure: Secure,
    /// Worker threads for stores that may wait for a device (0 means 8, as a kernel's nfsd).
    pub threads: usize,
    /// What all connections together may hold for requests and replies, bytes (0 means
    /// [`DEFAULT_MEMORY_BYTES`]; at least [`MIN_MEMORY_BYTES`]).
    pub client_memory_bytes: usize,
    /// Causes to plant; `None` costs nothing.
    pub model: Option<ModelDescription>,
    /// Where records of calls are kept while it is on.
    pub recorder: Arc<Recorder>,
}

/// Why a server does not start or ended badly.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// Nothing to listen on.
    #[error("no address to listen on: give at least one, for instance 127.0.0.1:0")]
    NoAddress,
    /// Reachable from elsewhere without an allow list.
    #[error("{0} is reachable from other machines: state who may connect, or listen on 127.0.0.1")]
    OpenToAll(SocketAddr),
    /// More than [`MAX_ALLOWED`].
    #[error("more than {MAX_ALLOWED} allowed clients")]
    TooManyAllowed,
    /// Less than the guarantees need.
    #[error(
        "clients need {MIN_MEMORY_BYTES} bytes of memory together at least, {0} were given: every \
         connection has {GUARANTEED_BYTES} of its own"
    )]
    LittleMemory(usize),
    /// The model cannot work.
    #[error("service model: {0}")]
    Model(#[from] ModelError),
    /// A socket could not be made.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The operating system refused something else.
    #[error("server: {0}")]
    System(#[from] io::Error),
    /// The loop thread panicked.
    #[error("the server's loop ended by a defect; its message is on standard error")]
    Defect,
}

/// Default number of worker threads (`nfsd`'s default of 8).
pub const DEFAULT_THREADS: usize = 8;

/// A server that runs until it is stopped or dropped.
#[derive(Debug)]
pub struct RunningServer {
    addresses: Vec<SocketAddr>,
    stop: Arc<AtomicBool>,
    wake: Arc<OwnedFd>,
    counters: Arc<Counters>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

/// Makes a thread that waits for this eventfd look up.
pub(crate) fn wake(fd: &OwnedFd) {
    // A full counter (EAGAIN) wakes as well; nothing else can fail.
    let _ = rustix::io::write(fd, &1u64.to_ne_bytes());
}

struct Sockets {
    tcp: Vec<TcpListener>,
    udp: Vec<UdpSocket>,
}

fn bind(options: &ServerOptions) -> Result<(Sockets, Vec<SocketAddr>), ServerError> {
    let mut sockets = Sockets {
        tcp: Vec::new(),
        udp: Vec::new(),
    };
    let mut addresses = Vec::new();
    for &address in &options.listen {
        if !address.ip().to_canonical().is_loopback() && options.allow.is_empty() {
            return Err(ServerError::OpenToAll(address));
        }
        let failed = |source| ServerError::Listen { address, source };
        let (listener, datagrams) = bind_both(address, options.udp).map_err(failed)?;
        addresses.push(listener.local_addr().map_err(failed)?);
        sockets.tcp.push(listener);
        sockets.udp.extend(datagrams);
    }
    if addresses.is_empty() {
        return Err(ServerError::NoAddress);
    }
    Ok((sockets, addresses))
}

/// TCP and, if asked, UDP on the same port; a free port for TCP may be taken for UDP: try again.
fn bind_both(address: SocketAddr, udp: bool) -> io::Result<(TcpListener, Option<UdpSocket>)> {
    const TRIES: usize = 16;
    let mut attempt = 0;
    loop {
        attempt += 1;
        let listener = TcpListener::bind(address)?;
        // The library's 128 are soon used up; whoever then comes waits a second for its next try.
        rustix::net::listen(&listener, MAX_CONNECTIONS as i32)?;
        listener.set_nonblocking(true)?;
        if !udp {
            return Ok((listener, None));
        }
        match UdpSocket::bind(listener.local_addr()?) {
            Ok(socket) => {
                socket.set_nonblocking(true)?;
                make_room(&socket);
                return Ok((listener, Some(socket)));
            }
            Err(error) if address.port() != 0 || attempt == TRIES => return Err(error),
            Err(_) => {}
        }
    }
}

/// For the calls of several clients at once, as Linux's nfsd has it: what finds no room is lost,
/// and the client sends it again after a timeout. Beyond `rmem_max` only root gets it.
fn make_room(socket: &UdpSocket) {
    for size in [
        sockopt::set_socket_recv_buffer_size_force,
        sockopt::set_socket_recv_buffer_size,
    ] {
        if size(socket, SOCKET_BUFFER_BYTES).is_ok() {
            break;
        }
    }
}

/// Threads started from now on share the allocator's heap: in a heap of its own each keeps what was
/// given back, and after two bursts of other calls the process has nearly twice what is bounded.
fn share_the_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes no pointer, and is safe to call from any thread (mallopt(3)).
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

impl RunningServer {
    /// Binds the sockets and starts the loop thread.
    pub fn start(service: Arc<Service>, options: ServerOptions) -> Result<Self, ServerError> {
        if options.allow.len() > MAX_ALLOWED {
            return Err(ServerError::TooManyAllowed);
        }
        if (1..MIN_MEMORY_BYTES).contains(&options.client_memory_bytes) {
            return Err(ServerError::LittleMemory(options.client_memory_bytes));
        }
        if let Some(model) = &options.model {
            model.check()?;
            if model.disk.is_some() {
                service.commit_as_asked();
            }
        }
        let (sockets, addresses) = bind(&options)?;
        share_the_heap();
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let wake = Arc::new(eventfd(0, flags).map_err(io::Error::from)?);
        let stop = Arc::new(AtomicBool::new(false));
        let counters = Arc::new(Counters::default());
        let pool = if service.may_block() {
            let threads = match options.threads {
                0 => DEFAULT_THREADS,
                threads => threads,
            };
            let (service, wake) = (Arc::clone(&service), Arc::clone(&wake));
            Some(pool::Pool::start(threads, service, wake)?)
        } else {
            None
        };
        let mut event_loop = Loop::new(
            service,
            options,
            sockets,
            pool,
            Arc::clone(&wake),
            Arc::clone(&counters),
        )?;
        let stopping = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("nfs-loop".to_owned())
            .spawn(move || event_loop.run(&stopping))?;
        Ok(RunningServer {
            addresses,
            stop,
            wake,
            counters,
            thread: Some(thread),
        })
    }

    /// Where it listens, in the order of the options.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// False once its loop has ended, by `stop` or by a defect.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.thread
            .as_ref()
            .is_some_and(|thread| !thread.is_finished())
    }

    /// What it counted so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counters.read()
    }

    /// CPU time of the loop thread so far, nanoseconds; `None` after the end.
    #[must_use]
    pub fn loop_cpu_ns(&self) -> Option<u64> {
        use std::os::unix::thread::JoinHandleExt;
        let thread = self
            .thread
            .as_ref()
            .filter(|thread| !thread.is_finished())?;
        let mut clock = 0;
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: the thread is neither joined nor detached while the handle lives, so its
        // pthread_t is valid; both pointers are to locals.
        let failed = unsafe {
            libc::pthread_getcpuclockid(thread.as_pthread_t(), &raw mut clock) != 0
                || libc::clock_gettime(clock, &raw mut time) != 0
        };
        if failed {
            return None;
        }
        Some(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
    }

    /// Stops: calls in work end, what the sockets take at once is sent, all is closed.
    pub fn stop(mut self) -> Result<(), ServerError> {
        self.end()
    }

    /// As [`RunningServer::stop`], with what was counted until the very end.
    pub fn finish(mut self) -> (Result<(), ServerError>, Counts) {
        let ended = self.end();
        (ended, self.counts())
    }

    fn end(&mut self) -> Result<(), ServerError> {
        self.stop.store(true, Ordering::Release);
        wake(&self.wake);
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(result)) => Ok(result?),
            Some(Err(_)) => Err(ServerError::Defect),
            None => Ok(()),
        }
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        // Whoever wants to know how it ended calls `stop`.
        let _ = self.end();
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn datagrams_find_as_much_room_as_the_kernel_gives() {
        let (_, socket) = bind_both(([127, 0, 0, 1], 0).into(), true).unwrap();
        let room = sockopt::socket_recv_buffer_size(socket.unwrap()).unwrap();
        let most = fs::read_to_string("/proc/sys/net/core/rmem_max").unwrap();
        let most: usize = most.trim().parse().unwrap();
        // socket(7): the kernel doubles what was asked.
        assert!(room >= 2 * SOCKET_BUFFER_BYTES.min(most), "{room}");
    }
}

//! A small web server for the workload: the file set by path, dynamic pages, a log of POSTs.
//!
//! Purpose: the workload runs without a web server being installed; behind one, the same code makes
//! the dynamic part. HTTP is hyper's, on tokio.
//!
//! Flow: a connection's task reads a request → `service` decides → files are opened beneath the
//! root and read in pieces (`body`) → logs (`logs`) and counts.
//!
//! Decisions: reads of files go to tokio's pool for what blocks: a document on a network file
//! system may take seconds, and a worker that waits for it would hold up every other connection.
//! It costs some 10 us a piece of 64 KiB. Paths are looked up by openat2(2) beneath the root, so
//! that neither `..` nor a symbolic link leads out of it.
//!
//! Limits: Linux 5.6; HTTP/1 without TLS; [`MAX_CONNECTIONS`].

mod body;
mod limit;
mod logs;
mod service;

use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use hyper_util::rt::{TokioIo, TokioTimer};
use measure::peer::{Carrier, Peers};
use rustix::fs::{Mode, OFlags, ResolveFlags};
use serde::{Deserialize, Serialize};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, Semaphore};

use crate::error::WebError;
use crate::fileset::errno;
use crate::page::{KINDS, Kind};
use limit::{Bandwidth, Limited};
use logs::{AccessLog, PostLogWriter};
use service::Service;

/// Most connections at once; further ones wait to be accepted.
pub const MAX_CONNECTIONS: usize = 1 << 15;
/// Most worker threads, and most threads that read files.
const MAX_THREADS: usize = 512;
/// How long a client may take for a request's head, or be idle.
const HEAD_TIMEOUT: Duration = Duration::from_secs(120);
/// How long the end waits for what is under way.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// What to serve, and how.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerConfig {
    /// IP address and port; port 0: any free one.
    pub listen: SocketAddr,
    /// Who may connect; empty: anybody.
    #[serde(default)]
    pub allow: Vec<IpAddr>,
    /// Whose sockets on this machine may connect, by user id; empty: anybody's.
    #[serde(default)]
    pub users: Vec<u32>,
    /// The document root.
    pub root: PathBuf,
    /// Where POSTs are recorded; without it they are refused with 404.
    #[serde(default)]
    pub post_log: Option<PathBuf>,
    /// Whether a POST is answered only after fdatasync(2) of its line.
    #[serde(default)]
    pub sync_posts: bool,
    /// Where requests are logged, in the combined format.
    #[serde(default)]
    pub access_log: Option<PathBuf>,
    /// Threads that serve connections.
    #[serde(default = "two")]
    pub workers: usize,
    /// Most threads that read files.
    #[serde(default = "sixty_four")]
    pub readers: usize,
    /// Bound of all that is sent, heads included.
    #[serde(default)]
    pub bandwidth_bytes_per_s: Option<u64>,
}

const fn two() -> usize {
    2
}
const fn sixty_four() -> usize {
    64
}

/// What a server counted so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[allow(missing_docs)]
pub struct ServerCounts {
    pub connections: u64,
    pub static_get: u64,
    pub dynamic_get: u64,
    pub cgi_get: u64,
    pub ad_get: u64,
    /// POSTs answered with 200: all of them are in the log.
    pub post: u64,
    /// Lines of the log, those of POSTs included whose answer could not be sent.
    pub posts_written: u64,
    /// Bytes of bodies handed to connections.
    pub body_bytes: u64,
    pub bad_request: u64,
    pub not_found: u64,
    pub method_not_allowed: u64,
    /// Errors of files and logs (500, or a body that ends early).
    pub io_errors: u64,
    /// Lines of the access log that could not be written.
    pub access_log_errors: u64,
}

/// The same, counted by many.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub connections: AtomicU64,
    pub kinds: [AtomicU64; KINDS],
    pub posts_written: AtomicU64,
    pub body_bytes: AtomicU64,
    pub bad_request: AtomicU64,
    pub not_found: AtomicU64,
    pub method_not_allowed: AtomicU64,
    pub io_errors: AtomicU64,
    pub access_log_errors: AtomicU64,
}

pub(crate) fn count(counter: &AtomicU64, more: u64) {
    counter.fetch_add(more, Ordering::Relaxed);
}

impl Counters {
    fn read(&self) -> ServerCounts {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let kind = |kind: Kind| get(&self.kinds[kind as usize]);
        ServerCounts {
            connections: get(&self.connections),
            static_get: kind(Kind::StaticGet),
            dynamic_get: kind(Kind::DynamicGet),
            cgi_get: kind(Kind::CgiGet),
            ad_get: kind(Kind::AdGet),
            post: kind(Kind::Post),
            posts_written: get(&self.posts_written),
            body_bytes: get(&self.body_bytes),
            bad_request: get(&self.bad_request),
            not_found: get(&self.not_found),
            method_not_allowed: get(&self.method_not_allowed),
            io_errors: get(&self.io_errors),
            access_log_errors: get(&self.access_log_errors),
        }
    }
}

/// A server that runs until it is stopped or dropped.
#[derive(Debug)]
pub struct WebServer {
    address: SocketAddr,
    counters: Arc<Counters>,
    stop: Arc<Notify>,
    ended: Arc<(Mutex<bool>, Condvar)>,
    thread: Mutex<Option<std::thread::JoinHandle<()>>>,
}

/// Tells those that wait that the server's thread has ended, however it did.
struct Ending(Arc<(Mutex<bool>, Condvar)>);

impl Drop for Ending {
    fn drop(&mut self) {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.1.notify_all();
    }
}

/// Who may connect.
struct Access {
    allow: Vec<IpAddr>,
    users: Vec<u32>,
    peers: Peers,
}

impl Access {
    fn admits(&self, stream: &TcpStream, peer: SocketAddr) -> bool {
        let address = peer.ip().to_canonical();
        if !self.allow.is_empty() && !self.allow.contains(&address) {
            return false;
        }
        let own = stream.local_addr();
        let user = || own.map_or(None, |own| self.peers.uid(Carrier::Tcp, peer, own));
        self.users.is_empty()
            || user().map_or(!address.is_loopback(), |user| self.users.contains(&user))
    }
}

/// What its thread works with.
struct Running {
    runtime: tokio::runtime::Runtime,
    listener: std::net::TcpListener,
    access: Access,
    service: Arc<Service>,
    bandwidth: Option<Arc<Bandwidth>>,
    posts: Option<PostLogWriter>,
}

impl WebServer {
    /// Starts to serve; it listens when this returns.
    ///
    /// # Errors
    /// [`WebError`] for folders, logs, the address, or threads that cannot be had.
    pub fn start(config: &ServerConfig) -> Result<Self, WebError> {
        let counters = Arc::new(Counters::default());
        let running = prepare(config, &counters)?;
        let address = running.listener.local_addr();
        let address = address.map_err(|error| WebError::system("no address", error))?;
        let (stop, ended) = (Arc::new(Notify::new()), Arc::default());
        let (stopping, ending) = (Arc::clone(&stop), Ending(Arc::clone(&ended)));
        let body = move || {
            measure::thread::leave_signals_to_others();
            serve(running, &stopping);
            drop(ending);
        };
        let thread = std::thread::Builder::new()
            .name("web-server".to_owned())
            .spawn(body);
        let thread = thread.map_err(|error| WebError::system("no thread for the server", error))?;
        Ok(WebServer {
            address,
            counters,
            stop,
            ended,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it counted so far.
    #[must_use]
    pub fn counts(&self) -> ServerCounts {
        self.counters.read()
    }

    /// Whether it still serves.
    #[must_use]
    pub fn is_running(&self) -> bool {
        !self.wait(Duration::ZERO)
    }

    /// Waits for the end, at most so long; whether it has come.
    #[must_use]
    pub fn wait(&self, timeout: Duration) -> bool {
        let ended = self.ended.0.lock().unwrap_or_else(PoisonError::into_inner);
        let wait = self
            .ended
            .1
            .wait_timeout_while(ended, timeout, |ended| !*ended);
        wait.is_ok_and(|(ended, _)| *ended)
    }

    /// Stops it, if it runs: replies under way may be cut off, logs are written out and synced.
    pub fn stop(&self) -> ServerCounts {
        self.stop.notify_one();
        let thread = self.thread.lock().map(|mut thread| thread.take());
        if let Ok(Some(thread)) = thread {
            let _ = thread.join(); // a panic is on standard error
        }
        self.counts()
    }
}

impl Drop for WebServer {
    fn drop(&mut self) {
        self.stop();
    }
}

fn prepare(config: &ServerConfig, counters: &Arc<Counters>) -> Result<Running, WebError> {
    for (field, value) in [("workers", config.workers), ("readers", config.readers)] {
        if !(1..=MAX_THREADS).contains(&value) {
            let why = format!("1 to {MAX_THREADS} threads are possible");
            return Err(WebError::config(
                field,
                value,
                why,
                "Give a number within these bounds.",
            ));
        }
    }
    if config.bandwidth_bytes_per_s == Some(0) {
        let (field, fix) = (
            "bandwidth_bytes_per_s",
            "Give bytes per second, or leave it out.",
        );
        return Err(WebError::config(field, 0, "nothing could be sent", fix));
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root: OwnedFd = rustix::fs::open(&config.root, flags, Mode::empty())
        .map_err(WebError::file(&config.root, "opening"))?;
    let within = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    rustix::fs::openat2(&root, ".", flags, Mode::empty(), within)
        .map_err(WebError::file(&config.root, "openat2(2) beneath it"))?;
    let posts = config.post_log.as_deref();
    let posts = posts.map(|path| PostLogWriter::start(path, config.sync_posts, counters));
    let posts = posts.transpose()?;
    let access = config
        .access_log
        .as_deref()
        .map(AccessLog::create)
        .transpose()?;
    let listener = std::net::TcpListener::bind(config.listen);
    let listener = listener.map_err(|error| WebError::Listen {
        address: config.listen.to_string(),
        errno: errno(&error),
    })?;
    listener
        .set_nonblocking(true)
        .map_err(|error| WebError::system("the listening socket cannot be set up", error))?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(config.workers)
        .max_blocking_threads(config.readers)
        .thread_name("web-worker")
        .on_thread_start(measure::thread::leave_signals_to_others)
        .enable_io()
        .enable_time()
        .build()
        .map_err(|error| WebError::system("the server's threads cannot be started", error))?;
    let service = Service {
        root: Arc::new(root),
        posts: posts.as_ref().map(PostLogWriter::sender),
        access,
        counters: Arc::clone(counters),
    };
    Ok(Running {
        runtime,
        listener,
        access: Access {
            allow: config.allow.clone(),
            users: config.users.clone(),
            peers: Peers::default(),
        },
        service: Arc::new(service),
        bandwidth: config
            .bandwidth_bytes_per_s
            .map(Bandwidth::new)
            .map(Arc::new),
        posts,
    })
}

/// Accepts until it is told to stop; then ends what runs, and the logs.
fn serve(running: Running, stop: &Notify) {
    let Running {
        runtime,
        listener,
        access,
        service,
        bandwidth,
        posts,
    } = running;
    runtime.block_on(async {
        let Ok(listener) = TcpListener::from_std(listener) else {
            return;
        };
        if let Some(bandwidth) = &bandwidth {
            tokio::spawn(Arc::clone(bandwidth).carry());
        }
        let accepting = accept(listener, access, Arc::clone(&service), bandwidth);
        let accepting = tokio::spawn(accepting);
        stop.notified().await;
        accepting.abort();
    });
    runtime.shutdown_timeout(STOP_TIMEOUT);
    if let Some(access) = &service.access {
        count(&service.counters.access_log_errors, access.finish());
    }
    drop(service); // the last sender of POSTs, unless a task hangs in a read
    if let Some(posts) = posts {
        posts.finish();
    }
}

async fn accept(
    listener: TcpListener,
    access: Access,
    service: Arc<Service>,
    bandwidth: Option<Arc<Bandwidth>>,
) {
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let Ok(place) = Arc::clone(&room).acquire_owned().await else {
            return;
        };
        let Ok((stream, peer)) = listener.accept().await else {
            // Out of descriptors: some will be closed.
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        if !access.admits(&stream, peer) {
            continue; // it is closed
        }
        count(&service.counters.connections, 1);
        let (service, bandwidth) = (Arc::clone(&service), bandwidth.clone());
        tokio::spawn(async move {
            connection(stream, peer, service, bandwidth).await;
            drop(place);
        });
    }
}

async fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    service: Arc<Service>,
    bandwidth: Option<Arc<Bandwidth>>,
) {
    let _ = stream.set_nodelay(true); // a reply is sent as it is made
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(64 << 10);
    let answer = hyper::service::service_fn(move |request| {
        let service = Arc::clone(&service);
        async move { Ok::<_, std::convert::Infallible>(service.answer(peer, request).await) }
    });
    // A client that goes away is no error of the server.
    let _ = match bandwidth {
        None => http.serve_connection(TokioIo::new(stream), answer).await,
        Some(bandwidth) => {
            let limited = Limited::new(stream, bandwidth);
            http.serve_connection(TokioIo::new(limited), answer).await
        }
    };
}

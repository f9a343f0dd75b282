//! A server and a mount of it in one process, and in processes that can be killed.
#![allow(dead_code)] // each test file uses its part

pub mod between;

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, mpsc};
use std::time::{Duration, Instant};

use mount::{Mount, MountError, Source, Unmount};
use rustix::net;
use server::model::ModelDescription;
use server::net::{RunningServer, ServerOptions};
use server::protocol::{Export, ExportOptions, Service};
use server::store::Store;
use server::store::memory::MemoryStore;
use server::{Caller, HandleKey};
use tempfile::TempDir;

pub const EXPORT: &str = "/export";
/// Between fork(2) and execve(2) a new process has copies of all descriptors of this one: a file
/// that is closed here meanwhile stays open there, and its mount busy.
static FORKS: RwLock<()> = RwLock::new(());

/// While it is held no other test begins a process: what is closed is closed, and its error is
/// told to us.
pub fn no_forks() -> RwLockReadGuard<'static, ()> {
    FORKS.read().unwrap_or_else(PoisonError::into_inner)
}

/// Begins a process. It runs its own program when this returns, and has no descriptors of ours.
pub fn spawn(command: &mut Command) -> Child {
    let _alone = FORKS.write().unwrap_or_else(PoisonError::into_inner);
    command.spawn().unwrap()
}

const STORE_BYTES: u64 = 1 << 30;

/// Whether a mount can be made here; if not, the reason is printed and the test is left.
pub fn possible() -> bool {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: mounting in a test needs root");
        return false;
    }
    match File::options().read(true).write(true).open("/dev/fuse") {
        Ok(_) => true,
        Err(error) => {
            eprintln!("skipped: /dev/fuse: {error}");
            false
        }
    }
}

/// A server in this process.
pub struct Server {
    running: RunningServer,
    pub port: u16,
}

impl Server {
    pub fn memory() -> Self {
        Self::limited(STORE_BYTES, ExportOptions::default())
    }

    pub fn limited(bytes: u64, options: ExportOptions) -> Self {
        Self::of(memory_store(bytes), options)
    }

    /// In memory; its replies overtake each other.
    pub fn unordered() -> Self {
        let model = ModelDescription {
            jitter_ns: 2_000_000,
            ..ModelDescription::default()
        };
        let (store, options) = (memory_store(STORE_BYTES), ExportOptions::default());
        Self::modelled(store, options, Some(model))
    }

    pub fn of(store: Arc<dyn Store>, options: ExportOptions) -> Self {
        Self::modelled(store, options, None)
    }

    fn modelled(
        store: Arc<dyn Store>,
        options: ExportOptions,
        model: Option<ModelDescription>,
    ) -> Self {
        let export = Export::new(EXPORT, store, options);
        let service = Service::new(vec![export], HandleKey::new(b"0123456789abcdef"));
        let options = ServerOptions {
            listen: vec!["127.0.0.1:0".parse().unwrap()],
            udp: true,
            model,
            ..ServerOptions::default()
        };
        let running = RunningServer::start(Arc::new(service), options).unwrap();
        let port = running.addresses()[0].port();
        Server { running, port }
    }

    pub fn mount(&self, options: &str) -> Mounted {
        Mounted::new(self.port, options)
    }
}

pub fn memory_store(bytes: u64) -> Arc<dyn Store> {
    let listen: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let owner = Caller::with_ids(listen, 0, 0);
    Arc::new(MemoryStore::new(
        bytes,
        measure::clock::realtime_ns(),
        &owner,
    ))
}

/// A mount in this process, and the folder that it lies on.
pub struct Mounted {
    pub mount: Mount,
    pub path: PathBuf,
    begun: Instant,
    folder: Option<TempDir>,
    /// Dropped: the test is over.
    _over: mpsc::Sender<()>,
}

/// A test that hangs in its own mount could not even be killed: its mount is ended by force.
fn most() -> Duration {
    // Runs of a million operations may take their time.
    let long = std::env::var_os("NFSLAB_RANDOM_OPERATIONS").is_some();
    Duration::from_secs(if long { 7_200 } else { 300 })
}

fn end_by_force_when_late(path: PathBuf, most: Duration) -> mpsc::Sender<()> {
    let (sender, receiver) = mpsc::channel::<()>();
    std::thread::spawn(move || {
        if receiver.recv_timeout(most) == Err(mpsc::RecvTimeoutError::Timeout) {
            eprintln!("{}: late; ended by force", path.display());
            let _ = mount::unmount(&path, Unmount::Force);
        }
    });
    sender
}

pub fn source() -> Source {
    Source::parse(&format!("127.0.0.1:{EXPORT}")).unwrap()
}

pub fn options_for(port: u16, options: &str) -> String {
    format!("port={port},mountport={port},{options}")
}

impl Mounted {
    pub fn new(port: u16, options: &str) -> Self {
        Self::tried(port, options).unwrap()
    }

    /// An error where a soft mount's server took its time.
    pub fn tried(port: u16, options: &str) -> Result<Self, MountError> {
        let (begun, folder) = (Instant::now(), tempfile::tempdir().unwrap());
        let path = folder.path().to_owned();
        let mount = Mount::new(&source(), &path, &options_for(port, options))?;
        Ok(Mounted {
            mount,
            begun,
            folder: Some(folder),
            _over: end_by_force_when_late(path.clone(), most()),
            path,
        })
    }

    /// How often gathered data may have been sent for their age alone: every 5 s.
    pub fn pushes(&self) -> u64 {
        self.begun.elapsed().as_secs() / 5
    }

    /// Calls of a procedure so far, by its number.
    pub fn calls(&self, procedure: usize) -> u64 {
        let (_, operations) = self.mount.client().figures().unwrap();
        operations.all()[procedure].calls
    }

    /// Bytes of the replies to them.
    pub fn bytes_in(&self, procedure: usize) -> u64 {
        let (_, operations) = self.mount.client().figures().unwrap();
        operations.all()[procedure].bytes_in
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if self.mount.unmount(Unmount::Normal).is_err() {
            let _ = self.mount.unmount(Unmount::Force);
        }
        // Whoever made a mount namespace meanwhile, on this machine, has a copy of the mount there:
        // then it ends with that.
        self.mount.wait(Some(Duration::from_secs(10)));
        drop(self.folder.take());
    }
}

/// The example programs, which cargo builds beside the tests.
pub fn example(name: &str) -> Option<PathBuf> {
    let test = std::env::current_exe().ok()?;
    let path = test.parent()?.parent()?.join("examples").join(name);
    if !path.exists() {
        eprintln!(
            "skipped: {} is not built (cargo build --examples)",
            path.display()
        );
        return None;
    }
    Some(path)
}

/// Starts and kills the server at a word. A process of its own, begun before there is a mount: one
/// that this process forks would, before it runs the server, close its copies of files that are
/// open on the mount, and so wait for the server that it is to start.
const STARTER: &str = r#"
mkfifo "$3/in" "$3/out"; exec 7<>"$3/in"; port=$4
while read -r word; do
  case $word in
  start) NFSLAB_PORT=$port "$1" directory "$2" <&7 >"$3/out" 2>/dev/null & server=$!
    read -r port <"$3/out"; echo "$port";;
  kill) kill -9 $server; wait $server; echo killed;;
  esac
done 2>/dev/null
kill -9 $server 2>/dev/null
"#;

/// A port where nobody listens but who is told of it, while the socket is there.
pub fn held_port() -> (OwnedFd, u16) {
    let holder = net::socket(net::AddressFamily::INET, net::SocketType::STREAM, None).unwrap();
    net::sockopt::set_socket_reuseaddr(&holder, true).unwrap();
    net::bind(&holder, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let held: SocketAddr = net::getsockname(&holder).unwrap().try_into().unwrap();
    (holder, held.port())
}

/// A server that can be killed and started again on the same port, which nobody else is given
/// between (nobody listens here, and both allow the address to be used again).
pub struct ServerProcess {
    _holder: OwnedFd,
    starter: Child,
    answers: BufReader<std::process::ChildStdout>,
    pub port: u16,
    _pipes: TempDir,
}

impl ServerProcess {
    pub fn start(program: &Path, folder: &Path) -> Self {
        let pipes = tempfile::tempdir().unwrap();
        let (holder, held) = held_port();
        let mut starter = spawn(
            Command::new("sh")
                .args(["-c", STARTER, "sh"])
                .args([program, folder, pipes.path()])
                .arg(held.to_string())
                .stdin(Stdio::piped())
                .stdout(Stdio::piped()),
        );
        let answers = BufReader::new(starter.stdout.take().unwrap());
        let mut server = ServerProcess {
            _holder: holder,
            starter,
            answers,
            port: 0,
            _pipes: pipes,
        };
        server.start_again();
        server
    }

    fn say(&mut self, word: &str) -> String {
        let stdin = self.starter.stdin.as_mut().unwrap();
        writeln!(stdin, "{word}").unwrap();
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    pub fn start_again(&mut self) {
        self.port = self.say("start").parse().unwrap();
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        assert_eq!(self.say("kill"), "killed");
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        drop(self.starter.stdin.take());
        self.starter.wait().unwrap();
    }
}

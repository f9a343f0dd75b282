//! The server under attack, and what is looked at before, during and after.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use rustix::process::{Resource, getrlimit, setrlimit};
use server::net::DEFAULT_MEMORY_BYTES;

use super::good::{Client, GoodClient};
use crate::process::{Process, program};

/// What the process may grow by beyond the books: the allocator's own, stacks, the reply cache, the
/// store's lists of open files and known paths.
const ALLOWANCE_KB: u64 = 160 << 10;
/// What it may keep of that.
const KEPT_KB: u64 = 48 << 10;

pub struct Target {
    process: Process,
    /// Kept for its name; removed when dropped.
    _folder: Option<tempfile::TempDir>,
    canary: Option<(PathBuf, Vec<u8>)>,
    pub at: At,
}

/// What an attacker knows.
#[derive(Clone)]
pub struct At {
    pub address: SocketAddr,
    pub root: Vec<u8>,
    /// A file of 1 MiB.
    pub file: Vec<u8>,
    /// Bytes that lie beside the export.
    pub secret: Vec<u8>,
}

/// The figures that are printed of each attack.
pub const HEAD: &str = "| attack | connections | calls | s | server CPU s | most held so far MB | \
                        process MB before/most/after | closed | good calls | longest ms small/256 KiB |";

fn limits() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _ = setrlimit(Resource::Nofile, limit);
}

impl Target {
    pub fn memory() -> Option<Self> {
        limits();
        let (process, port) = Process::run(Command::new(program()?).arg("memory"));
        Some(Self::of(process, port, None))
    }

    pub fn folder() -> Option<Self> {
        limits();
        // Names are synced: on a disk that would be most of the time.
        let memory = std::path::Path::new("/dev/shm");
        let folder = match memory.is_dir() {
            true => tempfile::tempdir_in(memory),
            false => tempfile::tempdir(),
        };
        let folder = folder.unwrap();
        let export = folder.path().join("export");
        std::fs::create_dir(&export).unwrap();
        let (process, port) = Process::start(&program()?, &export, 0);
        Some(Self::of(process, port, Some(folder)))
    }

    fn of(process: Process, port: u16, folder: Option<tempfile::TempDir>) -> Self {
        let secret: Vec<u8> = (0..32).map(|_| fastrand::u8(..)).collect();
        let canary = folder.as_ref().map(|folder| {
            let path = folder.path().join("canary");
            let bytes = secret.repeat(128);
            std::fs::write(&path, &bytes).unwrap();
            (path, bytes)
        });
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let mut client = Client::connect(address);
        let root = client.mount();
        let file = client.create(&root, b"large");
        client.write(&file, 0, &vec![0x5a; 1 << 20]);
        let at = At {
            address,
            root,
            file,
            secret,
        };
        Target {
            process,
            _folder: folder,
            canary,
            at,
        }
    }

    /// From /proc/PID/status, kB.
    fn memory_kb(&self, field: &str) -> u64 {
        let path = format!("/proc/{}/status", self.process.id());
        let text = std::fs::read_to_string(path).unwrap();
        let line = text.lines().find(|line| line.starts_with(field)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    fn cpu_s(&self) -> f64 {
        let path = format!("/proc/{}/stat", self.process.id());
        let text = std::fs::read_to_string(path).unwrap();
        let fields: Vec<&str> = text
            .rsplit(')')
            .next()
            .unwrap()
            .split_whitespace()
            .collect();
        let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
        // USER_HZ, the same on every Linux that runs this.
        ticks as f64 / 100.0
    }

    fn until(&mut self, mut reached: impl FnMut(&mut Self) -> bool) {
        while !reached(self) {
            std::thread::yield_now();
        }
    }

    /// Runs an attack beside a good client, and looks at what it did. It returns when all its
    /// connections are closed.
    pub fn under(&mut self, what: &'static str, attack: impl FnOnce(&At) -> u64) {
        // The peak begins anew (proc(5)).
        let _ = std::fs::write(format!("/proc/{}/clear_refs", self.process.id()), "5");
        let before_kb = self.memory_kb("VmRSS");
        let (counts, cpu) = (self.process.counts(), self.cpu_s());
        let begun = Instant::now();
        let good = GoodClient::begin(&self.at);
        let connections = attack(&self.at);
        let worked = good.end();
        let seconds = begun.elapsed().as_secs_f64();
        let most_kb = self.memory_kb("VmHWM");
        self.until(|target| target.process.counts()["held_bytes"] == 0);
        self.until(|target| target.memory_kb("VmRSS") <= before_kb + KEPT_KB);
        let after_kb = self.memory_kb("VmRSS");
        let now = self.process.counts();
        let peak = now["held_bytes_peak"];
        let moved = |name: &str| now[name] - counts[name];
        println!(
            "| {what} | {connections} | {} | {seconds:.1} | {:.1} | {:.1} | {}/{}/{} | {} | \
             {} | {:.0}/{:.0} |",
            moved("calls") - worked.calls,
            self.cpu_s() - cpu,
            peak as f64 / 1e6,
            before_kb / 1000,
            most_kb / 1000,
            after_kb / 1000,
            moved("stalled_connections") + moved("surplus_connections"),
            worked.calls,
            worked.small.as_secs_f64() * 1e3,
            worked.large.as_secs_f64() * 1e3,
        );
        assert!(
            peak <= DEFAULT_MEMORY_BYTES as u64,
            "{what}: {peak} bytes held"
        );
        let bound_kb = before_kb + (DEFAULT_MEMORY_BYTES as u64 >> 10) + ALLOWANCE_KB;
        assert!(most_kb <= bound_kb, "{what}: {most_kb} kB of {bound_kb}");
        assert!(
            after_kb <= before_kb + KEPT_KB,
            "{what}: {after_kb} kB after {before_kb}"
        );
        self.canary_is_whole();
    }

    fn canary_is_whole(&self) {
        if let Some((path, bytes)) = &self.canary {
            assert!(
                std::fs::read(path).unwrap() == *bytes,
                "a file outside was changed"
            );
            let names = std::fs::read_dir(path.parent().unwrap()).unwrap();
            assert_eq!(names.count(), 2, "the export and the canary");
        }
    }

    /// It still serves, and ends by itself.
    pub fn ends_well(mut self) {
        let mut client = Client::connect(self.at.address);
        assert_eq!(client.mount(), self.at.root);
        let counts = self.process.counts();
        println!("counters {counts:?}");
        assert!(self.process.end().success());
    }
}

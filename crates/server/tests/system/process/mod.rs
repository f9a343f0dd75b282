//! The server as a process of its own: the example `serve`, which cargo builds beside the tests.
#![allow(dead_code, clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

/// Between fork(2) and execve(2) a new process has copies of all descriptors of this one: what is
/// closed here meanwhile stays open there.
static FORKS: RwLock<()> = RwLock::new(());

/// While it is held no other test begins a process: what is closed is closed.
pub fn no_forks() -> RwLockReadGuard<'static, ()> {
    FORKS.read().unwrap_or_else(PoisonError::into_inner)
}

/// Begins a process. It runs its own program when this returns, and has no descriptors of ours.
pub fn spawn(command: &mut Command) -> std::io::Result<Child> {
    let _alone = FORKS.write().unwrap_or_else(PoisonError::into_inner);
    command.spawn()
}

/// As `Command::output`.
pub fn output(command: &mut Command) -> std::io::Result<Output> {
    command.stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    spawn(command)?.wait_with_output()
}

/// Its program; `None`, with the reason printed, if it was not built.
pub fn program() -> Option<PathBuf> {
    let test = std::env::current_exe().ok()?;
    let path = test.parent()?.parent()?.join("examples/serve");
    if path.exists() {
        return Some(path);
    }
    eprintln!("skipped: the example `serve` is not built (cargo test --all-targets builds it)");
    None
}

/// Killed (SIGKILL) when dropped.
pub struct Process {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Process {
    /// Serves a folder at a port (0: any); returns which.
    pub fn start(program: &Path, folder: &Path, port: u16) -> (Self, u16) {
        Self::run(
            Command::new(program)
                .arg("directory")
                .arg(folder)
                .env("NFSLAB_PORT", port.to_string()),
        )
    }

    /// Runs a command that is, or becomes, `serve`.
    pub fn run(command: &mut Command) -> (Self, u16) {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = spawn(command.stderr(Stdio::null())).unwrap();
        let mut line = String::new();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        let port = line.trim().parse().unwrap();
        let child = process;
        (Process { child, output }, port)
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Ends as it should.
    pub fn end(mut self) -> ExitStatus {
        drop(self.child.stdin.take());
        self.child.wait().unwrap()
    }

    /// Its counters.
    pub fn counts(&mut self) -> BTreeMap<String, u64> {
        let mut input = self.child.stdin.as_ref().unwrap();
        input.write_all(b"\n").unwrap();
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        let pairs = line
            .split_whitespace()
            .filter_map(|word| word.split_once('='));
        let number = |text: &str| text.parse().unwrap();
        pairs
            .map(|(name, value)| (name.to_owned(), number(value)))
            .collect()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Child::kill is SIGKILL.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

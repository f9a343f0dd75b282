//! The server as a process of its own: the example `serve`, which cargo builds beside the tests.
#![allow(dead_code, clippy::unwrap_used)]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

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
pub struct Process(Child);

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
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        let port = line.trim().parse().unwrap();
        (Process(process), port)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Child::kill is SIGKILL.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

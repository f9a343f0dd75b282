//! The programs of the tests, built when one needs them.
#![allow(dead_code, clippy::unwrap_used)]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

/// Is it installed? Says so if not.
pub fn has(program: &str) -> bool {
    let found = Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .status();
    if found.is_err() {
        eprintln!("skipped: {program} is not installed");
    }
    found.is_ok()
}

/// A folder with this program in it, and its path as the kernel shows it; None without a compiler.
pub fn folder_with(program: &str) -> Option<(tempfile::TempDir, PathBuf)> {
    if !has("cc") {
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    let built = Command::new("cc")
        .args(["-O2", "-pthread", "-rdynamic", "-Wall", "-Werror", "-o"])
        .arg(root.join(program))
        .arg(sources.join(program).with_extension("c"))
        .status();
    assert!(built.unwrap().success());
    Some((folder, root))
}

/// The program, started, and what it says behind its first line: once it has spoken it is itself,
/// and no longer what it was forked from.
pub fn spoken(program: &Path) -> (Child, BufReader<ChildStdout>) {
    let mut child = Command::new(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    output.read_line(&mut String::new()).unwrap();
    (child, output)
}

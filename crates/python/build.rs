//! Notes at build time what produced the module: every result carries it.
//!
//! A commit is only known where git and the repository are there; `-dirty` marks uncommitted
//! changes of the Rust sources. Runs again when those change, not at each commit: the commit named
//! is the one the sources were built at.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=..");
    println!("cargo::rerun-if-changed=../../Cargo.lock");
    for (name, value) in [
        ("NFSLAB_RUSTC", rustc()),
        ("NFSLAB_COMMIT", commit()),
        ("NFSLAB_TARGET", std::env::var("TARGET").ok()),
        ("NFSLAB_PROFILE", std::env::var("PROFILE").ok()),
    ] {
        println!(
            "cargo::rustc-env={name}={}",
            value.unwrap_or_else(|| "unknown".to_owned())
        );
    }
}

fn rustc() -> Option<String> {
    output(Command::new(std::env::var_os("RUSTC")?).arg("--version"))
}

fn commit() -> Option<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    if !root.join(".git").exists() {
        return None; // an unpacked archive inside some other repository has no commit of ours
    }
    let head = output(
        Command::new("git")
            .arg("-C")
            .arg(&root)
            .args(["rev-parse", "HEAD"]),
    )?;
    let mut status = Command::new("git");
    status
        .arg("-C")
        .arg(&root)
        .args(["status", "--porcelain", "--", "crates", "Cargo.toml"]);
    let dirty = output(&mut status).is_none_or(|text| !text.is_empty());
    Some(if dirty { format!("{head}-dirty") } else { head })
}

fn output(command: &mut Command) -> Option<String> {
    let output = command
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

//! Takes the eBPF programs as they are shipped (`bpf/watch.o`; no compiler is needed), and compiles
//! the preload shim (`shim/`) when there is a C compiler. What cannot be had is left out, and the
//! crate says so, and why, where it is asked for. Programs that are not what their source was when
//! they were made are an error: figures of another source would be wrong.
//!
//! `NFSLAB_EBPF=0` and `NFSLAB_SHIM=0` leave one out although it could be there; `CC` names another
//! compiler.

#[path = "build/ebpf.rs"]
mod ebpf;
#[path = "build/shim.rs"]
mod shim;

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=build");
    println!("cargo::rerun-if-changed=bpf");
    println!("cargo::rerun-if-env-changed=CC");
    part("ebpf", "eBPF", ebpf::usable);
    part("shim", "the preload shim", shim::compiled);
    if let Some(stale) = ebpf::stale(Path::new("bpf")) {
        println!("cargo::error={stale}");
    }
}

/// Makes a part whose switch is called after its cfg; tells cargo and the crate what came of it.
fn part(cfg: &str, name: &str, made: fn() -> Result<(), String>) {
    let switch = format!("NFSLAB_{}", cfg.to_uppercase());
    println!("cargo::rustc-check-cfg=cfg({cfg})");
    println!("cargo::rerun-if-env-changed={switch}");
    let made = if std::env::var_os(&switch).is_some_and(|value| value == "0") {
        Err(format!("{switch}=0 was set when this was built"))
    } else {
        made()
    };
    let why = match made {
        Ok(()) => {
            println!("cargo::rustc-cfg={cfg}");
            String::new()
        }
        Err(why) => {
            println!("cargo::warning={name} is left out: {why}");
            why
        }
    };
    println!("cargo::rustc-env={switch}_LEFT_OUT={why}");
}

/// What cargo says of the target; empty when it says nothing.
fn of(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}

/// Where a file goes that is made here.
fn output(name: &str) -> PathBuf {
    PathBuf::from(of("OUT_DIR")).join(name)
}

/// Runs a compiler on `what`; why it did not compile.
fn run(compiler: &mut Command, what: &str) -> Result<(), String> {
    let name = compiler.get_program().to_string_lossy().into_owned();
    let output = compiler
        .output()
        .map_err(|error| format!("{name} could not be run when this was built ({error})"))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let first = text.lines().find(|line| line.contains("error"));
    let message = first.unwrap_or("no message");
    Err(format!("{name} did not compile {what}: {message}"))
}

//! Compiles the eBPF programs (`bpf/`) when clang is there, and the preload shim (`shim/`) when
//! there is a C compiler. What cannot be compiled is left out, and the crate says so, and why,
//! where it is asked for.
//!
//! `NFSLAB_EBPF=0` and `NFSLAB_SHIM=0` leave one out although it could be compiled; `CLANG` and
//! `CC` name other compilers.

#[path = "build/ebpf.rs"]
mod ebpf;
#[path = "build/shim.rs"]
mod shim;

use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=build");
    part("ebpf", "eBPF", "CLANG", ebpf::compiled);
    part("shim", "the preload shim", "CC", shim::compiled);
}

/// Compiles a part whose switch and folder are called after its cfg, and tells cargo and the crate
/// what came of it.
fn part(cfg: &str, name: &str, compiler: &str, compiled: fn() -> Result<(), String>) {
    let switch = format!("NFSLAB_{}", cfg.to_uppercase());
    println!("cargo::rustc-check-cfg=cfg({cfg})");
    println!("cargo::rerun-if-env-changed={compiler}");
    println!("cargo::rerun-if-env-changed={switch}");
    let made = if std::env::var_os(&switch).is_some_and(|value| value == "0") {
        Err(format!("{switch}=0 was set when this was built"))
    } else {
        compiled()
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

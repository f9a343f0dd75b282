//! Compiles the eBPF programs with clang.

use std::process::Command;

use super::{of, output, run};

const SOURCE: &str = "bpf/watch.bpf.c";

/// Compiles them, or says why they are left out.
pub fn compiled() -> Result<(), String> {
    println!("cargo::rerun-if-changed=bpf");
    if of("CARGO_CFG_TARGET_OS") != "linux" {
        return Err("it is there on Linux only".to_owned());
    }
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    let mut command = Command::new(clang);
    command
        .args([
            "-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Wextra", "-Werror",
        ])
        // Paths of the building machine are nobody's business.
        .args(["-fdebug-compilation-dir=.", "-c", SOURCE, "-o"])
        .arg(output("watch.o"));
    run(&mut command, SOURCE)
}

//! Compiles the preload shim with the C compiler that links Rust here.

use std::process::Command;

use super::{of, output, run};

const SOURCES: [&str; 7] = [
    "shim/record.c",
    "shim/next.c",
    "shim/transfers.c",
    "shim/syncs.c",
    "shim/descriptors.c",
    "shim/names.c",
    "shim/delays.c",
];

/// Compiles it, or says why it is left out.
pub fn compiled() -> Result<(), String> {
    println!("cargo::rerun-if-changed=shim");
    if of("CARGO_CFG_TARGET_OS") != "linux" || of("CARGO_CFG_TARGET_ENV") != "gnu" {
        return Err("it is there for Linux with the GNU C library only".to_owned());
    }
    if of("HOST") != of("TARGET") && std::env::var_os("CC").is_none() {
        return Err("this was built for another machine, and CC names no compiler".to_owned());
    }
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let mut command = Command::new(compiler);
    command
        .args(["-std=gnu11", "-O2", "-fPIC", "-shared", "-s", "-pthread"])
        .args([
            "-fvisibility=hidden",
            "-fexceptions",
            "-ftls-model=initial-exec",
        ])
        // A caller may pass a null pointer that a declaration forbids: the next one is to judge.
        .arg("-fno-delete-null-pointer-checks")
        .args([
            "-Wall",
            "-Wextra",
            "-Wno-missing-attributes",
            "-Wno-nonnull-compare",
        ])
        .args(["-U_FORTIFY_SOURCE", "-Wl,-z,now", "-Wl,--build-id=none"])
        .args(SOURCES)
        .arg("-ldl")
        .arg("-o")
        .arg(output("shim.so"));
    run(&mut command, "shim").map_err(|why| format!("{why} (Debian: gcc libc6-dev)"))
}

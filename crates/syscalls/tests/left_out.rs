//! A build without clang and without a C compiler: the crate builds, and each way says why it is
//! not there. The linker is `cc`, too; what a machine without one lacks is named by CLANG and CC,
//! which are what the build script calls.
//!
//! Cargo builds in a folder of its own (within target/tmp, which stays): only the first run has to
//! build the dependencies again.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::Path;
use std::process::{Command, Output};

fn ways(environment: [(&str, &str); 2]) -> Output {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("left_out");
    Command::new(env!("CARGO"))
        .args(["run", "--offline", "--locked", "--example", "ways"])
        .arg("--manifest-path")
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))
        .arg("--target-dir")
        .arg(target)
        .env_remove("NFSLAB_EBPF")
        .env_remove("NFSLAB_SHIM")
        // Quickly built is what counts here.
        .env("CARGO_PROFILE_DEV_OPT_LEVEL", "0")
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .envs(environment)
        .output()
        .unwrap()
}

#[test]
fn it_builds_without_either_and_says_why_they_are_not_there() {
    let switched_off = |name| format!("{name}=0 was set when this was built");
    let absent = |name| {
        format!(
            "{name} could not be run when this was built (No such file or directory (os error 2))"
        )
    };
    let (no_clang, no_cc) = ("/nonexistent/clang", "/nonexistent/cc");
    for (environment, ebpf, shim) in [
        (
            [("NFSLAB_EBPF", "0"), ("NFSLAB_SHIM", "0")],
            switched_off("NFSLAB_EBPF"),
            switched_off("NFSLAB_SHIM"),
        ),
        (
            [("CLANG", no_clang), ("CC", no_cc)],
            absent(no_clang),
            absent(no_cc),
        ),
        // Compilers that compile nothing.
        (
            [("CLANG", "false"), ("CC", "false")],
            "false did not compile bpf/watch.bpf.c: no message".to_owned(),
            "false did not compile shim: no message".to_owned(),
        ),
    ] {
        let done = ways(environment);
        let (said, noted) = (
            String::from_utf8_lossy(&done.stdout).into_owned(),
            String::from_utf8_lossy(&done.stderr).into_owned(),
        );
        assert!(done.status.success(), "{environment:?}: {noted}");
        let fix = "Install clang (Debian: apt install clang) and build nfslab again.";
        let expected = format!(
            "eBPF: left_out: eBPF was left out when nfslab was built: {ebpf}: {fix}\n\
             shim: the preload shim was left out when nfslab was built: {shim}\n"
        );
        assert_eq!(said, expected);
        for line in [
            format!("eBPF is left out: {ebpf}"),
            format!("the preload shim is left out: {shim}"),
        ] {
            assert!(noted.contains(&line), "the build says so: {noted}");
        }
    }
}

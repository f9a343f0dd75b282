//! A build without a C compiler, and one without either way by intent: the crate builds, and each
//! way says why it is not there. No build asks for clang. The linker is `cc`, too; a machine without
//! a compiler is meant by CC, which is what the build script calls.
//!
//! Cargo builds in a folder of its own (within target/tmp, which stays): only the first run has to
//! build the dependencies again.

use std::path::Path;
use std::process::Command;

fn ways(environment: &[(&str, &str)]) -> (String, String) {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("left_out");
    let done = Command::new(env!("CARGO"))
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
        .envs(environment.iter().copied())
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (said, noted) = (text(&done.stdout), text(&done.stderr));
    assert!(done.status.success(), "{environment:?}: {noted}");
    (said, noted)
}

/// One after the other: they build in one folder.
#[test]
#[ignore = "builds the crate anew"]
fn it_builds_without_them_and_says_why_they_are_not_there_at_length() {
    switched_off();
    without_a_c_compiler();
}

fn switched_off() {
    let (said, noted) = ways(&[("NFSLAB_EBPF", "0"), ("NFSLAB_SHIM", "0")]);
    let off = |name| format!("{name}=0 was set when this was built");
    let (ebpf, shim) = (off("NFSLAB_EBPF"), off("NFSLAB_SHIM"));
    let fix = "Build nfslab on Linux, for a little-endian processor, without NFSLAB_EBPF=0.";
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

/// eBPF is there nevertheless.
fn without_a_c_compiler() {
    for (compiler, why) in [
        (
            "/nonexistent/cc",
            "/nonexistent/cc could not be run when this was built \
             (No such file or directory (os error 2))",
        ),
        // One that compiles nothing.
        ("false", "false did not compile shim: no message"),
    ] {
        // No clang is asked for: one that cannot compile is in nobody's way.
        let (said, noted) = ways(&[("CC", compiler), ("CLANG", "false")]);
        let why = format!("{why} (Debian: gcc libc6-dev)");
        let line = format!("shim: the preload shim was left out when nfslab was built: {why}\n");
        assert!(said.contains(&line), "{said}");
        assert!(!said.contains("left_out"), "{said}");
        let warned = format!("the preload shim is left out: {why}");
        assert!(noted.contains(&warned), "{noted}");
        assert!(!noted.contains("eBPF"), "{noted}");
    }
}

//! Judges the compiled eBPF programs that lie beside their source (`bpf/watch.o`): can they be used
//! for this target, and were they made of what lies there?
//!
//! `bpf/make` compiles them and notes the cksum(1) of every file that it read or wrote in
//! `bpf/watch.made`. A CRC finds what was changed and not made anew; that the object is what its
//! source makes is what `bpf/make --check` finds, which the tests run where clang is.

use std::fs;
use std::io;
use std::path::Path;

/// How to mend all that [`stale`] finds.
const MEND: &str =
    "crates/syscalls/bpf/make compiles it anew (clang, llvm-strip; Debian: clang llvm)";

/// Are the programs there for this target? Why not.
pub fn usable() -> Result<(), String> {
    if super::of("CARGO_CFG_TARGET_OS") != "linux" {
        return Err("it is there on Linux only".to_owned());
    }
    if super::of("CARGO_CFG_TARGET_ENDIAN") != "little" {
        return Err("its programs are compiled for little-endian processors only".to_owned());
    }
    Ok(())
}

/// What in this folder is not as it was when the object was made, and what to do.
pub fn stale(folder: &Path) -> Option<String> {
    let why = match differing(folder) {
        Ok(None) => return None,
        Ok(Some(name)) => format!("{name} is not as it was when bpf/watch.o was made"),
        Err(error) => format!("bpf/watch.o and what it was made of cannot be compared: {error}"),
    };
    Some(format!("{why}; {MEND}"))
}

/// The first file that differs from what `watch.made` says, is not in it, or is not there.
fn differing(folder: &Path) -> io::Result<Option<String>> {
    let mut made: Vec<String> = fs::read_to_string(folder.join("watch.made"))?
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(str::to_owned)
        .collect();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let source = name.ends_with(".h") || name.ends_with(".c");
        if !source && name != "make" && name != "watch.o" {
            continue;
        }
        let bytes = fs::read(folder.join(&name))?;
        let line = format!("{} {} {name}", cksum(&bytes), bytes.len());
        match made.iter().position(|found| *found == line) {
            Some(at) => made.swap_remove(at),
            None => return Ok(Some(name)),
        };
    }
    // Whatever is left was there and is not.
    let gone = made.first().and_then(|line| line.split(' ').next_back());
    Ok(gone.map(str::to_owned))
}

/// As cksum(1) has it (POSIX.1-2017, utility cksum: CRC-32 of the bytes and of their number).
fn cksum(bytes: &[u8]) -> u32 {
    let mut length = bytes.len();
    let mut crc = bytes.iter().fold(0, |crc, byte| taken_in(crc, *byte));
    while length > 0 {
        crc = taken_in(crc, (length & 0xff) as u8);
        length >>= 8;
    }
    !crc
}

fn taken_in(crc: u32, byte: u8) -> u32 {
    const POLYNOMIAL: u32 = 0x04c1_1db7;
    let mut crc = crc ^ u32::from(byte) << 24;
    for _ in 0..8 {
        let carry = if crc >> 31 == 1 { POLYNOMIAL } else { 0 };
        crc = crc << 1 ^ carry;
    }
    crc
}

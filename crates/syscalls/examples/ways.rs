//! Which ways of watching this build has on this machine, and why it has not the others: `ways`.

use std::io::{self, Write};

use syscalls::ebpf::grants;
use syscalls::shim::{ShimError, write_library};

fn main() -> io::Result<()> {
    let mut out = io::stdout();
    match grants().refused {
        None => writeln!(out, "eBPF: granted")?,
        Some(error) => {
            let (kind, why, fix) = (error.kind(), error.why(), error.fix());
            writeln!(out, "eBPF: {kind}: {error}: {why}: {fix}")?;
        }
    }
    let folder = std::env::temp_dir().join(format!("nfslab-ways-{}", std::process::id()));
    std::fs::create_dir(&folder)?;
    let written = write_library(&folder);
    std::fs::remove_dir_all(&folder)?;
    match written {
        Ok(_) => writeln!(out, "shim: built in"),
        Err(ShimError::LeftOut { why }) => {
            writeln!(out, "shim: {}: {why}", ShimError::LeftOut { why })
        }
        Err(error) => writeln!(out, "shim: {error}"),
    }
}

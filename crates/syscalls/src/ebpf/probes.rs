//! Which program is attached to which tracepoint, by level.
//!
//! A tracepoint of a single call costs less than one of all calls, and calls that a level does not
//! need are left alone: see docs/decisions/ebpf.md for what was measured.

use crate::record::Call;

use super::{Level, Options};

/// A system call: its tracepoints, its number and the programs at its begin and end.
#[derive(Clone, Copy, Debug)]
pub struct Probe {
    /// As in sys_enter_NAME.
    pub name: &'static str,
    /// Its number on this machine.
    pub number: libc::c_long,
    /// What it is counted as.
    pub call: Call,
    /// Program at its begin.
    pub enter: &'static str,
    /// Program at its end.
    pub leave: &'static str,
}

macro_rules! probe {
    ($name:ident, $number:ident, $call:ident, $enter:literal, $leave:literal) => {
        Probe {
            name: stringify!($name),
            number: libc::$number,
            call: Call::$call,
            enter: concat!("enter_", $enter),
            leave: concat!("leave_", $leave),
        }
    };
}

const SYNCS: &[Probe] = &[
    probe!(fsync, SYS_fsync, Fsync, "fd", "plain"),
    probe!(fdatasync, SYS_fdatasync, Fdatasync, "fd", "plain"),
    probe!(
        sync_file_range,
        SYS_sync_file_range,
        SyncFileRange,
        "range",
        "plain"
    ),
    probe!(sync, SYS_sync, Sync, "none", "plain"),
    probe!(syncfs, SYS_syncfs, Sync, "fd", "plain"),
    probe!(msync, SYS_msync, Msync, "msync", "plain"),
];

/// At level `sync` for writes that return when their bytes are durable.
const WRITES: &[Probe] = &[
    probe!(write, SYS_write, Write, "rw", "access"),
    probe!(pwrite64, SYS_pwrite64, Pwrite, "prw", "access"),
    probe!(writev, SYS_writev, Writev, "rw", "access"),
    probe!(pwritev, SYS_pwritev, Pwritev, "prw", "access"),
    probe!(pwritev2, SYS_pwritev2, Pwritev, "prw2", "access"),
    // What reads, and what writes behind it.
    probe!(sendfile64, SYS_sendfile, Sendfile, "send", "copy"),
    probe!(
        copy_file_range,
        SYS_copy_file_range,
        CopyFileRange,
        "splice",
        "copy"
    ),
    probe!(splice, SYS_splice, Splice, "splice", "copy"),
];

const OTHERS: &[Probe] = &[
    probe!(read, SYS_read, Read, "rw", "access"),
    probe!(pread64, SYS_pread64, Pread, "prw", "access"),
    probe!(readv, SYS_readv, Readv, "rw", "access"),
    probe!(preadv, SYS_preadv, Preadv, "prw", "access"),
    probe!(preadv2, SYS_preadv2, Preadv, "prw2", "access"),
    probe!(openat, SYS_openat, Open, "none", "open"),
    probe!(openat2, SYS_openat2, Open, "none", "open"),
    probe!(close, SYS_close, Close, "fd", "plain"),
    probe!(ftruncate, SYS_ftruncate, Truncate, "fd", "plain"),
    probe!(truncate, SYS_truncate, Truncate, "path", "plain"),
    probe!(fallocate, SYS_fallocate, Fallocate, "fd", "plain"),
    probe!(mmap, SYS_mmap, Mmap, "map", "plain"),
    probe!(unlinkat, SYS_unlinkat, Unlink, "path_at", "name"),
    probe!(renameat2, SYS_renameat2, Rename, "paths_at", "name"),
];

/// Calls that older machines have beside the ones with a folder (`...at`).
#[cfg(target_arch = "x86_64")]
const OLDER: &[Probe] = &[
    probe!(open, SYS_open, Open, "none", "open"),
    probe!(creat, SYS_creat, Open, "none", "open"),
    probe!(unlink, SYS_unlink, Unlink, "path", "name"),
    probe!(rmdir, SYS_rmdir, Unlink, "path", "name"),
    probe!(rename, SYS_rename, Rename, "paths", "name"),
    probe!(renameat, SYS_renameat, Rename, "paths_at", "name"),
];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[Probe] = &[];

const SEEK: &[Probe] = &[probe!(lseek, SYS_lseek, Lseek, "fd", "plain")];

/// The calls that are watched with these options.
pub fn probes(options: &Options) -> impl Iterator<Item = &'static Probe> {
    let counts = options.level >= Level::Counts;
    let when = |wanted: bool, probes: &'static [Probe]| if wanted { probes } else { &[] };
    [
        SYNCS,
        WRITES,
        when(counts, OTHERS),
        when(counts, OLDER),
        when(counts && options.lseek, SEEK),
    ]
    .into_iter()
    .flatten()
}

/// By number of the system call, one more than the number of the [`Call`]; 0 for others.
pub fn call_table(options: &Options) -> [u8; 512] {
    let mut table = [0; 512];
    for probe in probes(options) {
        let slot = usize::try_from(probe.number)
            .ok()
            .and_then(|number| table.get_mut(number));
        if let Some(slot) = slot {
            *slot = probe.call as u8 + 1;
        }
    }
    table
}

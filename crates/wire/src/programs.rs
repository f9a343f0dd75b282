//! Program numbers, and the names of their versions' procedures and statuses in RFC spelling.

use crate::{mount, nfs2, nfs3, nfs4, portmap};

/// portmap v2 (RFC 1833 section 3), rpcbind v3 and v4 (section 2).
pub const PORTMAP: u32 = 100_000;
/// NFS (RFC 1094, 1813, 7530, 8881, 7862).
pub const NFS: u32 = 100_003;
/// MOUNT (RFC 1094 appendix A, RFC 1813 appendix I).
pub const MOUNT: u32 = 100_005;
/// Network lock manager (RFC 1813 appendix II; X/Open XNFS).
pub const NLM: u32 = 100_021;
/// Network status monitor (X/Open XNFS).
pub const NSM: u32 = 100_024;
/// NFSACL side protocol (Solaris, Linux).
pub const NFSACL: u32 = 100_227;
/// First number that NFSv4 callbacks may use: the client picks one of the transient range
/// (RFC 5531 section 8.3) and tells the server; `0x4000_0000` is what Linux uses.
pub const NFS4_CALLBACK_FIRST: u32 = 0x4000_0000;
/// Last number of the transient range.
pub const NFS4_CALLBACK_LAST: u32 = 0x5fff_ffff;

/// True for a program number that NFSv4 callbacks may use.
#[inline]
pub const fn is_callback(program: u32) -> bool {
    program >= NFS4_CALLBACK_FIRST && program <= NFS4_CALLBACK_LAST
}

/// Names by number; `_` where there is no procedure.
macro_rules! names {
    ($($name:tt)+) => { &[$(stringify!($name)),+] };
}

const NFS4: &[&str] = names![NULL COMPOUND];
const CALLBACK: &[&str] = names![CB_NULL CB_COMPOUND];
const MOUNT1: &[&str] = mount::procedure::NAMES.split_at(7).0;
const MOUNT3: &[&str] = mount::procedure::NAMES.split_at(6).0;
const NFSACL2: &[&str] = names![NULL GETACL SETACL GETATTR ACCESS GETXATTRDIR];
const NFSACL3: &[&str] = names![NULL GETACL SETACL GETXATTRDIR];
/// The names of version 4 up to TADDR2UADDR, but for BCAST.
const RPCBIND3: &[&str] =
    names![NULL SET UNSET GETADDR DUMP CALLIT GETTIME UADDR2TADDR TADDR2UADDR];
const NSM1: &[&str] = names![NULL STAT MON UNMON UNMON_ALL SIMU_CRASH NOTIFY];
/// Procedures 16 to 19 do not exist (XNFS); versions 1 and 2 end before them.
const NLM_ALL: &[&str] = names![
    NULL TEST LOCK CANCEL UNLOCK GRANTED TEST_MSG LOCK_MSG CANCEL_MSG UNLOCK_MSG GRANTED_MSG
    TEST_RES LOCK_RES CANCEL_RES UNLOCK_RES GRANTED_RES _ _ _ _ SHARE UNSHARE NM_LOCK FREE_ALL
];
const NLM_SHORT: &[&str] = NLM_ALL.split_at(16).0;

/// `nlm4_stats` (RFC 1813 section 6.1.3).
const NLM4_STATUSES: &[&str] = names![
    NLM4_GRANTED NLM4_DENIED NLM4_DENIED_NOLOCKS NLM4_BLOCKED NLM4_DENIED_GRACE_PERIOD
    NLM4_DEADLCK NLM4_ROFS NLM4_STALE_FH NLM4_FBIG NLM4_FAILED
];
/// `nlm_stats` (X/Open XNFS).
const NLM_STATUSES: &[&str] = names![
    LCK_GRANTED LCK_DENIED LCK_DENIED_NOLOCKS LCK_BLOCKED LCK_DENIED_GRACE_PERIOD LCK_DEADLCK
];
const NSM_STATUSES: &[&str] = names![STAT_SUCC STAT_FAIL];

/// Name of a protocol's status: `NFS3ERR_NOENT`, `NFS4ERR_DELAY`, `MNT3ERR_ACCES`; `None` if it is
/// unknown.
pub fn status_name(program: u32, version: u32, status: u32) -> Option<&'static str> {
    let listed = |names: &[&'static str]| names.get(status as usize).copied();
    match (program, version) {
        (NFS | NFSACL, 2) => nfs2::status::status_name(status),
        (NFS | NFSACL, 3) => nfs3::nfsstat3 { code: status }.name(),
        (NFS, 4) => nfs4::status::status_name(status),
        (MOUNT, 3) => mount::mountstat3::from_code(status).map(mount::mountstat3::name),
        (NLM, 4) => listed(NLM4_STATUSES),
        (NLM, 1..=3) => listed(NLM_STATUSES),
        (NSM, 1) => listed(NSM_STATUSES),
        (program, _) if is_callback(program) => nfs4::status::status_name(status),
        _ => None,
    }
}

#[inline]
fn names(program: u32, version: u32) -> Option<&'static [&'static str]> {
    Some(match (program, version) {
        (NFS, 3) => nfs3::procedure::NAMES,
        (NFS, 4) => NFS4,
        (NFS, 2) => nfs2::procedure::NAMES,
        (MOUNT, 1) => MOUNT1,
        (MOUNT, 2) => mount::procedure::NAMES,
        (MOUNT, 3) => MOUNT3,
        (NLM, 1 | 2) => NLM_SHORT,
        (NLM, 3 | 4) => NLM_ALL,
        (NSM, 1) => NSM1,
        (NFSACL, 2) => NFSACL2,
        (NFSACL, 3) => NFSACL3,
        (PORTMAP, 2) => portmap::procedure::NAMES,
        (PORTMAP, 3) => RPCBIND3,
        (PORTMAP, 4) => portmap::rpcb_procedure::NAMES,
        // Linux clients and servers use callback version 1 for 4.0 and 4.1; RFC 7531: 1.
        (program, 1 | 4) if is_callback(program) => CALLBACK,
        _ => return None,
    })
}

/// Number of procedures of a program's version (the highest number plus one); `None` if this
/// crate does not know it.
#[inline]
pub fn procedure_count(program: u32, version: u32) -> Option<u32> {
    names(program, version).map(|names| names.len() as u32)
}

/// A procedure's name, `None` if program, version or procedure is unknown.
pub fn procedure_name(program: u32, version: u32, procedure: u32) -> Option<&'static str> {
    names(program, version)?
        .get(procedure as usize)
        .copied()
        .filter(|name| *name != "_")
}

/// A program's name.
pub fn program_name(program: u32) -> Option<&'static str> {
    Some(match program {
        NFS => "NFS",
        MOUNT => "MOUNT",
        NLM => "NLM",
        NSM => "NSM",
        NFSACL => "NFSACL",
        PORTMAP => "PORTMAP",
        program if is_callback(program) => "NFS4_CALLBACK",
        _ => return None,
    })
}

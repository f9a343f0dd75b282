//! Program numbers, and the names of their versions' procedures in RFC spelling.

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

const NFS2: &[&str] = &[
    "NULL",
    "GETATTR",
    "SETATTR",
    "ROOT",
    "LOOKUP",
    "READLINK",
    "READ",
    "WRITECACHE",
    "WRITE",
    "CREATE",
    "REMOVE",
    "RENAME",
    "LINK",
    "SYMLINK",
    "MKDIR",
    "RMDIR",
    "READDIR",
    "STATFS",
];
const NFS3: &[&str] = &[
    "NULL",
    "GETATTR",
    "SETATTR",
    "LOOKUP",
    "ACCESS",
    "READLINK",
    "READ",
    "WRITE",
    "CREATE",
    "MKDIR",
    "SYMLINK",
    "MKNOD",
    "REMOVE",
    "RMDIR",
    "RENAME",
    "LINK",
    "READDIR",
    "READDIRPLUS",
    "FSSTAT",
    "FSINFO",
    "PATHCONF",
    "COMMIT",
];
const NFS4: &[&str] = &["NULL", "COMPOUND"];
const CALLBACK: &[&str] = &["CB_NULL", "CB_COMPOUND"];
const MOUNT1: &[&str] = &[
    "NULL",
    "MNT",
    "DUMP",
    "UMNT",
    "UMNTALL",
    "EXPORT",
    "EXPORTALL",
];
const MOUNT2: &[&str] = &[
    "NULL",
    "MNT",
    "DUMP",
    "UMNT",
    "UMNTALL",
    "EXPORT",
    "EXPORTALL",
    "PATHCONF",
];
const MOUNT3: &[&str] = &["NULL", "MNT", "DUMP", "UMNT", "UMNTALL", "EXPORT"];
const NFSACL2: &[&str] = &[
    "NULL",
    "GETACL",
    "SETACL",
    "GETATTR",
    "ACCESS",
    "GETXATTRDIR",
];
const NFSACL3: &[&str] = &["NULL", "GETACL", "SETACL", "GETXATTRDIR"];
const PORTMAP2: &[&str] = &["NULL", "SET", "UNSET", "GETPORT", "DUMP", "CALLIT"];
const RPCBIND3: &[&str] = &[
    "NULL",
    "SET",
    "UNSET",
    "GETADDR",
    "DUMP",
    "CALLIT",
    "GETTIME",
    "UADDR2TADDR",
    "TADDR2UADDR",
];
const RPCBIND4: &[&str] = &[
    "NULL",
    "SET",
    "UNSET",
    "GETADDR",
    "DUMP",
    "BCAST",
    "GETTIME",
    "UADDR2TADDR",
    "TADDR2UADDR",
    "GETVERSADDR",
    "INDIRECT",
    "GETADDRLIST",
    "GETSTAT",
];
const NSM1: &[&str] = &[
    "NULL",
    "STAT",
    "MON",
    "UNMON",
    "UNMON_ALL",
    "SIMU_CRASH",
    "NOTIFY",
];
/// Procedures 16 to 19 do not exist (XNFS); version 1 ends before them.
const NLM_ALL: &[&str] = &[
    "NULL",
    "TEST",
    "LOCK",
    "CANCEL",
    "UNLOCK",
    "GRANTED",
    "TEST_MSG",
    "LOCK_MSG",
    "CANCEL_MSG",
    "UNLOCK_MSG",
    "GRANTED_MSG",
    "TEST_RES",
    "LOCK_RES",
    "CANCEL_RES",
    "UNLOCK_RES",
    "GRANTED_RES",
    "",
    "",
    "",
    "",
    "SHARE",
    "UNSHARE",
    "NM_LOCK",
    "FREE_ALL",
];
const NLM_SHORT: &[&str] = match NLM_ALL.first_chunk::<16>() {
    Some(names) => names,
    None => NLM_ALL,
};

#[inline]
fn names(program: u32, version: u32) -> Option<&'static [&'static str]> {
    Some(match (program, version) {
        (NFS, 3) => NFS3,
        (NFS, 4) => NFS4,
        (NFS, 2) => NFS2,
        (MOUNT, 1) => MOUNT1,
        (MOUNT, 2) => MOUNT2,
        (MOUNT, 3) => MOUNT3,
        (NLM, 1 | 2) => NLM_SHORT,
        (NLM, 3 | 4) => NLM_ALL,
        (NSM, 1) => NSM1,
        (NFSACL, 2) => NFSACL2,
        (NFSACL, 3) => NFSACL3,
        (PORTMAP, 2) => PORTMAP2,
        (PORTMAP, 3) => RPCBIND3,
        (PORTMAP, 4) => RPCBIND4,
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
        .filter(|name| !name.is_empty())
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

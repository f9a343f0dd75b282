//! Kinds of NFS calls that analyses over time tell apart, the same for all versions.

use wire::nfs3::procedure as v3;
use wire::nfs4::opcode as v4;
use wire::programs::{NFS, NFSACL};

use crate::call::{Call, marks};

/// What a call is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// READ (v4.2: READ_PLUS too).
    Read,
    /// WRITE.
    Write,
    /// COMMIT.
    Commit,
    /// GETATTR.
    GetAttr,
    /// ACCESS.
    Access,
    /// LOOKUP (v4: LOOKUPP too).
    Lookup,
    /// OPEN (v4).
    Open,
    /// CLOSE (v4).
    Close,
    /// All others, and those of other programs.
    Other,
}

/// Number of kinds.
pub const KINDS: usize = 9;

/// Names of the kinds, in their order.
pub const KIND_NAMES: [&str; KINDS] = [
    "READ", "WRITE", "COMMIT", "GETATTR", "ACCESS", "LOOKUP", "OPEN", "CLOSE", "other",
];

impl Kind {
    /// The kind of a call; of a COMPOUND by the operation that names it.
    #[inline(always)]
    pub fn of(call: &Call) -> Self {
        if call.program != NFS {
            return Kind::Other;
        }
        match (call.version, call.operation) {
            (4, v4::READ | v4::READ_PLUS) | (3, v3::READ) | (2, 6) => Kind::Read,
            (4, v4::WRITE) | (3, v3::WRITE) | (2, 8) => Kind::Write,
            (4, v4::COMMIT) | (3, v3::COMMIT) => Kind::Commit,
            (4, v4::GETATTR) | (3, v3::GETATTR) | (2, 1) => Kind::GetAttr,
            (4, v4::ACCESS) | (3, v3::ACCESS) => Kind::Access,
            (4, v4::LOOKUP | v4::LOOKUPP) | (3, v3::LOOKUP) | (2, 4) => Kind::Lookup,
            (4, v4::OPEN) => Kind::Open,
            (4, v4::CLOSE) => Kind::Close,
            _ => Kind::Other,
        }
    }
}

/// Whether a call is a client's to an NFS server: no callback, no MOUNT, lock or port mapper, whose
/// daemons are others.
#[inline(always)]
pub fn is_nfs(call: &Call) -> bool {
    (call.program == NFS || call.program == NFSACL) && !call.has(marks::CALLBACK)
}

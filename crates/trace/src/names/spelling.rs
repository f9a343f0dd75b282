//! Operations and statuses in the RFCs' spelling.

use std::borrow::Cow;

use wire::nfs3::nfsstat3;
use wire::nfs4;
use wire::programs::{MOUNT, NFS, NFSACL, NLM, NSM, is_callback, procedure_name};

use crate::call::{Call, Outcome};

/// First opcode of NFSv4 and of its callbacks: smaller numbers are procedures.
const FIRST_OPCODE: u32 = 3;

/// Name of an operation: `READ`, `COMPOUND`, `CB_RECALL`, `MNT`; the number where there is none.
/// Operations of NFSv4 and of its callbacks are opcodes; 0 and 1 are NULL and COMPOUND.
pub fn operation_text(program: u32, version: u32, operation: u32) -> Cow<'static, str> {
    let known = if program == NFS && version == 4 && operation >= FIRST_OPCODE {
        nfs4::operation_name(operation)
    } else if is_callback(program) && operation >= FIRST_OPCODE {
        nfs4::callback_operation_name(operation)
    } else {
        procedure_name(program, version, operation)
    };
    known.map_or_else(|| Cow::Owned(operation.to_string()), Cow::Borrowed)
}

/// [`operation_text`] as a string of its own.
pub fn operation_name(program: u32, version: u32, operation: u32) -> String {
    operation_text(program, version, operation).into_owned()
}

/// The name under which a call is counted: a COMPOUND's naming operation, else its procedure.
pub fn call_name(call: &Call) -> String {
    operation_name(call.program, call.version, call.operation)
}

/// Name of a protocol's status: `NFS3ERR_NOENT`, `NFS4ERR_DELAY`, `MNT3ERR_ACCES`; the number where
/// there is none.
pub fn status_name(program: u32, version: u32, status: u32) -> Cow<'static, str> {
    let known = match (program, version) {
        (NFS | NFSACL, 2) => nfs2_status(status),
        (NFS | NFSACL, 3) => nfsstat3 { code: status }.name(),
        (NFS, 4) => nfs4::status::status_name(status),
        (MOUNT, 3) => mount_status(status),
        (NLM, 4) => nlm4_status(status),
        (NLM, 1..=3) => nlm_status(status),
        (NSM, 1) => ["STAT_SUCC", "STAT_FAIL"].get(status as usize).copied(),
        (program, _) if is_callback(program) => nfs4::status::status_name(status),
        _ => None,
    };
    known.map_or_else(|| Cow::Owned(status.to_string()), Cow::Borrowed)
}

/// Name of the status of a call that failed, or of RPC's refusal; `None` for all other calls.
pub fn failure_name(program: u32, version: u32, outcome: Outcome) -> Option<Cow<'static, str>> {
    match outcome {
        Outcome::Status(0) | Outcome::Unanswered | Outcome::Accepted | Outcome::Unreadable => None,
        Outcome::Status(status) => Some(status_name(program, version, status)),
        Outcome::Refused(name) => Some(Cow::Borrowed(name)),
    }
}

/// `stat` (RFC 1094 section 2.3.1).
fn nfs2_status(status: u32) -> Option<&'static str> {
    Some(match status {
        0 => "NFS_OK",
        1 => "NFSERR_PERM",
        2 => "NFSERR_NOENT",
        5 => "NFSERR_IO",
        6 => "NFSERR_NXIO",
        13 => "NFSERR_ACCES",
        17 => "NFSERR_EXIST",
        19 => "NFSERR_NODEV",
        20 => "NFSERR_NOTDIR",
        21 => "NFSERR_ISDIR",
        27 => "NFSERR_FBIG",
        28 => "NFSERR_NOSPC",
        30 => "NFSERR_ROFS",
        63 => "NFSERR_NAMETOOLONG",
        66 => "NFSERR_NOTEMPTY",
        69 => "NFSERR_DQUOT",
        70 => "NFSERR_STALE",
        99 => "NFSERR_WFLUSH",
        _ => return None,
    })
}

/// `mountstat3` (RFC 1813 section 5.1.5).
fn mount_status(status: u32) -> Option<&'static str> {
    Some(match status {
        0 => "MNT3_OK",
        1 => "MNT3ERR_PERM",
        2 => "MNT3ERR_NOENT",
        5 => "MNT3ERR_IO",
        13 => "MNT3ERR_ACCES",
        20 => "MNT3ERR_NOTDIR",
        22 => "MNT3ERR_INVAL",
        63 => "MNT3ERR_NAMETOOLONG",
        10004 => "MNT3ERR_NOTSUPP",
        10006 => "MNT3ERR_SERVERFAULT",
        _ => return None,
    })
}

/// `nlm4_stats` (RFC 1813 section 6.1.3).
fn nlm4_status(status: u32) -> Option<&'static str> {
    const NAMES: [&str; 10] = [
        "NLM4_GRANTED",
        "NLM4_DENIED",
        "NLM4_DENIED_NOLOCKS",
        "NLM4_BLOCKED",
        "NLM4_DENIED_GRACE_PERIOD",
        "NLM4_DEADLCK",
        "NLM4_ROFS",
        "NLM4_STALE_FH",
        "NLM4_FBIG",
        "NLM4_FAILED",
    ];
    NAMES.get(status as usize).copied()
}

/// `nlm_stats` (X/Open XNFS).
fn nlm_status(status: u32) -> Option<&'static str> {
    const NAMES: [&str; 6] = [
        "LCK_GRANTED",
        "LCK_DENIED",
        "LCK_DENIED_NOLOCKS",
        "LCK_BLOCKED",
        "LCK_DENIED_GRACE_PERIOD",
        "LCK_DEADLCK",
    ];
    NAMES.get(status as usize).copied()
}

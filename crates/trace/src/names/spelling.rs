//! Operations and statuses in the RFCs' spelling.

use std::borrow::Cow;

use wire::nfs4;
use wire::programs::{self, NFS, is_callback, procedure_name};

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
    programs::status_name(program, version, status)
        .map_or_else(|| Cow::Owned(status.to_string()), Cow::Borrowed)
}

/// Name of the status of a call that failed, or of RPC's refusal; `None` for all other calls.
pub fn failure_name(program: u32, version: u32, outcome: Outcome) -> Option<Cow<'static, str>> {
    match outcome {
        Outcome::Status(0) | Outcome::Unanswered | Outcome::Accepted | Outcome::Unreadable => None,
        Outcome::Status(status) => Some(status_name(program, version, status)),
        Outcome::Refused(name) => Some(Cow::Borrowed(name)),
    }
}

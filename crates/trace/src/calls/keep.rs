//! What of a message spread over segments is worth keeping: payload that nobody looks at is not.
//!
//! Asked once for each such message, when its head is there: the inside of READ replies and WRITE
//! calls passes by arithmetic, all else (lists of directories, COMPOUNDs with operations behind
//! the payload) is kept whole.

use wire::programs::NFS;
use wire::{Visitor, rpc, summarise_call_with};

use super::open::{Kept, Protection};
use crate::stream::Keep;

/// Whether the inside of a message is payload that nobody looks at.
pub(super) fn keep<'a>(head: &[u8], pending: impl FnOnce(u32) -> Option<&'a Kept>) -> Keep {
    use wire::nfs4::opcode;
    if head.get(4..8) == Some(&[0, 0, 0, 1]) {
        let xid = head
            .first_chunk()
            .map_or(0, |word| u32::from_be_bytes(*word));
        let Some(open) = pending(xid) else {
            // Without its call it cannot be decoded.
            return Keep::Ends;
        };
        return match (open.program, open.version, open.operation) {
            (NFS, 2 | 3, 6) | (NFS, 4, opcode::READ | opcode::READ_PLUS) => Keep::Ends,
            _ if open.protection == Protection::Privacy => Keep::Ends,
            _ => Keep::Whole,
        };
    }
    let Ok(header) = rpc::Call::parse(head) else {
        return Keep::Ends;
    };
    match (header.program, header.version, header.procedure) {
        (NFS, 2, 8) | (NFS, 3, 7) => Keep::Ends,
        (NFS, 4, 1) => match header.arguments() {
            rpc::Payload::Plain(bytes) | rpc::Payload::Integrity { bytes, .. } => {
                let mut payload = Payload(false);
                let body = wire::Body::new(bytes, false);
                summarise_call_with([NFS, 4, 1], body, &mut payload);
                if payload.0 { Keep::Ends } else { Keep::Whole }
            }
            _ => Keep::Ends,
        },
        _ => Keep::Whole,
    }
}

/// Whether the payload of a WRITE is what the bytes end in.
struct Payload(bool);

impl<'a> Visitor<'a> for Payload {
    fn call_operation(&mut self, operation: &wire::summary::CallOperation<'a>) {
        self.0 = !operation.whole && operation.arguments.data_bytes.is_some();
    }
}

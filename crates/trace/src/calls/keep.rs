//! What of a message spread over segments is worth keeping: payload that nobody looks at is not.
//!
//! Asked once for each such message, when its head is there: the inside of READ replies and WRITE
//! calls passes by arithmetic, all else (lists of directories, ...) is kept whole. A COMPOUND may
//! have more than one payload, and much in front of and behind it: its inside passes if the
//! payload that its head tells of is nearly all of the message.

use wire::programs::NFS;
use wire::rpc::gss::RPCSEC_GSS_DATA;
use wire::rpc::{GssCredential, GssService, Payload};
use wire::{Body, Ignore, rpc, summarise_call_with, summarise_reply_with};

use super::open::{Kept, Protection};
use crate::stream::{Keep, TAIL_BYTES};

/// Procedure of NFSv4.
const COMPOUND: u32 = 1;

/// Whether the inside of a message is payload that nobody looks at. `total`: its bytes, if the
/// record marks that came tell.
pub(super) fn keep<'a>(
    head: &[u8],
    total: Option<usize>,
    pending: impl FnOnce(u32) -> Option<&'a Kept>,
) -> Keep {
    if head.get(4..8) == Some(&[0, 0, 0, 1]) {
        let xid = head
            .first_chunk()
            .map_or(0, |word| u32::from_be_bytes(*word));
        let Some(open) = pending(xid) else {
            // Without its call it cannot be decoded.
            return Keep::Ends;
        };
        return match (open.program, open.version, open.procedure) {
            (NFS, 2 | 3, 6) => Keep::Ends,
            _ if open.protection == Protection::Privacy => Keep::Ends,
            (NFS, 4, COMPOUND) => replied(head, total, open),
            _ => Keep::Whole,
        };
    }
    let Ok(header) = rpc::Call::parse(head) else {
        return Keep::Ends;
    };
    match (header.program, header.version, header.procedure) {
        (NFS, 2, 8) | (NFS, 3, 7) => Keep::Ends,
        (NFS, 4, COMPOUND) => match header.arguments() {
            Payload::Plain(bytes) | Payload::Integrity { bytes, .. } => {
                let body = Body::new(bytes, false);
                let summary = summarise_call_with([NFS, 4, COMPOUND], body, &mut Ignore);
                ends(summary.compound.map(|it| it.data_bytes), total)
            }
            _ => Keep::Ends,
        },
        _ => Keep::Whole,
    }
}

/// The same of a COMPOUND's reply.
fn replied(head: &[u8], total: Option<usize>, open: &Kept) -> Keep {
    let gss = GssCredential {
        procedure: RPCSEC_GSS_DATA,
        sequence: 0,
        service: GssService::Integrity,
        handle: &[],
    };
    let gss = (open.protection == Protection::Integrity).then_some(&gss);
    let body = rpc::Reply::parse(head).ok().and_then(|reply| reply.body);
    let (Payload::Plain(bytes) | Payload::Integrity { bytes, .. }) =
        Payload::unwrap_body(gss, body.unwrap_or_default())
    else {
        return Keep::Whole;
    };
    let body = Body::new(bytes, false);
    let summary = summarise_reply_with([NFS, 4, COMPOUND], body, &mut Ignore);
    ends(summary.compound.map(|it| it.data_bytes), total)
}

/// Whether what stands behind the payload fits into the tail, wherever the payload begins.
fn ends(payload_bytes: Option<u64>, total: Option<usize>) -> Keep {
    let payload_bytes = payload_bytes.and_then(|bytes| usize::try_from(bytes).ok());
    match (payload_bytes, total) {
        (Some(payload), Some(total)) if total.saturating_sub(payload) <= TAIL_BYTES => Keep::Ends,
        _ => Keep::Whole,
    }
}

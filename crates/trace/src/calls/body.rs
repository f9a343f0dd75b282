//! Arguments and results taken out of their message: holes, cuts, RPCSEC_GSS.

use wire::rpc::{GssCredential, GssService, Payload};
use wire::{Body, End};

use super::open::Protection;
use crate::stream::Message;

/// Bytes of arguments that a retransmission is compared by: a handle, offset and count, a name.
const COMPARED_BYTES: usize = 3 * THIRD_BYTES;
/// A third of them.
const THIRD_BYTES: usize = 32;

/// What stands behind an RPC header.
pub enum Inside<'a> {
    /// Arguments or results.
    Readable(Body<'a>),
    /// Encrypted.
    Private,
    /// Context control.
    Control,
    /// Protection that cannot be taken off.
    Unreadable,
}

/// How a credential protects its call.
pub fn protection(gss: &GssCredential<'_>) -> Protection {
    if gss.procedure != wire::rpc::gss::RPCSEC_GSS_DATA {
        return Protection::Control;
    }
    match gss.service {
        GssService::None => Protection::None,
        GssService::Integrity => Protection::Integrity,
        GssService::Privacy => Protection::Privacy,
    }
}

/// The body of a message, `head` being its part in [`Message::head`].
#[inline(always)]
pub fn inside<'a>(message: &Message<'a>, head: &'a [u8], protection: Protection) -> Inside<'a> {
    match protection {
        Protection::None if message.missing == 0 => {
            Inside::Readable(Body::new(head, message.complete))
        }
        Protection::None => {
            let (missing, tail) = (message.missing, message.tail);
            Inside::Readable(Body::with_hole(head, missing, tail, message.complete))
        }
        Protection::Privacy => Inside::Private,
        Protection::Control => Inside::Control,
        Protection::Integrity => integrity(message, head),
    }
}

#[cold]
fn integrity<'a>(message: &Message<'a>, head: &'a [u8]) -> Inside<'a> {
    let gss = GssCredential {
        procedure: wire::rpc::gss::RPCSEC_GSS_DATA,
        sequence: 0,
        service: GssService::Integrity,
        handle: &[],
    };
    let Payload::Integrity {
        bytes, complete, ..
    } = Payload::unwrap_body(Some(&gss), head)
    else {
        return Inside::Unreadable;
    };
    if complete || message.missing == 0 {
        return Inside::Readable(Body::new(bytes, complete));
    }
    // The checksum behind the protected bytes lies in the tail: only what is in front is results.
    let stated = head
        .first_chunk()
        .map_or(0, |word| u32::from_be_bytes(*word) as usize);
    let in_tail = stated
        .saturating_sub(4)
        .saturating_sub(bytes.len())
        .saturating_sub(message.missing);
    let (tail, whole) = match message.tail.get(..in_tail) {
        Some(tail) => (tail, true),
        None => (message.tail, false),
    };
    Inside::Readable(Body::with_hole(bytes, message.missing, tail, whole))
}

/// A number that two sends of one call share: over the front of the arguments and their length.
/// Any one word that differs makes it differ.
#[inline(always)]
pub fn checksum(head: &[u8], length: u32) -> u32 {
    let compared = head.get(..COMPARED_BYTES).unwrap_or(head);
    let mut sum = u64::from(length);
    match thirds(compared) {
        Some(thirds) => {
            for third in thirds {
                for word in third.as_chunks::<8>().0 {
                    sum = sum.rotate_left(23).wrapping_add(u64::from_le_bytes(*word));
                }
            }
        }
        None => {
            for byte in compared {
                sum = sum.rotate_left(9).wrapping_add(u64::from(*byte));
            }
        }
    }
    (sum.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
}

/// Front, middle and end, which overlap in what is shorter than all that is compared: the same
/// steps for arguments of any length, so that the processor need not guess how many.
#[inline(always)]
fn thirds(compared: &[u8]) -> Option<[&[u8; THIRD_BYTES]; 3]> {
    let middle = compared.len().checked_sub(THIRD_BYTES)?.min(THIRD_BYTES);
    Some([
        compared.first_chunk()?,
        compared.get(middle..)?.first_chunk()?,
        compared.last_chunk()?,
    ])
}

/// How a body ended, in marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// As it should, or it was not looked into.
    Well,
    /// Cut.
    Cut,
    /// Against its protocol.
    Badly,
}

/// Judges a summary's end. In a message with a hole a field that touches it is cut, not wrong.
#[inline(always)]
pub fn ended(end: &End, message: &Message<'_>) -> Ended {
    match end {
        End::Complete | End::Undecoded if message.complete => Ended::Well,
        End::Malformed(error) if message.missing == 0 || !error.is_short() => Ended::Badly,
        _ => Ended::Cut,
    }
}

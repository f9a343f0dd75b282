//! Telling RPC from other bytes, without ports: for the first bytes of a stream, and for finding
//! the next record after a TCP hole.
//!
//! A call is believed if `msg_type` is 0 (32 bits), `rpcvers` 2 (32 bits), program and version are
//! known (about 2^-57 for random bytes), the procedure exists and credential and verifier, as far
//! as they are there, are well formed: far below 10^-9 for random bytes even without a record
//! mark. A reply is weaker: `msg_type` 1, `reply_stat`, the verifier and the status give about
//! 2^-32 * 2^-31 * 2^-62 * 2^-30 (less if cut). The caller makes it certain by looking up the xid.

use super::auth::{
    AUTH_DH, AUTH_NONE, AUTH_SHORT, AUTH_SYS, AUTH_TLS, Credential, OpaqueAuth, RPCSEC_GSS,
};
use super::call::{CALL_FIXED_BYTES, Call};
use super::reply::{Reply, ReplyStatus};
use crate::programs::procedure_count;
use crate::record::{MARK_BYTES, RecordMark};

/// Shortest whole call: fixed words and two empty `opaque_auth`.
const MIN_CALL_BYTES: u32 = 40;
/// Shortest whole reply: a denied one (`AUTH_ERROR`).
const MIN_REPLY_BYTES: u32 = 20;

/// Reads a call if `message` (behind any record mark, possibly cut) is plausibly one.
#[inline]
pub fn looks_like_call(message: &[u8]) -> Option<Call<'_>> {
    let call = Call::parse(message).ok()?;
    if call.procedure >= procedure_count(call.program, call.version)? {
        return None;
    }
    let flavor_known = match &call.credential {
        Some(Credential::Other(auth)) => matches!(auth.flavor, AUTH_SHORT | AUTH_DH),
        _ => true,
    };
    let verifier_known = call.verifier.as_ref().is_none_or(verifier_plausible);
    (flavor_known && verifier_known).then_some(call)
}

/// Reads a reply if `message` (behind any record mark, possibly cut) is plausibly one. At least
/// the accepted status, or a denial, has to be there.
#[inline]
pub fn looks_like_reply(message: &[u8]) -> Option<Reply<'_>> {
    let reply = Reply::parse(message).ok()?;
    let status_plausible = match reply.status? {
        ReplyStatus::ProgramMismatch { low, high } => low <= high && high < 1 << 16,
        ReplyStatus::RpcMismatch { low, high } => low <= high && high < 16,
        // auth_stat ends at 14 (RFC 5531 section 9).
        ReplyStatus::AuthError(stat) => stat <= 14,
        _ => true,
    };
    let verifier_known = reply.verifier.as_ref().is_none_or(verifier_plausible);
    (status_plausible && verifier_known).then_some(reply)
}

fn verifier_plausible(verifier: &OpaqueAuth<'_>) -> bool {
    match verifier.flavor {
        // RFC 9289: the body of the answer to a TLS probe is `STARTTLS`.
        AUTH_NONE => matches!(verifier.body, b"" | b"STARTTLS"),
        AUTH_SYS | AUTH_SHORT | AUTH_DH | RPCSEC_GSS | AUTH_TLS => true,
        _ => false,
    }
}

/// A call or reply found behind a record mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found<'a> {
    /// A call.
    Call(Call<'a>),
    /// A reply.
    Reply(Reply<'a>),
}

/// Reads the record that plausibly begins at the first byte of `stream` (a record mark, then a
/// call or reply). For resynchronisation after a hole.
#[inline]
pub fn looks_like_record(stream: &[u8]) -> Option<(RecordMark, Found<'_>)> {
    let (mark, message) = stream.split_first_chunk::<MARK_BYTES>()?;
    let mark = RecordMark::parse(*mark).ok()?;
    let message = message.get(..mark.length as usize).unwrap_or(message);
    // Cheap rejection before anything else: msg_type is 0 or 1.
    let kind = message.get(4..8)?;
    match kind {
        [0, 0, 0, 0] if mark.length >= MIN_CALL_BYTES && message.len() >= CALL_FIXED_BYTES => {
            looks_like_call(message).map(|call| (mark, Found::Call(call)))
        }
        [0, 0, 0, 1] if mark.length >= MIN_REPLY_BYTES => {
            looks_like_reply(message).map(|reply| (mark, Found::Reply(reply)))
        }
        _ => None,
    }
}

/// True if `stream` begins with a TLS record header (RFC 8446 section 5.1): what follows a granted
/// TLS probe. Content type 20 to 23, version 3.1 to 3.4, at most 2^14 + 256 bytes.
pub fn looks_like_tls_record(stream: &[u8]) -> bool {
    match stream {
        [20..=23, 3, 1..=4, high, low, ..] => {
            (1..=16640).contains(&u16::from_be_bytes([*high, *low]))
        }
        _ => false,
    }
}

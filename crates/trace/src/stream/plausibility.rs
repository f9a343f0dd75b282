//! Whether bytes where a record is due are one.
//!
//! Where records followed each other, the words that all have are enough; at the front of a stream
//! and behind a record that was found by searching, the whole header has to be one.

use wire::rpc::{Reply, looks_like_call, looks_like_reply};

/// Shortest head that is handed on: xid, message type, and the word behind.
pub(super) const MIN_HEAD_BYTES: usize = 12;
/// Fixed words of a call, and of a reply with an empty verifier.
const HEADER_BYTES: usize = 24;
/// A reply's header with the longest verifier.
const LONGEST_REPLY_HEADER: usize = HEADER_BYTES + 400;

/// How sure the place of the next record is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Trust {
    /// The stream begins here, and may be no RPC.
    #[default]
    Fresh,
    /// The last record was found by searching.
    Found,
    /// Records followed each other.
    Sure,
}

/// Message type and RPC version of a call, as one number.
const CALL_WORDS: u64 = 2;
/// Message type and status of a reply to an accepted call.
const ACCEPTED_WORDS: u64 = 1 << 32;
/// The same for a denied call.
const DENIED_WORDS: u64 = 1 << 32 | 1;

/// An answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Plausible {
    Yes,
    No,
    /// More bytes will tell.
    Open,
}

impl From<bool> for Plausible {
    fn from(yes: bool) -> Self {
        if yes { Plausible::Yes } else { Plausible::No }
    }
}

/// Whether bytes from a message's front may be one; `ends` if it has no more.
pub(super) fn plausible(trust: Trust, front: &[u8], ends: bool) -> Plausible {
    if trust == Trust::Sure && (ends || front.len() >= MIN_HEAD_BYTES) {
        return has_rpc_words(front).into();
    }
    if !ends && front.len() < HEADER_BYTES {
        return Plausible::Open;
    }
    match front.get(4..8) {
        Some([0, 0, 0, 0]) => looks_like_call(front).is_some().into(),
        Some([0, 0, 0, 1]) if looks_like_reply(front).is_some() => Plausible::Yes,
        Some([0, 0, 0, 1]) if !ends && front.len() < LONGEST_REPLY_HEADER => {
            match Reply::parse(front) {
                Ok(reply) if reply.status.is_none() => Plausible::Open,
                _ => Plausible::No,
            }
        }
        _ => Plausible::No,
    }
}

/// Words that every call (type 0, RPC version 2) and reply (type 1, accepted or denied) has.
#[inline(always)]
pub(super) fn has_rpc_words(front: &[u8]) -> bool {
    let words = front.get(4..12).and_then(|words| words.first_chunk::<8>());
    matches!(
        words.map(|words| u64::from_be_bytes(*words)),
        Some(CALL_WORDS | ACCEPTED_WORDS | DENIED_WORDS)
    )
}

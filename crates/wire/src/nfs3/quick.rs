//! Well-formed NFSv3 bodies told by their lengths: the fast way for analyses that only count.
//!
//! Most of a capture is a handful of procedures whose calls and replies have one shape. Given a
//! whole body, these functions compare its length and its discriminants with that shape and take
//! out status and payload length; `None` sends the caller to [`crate::summarise_call`] and
//! [`crate::summarise_reply`], for errors as for whatever is rarer. Where they say something, the
//! summaries say the same, and that the body is complete (a property of the tests).

use super::procedure::{ACCESS, COMMIT, GETATTR, LOOKUP, READ, WRITE};
use super::types::FATTR3_BYTES;
use crate::limits::{MAX_DATA_BYTES, MAX_NAME_BYTES, NFS3_FHSIZE};
use crate::xdr::padding;

/// `wcc_attr`: size, mtime, ctime.
const WCC_ATTR_BYTES: usize = 24;
/// `writeverf3`.
const VERIFIER_BYTES: usize = 8;

/// What counts of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuickReply {
    /// `nfsstat3`.
    pub status: u32,
    /// Payload of a READ, bytes.
    pub data_bytes: u32,
}

#[inline(always)]
fn word(body: &[u8], at: usize) -> Option<u32> {
    let word = body.get(at..)?.first_chunk()?;
    Some(u32::from_be_bytes(*word))
}

/// End of the `opaque<limit>` at `at`, padding included.
#[inline(always)]
fn behind_opaque(body: &[u8], at: usize, limit: u32) -> Option<usize> {
    let length = word(body, at).filter(|length| *length <= limit)? as usize;
    Some(at + 4 + length + padding(length))
}

/// End of the optional field of `bytes` bytes at `at`.
#[inline(always)]
fn behind_optional(body: &[u8], at: usize, bytes: usize) -> Option<usize> {
    match word(body, at)? {
        0 => Some(at + 4),
        1 => Some(at + 4 + bytes),
        _ => None,
    }
}

/// Payload bytes (WRITE; else 0) of a whole, well-formed call of a frequent procedure.
#[inline(always)]
pub fn call_data_bytes(procedure: u32, body: &[u8]) -> Option<u32> {
    let at = behind_opaque(body, 0, NFS3_FHSIZE)?;
    let (end, data_bytes) = match procedure {
        GETATTR => (at, 0),
        ACCESS => (at + 4, 0),
        READ | COMMIT => (at + 12, 0),
        LOOKUP => (behind_opaque(body, at, MAX_NAME_BYTES)?, 0),
        WRITE => {
            // Offset, count, stable_how, data.
            word(body, at + 12).filter(|stable| *stable <= 2)?;
            let data_bytes = word(body, at + 16)?;
            (behind_opaque(body, at + 16, MAX_DATA_BYTES)?, data_bytes)
        }
        _ => return None,
    };
    (end == body.len()).then_some(data_bytes)
}

/// What counts of a whole, well-formed reply of a frequent procedure.
#[inline(always)]
pub fn reply(procedure: u32, body: &[u8]) -> Option<QuickReply> {
    let status = word(body, 0)?;
    let mut data_bytes = 0;
    let end = match (procedure, status) {
        (GETATTR, 0) => 4 + FATTR3_BYTES,
        (GETATTR, _) => 4,
        (READ, 0) => {
            // Attributes, count, eof, data.
            let at = behind_optional(body, 4, FATTR3_BYTES)?;
            word(body, at + 4).filter(|eof| *eof <= 1)?;
            data_bytes = word(body, at + 8)?;
            behind_opaque(body, at + 8, MAX_DATA_BYTES)?
        }
        (LOOKUP, 0) => {
            let at = behind_opaque(body, 4, NFS3_FHSIZE)?;
            let at = behind_optional(body, at, FATTR3_BYTES)?;
            behind_optional(body, at, FATTR3_BYTES)?
        }
        (ACCESS, 0) => behind_optional(body, 4, FATTR3_BYTES)? + 4,
        (READ | LOOKUP | ACCESS, _) => behind_optional(body, 4, FATTR3_BYTES)?,
        (WRITE | COMMIT, _) => {
            let at = behind_optional(body, 4, WCC_ATTR_BYTES)?;
            let at = behind_optional(body, at, FATTR3_BYTES)?;
            match (procedure, status) {
                (WRITE, 0) => {
                    // Count, committed.
                    word(body, at + 4).filter(|stable| *stable <= 2)?;
                    at + 8 + VERIFIER_BYTES
                }
                (_, 0) => at + VERIFIER_BYTES,
                _ => at,
            }
        }
        _ => return None,
    };
    (end == body.len()).then_some(QuickReply { status, data_bytes })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::programs::NFS;
    use crate::summary::End;
    use crate::{summarise_call, summarise_reply};

    /// Words that are small numbers mostly, as discriminants, lengths and flags are.
    fn words() -> impl Strategy<Value = Vec<u8>> {
        let word = prop_oneof![
            6 => 0u32..3,
            2 => Just(16u32),
            1 => Just(32u32),
            1 => any::<u32>(),
        ];
        prop::collection::vec(word, 0..80)
            .prop_map(|words| words.iter().flat_map(|word| word.to_be_bytes()).collect())
    }

    /// Bodies of the shape that the procedure has, some of them spoilt.
    fn shaped() -> impl Strategy<Value = (u32, Vec<u8>)> {
        let parts = prop::collection::vec(prop_oneof![Just(0u32), Just(1), Just(2)], 8);
        let procedure = prop::sample::select(vec![GETATTR, LOOKUP, ACCESS, READ, WRITE, COMMIT]);
        (procedure, parts, 0usize..70, any::<bool>()).prop_map(|(procedure, parts, bytes, odd)| {
            let mut body = Vec::new();
            let mut put = |value: u32| body.extend_from_slice(&value.to_be_bytes());
            put(parts[0] / 2);
            for part in &parts[1..] {
                put(*part);
                if *part == 1 {
                    (0..21).for_each(|_| put(0));
                }
            }
            body.resize((body.len() / 4).min(1 + bytes) * 4 + usize::from(odd), 0);
            (procedure, body)
        })
    }

    fn agrees_with_summaries(procedure: u32, body: &[u8]) {
        if let Some(data_bytes) = call_data_bytes(procedure, body) {
            let full = summarise_call(NFS, 3, procedure, body, true);
            assert_eq!(full.end, End::Complete);
            assert_eq!(full.arguments.data_bytes.unwrap_or(0), data_bytes);
        }
        if let Some(quick) = reply(procedure, body) {
            let full = summarise_reply(NFS, 3, procedure, body, true);
            assert_eq!(full.end, End::Complete);
            assert_eq!(full.results.status, Some(quick.status));
            assert_eq!(full.results.data_bytes.unwrap_or(0), quick.data_bytes);
        }
    }

    proptest! {
        #[test]
        fn random_words_are_judged_as_the_summaries_do(procedure in 0u32..22, body in words()) {
            agrees_with_summaries(procedure, &body);
        }

        #[test]
        fn shaped_bodies_are_judged_as_the_summaries_do((procedure, body) in shaped()) {
            agrees_with_summaries(procedure, &body);
        }
    }

    /// A handle of 28 bytes, then words.
    fn call(words: &[u32]) -> Vec<u8> {
        let mut body = 28u32.to_be_bytes().to_vec();
        body.extend_from_slice(&[7; 28]);
        body.extend(words.iter().flat_map(|word| word.to_be_bytes()));
        body
    }

    #[test]
    fn calls_of_rfc_1813_are_taken() {
        assert_eq!(call_data_bytes(GETATTR, &call(&[])), Some(0));
        assert_eq!(call_data_bytes(ACCESS, &call(&[0x3f])), Some(0));
        assert_eq!(call_data_bytes(READ, &call(&[0, 4096, 4096])), Some(0));
        assert_eq!(call_data_bytes(COMMIT, &call(&[0, 0, 0])), Some(0));
        assert_eq!(call_data_bytes(LOOKUP, &call(&[3, 0x6162_6300])), Some(0));
        let write = [0, 0, 6, 2, 6, 0x6162_6364, 0x6566_0000];
        assert_eq!(call_data_bytes(WRITE, &call(&write)), Some(6));
        assert_eq!(call_data_bytes(WRITE, &call(&[0, 0, 6, 3, 0])), None);
        assert_eq!(call_data_bytes(GETATTR, &call(&[0])), None);
        assert_eq!(call_data_bytes(READ, &call(&[0, 4096])), None);
    }

    #[test]
    fn replies_of_rfc_1813_are_taken() {
        let of =
            |words: &[u32]| -> Vec<u8> { words.iter().flat_map(|w| w.to_be_bytes()).collect() };
        let ok = |data_bytes| QuickReply {
            status: 0,
            data_bytes,
        };
        assert_eq!(reply(GETATTR, &of(&[0; 22])), Some(ok(0)));
        assert_eq!(
            reply(GETATTR, &of(&[70])),
            Some(QuickReply {
                status: 70,
                data_bytes: 0
            })
        );
        let mut read = vec![0, 1];
        read.extend([0; 21]);
        read.extend([5, 1, 5, 0x6162_6364, 0x6500_0000]);
        assert_eq!(reply(READ, &of(&read)), Some(ok(5)));
        let mut write = vec![0, 1, 0, 0, 0, 0, 0, 0, 1];
        write.extend([0; 21]);
        write.extend([4096, 2, 1, 2]);
        assert_eq!(reply(WRITE, &of(&write)), Some(ok(0)));
        assert_eq!(reply(COMMIT, &of(&[0, 0, 0, 9, 9])), Some(ok(0)));
        assert_eq!(
            reply(LOOKUP, &of(&[2, 0])),
            Some(QuickReply {
                status: 2,
                data_bytes: 0
            })
        );
        assert_eq!(reply(LOOKUP, &of(&[0, 4, 1, 0, 0])), Some(ok(0)));
        assert_eq!(reply(READ, &of(&[0, 0, 5, 2, 0])), None);
        assert_eq!(reply(READ, &of(&[0, 0, 5, 1, 5, 0])), None);
    }
}

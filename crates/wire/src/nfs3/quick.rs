//! Well-formed NFSv3 bodies told by their lengths: the fast way for analyses.
//!
//! Most of a capture is a handful of procedures whose calls and replies have one shape. Given a
//! whole body, these functions compare its length and its discriminants with that shape and take
//! out what analyses look at; what a caller does not use costs nothing. `None` sends it to
//! [`crate::summarise_call`] and [`crate::summarise_reply`], for errors as for whatever is rarer.
//! Where they say something, the summaries say the same, and that the body is complete (a property
//! of the tests).

use super::procedure::{ACCESS, COMMIT, GETATTR, LOOKUP, READ, WRITE};
use super::types::FATTR3_BYTES;
use crate::limits::{MAX_DATA_BYTES, MAX_NAME_BYTES, NFS3_FHSIZE};
use crate::summary::Stability;
use crate::xdr::padding;

/// `wcc_attr`: size, mtime, ctime.
const WCC_ATTR_BYTES: usize = 24;
/// `writeverf3`.
const VERIFIER_BYTES: usize = 8;

/// What is looked at of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuickCall<'a> {
    /// The object, or the directory of a LOOKUP.
    pub file_handle: &'a [u8],
    /// LOOKUP's name.
    pub name: Option<&'a [u8]>,
    /// First byte and count of READ, WRITE, COMMIT.
    pub extent: Option<(u64, u32)>,
    /// Stability that a WRITE asks for.
    pub stable: Option<Stability>,
    /// Payload of a WRITE, bytes.
    pub data_bytes: u32,
}

/// What is looked at of a reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuickReply<'a> {
    /// `nfsstat3`.
    pub status: u32,
    /// Payload of a READ, bytes.
    pub data_bytes: u32,
    /// READ: end of file.
    pub eof: bool,
    /// Stability that a WRITE reached.
    pub committed: Option<Stability>,
    /// The object that a LOOKUP found.
    pub file_handle: Option<&'a [u8]>,
    /// Attributes of the object (LOOKUP: of the one that was found).
    pub attributes: Option<QuickAttributes>,
}

/// What is looked at of a `fattr3`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuickAttributes {
    /// `ftype3`.
    pub file_type: u32,
    /// Size, bytes.
    pub size_bytes: u64,
    /// File system.
    pub fsid: u64,
    /// File number within the file system.
    pub file_id: u64,
}

#[inline(always)]
fn word(body: &[u8], at: usize) -> Option<u32> {
    let word = body.get(at..)?.first_chunk()?;
    Some(u32::from_be_bytes(*word))
}

#[inline(always)]
fn double(body: &[u8], at: usize) -> Option<u64> {
    let double = body.get(at..)?.first_chunk()?;
    Some(u64::from_be_bytes(*double))
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

/// The `opaque<limit>` at `at`, and the end of its padding.
#[inline(always)]
fn opaque(body: &[u8], at: usize, limit: u32) -> Option<(&[u8], usize)> {
    let length = word(body, at).filter(|length| *length <= limit)? as usize;
    let bytes = body.get(at + 4..at + 4 + length)?;
    Some((bytes, at + 4 + length + padding(length)))
}

/// The `post_op_attr` at `at`, and its end.
#[inline(always)]
fn post_op(body: &[u8], at: usize) -> Option<(Option<QuickAttributes>, usize)> {
    match word(body, at)? {
        0 => Some((None, at + 4)),
        1 => Some((Some(attributes(body, at + 4)?), at + 4 + FATTR3_BYTES)),
        _ => None,
    }
}

/// The `fattr3` at `at`.
#[inline(always)]
fn attributes(body: &[u8], at: usize) -> Option<QuickAttributes> {
    let bytes = body.get(at..)?.first_chunk::<FATTR3_BYTES>()?;
    Some(QuickAttributes {
        file_type: word(bytes, 0)?,
        size_bytes: double(bytes, 20)?,
        fsid: double(bytes, 44)?,
        file_id: double(bytes, 52)?,
    })
}

#[inline(always)]
fn stability(body: &[u8], at: usize) -> Option<Stability> {
    match word(body, at)? {
        0 => Some(Stability::Unstable),
        1 => Some(Stability::DataSync),
        2 => Some(Stability::FileSync),
        _ => None,
    }
}

/// A whole, well-formed call of a frequent procedure.
#[inline(always)]
pub fn call(procedure: u32, body: &[u8]) -> Option<QuickCall<'_>> {
    let (file_handle, at) = opaque(body, 0, NFS3_FHSIZE)?;
    let mut call = QuickCall {
        file_handle,
        ..QuickCall::default()
    };
    let end = match procedure {
        GETATTR => at,
        ACCESS => at + 4,
        LOOKUP => {
            let (name, end) = opaque(body, at, MAX_NAME_BYTES)?;
            call.name = Some(name);
            end
        }
        READ | COMMIT | WRITE => {
            call.extent = Some((double(body, at)?, word(body, at + 8)?));
            match procedure {
                WRITE => {
                    // Offset, count, stable_how, data.
                    call.stable = Some(stability(body, at + 12)?);
                    call.data_bytes = word(body, at + 16)?;
                    behind_opaque(body, at + 16, MAX_DATA_BYTES)?
                }
                _ => at + 12,
            }
        }
        _ => return None,
    };
    (end == body.len()).then_some(call)
}

/// A whole, well-formed reply of a frequent procedure.
#[inline(always)]
pub fn reply(procedure: u32, body: &[u8]) -> Option<QuickReply<'_>> {
    let status = word(body, 0)?;
    let mut reply = QuickReply {
        status,
        ..QuickReply::default()
    };
    let end = match (procedure, status) {
        (GETATTR, 0) => {
            reply.attributes = Some(attributes(body, 4)?);
            4 + FATTR3_BYTES
        }
        (GETATTR, _) => 4,
        (READ, 0) => {
            // Attributes, count, eof, data.
            let (attributes, at) = post_op(body, 4)?;
            reply.attributes = attributes;
            reply.eof = word(body, at + 4).filter(|eof| *eof <= 1)? == 1;
            reply.data_bytes = word(body, at + 8)?;
            behind_opaque(body, at + 8, MAX_DATA_BYTES)?
        }
        (LOOKUP, 0) => {
            let (file_handle, at) = opaque(body, 4, NFS3_FHSIZE)?;
            reply.file_handle = Some(file_handle);
            let (attributes, at) = post_op(body, at)?;
            reply.attributes = attributes;
            behind_optional(body, at, FATTR3_BYTES)?
        }
        // The directory's attributes.
        (LOOKUP, _) => behind_optional(body, 4, FATTR3_BYTES)?,
        (READ | ACCESS, _) => {
            let (attributes, at) = post_op(body, 4)?;
            reply.attributes = attributes;
            at + if status == 0 { 4 } else { 0 }
        }
        (WRITE | COMMIT, _) => {
            let at = behind_optional(body, 4, WCC_ATTR_BYTES)?;
            let (attributes, at) = post_op(body, at)?;
            reply.attributes = attributes;
            match (procedure, status) {
                (WRITE, 0) => {
                    // Count, committed.
                    reply.committed = Some(stability(body, at + 4)?);
                    at + 8 + VERIFIER_BYTES
                }
                (_, 0) => at + VERIFIER_BYTES,
                _ => at,
            }
        }
        _ => return None,
    };
    (end == body.len()).then_some(reply)
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
        if let Some(quick) = call(procedure, body) {
            let full = summarise_call(NFS, 3, procedure, body, true);
            assert_eq!(full.end, End::Complete);
            let arguments = &full.arguments;
            let extent = arguments.offset.zip(arguments.count);
            assert_eq!(arguments.offset.is_some(), arguments.count.is_some());
            let expected = QuickCall {
                file_handle: arguments.file_handle.unwrap(),
                name: arguments.name,
                extent: extent.map(|(offset, count)| (offset, count.try_into().unwrap())),
                stable: arguments.stable,
                data_bytes: arguments.data_bytes.unwrap_or(0),
            };
            assert_eq!(quick, expected);
            assert!(arguments.target_handle.is_none() && arguments.target_name.is_none());
        }
        if let Some(quick) = reply(procedure, body) {
            let full = summarise_reply(NFS, 3, procedure, body, true);
            assert_eq!(full.end, End::Complete);
            let results = &full.results;
            let attributes = results.attributes.as_ref();
            let expected = QuickReply {
                status: results.status.unwrap(),
                data_bytes: results.data_bytes.unwrap_or(0),
                eof: results.eof == Some(true),
                committed: results.committed,
                file_handle: results.file_handle,
                attributes: attributes.map(|it| QuickAttributes {
                    file_type: it.file_type.unwrap(),
                    size_bytes: it.size_bytes.unwrap(),
                    fsid: it.fsid.unwrap(),
                    file_id: it.file_id.unwrap(),
                }),
            };
            assert_eq!(quick, expected);
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
    fn arguments(words: &[u32]) -> Vec<u8> {
        let mut body = 28u32.to_be_bytes().to_vec();
        body.extend_from_slice(&[7; 28]);
        body.extend(words.iter().flat_map(|word| word.to_be_bytes()));
        body
    }

    #[test]
    fn calls_of_rfc_1813_are_taken() {
        let usual = QuickCall {
            file_handle: &[7; 28],
            ..QuickCall::default()
        };
        assert_eq!(call(GETATTR, &arguments(&[])), Some(usual));
        assert_eq!(call(ACCESS, &arguments(&[0x3f])), Some(usual));
        let read = QuickCall {
            extent: Some((1 << 32 | 4096, 512)),
            ..usual
        };
        assert_eq!(call(READ, &arguments(&[1, 4096, 512])), Some(read));
        assert_eq!(call(COMMIT, &arguments(&[1, 4096, 512])), Some(read));
        let lookup = QuickCall {
            name: Some(b"abc"),
            ..usual
        };
        assert_eq!(call(LOOKUP, &arguments(&[3, 0x6162_6300])), Some(lookup));
        let write = QuickCall {
            extent: Some((0, 6)),
            stable: Some(Stability::FileSync),
            data_bytes: 6,
            ..usual
        };
        let words = [0, 0, 6, 2, 6, 0x6162_6364, 0x6566_0000];
        assert_eq!(call(WRITE, &arguments(&words)), Some(write));
        assert_eq!(call(WRITE, &arguments(&[0, 0, 6, 3, 0])), None);
        assert_eq!(call(GETATTR, &arguments(&[0])), None);
        assert_eq!(call(READ, &arguments(&[0, 4096])), None);
    }

    #[test]
    fn replies_of_rfc_1813_are_taken() {
        let of =
            |words: &[u32]| -> Vec<u8> { words.iter().flat_map(|w| w.to_be_bytes()).collect() };
        let ok = QuickReply::default();
        let mut words = [0; 22];
        (words[1], words[6], words[7]) = (2, 1, 5);
        (words[12], words[13], words[14], words[15]) = (3, 4, 6, 7);
        let directory = QuickAttributes {
            file_type: 2,
            size_bytes: 1 << 32 | 5,
            fsid: 3 << 32 | 4,
            file_id: 6 << 32 | 7,
        };
        let with_attributes = QuickReply {
            attributes: Some(directory),
            ..ok
        };
        assert_eq!(reply(GETATTR, &of(&words)), Some(with_attributes));
        let stale = QuickReply { status: 70, ..ok };
        assert_eq!(reply(GETATTR, &of(&[70])), Some(stale));
        let mut read = vec![0, 1];
        read.extend([0; 21]);
        read.extend([5, 1, 5, 0x6162_6364, 0x6500_0000]);
        let five = QuickReply {
            data_bytes: 5,
            eof: true,
            attributes: Some(QuickAttributes::default()),
            ..ok
        };
        assert_eq!(reply(READ, &of(&read)), Some(five));
        let mut write = vec![0, 1, 0, 0, 0, 0, 0, 0, 1];
        write.extend([0; 21]);
        write.extend([4096, 2, 1, 2]);
        let safe = QuickReply {
            committed: Some(Stability::FileSync),
            attributes: Some(QuickAttributes::default()),
            ..ok
        };
        assert_eq!(reply(WRITE, &of(&write)), Some(safe));
        assert_eq!(reply(COMMIT, &of(&[0, 0, 0, 9, 9])), Some(ok));
        let none = QuickReply { status: 2, ..ok };
        assert_eq!(reply(LOOKUP, &of(&[2, 0])), Some(none));
        let found = QuickReply {
            file_handle: Some(&[0, 0, 0, 1]),
            ..ok
        };
        assert_eq!(reply(LOOKUP, &of(&[0, 4, 1, 0, 0])), Some(found));
        assert_eq!(reply(READ, &of(&[0, 0, 5, 2, 0])), None);
        assert_eq!(reply(READ, &of(&[0, 0, 5, 1, 5, 0])), None);
    }
}

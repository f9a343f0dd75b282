//! Which bytes of which file a READ, WRITE or COMMIT was about: from its message and its reply.
//!
//! Only looked at when every call is recorded, or calls are counted by file. The file's number is
//! the `fileid` of the reply's attributes, which a mount shows programs as the inode: so the calls
//! of an fsync can be found. A server need not send attributes: then the number is not known.

use wire::Reader;
use wire::nfs3::FATTR3_BYTES;
use wire::nfs3::procedure::{COMMIT, READ, WRITE};

/// Bytes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct FileCall {
    /// The server's `fileid`; 0 when the reply has no attributes.
    pub file_id: u64,
    /// First byte.
    pub offset: u64,
    /// How many were asked for; of a COMMIT 0 means to the end.
    pub count: u32,
    /// How many the reply says were read or written.
    pub done: u32,
}

/// Place of `fileid` in `fattr3`.
const FILE_ID_AT: usize = 52;

impl FileCall {
    /// Of an NFSv3 call (with its record mark) and the reply's results, if any came; None if the
    /// call is about no bytes.
    #[inline]
    pub(crate) fn of(procedure: u32, message: &[u8], results: Option<&[u8]>) -> Option<FileCall> {
        if ![READ, WRITE, COMMIT].contains(&procedure) {
            return None;
        }
        let (offset, count) = place(message).ok()?;
        let answered = results.and_then(|body| answered(procedure, body).ok());
        let (file_id, done) = answered.unwrap_or_default();
        Some(FileCall {
            file_id,
            offset,
            count,
            done,
        })
    }
}

/// Offset and count: all three calls have them behind the file's handle.
fn place(message: &[u8]) -> wire::Result<(u64, u32)> {
    let mut reader = Reader::new(message);
    // Record mark, xid, call, RPC version, program, version, procedure.
    reader.skip(28, "call")?;
    for field in ["credential", "verifier"] {
        reader.skip(4, field)?;
        reader.opaque(wire::limits::MAX_AUTH_BYTES, field)?;
    }
    reader.opaque(wire::limits::NFS3_FHSIZE, "file")?;
    Ok((reader.u64("offset")?, reader.u32("count")?))
}

/// The file's number, and how many bytes were read or written; 0 each where the reply has none.
fn answered(procedure: u32, results: &[u8]) -> wire::Result<(u64, u32)> {
    let mut reader = Reader::new(results);
    let status = reader.u32("status")?;
    if procedure != READ && reader.bool("wcc_data.before")? {
        reader.skip(24, "wcc_attr")?;
    }
    let mut file_id = 0;
    if reader.bool("post_op_attr")? {
        let attributes = reader.array::<FATTR3_BYTES>("fattr3")?;
        let bytes = attributes.get(FILE_ID_AT..).and_then(|b| b.first_chunk());
        file_id = bytes.map_or(0, |b| u64::from_be_bytes(*b));
    }
    let done = match procedure {
        READ | WRITE if status == 0 => reader.u32("count")?,
        _ => 0,
    };
    Ok((file_id, done))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A call with AUTH_NONE, and a handle of five bytes.
    fn message(procedure: u32, offset: u64, count: u32) -> Vec<u8> {
        let mut words: Vec<u32> = vec![0x8000_0000, 7, 0, 2, 100_003, 3, procedure, 0, 0, 0, 0, 5];
        words.extend([0xaabb_ccdd, 0xee00_0000]);
        words.extend([(offset >> 32) as u32, offset as u32, count]);
        words.iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    /// NFS3_OK, wcc_data with or without what was before, fattr3 with this fileid; 4096 bytes.
    fn results(before: Option<()>, fileid: Option<u64>) -> Vec<u8> {
        let mut bytes = vec![0; 4];
        if let Some(()) = before {
            bytes.extend([0, 0, 0, 1]);
            bytes.extend([9; 24]);
        } else {
            bytes.extend([0; 4]);
        }
        let Some(fileid) = fileid else {
            bytes.extend([0, 0, 0, 0, 0, 0, 16, 0]);
            return bytes;
        };
        bytes.extend([0, 0, 0, 1]);
        bytes.extend([9; 52]);
        bytes.extend(fileid.to_be_bytes());
        bytes.extend([9; 24]);
        bytes.extend(4096_u32.to_be_bytes());
        bytes
    }

    #[test]
    fn offset_count_and_fileid_are_those_on_the_wire() {
        let call = message(WRITE, (1 << 40) + 8192, 16384);
        let expected = |file_id, done| FileCall {
            file_id,
            offset: (1 << 40) + 8192,
            count: 16384,
            done,
        };
        let mut failed = results(None, Some(77));
        failed[3] = 28; // NFS3ERR_NOSPC
        for (reply, file_id, done) in [
            (results(Some(()), Some(77)), 77, 4096),
            (results(None, Some(u64::MAX)), u64::MAX, 4096),
            (results(Some(()), None), 0, 4096),
            (failed, 77, 0),
            (vec![0; 3], 0, 0),
        ] {
            let found = FileCall::of(WRITE, &call, Some(&reply));
            assert_eq!(found, Some(expected(file_id, done)));
        }
        assert_eq!(FileCall::of(WRITE, &call, None), Some(expected(0, 0)));
        let commit = FileCall::of(COMMIT, &message(COMMIT, 0, 0), None);
        assert_eq!(commit, Some(FileCall::default()));
        // A READ's results begin with the attributes.
        let mut read = results(None, Some(5));
        read.drain(..4);
        let found = FileCall::of(READ, &message(READ, 1, 2), Some(&read));
        assert_eq!(
            found.map(|f| (f.file_id, f.offset, f.count, f.done)),
            Some((5, 1, 2, 4096))
        );
        assert_eq!(FileCall::of(1, &call, None), None);
    }

    #[test]
    fn a_cut_message_is_about_no_bytes() {
        let call = message(WRITE, 1, 2);
        for length in 0..call.len() {
            assert_eq!(FileCall::of(WRITE, &call[..length], None), None);
        }
    }
}

//! READDIR and READDIRPLUS results (RFC 1813 sections 3.3.16 and 3.3.17).
//!
//! A client decodes a page into a vector that grows with the entries that are there. A server
//! writes entries one by one with [`DirectoryWriter`], which keeps the reply within the size that
//! the client asked for.
// Fields are the RFC's, named as there; its text documents them.
#![allow(missing_docs, non_camel_case_types)]

use super::types::{Res, cookieverf3, filename3, nfsstat3, post_op_attr, post_op_fh3};
use crate::error::Result;
use crate::xdr::{Encode, Linked};
use crate::xdr_macros::xdr_struct;

/// READDIR (3.3.16).
pub type READDIR3res<'a> = Res<READDIR3resok<'a>, post_op_attr>;
/// READDIRPLUS (3.3.17).
pub type READDIRPLUS3res<'a> = Res<READDIRPLUS3resok<'a>, post_op_attr>;

xdr_struct! {
    /// An entry of READDIR.
    entry3<'a> { fileid: u64, name: filename3<'a>, cookie: u64 }
    /// READDIR.
    list READDIR3resok<'a> {
        dir_attributes: post_op_attr,
        cookieverf: cookieverf3,
        entries: Linked<entry3<'a>>,
        eof: bool,
    }
    /// An entry of READDIRPLUS.
    entryplus3<'a> {
        fileid: u64,
        name: filename3<'a>,
        cookie: u64,
        name_attributes: post_op_attr,
        name_handle: post_op_fh3<'a>,
    }
    /// READDIRPLUS.
    list READDIRPLUS3resok<'a> {
        dir_attributes: post_op_attr,
        cookieverf: cookieverf3,
        entries: Linked<entryplus3<'a>>,
        eof: bool,
    }
}

/// End of list and `eof`: what has to fit behind the last entry.
const END_BYTES: usize = 8;

/// Writes a READDIR or READDIRPLUS result entry by entry within a size.
#[derive(Debug)]
pub struct DirectoryWriter<'o> {
    out: &'o mut Vec<u8>,
    limit: usize,
    entries: usize,
    dircount_left: usize,
}

impl<'o> DirectoryWriter<'o> {
    /// Appends status, attributes and verifier. `max_bytes` is the call's `count` or `maxcount`:
    /// the bytes of the whole `resok`; `dircount` bounds names, ids and cookies alone
    /// (READDIRPLUS; `u32::MAX` for READDIR).
    pub fn begin(
        out: &'o mut Vec<u8>,
        dir_attributes: &post_op_attr,
        cookieverf: cookieverf3,
        max_bytes: u32,
        dircount: u32,
    ) -> Result<Self> {
        nfsstat3::NFS3_OK.encode(out)?;
        let limit = out.len().saturating_add(max_bytes as usize);
        dir_attributes.encode(out)?;
        cookieverf.encode(out)?;
        Ok(DirectoryWriter {
            out,
            limit,
            entries: 0,
            dircount_left: dircount as usize,
        })
    }

    fn put(&mut self, directory_bytes: usize, entry: &impl Encode) -> Result<bool> {
        let start = self.out.len();
        true.encode(self.out)?;
        entry.encode(self.out)?;
        if self.out.len() + END_BYTES > self.limit || directory_bytes > self.dircount_left {
            self.out.truncate(start);
            return Ok(false);
        }
        self.dircount_left -= directory_bytes;
        self.entries += 1;
        Ok(true)
    }

    /// Appends an entry of READDIR; false if it does not fit any more (nothing is appended).
    pub fn entry(&mut self, entry: &entry3<'_>) -> Result<bool> {
        self.put(0, entry)
    }

    /// Appends an entry of READDIRPLUS; false if it does not fit any more (nothing is appended).
    pub fn entry_plus(&mut self, entry: &entryplus3<'_>) -> Result<bool> {
        // fileid, cookie, name's length and name (RFC 1813 section 3.3.17: dircount).
        self.put(20 + entry.name.0.len().next_multiple_of(4), entry)
    }

    /// Ends the list; returns the number of entries. None with `eof` false means that not even one
    /// fitted: the server should answer NFS3ERR_TOOSMALL instead.
    pub fn finish(self, eof: bool) -> Result<usize> {
        false.encode(self.out)?;
        eof.encode(self.out)?;
        Ok(self.entries)
    }
}

//! Summaries of calls and replies, without building their full values.
//!
//! [`summarise_call`] and [`summarise_reply`] walk a body once, allocate nothing, copy nothing but
//! numbers, and never touch a payload.
//!
//! Bodies that were not kept whole (a reader that drops the inside of large WRITEs and READs) are
//! given as a [`Body`] with a hole: the operations behind the payload are then decoded as well.

use crate::error::Result;
use crate::nfs4::{Side, compound};
use crate::programs::{MOUNT, NFS, NFSACL, NLM, NSM, PORTMAP, is_callback};
use crate::summary::{CallSummary, End, Ignore, ReplySummary, Visitor};
use crate::xdr::Reader;
use crate::{companions, nfs2, nfs3};

/// A body's bytes, and whether they are all.
#[derive(Clone, Copy, Debug)]
pub struct Body<'a> {
    head: &'a [u8],
    hole: Option<(usize, &'a [u8])>,
    complete: bool,
}

impl<'a> Body<'a> {
    /// `bytes` from the body's front; `complete` if they are all.
    #[inline(always)]
    pub fn new(bytes: &'a [u8], complete: bool) -> Self {
        Body {
            head: bytes,
            hole: None,
            complete,
        }
    }

    /// `head`, then `missing` bytes that were not kept (inside a READ or WRITE payload), then
    /// `tail`; `complete` if the body ends with `tail`.
    pub fn with_hole(head: &'a [u8], missing: usize, tail: &'a [u8], complete: bool) -> Self {
        Body {
            head,
            hole: Some((missing, tail)),
            complete,
        }
    }

    #[inline(always)]
    fn reader(&self) -> Reader<'a> {
        match self.hole {
            None => Reader::new(self.head),
            Some((missing, tail)) => Reader::with_hole(self.head, missing, tail),
        }
    }
}

/// Summarises a call's arguments. `body` lies behind the RPC header (and out of any RPCSEC_GSS
/// protection); `complete` is false if the capture cut it.
#[inline]
pub fn summarise_call(
    program: u32,
    version: u32,
    procedure: u32,
    body: &[u8],
    complete: bool,
) -> CallSummary<'_> {
    let body = Body::new(body, complete);
    summarise_call_with([program, version, procedure], body, &mut Ignore)
}

/// Summarises a reply's results; program, version and procedure are those of its call.
#[inline]
pub fn summarise_reply(
    program: u32,
    version: u32,
    procedure: u32,
    body: &[u8],
    complete: bool,
) -> ReplySummary<'_> {
    let body = Body::new(body, complete);
    summarise_reply_with([program, version, procedure], body, &mut Ignore)
}

/// [`summarise_call`] with a visitor, and for a body with a hole.
pub fn summarise_call_with<'a>(
    [program, version, procedure]: [u32; 3],
    body: Body<'a>,
    visitor: &mut impl Visitor<'a>,
) -> CallSummary<'a> {
    let mut summary = CallSummary::default();
    let mut reader = body.reader();
    let arguments = &mut summary.arguments;
    let decoded = match (program, version) {
        (NFS, 3) => nfs3::summary::call(procedure, &mut reader, arguments),
        (NFS, 4) => compound::call(procedure, Side::Fore, &mut reader, &mut summary, visitor),
        (NFS, 2) => nfs2::call(procedure, &mut reader, arguments),
        (MOUNT, 1..=3) => companions::mount_call(procedure, &mut reader, arguments),
        (NLM, 1..=4) => companions::nlm_call(version, procedure, &mut reader, arguments),
        (NSM, 1) => companions::nsm_call(procedure, &mut reader, arguments),
        (NFSACL, 2 | 3) => companions::nfsacl_call(version, procedure, &mut reader, arguments),
        (PORTMAP, 2..=4) => companions::portmap_call(version, procedure, &mut reader, arguments),
        _ if is_callback(program) => {
            compound::call(procedure, Side::Back, &mut reader, &mut summary, visitor)
        }
        _ => None,
    };
    if let Some(result) = decoded {
        summary.end = end_of(result, &reader, body.complete);
    }
    summary
}

/// [`summarise_reply`] with a visitor, and for a body with a hole.
pub fn summarise_reply_with<'a>(
    [program, version, procedure]: [u32; 3],
    body: Body<'a>,
    visitor: &mut impl Visitor<'a>,
) -> ReplySummary<'a> {
    let mut summary = ReplySummary::default();
    let mut reader = body.reader();
    let results = &mut summary.results;
    let decoded = match (program, version) {
        (NFS, 3) => nfs3::summary::reply(procedure, &mut reader, results, visitor),
        (NFS, 4) => compound::reply(procedure, Side::Fore, &mut reader, &mut summary, visitor),
        (NFS, 2) => nfs2::reply(procedure, &mut reader, results, visitor),
        (MOUNT, 1..=3) => companions::mount_reply(version, procedure, &mut reader, results),
        (NLM, 1..=4) => companions::nlm_reply(version, procedure, &mut reader, results),
        (NSM, 1) => companions::nsm_reply(procedure, &mut reader, results),
        (NFSACL, 2 | 3) => companions::nfsacl_reply(&mut reader, results),
        (PORTMAP, 2..=4) => companions::portmap_reply(version, procedure, &mut reader, results),
        _ if is_callback(program) => {
            compound::reply(procedure, Side::Back, &mut reader, &mut summary, visitor)
        }
        _ => None,
    };
    if let Some(result) = decoded {
        summary.end = end_of(result, &reader, body.complete);
    }
    summary
}

fn end_of(result: Result<()>, reader: &Reader<'_>, complete: bool) -> End {
    match result.and_then(|()| reader.finish("body")) {
        Ok(()) => End::Complete,
        // A cut body is short; in a whole one that is its own fault.
        Err(error) if error.is_short() && !complete => End::Truncated(error),
        Err(error) if !complete && reader.rest().is_empty() => End::Truncated(error),
        Err(error) => End::Malformed(error),
    }
}

//! What a capture analysis wants to know of a call or reply: [`crate::summarise_call`] and
//! [`crate::summarise_reply`] give it.
//!
//! What was decoded before a cut or an error stays in the summary; [`End`] says how far it goes. A
//! COMPOUND is summarised under the operation that names it ([`crate::nfs4::names_compound`]); a
//! [`Visitor`] sees each of its operations with all its fields, and each directory entry.

use crate::error::{Error, Result};
use crate::nfs4::opcode::OperationList;
use crate::xdr::Reader;

/// How a body ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum End {
    /// Decoded to its last byte.
    Complete,
    /// The capture cut it here; all fields in front are known.
    Truncated(Error),
    /// It breaks its protocol here; the fields in front are as they were sent.
    Malformed(Error),
    /// Program, version or procedure are unknown, or the body is of no interest.
    #[default]
    Undecoded,
}

/// `stable_how` of a WRITE, asked for or done (RFC 1813 section 3.3.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stability {
    /// May stay in the server's memory until COMMIT.
    Unstable,
    /// Data and what is needed to read it back are on stable storage.
    DataSync,
    /// Data and all metadata are on stable storage.
    FileSync,
}

impl Stability {
    /// Reads `stable_how`.
    #[inline(always)]
    pub(crate) fn decode(reader: &mut Reader<'_>, field: &'static str) -> Result<Self> {
        match reader.u32(field)? {
            0 => Ok(Stability::Unstable),
            1 => Ok(Stability::DataSync),
            2 => Ok(Stability::FileSync),
            value => Err(reader.bad_value(value, field)),
        }
    }
}

/// A point in time as a server states it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Time {
    /// Seconds since 1970.
    pub seconds: i64,
    /// Nanoseconds within the second.
    pub nanoseconds: u32,
}

/// `stateid4` (RFC 7530 section 3.2, RFC 8881 section 3.3.12).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StateId<'a> {
    /// Version of the state.
    pub sequence: u32,
    /// Which state.
    pub other: &'a [u8; 12],
}

/// Attributes of one object; `None`: not stated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// `ftype`, `ftype3` or `nfs_ftype4`: 1 file, 2 directory, 3 block, 4 character device,
    /// 5 symbolic link, 6 socket, 7 FIFO (v2: 8; v4: 8 attribute directory, 9 named attribute).
    pub file_type: Option<u32>,
    /// Permission bits.
    pub mode: Option<u32>,
    /// Hard links.
    pub links: Option<u32>,
    /// Size, bytes.
    pub size_bytes: Option<u64>,
    /// Space used, bytes.
    pub used_bytes: Option<u64>,
    /// File system (v4: major and minor mixed by exclusive or of a rotation).
    pub fsid: Option<u64>,
    /// File number within the file system.
    pub file_id: Option<u64>,
    /// Change attribute (v4).
    pub change: Option<u64>,
    /// Last change of the data.
    pub modified: Option<Time>,
    /// Last change of the metadata.
    pub status_changed: Option<Time>,
}

/// Fields of a call; `None`: the procedure has no such field, or it was cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arguments<'a> {
    /// The object, or the directory in which `name` lies. For an operation of a COMPOUND: the
    /// current file handle, if the COMPOUND set it with PUTFH.
    pub file_handle: Option<&'a [u8]>,
    /// Name looked up, opened, created, removed, renamed, ..., a path of MOUNT, a lock's caller.
    pub name: Option<&'a [u8]>,
    /// Second handle: the target directory of RENAME and LINK.
    pub target_handle: Option<&'a [u8]>,
    /// Second name: of RENAME and LINK's target, the text of a symbolic link.
    pub target_name: Option<&'a [u8]>,
    /// First byte.
    pub offset: Option<u64>,
    /// Bytes asked for (READ, COMMIT, locks, directory bytes) or stated (WRITE).
    pub count: Option<u64>,
    /// Stability asked for.
    pub stable: Option<Stability>,
    /// Length of the payload; not necessarily captured.
    pub data_bytes: Option<u32>,
    /// New size set by SETATTR, CREATE or OPEN.
    pub set_size: Option<u64>,
    /// Directory cookie.
    pub cookie: Option<u64>,
    /// Access bits asked about (ACCESS), or share access (OPEN).
    pub access: Option<u32>,
    /// v4: the state that the operation uses.
    pub state: Option<StateId<'a>>,
}

/// Fields of a reply; `None`: the procedure has no such field, or it was cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Results<'a> {
    /// Status of the protocol (NFS: `nfsstat`); 0 is success.
    pub status: Option<u32>,
    /// Handle of the object looked up, created or mounted, or GETFH's.
    pub file_handle: Option<&'a [u8]>,
    /// Text of a symbolic link.
    pub name: Option<&'a [u8]>,
    /// Attributes of the object (not of its directory).
    pub attributes: Option<Attributes>,
    /// The object's size before the operation (`wcc_attr`).
    pub before_size_bytes: Option<u64>,
    /// Bytes read, written or copied.
    pub count: Option<u64>,
    /// Length of the payload; not necessarily captured.
    pub data_bytes: Option<u32>,
    /// End of file or directory.
    pub eof: Option<bool>,
    /// Stability reached.
    pub committed: Option<Stability>,
    /// Write verifier.
    pub verifier: Option<[u8; 8]>,
    /// Access bits granted.
    pub access: Option<u32>,
    /// Offset found (SEEK).
    pub offset: Option<u64>,
    /// Directory entries decoded.
    pub entries: Option<u32>,
    /// v4: the state handed out.
    pub state: Option<StateId<'a>>,
    /// v4 OPEN: kind of delegation granted (0 none, 1 read, 2 write, 3 none with reason, 4 and 5
    /// as 1 and 2 with attributes, RFC 9754).
    pub delegation: Option<u32>,
}

/// SEQUENCE or CB_SEQUENCE (RFC 8881 sections 18.46 and 20.9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sequence<'a> {
    /// The session.
    pub session: &'a [u8; 16],
    /// Sequence number within the slot.
    pub sequence: u32,
    /// The slot.
    pub slot: u32,
    /// Highest slot in use (call) or usable (reply).
    pub highest_slot: u32,
    /// Reply: the highest slot that the server would like to see used.
    pub target_highest_slot: Option<u32>,
    /// Call: whether the reply is to be cached. Reply: `sr_status_flags` is not zero.
    pub flagged: bool,
}

/// The COMPOUND around a call's operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompoundCall<'a> {
    /// The client's tag.
    pub tag: &'a [u8],
    /// Minor version.
    pub minor_version: u32,
    /// Operations stated by the header.
    pub stated: u32,
    /// Operations decoded, in order (the last one possibly in part).
    pub operations: OperationList,
    /// Operation that names the COMPOUND: [`CallSummary::arguments`] are its.
    pub named_by: Option<u32>,
    /// SEQUENCE, if there.
    pub sequence: Option<Sequence<'a>>,
    /// Payload of all operations, bytes.
    pub data_bytes: u64,
}

/// The COMPOUND around a reply's operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompoundReply<'a> {
    /// Status: that of the last operation done.
    pub status: u32,
    /// The client's tag, echoed.
    pub tag: &'a [u8],
    /// Operations stated by the header.
    pub stated: u32,
    /// Operations decoded, in order. All but the last one succeeded (RFC 7530 section 15.2.4).
    pub operations: OperationList,
    /// Operation that names the reply. It may differ from the call's if the server stopped early.
    pub named_by: Option<u32>,
    /// SEQUENCE, if there.
    pub sequence: Option<Sequence<'a>>,
    /// Payload of all operations, bytes.
    pub data_bytes: u64,
}

/// Summary of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallSummary<'a> {
    /// Fields of the procedure, or of the operation that names the COMPOUND.
    pub arguments: Arguments<'a>,
    /// The COMPOUND, for NFSv4 and its callbacks.
    pub compound: Option<CompoundCall<'a>>,
    /// How far it was decoded.
    pub end: End,
}

/// Summary of a reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplySummary<'a> {
    /// Fields of the procedure, or of the operation that names the COMPOUND; `file_handle` and
    /// `attributes` of a COMPOUND are the last ones that it gave.
    pub results: Results<'a>,
    /// The COMPOUND, for NFSv4 and its callbacks.
    pub compound: Option<CompoundReply<'a>>,
    /// How far it was decoded.
    pub end: End,
}

/// One operation of a COMPOUND's call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallOperation<'a> {
    /// Place in the COMPOUND, from 0.
    pub index: u32,
    /// `nfs_opnum4` (or `nfs_cb_opnum4`).
    pub opcode: u32,
    /// Its fields; `file_handle` is the current one.
    pub arguments: Arguments<'a>,
    /// False if it was cut.
    pub whole: bool,
}

/// One operation of a COMPOUND's reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyOperation<'a> {
    /// Place in the COMPOUND, from 0.
    pub index: u32,
    /// `nfs_opnum4` (or `nfs_cb_opnum4`).
    pub opcode: u32,
    /// Its fields, its own status among them.
    pub results: Results<'a>,
    /// False if it was cut.
    pub whole: bool,
}

/// One entry of a directory reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectoryEntry<'a> {
    /// File number (v4: only if the attributes state it).
    pub file_id: Option<u64>,
    /// Name.
    pub name: &'a [u8],
    /// Cookie of the next entry.
    pub cookie: u64,
    /// Handle, where the reply gives one.
    pub file_handle: Option<&'a [u8]>,
    /// Attributes, where the reply gives them.
    pub attributes: Option<Attributes>,
}

/// Sees the parts of a body as they are decoded. All methods do nothing by default.
pub trait Visitor<'a> {
    /// An operation of a COMPOUND's call.
    #[inline(always)]
    fn call_operation(&mut self, _operation: &CallOperation<'a>) {}
    /// An operation of a COMPOUND's reply.
    #[inline(always)]
    fn reply_operation(&mut self, _operation: &ReplyOperation<'a>) {}
    /// A directory entry.
    #[inline(always)]
    fn entry(&mut self, _entry: &DirectoryEntry<'a>) {}
}

/// A visitor that looks at nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ignore;
impl Visitor<'_> for Ignore {}

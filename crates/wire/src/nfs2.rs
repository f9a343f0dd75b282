//! Summaries of NFS version 2 calls and replies (RFC 1094), for [`crate::summary`].

use crate::error::Result;
use crate::limits::{MAX_DATA_BYTES, MAX_NAME_BYTES, MAX_PATH_BYTES, NFS2_FHSIZE};
use crate::summary::{Arguments, Attributes, DirectoryEntry, Results, Stability, Time, Visitor};
use crate::xdr::Reader;

/// Procedure numbers (RFC 1094 section 2.2).
pub mod procedure {
    crate::numbers::procedures! {
        NULL GETATTR SETATTR ROOT LOOKUP READLINK READ WRITECACHE WRITE CREATE REMOVE RENAME
        LINK SYMLINK MKDIR RMDIR READDIR STATFS
    }
}
/// `stat` (RFC 1094 section 2.3.1).
pub mod status {
    crate::numbers::numbered! {
        /// The status' name; `None` if it is unknown.
        status_name:
        NFS_OK = 0, NFSERR_PERM = 1, NFSERR_NOENT = 2, NFSERR_IO = 5, NFSERR_NXIO = 6,
        NFSERR_ACCES = 13, NFSERR_EXIST = 17, NFSERR_NODEV = 19, NFSERR_NOTDIR = 20,
        NFSERR_ISDIR = 21, NFSERR_FBIG = 27, NFSERR_NOSPC = 28, NFSERR_ROFS = 30,
        NFSERR_NAMETOOLONG = 63, NFSERR_NOTEMPTY = 66, NFSERR_DQUOT = 69, NFSERR_STALE = 70,
        NFSERR_WFLUSH = 99,
    }
}
use procedure::{
    CREATE, GETATTR, LINK, LOOKUP, MKDIR, NULL, READ, READDIR, READLINK, REMOVE, RENAME, RMDIR,
    ROOT, SETATTR, STATFS, SYMLINK, WRITE, WRITECACHE,
};

/// `sattr`: a field of all ones is not set (RFC 1094 section 2.3.6).
const NOT_SET: u32 = u32::MAX;

fn handle<'a>(reader: &mut Reader<'a>) -> Result<Option<&'a [u8]>> {
    let bytes: &'a [u8] = reader.array::<NFS2_FHSIZE>("fhandle")?;
    Ok(Some(bytes))
}

fn name<'a>(reader: &mut Reader<'a>) -> Result<Option<&'a [u8]>> {
    reader.opaque(MAX_NAME_BYTES, "filename").map(Some)
}

/// `sattr`: returns the size that it sets.
fn sattr(reader: &mut Reader<'_>) -> Result<Option<u64>> {
    reader.skip(12, "sattr.mode")?;
    let size = reader.u32("sattr.size")?;
    reader.skip(16, "sattr.atime")?;
    Ok((size != NOT_SET).then_some(size.into()))
}

/// Decodes the arguments of `procedure`; `None` if NFSv2 does not have it.
pub(crate) fn call<'a>(
    procedure: u32,
    reader: &mut Reader<'a>,
    arguments: &mut Arguments<'a>,
) -> Option<Result<()>> {
    match procedure {
        NULL | ROOT | WRITECACHE => Some(Ok(())),
        1..=STATFS => Some(call_of(procedure, reader, arguments)),
        _ => None,
    }
}

fn call_of<'a>(
    procedure: u32,
    reader: &mut Reader<'a>,
    arguments: &mut Arguments<'a>,
) -> Result<()> {
    arguments.file_handle = handle(reader)?;
    match procedure {
        SETATTR => arguments.set_size = sattr(reader)?,
        LOOKUP | REMOVE | RMDIR => arguments.name = name(reader)?,
        READ => {
            arguments.offset = Some(reader.u32("readargs.offset")?.into());
            arguments.count = Some(reader.u32("readargs.count")?.into());
            reader.skip(4, "readargs.totalcount")?;
        }
        WRITE => {
            reader.skip(4, "writeargs.beginoffset")?;
            arguments.offset = Some(reader.u32("writeargs.offset")?.into());
            reader.skip(4, "writeargs.totalcount")?;
            arguments.stable = Some(Stability::FileSync);
            reader.skip_payload(MAX_DATA_BYTES, "writeargs.data", |length| {
                arguments.count = Some(length.into());
                arguments.data_bytes = Some(length);
            })?;
        }
        CREATE | MKDIR => {
            arguments.name = name(reader)?;
            arguments.set_size = sattr(reader)?;
        }
        RENAME => {
            arguments.name = name(reader)?;
            arguments.target_handle = handle(reader)?;
            arguments.target_name = name(reader)?;
        }
        LINK => {
            arguments.target_handle = handle(reader)?;
            arguments.target_name = name(reader)?;
        }
        SYMLINK => {
            arguments.name = name(reader)?;
            arguments.target_name = Some(reader.opaque(MAX_PATH_BYTES, "symlinkargs.to")?);
            sattr(reader)?;
        }
        READDIR => {
            arguments.cookie = Some(reader.u32("readdirargs.cookie")?.into());
            arguments.count = Some(reader.u32("readdirargs.count")?.into());
        }
        _ => {}
    }
    Ok(())
}

fn time(reader: &mut Reader<'_>, field: &'static str) -> Result<Option<Time>> {
    let seconds = reader.u32(field)?.into();
    let microseconds = reader.u32(field)?;
    Ok(Some(Time {
        seconds,
        nanoseconds: microseconds.saturating_mul(1000),
    }))
}

/// `fattr`: 17 words (RFC 1094 section 2.3.5).
fn fattr(reader: &mut Reader<'_>) -> Result<Option<Attributes>> {
    let mut attributes = Attributes {
        file_type: Some(reader.u32("fattr.type")?),
        mode: Some(reader.u32("fattr.mode")?),
        links: Some(reader.u32("fattr.nlink")?),
        ..Attributes::default()
    };
    reader.skip(8, "fattr.uid")?;
    attributes.size_bytes = Some(reader.u32("fattr.size")?.into());
    reader.skip(8, "fattr.blocksize")?;
    // `blocks` counts units of 512 bytes, as stat(2) does.
    attributes.used_bytes = Some(u64::from(reader.u32("fattr.blocks")?) * 512);
    attributes.fsid = Some(reader.u32("fattr.fsid")?.into());
    attributes.file_id = Some(reader.u32("fattr.fileid")?.into());
    reader.skip(8, "fattr.atime")?;
    attributes.modified = time(reader, "fattr.mtime")?;
    attributes.status_changed = time(reader, "fattr.ctime")?;
    Ok(Some(attributes))
}

/// Decodes the results of `procedure`; `None` if NFSv2 does not have it.
pub(crate) fn reply<'a>(
    procedure: u32,
    reader: &mut Reader<'a>,
    results: &mut Results<'a>,
    visitor: &mut impl Visitor<'a>,
) -> Option<Result<()>> {
    match procedure {
        NULL | ROOT | WRITECACHE => Some(Ok(())),
        1..=STATFS => Some(reply_of(procedure, reader, results, visitor)),
        _ => None,
    }
}

fn reply_of<'a>(
    procedure: u32,
    reader: &mut Reader<'a>,
    results: &mut Results<'a>,
    visitor: &mut impl Visitor<'a>,
) -> Result<()> {
    let status = reader.u32("status")?;
    results.status = Some(status);
    if status != 0 {
        return Ok(());
    }
    match procedure {
        GETATTR | SETATTR | WRITE => results.attributes = fattr(reader)?,
        LOOKUP | CREATE | MKDIR => {
            results.file_handle = handle(reader)?;
            results.attributes = fattr(reader)?;
        }
        READLINK => results.name = Some(reader.opaque(MAX_PATH_BYTES, "readlinkres.data")?),
        READ => {
            results.attributes = fattr(reader)?;
            reader.skip_payload(MAX_DATA_BYTES, "readres.data", |length| {
                results.count = Some(length.into());
                results.data_bytes = Some(length);
            })?;
        }
        READDIR => directory(reader, results, visitor)?,
        STATFS => reader.skip(20, "statfsres.info")?,
        _ => {}
    }
    Ok(())
}

fn directory<'a>(
    reader: &mut Reader<'a>,
    results: &mut Results<'a>,
    visitor: &mut impl Visitor<'a>,
) -> Result<()> {
    let mut entries = 0u32;
    results.entries = Some(entries);
    // Each turn takes at least 16 bytes: the bytes that are there bound the loop.
    while reader.bool("readdirres.entries")? {
        let file_id = Some(reader.u32("entry.fileid")?.into());
        let name = reader.opaque(MAX_NAME_BYTES, "entry.name")?;
        let cookie = reader.u32("entry.cookie")?.into();
        visitor.entry(&DirectoryEntry {
            file_id,
            name,
            cookie,
            file_handle: None,
            attributes: None,
        });
        entries = entries.saturating_add(1);
        results.entries = Some(entries);
    }
    results.eof = Some(reader.bool("readdirres.eof")?);
    Ok(())
}

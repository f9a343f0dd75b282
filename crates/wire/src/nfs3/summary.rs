//! Summaries of NFSv3 calls and replies (RFC 1813), for [`crate::summary`].

use super::procedure::{
    ACCESS, COMMIT, CREATE, FSINFO, FSSTAT, GETATTR, LINK, LOOKUP, MKDIR, MKNOD, NULL, PATHCONF,
    READ, READDIR, READDIRPLUS, READLINK, REMOVE, RENAME, RMDIR, SETATTR, SYMLINK, WRITE,
};
use super::types::FATTR3_BYTES;
use crate::error::Result;
use crate::limits::{MAX_DATA_BYTES, MAX_NAME_BYTES, MAX_PATH_BYTES, NFS3_FHSIZE};
use crate::summary::{Arguments, Attributes, DirectoryEntry, Results, Stability, Time, Visitor};
use crate::xdr::Reader;

#[inline(always)]
fn handle<'a>(reader: &mut Reader<'a>, field: &'static str) -> Result<Option<&'a [u8]>> {
    reader.opaque(NFS3_FHSIZE, field).map(Some)
}

#[inline(always)]
fn name<'a>(reader: &mut Reader<'a>, field: &'static str) -> Result<Option<&'a [u8]>> {
    reader.opaque(MAX_NAME_BYTES, field).map(Some)
}

/// Decodes the arguments of `procedure`; `None` if NFSv3 does not have it.
#[inline]
pub(crate) fn call<'a>(
    procedure: u32,
    reader: &mut Reader<'a>,
    arguments: &mut Arguments<'a>,
) -> Option<Result<()>> {
    Some(match procedure {
        READ => read_call(reader, arguments),
        WRITE => write_call(reader, arguments),
        NULL => Ok(()),
        1..=COMMIT => other_call(procedure, reader, arguments),
        _ => return None,
    })
}

#[inline(always)]
fn read_call<'a>(reader: &mut Reader<'a>, arguments: &mut Arguments<'a>) -> Result<()> {
    arguments.file_handle = handle(reader, "READ3args.file")?;
    arguments.offset = Some(reader.u64("READ3args.offset")?);
    arguments.count = Some(reader.u32("READ3args.count")?.into());
    Ok(())
}

#[inline(always)]
fn write_call<'a>(reader: &mut Reader<'a>, arguments: &mut Arguments<'a>) -> Result<()> {
    arguments.file_handle = handle(reader, "WRITE3args.file")?;
    arguments.offset = Some(reader.u64("WRITE3args.offset")?);
    arguments.count = Some(reader.u32("WRITE3args.count")?.into());
    arguments.stable = Some(Stability::decode(reader, "WRITE3args.stable")?);
    reader.skip_payload(MAX_DATA_BYTES, "WRITE3args.data", |length| {
        arguments.data_bytes = Some(length);
    })
}

#[inline]
fn other_call<'a>(
    procedure: u32,
    reader: &mut Reader<'a>,
    arguments: &mut Arguments<'a>,
) -> Result<()> {
    // Every procedure but NULL begins with a handle: the object's or its directory's.
    arguments.file_handle = handle(reader, "object")?;
    match procedure {
        SETATTR => {
            arguments.set_size = sattr(reader)?;
            if reader.bool("SETATTR3args.guard.check")? {
                reader.skip(8, "SETATTR3args.guard.obj_ctime")?;
            }
        }
        LOOKUP | REMOVE | RMDIR => arguments.name = name(reader, "diropargs3.name")?,
        ACCESS => arguments.access = Some(reader.u32("ACCESS3args.access")?),
        CREATE => {
            arguments.name = name(reader, "diropargs3.name")?;
            match reader.u32("CREATE3args.how.mode")? {
                0 | 1 => arguments.set_size = sattr(reader)?,
                2 => reader.skip(8, "CREATE3args.how.verf")?,
                value => return Err(reader.bad_value(value, "CREATE3args.how.mode")),
            }
        }
        MKDIR => {
            arguments.name = name(reader, "diropargs3.name")?;
            sattr(reader)?;
        }
        SYMLINK => {
            arguments.name = name(reader, "diropargs3.name")?;
            sattr(reader)?;
            let text = reader.opaque(MAX_PATH_BYTES, "SYMLINK3args.symlink.symlink_data")?;
            arguments.target_name = Some(text);
        }
        MKNOD => {
            arguments.name = name(reader, "diropargs3.name")?;
            mknod(reader)?;
        }
        RENAME => {
            arguments.name = name(reader, "RENAME3args.from.name")?;
            arguments.target_handle = handle(reader, "RENAME3args.to.dir")?;
            arguments.target_name = name(reader, "RENAME3args.to.name")?;
        }
        LINK => {
            arguments.target_handle = handle(reader, "LINK3args.link.dir")?;
            arguments.target_name = name(reader, "LINK3args.link.name")?;
        }
        READDIR => {
            arguments.cookie = Some(reader.u64("READDIR3args.cookie")?);
            reader.skip(8, "READDIR3args.cookieverf")?;
            arguments.count = Some(reader.u32("READDIR3args.count")?.into());
        }
        READDIRPLUS => {
            arguments.cookie = Some(reader.u64("READDIRPLUS3args.cookie")?);
            reader.skip(12, "READDIRPLUS3args.dircount")?;
            arguments.count = Some(reader.u32("READDIRPLUS3args.maxcount")?.into());
        }
        COMMIT => {
            arguments.offset = Some(reader.u64("COMMIT3args.offset")?);
            arguments.count = Some(reader.u32("COMMIT3args.count")?.into());
        }
        _ => {}
    }
    Ok(())
}

fn mknod(reader: &mut Reader<'_>) -> Result<()> {
    match reader.u32("MKNOD3args.what.type")? {
        3 | 4 => {
            sattr(reader)?;
            reader.skip(8, "MKNOD3args.what.spec")
        }
        6 | 7 => sattr(reader).map(|_| ()),
        1 | 2 | 5 => Ok(()),
        value => Err(reader.bad_value(value, "MKNOD3args.what.type")),
    }
}

/// Passes over `sattr3`; returns the size that it sets.
fn sattr(reader: &mut Reader<'_>) -> Result<Option<u64>> {
    for field in ["sattr3.mode", "sattr3.uid", "sattr3.gid"] {
        if reader.bool(field)? {
            reader.skip(4, field)?;
        }
    }
    let size = if reader.bool("sattr3.size")? {
        Some(reader.u64("sattr3.size")?)
    } else {
        None
    };
    for field in ["sattr3.atime", "sattr3.mtime"] {
        match reader.u32(field)? {
            0 | 1 => {}
            2 => reader.skip(8, field)?,
            value => return Err(reader.bad_value(value, field)),
        }
    }
    Ok(size)
}

#[inline(always)]
fn word(bytes: &[u8; FATTR3_BYTES], place: usize) -> u32 {
    bytes
        .get(place..)
        .and_then(|b| b.first_chunk())
        .map_or(0, |b| u32::from_be_bytes(*b))
}

#[inline(always)]
fn double(bytes: &[u8; FATTR3_BYTES], place: usize) -> u64 {
    bytes
        .get(place..)
        .and_then(|b| b.first_chunk())
        .map_or(0, |b| u64::from_be_bytes(*b))
}

#[inline(always)]
fn fattr(reader: &mut Reader<'_>, field: &'static str) -> Result<Attributes> {
    let bytes = reader.array::<FATTR3_BYTES>(field)?;
    let time = |place| {
        let seconds = word(bytes, place).into();
        Some(Time {
            seconds,
            nanoseconds: word(bytes, place + 4),
        })
    };
    Ok(Attributes {
        file_type: Some(word(bytes, 0)),
        mode: Some(word(bytes, 4)),
        links: Some(word(bytes, 8)),
        size_bytes: Some(double(bytes, 20)),
        used_bytes: Some(double(bytes, 28)),
        fsid: Some(double(bytes, 44)),
        file_id: Some(double(bytes, 52)),
        change: None,
        modified: time(68),
        status_changed: time(76),
    })
}

/// `post_op_attr`.
#[inline(always)]
fn post_op(reader: &mut Reader<'_>, field: &'static str) -> Result<Option<Attributes>> {
    if reader.bool(field)? {
        fattr(reader, field).map(Some)
    } else {
        Ok(None)
    }
}

/// `wcc_data` of the object itself: size before, attributes after.
#[inline(always)]
fn wcc(reader: &mut Reader<'_>, results: &mut Results<'_>) -> Result<()> {
    if reader.bool("wcc_data.before")? {
        results.before_size_bytes = Some(reader.u64("wcc_attr.size")?);
        reader.skip(16, "wcc_attr.mtime")?;
    }
    results.attributes = post_op(reader, "wcc_data.after")?;
    Ok(())
}

/// `wcc_data` of a directory: passed over.
#[inline]
fn skip_wcc(reader: &mut Reader<'_>) -> Result<()> {
    if reader.bool("wcc_data.before")? {
        reader.skip(24, "wcc_attr")?;
    }
    skip_post_op(reader)
}

#[inline]
fn skip_post_op(reader: &mut Reader<'_>) -> Result<()> {
    if reader.bool("post_op_attr")? {
        reader.skip(FATTR3_BYTES, "fattr3")
    } else {
        Ok(())
    }
}

/// Decodes the results of `procedure`; `None` if NFSv3 does not have it.
#[inline]
pub(crate) fn reply<'a>(
    procedure: u32,
    reader: &mut Reader<'a>,
    results: &mut Results<'a>,
    visitor: &mut impl Visitor<'a>,
) -> Option<Result<()>> {
    match procedure {
        NULL => Some(Ok(())),
        1..=COMMIT => Some(reply_of(procedure, reader, results, visitor)),
        _ => None,
    }
}

#[inline(always)]
fn reply_of<'a>(
    procedure: u32,
    reader: &mut Reader<'a>,
    results: &mut Results<'a>,
    visitor: &mut impl Visitor<'a>,
) -> Result<()> {
    let status = reader.u32("status")?;
    results.status = Some(status);
    if status != 0 {
        return failure(procedure, reader, results);
    }
    match procedure {
        GETATTR => results.attributes = Some(fattr(reader, "GETATTR3resok.obj_attributes")?),
        READ => {
            results.attributes = post_op(reader, "READ3resok.file_attributes")?;
            results.count = Some(reader.u32("READ3resok.count")?.into());
            results.eof = Some(reader.bool("READ3resok.eof")?);
            reader.skip_payload(MAX_DATA_BYTES, "READ3resok.data", |length| {
                results.data_bytes = Some(length);
            })?;
        }
        WRITE => {
            wcc(reader, results)?;
            results.count = Some(reader.u32("WRITE3resok.count")?.into());
            results.committed = Some(Stability::decode(reader, "WRITE3resok.committed")?);
            results.verifier = Some(*reader.array("WRITE3resok.verf")?);
        }
        LOOKUP => {
            results.file_handle = handle(reader, "LOOKUP3resok.object")?;
            results.attributes = post_op(reader, "LOOKUP3resok.obj_attributes")?;
            skip_post_op(reader)?;
        }
        ACCESS => {
            results.attributes = post_op(reader, "ACCESS3resok.obj_attributes")?;
            results.access = Some(reader.u32("ACCESS3resok.access")?);
        }
        COMMIT => {
            wcc(reader, results)?;
            results.verifier = Some(*reader.array("COMMIT3resok.verf")?);
        }
        READDIR | READDIRPLUS => directory(procedure, reader, results, visitor)?,
        _ => other_reply(procedure, reader, results)?,
    }
    Ok(())
}

fn other_reply<'a>(
    procedure: u32,
    reader: &mut Reader<'a>,
    results: &mut Results<'a>,
) -> Result<()> {
    match procedure {
        SETATTR => wcc(reader, results),
        READLINK => {
            results.attributes = post_op(reader, "READLINK3resok.symlink_attributes")?;
            results.name = Some(reader.opaque(MAX_PATH_BYTES, "READLINK3resok.data")?);
            Ok(())
        }
        CREATE | MKDIR | SYMLINK | MKNOD => {
            if reader.bool("CREATE3resok.obj")? {
                results.file_handle = handle(reader, "CREATE3resok.obj")?;
            }
            results.attributes = post_op(reader, "CREATE3resok.obj_attributes")?;
            skip_wcc(reader)
        }
        REMOVE | RMDIR => skip_wcc(reader),
        RENAME => {
            skip_wcc(reader)?;
            skip_wcc(reader)
        }
        LINK => {
            results.attributes = post_op(reader, "LINK3resok.file_attributes")?;
            skip_wcc(reader)
        }
        FSSTAT => {
            results.attributes = post_op(reader, "FSSTAT3resok.obj_attributes")?;
            reader.skip(52, "FSSTAT3resok.tbytes")
        }
        FSINFO => {
            results.attributes = post_op(reader, "FSINFO3resok.obj_attributes")?;
            reader.skip(48, "FSINFO3resok.rtmax")
        }
        PATHCONF => {
            results.attributes = post_op(reader, "PATHCONF3resok.obj_attributes")?;
            reader.skip(24, "PATHCONF3resok.linkmax")
        }
        _ => Ok(()),
    }
}

/// `resfail` of `procedure`.
#[cold]
fn failure(procedure: u32, reader: &mut Reader<'_>, results: &mut Results<'_>) -> Result<()> {
    match procedure {
        GETATTR => Ok(()),
        SETATTR | WRITE | COMMIT => wcc(reader, results),
        // The directory's attributes, not the object's.
        LOOKUP => skip_post_op(reader),
        CREATE | MKDIR | SYMLINK | MKNOD | REMOVE | RMDIR => skip_wcc(reader),
        RENAME => {
            skip_wcc(reader)?;
            skip_wcc(reader)
        }
        LINK => {
            results.attributes = post_op(reader, "LINK3resfail.file_attributes")?;
            skip_wcc(reader)
        }
        _ => {
            results.attributes = post_op(reader, "resfail.obj_attributes")?;
            Ok(())
        }
    }
}

fn directory<'a>(
    procedure: u32,
    reader: &mut Reader<'a>,
    results: &mut Results<'a>,
    visitor: &mut impl Visitor<'a>,
) -> Result<()> {
    results.attributes = post_op(reader, "READDIR3resok.dir_attributes")?;
    reader.skip(8, "READDIR3resok.cookieverf")?;
    let mut entries = 0u32;
    results.entries = Some(entries);
    // Each turn takes at least 24 bytes: the bytes that are there bound the loop.
    while reader.bool("dirlist3.entries")? {
        let file_id = Some(reader.u64("entry3.fileid")?);
        let name = reader.opaque(MAX_NAME_BYTES, "entry3.name")?;
        let cookie = reader.u64("entry3.cookie")?;
        let mut entry = DirectoryEntry {
            file_id,
            name,
            cookie,
            file_handle: None,
            attributes: None,
        };
        if procedure == READDIRPLUS {
            entry.attributes = post_op(reader, "entryplus3.name_attributes")?;
            if reader.bool("entryplus3.name_handle")? {
                entry.file_handle = handle(reader, "entryplus3.name_handle")?;
            }
        }
        visitor.entry(&entry);
        entries = entries.saturating_add(1);
        results.entries = Some(entries);
    }
    results.eof = Some(reader.bool("dirlist3.eof")?);
    Ok(())
}

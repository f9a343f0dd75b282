//! `fattr4`: a bitmap of attributes and their values in the order of its bits (RFC 7531, 5662).
//!
//! The values stand in one opaque block, so that the walk over a COMPOUND never depends on what is
//! inside: an attribute that cannot be read costs the attributes behind it, nothing else. Values
//! are read up to `time_modify` (53), the last one that a summary reports.

use super::fields::{bitmap, handle, skip_ace, skip_opaque};
use crate::error::Result;
use crate::limits::MAX_OPAQUE_BYTES;
use crate::summary::{Attributes, Time};
use crate::xdr::{Reader, padding};

/// Attribute numbers that a summary reports (RFC 7531).
mod number {
    pub const TYPE: u32 = 1;
    pub const CHANGE: u32 = 3;
    pub const SIZE: u32 = 4;
    pub const FSID: u32 = 8;
    pub const FILEHANDLE: u32 = 19;
    pub const FILEID: u32 = 20;
    pub const MODE: u32 = 33;
    pub const NUMLINKS: u32 = 35;
    pub const SPACE_USED: u32 = 45;
    pub const TIME_METADATA: u32 = 52;
    pub const TIME_MODIFY: u32 = 53;
}

/// Reads `fattr4` into `attributes` and, if it is among them, the `filehandle` (19) that READDIR
/// may ask for; what was decoded before a cut stays there.
#[inline]
pub(super) fn fattr<'a>(
    reader: &mut Reader<'a>,
    attributes: &mut Attributes,
    file_handle: &mut Option<&'a [u8]>,
    field: &'static str,
) -> Result<()> {
    let mask = bitmap(reader, field)?;
    let length = reader.length(MAX_OPAQUE_BYTES, field)? as usize;
    let there = reader.rest();
    let values = there.get(..length).unwrap_or(there);
    // An error is no more than the end of what can be known: see the module's essay.
    let _ = read_values(mask, Reader::new(values), attributes, file_handle);
    reader.skip(length.saturating_add(padding(length)), field)
}

/// Passes over `fattr4`.
pub(super) fn skip_fattr(reader: &mut Reader<'_>, field: &'static str) -> Result<()> {
    bitmap(reader, field)?;
    skip_opaque(reader, field)
}

/// Reads `fattr4` of SETATTR, OPEN or CREATE; returns the size that it sets.
pub(super) fn set_size(reader: &mut Reader<'_>, field: &'static str) -> Result<Option<u64>> {
    let mut attributes = Attributes::default();
    fattr(reader, &mut attributes, &mut None, field)?;
    Ok(attributes.size_bytes)
}

fn read_values<'a>(
    mask: [u32; 3],
    mut reader: Reader<'a>,
    attributes: &mut Attributes,
    file_handle: &mut Option<&'a [u8]>,
) -> Result<()> {
    let reader = &mut reader;
    // Bits 0 to 53: nothing behind them is reported.
    let mut bits = (u64::from(mask[0]) | u64::from(mask[1]) << 32) & ((1 << 54) - 1);
    while bits != 0 {
        let number = bits.trailing_zeros();
        bits &= bits - 1;
        match number {
            number::TYPE => attributes.file_type = Some(reader.u32("fattr4_type")?),
            number::CHANGE => attributes.change = Some(reader.u64("fattr4_change")?),
            number::SIZE => attributes.size_bytes = Some(reader.u64("fattr4_size")?),
            number::FSID => {
                let major = reader.u64("fattr4_fsid")?;
                let minor = reader.u64("fattr4_fsid")?;
                attributes.fsid = Some(major ^ minor.rotate_left(32));
            }
            number::FILEHANDLE => {
                *file_handle = Some(handle(reader, "fattr4_filehandle")?);
            }
            number::FILEID => attributes.file_id = Some(reader.u64("fattr4_fileid")?),
            number::MODE => attributes.mode = Some(reader.u32("fattr4_mode")?),
            number::NUMLINKS => attributes.links = Some(reader.u32("fattr4_numlinks")?),
            number::SPACE_USED => attributes.used_bytes = Some(reader.u64("fattr4_space_used")?),
            number::TIME_METADATA => attributes.status_changed = time(reader)?,
            number::TIME_MODIFY => attributes.modified = time(reader)?,
            number => skip_value(number, reader)?,
        }
    }
    Ok(())
}

/// `nfstime4`.
#[inline(always)]
fn time(reader: &mut Reader<'_>) -> Result<Option<Time>> {
    let seconds = reader.u64("nfstime4.seconds")?.cast_signed();
    Ok(Some(Time {
        seconds,
        nanoseconds: reader.u32("nfstime4.nseconds")?,
    }))
}

/// Passes over an attribute from 0 to 53 that is not reported.
#[inline]
fn skip_value(number: u32, reader: &mut Reader<'_>) -> Result<()> {
    let field = "fattr4.attr_vals";
    match number {
        // uint32, bool, mode, enumerations.
        2 | 5..=7 | 9..=11 | 13..=18 | 25 | 26 | 28 | 29 | 34 | 46 => reader.skip(4, field),
        // uint64, specdata4.
        21..=23 | 27 | 30 | 31 | 38..=44 => reader.skip(8, field),
        // Times.
        47 | 49..=51 => reader.skip(12, field),
        // supported_attrs.
        0 => bitmap(reader, field).map(|_| ()),
        // mimetype, owner, owner_group.
        32 | 36 | 37 => skip_opaque(reader, field),
        // acl.
        12 => reader.each(field, |reader| skip_ace(reader, field)),
        // fs_locations: root, then servers and paths.
        24 => {
            skip_path(reader)?;
            reader.each(field, |reader| {
                reader.each(field, |reader| skip_opaque(reader, field))?;
                skip_path(reader)
            })
        }
        // time_access_set.
        48 => match reader.u32(field)? {
            1 => reader.skip(12, field),
            _ => Ok(()),
        },
        value => Err(reader.bad_value(value, field)),
    }
}

/// `pathname4`.
fn skip_path(reader: &mut Reader<'_>) -> Result<()> {
    let field = "pathname4";
    reader.each(field, |reader| skip_opaque(reader, field))
}

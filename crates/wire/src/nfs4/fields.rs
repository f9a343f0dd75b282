//! Types that several NFSv4 operations share (RFC 7531 and 7863): read or passed over.

use crate::error::Result;
use crate::limits::{
    MAX_AUTH_SYS_GIDS, MAX_BITMAP_WORDS, MAX_MACHINE_NAME_BYTES, MAX_NAME_BYTES, MAX_OPAQUE_BYTES,
    NFS4_FHSIZE, NFS4_OPAQUE_LIMIT,
};
use crate::summary::{Results, Stability, StateId};
use crate::xdr::Reader;

/// `nfs_fh4`.
#[inline(always)]
pub(super) fn handle<'a>(reader: &mut Reader<'a>, field: &'static str) -> Result<&'a [u8]> {
    reader.opaque(NFS4_FHSIZE, field)
}

/// `component4`.
#[inline(always)]
pub(super) fn component<'a>(reader: &mut Reader<'a>, field: &'static str) -> Result<&'a [u8]> {
    reader.opaque(MAX_NAME_BYTES, field)
}

/// `stateid4`.
#[inline(always)]
pub(super) fn state_id<'a>(
    reader: &mut Reader<'a>,
    field: &'static str,
) -> Result<Option<StateId<'a>>> {
    let sequence = reader.u32(field)?;
    Ok(Some(StateId {
        sequence,
        other: reader.array(field)?,
    }))
}

/// Opaque data of no interest.
#[inline]
pub(super) fn skip_opaque(reader: &mut Reader<'_>, field: &'static str) -> Result<()> {
    reader.opaque(MAX_OPAQUE_BYTES, field).map(|_| ())
}

/// `opaque<NFS4_OPAQUE_LIMIT>` of no interest (owners, ids, scopes).
#[inline]
pub(super) fn skip_owner(reader: &mut Reader<'_>, field: &'static str) -> Result<()> {
    reader.opaque(NFS4_OPAQUE_LIMIT, field).map(|_| ())
}

/// `bitmap4`: its first three words; further ones are passed over.
#[inline(always)]
pub(super) fn bitmap(reader: &mut Reader<'_>, field: &'static str) -> Result<[u32; 3]> {
    let count = reader.length(MAX_BITMAP_WORDS, field)?;
    let mut words = [0; 3];
    for index in 0..count {
        let word = reader.u32(field)?;
        if let Some(place) = words.get_mut(index as usize) {
            *place = word;
        }
    }
    Ok(words)
}

/// `state_owner4`: client id and owner.
pub(super) fn skip_state_owner(reader: &mut Reader<'_>, field: &'static str) -> Result<()> {
    reader.skip(8, field)?;
    skip_owner(reader, field)
}

/// `netaddr4`: two strings.
pub(super) fn skip_netaddr(reader: &mut Reader<'_>, field: &'static str) -> Result<()> {
    skip_owner(reader, field)?;
    skip_owner(reader, field)
}

/// `netloc4` (RFC 7863).
pub(super) fn skip_netloc(reader: &mut Reader<'_>, field: &'static str) -> Result<()> {
    match reader.u32(field)? {
        1 | 2 => skip_opaque(reader, field),
        3 => skip_netaddr(reader, field),
        value => Err(reader.bad_value(value, field)),
    }
}

/// `nfs_impl_id4 name<1>`: domain, name, date.
pub(super) fn skip_impl_id(reader: &mut Reader<'_>, field: &'static str) -> Result<()> {
    for _ in 0..reader.length(1, field)? {
        skip_opaque(reader, field)?;
        skip_opaque(reader, field)?;
        reader.skip(12, field)?;
    }
    Ok(())
}

/// `nfsace4`: type, flag, mask, who.
pub(super) fn skip_ace(reader: &mut Reader<'_>, field: &'static str) -> Result<()> {
    reader.skip(12, field)?;
    skip_opaque(reader, field)
}

/// `layoutupdate4`, `device_addr4`, `layout_content4`: a type and a body.
pub(super) fn skip_typed_body(reader: &mut Reader<'_>, field: &'static str) -> Result<()> {
    reader.skip(4, field)?;
    skip_opaque(reader, field)
}

/// A union of TRUE with `length` bytes or FALSE with nothing (`newtime4`, `newoffset4`, ...).
pub(super) fn skip_if(reader: &mut Reader<'_>, length: usize, field: &'static str) -> Result<()> {
    if reader.bool(field)? {
        reader.skip(length, field)
    } else {
        Ok(())
    }
}

/// `state_protect_ops4`: two bitmaps.
pub(super) fn skip_protect_ops(reader: &mut Reader<'_>, field: &'static str) -> Result<()> {
    bitmap(reader, field)?;
    bitmap(reader, field).map(|_| ())
}

/// `callback_sec_parms4` (RFC 5662).
pub(super) fn skip_callback_security(reader: &mut Reader<'_>, field: &'static str) -> Result<()> {
    match reader.u32(field)? {
        0 => Ok(()),
        1 => {
            reader.skip(4, field)?;
            reader.opaque(MAX_MACHINE_NAME_BYTES, field)?;
            reader.skip(8, field)?;
            let gids = reader.length(MAX_AUTH_SYS_GIDS, field)?;
            reader.skip(gids as usize * 4, field)
        }
        6 => {
            reader.skip(4, field)?;
            skip_opaque(reader, field)?;
            skip_opaque(reader, field)
        }
        value => Err(reader.bad_value(value, field)),
    }
}

/// `channel_attrs4`.
pub(super) fn skip_channel(reader: &mut Reader<'_>, field: &'static str) -> Result<()> {
    reader.skip(24, field)?;
    let irds = reader.length(1, field)?;
    reader.skip(irds as usize * 4, field)
}

/// `open_delegation4`, with the arms of RFC 9754; returns its type.
pub(super) fn delegation(reader: &mut Reader<'_>, field: &'static str) -> Result<u32> {
    let kind = reader.u32(field)?;
    match kind {
        0 => {}
        // Read: state id, recall, permissions.
        1 | 4 => {
            reader.skip(20, field)?;
            skip_ace(reader, field)?;
        }
        // Write: state id, recall, space limit, permissions.
        2 | 5 => {
            reader.skip(20, field)?;
            match reader.u32(field)? {
                1 | 2 => reader.skip(8, field)?,
                value => return Err(reader.bad_value(value, field)),
            }
            skip_ace(reader, field)?;
        }
        // None, and why: contention (1) and resource (2) say whether the server will call.
        3 => {
            if matches!(reader.u32(field)?, 1 | 2) {
                reader.skip(4, field)?;
            }
        }
        value => return Err(reader.bad_value(value, field)),
    }
    Ok(kind)
}

/// `write_response4` (RFC 7863).
pub(super) fn write_response<'a>(reader: &mut Reader<'a>, results: &mut Results<'a>) -> Result<()> {
    let field = "write_response4.wr_callback_id";
    for _ in 0..reader.length(1, field)? {
        results.state = state_id(reader, field)?;
    }
    results.count = Some(reader.u64("write_response4.wr_count")?);
    results.committed = Some(Stability::decode(reader, "write_response4.wr_committed")?);
    results.verifier = Some(*reader.array("write_response4.wr_writeverf")?);
    Ok(())
}

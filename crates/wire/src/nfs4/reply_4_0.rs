//! Results of the operations of NFSv4.0 (RFC 7531), numbers 3 to 39. The status is already read.

use super::attributes::fattr;
use super::fields::{
    bitmap, component, delegation, handle, skip_netaddr, skip_opaque, skip_state_owner, state_id,
};
use super::opcode::{
    ACCESS, CLOSE, COMMIT, CREATE, GETATTR, GETFH, LINK, LOCK, LOCKT, LOCKU, OPEN, OPEN_CONFIRM,
    OPEN_DOWNGRADE, READ, READDIR, READLINK, REMOVE, RENAME, SECINFO, SETATTR, SETCLIENTID, WRITE,
};
use super::status::{NFS4ERR_CLID_INUSE, NFS4ERR_DENIED};
use crate::error::Result;
use crate::limits::{MAX_DATA_BYTES, MAX_PATH_BYTES};
use crate::summary::{Attributes, DirectoryEntry, Results, Stability, Visitor};
use crate::xdr::Reader;

/// `change_info4`: atomic, before, after.
pub(super) const CHANGE_INFO_BYTES: usize = 20;

/// Reads the results of `opcode` (3 to 39) behind `status`.
#[inline(always)]
pub(super) fn results<'a>(
    opcode: u32,
    status: u32,
    reader: &mut Reader<'a>,
    results: &mut Results<'a>,
    visitor: &mut impl Visitor<'a>,
) -> Result<()> {
    if status != 0 {
        return failure(opcode, status, reader);
    }
    match opcode {
        READ => {
            results.eof = Some(reader.bool("READ4resok.eof")?);
            reader.skip_payload(MAX_DATA_BYTES, "READ4resok.data", |length| {
                results.count = Some(length.into());
                results.data_bytes = Some(length);
            })
        }
        WRITE => {
            results.count = Some(reader.u32("WRITE4resok.count")?.into());
            results.committed = Some(Stability::decode(reader, "WRITE4resok.committed")?);
            results.verifier = Some(*reader.array("WRITE4resok.writeverf")?);
            Ok(())
        }
        GETATTR => {
            let attributes = results.attributes.insert(Attributes::default());
            // A handle among the attributes is the object's: what GETFH would give.
            fattr(
                reader,
                attributes,
                &mut results.file_handle,
                "GETATTR4resok.obj_attributes",
            )
        }
        READDIR => directory(reader, results, visitor),
        _ => other(opcode, reader, results),
    }
}

fn other<'a>(opcode: u32, reader: &mut Reader<'a>, results: &mut Results<'a>) -> Result<()> {
    match opcode {
        ACCESS => {
            reader.skip(4, "ACCESS4resok.supported")?;
            results.access = Some(reader.u32("ACCESS4resok.access")?);
        }
        CLOSE | LOCK | LOCKU | OPEN_CONFIRM | OPEN_DOWNGRADE => {
            results.state = state_id(reader, "stateid")?;
        }
        COMMIT => results.verifier = Some(*reader.array("COMMIT4resok.writeverf")?),
        CREATE => {
            reader.skip(CHANGE_INFO_BYTES, "CREATE4resok.cinfo")?;
            bitmap(reader, "CREATE4resok.attrset")?;
        }
        GETFH => results.file_handle = Some(handle(reader, "GETFH4resok.object")?),
        LINK | REMOVE => reader.skip(CHANGE_INFO_BYTES, "cinfo")?,
        RENAME => reader.skip(2 * CHANGE_INFO_BYTES, "RENAME4resok.source_cinfo")?,
        OPEN => {
            results.state = state_id(reader, "OPEN4resok.stateid")?;
            reader.skip(CHANGE_INFO_BYTES + 4, "OPEN4resok.cinfo")?;
            bitmap(reader, "OPEN4resok.attrset")?;
            results.delegation = Some(delegation(reader, "OPEN4resok.delegation")?);
        }
        READLINK => results.name = Some(reader.opaque(MAX_PATH_BYTES, "READLINK4resok.link")?),
        SECINFO => security(reader)?,
        SETATTR => {
            bitmap(reader, "SETATTR4res.attrsset")?;
        }
        SETCLIENTID => reader.skip(16, "SETCLIENTID4resok.clientid")?,
        // The others carry a status only.
        _ => {}
    }
    Ok(())
}

/// `SECINFO4resok`: flavours, those of RPCSEC_GSS (6) with their mechanism.
pub(super) fn security(reader: &mut Reader<'_>) -> Result<()> {
    let field = "SECINFO4resok";
    reader.each(field, |reader| {
        if reader.u32(field)? == 6 {
            skip_opaque(reader, "rpcsec_gss_info.oid")?;
            reader.skip(8, "rpcsec_gss_info.qop")?;
        }
        Ok(())
    })
}

/// What follows an error status: nothing, but for three operations.
#[cold]
fn failure(opcode: u32, status: u32, reader: &mut Reader<'_>) -> Result<()> {
    match (opcode, status) {
        (SETATTR, _) => bitmap(reader, "SETATTR4res.attrsset").map(|_| ()),
        (LOCK | LOCKT, NFS4ERR_DENIED) => {
            reader.skip(20, "LOCK4denied.offset")?;
            skip_state_owner(reader, "LOCK4denied.owner")
        }
        (SETCLIENTID, NFS4ERR_CLID_INUSE) => skip_netaddr(reader, "SETCLIENTID4res.client_using"),
        _ => Ok(()),
    }
}

fn directory<'a>(
    reader: &mut Reader<'a>,
    results: &mut Results<'a>,
    visitor: &mut impl Visitor<'a>,
) -> Result<()> {
    reader.skip(8, "READDIR4resok.cookieverf")?;
    let mut entries = 0u32;
    results.entries = Some(entries);
    // Each turn takes at least 24 bytes: the bytes that are there bound the loop.
    while reader.bool("dirlist4.entries")? {
        let cookie = reader.u64("entry4.cookie")?;
        let name = component(reader, "entry4.name")?;
        let (mut attributes, mut file_handle) = (Attributes::default(), None);
        let read = fattr(reader, &mut attributes, &mut file_handle, "entry4.attrs");
        visitor.entry(&DirectoryEntry {
            file_id: attributes.file_id,
            name,
            cookie,
            file_handle,
            attributes: Some(attributes),
        });
        entries = entries.saturating_add(1);
        results.entries = Some(entries);
        read?;
    }
    results.eof = Some(reader.bool("dirlist4.eof")?);
    Ok(())
}

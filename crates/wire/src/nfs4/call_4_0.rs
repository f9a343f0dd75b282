//! Arguments of the operations of NFSv4.0 (RFC 7531), numbers 3 to 39.

use super::attributes::{set_size, skip_fattr};
use super::fields::{
    bitmap, component, handle, skip_netaddr, skip_owner, skip_state_owner, state_id,
};
use super::opcode::{
    ACCESS, CLOSE, COMMIT, CREATE, DELEGPURGE, DELEGRETURN, GETATTR, LINK, LOCK, LOCKT, LOCKU,
    LOOKUP, NVERIFY, OPEN, OPEN_CONFIRM, OPEN_DOWNGRADE, OPENATTR, PUTFH, READ, READDIR,
    RELEASE_LOCKOWNER, REMOVE, RENAME, RENEW, SECINFO, SETATTR, SETCLIENTID, SETCLIENTID_CONFIRM,
    VERIFY, WRITE,
};
use crate::error::Result;
use crate::limits::{MAX_DATA_BYTES, MAX_PATH_BYTES};
use crate::summary::{Arguments, Stability};
use crate::xdr::Reader;

/// Reads the arguments of `opcode` (3 to 39).
#[inline(always)]
pub(super) fn arguments<'a>(
    opcode: u32,
    reader: &mut Reader<'a>,
    arguments: &mut Arguments<'a>,
) -> Result<()> {
    match opcode {
        PUTFH => {
            arguments.file_handle = Some(handle(reader, "PUTFH4args.object")?);
            Ok(())
        }
        READ => {
            arguments.state = state_id(reader, "READ4args.stateid")?;
            arguments.offset = Some(reader.u64("READ4args.offset")?);
            arguments.count = Some(reader.u32("READ4args.count")?.into());
            Ok(())
        }
        WRITE => {
            arguments.state = state_id(reader, "WRITE4args.stateid")?;
            arguments.offset = Some(reader.u64("WRITE4args.offset")?);
            arguments.stable = Some(Stability::decode(reader, "WRITE4args.stable")?);
            reader.skip_payload(MAX_DATA_BYTES, "WRITE4args.data", |length| {
                arguments.count = Some(length.into());
                arguments.data_bytes = Some(length);
            })
        }
        GETATTR => bitmap(reader, "GETATTR4args.attr_request").map(|_| ()),
        _ => other(opcode, reader, arguments),
    }
}

fn other<'a>(opcode: u32, reader: &mut Reader<'a>, arguments: &mut Arguments<'a>) -> Result<()> {
    match opcode {
        ACCESS => arguments.access = Some(reader.u32("ACCESS4args.access")?),
        CLOSE => {
            reader.skip(4, "CLOSE4args.seqid")?;
            arguments.state = state_id(reader, "CLOSE4args.open_stateid")?;
        }
        COMMIT => {
            arguments.offset = Some(reader.u64("COMMIT4args.offset")?);
            arguments.count = Some(reader.u32("COMMIT4args.count")?.into());
        }
        CREATE => create(reader, arguments)?,
        DELEGPURGE | RENEW => reader.skip(8, "clientid")?,
        DELEGRETURN => arguments.state = state_id(reader, "DELEGRETURN4args.deleg_stateid")?,
        LINK => arguments.target_name = Some(component(reader, "LINK4args.newname")?),
        LOOKUP => arguments.name = Some(component(reader, "LOOKUP4args.objname")?),
        REMOVE => arguments.name = Some(component(reader, "REMOVE4args.target")?),
        SECINFO => arguments.name = Some(component(reader, "SECINFO4args.name")?),
        RENAME => {
            arguments.name = Some(component(reader, "RENAME4args.oldname")?);
            arguments.target_name = Some(component(reader, "RENAME4args.newname")?);
        }
        LOCK => lock(reader, arguments)?,
        LOCKT | LOCKU => lock_range(opcode, reader, arguments)?,
        VERIFY | NVERIFY => skip_fattr(reader, "VERIFY4args.obj_attributes")?,
        OPEN => open(reader, arguments)?,
        OPENATTR => reader.skip(4, "OPENATTR4args.createdir")?,
        OPEN_CONFIRM => {
            arguments.state = state_id(reader, "OPEN_CONFIRM4args.open_stateid")?;
            reader.skip(4, "OPEN_CONFIRM4args.seqid")?;
        }
        OPEN_DOWNGRADE => {
            arguments.state = state_id(reader, "OPEN_DOWNGRADE4args.open_stateid")?;
            reader.skip(4, "OPEN_DOWNGRADE4args.seqid")?;
            arguments.access = Some(reader.u32("OPEN_DOWNGRADE4args.share_access")?);
            reader.skip(4, "OPEN_DOWNGRADE4args.share_deny")?;
        }
        READDIR => {
            arguments.cookie = Some(reader.u64("READDIR4args.cookie")?);
            reader.skip(12, "READDIR4args.cookieverf")?;
            arguments.count = Some(reader.u32("READDIR4args.maxcount")?.into());
            bitmap(reader, "READDIR4args.attr_request")?;
        }
        SETATTR => {
            arguments.state = state_id(reader, "SETATTR4args.stateid")?;
            arguments.set_size = set_size(reader, "SETATTR4args.obj_attributes")?;
        }
        SETCLIENTID => {
            reader.skip(8, "SETCLIENTID4args.client.verifier")?;
            skip_owner(reader, "SETCLIENTID4args.client.id")?;
            reader.skip(4, "SETCLIENTID4args.callback.cb_program")?;
            skip_netaddr(reader, "SETCLIENTID4args.callback.cb_location")?;
            reader.skip(4, "SETCLIENTID4args.callback_ident")?;
        }
        SETCLIENTID_CONFIRM => reader.skip(16, "SETCLIENTID_CONFIRM4args.clientid")?,
        RELEASE_LOCKOWNER => {
            skip_state_owner(reader, "RELEASE_LOCKOWNER4args.lock_owner")?;
        }
        // GETFH, LOOKUPP, PUTPUBFH, PUTROOTFH, READLINK, RESTOREFH, SAVEFH: no arguments.
        _ => {}
    }
    Ok(())
}

fn create<'a>(reader: &mut Reader<'a>, arguments: &mut Arguments<'a>) -> Result<()> {
    match reader.u32("CREATE4args.objtype.type")? {
        // NF4LNK.
        5 => {
            let text = reader.opaque(MAX_PATH_BYTES, "CREATE4args.objtype.linkdata")?;
            arguments.target_name = Some(text);
        }
        // NF4BLK, NF4CHR.
        3 | 4 => reader.skip(8, "CREATE4args.objtype.devdata")?,
        _ => {}
    }
    arguments.name = Some(component(reader, "CREATE4args.objname")?);
    skip_fattr(reader, "CREATE4args.createattrs")
}

fn lock<'a>(reader: &mut Reader<'a>, arguments: &mut Arguments<'a>) -> Result<()> {
    reader.skip(4, "LOCK4args.locktype")?;
    reader.bool("LOCK4args.reclaim")?;
    arguments.offset = Some(reader.u64("LOCK4args.offset")?);
    arguments.count = Some(reader.u64("LOCK4args.length")?);
    if reader.bool("LOCK4args.locker.new_lock_owner")? {
        reader.skip(4, "open_to_lock_owner4.open_seqid")?;
        arguments.state = state_id(reader, "open_to_lock_owner4.open_stateid")?;
        reader.skip(4, "open_to_lock_owner4.lock_seqid")?;
        skip_state_owner(reader, "open_to_lock_owner4.lock_owner")
    } else {
        arguments.state = state_id(reader, "exist_lock_owner4.lock_stateid")?;
        reader.skip(4, "exist_lock_owner4.lock_seqid")
    }
}

/// LOCKT and LOCKU.
fn lock_range<'a>(
    opcode: u32,
    reader: &mut Reader<'a>,
    arguments: &mut Arguments<'a>,
) -> Result<()> {
    reader.skip(4, "LOCKT4args.locktype")?;
    if opcode == LOCKU {
        reader.skip(4, "LOCKU4args.seqid")?;
        arguments.state = state_id(reader, "LOCKU4args.lock_stateid")?;
    }
    arguments.offset = Some(reader.u64("LOCKT4args.offset")?);
    arguments.count = Some(reader.u64("LOCKT4args.length")?);
    if opcode == LOCKT {
        skip_state_owner(reader, "LOCKT4args.owner")
    } else {
        Ok(())
    }
}

fn open<'a>(reader: &mut Reader<'a>, arguments: &mut Arguments<'a>) -> Result<()> {
    reader.skip(4, "OPEN4args.seqid")?;
    arguments.access = Some(reader.u32("OPEN4args.share_access")?);
    reader.skip(4, "OPEN4args.share_deny")?;
    skip_state_owner(reader, "OPEN4args.owner")?;
    if reader.u32("OPEN4args.openhow.opentype")? == 1 {
        match reader.u32("createhow4.mode")? {
            0 | 1 => arguments.set_size = set_size(reader, "createhow4.createattrs")?,
            2 => reader.skip(8, "createhow4.createverf")?,
            3 => {
                reader.skip(8, "creatverfattr.cva_verf")?;
                arguments.set_size = set_size(reader, "creatverfattr.cva_attrs")?;
            }
            value => return Err(reader.bad_value(value, "createhow4.mode")),
        }
    }
    match reader.u32("OPEN4args.claim.claim")? {
        // CLAIM_NULL, CLAIM_DELEGATE_PREV.
        0 | 3 => arguments.name = Some(component(reader, "open_claim4.file")?),
        // CLAIM_PREVIOUS.
        1 => reader.skip(4, "open_claim4.delegate_type")?,
        // CLAIM_DELEGATE_CUR.
        2 => {
            arguments.state = state_id(reader, "open_claim_delegate_cur4.delegate_stateid")?;
            arguments.name = Some(component(reader, "open_claim_delegate_cur4.file")?);
        }
        // CLAIM_FH, CLAIM_DELEG_PREV_FH: the current file handle.
        4 | 6 => {}
        // CLAIM_DELEG_CUR_FH.
        5 => arguments.state = state_id(reader, "open_claim4.oc_delegate_stateid")?,
        value => return Err(reader.bad_value(value, "OPEN4args.claim.claim")),
    }
    Ok(())
}

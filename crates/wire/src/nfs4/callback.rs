//! Arguments and results of callback operations (RFC 5662, 7863) but CB_SEQUENCE's fixed part,
//! which [`super::compound`] reads itself.

use super::attributes::fattr;
use super::fields::{
    bitmap, delegation, handle, skip_opaque, skip_state_owner, state_id, write_response,
};
use super::opcode::{
    CB_GETATTR, CB_ILLEGAL, CB_LAYOUTRECALL, CB_NOTIFY, CB_NOTIFY_DEVICEID, CB_NOTIFY_LOCK,
    CB_OFFLOAD, CB_PUSH_DELEG, CB_RECALL, CB_RECALL_ANY, CB_RECALL_SLOT, CB_RECALLABLE_OBJ_AVAIL,
    CB_SEQUENCE, CB_WANTS_CANCELLED,
};
use crate::error::Result;
use crate::summary::{Arguments, Attributes, Results};
use crate::xdr::Reader;

/// Reads the arguments of callback operation `opcode`.
pub(super) fn arguments<'a>(
    opcode: u32,
    reader: &mut Reader<'a>,
    arguments: &mut Arguments<'a>,
) -> Result<()> {
    match opcode {
        CB_GETATTR => {
            arguments.file_handle = Some(handle(reader, "CB_GETATTR4args.fh")?);
            bitmap(reader, "CB_GETATTR4args.attr_request").map(|_| ())
        }
        CB_RECALL => {
            arguments.state = state_id(reader, "CB_RECALL4args.stateid")?;
            reader.bool("CB_RECALL4args.truncate")?;
            arguments.file_handle = Some(handle(reader, "CB_RECALL4args.fh")?);
            Ok(())
        }
        CB_LAYOUTRECALL => layout_recall(reader, arguments),
        CB_NOTIFY => {
            arguments.state = state_id(reader, "CB_NOTIFY4args.cna_stateid")?;
            arguments.file_handle = Some(handle(reader, "CB_NOTIFY4args.cna_fh")?);
            skip_notifications(reader, "CB_NOTIFY4args.cna_changes")
        }
        CB_PUSH_DELEG => {
            arguments.file_handle = Some(handle(reader, "CB_PUSH_DELEG4args.cpda_fh")?);
            delegation(reader, "CB_PUSH_DELEG4args.cpda_delegation").map(|_| ())
        }
        CB_RECALL_ANY | CB_RECALLABLE_OBJ_AVAIL => {
            reader.skip(4, "CB_RECALL_ANY4args.craa_objects_to_keep")?;
            bitmap(reader, "CB_RECALL_ANY4args.craa_type_mask").map(|_| ())
        }
        CB_RECALL_SLOT => reader.skip(4, "CB_RECALL_SLOT4args.rsa_target_highest_slotid"),
        // The lists behind its fixed part.
        CB_SEQUENCE => {
            let field = "CB_SEQUENCE4args.csa_referring_call_lists";
            reader.each(field, |reader| {
                reader.skip(16, field)?;
                reader.each(field, |reader| reader.skip(8, field))
            })
        }
        CB_WANTS_CANCELLED => reader.skip(8, "CB_WANTS_CANCELLED4args"),
        CB_NOTIFY_LOCK => {
            arguments.file_handle = Some(handle(reader, "CB_NOTIFY_LOCK4args.cnla_fh")?);
            skip_state_owner(reader, "CB_NOTIFY_LOCK4args.cnla_lock_owner")
        }
        CB_NOTIFY_DEVICEID => skip_notifications(reader, "CB_NOTIFY_DEVICEID4args.cnda_changes"),
        CB_OFFLOAD => {
            arguments.file_handle = Some(handle(reader, "CB_OFFLOAD4args.coa_fh")?);
            arguments.state = state_id(reader, "CB_OFFLOAD4args.coa_stateid")?;
            offload_info(reader, arguments)
        }
        CB_ILLEGAL => Ok(()),
        opcode => Err(reader.bad_value(opcode, "nfs_cb_argop4.argop")),
    }
}

fn layout_recall<'a>(reader: &mut Reader<'a>, arguments: &mut Arguments<'a>) -> Result<()> {
    reader.skip(12, "CB_LAYOUTRECALL4args.clora_type")?;
    let field = "CB_LAYOUTRECALL4args.clora_recall";
    match reader.u32(field)? {
        // One file.
        1 => {
            arguments.file_handle = Some(handle(reader, "layoutrecall_file4.lor_fh")?);
            arguments.offset = Some(reader.u64("layoutrecall_file4.lor_offset")?);
            arguments.count = Some(reader.u64("layoutrecall_file4.lor_length")?);
            arguments.state = state_id(reader, "layoutrecall_file4.lor_stateid")?;
            Ok(())
        }
        // One file system.
        2 => reader.skip(16, "layoutrecall4.lor_fsid"),
        3 => Ok(()),
        value => Err(reader.bad_value(value, field)),
    }
}

/// `offload_info4`: the result of a copy, or the bytes copied before it failed.
fn offload_info<'a>(reader: &mut Reader<'a>, arguments: &mut Arguments<'a>) -> Result<()> {
    if reader.u32("offload_info4.coa_status")? == 0 {
        let mut results = Results::default();
        write_response(reader, &mut results)?;
        arguments.count = results.count;
        arguments.stable = results.committed;
    } else {
        arguments.count = Some(reader.u64("offload_info4.coa_bytes_copied")?);
    }
    Ok(())
}

/// `notify4 name<>`.
fn skip_notifications(reader: &mut Reader<'_>, field: &'static str) -> Result<()> {
    reader.each(field, |reader| {
        bitmap(reader, field)?;
        skip_opaque(reader, field)
    })
}

/// Reads the results of callback operation `opcode` behind `status`.
pub(super) fn results<'a>(
    opcode: u32,
    status: u32,
    reader: &mut Reader<'a>,
    results: &mut Results<'a>,
) -> Result<()> {
    match opcode {
        CB_GETATTR if status == 0 => {
            let attributes = results.attributes.insert(Attributes::default());
            fattr(
                reader,
                attributes,
                &mut results.file_handle,
                "CB_GETATTR4resok.obj_attributes",
            )
        }
        CB_GETATTR..=CB_OFFLOAD | CB_ILLEGAL => Ok(()),
        opcode => Err(reader.bad_value(opcode, "nfs_cb_resop4.resop")),
    }
}

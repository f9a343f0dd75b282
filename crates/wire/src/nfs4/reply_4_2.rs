//! Results of the operations that NFSv4.2 (RFC 7863) and RFC 8276 (extended attributes) added,
//! numbers 59 to 75. The status is already read.

use super::fields::{bitmap, component, skip_netloc, state_id, write_response};
use super::opcode::{
    ALLOCATE, CLONE, COPY, COPY_NOTIFY, DEALLOCATE, GETXATTR, IO_ADVISE, LAYOUTERROR, LAYOUTSTATS,
    LISTXATTRS, OFFLOAD_CANCEL, OFFLOAD_STATUS, READ_PLUS, REMOVEXATTR, SEEK, SETXATTR, WRITE_SAME,
};
use super::reply_4_0::CHANGE_INFO_BYTES;
use super::status::NFS4ERR_OFFLOAD_NO_REQS;
use crate::error::Result;
use crate::limits::{MAX_DATA_BYTES, MAX_OPAQUE_BYTES};
use crate::summary::Results;
use crate::xdr::Reader;

/// Reads the results of `opcode` (59 to 75) behind `status`.
pub(super) fn results<'a>(
    opcode: u32,
    status: u32,
    reader: &mut Reader<'a>,
    results: &mut Results<'a>,
) -> Result<()> {
    if status != 0 {
        return match (opcode, status) {
            (COPY, NFS4ERR_OFFLOAD_NO_REQS) => reader.skip(8, "COPY4res.cr_requirements"),
            _ => Ok(()),
        };
    }
    match opcode {
        COPY => {
            write_response(reader, results)?;
            reader.skip(8, "COPY4resok.cr_requirements")
        }
        COPY_NOTIFY => {
            reader.skip(12, "COPY_NOTIFY4resok.cnr_lease_time")?;
            results.state = state_id(reader, "COPY_NOTIFY4resok.cnr_stateid")?;
            let field = "COPY_NOTIFY4resok.cnr_source_server";
            reader.each(field, |reader| skip_netloc(reader, field))
        }
        IO_ADVISE => bitmap(reader, "IO_ADVISE4resok.ior_hints").map(|_| ()),
        OFFLOAD_STATUS => {
            results.count = Some(reader.u64("OFFLOAD_STATUS4resok.osr_count")?);
            let complete = reader.length(1, "OFFLOAD_STATUS4resok.osr_complete")?;
            reader.skip(complete as usize * 4, "OFFLOAD_STATUS4resok.osr_complete")
        }
        READ_PLUS => read_plus(reader, results),
        SEEK => {
            results.eof = Some(reader.bool("seek_res4.sr_eof")?);
            results.offset = Some(reader.u64("seek_res4.sr_offset")?);
            Ok(())
        }
        WRITE_SAME => write_response(reader, results),
        GETXATTR => reader.skip_payload(MAX_OPAQUE_BYTES, "GETXATTR4res.gxr_value", |_| ()),
        SETXATTR | REMOVEXATTR => reader.skip(CHANGE_INFO_BYTES, "SETXATTR4res.sxr_info"),
        LISTXATTRS => {
            reader.skip(8, "LISTXATTRS4resok.lxr_cookie")?;
            let field = "LISTXATTRS4resok.lxr_names";
            let mut entries = 0;
            reader.each(field, |reader| {
                entries += 1;
                component(reader, field).map(|_| ())
            })?;
            results.entries = Some(entries);
            results.eof = Some(reader.bool("LISTXATTRS4resok.lxr_eof")?);
            Ok(())
        }
        ALLOCATE | DEALLOCATE | CLONE | LAYOUTERROR | LAYOUTSTATS | OFFLOAD_CANCEL => Ok(()),
        opcode => Err(reader.bad_value(opcode, "nfs_resop4.resop")),
    }
}

/// Segments of data and holes: `data_bytes` sums the data, `count` data and holes.
fn read_plus<'a>(reader: &mut Reader<'a>, results: &mut Results<'a>) -> Result<()> {
    results.eof = Some(reader.bool("read_plus_res4.rpr_eof")?);
    let field = "read_plus_res4.rpr_contents";
    let (mut data_bytes, mut count) = (0u32, 0u64);
    results.data_bytes = Some(data_bytes);
    results.count = Some(count);
    reader.each(field, |reader| {
        match reader.u32("read_plus_content.rpc_content")? {
            // NFS4_CONTENT_DATA.
            0 => {
                reader.skip(8, "data4.d_offset")?;
                reader.skip_payload(MAX_DATA_BYTES, "data4.d_data", |length| {
                    data_bytes = data_bytes.saturating_add(length);
                    count = count.saturating_add(length.into());
                    results.data_bytes = Some(data_bytes);
                    results.count = Some(count);
                })
            }
            // NFS4_CONTENT_HOLE.
            1 => {
                reader.skip(8, "data_info4.di_offset")?;
                count = count.saturating_add(reader.u64("data_info4.di_length")?);
                results.count = Some(count);
                Ok(())
            }
            // The union's default arm is void.
            _ => Ok(()),
        }
    })
}

//! Arguments of the operations that NFSv4.2 (RFC 7863) and RFC 8276 (extended attributes) added,
//! numbers 59 to 75.

use super::fields::{bitmap, component, skip_netloc, skip_opaque, skip_typed_body, state_id};
use super::opcode::{
    ALLOCATE, CLONE, COPY, COPY_NOTIFY, DEALLOCATE, GETXATTR, IO_ADVISE, LAYOUTERROR, LAYOUTSTATS,
    LISTXATTRS, OFFLOAD_CANCEL, OFFLOAD_STATUS, READ_PLUS, REMOVEXATTR, SEEK, SETXATTR, WRITE_SAME,
};
use crate::error::Result;
use crate::limits::MAX_OPAQUE_BYTES;
use crate::summary::{Arguments, Stability};
use crate::xdr::Reader;

/// Reads the arguments of `opcode` (59 to 75).
pub(super) fn arguments<'a>(
    opcode: u32,
    reader: &mut Reader<'a>,
    arguments: &mut Arguments<'a>,
) -> Result<()> {
    match opcode {
        ALLOCATE | DEALLOCATE => {
            arguments.state = state_id(reader, "ALLOCATE4args.aa_stateid")?;
            arguments.offset = Some(reader.u64("ALLOCATE4args.aa_offset")?);
            arguments.count = Some(reader.u64("ALLOCATE4args.aa_length")?);
        }
        COPY => {
            clone_range(reader, arguments)?;
            reader.skip(8, "COPY4args.ca_consecutive")?;
            let field = "COPY4args.ca_source_server";
            reader.each(field, |reader| skip_netloc(reader, field))?;
        }
        CLONE => clone_range(reader, arguments)?,
        COPY_NOTIFY => {
            arguments.state = state_id(reader, "COPY_NOTIFY4args.cna_src_stateid")?;
            skip_netloc(reader, "COPY_NOTIFY4args.cna_destination_server")?;
        }
        IO_ADVISE => {
            arguments.state = state_id(reader, "IO_ADVISE4args.iaa_stateid")?;
            arguments.offset = Some(reader.u64("IO_ADVISE4args.iaa_offset")?);
            arguments.count = Some(reader.u64("IO_ADVISE4args.iaa_count")?);
            bitmap(reader, "IO_ADVISE4args.iaa_hints")?;
        }
        LAYOUTERROR => {
            arguments.offset = Some(reader.u64("LAYOUTERROR4args.lea_offset")?);
            arguments.count = Some(reader.u64("LAYOUTERROR4args.lea_length")?);
            arguments.state = state_id(reader, "LAYOUTERROR4args.lea_stateid")?;
            let field = "LAYOUTERROR4args.lea_errors";
            reader.each(field, |reader| reader.skip(24, field))?;
        }
        LAYOUTSTATS => {
            arguments.offset = Some(reader.u64("LAYOUTSTATS4args.lsa_offset")?);
            arguments.count = Some(reader.u64("LAYOUTSTATS4args.lsa_length")?);
            arguments.state = state_id(reader, "LAYOUTSTATS4args.lsa_stateid")?;
            // Read and write counters, device id.
            reader.skip(48, "LAYOUTSTATS4args.lsa_read")?;
            skip_typed_body(reader, "LAYOUTSTATS4args.lsa_layoutupdate")?;
        }
        OFFLOAD_CANCEL | OFFLOAD_STATUS => {
            arguments.state = state_id(reader, "OFFLOAD_STATUS4args.osa_stateid")?;
        }
        READ_PLUS => {
            arguments.state = state_id(reader, "READ_PLUS4args.rpa_stateid")?;
            arguments.offset = Some(reader.u64("READ_PLUS4args.rpa_offset")?);
            arguments.count = Some(reader.u32("READ_PLUS4args.rpa_count")?.into());
        }
        SEEK => {
            arguments.state = state_id(reader, "SEEK4args.sa_stateid")?;
            arguments.offset = Some(reader.u64("SEEK4args.sa_offset")?);
            reader.skip(4, "SEEK4args.sa_what")?;
        }
        WRITE_SAME => write_same(reader, arguments)?,
        GETXATTR | REMOVEXATTR => {
            arguments.name = Some(component(reader, "GETXATTR4args.gxa_name")?);
        }
        SETXATTR => {
            reader.skip(4, "SETXATTR4args.sxa_option")?;
            arguments.name = Some(component(reader, "SETXATTR4args.sxa_key")?);
            reader.skip_payload(MAX_OPAQUE_BYTES, "SETXATTR4args.sxa_value", |_| ())?;
        }
        LISTXATTRS => {
            arguments.cookie = Some(reader.u64("LISTXATTRS4args.lxa_cookie")?);
            arguments.count = Some(reader.u32("LISTXATTRS4args.lxa_maxcount")?.into());
        }
        opcode => return Err(reader.bad_value(opcode, "nfs_argop4.argop")),
    }
    Ok(())
}

/// The part that COPY and CLONE share. `state` and `offset` are the source's.
fn clone_range<'a>(reader: &mut Reader<'a>, arguments: &mut Arguments<'a>) -> Result<()> {
    arguments.state = state_id(reader, "COPY4args.ca_src_stateid")?;
    reader.skip(16, "COPY4args.ca_dst_stateid")?;
    arguments.offset = Some(reader.u64("COPY4args.ca_src_offset")?);
    reader.skip(8, "COPY4args.ca_dst_offset")?;
    arguments.count = Some(reader.u64("COPY4args.ca_count")?);
    Ok(())
}

/// WRITE_SAME: `count` is the bytes that the pattern fills, if that fits 64 bits.
fn write_same<'a>(reader: &mut Reader<'a>, arguments: &mut Arguments<'a>) -> Result<()> {
    arguments.state = state_id(reader, "WRITE_SAME4args.wsa_stateid")?;
    arguments.stable = Some(Stability::decode(reader, "WRITE_SAME4args.wsa_stable")?);
    arguments.offset = Some(reader.u64("app_data_block4.adb_offset")?);
    let block_bytes = reader.u64("app_data_block4.adb_block_size")?;
    arguments.count = block_bytes.checked_mul(reader.u64("app_data_block4.adb_block_count")?);
    reader.skip(20, "app_data_block4.adb_reloff_blocknum")?;
    skip_opaque(reader, "app_data_block4.adb_pattern")
}

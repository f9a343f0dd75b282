//! Results of the operations that NFSv4.1 added (RFC 5662), numbers 40 to 58 but SEQUENCE, which
//! [`super::compound`] reads itself. The status is already read.

use super::fields::{
    bitmap, delegation, skip_channel, skip_if, skip_impl_id, skip_opaque, skip_owner,
    skip_protect_ops, skip_typed_body, state_id,
};
use super::opcode::{
    BACKCHANNEL_CTL, BIND_CONN_TO_SESSION, CREATE_SESSION, DESTROY_CLIENTID, DESTROY_SESSION,
    EXCHANGE_ID, FREE_STATEID, GET_DIR_DELEGATION, GETDEVICEINFO, GETDEVICELIST, LAYOUTCOMMIT,
    LAYOUTGET, LAYOUTRETURN, RECLAIM_COMPLETE, SECINFO_NO_NAME, SET_SSV, TEST_STATEID,
    WANT_DELEGATION,
};
use super::reply_4_0::security;
use super::status::{NFS4ERR_LAYOUTTRYLATER, NFS4ERR_TOOSMALL};
use crate::error::Result;
use crate::summary::Results;
use crate::xdr::Reader;

/// Reads the results of `opcode` (40 to 58) behind `status`.
pub(super) fn results<'a>(
    opcode: u32,
    status: u32,
    reader: &mut Reader<'a>,
    results: &mut Results<'a>,
) -> Result<()> {
    if status != 0 {
        return match (opcode, status) {
            (GETDEVICEINFO, NFS4ERR_TOOSMALL) => reader.skip(4, "GETDEVICEINFO4res.gdir_mincount"),
            (LAYOUTGET, NFS4ERR_LAYOUTTRYLATER) => {
                reader.skip(4, "LAYOUTGET4res.logr_will_signal_layout_avail")
            }
            _ => Ok(()),
        };
    }
    match opcode {
        BIND_CONN_TO_SESSION => reader.skip(24, "BIND_CONN_TO_SESSION4resok.bctsr_sessid"),
        EXCHANGE_ID => exchange_id(reader),
        CREATE_SESSION => {
            reader.skip(24, "CREATE_SESSION4resok.csr_sessionid")?;
            skip_channel(reader, "CREATE_SESSION4resok.csr_fore_chan_attrs")?;
            skip_channel(reader, "CREATE_SESSION4resok.csr_back_chan_attrs")
        }
        GET_DIR_DELEGATION => directory_delegation(reader, results),
        GETDEVICEINFO => {
            skip_typed_body(reader, "GETDEVICEINFO4resok.gdir_device_addr")?;
            bitmap(reader, "GETDEVICEINFO4resok.gdir_notification").map(|_| ())
        }
        GETDEVICELIST => {
            reader.skip(16, "GETDEVICELIST4resok.gdlr_cookie")?;
            let field = "GETDEVICELIST4resok.gdlr_deviceid_list";
            reader.each(field, |reader| reader.skip(16, field))?;
            results.eof = Some(reader.bool("GETDEVICELIST4resok.gdlr_eof")?);
            Ok(())
        }
        LAYOUTCOMMIT => skip_if(reader, 8, "LAYOUTCOMMIT4resok.locr_newsize"),
        LAYOUTGET => layout_get(reader, results),
        LAYOUTRETURN => skip_if(reader, 16, "LAYOUTRETURN4res.lorr_stateid"),
        SECINFO_NO_NAME => security(reader),
        SET_SSV => skip_opaque(reader, "SET_SSV4resok.ssr_digest"),
        TEST_STATEID => {
            let field = "TEST_STATEID4resok.tsr_status_codes";
            reader.each(field, |reader| reader.skip(4, field))
        }
        WANT_DELEGATION => {
            results.delegation = Some(delegation(reader, "WANT_DELEGATION4res.wdr_resok4")?);
            Ok(())
        }
        BACKCHANNEL_CTL | DESTROY_SESSION | FREE_STATEID | DESTROY_CLIENTID | RECLAIM_COMPLETE => {
            Ok(())
        }
        opcode => Err(reader.bad_value(opcode, "nfs_resop4.resop")),
    }
}

fn exchange_id(reader: &mut Reader<'_>) -> Result<()> {
    reader.skip(16, "EXCHANGE_ID4resok.eir_clientid")?;
    let field = "EXCHANGE_ID4resok.eir_state_protect";
    match reader.u32(field)? {
        0 => {}
        1 => skip_protect_ops(reader, field)?,
        2 => {
            skip_protect_ops(reader, field)?;
            reader.skip(16, field)?;
            reader.each(field, |reader| skip_opaque(reader, field))?;
        }
        value => return Err(reader.bad_value(value, field)),
    }
    reader.skip(8, "EXCHANGE_ID4resok.eir_server_owner.so_minor_id")?;
    skip_owner(reader, "EXCHANGE_ID4resok.eir_server_owner.so_major_id")?;
    skip_owner(reader, "EXCHANGE_ID4resok.eir_server_scope")?;
    skip_impl_id(reader, "EXCHANGE_ID4resok.eir_server_impl_id")
}

fn directory_delegation<'a>(reader: &mut Reader<'a>, results: &mut Results<'a>) -> Result<()> {
    let field = "GET_DIR_DELEGATION4res.gddrnf_status";
    match reader.u32(field)? {
        // GDD4_OK.
        0 => {
            reader.skip(8, "GET_DIR_DELEGATION4resok.gddr_cookieverf")?;
            results.state = state_id(reader, "GET_DIR_DELEGATION4resok.gddr_stateid")?;
            for _ in 0..3 {
                bitmap(reader, "GET_DIR_DELEGATION4resok.gddr_notification")?;
            }
            Ok(())
        }
        // GDD4_UNAVAIL.
        1 => reader.skip(4, "GET_DIR_DELEGATION4res.gddrnf_will_signal_deleg_avail"),
        value => Err(reader.bad_value(value, field)),
    }
}

fn layout_get<'a>(reader: &mut Reader<'a>, results: &mut Results<'a>) -> Result<()> {
    reader.bool("LAYOUTGET4resok.logr_return_on_close")?;
    results.state = state_id(reader, "LAYOUTGET4resok.logr_stateid")?;
    let field = "LAYOUTGET4resok.logr_layout";
    reader.each(field, |reader| {
        // Offset, length, iomode; then type and content.
        reader.skip(20, field)?;
        skip_typed_body(reader, field)
    })
}

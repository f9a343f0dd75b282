//! Arguments of the operations that NFSv4.1 added (RFC 5662), numbers 40 to 58 but SEQUENCE, which
//! [`super::compound`] reads itself.

use super::fields::{
    bitmap, skip_callback_security, skip_channel, skip_if, skip_impl_id, skip_opaque, skip_owner,
    skip_protect_ops, skip_typed_body, state_id,
};
use super::opcode::{
    BACKCHANNEL_CTL, BIND_CONN_TO_SESSION, CREATE_SESSION, DESTROY_CLIENTID, DESTROY_SESSION,
    EXCHANGE_ID, FREE_STATEID, GET_DIR_DELEGATION, GETDEVICEINFO, GETDEVICELIST, LAYOUTCOMMIT,
    LAYOUTGET, LAYOUTRETURN, RECLAIM_COMPLETE, SECINFO_NO_NAME, SET_SSV, TEST_STATEID,
    WANT_DELEGATION,
};
use crate::error::Result;
use crate::summary::Arguments;
use crate::xdr::Reader;

/// Reads the arguments of `opcode` (40 to 58).
pub(super) fn arguments<'a>(
    opcode: u32,
    reader: &mut Reader<'a>,
    arguments: &mut Arguments<'a>,
) -> Result<()> {
    match opcode {
        BACKCHANNEL_CTL => {
            reader.skip(4, "BACKCHANNEL_CTL4args.bca_cb_program")?;
            skip_security(reader, "BACKCHANNEL_CTL4args.bca_sec_parms")
        }
        BIND_CONN_TO_SESSION => reader.skip(24, "BIND_CONN_TO_SESSION4args.bctsa_sessid"),
        EXCHANGE_ID => exchange_id(reader),
        CREATE_SESSION => {
            reader.skip(16, "CREATE_SESSION4args.csa_clientid")?;
            skip_channel(reader, "CREATE_SESSION4args.csa_fore_chan_attrs")?;
            skip_channel(reader, "CREATE_SESSION4args.csa_back_chan_attrs")?;
            reader.skip(4, "CREATE_SESSION4args.csa_cb_program")?;
            skip_security(reader, "CREATE_SESSION4args.csa_sec_parms")
        }
        DESTROY_SESSION => reader.skip(16, "DESTROY_SESSION4args.dsa_sessionid"),
        FREE_STATEID => {
            arguments.state = state_id(reader, "FREE_STATEID4args.fsa_stateid")?;
            Ok(())
        }
        GET_DIR_DELEGATION => {
            reader.skip(4, "GET_DIR_DELEGATION4args.gdda_signal_deleg_avail")?;
            bitmap(reader, "GET_DIR_DELEGATION4args.gdda_notification_types")?;
            reader.skip(24, "GET_DIR_DELEGATION4args.gdda_child_attr_delay")?;
            bitmap(reader, "GET_DIR_DELEGATION4args.gdda_child_attributes")?;
            bitmap(reader, "GET_DIR_DELEGATION4args.gdda_dir_attributes").map(|_| ())
        }
        GETDEVICEINFO => {
            reader.skip(24, "GETDEVICEINFO4args.gdia_device_id")?;
            bitmap(reader, "GETDEVICEINFO4args.gdia_notify_types").map(|_| ())
        }
        GETDEVICELIST => reader.skip(24, "GETDEVICELIST4args.gdla_layout_type"),
        LAYOUTCOMMIT => layout_commit(reader, arguments),
        LAYOUTGET => {
            reader.skip(12, "LAYOUTGET4args.loga_signal_layout_avail")?;
            arguments.offset = Some(reader.u64("LAYOUTGET4args.loga_offset")?);
            arguments.count = Some(reader.u64("LAYOUTGET4args.loga_length")?);
            reader.skip(8, "LAYOUTGET4args.loga_minlength")?;
            arguments.state = state_id(reader, "LAYOUTGET4args.loga_stateid")?;
            reader.skip(4, "LAYOUTGET4args.loga_maxcount")
        }
        LAYOUTRETURN => layout_return(reader, arguments),
        SECINFO_NO_NAME => reader.skip(4, "SECINFO_NO_NAME4args"),
        SET_SSV => {
            skip_opaque(reader, "SET_SSV4args.ssa_ssv")?;
            skip_opaque(reader, "SET_SSV4args.ssa_digest")
        }
        TEST_STATEID => {
            let field = "TEST_STATEID4args.ts_stateids";
            reader.each(field, |reader| reader.skip(16, field))
        }
        WANT_DELEGATION => {
            reader.skip(4, "WANT_DELEGATION4args.wda_want")?;
            match reader.u32("WANT_DELEGATION4args.wda_claim")? {
                // CLAIM_PREVIOUS.
                1 => reader.skip(4, "deleg_claim4.dc_delegate_type"),
                // CLAIM_FH, CLAIM_DELEG_PREV_FH.
                4 | 6 => Ok(()),
                value => Err(reader.bad_value(value, "WANT_DELEGATION4args.wda_claim")),
            }
        }
        DESTROY_CLIENTID => reader.skip(8, "DESTROY_CLIENTID4args.dca_clientid"),
        RECLAIM_COMPLETE => reader.skip(4, "RECLAIM_COMPLETE4args.rca_one_fs"),
        opcode => Err(reader.bad_value(opcode, "nfs_argop4.argop")),
    }
}

fn skip_security(reader: &mut Reader<'_>, field: &'static str) -> Result<()> {
    reader.each(field, |reader| skip_callback_security(reader, field))
}

fn exchange_id(reader: &mut Reader<'_>) -> Result<()> {
    reader.skip(8, "EXCHANGE_ID4args.eia_clientowner.co_verifier")?;
    skip_owner(reader, "EXCHANGE_ID4args.eia_clientowner.co_ownerid")?;
    reader.skip(4, "EXCHANGE_ID4args.eia_flags")?;
    let field = "EXCHANGE_ID4args.eia_state_protect";
    match reader.u32(field)? {
        0 => {}
        1 => skip_protect_ops(reader, field)?,
        2 => {
            skip_protect_ops(reader, field)?;
            for _ in 0..2 {
                // Object identifiers of hash and encryption algorithms.
                reader.each(field, |reader| skip_opaque(reader, field))?;
            }
            reader.skip(8, field)?;
        }
        value => return Err(reader.bad_value(value, field)),
    }
    skip_impl_id(reader, "EXCHANGE_ID4args.eia_client_impl_id")
}

fn layout_commit<'a>(reader: &mut Reader<'a>, arguments: &mut Arguments<'a>) -> Result<()> {
    arguments.offset = Some(reader.u64("LAYOUTCOMMIT4args.loca_offset")?);
    arguments.count = Some(reader.u64("LAYOUTCOMMIT4args.loca_length")?);
    reader.bool("LAYOUTCOMMIT4args.loca_reclaim")?;
    arguments.state = state_id(reader, "LAYOUTCOMMIT4args.loca_stateid")?;
    skip_if(reader, 8, "LAYOUTCOMMIT4args.loca_last_write_offset")?;
    skip_if(reader, 12, "LAYOUTCOMMIT4args.loca_time_modify")?;
    skip_typed_body(reader, "LAYOUTCOMMIT4args.loca_layoutupdate")
}

fn layout_return<'a>(reader: &mut Reader<'a>, arguments: &mut Arguments<'a>) -> Result<()> {
    reader.skip(12, "LAYOUTRETURN4args.lora_reclaim")?;
    // LAYOUTRETURN4_FILE; the others (file system, all) carry nothing.
    if reader.u32("LAYOUTRETURN4args.lora_layoutreturn")? == 1 {
        arguments.offset = Some(reader.u64("layoutreturn_file4.lrf_offset")?);
        arguments.count = Some(reader.u64("layoutreturn_file4.lrf_length")?);
        arguments.state = state_id(reader, "layoutreturn_file4.lrf_stateid")?;
        skip_opaque(reader, "layoutreturn_file4.lrf_body")?;
    }
    Ok(())
}

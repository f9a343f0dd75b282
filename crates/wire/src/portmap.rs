//! portmap version 2 and rpcbind versions 3 and 4 (RFC 1833), arguments and results.
// Fields are the RFC's, named as there; its text documents them.
#![allow(missing_docs, non_camel_case_types)]

use crate::limits::{MAX_OPAQUE_BYTES, MAX_RPCBIND_STRING_BYTES};
use crate::xdr_macros::{xdr_opaque, xdr_struct};

/// Port of portmap and rpcbind (RFC 1833 section 3.2).
pub const PMAP_PORT: u16 = 111;
/// `IPPROTO_TCP` in mappings.
pub const IPPROTO_TCP: u32 = 6;
/// `IPPROTO_UDP` in mappings.
pub const IPPROTO_UDP: u32 = 17;

/// Procedure numbers of portmap version 2.
pub mod procedure {
    crate::numbers::procedures! { NULL SET UNSET GETPORT DUMP CALLIT }
}
/// Procedure numbers of rpcbind versions 3 and 4 (from `GETVERSADDR` on: 4 only).
pub mod rpcb_procedure {
    crate::numbers::procedures! {
        NULL SET UNSET GETADDR DUMP BCAST GETTIME UADDR2TADDR TADDR2UADDR GETVERSADDR INDIRECT
        GETADDRLIST GETSTAT
    }
}

xdr_struct! {
    /// `mapping`: argument of SET, UNSET and GETPORT, entry of DUMP.
    mapping { prog: u32, vers: u32, prot: u32, port: u32 }
}

xdr_opaque! {
    /// Arguments or results that are passed on unread.
    passed_on<MAX_OPAQUE_BYTES>
}
xdr_struct! {
    /// `call_args` of CALLIT, `rpcb_rmtcallargs` of BCAST and INDIRECT.
    call_args<'a> { prog: u32, vers: u32, proc_: u32, args: passed_on<'a> }
    /// `call_result` of CALLIT.
    call_result<'a> { port: u32, res: passed_on<'a> }
}

xdr_opaque! {
    /// A string of rpcbind: network id, universal address, owner.
    rpcb_string<MAX_RPCBIND_STRING_BYTES>
}
xdr_struct! {
    /// `rpcb`: argument of SET, UNSET, GETADDR, GETVERSADDR and GETADDRLIST, entry of DUMP.
    rpcb<'a> {
        r_prog: u32,
        r_vers: u32,
        r_netid: rpcb_string<'a>,
        r_addr: rpcb_string<'a>,
        r_owner: rpcb_string<'a>,
    }
}

xdr_struct! {
    /// `rpcb_rmtcallres` of CALLIT (v3), BCAST and INDIRECT.
    rpcb_rmtcallres<'a> { addr: rpcb_string<'a>, results: passed_on<'a> }
    /// `netbuf`: result of UADDR2TADDR, argument of TADDR2UADDR.
    netbuf<'a> { maxlen: u32, buf: passed_on<'a> }
    /// `rpcb_entry` of GETADDRLIST.
    rpcb_entry<'a> {
        r_maddr: rpcb_string<'a>,
        r_nc_netid: rpcb_string<'a>,
        r_nc_semantics: u32,
        r_nc_protofmly: rpcb_string<'a>,
        r_nc_proto: rpcb_string<'a>,
    }
}

/// Procedures counted by GETSTAT (`RPCBSTAT_HIGHPROC`): 13 words.
pub type rpcbs_proc = [u8; 52];
xdr_struct! {
    /// `rpcbs_addrlist`: GETADDR and GETVERSADDR calls of one program.
    rpcbs_addrlist<'a> {
        prog: u32,
        vers: u32,
        success: i32,
        failure: i32,
        netid: rpcb_string<'a>,
    }
    /// `rpcbs_rmtcalllist`: CALLIT, BCAST and INDIRECT calls of one procedure.
    rpcbs_rmtcalllist<'a> {
        prog: u32,
        vers: u32,
        proc_: u32,
        success: i32,
        failure: i32,
        indirect: i32,
        netid: rpcb_string<'a>,
    }
}

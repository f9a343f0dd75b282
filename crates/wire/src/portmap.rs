//! portmap version 2 and rpcbind versions 3 and 4 (RFC 1833), arguments and results.
// Fields are the RFC's, named as there; its text documents them.
#![allow(missing_docs, non_camel_case_types)]

use crate::limits::{MAX_OPAQUE_BYTES, MAX_RPCBIND_STRING_BYTES};
use crate::xdr::Linked;
use crate::xdr_macros::{xdr_opaque, xdr_struct};

/// Port of portmap and rpcbind (RFC 1833 section 3.2).
pub const PMAP_PORT: u16 = 111;
/// `IPPROTO_TCP` in mappings.
pub const IPPROTO_TCP: u32 = 6;
/// `IPPROTO_UDP` in mappings.
pub const IPPROTO_UDP: u32 = 17;

/// Procedure numbers of portmap version 2.
pub mod procedure {
    pub const NULL: u32 = 0;
    pub const SET: u32 = 1;
    pub const UNSET: u32 = 2;
    pub const GETPORT: u32 = 3;
    pub const DUMP: u32 = 4;
    pub const CALLIT: u32 = 5;
}
/// Procedure numbers of rpcbind versions 3 and 4 (from `GETVERSADDR` on: 4 only).
pub mod rpcb_procedure {
    pub const NULL: u32 = 0;
    pub const SET: u32 = 1;
    pub const UNSET: u32 = 2;
    pub const GETADDR: u32 = 3;
    pub const DUMP: u32 = 4;
    pub const BCAST: u32 = 5;
    pub const GETTIME: u32 = 6;
    pub const UADDR2TADDR: u32 = 7;
    pub const TADDR2UADDR: u32 = 8;
    pub const GETVERSADDR: u32 = 9;
    pub const INDIRECT: u32 = 10;
    pub const GETADDRLIST: u32 = 11;
    pub const GETSTAT: u32 = 12;
}

xdr_struct! {
    /// `mapping`: argument of SET, UNSET and GETPORT, entry of DUMP.
    mapping { prog: u32, vers: u32, prot: u32, port: u32 }
}
/// `pmaplist`: result of DUMP.
pub type pmaplist = Linked<mapping>;

xdr_opaque! {
    /// Arguments or results that are passed on unread.
    passed_on<MAX_OPAQUE_BYTES>
}
xdr_struct! {
    /// `call_args` of CALLIT, `rpcb_rmtcallargs` of BCAST and INDIRECT.
    #[derive(Copy)]
    call_args<'a> { prog: u32, vers: u32, proc_: u32, args: passed_on<'a> }
}
xdr_struct! {
    /// `call_result` of CALLIT.
    #[derive(Copy)]
    call_result<'a> { port: u32, res: passed_on<'a> }
}

xdr_opaque! {
    /// A string of rpcbind: network id, universal address, owner.
    rpcb_string<MAX_RPCBIND_STRING_BYTES>
}
xdr_struct! {
    /// `rpcb`: argument of SET, UNSET, GETADDR, GETVERSADDR and GETADDRLIST, entry of DUMP.
    #[derive(Copy)]
    rpcb<'a> {
        r_prog: u32,
        r_vers: u32,
        r_netid: rpcb_string<'a>,
        r_addr: rpcb_string<'a>,
        r_owner: rpcb_string<'a>,
    }
}
/// `rpcblist`: result of DUMP.
pub type rpcblist<'a> = Linked<rpcb<'a>>;

xdr_struct! {
    /// `rpcb_rmtcallres` of CALLIT (v3), BCAST and INDIRECT.
    #[derive(Copy)]
    rpcb_rmtcallres<'a> { addr: rpcb_string<'a>, results: passed_on<'a> }
}
xdr_struct! {
    /// `netbuf`: result of UADDR2TADDR, argument of TADDR2UADDR.
    #[derive(Copy)]
    netbuf<'a> { maxlen: u32, buf: passed_on<'a> }
}
xdr_struct! {
    /// `rpcb_entry` of GETADDRLIST.
    #[derive(Copy)]
    rpcb_entry<'a> {
        r_maddr: rpcb_string<'a>,
        r_nc_netid: rpcb_string<'a>,
        r_nc_semantics: u32,
        r_nc_protofmly: rpcb_string<'a>,
        r_nc_proto: rpcb_string<'a>,
    }
}
/// `rpcb_entry_list`: result of GETADDRLIST.
pub type rpcb_entry_list<'a> = Linked<rpcb_entry<'a>>;

/// Procedures counted by GETSTAT (`RPCBSTAT_HIGHPROC`): 13 words.
pub type rpcbs_proc = [u8; 52];
xdr_struct! {
    /// `rpcbs_addrlist`: GETADDR and GETVERSADDR calls of one program.
    #[derive(Copy)]
    rpcbs_addrlist<'a> {
        prog: u32,
        vers: u32,
        success: i32,
        failure: i32,
        netid: rpcb_string<'a>,
    }
}
xdr_struct! {
    /// `rpcbs_rmtcalllist`: CALLIT, BCAST and INDIRECT calls of one procedure.
    #[derive(Copy)]
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
xdr_struct! {
    /// `rpcb_stat`: statistics of one rpcbind version.
    rpcb_stat<'a> {
        info: rpcbs_proc,
        setinfo: i32,
        unsetinfo: i32,
        addrinfo: Linked<rpcbs_addrlist<'a>>,
        rmtinfo: Linked<rpcbs_rmtcalllist<'a>>,
    }
}
xdr_struct! {
    /// `rpcb_stat_byvers`: result of GETSTAT, for versions 2, 3 and 4.
    rpcb_stat_byvers<'a> { v2: rpcb_stat<'a>, v3: rpcb_stat<'a>, v4: rpcb_stat<'a> }
}

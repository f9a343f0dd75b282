//! MOUNT version 3 (RFC 1813 appendix I), arguments and results. Versions 1 and 2 (RFC 1094
//! appendix A) differ in MNT's result only ([`fhstatus`]); version 2 adds PATHCONF.
// Fields are the RFC's, named as there; its text documents them.
#![allow(missing_docs, non_camel_case_types)]

use crate::error::Result;
use crate::limits::{MAX_MOUNT_NAME_BYTES, MAX_MOUNT_PATH_BYTES, NFS2_FHSIZE, NFS3_FHSIZE};
use crate::xdr::{Counted, Decode, Encode, Linked, Reader};
use crate::xdr_macros::{xdr_enum, xdr_opaque, xdr_struct};

/// Procedure numbers: EXPORTALL is of versions 1 and 2, PATHCONF of version 2.
pub mod procedure {
    crate::numbers::procedures! { NULL MNT DUMP UMNT UMNTALL EXPORT EXPORTALL PATHCONF }
}

xdr_opaque! {
    /// `fhandle3`.
    fhandle3<NFS3_FHSIZE>
    /// `dirpath`: argument of MNT and UMNT.
    dirpath<MAX_MOUNT_PATH_BYTES>
    /// `name`: of a host or group.
    name<MAX_MOUNT_NAME_BYTES>
}

xdr_enum! {
    /// `mountstat3`.
    mountstat3 {
        MNT3_OK = 0,
        MNT3ERR_PERM = 1,
        MNT3ERR_NOENT = 2,
        MNT3ERR_IO = 5,
        MNT3ERR_ACCES = 13,
        MNT3ERR_NOTDIR = 20,
        MNT3ERR_INVAL = 22,
        MNT3ERR_NAMETOOLONG = 63,
        MNT3ERR_NOTSUPP = 10004,
        MNT3ERR_SERVERFAULT = 10006,
    }
}

xdr_struct! {
    /// `mountres3_ok`: the export's root and the flavours it may be used with.
    list mountres3_ok<'a> { fhandle: fhandle3<'a>, auth_flavors: Counted<u32> }
}

/// `mountres3`: result of MNT. A failure is never `MNT3_OK`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum mountres3<'a> {
    /// MNT3_OK.
    Ok(mountres3_ok<'a>),
    /// Why not.
    Fail(mountstat3),
}
impl Encode for mountres3<'_> {
    fn encode(&self, out: &mut Vec<u8>) -> Result<()> {
        match self {
            mountres3::Ok(resok) => {
                mountstat3::MNT3_OK.encode(out)?;
                resok.encode(out)
            }
            mountres3::Fail(status) => status.encode(out),
        }
    }
}
impl<'a> Decode<'a> for mountres3<'a> {
    fn decode(reader: &mut Reader<'a>, field: &'static str) -> Result<Self> {
        match mountstat3::decode(reader, field)? {
            mountstat3::MNT3_OK => mountres3_ok::decode(reader, field).map(mountres3::Ok),
            status => Ok(mountres3::Fail(status)),
        }
    }
}

/// `fhstatus` of MOUNT v1 and v2: a Unix error number, or the handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum fhstatus {
    /// Status 0.
    Ok([u8; NFS2_FHSIZE]),
    /// A Unix error number.
    Fail(u32),
}
impl Encode for fhstatus {
    fn encode(&self, out: &mut Vec<u8>) -> Result<()> {
        match self {
            fhstatus::Ok(handle) => {
                0u32.encode(out)?;
                handle.encode(out)
            }
            fhstatus::Fail(errno) => errno.encode(out),
        }
    }
}
impl<'a> Decode<'a> for fhstatus {
    fn decode(reader: &mut Reader<'a>, field: &'static str) -> Result<Self> {
        match reader.u32(field)? {
            0 => Decode::decode(reader, field).map(fhstatus::Ok),
            errno => Ok(fhstatus::Fail(errno)),
        }
    }
}

xdr_struct! {
    /// `mountbody`: an entry of DUMP.
    mountbody<'a> { ml_hostname: name<'a>, ml_directory: dirpath<'a> }
}
/// `mountlist`: result of DUMP.
pub type mountlist<'a> = Linked<mountbody<'a>>;

xdr_struct! {
    /// `exportnode`: an entry of EXPORT.
    list exportnode<'a> { ex_dir: dirpath<'a>, ex_groups: Linked<name<'a>> }
}
/// `exports`: result of EXPORT.
pub type exports<'a> = Linked<exportnode<'a>>;

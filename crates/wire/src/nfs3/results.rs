//! Results of the NFSv3 procedures (RFC 1813 section 3.3) but READDIR and READDIRPLUS.
// Fields are the RFC's, named as there; its text documents them.
#![allow(missing_docs, non_camel_case_types)]

use super::arguments::payload3;
use super::types::{
    Res, fattr3, nfs_fh3, nfspath3, nfstime3, post_op_attr, post_op_fh3, stable_how, wcc_data,
    writeverf3,
};
use crate::xdr_macros::xdr_struct;

/// GETATTR (3.3.1).
pub type GETATTR3res = Res<GETATTR3resok, ()>;
/// SETATTR (3.3.2).
pub type SETATTR3res = Res<wcc_data, wcc_data>;
/// LOOKUP (3.3.3); on failure the directory's attributes.
pub type LOOKUP3res<'a> = Res<LOOKUP3resok<'a>, post_op_attr>;
/// ACCESS (3.3.4).
pub type ACCESS3res = Res<ACCESS3resok, post_op_attr>;
/// READLINK (3.3.5).
pub type READLINK3res<'a> = Res<READLINK3resok<'a>, post_op_attr>;
/// READ (3.3.6).
pub type READ3res<'a> = Res<READ3resok<'a>, post_op_attr>;
/// WRITE (3.3.7).
pub type WRITE3res = Res<WRITE3resok, wcc_data>;
/// CREATE (3.3.8), MKDIR (3.3.9), SYMLINK (3.3.10) and MKNOD (3.3.11): the same layout.
pub type CREATE3res<'a> = Res<CREATE3resok<'a>, wcc_data>;
/// MKDIR (3.3.9).
pub type MKDIR3res<'a> = CREATE3res<'a>;
/// SYMLINK (3.3.10).
pub type SYMLINK3res<'a> = CREATE3res<'a>;
/// MKNOD (3.3.11).
pub type MKNOD3res<'a> = CREATE3res<'a>;
/// REMOVE (3.3.12): the directory's `wcc_data`.
pub type REMOVE3res = Res<wcc_data, wcc_data>;
/// RMDIR (3.3.13).
pub type RMDIR3res = Res<wcc_data, wcc_data>;
/// RENAME (3.3.14).
pub type RENAME3res = Res<RENAME3wcc, RENAME3wcc>;
/// LINK (3.3.15).
pub type LINK3res = Res<LINK3wcc, LINK3wcc>;
/// FSSTAT (3.3.18).
pub type FSSTAT3res = Res<FSSTAT3resok, post_op_attr>;
/// FSINFO (3.3.19).
pub type FSINFO3res = Res<FSINFO3resok, post_op_attr>;
/// PATHCONF (3.3.20).
pub type PATHCONF3res = Res<PATHCONF3resok, post_op_attr>;
/// COMMIT (3.3.21).
pub type COMMIT3res = Res<COMMIT3resok, wcc_data>;

xdr_struct! {
    /// GETATTR.
    GETATTR3resok { obj_attributes: fattr3 }
    /// LOOKUP.
    LOOKUP3resok<'a> {
        object: nfs_fh3<'a>,
        obj_attributes: post_op_attr,
        dir_attributes: post_op_attr,
    }
    /// ACCESS.
    ACCESS3resok { obj_attributes: post_op_attr, access: u32 }
    /// READLINK.
    READLINK3resok<'a> { symlink_attributes: post_op_attr, data: nfspath3<'a> }
    /// READ.
    READ3resok<'a> { file_attributes: post_op_attr, count: u32, eof: bool, data: payload3<'a> }
    /// WRITE.
    WRITE3resok { file_wcc: wcc_data, count: u32, committed: stable_how, verf: writeverf3 }
    /// CREATE, MKDIR, SYMLINK, MKNOD.
    CREATE3resok<'a> { obj: post_op_fh3<'a>, obj_attributes: post_op_attr, dir_wcc: wcc_data }
    /// RENAME, success or failure.
    RENAME3wcc { fromdir_wcc: wcc_data, todir_wcc: wcc_data }
    /// LINK, success or failure.
    LINK3wcc { file_attributes: post_op_attr, linkdir_wcc: wcc_data }
    /// FSSTAT.
    FSSTAT3resok {
        obj_attributes: post_op_attr,
        tbytes: u64,
        fbytes: u64,
        abytes: u64,
        tfiles: u64,
        ffiles: u64,
        afiles: u64,
        invarsec: u32,
    }
}
/// FSINFO `properties` bits.
pub mod properties {
    pub const FSF3_LINK: u32 = 0x0001;
    pub const FSF3_SYMLINK: u32 = 0x0002;
    pub const FSF3_HOMOGENEOUS: u32 = 0x0008;
    pub const FSF3_CANSETTIME: u32 = 0x0010;
}
xdr_struct! {
    /// FSINFO.
    FSINFO3resok {
        obj_attributes: post_op_attr,
        rtmax: u32,
        rtpref: u32,
        rtmult: u32,
        wtmax: u32,
        wtpref: u32,
        wtmult: u32,
        dtpref: u32,
        maxfilesize: u64,
        time_delta: nfstime3,
        properties: u32,
    }
    /// PATHCONF.
    PATHCONF3resok {
        obj_attributes: post_op_attr,
        linkmax: u32,
        name_max: u32,
        no_trunc: bool,
        chown_restricted: bool,
        case_insensitive: bool,
        case_preserving: bool,
    }
    /// COMMIT.
    COMMIT3resok { file_wcc: wcc_data, verf: writeverf3 }
}

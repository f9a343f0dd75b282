//! Arguments of the NFSv3 procedures (RFC 1813 section 3.3).
// Fields are the RFC's, named as there; its text documents them.
#![allow(missing_docs, non_camel_case_types)]

use super::types::{
    cookieverf3, createverf3, diropargs3, ftype3, nfs_fh3, nfspath3, nfstime3, sattr3, specdata3,
    stable_how,
};
use crate::error::Result;
use crate::limits::MAX_DATA_BYTES;
use crate::xdr::{Decode, Encode, Reader, put_length};
use crate::xdr_macros::{xdr_opaque, xdr_struct};

/// ACCESS bits (RFC 1813 section 3.3.4).
pub mod access {
    pub const READ: u32 = 0x01;
    pub const LOOKUP: u32 = 0x02;
    pub const MODIFY: u32 = 0x04;
    pub const EXTEND: u32 = 0x08;
    pub const DELETE: u32 = 0x10;
    pub const EXECUTE: u32 = 0x20;
}

xdr_struct! {
    /// GETATTR (3.3.1).
    GETATTR3args<'a> { object: nfs_fh3<'a> }
    /// SETATTR (3.3.2); `guard` is the ctime that the object must have.
    SETATTR3args<'a> { object: nfs_fh3<'a>, new_attributes: sattr3, guard: Option<nfstime3> }
    /// LOOKUP (3.3.3).
    LOOKUP3args<'a> { what: diropargs3<'a> }
    /// ACCESS (3.3.4).
    ACCESS3args<'a> { object: nfs_fh3<'a>, access: u32 }
    /// READLINK (3.3.5).
    READLINK3args<'a> { symlink: nfs_fh3<'a> }
    /// READ (3.3.6).
    READ3args<'a> { file: nfs_fh3<'a>, offset: u64, count: u32 }
}

xdr_opaque! {
    /// Payload of a READ or WRITE (`opaque data<>`).
    payload3<MAX_DATA_BYTES>
}
xdr_struct! {
    /// WRITE (3.3.7).
    WRITE3args<'a> {
        file: nfs_fh3<'a>,
        offset: u64,
        count: u32,
        stable: stable_how,
        data: payload3<'a>,
    }
}
impl WRITE3args<'_> {
    /// Appends all but the payload and its padding, which the caller sends behind it.
    pub fn encode_head(&self, out: &mut Vec<u8>) -> Result<()> {
        self.file.encode(out)?;
        self.offset.encode(out)?;
        self.count.encode(out)?;
        self.stable.encode(out)?;
        put_length(out, self.data.0.len(), MAX_DATA_BYTES, "payload3")
    }
}

/// `createhow3` (3.3.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum createhow3 {
    /// Create, or use what is there.
    UNCHECKED(sattr3),
    /// Create; fail if it is there.
    GUARDED(sattr3),
    /// Create exactly once, recognised by the verifier.
    EXCLUSIVE(createverf3),
}
impl Encode for createhow3 {
    fn encode(&self, out: &mut Vec<u8>) -> Result<()> {
        match self {
            createhow3::UNCHECKED(attributes) => {
                0u32.encode(out)?;
                attributes.encode(out)
            }
            createhow3::GUARDED(attributes) => {
                1u32.encode(out)?;
                attributes.encode(out)
            }
            createhow3::EXCLUSIVE(verifier) => {
                2u32.encode(out)?;
                verifier.encode(out)
            }
        }
    }
}
impl<'a> Decode<'a> for createhow3 {
    fn decode(reader: &mut Reader<'a>, field: &'static str) -> Result<Self> {
        Ok(match reader.u32(field)? {
            0 => createhow3::UNCHECKED(sattr3::decode(reader, field)?),
            1 => createhow3::GUARDED(sattr3::decode(reader, field)?),
            2 => createhow3::EXCLUSIVE(Decode::decode(reader, field)?),
            value => return Err(reader.bad_value(value, field)),
        })
    }
}
xdr_struct! {
    /// CREATE (3.3.8).
    CREATE3args<'a> { where_: diropargs3<'a>, how: createhow3 }
    /// MKDIR (3.3.9).
    MKDIR3args<'a> { where_: diropargs3<'a>, attributes: sattr3 }
    /// `symlinkdata3`.
    symlinkdata3<'a> { symlink_attributes: sattr3, symlink_data: nfspath3<'a> }
    /// SYMLINK (3.3.10).
    SYMLINK3args<'a> { where_: diropargs3<'a>, symlink: symlinkdata3<'a> }
}

/// `mknoddata3` (3.3.11).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum mknoddata3 {
    /// NF3CHR with `devicedata3`.
    CHR(sattr3, specdata3),
    /// NF3BLK with `devicedata3`.
    BLK(sattr3, specdata3),
    /// NF3SOCK with `pipe_attributes`.
    SOCK(sattr3),
    /// NF3FIFO with `pipe_attributes`.
    FIFO(sattr3),
    /// NF3REG: refused by servers (NFS3ERR_BADTYPE).
    REG,
    /// NF3DIR: refused by servers.
    DIR,
    /// NF3LNK: refused by servers.
    LNK,
}
impl mknoddata3 {
    /// The union's discriminant.
    pub fn type_(&self) -> ftype3 {
        match self {
            mknoddata3::CHR(..) => ftype3::NF3CHR,
            mknoddata3::BLK(..) => ftype3::NF3BLK,
            mknoddata3::SOCK(_) => ftype3::NF3SOCK,
            mknoddata3::FIFO(_) => ftype3::NF3FIFO,
            mknoddata3::REG => ftype3::NF3REG,
            mknoddata3::DIR => ftype3::NF3DIR,
            mknoddata3::LNK => ftype3::NF3LNK,
        }
    }
}
impl Encode for mknoddata3 {
    fn encode(&self, out: &mut Vec<u8>) -> Result<()> {
        self.type_().encode(out)?;
        match self {
            mknoddata3::CHR(attributes, spec) | mknoddata3::BLK(attributes, spec) => {
                attributes.encode(out)?;
                spec.encode(out)
            }
            mknoddata3::SOCK(attributes) | mknoddata3::FIFO(attributes) => attributes.encode(out),
            mknoddata3::REG | mknoddata3::DIR | mknoddata3::LNK => Ok(()),
        }
    }
}
impl<'a> Decode<'a> for mknoddata3 {
    fn decode(reader: &mut Reader<'a>, field: &'static str) -> Result<Self> {
        let type_ = ftype3::decode(reader, field)?;
        let attributes = |reader: &mut Reader<'a>| sattr3::decode(reader, field);
        Ok(match type_ {
            ftype3::NF3CHR => {
                mknoddata3::CHR(attributes(reader)?, specdata3::decode(reader, field)?)
            }
            ftype3::NF3BLK => {
                mknoddata3::BLK(attributes(reader)?, specdata3::decode(reader, field)?)
            }
            ftype3::NF3SOCK => mknoddata3::SOCK(attributes(reader)?),
            ftype3::NF3FIFO => mknoddata3::FIFO(attributes(reader)?),
            ftype3::NF3REG => mknoddata3::REG,
            ftype3::NF3DIR => mknoddata3::DIR,
            ftype3::NF3LNK => mknoddata3::LNK,
        })
    }
}
xdr_struct! {
    /// MKNOD (3.3.11).
    MKNOD3args<'a> { where_: diropargs3<'a>, what: mknoddata3 }
    /// REMOVE (3.3.12).
    REMOVE3args<'a> { object: diropargs3<'a> }
    /// RMDIR (3.3.13).
    RMDIR3args<'a> { object: diropargs3<'a> }
    /// RENAME (3.3.14).
    RENAME3args<'a> { from: diropargs3<'a>, to: diropargs3<'a> }
    /// LINK (3.3.15).
    LINK3args<'a> { file: nfs_fh3<'a>, link: diropargs3<'a> }
    /// READDIR (3.3.16).
    READDIR3args<'a> { dir: nfs_fh3<'a>, cookie: u64, cookieverf: cookieverf3, count: u32 }
    /// READDIRPLUS (3.3.17).
    READDIRPLUS3args<'a> {
        dir: nfs_fh3<'a>,
        cookie: u64,
        cookieverf: cookieverf3,
        dircount: u32,
        maxcount: u32,
    }
    /// FSSTAT (3.3.18).
    FSSTAT3args<'a> { fsroot: nfs_fh3<'a> }
    /// FSINFO (3.3.19).
    FSINFO3args<'a> { fsroot: nfs_fh3<'a> }
    /// PATHCONF (3.3.20).
    PATHCONF3args<'a> { object: nfs_fh3<'a> }
    /// COMMIT (3.3.21).
    COMMIT3args<'a> { file: nfs_fh3<'a>, offset: u64, count: u32 }
}

//! Data types that arguments and results share (RFC 1813 sections 2.5 and 2.6).
// Fields are the RFC's, named as there; its text documents them.
#![allow(missing_docs, non_camel_case_types)]

use crate::error::Result;
use crate::fixed::Fixed;
use crate::limits::{MAX_NAME_BYTES, MAX_PATH_BYTES, NFS3_FHSIZE};
use crate::xdr::{Decode, Encode, Reader};
use crate::xdr_macros::{xdr_enum, xdr_opaque, xdr_struct};

/// `cookieverf3`, opaque.
pub type cookieverf3 = [u8; 8];
/// `createverf3`, opaque.
pub type createverf3 = [u8; 8];
/// `writeverf3`: changes when the server may have lost unstable writes.
pub type writeverf3 = [u8; 8];

xdr_opaque! {
    /// `nfs_fh3`: a file handle, 64 bytes at most.
    nfs_fh3<NFS3_FHSIZE>
    /// `filename3`.
    filename3<MAX_NAME_BYTES>
    /// `nfspath3`: the text of a symbolic link.
    nfspath3<MAX_PATH_BYTES>
}

xdr_struct! {
    /// `nfsstat3` as the number on the wire: unknown values are carried, not refused.
    #[derive(Hash, PartialOrd, Ord)]
    nfsstat3 { code: u32 }
}

macro_rules! statuses {
    ($($name:ident = $code:expr),* $(,)?) => {
        impl nfsstat3 {
            $(pub const $name: nfsstat3 = nfsstat3 { code: $code };)*
            /// The RFC's name; `None` for a number that RFC 1813 does not list.
            pub fn name(self) -> Option<&'static str> {
                match self.code { $($code => Some(stringify!($name)),)* _ => None }
            }
        }
    };
}
statuses! {
    NFS3_OK = 0, NFS3ERR_PERM = 1, NFS3ERR_NOENT = 2, NFS3ERR_IO = 5, NFS3ERR_NXIO = 6,
    NFS3ERR_ACCES = 13, NFS3ERR_EXIST = 17, NFS3ERR_XDEV = 18, NFS3ERR_NODEV = 19,
    NFS3ERR_NOTDIR = 20, NFS3ERR_ISDIR = 21, NFS3ERR_INVAL = 22, NFS3ERR_FBIG = 27,
    NFS3ERR_NOSPC = 28, NFS3ERR_ROFS = 30, NFS3ERR_MLINK = 31, NFS3ERR_NAMETOOLONG = 63,
    NFS3ERR_NOTEMPTY = 66, NFS3ERR_DQUOT = 69, NFS3ERR_STALE = 70, NFS3ERR_REMOTE = 71,
    NFS3ERR_BADHANDLE = 10001, NFS3ERR_NOT_SYNC = 10002, NFS3ERR_BAD_COOKIE = 10003,
    NFS3ERR_NOTSUPP = 10004, NFS3ERR_TOOSMALL = 10005, NFS3ERR_SERVERFAULT = 10006,
    NFS3ERR_BADTYPE = 10007, NFS3ERR_JUKEBOX = 10008,
}

xdr_enum! {
    /// `ftype3`.
    ftype3 {
        NF3REG = 1, NF3DIR = 2, NF3BLK = 3, NF3CHR = 4, NF3LNK = 5, NF3SOCK = 6, NF3FIFO = 7,
    }
    /// `stable_how`: how a WRITE is (to be) committed.
    stable_how { UNSTABLE = 0, DATA_SYNC = 1, FILE_SYNC = 2 }
}

xdr_struct! {
    /// `specdata3`: device numbers.
    fixed specdata3 { specdata1: u32, specdata2: u32 }
}
impl specdata3 {
    /// Of what is no device.
    pub const NONE: specdata3 = specdata3 {
        specdata1: 0,
        specdata2: 0,
    };
}
xdr_struct! {
    /// `nfstime3`.
    #[derive(Default, PartialOrd, Ord, Hash)]
    fixed nfstime3 { seconds: u32, nseconds: u32 }
    /// `fattr3`: 84 bytes.
    fixed fattr3 {
        type_: ftype3,
        mode: u32,
        nlink: u32,
        uid: u32,
        gid: u32,
        size: u64,
        used: u64,
        rdev: specdata3,
        fsid: u64,
        fileid: u64,
        atime: nfstime3,
        mtime: nfstime3,
        ctime: nfstime3,
    }
}
impl fattr3 {
    /// Root's regular file with mode 0644, one name and all times the same: what servers that make
    /// their files up, measurements and tests begin with.
    pub const fn plain_file(size: u64, time: nfstime3) -> fattr3 {
        fattr3 {
            type_: ftype3::NF3REG,
            mode: 0o644,
            nlink: 1,
            uid: 0,
            gid: 0,
            size,
            used: size,
            rdev: specdata3::NONE,
            fsid: 1,
            fileid: 2,
            atime: time,
            mtime: time,
            ctime: time,
        }
    }
}
/// Bytes of an encoded `fattr3`.
pub const FATTR3_BYTES: usize = <fattr3 as Fixed>::BYTES;
/// `post_op_attr`.
pub type post_op_attr = Option<fattr3>;
/// `post_op_fh3`.
pub type post_op_fh3<'a> = Option<nfs_fh3<'a>>;

xdr_struct! {
    /// `wcc_attr`.
    fixed wcc_attr { size: u64, mtime: nfstime3, ctime: nfstime3 }
    /// `wcc_data`: weak cache consistency.
    wcc_data { before: Option<wcc_attr>, after: post_op_attr }
}

/// `set_atime` and `set_mtime` (`time_how`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum set_time {
    /// `DONT_CHANGE`.
    DONT_CHANGE,
    /// `SET_TO_SERVER_TIME`.
    SET_TO_SERVER_TIME,
    /// `SET_TO_CLIENT_TIME`.
    SET_TO_CLIENT_TIME(nfstime3),
}
impl Encode for set_time {
    fn encode(&self, out: &mut Vec<u8>) -> Result<()> {
        match self {
            set_time::DONT_CHANGE => 0u32.encode(out),
            set_time::SET_TO_SERVER_TIME => 1u32.encode(out),
            set_time::SET_TO_CLIENT_TIME(time) => {
                2u32.encode(out)?;
                time.encode(out)
            }
        }
    }
}
impl<'a> Decode<'a> for set_time {
    fn decode(reader: &mut Reader<'a>, field: &'static str) -> Result<Self> {
        Ok(match reader.u32(field)? {
            0 => set_time::DONT_CHANGE,
            1 => set_time::SET_TO_SERVER_TIME,
            2 => set_time::SET_TO_CLIENT_TIME(nfstime3::decode(reader, field)?),
            value => return Err(reader.bad_value(value, field)),
        })
    }
}

xdr_struct! {
    /// `sattr3`: attributes to be set; `None` leaves one as it is.
    sattr3 {
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: set_time,
        mtime: set_time,
    }
}
impl sattr3 {
    /// Nothing to be set.
    pub const UNCHANGED: sattr3 = sattr3 {
        mode: None,
        uid: None,
        gid: None,
        size: None,
        atime: set_time::DONT_CHANGE,
        mtime: set_time::DONT_CHANGE,
    };
}

xdr_struct! {
    /// `diropargs3`: a name in a directory.
    diropargs3<'a> { dir: nfs_fh3<'a>, name: filename3<'a> }
}

/// Result of a procedure: `resok` with status NFS3_OK, or any other status with `resfail`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Res<T, F> {
    /// NFS3_OK and its body.
    Ok(T),
    /// An error status and its body.
    Fail(nfsstat3, F),
}
impl<T, F> Res<T, F> {
    /// The status.
    pub fn status(&self) -> nfsstat3 {
        match self {
            Res::Ok(_) => nfsstat3::NFS3_OK,
            Res::Fail(status, _) => *status,
        }
    }
}
impl<T: Encode, F: Encode> Encode for Res<T, F> {
    fn encode(&self, out: &mut Vec<u8>) -> Result<()> {
        match self {
            Res::Ok(resok) => {
                nfsstat3::NFS3_OK.encode(out)?;
                resok.encode(out)
            }
            Res::Fail(status, resfail) => {
                status.encode(out)?;
                resfail.encode(out)
            }
        }
    }
}
impl<'a, T: Decode<'a>, F: Decode<'a>> Decode<'a> for Res<T, F> {
    fn decode(reader: &mut Reader<'a>, field: &'static str) -> Result<Self> {
        match nfsstat3::decode(reader, field)? {
            nfsstat3::NFS3_OK => T::decode(reader, field).map(Res::Ok),
            status => F::decode(reader, field).map(|resfail| Res::Fail(status, resfail)),
        }
    }
}

//! Stores: where the files of an export live. One trait, one file or folder per store, one list.
//!
//! A store answers in terms of [`Handle`]s and of the RFC's own types. Results carry attributes as
//! RFC 1813 wants them: [`Seen`] with the object's attributes after the call, [`Changed`] with
//! `wcc_data`, taken before and after under the same lock as the change, so that a client may
//! trust them (section 2.6). Data goes out as a [`Payload`], without a copy.
//!
//! Limits: sizes in [`READ_BYTES_MAX`] and [`WRITE_BYTES_MAX`]; names in [`NAME_BYTES_MAX`].

pub mod directory;
pub mod memory;
pub mod null;
pub mod payload;
pub mod permission;

use wire::nfs3::{
    FSINFO3resok, FSSTAT3resok, LINK3wcc, PATHCONF3resok, RENAME3wcc, cookieverf3, createhow3,
    fattr3, nfsstat3, nfstime3, post_op_attr, properties, sattr3, specdata3, stable_how, wcc_attr,
    wcc_data, writeverf3,
};

use crate::{Caller, Handle};
pub use payload::{Chunk, Payload};

/// Largest READ answered, bytes (`rtmax`): Linux' default maximum.
pub const READ_BYTES_MAX: u32 = 1 << 20;
/// Largest WRITE taken, bytes (`wtmax`).
pub const WRITE_BYTES_MAX: u32 = 1 << 20;
/// Preferred size of a directory reply, bytes (`dtpref`).
pub const DIRECTORY_BYTES_PREFERRED: u32 = 64 << 10;
/// Longest name, bytes (Linux `NAME_MAX`).
pub const NAME_BYTES_MAX: usize = 255;
/// Longest symbolic link, bytes (Linux `PATH_MAX` with its terminator).
pub const LINK_BYTES_MAX: usize = 4095;
/// Largest offset plus count: what the Linux page cache can hold (`MAX_LFS_FILESIZE`).
pub const FILE_BYTES_MAX: u64 = i64::MAX as u64;

/// Result with the object's attributes after the call, if they are known.
pub type Seen<T> = Result<(T, post_op_attr), (nfsstat3, post_op_attr)>;
/// Result with attributes before and after.
pub type Changed<T> = Result<(T, wcc_data), (nfsstat3, wcc_data)>;

/// No attributes at all.
pub const NO_WCC: wcc_data = wcc_data {
    before: None,
    after: None,
};

/// `wcc_data` of the attributes before and after a change.
#[must_use]
pub fn wcc_of(before: Option<&fattr3>, after: post_op_attr) -> wcc_data {
    let before = before.map(|attributes| wcc_attr {
        size: attributes.size,
        mtime: attributes.mtime,
        ctime: attributes.ctime,
    });
    wcc_data { before, after }
}

/// A result, or why there is none, with the attributes that go with either.
pub fn with<T, A>(result: Result<T, nfsstat3>, attributes: A) -> Result<(T, A), (nfsstat3, A)> {
    match result {
        Ok(value) => Ok((value, attributes)),
        Err(status) => Err((status, attributes)),
    }
}

/// An object that was found or made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its handle.
    pub handle: Handle,
    /// Its attributes.
    pub attributes: fattr3,
}

/// What a READ gave besides the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadDone {
    /// Bytes in the payload.
    pub count: u32,
    /// True if the end of the file was reached.
    pub eof: bool,
}

/// What a WRITE did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteDone {
    /// Bytes taken.
    pub count: u32,
    /// How safe they are.
    pub committed: stable_how,
    /// The server's write verifier.
    pub verifier: writeverf3,
}

/// What a new object is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    /// A character device.
    CharacterDevice(specdata3),
    /// A block device.
    BlockDevice(specdata3),
    /// A socket.
    Socket,
    /// A named pipe.
    Fifo,
}

/// An entry of a directory. Attributes and handle are wanted by READDIRPLUS only.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// Inode number.
    pub fileid: u64,
    /// Name.
    pub name: &'a [u8],
    /// Where to go on behind this entry.
    pub cookie: u64,
    /// The object, if it was asked for and could be looked at.
    pub found: Option<Found>,
}

/// Takes the entries of a directory.
pub trait DirectorySink {
    /// Called once, before the entries.
    fn begin(&mut self, attributes: post_op_attr, verifier: cookieverf3);
    /// Takes an entry; false if it did not fit: the store stops.
    fn entry(&mut self, entry: &Entry<'_>) -> bool;
}

/// A name in a directory.
pub type Place<'a> = (&'a Handle, &'a [u8]);

/// Whether a listing reached the directory's end; or why there is none, and its attributes.
pub type Listed = Result<bool, (nfsstat3, post_op_attr)>;

/// Where to read a directory from.
#[derive(Clone, Copy, Debug)]
pub struct ListFrom {
    /// 0, or the cookie of the last entry that the client has.
    pub cookie: u64,
    /// Verifier that came with it.
    pub verifier: cookieverf3,
    /// True if entries are to carry the object (READDIRPLUS).
    pub with_objects: bool,
}

/// What results say about a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreDescription {
    /// Its kind: null, memory or directory.
    pub kind: &'static str,
    /// (name, value) of all that was set or found.
    pub settings: Vec<(&'static str, String)>,
}

/// Where the files of an export live: one method per NFSv3 procedure (RFC 1813 section 3.3).
///
/// Names are 1 to [`NAME_BYTES_MAX`] bytes without `/` and NUL; `.` and `..` reach
/// [`Store::lookup`] only (the protocol layer refuses the rest).
pub trait Store: Send + Sync {
    /// Kind and settings, for results.
    fn description(&self) -> StoreDescription;
    /// True if calls may wait for a device: they run on a worker thread then.
    fn may_block(&self) -> bool {
        false
    }
    /// True if changes of names and attributes wait for a device (they are stable at their reply).
    fn names_block(&self) -> bool {
        self.may_block()
    }
    /// The export's root directory.
    fn root(&self) -> Handle;
    /// Where an object (by its number) was last seen, from the root on; `None`: not known.
    fn path(&self, _object: u64) -> Option<Vec<u8>> {
        None
    }
    /// GETATTR.
    fn getattr(&self, object: &Handle) -> Result<fattr3, nfsstat3>;
    /// SETATTR, if `guard` is the object's ctime.
    fn setattr(
        &self,
        caller: &Caller,
        object: &Handle,
        new: &sattr3,
        guard: Option<nfstime3>,
    ) -> Changed<()>;
    /// LOOKUP; the attributes are the directory's.
    fn lookup(&self, caller: &Caller, at: Place<'_>) -> Seen<Found>;
    /// ACCESS: the bits of `asked` that the caller has.
    fn access(&self, caller: &Caller, object: &Handle, asked: u32) -> Seen<u32>;
    /// READLINK: appends the link's text.
    fn readlink(&self, caller: &Caller, link: &Handle, text: &mut Vec<u8>) -> Seen<()>;
    /// READ: adds to `payload` up to `count` bytes (at most [`READ_BYTES_MAX`]).
    fn read(
        &self,
        caller: &Caller,
        file: &Handle,
        offset: u64,
        count: u32,
        payload: &mut Payload,
    ) -> Seen<ReadDone>;
    /// WRITE.
    fn write(
        &self,
        caller: &Caller,
        file: &Handle,
        offset: u64,
        data: &[u8],
        stable: stable_how,
    ) -> Changed<WriteDone>;
    /// CREATE.
    fn create(&self, caller: &Caller, at: Place<'_>, how: &createhow3) -> Changed<Found>;
    /// MKDIR.
    fn mkdir(&self, caller: &Caller, at: Place<'_>, new: &sattr3) -> Changed<Found>;
    /// SYMLINK.
    fn symlink(&self, caller: &Caller, at: Place<'_>, new: &sattr3, text: &[u8]) -> Changed<Found>;
    /// MKNOD.
    fn mknod(
        &self,
        caller: &Caller,
        at: Place<'_>,
        new: &sattr3,
        special: Special,
    ) -> Changed<Found>;
    /// REMOVE.
    fn remove(&self, caller: &Caller, at: Place<'_>) -> Changed<()>;
    /// RMDIR.
    fn rmdir(&self, caller: &Caller, at: Place<'_>) -> Changed<()>;
    /// RENAME.
    fn rename(&self, caller: &Caller, from: Place<'_>, to: Place<'_>) -> (nfsstat3, RENAME3wcc);
    /// LINK.
    fn link(&self, caller: &Caller, file: &Handle, at: Place<'_>) -> (nfsstat3, LINK3wcc);
    /// READDIR and READDIRPLUS; true if the end was reached.
    fn list(
        &self,
        caller: &Caller,
        dir: &Handle,
        from: ListFrom,
        sink: &mut dyn DirectorySink,
    ) -> Listed;
    /// FSSTAT.
    fn fsstat(&self, object: &Handle) -> Result<FSSTAT3resok, nfsstat3>;
    /// PATHCONF.
    fn pathconf(&self, object: &Handle) -> Result<PATHCONF3resok, nfsstat3> {
        Ok(usual_pathconf(self.getattr(object)?))
    }
    /// FSINFO.
    fn fsinfo(&self, object: &Handle) -> Result<FSINFO3resok, nfsstat3> {
        Ok(usual_fsinfo(self.getattr(object)?))
    }
    /// COMMIT.
    fn commit(
        &self,
        caller: &Caller,
        file: &Handle,
        offset: u64,
        count: u32,
    ) -> Changed<writeverf3>;
}

/// FSINFO of a store on a Linux file system.
#[must_use]
pub fn usual_fsinfo(attributes: fattr3) -> FSINFO3resok {
    FSINFO3resok {
        obj_attributes: Some(attributes),
        rtmax: READ_BYTES_MAX,
        rtpref: READ_BYTES_MAX,
        rtmult: 4096,
        wtmax: WRITE_BYTES_MAX,
        wtpref: WRITE_BYTES_MAX,
        wtmult: 4096,
        dtpref: DIRECTORY_BYTES_PREFERRED,
        maxfilesize: FILE_BYTES_MAX,
        time_delta: nfstime3 {
            seconds: 0,
            nseconds: 1,
        },
        properties: properties::FSF3_LINK
            | properties::FSF3_SYMLINK
            | properties::FSF3_HOMOGENEOUS
            | properties::FSF3_CANSETTIME,
    }
}

/// PATHCONF of a store on a Linux file system.
#[must_use]
pub fn usual_pathconf(attributes: fattr3) -> PATHCONF3resok {
    PATHCONF3resok {
        obj_attributes: Some(attributes),
        linkmax: memory::LINKS_MAX,
        name_max: NAME_BYTES_MAX as u32,
        no_trunc: true,
        chown_restricted: true,
        case_insensitive: false,
        case_preserving: true,
    }
}

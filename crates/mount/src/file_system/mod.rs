//! The file system as the kernel asks for it: one short function for each request, which hands the
//! work to the file of its kind and returns. No request waits for another: replies are sent by the
//! continuations of calls, in the client's thread.

mod directories;
mod entries;
mod metadata;
mod opening;
mod reading;
mod removal;
mod writing;

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use fuser::{
    AccessFlags, BsdFileFlags, FileHandle, Filesystem, INodeNo, InitFlags, KernelConfig, LockOwner,
    OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus,
    ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, TimeOrNow, WriteFlags,
};

use self::writing::SyncRequest;
use crate::shared::Shared;

pub(crate) use metadata::Changes;

/// Largest request of the kernel: what it takes without a change of its settings (256 pages).
const MAX_REQUEST_BYTES: u32 = 1 << 20;
/// Requests that the kernel makes ahead (read-ahead, writing of mapped pages).
const MAX_BACKGROUND: u16 = 64;

/// Replies with an error and returns, if there is one.
macro_rules! or_reply {
    ($result:expr, $reply:expr) => {
        match $result {
            Ok(value) => value,
            Err(error) => return $reply.error(error),
        }
    };
}
pub(crate) use or_reply;

/// A mounted file system.
pub(crate) struct FileSystem(pub Arc<Shared>);

impl Filesystem for FileSystem {
    fn init(&mut self, _req: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let options = &self.0.options;
        let mut wanted = InitFlags::FUSE_PARALLEL_DIROPS | InitFlags::FUSE_ASYNC_DIO;
        // Set-user-id bits of a file that is written are the server's to clear. The kernel would
        // ask for it as the writer, who may not change modes, and refuse the write.
        wanted |= InitFlags::FUSE_HANDLE_KILLPRIV;
        if options.readdirplus {
            wanted |= InitFlags::FUSE_DO_READDIRPLUS | InitFlags::FUSE_READDIRPLUS_AUTO;
        }
        if !options.attribute_cache {
            // Each read then asks for the attributes first, and drops pages that are void.
            wanted |= InitFlags::FUSE_AUTO_INVAL_DATA;
        }
        let there = config.capabilities();
        let _ = config.add_capabilities(wanted & there);
        if options.writeback {
            // A run that asked for it must not go on without it (Linux has it since 3.15).
            let refused = |_| io::Error::other("the kernel has no FUSE_WRITEBACK_CACHE");
            config
                .add_capabilities(InitFlags::FUSE_WRITEBACK_CACHE)
                .map_err(refused)?;
        }
        let _ = config.set_max_write(MAX_REQUEST_BYTES);
        let _ = config.set_max_background(MAX_BACKGROUND);
        Ok(())
    }

    fn lookup(&self, req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let reply = self.0.waiting.hold(req, reply);
        self.0.lookup(req, (parent, name), reply);
    }

    fn forget(&self, _req: &Request, ino: INodeNo, nlookup: u64) {
        self.0.inodes().forget(ino.0, nlookup);
    }

    fn getattr(&self, req: &Request, ino: INodeNo, fh: Option<FileHandle>, reply: ReplyAttr) {
        let reply = self.0.waiting.hold(req, reply);
        self.0.getattr(req, ino, fh, reply);
    }

    fn setattr(
        &self,
        req: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let reply = self.0.waiting.hold(req, reply);
        if let (Some(number), Some(TimeOrNow::SpecificTime(mtime))) = (fh, mtime)
            && self.0.options.writeback
            && (mode, uid, gid, size, atime) == (None, None, None, None, None)
        {
            // An open file's time of change and nothing else: no system call says this.
            return self.0.take_kernels_mtime(ino, number, mtime, reply);
        }
        let changes = Changes {
            mode,
            uid,
            gid,
            size,
            atime,
            mtime,
        };
        self.0.setattr(req, ino, &changes, fh, reply);
    }

    fn readlink(&self, req: &Request, ino: INodeNo, reply: ReplyData) {
        let reply = self.0.waiting.hold(req, reply);
        self.0.readlink(req, ino, reply);
    }

    fn mknod(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        let reply = self.0.waiting.hold(req, reply);
        self.0.mknod(req, (parent, name), mode, rdev, reply);
    }

    fn mkdir(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        reply: ReplyEntry,
    ) {
        let reply = self.0.waiting.hold(req, reply);
        self.0.mkdir(req, (parent, name), mode, reply);
    }

    fn unlink(&self, req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let reply = self.0.waiting.hold(req, reply);
        self.0.unlink(req, (parent, name), reply);
    }

    fn rmdir(&self, req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let reply = self.0.waiting.hold(req, reply);
        self.0.rmdir(req, (parent, name), reply);
    }

    fn symlink(
        &self,
        req: &Request,
        parent: INodeNo,
        link_name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let reply = self.0.waiting.hold(req, reply);
        let text = target.as_os_str().as_bytes();
        self.0.symlink(req, (parent, link_name), text, reply);
    }

    fn rename(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let reply = self.0.waiting.hold(req, reply);
        // NFSv3 cannot do them atomically; Linux's client says the same.
        if !flags.is_empty() {
            return reply.error(fuser::Errno::EINVAL);
        }
        self.0
            .rename(req, (parent, name), (newparent, newname), reply);
    }

    fn link(
        &self,
        req: &Request,
        ino: INodeNo,
        newparent: INodeNo,
        newname: &OsStr,
        reply: ReplyEntry,
    ) {
        let reply = self.0.waiting.hold(req, reply);
        self.0.link(req, ino, (newparent, newname), reply);
    }

    fn open(&self, req: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let reply = self.0.waiting.hold(req, reply);
        self.0.open(req, ino, flags, reply);
    }

    fn create(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let reply = self.0.waiting.hold(req, reply);
        self.0.create(req, (parent, name), mode, flags, reply);
    }

    fn read(
        &self,
        req: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let reply = self.0.waiting.hold(req, reply);
        self.0.read(fh, offset, size, reply);
    }

    fn write(
        &self,
        req: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let reply = self.0.waiting.hold(req, reply);
        self.0.write(fh, offset, data, flags, reply);
    }

    fn flush(
        &self,
        req: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        _lock_owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        let reply = self.0.waiting.hold(req, reply);
        self.0.sync(fh, SyncRequest::Close, reply);
    }

    fn fsync(
        &self,
        req: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        datasync: bool,
        reply: ReplyEmpty,
    ) {
        let reply = self.0.waiting.hold(req, reply);
        let asked = if datasync {
            SyncRequest::Data
        } else {
            SyncRequest::All
        };
        self.0.sync(fh, asked, reply);
    }

    fn release(
        &self,
        _req: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        self.0.release(fh, reply);
    }

    fn opendir(&self, req: &Request, ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        self.0.opendir(req, ino, reply);
    }

    fn readdir(
        &self,
        req: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        reply: ReplyDirectory,
    ) {
        let reply = self.0.waiting.hold(req, reply);
        self.0.readdir(fh, offset, reply);
    }

    fn readdirplus(
        &self,
        req: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        reply: ReplyDirectoryPlus,
    ) {
        let reply = self.0.waiting.hold(req, reply);
        self.0.readdirplus(fh, offset, reply);
    }

    fn releasedir(
        &self,
        _req: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        _flags: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.0.directories.remove(fh.0);
        reply.ok();
    }

    fn fsyncdir(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _datasync: bool,
        reply: ReplyEmpty,
    ) {
        // RFC 1813 4.8: a server has changes of directories on stable storage when it answers.
        reply.ok();
    }

    fn statfs(&self, req: &Request, ino: INodeNo, reply: ReplyStatfs) {
        let reply = self.0.waiting.hold(req, reply);
        self.0.statfs(req, ino, reply);
    }

    fn access(&self, req: &Request, ino: INodeNo, mask: AccessFlags, reply: ReplyEmpty) {
        let reply = self.0.waiting.hold(req, reply);
        self.0.access(req, ino, mask, reply);
    }
}

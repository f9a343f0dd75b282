//! Attributes, links' texts, space.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use client::nfs3::{Access, FileHandle as NfsHandle, FsStat, GetAttr, ReadLink, SetAttr};
use client::{CallError, Caller, File};
use fuser::{AccessFlags, Errno, FileHandle, INodeNo, Request, TimeOrNow};
use measure::{Clock, MonotonicClock};
use wire::nfs3::{
    ACCESS3args, FSSTAT3args, GETATTR3args, READLINK3args, Res, SETATTR3args, access, fattr3,
    ftype3, nfsstat3, nfstime3, sattr3, set_time,
};

use super::entries::Found;
use super::or_reply;
use crate::inodes::Inode;
use crate::shared::Shared;
use crate::waiting::{ReplyAttr, ReplyData, ReplyEmpty, ReplyStatfs};

/// What comes after something that had to be waited for.
type Next = Box<dyn FnOnce(&Arc<Shared>) + Send>;
/// The same of a sync.
pub(super) type Settled = Box<dyn FnOnce(Result<(), CallError>) + Send>;

/// So often the size of a file is asked for after a write before what was gathered is sent: from
/// then on the kernel can keep what it is told. (One that is being extended is asked for its size
/// before each write, and its data are better gathered.)
const SIZES_BEFORE_SENDING: u32 = 4;
/// Block of statfs(2).
const BLOCK_BYTES: u32 = 4096;

/// Attributes to be set.
pub(crate) struct Changes {
    pub mode: Option<u32>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub size: Option<u64>,
    pub atime: Option<TimeOrNow>,
    pub mtime: Option<TimeOrNow>,
}

impl Changes {
    fn as_sattr(&self) -> sattr3 {
        sattr3 {
            mode: self.mode.map(|mode| mode & 0o7777),
            uid: self.uid,
            gid: self.gid,
            size: self.size,
            atime: as_time(self.atime),
            mtime: as_time(self.mtime),
        }
    }
}

fn as_time(time: Option<TimeOrNow>) -> set_time {
    match time {
        None => set_time::DONT_CHANGE,
        Some(TimeOrNow::Now) => set_time::SET_TO_SERVER_TIME,
        Some(TimeOrNow::SpecificTime(time)) => set_time::SET_TO_CLIENT_TIME(nfs_time(time)),
    }
}

/// NFSv3's times go from 1970 to 2106; others become the nearest (as Linux: `s_time_min`).
pub(super) fn nfs_time(time: SystemTime) -> nfstime3 {
    let (seconds, nseconds) = match time.duration_since(UNIX_EPOCH) {
        Ok(since) => match u32::try_from(since.as_secs()) {
            Ok(seconds) => (seconds, since.subsec_nanos()),
            Err(_) => (u32::MAX, 0),
        },
        Err(_) => (0, 0),
    };
    nfstime3 { seconds, nseconds }
}

impl Shared {
    /// Asks for an object's attributes.
    pub(super) fn ask_attributes(
        self: &Arc<Self>,
        caller: &Caller,
        handle: NfsHandle,
        then: impl FnOnce(&Arc<Self>, Result<Found, Errno>) + Send + 'static,
    ) {
        let object = handle.as_fh();
        self.ask::<GetAttr>(
            caller,
            &GETATTR3args { object },
            move |shared, result, sent_ns| {
                let found = shared.done(result).map(|found| {
                    shared.learn(&handle, &found.obj_attributes, sent_ns);
                    Found {
                        handle,
                        attributes: found.obj_attributes,
                        sent_ns,
                    }
                });
                then(shared, found);
            },
        );
    }

    /// Goes on when the server has answered all that was written to a file before, so that its
    /// attributes are those of the written data (as Linux does for stat(2)).
    fn when_answered(self: &Arc<Self>, mut files: Vec<Arc<File>>, then: Next) {
        match files.pop() {
            None => then(self),
            Some(file) => {
                let shared = Arc::clone(self);
                file.answered_then(move |_| shared.when_answered(files, then));
            }
        }
    }

    pub fn getattr(
        self: &Arc<Self>,
        request: &Request,
        ino: INodeNo,
        open: Option<FileHandle>,
        reply: ReplyAttr,
    ) {
        self.attributes_asked.fetch_add(1, Ordering::Relaxed);
        let inode = or_reply!(self.inode(ino), reply);
        // For an open file the kernel wants the size alone (fuse_file_llseek, SEEK_END), which is
        // known here, as Linux knows it (nfs_revalidate_file_size): nothing has to be sent first.
        // The times are those before the writes, so the kernel is to keep nothing of it, and asks
        // again: database servers ask for sizes all the time. So the data go out after a few
        // questions, and once they are answered, the answer holds as any other.
        let now_ns = MonotonicClock.now_ns();
        let files = inode.files();
        if open.is_some()
            && !files.iter().all(|file| file.is_answered())
            && let Some((kept, sent_ns)) = self.kept_attributes(&inode, now_ns)
        {
            if self.options.writeback {
                // Size and times are the kernel's.
                return self.reply_attributes(&inode, &kept, sent_ns, reply);
            }
            reply.attr(&Duration::ZERO, &self.file_attr(&inode, &kept, sent_ns));
            let mut state = inode.state();
            state.sizes_asked = state.sizes_asked.saturating_add(1);
            if state.sizes_asked == SIZES_BEFORE_SENDING {
                drop(state);
                files.iter().for_each(|file| file.push());
            }
            return;
        }
        let caller = self.caller(request);
        self.when_answered(
            files,
            Box::new(move |shared| {
                let now_ns = MonotonicClock.now_ns();
                if let Some((kept, sent_ns)) = shared.kept_attributes(&inode, now_ns) {
                    return shared.reply_attributes(&inode, &kept, sent_ns, reply);
                }
                shared.reply_new_attributes(&caller, &inode, reply);
            }),
        );
    }

    /// Attributes that are still believed, and when the call for them was sent.
    fn kept_attributes(&self, inode: &Inode, now_ns: u64) -> Option<(fattr3, u64)> {
        let cache = self.cache();
        let kept = *cache.get(&inode.handle, now_ns)?;
        Some((kept, cache.sent_ns(&inode.handle)?))
    }

    /// Replies with attributes; has pages dropped that they say are void.
    fn reply_attributes(&self, inode: &Inode, found: &fattr3, sent_ns: u64, reply: ReplyAttr) {
        let attr = self.file_attr(inode, found, sent_ns);
        reply.attr(&self.believed(&inode.handle), &attr);
        let is_file = inode.kind == ftype3::NF3REG;
        if is_file && inode.state().pages_version.is_some() && !self.pages_hold(inode) {
            self.drop_pages(inode.ino, || {});
        }
    }

    pub fn setattr(
        self: &Arc<Self>,
        request: &Request,
        ino: INodeNo,
        changes: &Changes,
        open: Option<FileHandle>,
        reply: ReplyAttr,
    ) {
        let inode = or_reply!(self.inode(ino), reply);
        let limit = self.max_file_bytes;
        if changes.size.is_some_and(|size| limit != 0 && size > limit) {
            return reply.error(Errno::EFBIG);
        }
        // ftruncate(2) is allowed to whoever opened the file for writing.
        let opener = open
            .and_then(|number| self.files.get(number.0))
            .filter(|file| changes.size.is_some() && file.writes);
        let caller = opener.map_or_else(|| self.caller(request), |file| file.caller.clone());
        let new_attributes = changes.as_sattr();
        // What was written before must not change the times, or the size, afterwards.
        self.when_settled(inode.files(), move |shared| {
            if reply.is_awaited() {
                shared.set_attributes(&caller, &inode, new_attributes, reply);
            }
        });
    }

    /// Goes on when all that was written to these files is on stable storage; an error is left for
    /// fsync and close.
    pub(super) fn when_settled(
        self: &Arc<Self>,
        mut files: Vec<Arc<File>>,
        then: impl FnOnce(&Arc<Self>) + Send + 'static,
    ) {
        match files.pop() {
            None => then(self),
            Some(file) if file.is_settled() => self.when_settled_boxed(files, Box::new(then)),
            Some(file) => {
                let shared = Arc::clone(self);
                file.settle_then(move |_| shared.when_settled_boxed(files, Box::new(then)));
            }
        }
    }

    fn when_settled_boxed(self: &Arc<Self>, files: Vec<Arc<File>>, then: Next) {
        if files.is_empty() {
            then(self);
        } else {
            self.when_settled(files, then);
        }
    }

    fn set_attributes(
        self: &Arc<Self>,
        caller: &Caller,
        inode: &Arc<Inode>,
        new_attributes: sattr3,
        reply: ReplyAttr,
    ) {
        let (size, mtime) = (new_attributes.size, new_attributes.mtime);
        let arguments = SETATTR3args {
            object: inode.handle.as_fh(),
            new_attributes,
            guard: None,
        };
        let (about, who) = (Arc::clone(inode), caller.clone());
        self.ask::<SetAttr>(
            caller,
            &arguments,
            move |shared, result, sent_ns| match result {
                Ok(Res::Ok(wcc)) => {
                    shared.learn_wcc(&about.handle, &wcc, sent_ns);
                    if let Some(size) = size {
                        about.truncated(size);
                    }
                    if shared.options.writeback {
                        match mtime {
                            set_time::SET_TO_CLIENT_TIME(mtime) => about.state().mtime = mtime,
                            _ if size.is_some() => about.took(&who, None),
                            _ => {}
                        }
                    }
                    match wcc.after {
                        Some(after) => shared.reply_attributes(&about, &after, sent_ns, reply),
                        None => shared.reply_new_attributes(&who, &about, reply),
                    }
                }
                Ok(Res::Fail(status, wcc)) => {
                    shared.learn_wcc(&about.handle, &wcc, sent_ns);
                    reply.error(shared.errno(&CallError::Nfs(status)));
                }
                Err(error) => reply.error(shared.errno(&error)),
            },
        );
    }

    /// `writeback`: when the kernel last took data for a file, told before it has a sync or a close
    /// go out. The server is told then ([`Shared::settle_with_mtime`]), behind the data, whose
    /// WRITEs change the time again; fdatasync(2) need not wait for that.
    pub fn take_kernels_mtime(
        self: &Arc<Self>,
        ino: INodeNo,
        number: FileHandle,
        mtime: SystemTime,
        reply: ReplyAttr,
    ) {
        let inode = or_reply!(self.inode(ino), reply);
        let open = or_reply!(self.files.get(number.0).ok_or(Errno::EBADF), reply);
        inode.took(&open.caller, Some(nfs_time(mtime)));
        let kept = self.cache().last_seen(&inode.handle).copied();
        match kept {
            Some(kept) => reply.attr(&Duration::ZERO, &self.file_attr(&inode, &kept, 0)),
            None => self.reply_new_attributes(&open.caller, &inode, reply),
        }
    }

    /// Tells the server the kernel's time of a file's last change, where it has one. Only the owner
    /// may: of others the time that the WRITEs left stays.
    pub(super) fn tell_mtime(self: &Arc<Self>, inode: &Arc<Inode>, then: Settled) {
        let (untold, mtime) = {
            let mut state = inode.state();
            (state.untold.take(), state.mtime)
        };
        let Some(caller) = untold else {
            return then(Ok(()));
        };
        let arguments = SETATTR3args {
            object: inode.handle.as_fh(),
            new_attributes: sattr3 {
                mtime: set_time::SET_TO_CLIENT_TIME(mtime),
                ..sattr3::UNCHANGED
            },
            guard: None,
        };
        let about = Arc::clone(inode);
        self.ask::<SetAttr>(&caller, &arguments, move |shared, result, sent_ns| {
            let (wcc, told) = match result {
                Ok(Res::Ok(wcc)) => (wcc, Ok(())),
                Ok(Res::Fail(nfsstat3::NFS3ERR_PERM | nfsstat3::NFS3ERR_ACCES, wcc)) => {
                    (wcc, Ok(()))
                }
                Ok(Res::Fail(status, wcc)) => (wcc, Err(CallError::Nfs(status))),
                Err(error) => return then(Err(error)),
            };
            shared.learn_wcc(&about.handle, &wcc, sent_ns);
            about.state().wrote = true; // the change is ours: the pages hold
            shared.settled(&about);
            then(told);
        });
    }

    /// Asks the server, then replies.
    fn reply_new_attributes(self: &Arc<Self>, caller: &Caller, of: &Arc<Inode>, reply: ReplyAttr) {
        let about = Arc::clone(of);
        self.ask_attributes(caller, of.handle, move |shared, found| match found {
            Ok(found) => shared.reply_attributes(&about, &found.attributes, found.sent_ns, reply),
            Err(errno) => reply.error(errno),
        });
    }

    pub fn readlink(self: &Arc<Self>, request: &Request, ino: INodeNo, reply: ReplyData) {
        let inode = or_reply!(self.inode(ino), reply);
        let handle = inode.handle;
        let arguments = READLINK3args {
            symlink: handle.as_fh(),
        };
        let caller = self.caller(request);
        self.ask::<ReadLink>(&caller, &arguments, move |shared, result, sent_ns| {
            let link = or_reply!(shared.done(result), reply);
            shared.learn_some(&handle, &link.symlink_attributes, sent_ns);
            reply.data(link.data.0);
        });
    }

    pub fn statfs(self: &Arc<Self>, request: &Request, ino: INodeNo, reply: ReplyStatfs) {
        let inode = or_reply!(self.inode(ino), reply);
        let arguments = FSSTAT3args {
            fsroot: inode.handle.as_fh(),
        };
        let caller = self.caller(request);
        self.ask::<FsStat>(&caller, &arguments, move |shared, result, _| {
            let space = or_reply!(shared.done(result), reply);
            let Some(reply) = reply.take() else {
                return;
            };
            let blocks = |bytes: u64| bytes / u64::from(BLOCK_BYTES);
            reply.statfs(
                blocks(space.tbytes),
                blocks(space.fbytes),
                blocks(space.abytes),
                space.tfiles,
                space.ffiles,
                BLOCK_BYTES,
                shared.name_max,
                BLOCK_BYTES,
            );
        });
    }

    /// access(2), where the kernel does not decide by itself.
    pub fn access(
        self: &Arc<Self>,
        request: &Request,
        ino: INodeNo,
        mask: AccessFlags,
        reply: ReplyEmpty,
    ) {
        let inode = or_reply!(self.inode(ino), reply);
        let wanted = wanted(mask, inode.kind);
        let arguments = ACCESS3args {
            object: inode.handle.as_fh(),
            access: wanted,
        };
        let caller = self.caller(request);
        self.ask::<Access>(&caller, &arguments, move |shared, result, _| {
            match shared.done(result) {
                Ok(granted) if granted.access & wanted == wanted => reply.ok(),
                Ok(_) => reply.error(Errno::EACCES),
                Err(errno) => reply.error(errno),
            }
        });
    }
}

/// ACCESS's bits for access(2)'s.
fn wanted(mask: AccessFlags, kind: ftype3) -> u32 {
    let bit = |flag, bits| if mask.contains(flag) { bits } else { 0 };
    let (write, execute) = if kind == ftype3::NF3DIR {
        (
            access::MODIFY | access::EXTEND | access::DELETE,
            access::LOOKUP,
        )
    } else {
        (access::MODIFY | access::EXTEND, access::EXECUTE)
    };
    bit(AccessFlags::R_OK, access::READ)
        | bit(AccessFlags::W_OK, write)
        | bit(AccessFlags::X_OK, execute)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn times_that_nfs_cannot_say_become_the_nearest() {
        let at = |seconds, nseconds| nfstime3 { seconds, nseconds };
        let second = Duration::from_secs(1);
        assert_eq!(nfs_time(UNIX_EPOCH - second), at(0, 0));
        assert_eq!(nfs_time(UNIX_EPOCH + Duration::new(5, 7)), at(5, 7));
        let far = UNIX_EPOCH + Duration::from_secs(1 << 33);
        assert_eq!(nfs_time(far), at(u32::MAX, 0));
    }
}

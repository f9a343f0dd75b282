//! Removing and renaming, and what becomes of files that are open meanwhile.
//!
//! NFSv3 servers know no open files: a removed one is gone. So a file that is open here is renamed
//! instead, to `.nfs` and a number, as Linux does ("silly rename"), and removed at its last close.
//! A client that is killed leaves it behind.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use client::nfs3::{FileHandle, Remove, Rename, RmDir};
use client::{CallError, Caller};
use fuser::{Errno, Request};
use wire::nfs3::{
    REMOVE3args, RENAME3args, RENAME3res, RMDIR3args, Res, diropargs3, filename3, wcc_data,
};

use super::entries::{WithFound, named};
use super::or_reply;
use crate::inodes::{Inode, Name, Place};
use crate::shared::Shared;
use crate::waiting::ReplyEmpty;

/// Names tried before a silly rename gives up.
const MAX_SILLY_NAMES: u32 = 64;

type WithErrno = Box<dyn FnOnce(&Arc<Shared>, Result<(), Errno>) + Send>;

impl Shared {
    pub fn unlink(self: &Arc<Self>, request: &Request, name: Name<'_>, reply: ReplyEmpty) {
        let (directory, place) = or_reply!(self.at(name), reply);
        let caller = self.caller(request);
        let target = self.inodes().named(&place);
        if let Some(target) = target {
            let state = target.state();
            if state.opens > 0 {
                let already = state.silly.is_some();
                drop(state);
                if already {
                    return reply.error(Errno::EBUSY);
                }
                let then: WithErrno = Box::new(move |_, result| answer(result, reply));
                return self.silly_rename(&caller, &directory, place, &target, 0, then);
            }
            drop(state);
            self.cache().expire(&target.handle); // its links and ctime change
        }
        let arguments = REMOVE3args {
            object: named(&directory, &place),
        };
        let (under, gone) = (Arc::clone(&directory), place.clone());
        self.ask::<Remove>(&caller, &arguments, move |shared, result, sent_ns| {
            let result = shared.take_removal(&under, result, sent_ns);
            if result.is_ok() {
                shared.inodes().remove_name(&gone);
            }
            answer(result, reply);
        });
    }

    pub fn rmdir(self: &Arc<Self>, request: &Request, name: Name<'_>, reply: ReplyEmpty) {
        let (directory, place) = or_reply!(self.at(name), reply);
        let caller = self.caller(request);
        let arguments = RMDIR3args {
            object: named(&directory, &place),
        };
        let (under, gone) = (Arc::clone(&directory), place.clone());
        self.ask::<RmDir>(&caller, &arguments, move |shared, result, sent_ns| {
            let result = shared.take_removal(&under, result, sent_ns);
            if result.is_ok() {
                let inode = shared.inodes().remove_name(&gone);
                if let Some(inode) = inode {
                    shared.cache().forget(&inode.handle);
                }
            }
            answer(result, reply);
        });
    }

    fn take_removal(
        &self,
        directory: &Inode,
        result: Result<Res<wcc_data, wcc_data>, CallError>,
        sent_ns: u64,
    ) -> Result<(), Errno> {
        directory.changed();
        if let Ok(Res::Ok(wcc) | Res::Fail(_, wcc)) = &result {
            self.learn_wcc(&directory.handle, wcc, sent_ns);
        }
        self.done(result).map(|_| ())
    }

    pub fn rename(
        self: &Arc<Self>,
        request: &Request,
        from: Name<'_>,
        to: Name<'_>,
        reply: ReplyEmpty,
    ) {
        let (from_directory, from_place) = or_reply!(self.at(from), reply);
        let (to_directory, to_place) = or_reply!(self.at(to), reply);
        let caller = self.caller(request);
        let (moved, target) = {
            let inodes = self.inodes();
            (inodes.named(&from_place), inodes.named(&to_place))
        };
        let same = |a: &Arc<Inode>| moved.as_ref().is_some_and(|b| Arc::ptr_eq(a, b));
        let target = target.filter(|target| !same(target));
        for inode in moved.iter().chain(target.iter()) {
            self.cache().expire(&inode.handle); // ctime, and links of what is replaced
        }
        let open = target.filter(|target| target.state().opens > 0);
        let who = caller.clone();
        let goes_on = {
            let to_directory = Arc::clone(&to_directory);
            let to_place = to_place.clone();
            move |shared: &Arc<Shared>| {
                if !reply.is_awaited() {
                    return;
                }
                let ends: WithErrno = Box::new(move |_, result| answer(result, reply));
                let (from, to) = ((from_directory, from_place), (to_directory, to_place));
                shared.rename_now(&who, from, to, ends);
            }
        };
        let Some(open) = open else {
            return goes_on(self);
        };
        // Its open files outlive the name.
        let then: WithErrno = Box::new(move |shared, _| goes_on(shared));
        self.silly_rename(&caller, &to_directory, to_place, &open, 0, then);
    }

    fn rename_now(
        self: &Arc<Self>,
        caller: &Caller,
        from: (Arc<Inode>, Place),
        to: (Arc<Inode>, Place),
        then: WithErrno,
    ) {
        let arguments = RENAME3args {
            from: named(&from.0, &from.1),
            to: named(&to.0, &to.1),
        };
        to.0.may_get(&to.1.1);
        let (from_known, to_known) = (from.clone(), to.clone());
        self.ask::<Rename>(caller, &arguments, move |shared, result, sent_ns| {
            let (from, to) = (&from_known, &to_known);
            let result = shared.take_rename(&from.0, &to.0, result, sent_ns);
            if result.is_ok() {
                shared.inodes().rename(&from.1, to.1.clone());
            }
            then(shared, result);
        });
    }

    fn take_rename(
        &self,
        from: &Inode,
        to: &Inode,
        result: Result<RENAME3res, CallError>,
        sent_ns: u64,
    ) -> Result<(), Errno> {
        from.changed();
        to.changed();
        if let Ok(Res::Ok(wcc) | Res::Fail(_, wcc)) = &result {
            self.learn_wcc(&from.handle, &wcc.fromdir_wcc, sent_ns);
            self.learn_wcc(&to.handle, &wcc.todir_wcc, sent_ns);
        }
        self.done(result).map(|_| ())
    }

    /// Gives an open file a name that nobody uses, until it is closed.
    fn silly_rename(
        self: &Arc<Self>,
        caller: &Caller,
        directory: &Arc<Inode>,
        place: Place,
        target: &Arc<Inode>,
        tried: u32,
        then: WithErrno,
    ) {
        let number = self.silly_names.fetch_add(1, Ordering::Relaxed);
        let name = format!(".nfs{:016x}{:08x}", target.fileid, number & 0xffff_ffff);
        let hidden: Place = (directory.ino, name.into_bytes().into());
        let (who, under) = (caller.clone(), Arc::clone(directory));
        let (kept, chosen) = (Arc::clone(target), hidden.clone());
        // RENAME replaces what is there: the name has to be free.
        let found: WithFound = Box::new(move |shared, found| match found {
            Ok(_) if tried < MAX_SILLY_NAMES => {
                shared.silly_rename(&who, &under, place, &kept, tried + 1, then);
            }
            Ok(_) => then(shared, Err(Errno::EBUSY)),
            Err(Errno::ENOENT) => {
                let (from, to) = ((Arc::clone(&under), place), (under, chosen));
                shared.hide(&who, from, to, kept, then);
            }
            Err(errno) => then(shared, Err(errno)),
        });
        self.find(caller, directory, &hidden, found);
    }

    fn hide(
        self: &Arc<Self>,
        caller: &Caller,
        from: (Arc<Inode>, Place),
        to: (Arc<Inode>, Place),
        target: Arc<Inode>,
        then: WithErrno,
    ) {
        let (directory, name) = (to.0.handle, to.1.1.clone());
        let who = caller.clone();
        let hidden: WithErrno = Box::new(move |shared, result| {
            if result.is_ok() {
                let mut state = target.state();
                if state.opens > 0 {
                    state.silly = Some((directory, name));
                } else {
                    drop(state);
                    shared.remove_silly(&who, &directory, &name); // closed meanwhile
                }
            }
            then(shared, result);
        });
        self.rename_now(caller, from, to, hidden);
    }

    /// The last close of a removed file.
    pub(super) fn remove_silly(
        self: &Arc<Self>,
        caller: &Caller,
        directory: &FileHandle,
        name: &[u8],
    ) {
        let arguments = REMOVE3args {
            object: diropargs3 {
                dir: directory.as_fh(),
                name: filename3(name),
            },
        };
        let parent = *directory;
        self.ask::<Remove>(caller, &arguments, move |shared, result, sent_ns| {
            // Nobody waits for it; a name that stays is what Linux's client leaves, too.
            if let Ok(Res::Ok(wcc) | Res::Fail(_, wcc)) = result {
                shared.learn_wcc(&parent, &wcc, sent_ns);
            }
        });
    }
}

fn answer(result: Result<(), Errno>, reply: ReplyEmpty) {
    match result {
        Ok(()) => reply.ok(),
        Err(errno) => reply.error(errno),
    }
}

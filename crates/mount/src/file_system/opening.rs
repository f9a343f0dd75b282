//! Opening, creating and closing of files: close-to-open consistency (nfs(5)).
//!
//! An open asks the server, by ACCESS, for permission and attributes in one call. If the attributes
//! say that somebody else changed the data, the kernel drops its pages; else it keeps them. A close
//! has all data on stable storage before it returns, and reports their errors.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

use client::nfs3::{Access, Create};
use client::{CallError, Caller, File};
use fuser::{Errno, FileHandle, FopenFlags, Generation, INodeNo, OpenFlags, ReplyEmpty, Request};
use measure::{Clock, MonotonicClock};
use wire::nfs3::{
    ACCESS3args, CREATE3args, Res, access, createhow3, fattr3, ftype3, nfsstat3, nfstime3, sattr3,
    set_time,
};

use super::entries::{Found, WithFound, named, with_mode};
use super::metadata::nfs_time;
use super::or_reply;
use crate::inodes::{Inode, Name, Place};
use crate::open_files::OpenFile;
use crate::shared::Shared;
use crate::waiting::{ReplyCreate, ReplyOpen};

/// `__FMODE_EXEC` (linux/fs.h): opened to be run.
const OPEN_TO_RUN: i32 = 0x20;

/// Whether an open may write.
fn writes(flags: i32) -> bool {
    flags & libc::O_ACCMODE != libc::O_RDONLY
}

/// ACCESS's bits that an open asks for; one of each group is enough. With `writeback` who writes
/// has to read, too: the kernel fills up pages that are written in part.
fn wanted(flags: i32, writeback: bool) -> [u32; 2] {
    let reads = access::READ | access::EXECUTE;
    match flags & libc::O_ACCMODE {
        libc::O_RDONLY if flags & OPEN_TO_RUN != 0 => [reads, 0],
        libc::O_RDONLY => [access::READ, 0],
        libc::O_WRONLY if !writeback => [access::MODIFY | access::EXTEND, 0],
        _ => [access::READ, access::MODIFY | access::EXTEND],
    }
}

fn grants(granted: u32, wanted: [u32; 2]) -> bool {
    let groups = wanted.iter().filter(|group| **group != 0);
    groups.into_iter().all(|group| granted & group != 0)
}

impl Shared {
    /// The data path of a file for a caller; one more open file uses it.
    fn data_path(&self, inode: &Inode, caller: &Caller, writes: bool) -> Arc<File> {
        let mut state = inode.state();
        state.opens += 1;
        if writes {
            self.writers.fetch_add(1, Ordering::Relaxed);
        }
        let shares = self.options.writeback && writes;
        let writing = state.writing.clone().filter(|_| shares);
        let mut paths = state.files.iter_mut();
        let known = paths.find(|(who, file, _)| match &writing {
            Some(writing) => Arc::ptr_eq(file, writing),
            None => who == caller,
        });
        if let Some((_, file, opens)) = known {
            *opens += 1;
            let file = Arc::clone(file);
            state.writing = state.writing.take().or(shares.then(|| Arc::clone(&file)));
            return file;
        }
        let file = Arc::new(File::new(
            Arc::clone(&self.client),
            inode.handle,
            Some(caller.clone()),
            &self.options,
            Some(Arc::clone(&self.attributes)),
        ));
        state.files.push((caller.clone(), Arc::clone(&file), 1));
        if shares {
            state.writing = Some(Arc::clone(&file));
        }
        file
    }

    fn opened(&self, inode: &Arc<Inode>, caller: &Caller, flags: i32) -> Option<FileHandle> {
        let writes = writes(flags);
        let file = self.data_path(inode, caller, writes);
        let open = OpenFile {
            inode: Arc::clone(inode),
            file: Arc::clone(&file),
            caller: caller.clone(),
            writes,
        };
        let number = self.files.insert(open);
        if number.is_none() {
            self.closed(inode, &file, writes);
        }
        number.map(FileHandle)
    }

    /// An open file less; true if it was the last.
    fn closed(&self, inode: &Inode, file: &Arc<File>, writes: bool) -> bool {
        let mut state = inode.state();
        state.opens = state.opens.saturating_sub(1);
        if writes {
            self.writers.fetch_sub(1, Ordering::Relaxed);
        }
        let place = state
            .files
            .iter()
            .position(|(_, f, _)| Arc::ptr_eq(f, file));
        if let Some((_, _, opens)) = place.and_then(|place| state.files.get_mut(place)) {
            *opens = opens.saturating_sub(1);
            if *opens == 0
                && let Some(place) = place
            {
                state.files.swap_remove(place);
                state.writing.take_if(|writing| Arc::ptr_eq(writing, file));
            }
        }
        state.opens == 0
    }

    pub fn open(
        self: &Arc<Self>,
        request: &Request,
        ino: INodeNo,
        flags: OpenFlags,
        reply: ReplyOpen,
    ) {
        let inode = or_reply!(self.inode(ino), reply);
        let caller = self.caller(request);
        let flags = flags.0;
        let now_ns = MonotonicClock.now_ns();
        if !self.options.close_to_open && self.cache().get(&inode.handle, now_ns).is_some() {
            return self.reply_open(&inode, &caller, flags, reply);
        }
        let wanted = wanted(flags, self.options.writeback);
        let arguments = ACCESS3args {
            object: inode.handle.as_fh(),
            access: wanted.iter().fold(0, |all, group| all | group),
        };
        let (about, who) = (Arc::clone(&inode), caller.clone());
        self.ask::<Access>(
            &caller,
            &arguments,
            move |shared, result, sent_ns| match result {
                Ok(Res::Ok(granted)) if grants(granted.access, wanted) => {
                    if let Some(attributes) = &granted.obj_attributes {
                        shared.learn(&about.handle, attributes, sent_ns);
                        return shared.reply_open(&about, &who, flags, reply);
                    }
                    shared.open_with_attributes(&about, &who, flags, reply);
                }
                Ok(Res::Ok(_)) => reply.error(Errno::EACCES),
                Ok(Res::Fail(nfsstat3::NFS3ERR_NOTSUPP, _)) => {
                    shared.open_with_attributes(&about, &who, flags, reply);
                }
                Ok(Res::Fail(status, _)) => reply.error(shared.errno(&CallError::Nfs(status))),
                Err(error) => reply.error(shared.errno(&error)),
            },
        );
    }

    fn open_with_attributes(
        self: &Arc<Self>,
        inode: &Arc<Inode>,
        caller: &Caller,
        flags: i32,
        reply: ReplyOpen,
    ) {
        let (about, who) = (Arc::clone(inode), caller.clone());
        self.ask_attributes(caller, inode.handle, move |shared, found| match found {
            Ok(_) => shared.reply_open(&about, &who, flags, reply),
            Err(errno) => reply.error(errno),
        });
    }

    fn reply_open(
        self: &Arc<Self>,
        inode: &Arc<Inode>,
        caller: &Caller,
        flags: i32,
        reply: ReplyOpen,
    ) {
        let (keeps, told_old) = (self.pages_hold(inode), self.told_old(inode));
        let Some(number) = self.opened(inode, caller, flags) else {
            return reply.error(Errno::ENFILE);
        };
        let answer = open_flags(flags, keeps);
        if told_old {
            // The answer to an open brings no attributes: where the file ends would stay as it was.
            let shared = Arc::clone(self);
            return self.drop_pages(inode.ino, move || shared.tell_open(number, answer, reply));
        }
        self.tell_open(number, answer, reply);
    }

    /// An open that nobody hears of is closed again: the kernel will not.
    fn tell_open(self: &Arc<Self>, number: FileHandle, answer: FopenFlags, reply: ReplyOpen) {
        match reply.take() {
            Some(reply) => reply.opened(number, answer),
            None => self.close(number, || {}),
        }
    }

    pub fn create(
        self: &Arc<Self>,
        request: &Request,
        name: Name<'_>,
        mode: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let (directory, place) = or_reply!(self.at(name), reply);
        let caller = self.caller(request);
        let (under, who, known) = (Arc::clone(&directory), caller.clone(), place.clone());
        let then: WithFound = Box::new(move |shared, found| match found {
            Ok(found) => shared.reply_created(&under, &who, known, &found, flags, reply),
            Err(errno) => reply.error(errno),
        });
        if flags & libc::O_EXCL != 0 {
            return self.create_exclusively(&caller, &directory, place, mode, then);
        }
        let mut attributes = with_mode(mode);
        if flags & libc::O_TRUNC != 0 {
            attributes.size = Some(0);
        }
        self.create_how(
            &caller,
            &directory,
            place,
            createhow3::UNCHECKED(attributes),
            then,
        );
    }

    fn create_how(
        self: &Arc<Self>,
        caller: &Caller,
        directory: &Arc<Inode>,
        place: Place,
        how: createhow3,
        then: WithFound,
    ) {
        let (parent, who) = (Arc::clone(directory), caller.clone());
        let known = place.clone();
        let arguments = CREATE3args {
            where_: named(directory, &place),
            how,
        };
        directory.may_get(&place.1);
        self.ask::<Create>(caller, &arguments, move |shared, result, sent_ns| {
            shared.made(&who, &parent, &known, result, sent_ns, then);
        });
    }

    /// O_EXCL. EXCLUSIVE would survive a reply that was lost, but carries no attributes: they have
    /// to follow by SETATTR, a second change that a server has to make stable (RFC 1813 3.3.8).
    /// GUARDED carries them, the access time among them, which is this moment's: where the call was
    /// sent more than once and finds the name taken, that time tells whether it was by this call.
    fn create_exclusively(
        self: &Arc<Self>,
        caller: &Caller,
        directory: &Arc<Inode>,
        place: Place,
        mode: u32,
        then: WithFound,
    ) {
        let made_at = nfs_time(SystemTime::now());
        let attributes = sattr3 {
            atime: set_time::SET_TO_CLIENT_TIME(made_at),
            ..with_mode(mode)
        };
        let arguments = CREATE3args {
            where_: named(directory, &place),
            how: createhow3::GUARDED(attributes),
        };
        directory.may_get(&place.1);
        let (parent, who, known) = (Arc::clone(directory), caller.clone(), place.clone());
        self.ask_told::<Create>(caller, &arguments, move |shared, result, sent_ns, again| {
            let exists = matches!(result, Ok(Res::Fail(nfsstat3::NFS3ERR_EXIST, _)));
            if !(exists && again) {
                return shared.made(&who, &parent, &known, result, sent_ns, then);
            }
            parent.changed();
            shared.cache().expire(&parent.handle);
            let whose: WithFound = Box::new(move |shared, found| match found {
                Ok(found) if was_made_at(&found.attributes, made_at) => then(shared, Ok(found)),
                Ok(_) => then(shared, Err(Errno::EEXIST)),
                Err(errno) => then(shared, Err(errno)),
            });
            shared.find(&who, &parent, &known, whose);
        });
    }

    fn reply_created(
        &self,
        directory: &Inode,
        caller: &Caller,
        place: Place,
        found: &Found,
        flags: i32,
        reply: ReplyCreate,
    ) {
        // The kernel counts, and closes, what it hears of only.
        let Some(reply) = reply.take() else {
            return;
        };
        let (inode, attr) = self.introduce(place, found);
        let keeps = self.pages_hold(&inode);
        let Some(number) = self.opened(&inode, caller, flags) else {
            self.inodes().forget(inode.ino, 1);
            return reply.error(Errno::ENFILE);
        };
        let entry = self.believed(&directory.handle);
        let believed = entry.min(self.attributes_believed(&inode));
        let generation = Generation(inode.generation);
        reply.created(
            &believed,
            &attr,
            generation,
            number,
            open_flags(flags, keeps),
        );
    }

    /// RELEASE, whose answer no program waits for.
    pub fn release(self: &Arc<Self>, number: FileHandle, reply: ReplyEmpty) {
        self.close(number, move || reply.ok());
    }

    /// The last of an open file: what is left of its data goes out (mapped pages may have come
    /// after the close), and if it was removed meanwhile, now its last name goes.
    fn close(self: &Arc<Self>, number: FileHandle, then: impl FnOnce() + Send + 'static) {
        let Some(open) = self.files.remove(number.0) else {
            return then();
        };
        let shared = Arc::clone(self);
        let (inode, file) = (Arc::clone(&open.inode), Arc::clone(&open.file));
        self.settle_with_mtime((&inode, &file), true, move |_| {
            // Errors of data were told at close; nobody hears those of a release.
            if shared.closed(&open.inode, &open.file, open.writes) {
                let silly = open.inode.state().silly.take();
                if let Some((directory, name)) = silly {
                    shared.remove_silly(&open.caller, &directory, &name);
                }
            }
            then();
        });
    }

    /// Until all that was written is on stable storage; the error is told to `then`. With
    /// `data_alone` the file's attributes may still follow.
    pub(super) fn settle_file(
        self: &Arc<Self>,
        (inode, file): (&Arc<Inode>, &Arc<File>),
        data_alone: bool,
        then: impl FnOnce(Result<(), CallError>) + Send + 'static,
    ) {
        if file.is_settled() && (data_alone || file.has_stable_attributes()) {
            self.settled(inode);
            return then(Ok(()));
        }
        let (shared, about) = (Arc::clone(self), Arc::clone(inode));
        let then = move |result| {
            shared.settled(&about);
            then(result);
        };
        if data_alone {
            file.sync_data_then(then);
        } else {
            file.sync_then(then);
        }
    }

    /// As [`Shared::settle_file`], and the server has the file's time of change.
    pub(super) fn settle_with_mtime(
        self: &Arc<Self>,
        (inode, file): (&Arc<Inode>, &Arc<File>),
        data_alone: bool,
        then: impl FnOnce(Result<(), CallError>) + Send + 'static,
    ) {
        let (shared, about) = (Arc::clone(self), Arc::clone(inode));
        self.settle_file((inode, file), data_alone, move |result| match result {
            Ok(()) => shared.tell_mtime(&about, Box::new(then)),
            Err(error) => then(Err(error)),
        });
    }
}

/// Whether nothing happened to a file since it was made with this access time.
fn was_made_at(found: &fattr3, made_at: nfstime3) -> bool {
    found.type_ == ftype3::NF3REG && found.atime == made_at && found.size == 0 && found.nlink == 1
}

/// What the kernel does with the pages, and whether a close has anything to wait for.
fn open_flags(flags: i32, keeps: bool) -> FopenFlags {
    let mut answer = FopenFlags::empty();
    if keeps {
        answer |= FopenFlags::FOPEN_KEEP_CACHE;
    }
    if !writes(flags) {
        answer |= FopenFlags::FOPEN_NOFLUSH;
    }
    answer
}

//! Names: looking them up, and making what they name.

use std::sync::Arc;
use std::time::Duration;

use client::nfs3::{FileHandle, Link, Lookup, MkDir, MkNod, Procedure, SymLink};
use client::{CallError, Caller};
use fuser::{Errno, FileAttr, Generation, INodeNo, Request};
use measure::{Clock, MonotonicClock};
use wire::nfs3::{
    CREATE3args, CREATE3res, LINK3args, LOOKUP3args, MKDIR3args, MKNOD3args, Res, SYMLINK3args,
    createhow3, diropargs3, fattr3, filename3, mknoddata3, nfspath3, nfsstat3, sattr3,
    symlinkdata3,
};

use super::or_reply;
use crate::inodes::{Inode, Name, Place};
use crate::new_directories::NewDirectory;
use crate::shared::{Shared, device_numbers};
use crate::waiting::ReplyEntry;

/// An object that the server told of.
pub(super) struct Found {
    pub handle: FileHandle,
    pub attributes: fattr3,
    pub sent_ns: u64,
}

/// What is done with it, or with the errno.
pub(super) type WithFound = Box<dyn FnOnce(&Arc<Shared>, Result<Found, Errno>) + Send>;

/// A mode and nothing else.
pub(super) fn with_mode(mode: u32) -> sattr3 {
    sattr3 {
        mode: Some(mode & 0o7777),
        ..sattr3::UNCHANGED
    }
}

/// A name as the protocol has it.
pub(super) fn named<'a>(directory: &'a Inode, place: &'a Place) -> diropargs3<'a> {
    diropargs3 {
        dir: directory.handle.as_fh(),
        name: filename3(&place.1),
    }
}

impl Shared {
    /// LOOKUP, with GETATTR behind it if the reply has no attributes.
    pub(super) fn find(
        self: &Arc<Self>,
        caller: &Caller,
        directory: &Arc<Inode>,
        place: &Place,
        then: WithFound,
    ) {
        let (parent, who) = (Arc::clone(directory), caller.clone());
        let what = named(directory, place);
        self.ask::<Lookup>(
            caller,
            &LOOKUP3args { what },
            move |shared, result, sent_ns| {
                if let Ok(Res::Fail(_, attributes)) = &result {
                    shared.learn_some(&parent.handle, attributes, sent_ns);
                }
                match shared.done(result) {
                    Ok(found) => {
                        shared.learn_some(&parent.handle, &found.dir_attributes, sent_ns);
                        let handle = FileHandle::try_from(found.object);
                        shared.complete(&who, handle, found.obj_attributes, sent_ns, then);
                    }
                    Err(errno) => then(shared, Err(errno)),
                }
            },
        );
    }

    /// Asks for the attributes that a reply left out.
    pub(super) fn complete(
        self: &Arc<Self>,
        caller: &Caller,
        handle: Result<FileHandle, CallError>,
        attributes: Option<fattr3>,
        sent_ns: u64,
        then: WithFound,
    ) {
        let handle = match handle {
            Ok(handle) => handle,
            Err(error) => return then(self, Err(self.errno(&error))),
        };
        if let Some(attributes) = attributes {
            self.learn(&handle, &attributes, sent_ns);
            return then(
                self,
                Ok(Found {
                    handle,
                    attributes,
                    sent_ns,
                }),
            );
        }
        self.ask_attributes(caller, handle, move |shared, found| then(shared, found));
    }

    /// Counts the object as known to the kernel, and gives what the kernel is told of it.
    pub(super) fn introduce(&self, place: Place, found: &Found) -> (Arc<Inode>, FileAttr) {
        let (handle, new) = (found.handle, &found.attributes);
        let inode = self.inodes().look_up(place, handle, new);
        // The kernel knows the root by another number than its fileid: it is never looked up.
        let attr = self.file_attr(&inode, new, found.sent_ns);
        (inode, attr)
    }

    fn reply_entry(&self, parent: &Inode, place: Place, found: &Found, reply: ReplyEntry) {
        // The kernel counts what it hears of only.
        let Some(reply) = reply.take() else {
            return;
        };
        let (inode, attr) = self.introduce(place, found);
        self.reply_introduced(parent, (&inode, &attr), reply);
    }

    fn reply_introduced(
        &self,
        parent: &Inode,
        (inode, attr): (&Inode, &FileAttr),
        reply: fuser::ReplyEntry,
    ) {
        let entry_believed = self.believed(&parent.handle);
        let attributes_believed = self.attributes_believed(inode);
        let generation = Generation(inode.generation);
        reply.entry_with_ttls(&attributes_believed, &entry_believed, attr, generation);
    }

    /// How long the attributes of a reply that names an object hold. Not at all if they say that
    /// the kernel's pages are void: then the kernel asks again, and that question drops the pages.
    pub(super) fn attributes_believed(&self, inode: &Inode) -> Duration {
        let version = self.cache().data_version(&inode.handle);
        let state = inode.state();
        let void = state.pages_version.is_some() && state.pages_version != version;
        if void && !state.wrote {
            return Duration::ZERO;
        }
        drop(state);
        self.believed(&inode.handle)
    }

    pub fn lookup(self: &Arc<Self>, request: &Request, name: Name<'_>, reply: ReplyEntry) {
        let (directory, place) = or_reply!(self.at(name), reply);
        if let Some(most) = self.is_lacking(&directory, &place.1) {
            self.inodes().remove_name(&place);
            return self.reply_no_entry(&directory, most, reply);
        }
        let caller = self.caller(request);
        let known = place.clone();
        let under = Arc::clone(&directory);
        let then: WithFound = Box::new(move |shared, found| match found {
            Ok(found) => shared.reply_entry(&under, known, &found, reply),
            Err(Errno::ENOENT) => {
                shared.inodes().remove_name(&known);
                shared.reply_no_entry(&under, Duration::MAX, reply);
            }
            Err(errno) => reply.error(errno),
        });
        self.find(&caller, &directory, &place, then);
    }

    /// For how long there is certainly nothing of a name, where that is known without asking.
    fn is_lacking(&self, directory: &Inode, name: &[u8]) -> Option<Duration> {
        let now_ns = MonotonicClock.now_ns();
        let version = {
            let cache = self.cache();
            cache.get(&directory.handle, now_ns)?;
            cache.data_version(&directory.handle)
        };
        let state = directory.state();
        let new = state.new_directory.as_ref()?;
        new.lacks_for_ns(name, version, now_ns)
            .map(Duration::from_nanos)
    }

    /// A directory that MKDIR has made, if the reply told of it: later it need not be empty.
    fn knows_all_of(&self, new: &Inode, found: &Found, sent_ns: u64) {
        let Some(version) = self.cache().data_version(&new.handle) else {
            return;
        };
        let time = self.options.attribute_times.directory_min;
        let time_ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        if found.sent_ns == sent_ns && !self.folds_case && self.options.attribute_cache {
            let until_ns = sent_ns.saturating_add(time_ns);
            new.state().new_directory = Some(NewDirectory::new(version, until_ns));
        }
    }

    /// The name does not exist, and will not for as long as the directory's entries are believed,
    /// at most so long.
    fn reply_no_entry(&self, directory: &Inode, most: Duration, reply: ReplyEntry) {
        let believed = self.believed(&directory.handle).min(most);
        let kept = self.cache().last_seen(&directory.handle).copied();
        match kept {
            Some(any) if !believed.is_zero() => {
                let mut attr = self.file_attr(directory, &any, MonotonicClock.now_ns());
                attr.ino = INodeNo(0); // FUSE: there is nothing of this name
                if let Some(reply) = reply.take() {
                    reply.entry(&believed, &attr, Generation(0));
                }
            }
            _ => reply.error(Errno::ENOENT),
        }
    }

    /// Takes the answer to CREATE and its like.
    pub(super) fn made(
        self: &Arc<Self>,
        caller: &Caller,
        directory: &Arc<Inode>,
        place: &Place,
        result: Result<CREATE3res<'_>, CallError>,
        sent_ns: u64,
        then: WithFound,
    ) {
        directory.changed();
        match result {
            Ok(Res::Ok(new)) => {
                self.learn_wcc(&directory.handle, &new.dir_wcc, sent_ns);
                match new.obj {
                    Some(handle) => {
                        let handle = FileHandle::try_from(handle);
                        self.complete(caller, handle, new.obj_attributes, sent_ns, then);
                    }
                    None => self.find(caller, directory, place, then),
                }
            }
            Ok(Res::Fail(status, wcc)) => {
                self.learn_wcc(&directory.handle, &wcc, sent_ns);
                then(self, Err(self.errno(&CallError::Nfs(status))));
            }
            Err(error) => then(self, Err(self.errno(&error))),
        }
    }

    /// A call that makes something, and the reply that tells the kernel of it.
    fn make<P>(
        self: &Arc<Self>,
        caller: &Caller,
        directory: &Arc<Inode>,
        place: &Place,
        arguments: &P::Arguments<'_>,
        reply: ReplyEntry,
    ) where
        P: for<'a> Procedure<Results<'a> = CREATE3res<'a>>,
    {
        let (parent, who) = (Arc::clone(directory), caller.clone());
        let place = place.clone();
        directory.may_get(&place.1);
        self.ask::<P>(caller, arguments, move |shared, result, sent_ns| {
            let (under, known) = (Arc::clone(&parent), place.clone());
            let then: WithFound = Box::new(move |shared, found| match found {
                Ok(found) => {
                    // The kernel counts what it hears of only.
                    let Some(reply) = reply.take() else {
                        return;
                    };
                    let (inode, attr) = shared.introduce(known, &found);
                    if P::TARGET == MkDir::TARGET {
                        shared.knows_all_of(&inode, &found, sent_ns);
                    }
                    shared.reply_introduced(&under, (&inode, &attr), reply);
                }
                Err(errno) => reply.error(errno),
            });
            shared.made(&who, &parent, &place, result, sent_ns, then);
        });
    }

    pub fn mkdir(
        self: &Arc<Self>,
        request: &Request,
        name: Name<'_>,
        mode: u32,
        reply: ReplyEntry,
    ) {
        let (directory, place) = or_reply!(self.at(name), reply);
        let arguments = MKDIR3args {
            where_: named(&directory, &place),
            attributes: with_mode(mode),
        };
        let caller = self.caller(request);
        self.make::<MkDir>(&caller, &directory, &place, &arguments, reply);
    }

    pub fn symlink(
        self: &Arc<Self>,
        request: &Request,
        name: Name<'_>,
        text: &[u8],
        reply: ReplyEntry,
    ) {
        let (directory, place) = or_reply!(self.at(name), reply);
        let arguments = SYMLINK3args {
            where_: named(&directory, &place),
            symlink: symlinkdata3 {
                // As Linux's client: what a local file system gives to links.
                symlink_attributes: with_mode(0o777),
                symlink_data: nfspath3(text),
            },
        };
        let caller = self.caller(request);
        self.make::<SymLink>(&caller, &directory, &place, &arguments, reply);
    }

    pub fn mknod(
        self: &Arc<Self>,
        request: &Request,
        name: Name<'_>,
        mode: u32,
        device: u32,
        reply: ReplyEntry,
    ) {
        let (directory, place) = or_reply!(self.at(name), reply);
        let caller = self.caller(request);
        let attributes = with_mode(mode);
        let what = match mode & libc::S_IFMT {
            libc::S_IFIFO => mknoddata3::FIFO(attributes),
            libc::S_IFSOCK => mknoddata3::SOCK(attributes),
            libc::S_IFCHR => mknoddata3::CHR(attributes, device_numbers(device)),
            libc::S_IFBLK => mknoddata3::BLK(attributes, device_numbers(device)),
            libc::S_IFREG | 0 => {
                let arguments = CREATE3args {
                    where_: named(&directory, &place),
                    how: createhow3::GUARDED(attributes),
                };
                type P = client::nfs3::Create;
                return self.make::<P>(&caller, &directory, &place, &arguments, reply);
            }
            _ => return reply.error(Errno::EINVAL),
        };
        let arguments = MKNOD3args {
            where_: named(&directory, &place),
            what,
        };
        self.make::<MkNod>(&caller, &directory, &place, &arguments, reply);
    }

    pub fn link(
        self: &Arc<Self>,
        request: &Request,
        ino: INodeNo,
        name: Name<'_>,
        reply: ReplyEntry,
    ) {
        let inode = or_reply!(self.inode(ino), reply);
        let (directory, place) = or_reply!(self.at(name), reply);
        let caller = self.caller(request);
        let arguments = LINK3args {
            file: inode.handle.as_fh(),
            link: named(&directory, &place),
        };
        let (of, under) = (Arc::clone(&inode), Arc::clone(&directory));
        let (who, place) = (caller.clone(), place.clone());
        directory.may_get(&place.1);
        self.ask::<Link>(&caller, &arguments, move |shared, result, sent_ns| {
            under.changed();
            match result {
                Ok(Res::Ok(linked)) => {
                    shared.learn_wcc(&under.handle, &linked.linkdir_wcc, sent_ns);
                    let then: WithFound = Box::new(move |shared, found| match found {
                        Ok(found) => shared.reply_entry(&under, place, &found, reply),
                        Err(errno) => reply.error(errno),
                    });
                    let handle = Ok(of.handle);
                    shared.complete(&who, handle, linked.file_attributes, sent_ns, then);
                }
                Ok(Res::Fail(status, wcc)) => {
                    shared.learn_wcc(&under.handle, &wcc.linkdir_wcc, sent_ns);
                    // Linux: no links at all is EPERM to a program (POSIX has it for link(2)).
                    let errno = match status {
                        nfsstat3::NFS3ERR_NOTSUPP => Errno::EPERM,
                        status => shared.errno(&CallError::Nfs(status)),
                    };
                    reply.error(errno);
                }
                Err(error) => reply.error(shared.errno(&error)),
            }
        });
    }
}

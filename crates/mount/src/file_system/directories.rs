//! Reading directories: by READDIRPLUS, or with `nordirplus` by READDIR and a LOOKUP of each entry
//! that is not known yet (programs are told its type, and FUSE has no word for an unknown one).
//!
//! A server need not have READDIRPLUS (RFC 1813 3.3.17: NFS3ERR_NOTSUPP). Once it said so, this
//! mount asks by READDIR; a listing that was begun goes on with its cookie, as with Linux's client.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, UNIX_EPOCH};

use client::CallError;
use client::nfs3::{FileHandle as NfsHandle, ReadDir, ReadDirPlus};
use fuser::{
    Errno, FileAttr, FileHandle, FileType, FopenFlags, Generation, INodeNo, ReplyOpen, Request,
};
use wire::nfs3::{
    READDIR3args, READDIRPLUS3args, Res, cookieverf3, entry3, entryplus3, fattr3, nfsstat3,
};
use wire::rpc::ReplyStatus;

use super::entries::{Found, WithFound};
use super::or_reply;
use crate::open_directories::{Entry, OpenDirectory, Page};
use crate::shared::{Shared, kind};
use crate::waiting::{ReplyDirectory, ReplyDirectoryPlus};

/// Goes on with a page of entries.
type WithPage = Box<dyn FnOnce(&Arc<Shared>, Result<(), Errno>) + Send>;

impl Shared {
    pub fn opendir(self: &Arc<Self>, request: &Request, ino: INodeNo, reply: ReplyOpen) {
        let inode = or_reply!(self.inode(ino), reply);
        let open = OpenDirectory::new(inode, self.caller(request));
        match self.directories.insert(open) {
            Some(number) => reply.opened(FileHandle(number), FopenFlags::empty()),
            None => reply.error(Errno::ENFILE),
        }
    }

    pub fn readdir(self: &Arc<Self>, number: FileHandle, offset: u64, reply: ReplyDirectory) {
        let open = or_reply!(self.directories.get(number.0).ok_or(Errno::EBADF), reply);
        let of = Arc::clone(&open);
        let then: WithPage = Box::new(move |shared, result| match result {
            Ok(()) => shared.reply_plain(&of, reply),
            Err(errno) => reply.error(errno),
        });
        self.with_page(&open, offset, then);
    }

    fn reply_plain(&self, open: &OpenDirectory, reply: ReplyDirectory) {
        let Some(mut reply) = reply.take() else {
            return;
        };
        let mut page = open.page();
        while let Some(entry) = page.entries.front() {
            let attributes = entry.attributes.as_ref().map(|a| kind(a.type_));
            let type_ = match attributes {
                Some(type_) => type_,
                None if entry.is_dot() => FileType::Directory,
                None => {
                    page.advance(); // gone since the page was read
                    continue;
                }
            };
            let name = OsStr::from_bytes(&entry.name);
            if reply.add(INodeNo(entry.fileid), entry.cookie, type_, name) {
                break;
            }
            page.advance();
        }
        reply.ok();
    }

    pub fn readdirplus(
        self: &Arc<Self>,
        number: FileHandle,
        offset: u64,
        reply: ReplyDirectoryPlus,
    ) {
        let open = or_reply!(self.directories.get(number.0).ok_or(Errno::EBADF), reply);
        let of = Arc::clone(&open);
        let then: WithPage = Box::new(move |shared, result| match result {
            Ok(()) => shared.reply_plus(&of, reply),
            Err(errno) => reply.error(errno),
        });
        self.with_page(&open, offset, then);
    }

    fn reply_plus(&self, open: &OpenDirectory, reply: ReplyDirectoryPlus) {
        // The kernel counts what it hears of only.
        let Some(mut reply) = reply.take() else {
            return;
        };
        let mut page = open.page();
        let changed = page.changes != open.inode.changes.load(Ordering::Relaxed);
        let entry_believed = self.believed(&open.inode.handle);
        while let Some(entry) = page.entries.front() {
            let name = OsStr::from_bytes(&entry.name);
            if entry.is_dot() {
                // The kernel takes only name and number from it, and counts no lookup.
                let attr = self.dot_attr(entry.fileid);
                let (ttl, none) = (Duration::ZERO, Generation(0));
                if reply.add(attr.ino, entry.cookie, name, &ttl, &attr, none) {
                    break;
                }
                page.advance();
                continue;
            }
            let (Some(handle), Some(attributes)) = (entry.handle, entry.attributes) else {
                page.advance(); // gone since the page was read
                continue;
            };
            let found = Found {
                handle,
                attributes,
                sent_ns: page.sent_ns,
            };
            let place = (open.inode.ino, entry.name.clone());
            let (inode, attr) = self.introduce(place, &found);
            // Since the page was read, this mount may have removed what it names.
            let believed = if changed {
                Duration::ZERO
            } else {
                entry_believed.min(self.attributes_believed(&inode))
            };
            let generation = Generation(inode.generation);
            if reply.add(attr.ino, entry.cookie, name, &believed, &attr, generation) {
                self.inodes().forget(inode.ino, 1); // it was not handed out
                break;
            }
            page.advance();
        }
        reply.ok();
    }

    /// Attributes of `.` and `..`, of which the kernel looks at number and type only.
    fn dot_attr(&self, fileid: u64) -> FileAttr {
        FileAttr {
            ino: INodeNo(fileid),
            size: 0,
            blocks: 0,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind: FileType::Directory,
            perm: 0o755,
            nlink: 2,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }

    /// Has entries behind `offset` in the directory's page, or none if there are no more.
    fn with_page(self: &Arc<Self>, open: &Arc<OpenDirectory>, offset: u64, then: WithPage) {
        let page = open.page();
        let there = offset != 0 && page.position == Some(offset);
        if there && (!page.entries.is_empty() || page.end) {
            drop(page);
            return then(self, Ok(()));
        }
        let verifier = if offset == 0 { [0; 8] } else { page.verifier };
        drop(page);
        let of = Arc::clone(open);
        let fetched: WithPage = Box::new(move |shared, result| match result {
            Ok(()) => shared.fill_in(&of, 0, then),
            Err(errno) => then(shared, Err(errno)),
        });
        if self.options.readdirplus && !self.lacks_readdirplus.load(Ordering::Relaxed) {
            self.fetch_plus(open, offset, verifier, fetched);
        } else {
            self.fetch(open, offset, verifier, fetched);
        }
    }

    fn fetch(
        self: &Arc<Self>,
        open: &Arc<OpenDirectory>,
        cookie: u64,
        cookieverf: cookieverf3,
        then: WithPage,
    ) {
        let arguments = READDIR3args {
            dir: open.inode.handle.as_fh(),
            cookie,
            cookieverf,
            count: self.directory_bytes,
        };
        let changes = open.inode.changes.load(Ordering::Relaxed);
        let of = Arc::clone(open);
        self.ask::<ReadDir>(&open.caller, &arguments, move |shared, result, sent_ns| {
            let result = shared.done(result).and_then(|read| {
                let page = Page {
                    entries: read.entries.0.iter().map(Entry::from).collect(),
                    verifier: read.cookieverf,
                    position: Some(cookie),
                    end: read.eof,
                    sent_ns,
                    changes,
                };
                shared.take_page(&of, page, &read.dir_attributes)
            });
            then(shared, result);
        });
    }

    fn fetch_plus(
        self: &Arc<Self>,
        open: &Arc<OpenDirectory>,
        cookie: u64,
        cookieverf: cookieverf3,
        then: WithPage,
    ) {
        let arguments = READDIRPLUS3args {
            dir: open.inode.handle.as_fh(),
            cookie,
            cookieverf,
            dircount: self.directory_bytes,
            maxcount: self.directory_bytes,
        };
        let changes = open.inode.changes.load(Ordering::Relaxed);
        let of = Arc::clone(open);
        self.ask::<ReadDirPlus>(&open.caller, &arguments, move |shared, result, sent_ns| {
            if let Ok(Res::Fail(nfsstat3::NFS3ERR_NOTSUPP, _))
            | Err(CallError::Rpc(ReplyStatus::ProcedureUnavailable)) = result
            {
                shared.lacks_readdirplus.store(true, Ordering::Relaxed);
                return shared.fetch(&of, cookie, cookieverf, then);
            }
            let result = shared.done(result).and_then(|read| {
                let page = Page {
                    entries: read.entries.0.iter().map(Entry::from).collect(),
                    verifier: read.cookieverf,
                    position: Some(cookie),
                    end: read.eof,
                    sent_ns,
                    changes,
                };
                shared.take_page(&of, page, &read.dir_attributes)
            });
            then(shared, result);
        });
    }

    fn take_page(
        &self,
        open: &OpenDirectory,
        page: Page,
        attributes: &Option<fattr3>,
    ) -> Result<(), Errno> {
        self.learn_some(&open.inode.handle, attributes, page.sent_ns);
        for entry in &page.entries {
            if let Some(handle) = &entry.handle {
                self.learn_some(handle, &entry.attributes, page.sent_ns);
            }
        }
        if page.entries.is_empty() && !page.end {
            return Err(Errno::EIO); // no entry, and not the end: asking again would not help
        }
        *open.page() = page;
        Ok(())
    }

    /// Entries without handle or attributes are looked up, one by one.
    fn fill_in(self: &Arc<Self>, open: &Arc<OpenDirectory>, from: usize, then: WithPage) {
        let lacking = {
            let page = open.page();
            let mut behind = page.entries.iter().enumerate().skip(from);
            let found = behind.find(|(_, entry)| entry.is_incomplete());
            found.map(|(index, entry)| (index, (open.inode.ino, entry.name.clone())))
        };
        let Some((index, place)) = lacking else {
            return then(self, Ok(()));
        };
        let of = Arc::clone(open);
        let found: WithFound = Box::new(move |shared, found| {
            match found {
                Ok(found) => {
                    if let Some(entry) = of.page().entries.get_mut(index) {
                        entry.handle = Some(found.handle);
                        entry.attributes = Some(found.attributes);
                    }
                }
                Err(Errno::ENOENT) => {} // gone meanwhile: it is left out
                Err(errno) => return then(shared, Err(errno)),
            }
            shared.fill_in(&of, index + 1, then);
        });
        self.find(&open.caller, &open.inode, &place, found);
    }
}

impl Page {
    /// The first entry was handed out.
    fn advance(&mut self) {
        if let Some(entry) = self.entries.pop_front() {
            self.position = Some(entry.cookie);
        }
    }
}

impl From<&entry3<'_>> for Entry {
    fn from(entry: &entry3<'_>) -> Self {
        Entry {
            fileid: entry.fileid,
            name: entry.name.0.into(),
            cookie: entry.cookie,
            attributes: None,
            handle: None,
        }
    }
}

impl From<&entryplus3<'_>> for Entry {
    fn from(entry: &entryplus3<'_>) -> Self {
        Entry {
            fileid: entry.fileid,
            name: entry.name.0.into(),
            cookie: entry.cookie,
            attributes: entry.name_attributes,
            handle: entry.name_handle.and_then(|h| NfsHandle::try_from(h).ok()),
        }
    }
}

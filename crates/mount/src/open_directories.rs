//! Open directories: pages of entries between the server and the kernel.
//!
//! The kernel asks for a few kilobytes of entries at a time, a server gives as much as READDIR may
//! be long. What was not handed out is kept for the next question.

use std::collections::VecDeque;
use std::sync::Arc;

use client::Caller;
use client::nfs3::FileHandle;
use parking_lot::{Mutex, MutexGuard};
use wire::nfs3::{cookieverf3, fattr3};

use crate::inodes::Inode;

/// An entry as the server gave it.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub fileid: u64,
    pub name: Box<[u8]>,
    pub cookie: u64,
    pub attributes: Option<fattr3>,
    pub handle: Option<FileHandle>,
}

impl Entry {
    /// `.` and `..`, which the kernel knows by itself.
    pub fn is_dot(&self) -> bool {
        matches!(&*self.name, b"." | b"..")
    }

    /// Whether the server left out what the kernel has to be told.
    pub fn is_incomplete(&self) -> bool {
        !self.is_dot() && (self.handle.is_none() || self.attributes.is_none())
    }
}

/// What of a directory was read and not handed out.
#[derive(Debug, Default)]
pub(crate) struct Page {
    pub entries: VecDeque<Entry>,
    pub verifier: cookieverf3,
    /// Cookie of the entry before the first of `entries`; `None` if nothing was read.
    pub position: Option<u64>,
    /// Nothing comes behind `entries`.
    pub end: bool,
    /// When the call for them was made.
    pub sent_ns: u64,
    /// [`Inode::changes`] of the directory at that time.
    pub changes: u64,
}

/// An open directory.
#[derive(Debug)]
pub(crate) struct OpenDirectory {
    pub inode: Arc<Inode>,
    pub caller: Caller,
    page: Mutex<Page>,
}

impl OpenDirectory {
    pub fn new(inode: Arc<Inode>, caller: Caller) -> Self {
        OpenDirectory {
            inode,
            caller,
            page: Mutex::new(Page::default()),
        }
    }

    pub fn page(&self) -> MutexGuard<'_, Page> {
        self.page.lock()
    }
}

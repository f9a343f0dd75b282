//! Writing behind, and syncing.

use std::sync::Arc;

use client::CallError;
use fuser::{Errno, FileHandle, OpenFlags};

use super::or_reply;
use crate::open_files::OpenFile;
use crate::shared::Shared;
use crate::waiting::{ReplyEmpty, ReplyWrite};

/// What is to be stable, and seen by others, when a program goes on.
#[derive(Clone, Copy, Debug)]
pub enum SyncRequest {
    /// fdatasync(2).
    Data,
    /// fsync(2).
    All,
    /// close(2): the data are stable then, and others see the file's times.
    Close,
}

impl Shared {
    pub fn write(
        self: &Arc<Self>,
        number: FileHandle,
        offset: u64,
        data: &[u8],
        flags: OpenFlags,
        reply: ReplyWrite,
    ) {
        let open = or_reply!(self.files.get(number.0).ok_or(Errno::EBADF), reply);
        let end = offset.saturating_add(data.len() as u64);
        if self.max_file_bytes != 0 && end > self.max_file_bytes {
            return reply.error(Errno::EFBIG);
        }
        if let Some(other) = open.unsettled_other() {
            let (shared, bytes) = (Arc::clone(self), data.to_vec());
            return other.settle_then(move |result| match result {
                Ok(()) if !reply.is_awaited() => {}
                Ok(()) => shared.write(number, offset, &bytes, flags, reply),
                Err(error) => reply.error(shared.errno(&error)),
            });
        }
        let waits = self.options.sync || flags.0 & libc::O_DIRECT != 0;
        let length = u32::try_from(data.len()).unwrap_or(u32::MAX);
        let limit = self.dirty_limit_bytes();
        let shared = Arc::clone(self);
        let then = move |result: Result<(), CallError>| match result {
            Ok(()) => reply.written(length),
            Err(error) => reply.error(shared.errno(&error)),
        };
        let taken = open.file.write_behind(offset, data, limit);
        open.inode.written(end);
        if self.options.writeback {
            open.inode.took(&open.caller, None);
        }
        match taken {
            Ok(_) if waits => self.settle_file((&open.inode, &open.file), false, then),
            Ok(false) => then(Ok(())),
            // Much is kept: the writer goes on when it is on stable storage.
            Ok(true) => open.file.settle_then(then),
            Err(error) => then(Err(error)),
        }
    }

    pub fn sync(self: &Arc<Self>, number: FileHandle, asked: SyncRequest, reply: ReplyEmpty) {
        let open = or_reply!(self.files.get(number.0).ok_or(Errno::EBADF), reply);
        if let Some(other) = open.unsettled_other() {
            let shared = Arc::clone(self);
            return other.settle_then(move |result| match result {
                Ok(()) => shared.sync(number, asked, reply),
                Err(error) => reply.error(shared.errno(&error)),
            });
        }
        let shared = Arc::clone(self);
        let then = move |result: Result<(), CallError>| match result {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(shared.errno(&error)),
        };
        let about = (&open.inode, &open.file);
        match asked {
            SyncRequest::Data => self.settle_file(about, true, then),
            SyncRequest::All => self.settle_with_mtime(about, false, then),
            SyncRequest::Close => self.settle_with_mtime(about, true, then),
        }
    }

    /// What was gathered since before the last call of this goes out; called from time to time.
    pub fn push_old_data(&self) {
        self.files.written().iter().for_each(|file| file.push_old());
    }

    /// What the server has not committed is committed; called from time to time.
    pub fn commit_old_data(&self) {
        for file in self.files.written() {
            if !file.is_settled() {
                file.settle_then(|_| {});
            }
        }
    }
}

impl OpenFile {
    /// Data that another user wrote to the same file, if they are not on stable storage: they have
    /// to be before ours are read or written, since nothing else orders them.
    pub fn unsettled_other(&self) -> Option<Arc<client::File>> {
        let state = self.inode.state();
        if state.files.len() < 2 {
            return None;
        }
        let mut others = state.files.iter().map(|(_, file, _)| file);
        let mine = &self.file;
        let found = others.find(|file| !Arc::ptr_eq(file, mine) && file.is_dirty());
        found.cloned()
    }
}

//! Reading: what the kernel asks for, in parts of `rsize`.

use std::sync::Arc;

use client::CallError;
use client::nfs3::Read;
use fuser::{Errno, FileHandle};
use wire::nfs3::{READ3args, Res, nfsstat3};

use super::or_reply;
use crate::open_files::OpenFile;
use crate::shared::Shared;
use crate::waiting::ReplyData;

impl Shared {
    pub fn read(self: &Arc<Self>, number: FileHandle, offset: u64, size: u32, reply: ReplyData) {
        match self.files.get(number.0) {
            Some(open) => self.read_open(open, offset, size, reply),
            None => reply.error(Errno::EBADF),
        }
    }

    fn read_open(self: &Arc<Self>, open: Arc<OpenFile>, offset: u64, size: u32, reply: ReplyData) {
        if let Some(other) = open.unsettled_other() {
            let shared = Arc::clone(self);
            return other.settle_then(move |result| match result {
                Ok(()) => shared.read_open(open, offset, size, reply),
                Err(error) => reply.error(shared.errno(&error)),
            });
        }
        // The usual case, without a copy: one READ, and nothing of ours to lay over it.
        if size <= self.options.read_size_bytes && open.file.is_settled() {
            return self.read_at_once(open, offset, size, reply);
        }
        let shared = Arc::clone(self);
        let again = Arc::clone(&open);
        let length = size as usize;
        open.file
            .read_then(offset, length, move |result| match result {
                Ok(data) => reply.data(&data.bytes),
                Err(CallError::Nfs(nfsstat3::NFS3ERR_JUKEBOX)) => {
                    shared
                        .after_jukebox(move |shared| shared.read_open(again, offset, size, reply));
                }
                Err(error) => reply.error(shared.errno(&error)),
            });
    }

    fn read_at_once(
        self: &Arc<Self>,
        open: Arc<OpenFile>,
        offset: u64,
        size: u32,
        reply: ReplyData,
    ) {
        let arguments = READ3args {
            file: open.inode.handle.as_fh(),
            offset,
            count: size,
        };
        let (again, caller) = (Arc::clone(&open), open.caller.clone());
        self.ask::<Read>(&caller, &arguments, move |shared, result, sent_ns| {
            let handle = &again.inode.handle;
            if let Ok(Res::Fail(_, attributes)) = &result {
                shared.learn_some(handle, attributes, sent_ns);
            }
            let found = or_reply!(shared.done(result), reply);
            shared.learn_some(handle, &found.file_attributes, sent_ns);
            let data = found.data.0;
            let length = u32::try_from(data.len()).unwrap_or(u32::MAX);
            if length > size || found.count != length || (length == 0 && !found.eof) {
                reply.error(Errno::EIO); // breaks the protocol
            } else if length == size || found.eof {
                reply.data(data);
            } else {
                shared.read_on(&again, offset, size, data.to_vec(), reply);
            }
        });
    }

    /// Goes on where a server answered with less than it was asked for.
    fn read_on(
        self: &Arc<Self>,
        open: &Arc<OpenFile>,
        offset: u64,
        size: u32,
        mut bytes: Vec<u8>,
        reply: ReplyData,
    ) {
        let shared = Arc::clone(self);
        let from = offset.saturating_add(bytes.len() as u64);
        let left = size as usize - bytes.len();
        open.file.read_then(from, left, move |result| match result {
            Ok(rest) => {
                bytes.extend_from_slice(&rest.bytes);
                reply.data(&bytes);
            }
            Err(error) => reply.error(shared.errno(&error)),
        });
    }
}

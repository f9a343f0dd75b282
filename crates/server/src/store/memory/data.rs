//! READ, WRITE and truncation in the memory store (under its lock).

use wire::nfs3::nfsstat3;

use super::inode::Kind;
use super::{State, now};
use crate::Caller;
use crate::store::permission::{may_read, may_write, mode_after_write};
use crate::store::{FILE_BYTES_MAX, Payload, READ_BYTES_MAX, ReadDone};

impl State {
    pub(super) fn resize(&mut self, number: u64, size: u64) -> Result<(), nfsstat3> {
        let inode = self.table.get_mut(number)?;
        let Kind::File(content, verifier) = &mut inode.kind else {
            return Err(match inode.kind {
                Kind::Directory(_) => nfsstat3::NFS3ERR_ISDIR,
                _ => nfsstat3::NFS3ERR_INVAL,
            });
        };
        if size > FILE_BYTES_MAX {
            return Err(nfsstat3::NFS3ERR_FBIG);
        }
        let before = content.used_bytes();
        *verifier = None;
        if size < inode.size {
            content.cut(size);
        }
        let freed = before - content.used_bytes();
        inode.size = size;
        self.release(freed);
        Ok(())
    }

    pub(super) fn write(
        &mut self,
        caller: &Caller,
        number: u64,
        offset: u64,
        data: &[u8],
    ) -> Result<(), nfsstat3> {
        let limit_left = self.limit_bytes.saturating_sub(self.used_bytes);
        let inode = self.table.get_mut(number)?;
        if !may_write(&inode.attributes(number), caller) {
            return Err(nfsstat3::NFS3ERR_ACCES);
        }
        let Kind::File(content, verifier) = &mut inode.kind else {
            // As Linux' server has it; RFC 1813 section 3.3.7 knows NFS3ERR_INVAL alone.
            return Err(match inode.kind {
                Kind::Directory(_) => nfsstat3::NFS3ERR_ISDIR,
                _ => nfsstat3::NFS3ERR_INVAL,
            });
        };
        let end = offset
            .checked_add(data.len() as u64)
            .filter(|end| *end <= FILE_BYTES_MAX)
            .ok_or(nfsstat3::NFS3ERR_FBIG)?;
        if data.is_empty() {
            return Ok(());
        }
        let added =
            content.missing_pages(offset, data.len()) * crate::store::payload::PAGE_BYTES as u64;
        if added > limit_left {
            return Err(nfsstat3::NFS3ERR_NOSPC);
        }
        // A file that was used is no longer the fresh one of an exclusive CREATE.
        *verifier = None;
        content.write(offset, data);
        inode.mode = mode_after_write(inode.mode, inode.gid, caller).unwrap_or(inode.mode);
        inode.size = inode.size.max(end);
        inode.mtime = now();
        inode.ctime = inode.mtime;
        self.used_bytes += added;
        Ok(())
    }

    pub(super) fn read(
        &mut self,
        caller: &Caller,
        number: u64,
        (offset, count): (u64, u32),
        payload: &mut Payload,
    ) -> Result<ReadDone, nfsstat3> {
        let inode = self.table.get_mut(number)?;
        if !may_read(&inode.attributes(number), caller) {
            return Err(nfsstat3::NFS3ERR_ACCES);
        }
        let Kind::File(content, _) = &inode.kind else {
            return Err(match inode.kind {
                Kind::Directory(_) => nfsstat3::NFS3ERR_ISDIR,
                _ => nfsstat3::NFS3ERR_INVAL,
            });
        };
        let left = inode.size.saturating_sub(offset);
        let count = u64::from(count.min(READ_BYTES_MAX)).min(left);
        content.read(offset, count as usize, payload);
        if inode.atime <= inode.mtime {
            inode.atime = now();
        }
        Ok(ReadDone {
            count: count as u32,
            eof: count == left,
        })
    }
}

//! Listing directories: READDIR and READDIRPLUS.

use std::fs::File;

use rustix::fs::{RawDir, SeekFrom};
use wire::nfs3::nfsstat3;

use super::DirectoryStore;
use super::data::errno;
use super::identity::act_as_server;
use super::kernel::{proc_path, status_of};
use super::object::Object;
use crate::store::permission::READ;
use crate::store::{DirectorySink, Entry, Found, ListFrom};
use crate::{Caller, Handle};

/// Directory entries read from the kernel at a time, bytes.
const LISTING_BYTES: usize = 32 << 10;

impl DirectoryStore {
    /// True if the end was reached. The directory lay in the export before and once more after it
    /// was listed: names given only after it was moved out are not told.
    pub(super) fn list_located(
        &self,
        caller: &Caller,
        (handle, dir): (&Handle, &Object),
        from: ListFrom,
        sink: &mut dyn DirectorySink,
    ) -> Result<bool, nfsstat3> {
        let end = self.list_object(caller, dir, from, sink)?;
        if self.acts_as_caller {
            act_as_server()?;
        }
        self.still_there(handle, (dir, &mut Vec::new()))
            .map(|_| end)
            .ok_or(nfsstat3::NFS3ERR_JUKEBOX)
    }

    fn list_object(
        &self,
        caller: &Caller,
        dir: &Object,
        from: ListFrom,
        sink: &mut dyn DirectorySink,
    ) -> Result<bool, nfsstat3> {
        if !dir.is_directory() {
            return Err(nfsstat3::NFS3ERR_NOTDIR);
        }
        self.act_in(caller, dir, READ)?;
        let listing = File::open(proc_path(&dir.fd)).map_err(|error| errno(&error))?;
        rustix::fs::seek(&listing, SeekFrom::Start(from.cookie))
            .map_err(|_| nfsstat3::NFS3ERR_BAD_COOKIE)?;
        sink.begin(dir.now(), [0; 8]);
        let mut buffer = Vec::with_capacity(LISTING_BYTES);
        let mut entries = RawDir::new(&listing, buffer.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            let entry = entry.map_err(status_of)?;
            let name = entry.file_name().to_bytes();
            let above_root = name == b".." && dir.stat.st_ino == self.root_inode;
            let found = if from.with_objects {
                self.look(dir, name)
            } else {
                None
            };
            let entry = Entry {
                fileid: if above_root {
                    self.root_inode
                } else {
                    entry.ino()
                },
                name,
                cookie: entry.next_entry_cookie(),
                found,
            };
            if !sink.entry(&entry) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The object of an entry, if it can be looked at.
    fn look(&self, dir: &Object, name: &[u8]) -> Option<Found> {
        match name {
            b"." => self.found(dir, None).ok(),
            b".." => self.found(&self.parent(dir).ok()?, None).ok(),
            _ => {
                let object = self.child(dir, name).ok()?;
                self.found(&object, Some((dir, name))).ok()
            }
        }
    }
}

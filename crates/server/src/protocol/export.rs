//! Exports: a path that clients mount, the store behind it, and how callers are seen there.

use std::hash::Hasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use measure::{ByFile, DataCall, FileCounts};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use siphasher::sip::SipHasher24;
use wire::nfs3::{nfs_fh3, nfsstat3, stable_how};

use crate::caller::ANONYMOUS_ID;
use crate::handle::{HandleKey, Sealed};
use crate::store::Store;
use crate::{Caller, Handle};

/// Most exports of one server.
pub const MAX_EXPORTS: usize = 64;

/// Whose ids are believed (exports(5)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Squash {
    /// All callers' (`no_root_squash`).
    #[default]
    None,
    /// All but uid 0 and gid 0 (`root_squash`).
    Root,
    /// Nobody's (`all_squash`).
    All,
}

/// How an export behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ExportOptions {
    /// Whose ids are believed.
    pub squash: Squash,
    /// True if nothing may be changed.
    pub read_only: bool,
    /// True if its path is a secret: neither EXPORT nor DUMP tells it.
    pub hidden: bool,
}

/// A path, its store and its options.
#[derive(Clone)]
pub struct Export {
    pub(super) id: u32,
    pub(super) path: Vec<u8>,
    pub(super) store: Arc<dyn Store>,
    pub(super) options: ExportOptions,
}

impl std::fmt::Debug for Export {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Export")
            .field("path", &String::from_utf8_lossy(&self.path))
            .field("store", &self.store.description())
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl Export {
    /// Exports `store` as `path` (absolute). Its number is made of the path, so that handles stay
    /// the same after a restart.
    #[must_use]
    pub fn new(path: &str, store: Arc<dyn Store>, options: ExportOptions) -> Self {
        let trimmed = path.trim_end_matches('/');
        let path = if trimmed.is_empty() { "/" } else { trimmed };
        let mut hasher = SipHasher24::new();
        hasher.write(path.as_bytes());
        Export {
            id: hasher.finish() as u32,
            path: path.as_bytes().to_vec(),
            store,
            options,
        }
    }

    /// How the caller is seen here.
    pub(super) fn seen_as(&self, caller: &Caller) -> Caller {
        let mut seen = *caller;
        match self.options.squash {
            Squash::None => {}
            Squash::All => seen = Caller::anonymous(caller.address),
            Squash::Root => {
                if seen.uid == 0 {
                    seen.uid = ANONYMOUS_ID;
                }
                if seen.gid == 0 {
                    seen.gid = ANONYMOUS_ID;
                }
                let mut groups: Vec<u32> = seen.groups().to_vec();
                groups
                    .iter_mut()
                    .filter(|gid| **gid == 0)
                    .for_each(|gid| *gid = ANONYMOUS_ID);
                seen = seen.with_groups(&groups);
            }
        }
        seen
    }
}

/// All exports of a server, and what it remembers of mounts.
#[derive(Debug)]
pub struct Service {
    pub(super) exports: Vec<Export>,
    pub(super) key: HandleKey,
    pub(super) mounted: Mutex<Vec<(Vec<u8>, Vec<u8>)>>,
    /// Somebody has asked which files READs, WRITEs and COMMITs are of.
    counts_files: AtomicBool,
    /// By the export's number and the object's.
    by_file: Mutex<ByFile<(u32, u64)>>,
    /// A WRITE is as safe as it was asked to be, and no safer.
    as_asked: AtomicBool,
}

/// An object that a call named, with its store and the caller as seen there.
pub(super) struct Named<'s> {
    pub export: &'s Export,
    pub handle: Handle,
    pub caller: Caller,
}

impl Service {
    /// Serves `exports` (at most [`MAX_EXPORTS`]; further ones are not served), with handles sealed
    /// by `key`.
    #[must_use]
    pub fn new(mut exports: Vec<Export>, key: HandleKey) -> Self {
        exports.truncate(MAX_EXPORTS);
        Service {
            exports,
            key,
            mounted: Mutex::new(Vec::new()),
            counts_files: AtomicBool::new(false),
            by_file: Mutex::default(),
            as_asked: AtomicBool::new(false),
        }
    }

    /// From now on no WRITE is answered as safer than it was asked to be, whatever the store keeps:
    /// a modelled disk has charged no more, and has to be asked by a COMMIT.
    pub fn commit_as_asked(&self) {
        self.as_asked.store(true, Ordering::Relaxed);
    }

    /// How safe a WRITE is said to be.
    pub(super) fn committed(&self, asked: stable_how, done: stable_how) -> stable_how {
        if self.as_asked.load(Ordering::Relaxed) {
            asked
        } else {
            done
        }
    }

    /// A call on data was done, with so many bytes.
    pub(super) fn count(&self, of: &Named<'_>, call: DataCall, bytes: u32) {
        if self.counts_files.load(Ordering::Relaxed) {
            let file = (of.export.id, of.handle.object);
            self.by_file.lock().add(file, call, u64::from(bytes));
        }
    }

    /// READs, WRITEs and COMMITs done since the last time by the file's path in its export (`None`:
    /// not known); the first time begins it.
    pub fn take_files(&self) -> Vec<(Option<Vec<u8>>, FileCounts)> {
        self.counts_files.store(true, Ordering::Relaxed);
        let taken = self.by_file.lock().take();
        let named = |((id, object), counts): ((u32, u64), FileCounts)| {
            let export = self.exports.iter().find(|export| export.id == id);
            (export.and_then(|export| export.store.path(object)), counts)
        };
        taken.into_iter().map(named).collect()
    }

    /// True if changes of names and attributes wait for a device.
    #[must_use]
    pub fn names_block(&self) -> bool {
        self.exports.iter().any(|export| export.store.names_block())
    }

    /// True if a call may wait for a device.
    #[must_use]
    pub fn may_block(&self) -> bool {
        self.exports.iter().any(|export| export.store.may_block())
    }

    /// The object of a handle.
    pub(super) fn named(
        &self,
        caller: &Caller,
        handle: nfs_fh3<'_>,
    ) -> Result<Named<'_>, nfsstat3> {
        let (id, handle) = self.key.open(handle.0)?;
        let export = self
            .exports
            .iter()
            .find(|export| export.id == id)
            .ok_or(nfsstat3::NFS3ERR_STALE)?;
        let caller = export.seen_as(caller);
        Ok(Named {
            export,
            handle,
            caller,
        })
    }

    /// The same for a procedure that changes something.
    pub(super) fn named_to_change(
        &self,
        caller: &Caller,
        handle: nfs_fh3<'_>,
    ) -> Result<Named<'_>, nfsstat3> {
        let named = self.named(caller, handle)?;
        if named.export.options.read_only {
            return Err(nfsstat3::NFS3ERR_ROFS);
        }
        Ok(named)
    }

    pub(super) fn seal(&self, export: &Export, handle: &Handle) -> Sealed {
        self.key.seal(export.id, handle)
    }
}

/// Checks a name for lookup: 1 to 255 bytes, no `/`, no NUL.
pub(super) fn check_name(name: &[u8]) -> Result<(), nfsstat3> {
    if name.len() > crate::store::NAME_BYTES_MAX {
        return Err(nfsstat3::NFS3ERR_NAMETOOLONG);
    }
    if name.is_empty() || name.contains(&b'/') || name.contains(&0) {
        return Err(nfsstat3::NFS3ERR_ACCES);
    }
    Ok(())
}

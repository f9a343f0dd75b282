//! Names of what calls carry as numbers: file handles with their paths, operation lists, statuses.
//!
//! Handles are told apart per server host and numbered in the order of first sight ([`FileId`]).
//! Where a reply shows that a name in a directory leads to a handle, the handle's record gets that
//! name and directory; a path is put together from these records when it is asked for, so that the
//! renaming of a directory renames all below it.
//!
//! Decisions: a record keeps the *last* name seen. A removed file keeps it too (its calls still
//! want a path), but leaves the index by name. Directories that a COMPOUND only passes through
//! (PUTROOTFH, LOOKUP, LOOKUP, GETFH) have records without a handle.
//!
//! Limits: beyond [`MAX_FILES`] handles are left unnumbered, beyond [`MAX_NAMES_BYTES`] names are
//! not kept; both are counted ([`Names::beyond`]). Of several hard links the last one seen counts.

mod identity;
mod lists;
mod recent;
pub mod spelling;
#[cfg(test)]
mod tests;

use std::hash::BuildHasher;
use std::num::NonZeroU32;

use hashbrown::hash_table::Entry;
use hashbrown::{DefaultHashBuilder, HashMap, HashTable};

use crate::block::Host;
use crate::call::{FileId, OperationsId};
use crate::limits::{MAX_FILES, MAX_NAMES_BYTES, MAX_PATH_DEPTH};

pub use identity::Identity;
use recent::Recent;
pub use spelling::{call_name, failure_name, operation_name, operation_text, status_name};

/// What is known of a file handle. Handles are told apart per server host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct File {
    /// The server's host.
    pub server: Host,
    /// The handle's bytes; empty for a directory that COMPOUNDs only pass through.
    pub handle: Vec<u8>,
    /// Its directory, if LOOKUP, CREATE, READDIRPLUS, OPEN, ... showed it.
    pub parent: Option<FileId>,
    /// Its name in the directory (the exported path, for a root known by MOUNT).
    pub name: Option<Vec<u8>>,
    /// `ftype`: 1 file, 2 directory, 5 symbolic link, ...; 0 not known.
    pub file_type: u32,
    /// File system and number in it.
    pub identity: Identity,
    /// Root of an export or of a server's name space.
    pub is_root: bool,
    /// Its name was removed or given to another file; path and name are the last known.
    pub removed: bool,
}

/// What did not fit: how often.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Beyond {
    /// Handles left unnumbered.
    pub files: u64,
    /// Names not kept.
    pub names: u64,
    /// Directory entries whose handles were not numbered, to leave room for handles in calls.
    pub entries: u64,
    /// Operation lists not kept.
    pub operation_lists: u64,
}

/// Files and operation lists by number.
#[derive(Debug, Default)]
pub struct Names {
    files: Vec<File>,
    by_handle: HashTable<u32>,
    by_name: HashTable<u32>,
    roots: HashMap<Host, FileId>,
    operations: Vec<Vec<u32>>,
    by_codes: HashMap<Vec<u8>, OperationsId>,
    recent: Recent,
    names_bytes: usize,
    beyond: Beyond,
    hashing: DefaultHashBuilder,
}

/// Directories of nearly all paths.
const USUAL_PATH_DEPTH: usize = 12;

impl Names {
    /// A file's record.
    pub fn file(&self, id: FileId) -> Option<&File> {
        self.files.get(id.0 as usize)
    }

    /// Whether a file of others' has the same handle of the same server.
    pub fn is_same(&self, id: FileId, others: &Self, theirs: FileId) -> bool {
        let both = self.file(id).zip(others.file(theirs));
        both.is_some_and(|(ours, theirs)| {
            !ours.handle.is_empty()
                && (ours.server, &ours.handle) == (theirs.server, &theirs.handle)
        })
    }

    /// Files known.
    pub fn files(&self) -> usize {
        self.files.len()
    }

    /// What did not fit.
    pub fn beyond(&self) -> Beyond {
        self.beyond
    }

    /// Path as far as it is known: `/export/a/b` from a known root, `.../b` below an unknown
    /// directory, `None` if not even its own name is known. Bytes that are not UTF-8 are replaced.
    pub fn path(&self, id: FileId) -> Option<String> {
        let mut path = String::new();
        self.write_path(id, &mut path).then_some(path)
    }

    /// [`Names::path`] appended to `out`; false (and nothing appended) if it is not known.
    pub fn write_path(&self, id: FileId, out: &mut String) -> bool {
        let near = self.write_path_within::<USUAL_PATH_DEPTH>(id, out);
        near.or_else(|| self.write_path_within::<MAX_PATH_DEPTH>(id, out))
            .unwrap_or(false)
    }

    /// The same for paths of at most `DEPTH` names; `None` (and nothing appended) if it has more.
    #[inline]
    fn write_path_within<const DEPTH: usize>(&self, id: FileId, out: &mut String) -> Option<bool> {
        let mut names: [&[u8]; DEPTH] = [&[]; DEPTH];
        let mut depth = 0;
        let mut next = Some(id);
        let mut root: Option<&[u8]> = None;
        while let Some(file) = next.and_then(|id| self.file(id)) {
            if file.is_root {
                root = Some(file.name.as_deref().unwrap_or_default());
                break;
            }
            let Some(name) = file.name.as_deref() else {
                break;
            };
            match names.get_mut(depth) {
                Some(place) => *place = name,
                None if DEPTH < MAX_PATH_DEPTH => return None,
                None => break,
            }
            depth += 1;
            next = file.parent;
        }
        match root {
            Some(export) => {
                let export = export.strip_suffix(b"/").unwrap_or(export);
                out.push_str(&String::from_utf8_lossy(export));
                if export.is_empty() && depth == 0 {
                    out.push('/');
                }
            }
            None if depth == 0 => return Some(false),
            None => out.push_str("..."),
        }
        for name in names.iter().take(depth).rev() {
            out.push('/');
            out.push_str(&String::from_utf8_lossy(name));
        }
        Some(true)
    }

    /// The number of a handle; `None` (and counted) if it is new and the table is full.
    #[inline]
    pub fn file_id(&mut self, server: Host, handle: &[u8]) -> Option<FileId> {
        let place = self.recent.place(handle);
        if let Some(number) = *place
            && let Some(file) = self.files.get(number.get() as usize - 1)
            && file.server == server
            && file.handle == handle
        {
            return Some(FileId(number.get() - 1));
        }
        let id = self.file_id_hashed(server, handle)?;
        *self.recent.place(handle) = NonZeroU32::new(id.0 + 1);
        Some(id)
    }

    #[inline(never)]
    fn file_id_hashed(&mut self, server: Host, handle: &[u8]) -> Option<FileId> {
        if handle.is_empty() {
            return None;
        }
        let hashing = &self.hashing;
        let files = &self.files;
        let entry = self.by_handle.entry(
            hashing.hash_one((server, handle)),
            |number| {
                files
                    .get(*number as usize)
                    .is_some_and(|file| file.handle == handle && file.server == server)
            },
            |number| {
                files.get(*number as usize).map_or(0, |file| {
                    hashing.hash_one((file.server, file.handle.as_slice()))
                })
            },
        );
        match entry {
            Entry::Occupied(found) => Some(FileId(*found.get())),
            Entry::Vacant(_) if self.files.len() >= MAX_FILES => {
                self.beyond.files += 1;
                None
            }
            Entry::Vacant(place) => {
                let number = self.files.len() as u32;
                place.insert(number);
                self.files.push(File {
                    server,
                    handle: handle.to_vec(),
                    ..File::default()
                });
                Some(FileId(number))
            }
        }
    }

    /// [`Names::file_id`] for a handle in a directory listing: such handles may fill half of the
    /// table only, so that listing a large directory leaves room for files that are used.
    pub fn entry_id(&mut self, server: Host, handle: &[u8]) -> Option<FileId> {
        if self.files.len() < MAX_FILES / 2 {
            return self.file_id_hashed(server, handle);
        }
        let known = self.known(server, handle);
        self.beyond.entries += u64::from(known.is_none());
        known
    }

    /// The number of a handle, if it has one.
    fn known(&self, server: Host, handle: &[u8]) -> Option<FileId> {
        let hash = self.hashing.hash_one((server, handle));
        let found = self.by_handle.find(hash, |number| {
            self.files
                .get(*number as usize)
                .is_some_and(|file| file.handle == handle && file.server == server)
        });
        found.map(|number| FileId(*number))
    }

    /// A record without a handle.
    fn unhandled(&mut self, server: Host) -> Option<FileId> {
        if self.files.len() >= MAX_FILES {
            self.beyond.files += 1;
            return None;
        }
        let id = FileId(self.files.len() as u32);
        self.files.push(File {
            server,
            ..File::default()
        });
        Some(id)
    }

    /// The root of a server's NFSv4 name space (PUTROOTFH).
    pub fn root(&mut self, server: Host) -> Option<FileId> {
        if let Some(id) = self.roots.get(&server) {
            return Some(*id);
        }
        let id = self.unhandled(server)?;
        self.set_root(id, None);
        self.roots.insert(server, id);
        Some(id)
    }

    /// The root of a server's NFSv4 name space turned out to have this handle.
    pub fn is_server_root(&mut self, server: Host, id: FileId) {
        if self.roots.get(&server) != Some(&id) && self.roots.len() < MAX_FILES {
            self.set_root(id, None);
            self.roots.insert(server, id);
        }
    }

    /// A root: of an export with its path (MOUNT), or of a name space.
    pub fn set_root(&mut self, id: FileId, path: Option<&[u8]>) {
        let kept = path.and_then(|path| self.kept(path));
        if kept.is_some() && self.file(id).is_some_and(|file| file.name != kept) {
            // The index finds a file by the name that it has.
            self.unlist(id);
        }
        if let Some(file) = self.files.get_mut(id.0 as usize)
            && (!file.is_root || (kept.is_some() && file.name != kept))
        {
            file.is_root = true;
            file.file_type = 2;
            file.name = kept.or(file.name.take());
        }
    }

    /// The file's type, from attributes.
    #[inline]
    pub fn set_type(&mut self, id: FileId, file_type: u32) {
        if let Some(file) = self.files.get_mut(id.0 as usize) {
            file.file_type = file_type;
        }
    }

    /// The directory's entry of this name, if it is known.
    pub fn child(&self, parent: FileId, name: &[u8]) -> Option<FileId> {
        let hash = self.hashing.hash_one((parent, name));
        let found = self
            .by_name
            .find(hash, |number| self.has_name(*number, parent, name));
        found.map(|number| FileId(*number))
    }

    /// [`Names::child`], or a new record without a handle: where a LOOKUP leads to.
    pub fn child_or_new(&mut self, parent: FileId, name: &[u8]) -> Option<FileId> {
        match name {
            b"." => return Some(parent),
            b".." => return self.parent(parent),
            _ => {}
        }
        if let Some(id) = self.child(parent, name) {
            return Some(id);
        }
        let server = self.file(parent)?.server;
        let id = self.unhandled(server)?;
        self.name(parent, name, id);
        Some(id)
    }

    /// The directory of a file, if it is known: where a LOOKUPP leads to.
    pub fn parent(&self, id: FileId) -> Option<FileId> {
        self.file(id)?.parent
    }

    fn has_name(&self, number: u32, parent: FileId, name: &[u8]) -> bool {
        self.files.get(number as usize).is_some_and(|file| {
            file.parent == Some(parent) && file.name.as_deref() == Some(name) && !file.removed
        })
    }

    /// A reply showed that `name` in `parent` is `child`.
    pub fn set_name(&mut self, parent: FileId, name: &[u8], child: FileId) {
        if matches!(name, b"" | b".") {
            return;
        }
        if !self.has_name(child.0, parent, name) {
            self.name(parent, name, child);
        }
    }

    /// Gives a file a name that it does not have.
    fn name(&mut self, parent: FileId, name: &[u8], child: FileId) {
        if name == b".." {
            if let Some(file) = self.files.get_mut(parent.0 as usize)
                && file.parent.is_none()
            {
                file.parent = Some(child);
            }
            return;
        }
        self.unlist(child);
        if let Some(other) = self.child(parent, name) {
            self.unlist(other);
            self.mark_removed(other);
        }
        let Some(kept) = self.kept(name) else {
            return;
        };
        let Some(file) = self.files.get_mut(child.0 as usize) else {
            return;
        };
        if let Some(old) = file.name.replace(kept) {
            self.names_bytes = self.names_bytes.saturating_sub(old.len());
        }
        file.parent = Some(parent);
        file.removed = false;
        if let Some(directory) = self.files.get_mut(parent.0 as usize) {
            directory.file_type = 2;
        }
        let (hashing, files) = (&self.hashing, &self.files);
        self.by_name
            .insert_unique(hashing.hash_one((parent, name)), child.0, |number| {
                hash_of_name(hashing, files, *number)
            });
    }

    /// A file got another name and perhaps another directory.
    pub fn rename(&mut self, from: FileId, name: &[u8], to: FileId, new_name: &[u8]) {
        match self.child(from, name) {
            Some(_) if matches!(new_name, b"" | b".") => {}
            Some(child) if self.has_name(child.0, to, new_name) => {}
            Some(child) => self.name(to, new_name, child),
            // What had the new name lost it to a file that is not known.
            None => self.remove(to, new_name),
        }
    }

    /// A name is gone, or the server says that it never was there.
    pub fn remove(&mut self, parent: FileId, name: &[u8]) {
        if let Some(child) = self.child(parent, name) {
            self.unlist(child);
            self.mark_removed(child);
        }
    }

    fn mark_removed(&mut self, id: FileId) {
        if let Some(file) = self.files.get_mut(id.0 as usize) {
            file.removed = true;
        }
    }

    /// Takes a file out of the index by name.
    fn unlist(&mut self, id: FileId) {
        let hash = hash_of_name(&self.hashing, &self.files, id.0);
        if let Ok(entry) = self.by_name.find_entry(hash, |number| *number == id.0) {
            entry.remove();
        }
    }

    /// A copy of a name, if there is room for it.
    fn kept(&mut self, name: &[u8]) -> Option<Vec<u8>> {
        if self.names_bytes + name.len() > MAX_NAMES_BYTES {
            self.beyond.names += 1;
            return None;
        }
        self.names_bytes += name.len();
        Some(name.to_vec())
    }
}

fn hash_of_name(hashing: &DefaultHashBuilder, files: &[File], number: u32) -> u64 {
    files.get(number as usize).map_or(0, |file| {
        let name = file.name.as_deref().unwrap_or_default();
        file.parent
            .map_or(0, |parent| hashing.hash_one((parent, name)))
    })
}

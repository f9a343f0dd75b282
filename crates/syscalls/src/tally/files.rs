//! Who is who among files: one number for each, whatever names it had.
//!
//! A way that knows device and inode tells files apart by them, with a generation where an inode
//! number is used again ([`Files::of_inode`]); strace's text has nothing but paths
//! ([`Files::of_path`]). There a rename moves the file to its new name, and a file that lost its
//! name (unlinked, or replaced by a rename) is found among the deleted for as long as descriptors
//! show it as such.
//!
//! Limits. Files are bounded; those beyond have no number. When a whole folder is renamed, files
//! known by path alone begin anew under their new paths.

use std::collections::HashMap;

use super::fits;
use crate::record::{Call, FileRecord, NO_FILE, NameRecord};

/// Longest path that is kept (PATH_MAX of Linux).
pub const PATH_MAX: usize = 4096;
/// Names that wait to be taken; more are counted as lost.
const NAMES_MAX: usize = 1 << 18;

/// A file as the kernel tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Inode {
    /// Device: major, minor.
    pub device: (u32, u32),
    /// Inode.
    pub inode: u64,
    /// What differs when the number is used again (of the shim: birth time and handle, as one
    /// number); 0 when nothing is known.
    pub generation: u64,
}

/// Files and their names.
#[derive(Debug, Default)]
pub struct Files {
    files_max: usize,
    inodes: HashMap<Inode, u32>,
    /// By number.
    known: Vec<Option<Inode>>,
    paths: HashMap<Box<[u8]>, u32>,
    deleted: HashMap<Box<[u8]>, u32>,
    waiting: Vec<FileRecord>,
    path_bytes: usize,
    lost_names: u64,
    beyond: u64,
    changes: u64,
}

impl Files {
    /// None yet.
    pub fn new(files_max: usize) -> Self {
        Files {
            files_max,
            ..Files::default()
        }
    }

    /// The file with this device and inode; [`NO_FILE`] beyond the limit. Its names come by
    /// [`Files::named`].
    pub fn of_inode(&mut self, inode: Inode) -> u32 {
        if let Some(file_id) = self.inodes.get(&inode) {
            return *file_id;
        }
        let file_id = self.fresh(Some(inode));
        if file_id != NO_FILE {
            self.inodes.insert(inode, file_id);
        }
        file_id
    }

    /// The file has this name.
    pub fn named(&mut self, file_id: u32, path: &[u8], seen_ns: u64) {
        if self.paths.get(path) != Some(&file_id) {
            self.enter(file_id, path, seen_ns);
        }
    }

    /// The file of this path; [`NO_FILE`] beyond the limit.
    pub fn of_path(&mut self, path: &[u8], seen_ns: u64) -> u32 {
        if let Some(file_id) = self.paths.get(path) {
            return *file_id;
        }
        let file_id = self.fresh(None);
        if file_id != NO_FILE {
            self.enter(file_id, path, seen_ns);
        }
        file_id
    }

    /// The file that had this path when it lost its last name.
    pub fn of_deleted(&mut self, path: &[u8], seen_ns: u64) -> u32 {
        if let Some(file_id) = self.deleted.get(path) {
            return *file_id;
        }
        let file_id = self.fresh(None);
        if file_id != NO_FILE {
            self.bury(path, file_id);
            self.report(file_id, path, seen_ns);
        }
        file_id
    }

    /// A name was changed, or was to be: says of which file, as far as it is known.
    pub fn changed(&mut self, row: &NameRecord, exchange: bool) -> u32 {
        let path = row.path.as_slice();
        let file_id = self.paths.get(path).copied();
        if row.result < 0 {
            return file_id.unwrap_or(NO_FILE);
        }
        self.changes += 1;
        match &row.new_path {
            Some(other) if exchange => self.exchanged(path, other, row.start_ns),
            None if row.call == Call::Unlink => {
                if let Some(file_id) = file_id {
                    self.paths.remove(path);
                    self.bury(path, file_id);
                }
            }
            Some(new_path) if new_path != path => {
                if let Some(replaced) = self.paths.remove(new_path.as_slice()) {
                    self.bury(new_path, replaced);
                }
                if let Some(file_id) = file_id {
                    self.paths.remove(path);
                    self.enter(file_id, new_path, row.start_ns);
                }
            }
            _ => {}
        }
        file_id.unwrap_or(NO_FILE)
    }

    /// Two files changed their names with each other (RENAME_EXCHANGE).
    fn exchanged(&mut self, path: &[u8], other: &[u8], seen_ns: u64) {
        let (first, second) = (self.paths.remove(path), self.paths.remove(other));
        if let Some(file_id) = first {
            self.enter(file_id, other, seen_ns);
        }
        if let Some(file_id) = second {
            self.enter(file_id, path, seen_ns);
        }
    }

    /// How often a name was changed so far: what was known of paths may be so no more.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// The names that were seen since the last time.
    pub fn take(&mut self) -> Vec<FileRecord> {
        self.path_bytes = 0;
        std::mem::take(&mut self.waiting)
    }

    /// Names that found no room.
    pub fn lost_names(&self) -> u64 {
        self.lost_names
    }

    /// How often a file beyond the limit was asked for.
    pub fn beyond(&self) -> u64 {
        self.beyond
    }

    fn fresh(&mut self, inode: Option<Inode>) -> u32 {
        if self.known.len() >= self.files_max {
            self.beyond += 1;
            return NO_FILE;
        }
        self.known.push(inode);
        (self.known.len() - 1) as u32
    }

    fn enter(&mut self, file_id: u32, path: &[u8], seen_ns: u64) {
        // Names that are gone stay until they are used again: bounded as files are.
        if self.paths.len() < self.files_max * 2 || self.paths.contains_key(path) {
            self.paths.insert(path.into(), file_id);
        } else {
            self.lost_names += 1;
        }
        self.report(file_id, path, seen_ns);
    }

    fn bury(&mut self, path: &[u8], file_id: u32) {
        if self.deleted.len() < self.files_max || self.deleted.contains_key(path) {
            self.deleted.insert(path.into(), file_id);
        }
    }

    fn report(&mut self, file_id: u32, path: &[u8], seen_ns: u64) {
        if self.waiting.len() >= NAMES_MAX || !fits(&mut self.path_bytes, path.len()) {
            self.lost_names += 1;
            return;
        }
        let inode = self.known.get(file_id as usize).copied().flatten();
        self.waiting.push(FileRecord {
            file_id,
            device: inode.map_or((0, 0), |inode| inode.device),
            inode: inode.map_or(0, |inode| inode.inode),
            path: path.to_vec(),
            seen_ns,
        });
    }
}

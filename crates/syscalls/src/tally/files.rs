//! Who is who among files: one number for each, whatever names it had.
//!
//! Files are told apart by device and inode, with a generation where an inode number is used again.
//! A rename moves a file to its new name.
//!
//! Limits. Files are bounded; those beyond have no number.

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
    known: Vec<Inode>,
    paths: HashMap<Box<[u8]>, u32>,
    waiting: Vec<FileRecord>,
    path_bytes: usize,
    lost_names: u64,
    beyond: u64,
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
        let file_id = self.fresh(inode);
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

    /// A name was changed, or was to be: says of which file, as far as it is known.
    pub fn changed(&mut self, row: &NameRecord, exchange: bool) -> u32 {
        let path = row.path.as_slice();
        let file_id = self.paths.get(path).copied();
        if row.result < 0 {
            return file_id.unwrap_or(NO_FILE);
        }
        match &row.new_path {
            Some(other) if exchange => self.exchanged(path, other, row.start_ns),
            None if row.call == Call::Unlink => {
                self.paths.remove(path);
            }
            Some(new_path) if new_path != path => {
                self.paths.remove(new_path.as_slice());
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

    fn fresh(&mut self, inode: Inode) -> u32 {
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

    fn report(&mut self, file_id: u32, path: &[u8], seen_ns: u64) {
        if self.waiting.len() >= NAMES_MAX || !fits(&mut self.path_bytes, path.len()) {
            self.lost_names += 1;
            return;
        }
        let Some(Inode { device, inode, .. }) = self.known.get(file_id as usize).copied() else {
            return;
        };
        self.waiting.push(FileRecord {
            file_id,
            device,
            inode,
            path: path.to_vec(),
            seen_ns,
        });
    }
}

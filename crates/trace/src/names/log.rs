//! What names a reader learned, written down for [`super::replay`].
//!
//! A reader who begins within a capture knows less than who read all of it in a row, *the other*:
//! the other knows files and names of earlier, and met replies whose calls the reader did not see.
//! From a checkpoint on both are given the same calls and replies. The log holds what the reader
//! did to its [`Names`] since then, so that doing it to the other's gives what the other learns.
//!
//! Decisions. An operation is left out only if it certainly does nothing to the other's names. That
//! it did nothing here is no reason: who missed the removal of a name still has it, the other has
//! not, and gets it back by the reply that shows it. So what is left out repeats what *the log*
//! says: a fact is sure once it was written, and as long as nothing written since can have touched
//! it. For each kind:
//!
//! - The number of a handle: who was given it once keeps it. A directory's entry may be refused, but
//!   is then refused until a call carries the handle ([`FIRM`]); it is counted each time.
//! - A name: the file has it here since it was written, and here as there only operations on this
//!   name or file take it away, which are all written. `..` is always written.
//! - A type: nobody stated another one. A directory that gets a name in it becomes one here, there
//!   only if the name is new: then its type is not sure unless it was a directory before.
//! - Numbers on the server: the same ones again change nothing, nor any ones if two that were
//!   written contradict each other.
//! - Removing, renaming, roots: always written. What is not known here may be known there.
//!
//! Files are named by the reader's numbers. Files with different handles are different files there;
//! a record without a handle may be any file there (who knows the handle of `/a` has it where
//! another only passes through). So an operation on such a record ends whatever was sure.
//!
//! What was asked of names and decides what is done next is written with its answer, and compared:
//! the child of a name, the root of a server, a parent. A number given before the checkpoint is
//! defined by its handle when it is used first. A record without a handle cannot be: LOOKUP and
//! PUTROOTFH make a new one; whoever else uses it has reached back behind the checkpoint.
//!
//! Limits: where a bound of files or of names was met, the log says so, and no more.

use super::{File, Names};
use crate::block::Host;
use crate::call::FileId;
use crate::journal::bytes::{put, put_bytes};

/// Operations: a byte each, then numbers of files, then what else is said.
pub(super) mod op {
    /// `file_id`: number, server, handle.
    pub const FILE: u8 = 1;
    /// `entry_id` that gave a number: number, server, handle.
    pub const ENTRY: u8 = 2;
    /// The same once more: number.
    pub const ENTRY_AGAIN: u8 = 3;
    /// `entry_id` that gave none: server, handle.
    pub const ENTRY_REFUSED: u8 = 4;
    /// A handle known for long: number, server, handle.
    pub const DEFINITION: u8 = 5;
    /// `root`: number, server.
    pub const ROOT: u8 = 6;
    /// `is_server_root`: number, server.
    pub const SERVER_ROOT: u8 = 7;
    /// `set_root` without a path: number.
    pub const ROOT_OF_NO_PATH: u8 = 8;
    /// `set_root`: number, path.
    pub const ROOT_OF_PATH: u8 = 9;
    /// `child_or_new`: directory, child, name.
    pub const CHILD: u8 = 10;
    /// `parent`: file, its parent.
    pub const PARENT: u8 = 11;
    /// `parent` that is not known: file.
    pub const NO_PARENT: u8 = 12;
    /// `set_name`: directory, child, name.
    pub const NAME: u8 = 13;
    /// `rename`: directory, new directory, name, new name.
    pub const RENAME: u8 = 14;
    /// `remove`: directory, name.
    pub const REMOVE: u8 = 15;
    /// A file's type: number, type.
    pub const TYPE: u8 = 16;
    /// A file's numbers on its server: number, file system, file.
    pub const NUMBERS: u8 = 17;
    /// A bound was met.
    pub const FULL: u8 = 18;
}

/// Bits of what is said of a file: the other has its handle for certain.
const FIRM: u8 = 1;
/// Its name here is the last one written, ...
const NAME: u8 = 1 << 1;
/// ... its type is, ...
const TYPE: u8 = 1 << 2;
/// ... and its identity comes of what was written.
const NUMBERS: u8 = 1 << 3;

/// What the log said of a file, and when.
#[derive(Clone, Copy, Debug, Default)]
struct Said {
    defined_at: u64,
    sure_at: u64,
    bits: u8,
}

/// Operations, and what was said of files.
#[derive(Debug)]
pub(super) struct Log {
    bytes: Vec<u8>,
    files: Vec<Said>,
    /// Goes on with each operation that ends what was sure.
    now: u64,
    /// When the last checkpoint was.
    checkpoint: u64,
    reached_back: bool,
}

impl Default for Log {
    fn default() -> Self {
        Log {
            bytes: Vec::new(),
            files: Vec::new(),
            now: 1,
            checkpoint: 1,
            reached_back: false,
        }
    }
}

impl Log {
    fn said(&self, id: FileId) -> Said {
        self.files.get(id.0 as usize).copied().unwrap_or_default()
    }

    fn said_mut(&mut self, id: FileId) -> Option<&mut Said> {
        let at = id.0 as usize;
        if at >= self.files.len() {
            self.files.resize(at + 1, Said::default());
        }
        self.files.get_mut(at)
    }

    fn is_defined(&self, id: FileId) -> bool {
        self.said(id).defined_at >= self.checkpoint
    }

    /// The file's number is known to who reads the log; nothing else is sure of it.
    fn defined(&mut self, id: FileId, bits: u8) {
        let defined_at = self.now;
        if let Some(said) = self.said_mut(id) {
            *said = Said {
                defined_at,
                sure_at: defined_at,
                bits,
            };
        }
    }

    fn is_sure(&self, id: FileId, fact: u8) -> bool {
        let said = self.said(id);
        said.sure_at == self.now && said.bits & fact != 0
    }

    fn set_sure(&mut self, id: FileId, fact: u8) {
        let now = self.now;
        if let Some(said) = self.said_mut(id) {
            if said.sure_at != now {
                said.sure_at = now;
                said.bits &= FIRM;
            }
            said.bits |= fact;
        }
    }

    fn set_unsure(&mut self, id: FileId, fact: u8) {
        if let Some(said) = self.said_mut(id) {
            said.bits &= !fact;
        }
    }

    /// Sees to it that who reads the log knows this number; false if that cannot be.
    fn define(&mut self, files: &[File], id: FileId) -> bool {
        let Some(file) = files.get(id.0 as usize) else {
            return false;
        };
        match (self.is_defined(id), file.handle.is_empty()) {
            (true, false) => {}
            (true, true) => self.now += 1,
            (false, true) => {
                self.reached_back = true;
                return false;
            }
            (false, false) => {
                write_handle(&mut self.bytes, op::DEFINITION, id, file);
                self.defined(id, FIRM);
            }
        }
        true
    }

    /// A name in this directory was set, which may have made it one.
    fn touched(&mut self, files: &[File], directory: FileId) {
        let file = files.get(directory.0 as usize);
        if file.is_some_and(|file| file.file_type != 2) {
            self.set_unsure(directory, TYPE);
        }
    }
}

fn write_host(out: &mut Vec<u8>, host: Host) {
    put(out, (host.bits() >> 64) as u64);
    put(out, host.low_bits());
}

fn write_handle(out: &mut Vec<u8>, operation: u8, id: FileId, file: &File) {
    out.push(operation);
    put(out, id.0.into());
    write_host(out, file.server);
    put_bytes(out, &file.handle);
}

impl Names {
    /// From now on what is learned is written down. Files known already are defined when they are
    /// used, as after [`Names::log_anew`].
    pub fn keep_log(&mut self) {
        self.log = Some(Box::default());
        self.recent = Default::default();
    }

    /// What was written since it was cleared last; empty if no log is kept.
    pub fn log(&self) -> &[u8] {
        self.log.as_ref().map_or(&[], |log| &log.bytes)
    }

    /// What was written has been taken; what follows goes on from it.
    pub fn clear_log(&mut self) {
        if let Some(log) = &mut self.log {
            log.bytes.clear();
        }
    }

    /// A checkpoint: what follows will be understood by who knows nothing of what was written
    /// before ([`super::replay::Replay::begin_anew`]).
    pub fn log_anew(&mut self) {
        if let Some(log) = &mut self.log {
            log.bytes.clear();
            log.now += 1;
            log.checkpoint = log.now;
            // Handles met lately are not looked up, so they would not be written.
            self.recent = Default::default();
        }
    }

    /// Whether something since this was asked last cannot be told from the log alone.
    pub fn take_reached_back(&mut self) -> bool {
        let log = self.log.as_mut();
        log.is_some_and(|log| std::mem::take(&mut log.reached_back))
    }

    /// Whether who has read the log since the last checkpoint knows this number.
    pub fn is_defined(&self, id: FileId) -> bool {
        self.log.as_ref().is_some_and(|log| log.is_defined(id))
    }

    /// Appends to `out` what tells a reader of the log who this file is, unless it knows; false if
    /// nothing can: the file has no handle, and was met before the checkpoint.
    pub fn write_definition(&self, id: FileId, out: &mut Vec<u8>) -> bool {
        if self.is_defined(id) {
            return true;
        }
        match self.file(id) {
            Some(file) if !file.handle.is_empty() => {
                write_handle(out, op::DEFINITION, id, file);
                true
            }
            _ => false,
        }
    }

    /// Writes an operation on these files, if they can be named; what else it says is appended.
    fn logged(&mut self, operation: u8, files: &[FileId]) -> Option<&mut Vec<u8>> {
        let log = self.log.as_mut()?;
        let mut known = true;
        for id in files {
            known &= log.define(&self.files, *id);
        }
        if !known {
            return None;
        }
        log.bytes.push(operation);
        for id in files {
            put(&mut log.bytes, id.0.into());
        }
        Some(&mut log.bytes)
    }

    /// What was written of this file, and is so here, is so there.
    fn set_sure(&mut self, files: &[FileId], fact: u8) {
        let handled = |id: &FileId| self.file(*id).is_some_and(|file| !file.handle.is_empty());
        if files.iter().all(handled)
            && let (Some(log), Some(id)) = (&mut self.log, files.first())
        {
            log.set_sure(*id, fact);
        }
    }

    fn is_sure(&self, id: FileId, fact: u8) -> bool {
        self.log.as_ref().is_some_and(|log| log.is_sure(id, fact))
    }

    fn touched(&mut self, directory: FileId) {
        if let Some(log) = &mut self.log {
            log.touched(&self.files, directory);
        }
    }

    /// Whether a record that was found may be used: those without a handle do not outlive a
    /// checkpoint.
    pub(super) fn may_use(&self, id: FileId) -> bool {
        let handled = |id| self.file(id).is_some_and(|file| !file.handle.is_empty());
        self.log.is_none() || self.is_defined(id) || handled(id)
    }

    /// A new record without a handle: the next operation, which gave it, will define it.
    pub(super) fn log_unhandled(&mut self, id: FileId) {
        if let Some(log) = &mut self.log {
            log.defined(id, FIRM);
        }
    }

    #[inline(never)]
    pub(super) fn log_file(&mut self, id: FileId) {
        let Some(log) = &mut self.log else {
            return;
        };
        let is_firm = log.is_defined(id) && log.said(id).bits & FIRM != 0;
        if let Some(file) = self.files.get(id.0 as usize)
            && !is_firm
        {
            write_handle(&mut log.bytes, op::FILE, id, file);
            log.defined(id, FIRM);
        }
    }

    #[inline(never)]
    pub(super) fn log_entry(&mut self, server: Host, handle: &[u8], id: Option<FileId>) {
        let Some(log) = &mut self.log else {
            return;
        };
        let Some(id) = id else {
            log.bytes.push(op::ENTRY_REFUSED);
            write_host(&mut log.bytes, server);
            put_bytes(&mut log.bytes, handle);
            return;
        };
        if !log.is_defined(id) {
            if let Some(file) = self.files.get(id.0 as usize) {
                write_handle(&mut log.bytes, op::ENTRY, id, file);
                log.defined(id, 0);
            }
        } else if log.said(id).bits & FIRM == 0 {
            log.bytes.push(op::ENTRY_AGAIN);
            put(&mut log.bytes, id.0.into());
        }
    }

    pub(super) fn log_server_root(&mut self, operation: u8, server: Host, id: FileId) {
        if let Some(out) = self.logged(operation, &[id]) {
            write_host(out, server);
            self.touched(id);
        }
    }

    pub(super) fn log_root(&mut self, id: FileId, path: Option<&[u8]>) {
        let operation = match path {
            Some(_) => op::ROOT_OF_PATH,
            None => op::ROOT_OF_NO_PATH,
        };
        let Some(out) = self.logged(operation, &[id]) else {
            return;
        };
        if let Some(path) = path {
            put_bytes(out, path);
        }
        self.touched(id);
        if let Some(log) = &mut self.log {
            log.set_unsure(id, NAME);
        }
    }

    pub(super) fn log_child(&mut self, parent: FileId, name: &[u8], child: FileId) {
        if let Some(out) = self.logged(op::CHILD, &[parent, child]) {
            put_bytes(out, name);
            self.touched(parent);
        }
    }

    pub(super) fn log_parent(&mut self, id: FileId, parent: Option<FileId>) {
        match parent {
            Some(parent) => self.logged(op::PARENT, &[id, parent]),
            None => self.logged(op::NO_PARENT, &[id]),
        };
    }

    /// `has` tells whether the child has this name already.
    #[inline(never)]
    pub(super) fn log_name(&mut self, parent: FileId, name: &[u8], child: FileId, has: bool) {
        let upwards = name == b"..";
        if has && !upwards && self.is_sure(child, NAME) {
            return;
        }
        let Some(out) = self.logged(op::NAME, &[parent, child]) else {
            return;
        };
        put_bytes(out, name);
        if !upwards {
            self.touched(parent);
            self.set_sure(&[child, parent], NAME);
        }
    }

    pub(super) fn log_rename(&mut self, from: FileId, name: &[u8], to: FileId, new_name: &[u8]) {
        if let Some(out) = self.logged(op::RENAME, &[from, to]) {
            put_bytes(out, name);
            put_bytes(out, new_name);
            self.touched(to);
        }
    }

    pub(super) fn log_remove(&mut self, parent: FileId, name: &[u8]) {
        if let Some(out) = self.logged(op::REMOVE, &[parent]) {
            put_bytes(out, name);
        }
    }

    pub(super) fn log_type(&mut self, id: FileId, file_type: u32) {
        let same = self.file(id).map(|file| file.file_type) == Some(file_type);
        if same && self.is_sure(id, TYPE) {
            return;
        }
        if let Some(out) = self.logged(op::TYPE, &[id]) {
            put(out, file_type.into());
            self.set_sure(&[id], TYPE);
        }
    }

    pub(super) fn log_numbers(&mut self, id: FileId, fsid: u64, file_id: u64) {
        let Some(before) = self.file(id).map(|file| file.identity) else {
            return;
        };
        let after = before.after(fsid, file_id);
        let sure = self.is_sure(id, NUMBERS);
        if sure && after == before {
            return;
        }
        if let Some(out) = self.logged(op::NUMBERS, &[id]) {
            put(out, fsid);
            put(out, file_id);
            // What contradicts numbers that were not written may not contradict the other's.
            if sure || after.is_known() {
                self.set_sure(&[id], NUMBERS);
            }
        }
    }

    /// A bound was met.
    #[cold]
    pub(super) fn log_full(&mut self) {
        if let Some(log) = &mut self.log {
            log.bytes.push(op::FULL);
        }
    }
}

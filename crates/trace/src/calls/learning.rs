//! What replies teach about file handles and names.
//!
//! NFSv2, v3 and MOUNT: one step, one result. NFSv4: the reply's operations are walked beside the
//! steps of the call, with the current and the saved file handle as the server has them (RFC 7530
//! section 2.3, 15.2.3). A LOOKUP's object has no handle until GETFH tells it; if none does, it
//! gets a record without one as soon as something below it or about it needs one.

use wire::nfs4::opcode::{
    CREATE, GETATTR, GETFH, LINK, LOOKUP, LOOKUPP, OPEN, OPENATTR, PUTFH, PUTPUBFH, PUTROOTFH,
    REMOVE, RENAME, RESTOREFH, SAVEFH, SECINFO, SECINFO_NO_NAME,
};
use wire::summary::{DirectoryEntry, ReplyOperation, Results, Visitor};

use super::steps::{MOUNT_ROOT, Step, Steps};
use crate::block::Host;
use crate::call::FileId;
use crate::names::Names;

/// `NFSERR_NOENT`, `NFS3ERR_NOENT`, `NFS4ERR_NOENT`.
pub const NOENT: u32 = 2;

/// Learns from the reply of a procedure of NFSv2, v3 or MOUNT.
pub fn learn(names: &mut Names, server: Host, step: &Step<'_>, results: &Results<'_>) {
    let object = |names: &mut Names| {
        let id = names.file_id(server, results.file_handle?)?;
        if let Some(attributes) = &results.attributes {
            names.set_attributes(id, attributes);
        }
        Some(id)
    };
    let (status, opcode) = (results.status, u32::from(step.opcode));
    if step.opcode == MOUNT_ROOT {
        if let Some(id) = object(names) {
            names.set_root(id, Some(step.name));
        }
        return;
    }
    let Some(directory) = step.file else {
        return;
    };
    match (opcode, status) {
        (LOOKUP | CREATE, Some(0)) => {
            if let Some(id) = object(names) {
                names.set_name(directory, step.name, id);
            }
        }
        (LOOKUP, Some(NOENT)) | (REMOVE, Some(0)) => names.remove(directory, step.name),
        (RENAME, Some(0)) => {
            if let Some(target) = step.target {
                names.rename(directory, step.name, target, step.target_name);
            }
        }
        (LINK, Some(0)) => {
            if let Some(target) = step.target {
                names.set_name(target, step.target_name, directory);
            }
        }
        _ => {}
    }
}

/// How the current object was reached, for when the server tells its handle.
#[derive(Clone, Copy, Debug)]
enum Reached<'s> {
    /// By its handle, or it is not known how.
    Otherwise,
    /// By PUTROOTFH.
    Root,
    /// By a name in a directory.
    Name(FileId, &'s [u8]),
}

/// Walks a COMPOUND's reply, or the entries of a directory listing.
#[derive(Debug)]
pub struct Walk<'n, 's> {
    names: &'n mut Names,
    server: Host,
    steps: Steps<'s>,
    next: Option<Step<'s>>,
    /// The current object, if its number is known or was needed.
    known: Option<FileId>,
    reached: Reached<'s>,
    saved: Option<FileId>,
    named_by: u32,
    /// The object of the naming operation is the current one, and has no number yet.
    asked: bool,
    opened: bool,
    about: Option<FileId>,
}

impl<'n, 's> Walk<'n, 's> {
    /// Of a COMPOUND that is named by this operation.
    pub fn of_compound(names: &'n mut Names, server: Host, steps: &'s [u8], named_by: u32) -> Self {
        let mut steps = Steps(steps);
        let next = steps.next();
        Walk {
            names,
            server,
            steps,
            next,
            known: None,
            reached: Reached::Otherwise,
            saved: None,
            named_by,
            asked: false,
            opened: false,
            about: None,
        }
    }

    /// Of a READDIRPLUS in this directory.
    pub fn of_directory(names: &'n mut Names, server: Host, directory: Option<FileId>) -> Self {
        let mut walk = Walk::of_compound(names, server, &[], 0);
        walk.known = directory;
        walk
    }

    /// The object that the naming operation worked on; for OPEN: the file that was opened.
    pub fn about(mut self) -> Option<FileId> {
        self.settle_about();
        self.about
    }

    /// The current object's number.
    fn current(&mut self) -> Option<FileId> {
        if self.known.is_none() {
            self.known = match self.reached {
                Reached::Otherwise => None,
                Reached::Root => self.names.root(self.server),
                Reached::Name(directory, name) => self.names.child_or_new(directory, name),
            };
        }
        self.known
    }

    /// Another object becomes the current one.
    fn go_to(&mut self, known: Option<FileId>, reached: Reached<'s>) {
        self.settle_about();
        self.known = known;
        self.reached = reached;
    }

    fn settle_about(&mut self) {
        if self.asked {
            self.asked = false;
            self.about = self.current();
        }
    }

    fn by_name(&mut self, name: &'s [u8]) {
        let reached = match self.current() {
            Some(directory) => Reached::Name(directory, name),
            None => Reached::Otherwise,
        };
        self.go_to(None, reached);
    }

    /// The server told the current object's handle.
    fn handle(&mut self, handle: &[u8]) {
        let id = self.names.file_id(self.server, handle);
        match (id, self.reached) {
            (Some(id), Reached::Name(directory, name)) => self.names.set_name(directory, name, id),
            (Some(id), Reached::Root) => self.names.is_server_root(self.server, id),
            _ => {}
        }
        self.known = id;
        self.reached = Reached::Otherwise;
        if self.opened || self.asked {
            self.opened = false;
            self.asked = false;
            self.about = id;
        }
    }

    fn done(&mut self, step: &Step<'s>, opcode: u32) {
        match opcode {
            PUTFH => self.go_to(step.file, Reached::Otherwise),
            PUTROOTFH | PUTPUBFH => self.go_to(None, Reached::Root),
            SAVEFH => self.saved = self.current(),
            RESTOREFH => self.go_to(self.saved, Reached::Otherwise),
            LOOKUP | CREATE => self.by_name(step.name),
            OPEN => {
                // Without a name the current object itself is opened (CLAIM_FH).
                if !step.name.is_empty() {
                    self.by_name(step.name);
                }
                self.opened = self.named_by == OPEN;
            }
            LOOKUPP => {
                let parent = self.current().and_then(|id| self.names.parent(id));
                self.go_to(parent, Reached::Otherwise);
            }
            OPENATTR | SECINFO | SECINFO_NO_NAME => self.go_to(None, Reached::Otherwise),
            REMOVE => {
                if let Some(directory) = self.current() {
                    self.names.remove(directory, step.name);
                }
            }
            RENAME => {
                if let (Some(from), Some(to)) = (self.saved, self.current()) {
                    self.names.rename(from, step.name, to, step.target_name);
                }
            }
            LINK => {
                if let (Some(file), Some(directory)) = (self.saved, self.current()) {
                    self.names.set_name(directory, step.target_name, file);
                }
            }
            _ => {}
        }
    }
}

impl<'a> Visitor<'a> for Walk<'_, '_> {
    fn reply_operation(&mut self, operation: &ReplyOperation<'a>) {
        let results = &operation.results;
        let opcode = operation.opcode;
        if opcode == self.named_by && self.about.is_none() {
            self.about = self.known;
            self.asked = self.known.is_none();
        }
        let step = match self.next {
            Some(step)
                if u32::from(step.index) == operation.index && u32::from(step.opcode) == opcode =>
            {
                self.next = self.steps.next();
                Some(step)
            }
            _ => None,
        };
        match (results.status, step) {
            (Some(0), Some(step)) => self.done(&step, opcode),
            (Some(NOENT), Some(step)) if opcode == LOOKUP => {
                if let Some(directory) = self.current() {
                    self.names.remove(directory, step.name);
                }
            }
            _ => {}
        }
        if results.status != Some(0) || !matches!(opcode, GETFH | GETATTR) {
            return;
        }
        if let Some(handle) = results.file_handle {
            self.handle(handle);
        }
        if let (Some(attributes), Some(id)) = (&results.attributes, self.known) {
            self.names.set_attributes(id, attributes);
        }
    }

    fn entry(&mut self, entry: &DirectoryEntry<'a>) {
        let Some(handle) = entry.file_handle else {
            return;
        };
        let Some(directory) = self.current() else {
            return;
        };
        if let Some(id) = self.names.entry_id(self.server, handle) {
            self.names.set_name(directory, entry.name, id);
            if let Some(attributes) = &entry.attributes {
                self.names.set_attributes(id, attributes);
            }
        }
    }
}

//! Objects that the kernel knows: inode numbers, file handles and names.
//!
//! Every reply that names an object to the kernel counts as a lookup; when the kernel has forgotten
//! as many, the object leaves the table. So the table is as large as the kernel's cache of inodes,
//! which the kernel bounds.
//!
//! Decisions: the inode number is the server's fileid where it can be (programs compare them), and
//! one of our own where it is taken: by the root's fixed number, or by another handle with the same
//! fileid. A number that comes again has a new generation. Names are kept for one purpose: to know
//! at a removal whether the name is that of an open file.

use std::ffi::OsStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use client::nfs3::FileHandle;
use client::{Caller, File};
use fuser::INodeNo;
use hashbrown::HashMap;
use parking_lot::{Mutex, MutexGuard};
use wire::nfs3::{fattr3, ftype3, nfstime3};

use crate::new_directories::NewDirectory;

/// The root's inode number, which FUSE fixes.
pub(crate) const ROOT: u64 = 1;
/// Our own inode numbers begin here.
const OWN_NUMBERS: u64 = 1 << 63;
/// Names kept of one object; with so many links, a removed name does not remove the file.
const MAX_NAMES: usize = 16;
/// Directories that a path is followed through.
const MAX_DEPTH: usize = 1024;

/// A name in a directory, as the kernel says it.
pub(crate) type Name<'a> = (INodeNo, &'a OsStr);
/// The same, to be kept.
pub(crate) type Place = (u64, Box<[u8]>);

/// An object that the kernel knows.
#[derive(Debug)]
pub(crate) struct Inode {
    pub ino: u64,
    pub generation: u64,
    pub handle: FileHandle,
    pub kind: ftype3,
    pub fileid: u64,
    lookups: AtomicU64,
    /// Changes that this mount made to a directory's entries.
    pub changes: AtomicU64,
    state: Mutex<State>,
}

/// What of an object changes while it is known.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// Open files.
    pub opens: u32,
    /// [`client::attributes::AttributeCache::data_version`] that the kernel's pages belong to.
    pub pages_version: Option<u64>,
    /// The same of the attributes that the kernel was told last.
    pub told_version: Option<u64>,
    /// Something was written here since then, or is on its way.
    pub wrote: bool,
    /// Questions for the size since then that were answered while data were on their way.
    pub sizes_asked: u32,
    /// End of what was written here and may not be in the attributes of a reply.
    pub written_end: u64,
    /// Replies to calls sent after this instant have all that was written.
    pub settled_ns: Option<u64>,
    /// It was removed while open: where it is now.
    pub silly: Option<(FileHandle, Box<[u8]>)>,
    /// Data paths by caller, with the number of their open files.
    pub files: Vec<(Caller, Arc<File>, u32)>,
    /// `writeback`: the data path of all who write, as the kernel writes pages through any of them.
    pub writing: Option<Arc<File>>,
    /// `writeback`: when it was last changed, as the kernel has it. It tells of another time than
    /// it told last: of two writes in one tick of its clock, of the first alone.
    pub mtime: nfstime3,
    /// `writeback`: who changed it since the server was told that time.
    pub untold: Option<Caller>,
    /// All that is in a directory, where that is known.
    pub new_directory: Option<NewDirectory>,
    names: Vec<Place>,
}

impl State {
    /// Whether data written here are not on stable storage.
    pub fn is_dirty(&self) -> bool {
        self.files.iter().any(|(_, file, _)| file.is_dirty())
    }
}

impl Inode {
    fn new(ino: u64, generation: u64, handle: FileHandle, attributes: &fattr3) -> Self {
        Inode {
            ino,
            generation,
            handle,
            kind: attributes.type_,
            fileid: attributes.fileid,
            lookups: AtomicU64::new(0),
            changes: AtomicU64::new(0),
            state: Mutex::new(State {
                mtime: attributes.mtime,
                ..State::default()
            }),
        }
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Data paths of all its open files.
    pub fn files(&self) -> Vec<Arc<File>> {
        let state = self.state();
        state.files.iter().map(|(_, f, _)| Arc::clone(f)).collect()
    }

    /// Bytes up to here were written, and replies need not know it.
    pub fn written(&self, end: u64) {
        let mut state = self.state();
        if state.settled_ns.is_some() {
            (state.written_end, state.settled_ns) = (0, None);
        }
        state.written_end = state.written_end.max(end);
        state.sizes_asked = 0;
        // If somebody's fsync has had it committed meanwhile, nothing more of ours will come.
        state.wrote |= state.is_dirty();
    }

    /// The server has been told another size; nothing written is under way.
    pub fn truncated(&self, size: u64) {
        let mut state = self.state();
        state.written_end = state.written_end.min(size);
    }

    /// `writeback`: the kernel has changed it, by its clock at `mtime` where it says so.
    pub fn took(&self, caller: &Caller, mtime: Option<nfstime3>) {
        let mut state = self.state();
        state.mtime = mtime.unwrap_or(state.mtime);
        state.untold = Some(caller.clone());
    }

    /// A call is sent that may make this name in the directory.
    pub fn may_get(&self, name: &[u8]) {
        let mut state = self.state();
        if let Some(new) = &mut state.new_directory
            && !new.add(name)
        {
            state.new_directory = None;
        }
    }

    /// This mount changed the directory's entries.
    pub fn changed(&self) {
        self.changes.fetch_add(1, Ordering::Relaxed);
    }
}

/// All objects that the kernel knows.
#[derive(Debug, Default)]
pub(crate) struct Inodes {
    by_number: HashMap<u64, Arc<Inode>>,
    by_handle: HashMap<FileHandle, u64>,
    by_name: HashMap<Place, u64>,
    generations: u64,
    own_numbers: u64,
}

impl Inodes {
    pub fn new(root: FileHandle, attributes: &fattr3) -> Self {
        let mut inodes = Inodes::default();
        let inode = Inode::new(ROOT, 0, root, attributes);
        inode.lookups.store(1, Ordering::Relaxed);
        inodes.by_number.insert(ROOT, Arc::new(inode));
        inodes.by_handle.insert(root, ROOT);
        inodes
    }

    pub fn get(&self, ino: u64) -> Option<Arc<Inode>> {
        self.by_number.get(&ino).cloned()
    }

    /// The kernel is told of an object under a name: one more lookup.
    pub fn look_up(&mut self, place: Place, handle: FileHandle, new: &fattr3) -> Arc<Inode> {
        let known = self.by_handle.get(&handle);
        let inode = match known.and_then(|ino| self.by_number.get(ino)) {
            Some(inode) => Arc::clone(inode),
            None => self.insert(handle, new),
        };
        inode.lookups.fetch_add(1, Ordering::Relaxed);
        self.name(place, &inode);
        inode
    }

    fn insert(&mut self, handle: FileHandle, new: &fattr3) -> Arc<Inode> {
        let free = |ino: u64, taken: &HashMap<u64, Arc<Inode>>| {
            ino > ROOT && ino < OWN_NUMBERS && !taken.contains_key(&ino)
        };
        let ino = if free(new.fileid, &self.by_number) {
            new.fileid
        } else {
            self.own_numbers += 1;
            OWN_NUMBERS + self.own_numbers
        };
        self.generations += 1;
        let inode = Arc::new(Inode::new(ino, self.generations, handle, new));
        self.by_number.insert(ino, Arc::clone(&inode));
        self.by_handle.insert(handle, ino);
        inode
    }

    fn name(&mut self, place: Place, inode: &Arc<Inode>) {
        if self.by_name.get(&place) == Some(&inode.ino) {
            return;
        }
        let mut state = inode.state();
        if state.names.len() >= MAX_NAMES {
            return;
        }
        state.names.push(place.clone());
        drop(state);
        if let Some(before) = self.by_name.insert(place.clone(), inode.ino) {
            self.forget_name_of(before, &place);
        }
    }

    fn forget_name_of(&self, ino: u64, place: &Place) {
        if let Some(inode) = self.by_number.get(&ino) {
            inode.state().names.retain(|name| name != place);
        }
    }

    /// A name of the object with this `fileid`, from the root on; None: it has none here.
    pub fn path(&self, fileid: u64) -> Option<Vec<u8>> {
        let mut inode = self.by_number.get(&fileid)?;
        if inode.fileid != fileid {
            return None;
        }
        let mut names = Vec::new();
        while inode.ino != ROOT {
            let (parent, name) = inode.state().names.last()?.clone();
            if names.len() >= MAX_DEPTH {
                return None;
            }
            names.push(name);
            inode = self.by_number.get(&parent)?;
        }
        names.reverse();
        Some([&b"/"[..], &names.join(&b'/')].concat())
    }

    /// The object of a name, if it is known.
    pub fn named(&self, place: &Place) -> Option<Arc<Inode>> {
        self.get(*self.by_name.get(place)?)
    }

    /// The name is gone.
    pub fn remove_name(&mut self, place: &Place) -> Option<Arc<Inode>> {
        let ino = self.by_name.remove(place)?;
        self.forget_name_of(ino, place);
        self.get(ino)
    }

    /// The object of a name has another one now; that one's object has lost it.
    pub fn rename(&mut self, from: &Place, to: Place) {
        self.remove_name(&to);
        if let Some(inode) = self.remove_name(from) {
            self.name(to, &inode);
        }
    }

    /// The kernel forgets so many lookups.
    pub fn forget(&mut self, ino: u64, lookups: u64) {
        let Some(inode) = self.by_number.get(&ino).filter(|_| ino != ROOT) else {
            return;
        };
        let before = inode.lookups.load(Ordering::Relaxed);
        inode
            .lookups
            .store(before.saturating_sub(lookups), Ordering::Relaxed);
        if before > lookups {
            return;
        }
        if let Some(inode) = self.by_number.remove(&ino) {
            if self.by_handle.get(&inode.handle) == Some(&ino) {
                self.by_handle.remove(&inode.handle);
            }
            for place in std::mem::take(&mut inode.state().names) {
                self.by_name.remove(&place);
            }
        }
    }

    /// Objects known.
    pub fn len(&self) -> usize {
        self.by_number.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attributes(fileid: u64) -> fattr3 {
        let time = nfstime3 {
            seconds: 0,
            nseconds: 0,
        };
        fattr3 {
            fileid,
            ..fattr3::plain_file(0, time)
        }
    }

    fn handle(bytes: &[u8]) -> FileHandle {
        FileHandle::new(bytes).unwrap()
    }

    fn place(name: &str) -> Place {
        (ROOT, name.as_bytes().into())
    }

    #[test]
    fn numbers_are_fileids_where_they_can_be_and_come_again_with_another_generation() {
        let mut inodes = Inodes::new(handle(b"root"), &attributes(9));
        let a = inodes.look_up(place("a"), handle(b"a"), &attributes(7));
        assert_eq!((a.ino, a.generation), (7, 1));
        let same = inodes.look_up(place("b"), handle(b"a"), &attributes(7));
        assert!(Arc::ptr_eq(&a, &same), "a second link");
        let other = inodes.look_up(place("c"), handle(b"c"), &attributes(7));
        assert!(other.ino > OWN_NUMBERS, "7 is taken");
        let first = inodes.look_up(place("d"), handle(b"d"), &attributes(ROOT));
        assert!(first.ino > OWN_NUMBERS && first.ino != other.ino);
        inodes.forget(7, 1);
        assert!(inodes.get(7).is_some());
        inodes.forget(7, 1);
        assert!(inodes.get(7).is_none() && inodes.named(&place("a")).is_none());
        let again = inodes.look_up(place("e"), handle(b"e"), &attributes(7));
        assert_eq!((again.ino, again.generation), (7, 4));
        inodes.forget(ROOT, 5);
        assert_eq!(inodes.len(), 4, "the root stays");
    }

    #[test]
    fn a_path_is_the_names_from_the_root_on() {
        let mut inodes = Inodes::new(handle(b"root"), &attributes(9));
        inodes.look_up(place("pg_wal"), handle(b"d"), &attributes(7));
        inodes.look_up((7, (*b"1").into()), handle(b"f"), &attributes(8));
        assert_eq!(inodes.path(8).unwrap(), b"/pg_wal/1");
        inodes.rename(&(7, (*b"1").into()), (7, (*b"2").into()));
        assert_eq!(inodes.path(8).unwrap(), b"/pg_wal/2");
        let taken = inodes.look_up(place("c"), handle(b"c"), &attributes(8));
        assert_eq!(
            inodes.path(8).unwrap(),
            b"/pg_wal/2",
            "not that of {taken:?}"
        );
        inodes.remove_name(&(7, (*b"2").into()));
        assert_eq!((inodes.path(8), inodes.path(10)), (None, None));
    }

    #[test]
    fn names_follow_renames_and_removals() {
        let mut inodes = Inodes::new(handle(b"root"), &attributes(9));
        let a = inodes.look_up(place("a"), handle(b"a"), &attributes(7));
        let b = inodes.look_up(place("b"), handle(b"b"), &attributes(8));
        inodes.rename(&place("a"), place("b"));
        assert!(inodes.named(&place("a")).is_none());
        assert_eq!(inodes.named(&place("b")).map(|i| i.ino), Some(a.ino));
        assert!(b.state().names.is_empty());
        inodes.remove_name(&place("b"));
        assert!(inodes.named(&place("b")).is_none() && a.state().names.is_empty());
        // Somebody else put another file there.
        inodes.look_up(place("c"), handle(b"a"), &attributes(7));
        let c = inodes.look_up(place("c"), handle(b"b"), &attributes(8));
        assert!(Arc::ptr_eq(&b, &c) && a.state().names.is_empty());
    }
}

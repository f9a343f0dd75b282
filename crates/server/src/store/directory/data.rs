//! Data of files: descriptors kept open, reading, writing, making stable.
//!
//! Descriptors stay open between calls, so that an error of write-back reaches the fsync of the
//! same descriptor (fsync(2)). At most [`MAX_OPEN`]; the one unused longest is closed first.
//! A file that was made here stays open for both directions whatever its mode becomes: without
//! root nothing else lets its maker write to a file of mode 0444 (open(2) does).
//!
//! What is open for writing cannot be executed on this machine (execve(2): ETXTBSY). So a file is
//! open for writing from its first WRITE to its first sync; one that is written to again, until
//! nobody has for [`WRITER_IDLE`] to twice that. Then a descriptor for reading takes its place,
//! which still holds the object and its errors of write-back.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use hashbrown::HashMap;
use lru::LruCache;
use parking_lot::{Condvar, Mutex, MutexGuard};
use rustix::fs::{Mode, fchmod};
use rustix::io::Errno;
use wire::nfs3::{fattr3, ftype3, nfsstat3, post_op_attr, stable_how};

use super::DirectoryStore;
use super::identity::{act_as, act_as_server};
use super::kernel::{may_access, proc_path, status_of};
use super::locate::PATH_BYTES;
use super::object::{Object, attributes};
use crate::store::permission::{may_read, may_write, mode_after_write};
use crate::store::{FILE_BYTES_MAX, READ_BYTES_MAX};
use crate::{Caller, Handle};

/// Times that data are read again because their file was on the move.
const READ_TRIES: usize = 16;
/// Files held open.
pub const MAX_OPEN: usize = 256;
/// Directories of which a descriptor is kept.
const MAX_FOLDERS: usize = 64;

/// How long a file is held open for writing that nobody writes to.
const WRITER_IDLE: Duration = Duration::from_millis(500);

/// What a descriptor is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// READ.
    Reading,
    /// WRITE and truncation.
    Writing,
    /// fsync, which any descriptor does.
    Syncing,
}

#[derive(Debug)]
struct Open {
    file: Arc<File>,
    reads: bool,
    writes: bool,
    used: u64,
    /// When it was last wanted for writing, and as of the last look of the thread.
    written: u64,
    looked_at: u64,
    /// It was written to after a sync: it stays open for writing beyond the next.
    again: bool,
}

/// Open files by handle, and directories of which a descriptor is kept.
#[derive(Debug)]
pub struct OpenFiles {
    files: HashMap<Handle, Open>,
    folders: LruCache<Handle, Arc<OwnedFd>>,
    uses: u64,
    has_writers: bool,
    ended: bool,
}

impl Default for OpenFiles {
    fn default() -> Self {
        OpenFiles {
            files: HashMap::new(),
            // Bounded by `keep_folder`.
            folders: LruCache::unbounded(),
            uses: 0,
            has_writers: false,
            ended: false,
        }
    }
}

/// Keeps an object's inode number its own while it is held.
#[derive(Debug)]
pub enum Held {
    /// Open for its data.
    File(#[allow(dead_code)] Arc<File>),
    /// To be looked at.
    Folder(#[allow(dead_code)] Arc<OwnedFd>),
}

impl OpenFiles {
    fn get(&mut self, handle: &Handle, wanted: Use) -> Option<Arc<File>> {
        self.uses += 1;
        let open = self.files.get_mut(handle)?;
        let serves = match wanted {
            Use::Reading => open.reads,
            Use::Writing => open.writes,
            Use::Syncing => true,
        };
        open.used = self.uses;
        if wanted == Use::Writing {
            open.written = self.uses;
        }
        serves.then(|| Arc::clone(&open.file))
    }

    /// A descriptor of the object, if there is one: so long its inode number is no other's.
    pub fn hold(&mut self, handle: &Handle) -> Option<Held> {
        if let Some(open) = self.files.get(handle) {
            return Some(Held::File(Arc::clone(&open.file)));
        }
        let folder = self.folders.get(handle)?;
        Some(Held::Folder(Arc::clone(folder)))
    }

    /// Keeps a directory's descriptor. (A file's would keep its room on the disk, should a local
    /// process remove it.)
    pub fn keep_folder(&mut self, handle: Handle, fd: Arc<OwnedFd>) {
        if self.folders.len() >= MAX_FOLDERS {
            self.folders.pop_lru();
        }
        self.folders.put(handle, fd);
    }

    fn put(&mut self, handle: Handle, file: Arc<File>, [reads, writes]: [bool; 2]) {
        if self.files.len() >= MAX_OPEN && !self.files.contains_key(&handle) {
            let oldest = self.files.iter().min_by_key(|(_, open)| open.used);
            if let Some(oldest) = oldest.map(|(handle, _)| *handle) {
                self.files.remove(&oldest);
            }
        }
        let used = self.uses;
        let open = Open {
            file,
            reads,
            writes,
            used,
            written: used,
            looked_at: 0,
            again: self.files.get(&handle).is_some_and(|before| before.again),
        };
        self.has_writers |= writes;
        self.files.insert(handle, open);
    }

    /// Closes a file that loses its last name, so that its room is freed.
    pub fn close(&mut self, handle: &Handle) {
        self.files.remove(handle);
        self.folders.pop(handle);
    }
}

/// Open files, and the thread that closes what is open for writing.
#[derive(Debug, Default)]
pub struct Files {
    open: Mutex<OpenFiles>,
    /// There is one again, or the end has come.
    writer: Condvar,
}

impl Files {
    pub fn lock(&self) -> MutexGuard<'_, OpenFiles> {
        self.open.lock()
    }

    /// Starts the thread; it ends by [`Files::end`].
    pub fn start() -> std::io::Result<(Arc<Self>, JoinHandle<()>)> {
        let files = Arc::<Self>::default();
        let watched = Arc::clone(&files);
        let thread = std::thread::Builder::new()
            .name("nfs-writers".to_owned())
            .spawn(move || watched.close_idle_writers())?;
        Ok((files, thread))
    }

    pub fn end(&self) {
        self.open.lock().ended = true;
        self.writer.notify_one();
    }

    fn close_idle_writers(&self) {
        loop {
            let mut open = self.open.lock();
            while !open.has_writers && !open.ended {
                self.writer.wait(&mut open);
            }
            if !open.ended {
                self.writer.wait_for(&mut open, WRITER_IDLE);
            }
            if open.ended {
                return;
            }
            let mut idle = Vec::new();
            open.has_writers = false;
            for (handle, one) in open.files.iter_mut().filter(|(_, one)| one.writes) {
                if one.written == one.looked_at {
                    one.again = false;
                    idle.push((*handle, Arc::clone(&one.file)));
                }
                one.looked_at = one.written;
            }
            drop(open);
            for (handle, file) in idle {
                self.only_read(&handle, &file);
            }
            let mut open = self.open.lock();
            open.has_writers |= open.files.values().any(|one| one.writes);
        }
    }

    /// A descriptor for reading takes the place of this one, if it can be had, and the other again.
    fn only_read(&self, handle: &Handle, file: &Arc<File>) {
        if !may_access(&**file, libc::W_OK) {
            return;
        }
        let Ok(reader) = File::open(proc_path(file)) else {
            return;
        };
        let mut open = self.open.lock();
        let same = |one: &&mut Open| Arc::ptr_eq(&one.file, file);
        let Some(one) = open.files.get_mut(handle).filter(same) else {
            return;
        };
        let writer = std::mem::replace(&mut one.file, Arc::new(reader));
        [one.reads, one.writes] = [true, false];
        drop(open);
        drop(writer);
    }

    /// What was written to a file is stable.
    pub fn synced(&self, handle: &Handle) {
        let mut open = self.open.lock();
        let first = |one: &&mut Open| one.writes && !one.again;
        let Some(one) = open.files.get_mut(handle).filter(first) else {
            return;
        };
        one.again = true;
        let file = Arc::clone(&one.file);
        drop(open);
        self.only_read(handle, &file);
    }
}

pub(super) fn errno(error: &std::io::Error) -> nfsstat3 {
    status_of(Errno::from_io_error(error).unwrap_or(Errno::IO))
}

impl DirectoryStore {
    /// The file behind an object, open for what it is wanted; for writing it is open for reading,
    /// too, where the file system lets it.
    pub(super) fn open_file(
        &self,
        (handle, object): (&Handle, &Object),
        wanted: Use,
    ) -> Result<Arc<File>, nfsstat3> {
        if !object.is_file() {
            return Err(match attributes(&object.stat).type_ {
                ftype3::NF3DIR => nfsstat3::NFS3ERR_ISDIR,
                _ => nfsstat3::NFS3ERR_INVAL,
            });
        }
        let mut open = self.open.lock();
        if let Some(file) = open.get(handle, wanted) {
            return Ok(file);
        }
        drop(open);
        let ways: &[[bool; 2]] = match wanted {
            Use::Reading => &[[true, false]],
            Use::Writing => &[[true, true], [false, true]],
            Use::Syncing => &[[true, false], [false, true]],
        };
        let path = proc_path(&object.fd);
        let mut refused = nfsstat3::NFS3ERR_IO;
        for way @ [reads, writes] in ways {
            match File::options().read(*reads).write(*writes).open(&path) {
                Ok(file) => return Ok(self.keep_open(*handle, file, *way)),
                Err(error) => refused = errno(&error),
            }
        }
        Err(refused)
    }

    /// Keeps a descriptor for the calls to come.
    pub(super) fn keep_open(&self, handle: Handle, file: File, way: [bool; 2]) -> Arc<File> {
        let file = Arc::new(file);
        let mut open = self.open.lock();
        let first = way[1] && !open.has_writers;
        open.put(handle, Arc::clone(&file), way);
        if first {
            self.open.writer.notify_one();
        }
        file
    }

    /// Checks the caller's right to the data; the owner always has it.
    pub(super) fn check_data(
        &self,
        caller: &Caller,
        object: &Object,
        write: bool,
    ) -> Result<(), nfsstat3> {
        let seen = attributes(&object.stat);
        let granted = if caller.uid == seen.uid || caller.uid == 0 {
            true
        } else if self.acts_as_caller {
            act_as(caller)?;
            let granted = if write {
                may_access(&object.fd, libc::W_OK)
            } else {
                may_access(&object.fd, libc::R_OK) || may_access(&object.fd, libc::X_OK)
            };
            act_as_server()?;
            granted
        } else if write {
            may_write(&seen, caller)
        } else {
            may_read(&seen, caller)
        };
        if granted {
            Ok(())
        } else {
            Err(nfsstat3::NFS3ERR_ACCES)
        }
    }

    /// What is read of a file, and its attributes afterwards. It lay in the export before and once
    /// more after the data were read: what was written to it only after it had left is not told.
    pub(super) fn read_located(
        &self,
        caller: &Caller,
        handle: &Handle,
        range: (u64, u32),
    ) -> Result<(Vec<u8>, fattr3), (nfsstat3, post_op_attr)> {
        let mut path = Vec::with_capacity(PATH_BYTES);
        for _ in 0..READ_TRIES {
            let located = self.locate_at(handle, &mut path);
            let object = located.map_err(|status| (status, None))?;
            let data = self.read_object(caller, (handle, &object), range);
            let data = data.map_err(|status| (status, object.now()))?;
            // At once or not at all: while one looks for it, it may come back.
            if let Some(after) = self.still_there(handle, (&object, &mut path)) {
                return Ok((data, attributes(&after.stat)));
            }
        }
        Err((nfsstat3::NFS3ERR_JUKEBOX, None))
    }

    fn read_object(
        &self,
        caller: &Caller,
        (handle, object): (&Handle, &Object),
        (offset, count): (u64, u32),
    ) -> Result<Vec<u8>, nfsstat3> {
        let file = self.open_file((handle, object), Use::Reading)?;
        self.check_data(caller, object, false)?;
        let wanted = count.min(READ_BYTES_MAX) as usize;
        let mut data: Vec<u8> = Vec::with_capacity(wanted);
        while data.len() < wanted && offset < FILE_BYTES_MAX {
            let at = offset.saturating_add(data.len() as u64);
            match rustix::io::pread(&*file, rustix::buffer::spare_capacity(&mut data), at) {
                Ok(0) => break,
                Ok(_) => {}
                Err(Errno::INTR) => {}
                Err(error) => return Err(status_of(error)),
            }
        }
        data.truncate(wanted);
        Ok(data)
    }

    /// Takes set-id bits away that a writer other than root takes away, be it of data or of the
    /// size.
    pub(super) fn drop_set_ids(
        &self,
        caller: &Caller,
        object: &Object,
        file: &File,
    ) -> Result<(), nfsstat3> {
        let seen = attributes(&object.stat);
        match mode_after_write(seen.mode, seen.gid, caller) {
            Some(mode) => fchmod(file, Mode::from_raw_mode(mode)).map_err(status_of),
            None => Ok(()),
        }
    }

    pub(super) fn write_file(&self, file: &File, offset: u64, data: &[u8]) -> Result<(), nfsstat3> {
        if offset
            .checked_add(data.len() as u64)
            .is_none_or(|end| end > FILE_BYTES_MAX)
        {
            return Err(nfsstat3::NFS3ERR_FBIG);
        }
        file.write_all_at(data, offset)
            .map_err(|error| errno(&error))
    }

    /// Makes data stable. On failure the verifier changes: whoever wrote unstable sends again.
    pub(super) fn make_stable(&self, file: &File, how: stable_how) -> Result<(), nfsstat3> {
        let done = match how {
            stable_how::UNSTABLE => Ok(()),
            stable_how::DATA_SYNC => file.sync_data(),
            stable_how::FILE_SYNC => file.sync_all(),
        };
        done.map_err(|error| {
            self.verifier.fetch_add(1, Ordering::AcqRel);
            errno(&error)
        })
    }
}

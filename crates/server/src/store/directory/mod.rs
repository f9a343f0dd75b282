//! The directory store: a folder of this machine, with nothing of the machine outside it.
//!
//! How objects are found and why nothing leaves the export: [`locate`]. Where the process is root,
//! each call acts with the caller's ids on its own thread ([`identity`]) and the kernel checks;
//! elsewhere mode bits are checked here and all files belong to the server's user. Handles hold
//! the kernel's own where that may be opened, elsewhere inode number and birth time; both survive
//! a restart ([`find`]).
//!
//! Stable means fsync: WRITE with DATA_SYNC and FILE_SYNC, COMMIT, and (unless switched off)
//! changes of names and attributes before their reply. The write verifier is the instance's, and
//! changes when an fsync fails. `wcc_data` is exact against other calls (a lock per object, of
//! [`LOCKS`]), not against local processes.
//!
//! Limits: needs openat2 (Linux 5.6) and /proc. Mount points inside the export are not entered.

mod data;
mod find;
mod identity;
mod kernel;
mod known;
mod list;
mod locate;
mod names;
mod object;

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use parking_lot::{Mutex, MutexGuard};
use rustix::fs::{FileType, Mode, OFlags, fstat, fstatfs, fstatvfs, makedev};
use wire::nfs3::{
    FSSTAT3resok, LINK3wcc, PATHCONF3resok, RENAME3wcc, createhow3, fattr3, nfsstat3, nfstime3,
    sattr3, stable_how, writeverf3,
};

use self::data::{Files, Use};
use self::find::Searches;
use self::kernel::{kernel_handle, may_access, open_kernel_handle, proc_path, status_of};
use self::known::Known;
use self::object::{Object, attributes};
use super::permission::{EXECUTE, READ, WRITE, access_bits, access_from};
use super::{
    Changed, Chunk, DirectorySink, Found, ListFrom, Listed, NAME_BYTES_MAX, NO_WCC, Payload, Place,
    ReadDone, Seen, Special, Store, StoreDescription, WriteDone, usual_pathconf, wcc_of, with,
};
use crate::{Caller, Handle};

/// Locks that objects share by inode number.
pub const LOCKS: usize = 128;
/// A new directory's mode if the client gave none.
const DIRECTORY_MODE: u32 = 0o755;

/// `TMPFS_MAGIC` (statfs(2)).
const TMPFS: rustix::fs::FsWord = 0x0102_1994;

/// How the store behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectoryOptions {
    /// Changes of names and attributes are stable before the reply (exports(5): `sync`).
    pub stable_names: bool,
    /// Use kernel handles where they can be used; false for tests of the other way.
    pub kernel_handles: bool,
    /// Marks the write verifier: another value at each start.
    pub instance: u64,
}

/// The store.
#[derive(Debug)]
pub struct DirectoryStore {
    root: Arc<OwnedFd>,
    mount: File,
    root_inode: u64,
    device: u64,
    by_kernel_handle: bool,
    acts_as_caller: bool,
    stable_names: bool,
    /// There is no device to wait for (tmpfs).
    in_memory: bool,
    known: Mutex<Known>,
    searches: Mutex<Searches>,
    open: Arc<Files>,
    closer: Option<JoinHandle<()>>,
    locks: Vec<Mutex<()>>,
    verifier: AtomicU64,
}

impl DirectoryStore {
    /// Serves the folder `path`.
    pub fn open(path: &Path, options: DirectoryOptions) -> std::io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(path, flags, Mode::empty())?;
        let mount = File::open(proc_path(&root))?;
        let stat = fstat(&root)?;
        let kernel = || {
            let (bytes, length) = kernel_handle(&root)?;
            open_kernel_handle(&mount, bytes.get(..length).unwrap_or_default())
        };
        let by_kernel_handle = options.kernel_handles && kernel().is_ok();
        let (open, closer) = Files::start()?;
        let store = DirectoryStore {
            root_inode: stat.st_ino,
            device: stat.st_dev,
            by_kernel_handle,
            acts_as_caller: identity::can_act_as_others(),
            stable_names: options.stable_names,
            in_memory: fstatfs(&mount)?.f_type == TMPFS,
            known: Mutex::default(),
            searches: Mutex::default(),
            open,
            closer: Some(closer),
            locks: (0..LOCKS).map(|_| Mutex::new(())).collect(),
            verifier: AtomicU64::new(options.instance),
            root: Arc::new(root),
            mount,
        };
        // Fails here rather than at the first call where openat2 is missing or forbidden.
        let here = store
            .root_object()
            .and_then(|root| store.child(&root, b"."));
        match here {
            Ok(_) => Ok(store),
            Err(nfsstat3::NFS3ERR_NOTSUPP) => Err(std::io::ErrorKind::Unsupported.into()),
            Err(_) => Err(std::io::ErrorKind::PermissionDenied.into()),
        }
    }

    fn lock(&self, inode: u64) -> Option<MutexGuard<'_, ()>> {
        let lock = self.locks.get((inode % LOCKS as u64) as usize)?;
        Some(lock.lock())
    }

    fn verifier(&self) -> writeverf3 {
        self.verifier.load(Ordering::Acquire).to_be_bytes()
    }

    /// Runs a change under the object's lock, with its attributes before and after.
    fn change<T>(
        &self,
        handle: &Handle,
        action: impl FnOnce(&Object) -> Result<T, nfsstat3>,
    ) -> Changed<T> {
        let guard = self.lock(handle.object);
        let object = self.locate(handle).map_err(|status| (status, NO_WCC))?;
        let before = attributes(&object.stat);
        let result = action(&object);
        let after = object.now();
        drop(guard);
        with(result, wcc_of(Some(&before), after))
    }

    fn see<T>(
        &self,
        handle: &Handle,
        action: impl FnOnce(&Object) -> Result<T, nfsstat3>,
    ) -> Seen<T> {
        let object = self.locate(handle).map_err(|status| (status, None))?;
        let result = action(&object);
        with(result, object.now())
    }
}

impl Drop for DirectoryStore {
    fn drop(&mut self) {
        self.open.end();
        // With it go the last descriptors: what lies below may be unmounted.
        let _ = self.closer.take().map(JoinHandle::join);
    }
}

fn special(special: Special) -> (FileType, u64) {
    match special {
        Special::CharacterDevice(device) => (
            FileType::CharacterDevice,
            makedev(device.specdata1, device.specdata2),
        ),
        Special::BlockDevice(device) => (
            FileType::BlockDevice,
            makedev(device.specdata1, device.specdata2),
        ),
        Special::Socket => (FileType::Socket, 0),
        Special::Fifo => (FileType::Fifo, 0),
    }
}

impl Store for DirectoryStore {
    fn description(&self) -> StoreDescription {
        StoreDescription {
            kind: "directory",
            settings: vec![
                ("kernel_handles", self.by_kernel_handle.to_string()),
                ("acts_as_caller", self.acts_as_caller.to_string()),
                ("stable_names", self.stable_names.to_string()),
            ],
        }
    }
    fn may_block(&self) -> bool {
        true
    }
    fn names_block(&self) -> bool {
        self.stable_names && !self.in_memory
    }
    fn root(&self) -> Handle {
        Handle::new(self.root_inode, 0)
    }
    fn path(&self, object: u64) -> Option<Vec<u8>> {
        let mut path = Vec::new();
        let mut known = self.known.lock();
        let found = known.path(object, 0, self.root_inode, &mut path);
        found.then(|| [b"/", &*path].concat())
    }
    fn getattr(&self, object: &Handle) -> Result<fattr3, nfsstat3> {
        Ok(attributes(&self.locate(object)?.stat))
    }
    fn setattr(
        &self,
        caller: &Caller,
        object: &Handle,
        new: &sattr3,
        guard: Option<nfstime3>,
    ) -> Changed<()> {
        let handle = object;
        self.change(handle, |object| {
            let now = attributes(&object.stat);
            if guard.is_some_and(|ctime| ctime != now.ctime) {
                return Err(nfsstat3::NFS3ERR_NOT_SYNC);
            }
            self.set_attributes(caller, (handle, object), new)
        })
    }
    fn lookup(&self, caller: &Caller, (dir, name): Place<'_>) -> Seen<Found> {
        self.see(dir, |dir| {
            if !dir.is_directory() {
                return Err(nfsstat3::NFS3ERR_NOTDIR);
            }
            self.act_in(caller, dir, EXECUTE)?;
            match name {
                b"." => self.found(dir, None),
                b".." => self.found(&self.parent(dir)?, None),
                _ => self.found(&self.child(dir, name)?, Some((dir, name))),
            }
        })
    }
    fn access(&self, caller: &Caller, object: &Handle, asked: u32) -> Seen<u32> {
        self.see(object, |object| {
            if !self.acts_as_caller || caller.uid == 0 {
                return Ok(access_bits(&attributes(&object.stat), caller, asked));
            }
            identity::act_as(caller)?;
            let rights = [
                (libc::R_OK, READ),
                (libc::W_OK, WRITE),
                (libc::X_OK, EXECUTE),
            ];
            let granted = rights
                .iter()
                .filter(|(mode, _)| may_access(&object.fd, *mode))
                .fold(0, |granted, (_, bit)| granted | bit);
            Ok(access_from(object.is_directory(), granted) & asked)
        })
    }
    fn readlink(&self, _: &Caller, link: &Handle, text: &mut Vec<u8>) -> Seen<()> {
        self.see(link, |link| {
            if FileType::from_raw_mode(link.stat.st_mode) != FileType::Symlink {
                return Err(nfsstat3::NFS3ERR_INVAL);
            }
            let target = rustix::fs::readlinkat(&link.fd, c"", Vec::new()).map_err(status_of)?;
            text.extend_from_slice(target.as_bytes());
            Ok(())
        })
    }
    fn read(
        &self,
        caller: &Caller,
        file: &Handle,
        offset: u64,
        count: u32,
        payload: &mut Payload,
    ) -> Seen<ReadDone> {
        let (data, seen) = self.read_located(caller, file, (offset, count))?;
        let end = offset.saturating_add(data.len() as u64);
        let done = ReadDone {
            count: data.len() as u32,
            eof: end >= seen.size,
        };
        payload.push(Chunk::Buffer(data));
        Ok((done, Some(seen)))
    }
    fn write(
        &self,
        caller: &Caller,
        file: &Handle,
        offset: u64,
        data: &[u8],
        stable: stable_how,
    ) -> Changed<WriteDone> {
        // Taken before: a failure while this runs is told by a verifier that differs.
        let verifier = self.verifier();
        let (open, wcc) = self.change(file, |object| {
            let open = self.open_file((file, object), Use::Writing)?;
            self.check_data(caller, object, true)?;
            self.drop_set_ids(caller, object, &open)?;
            self.write_file(&open, offset, data)?;
            Ok(open)
        })?;
        // Outside the lock: others may write while this waits for the device.
        let done = WriteDone {
            count: u32::try_from(data.len()).unwrap_or(u32::MAX),
            committed: stable,
            verifier,
        };
        let stored = self.make_stable(&open, stable);
        if stored.is_ok() && stable != stable_how::UNSTABLE {
            self.open.synced(file);
        }
        with(stored.map(|()| done), wcc)
    }
    fn create(&self, caller: &Caller, (dir, name): Place<'_>, how: &createhow3) -> Changed<Found> {
        self.change(dir, |dir| self.create_in(caller, (dir, name), how))
    }
    fn mkdir(&self, caller: &Caller, (dir, name): Place<'_>, new: &sattr3) -> Changed<Found> {
        self.change(dir, |dir| {
            self.act_in(caller, dir, WRITE | EXECUTE)?;
            let mode = new.mode.unwrap_or(DIRECTORY_MODE);
            // With its mode at once: to set it later may take S_ISGID away (`finish_new`).
            let at_first = Mode::from_raw_mode(mode & 0o777);
            rustix::fs::mkdirat(&dir.fd, name, at_first).map_err(status_of)?;
            let new = sattr3 {
                mode: Some(mode),
                ..*new
            };
            self.finish_new(caller, (dir, name), None, &new)
        })
    }
    fn symlink(&self, caller: &Caller, at: Place<'_>, new: &sattr3, text: &[u8]) -> Changed<Found> {
        let (dir, name) = at;
        self.change(dir, |dir| {
            self.act_in(caller, dir, WRITE | EXECUTE)?;
            rustix::fs::symlinkat(text, &dir.fd, name).map_err(status_of)?;
            let new = sattr3 { size: None, ..*new };
            self.finish_new(caller, (dir, name), None, &new)
        })
    }
    fn mknod(&self, caller: &Caller, at: Place<'_>, new: &sattr3, kind: Special) -> Changed<Found> {
        let (dir, name) = at;
        self.change(dir, |dir| {
            self.act_in(caller, dir, WRITE | EXECUTE)?;
            let (kind, device) = special(kind);
            let mode = Mode::RUSR | Mode::WUSR;
            rustix::fs::mknodat(&dir.fd, name, kind, mode, device).map_err(status_of)?;
            self.finish_new(caller, (dir, name), None, new)
        })
    }
    fn remove(&self, caller: &Caller, (dir, name): Place<'_>) -> Changed<()> {
        self.change(dir, |dir| self.unlink_in(caller, (dir, name), false))
    }
    fn rmdir(&self, caller: &Caller, (dir, name): Place<'_>) -> Changed<()> {
        self.change(dir, |dir| self.unlink_in(caller, (dir, name), true))
    }
    fn rename(
        &self,
        caller: &Caller,
        (from, from_name): Place<'_>,
        (to, to_name): Place<'_>,
    ) -> (nfsstat3, RENAME3wcc) {
        let nothing = RENAME3wcc {
            fromdir_wcc: NO_WCC,
            todir_wcc: NO_WCC,
        };
        // Two locks in the order of their places, one if they are the same.
        let (one, other) = (from.object % LOCKS as u64, to.object % LOCKS as u64);
        let _low = self.lock(one.min(other));
        let _high = if one == other {
            None
        } else {
            self.lock(one.max(other))
        };
        let (from, to) = match (self.locate(from), self.locate(to)) {
            (Ok(from), Ok(to)) => (from, to),
            (Err(status), _) | (_, Err(status)) => return (status, nothing),
        };
        let before = [&from, &to].map(|object| attributes(&object.stat));
        let done = self.rename_in(caller, (&from, from_name), (&to, to_name));
        let both = RENAME3wcc {
            fromdir_wcc: wcc_of(Some(&before[0]), from.now()),
            todir_wcc: wcc_of(Some(&before[1]), to.now()),
        };
        (done.err().unwrap_or(nfsstat3::NFS3_OK), both)
    }
    fn link(&self, caller: &Caller, file: &Handle, (dir, name): Place<'_>) -> (nfsstat3, LINK3wcc) {
        let wcc = |file_attributes, linkdir_wcc| LINK3wcc {
            file_attributes,
            linkdir_wcc,
        };
        let file = match self.locate(file) {
            Ok(file) => file,
            Err(status) => return (status, wcc(None, NO_WCC)),
        };
        match self.change(dir, |dir| self.link_in(caller, &file, (dir, name))) {
            Ok(((), directory)) => (nfsstat3::NFS3_OK, wcc(file.now(), directory)),
            Err((status, directory)) => (status, wcc(file.now(), directory)),
        }
    }
    fn list(
        &self,
        caller: &Caller,
        dir: &Handle,
        from: ListFrom,
        sink: &mut dyn DirectorySink,
    ) -> Listed {
        let listed = self.see(dir, |object| {
            self.list_located(caller, (dir, object), from, sink)
        });
        listed.map(|(end, _)| end)
    }
    fn fsstat(&self, object: &Handle) -> Result<FSSTAT3resok, nfsstat3> {
        let object = self.locate(object)?;
        let stat = fstatvfs(&self.mount).map_err(status_of)?;
        Ok(FSSTAT3resok {
            obj_attributes: object.now(),
            tbytes: stat.f_blocks * stat.f_frsize,
            fbytes: stat.f_bfree * stat.f_frsize,
            abytes: stat.f_bavail * stat.f_frsize,
            tfiles: stat.f_files,
            ffiles: stat.f_ffree,
            afiles: stat.f_favail,
            invarsec: 0,
        })
    }
    fn pathconf(&self, object: &Handle) -> Result<PATHCONF3resok, nfsstat3> {
        let longest = fstatvfs(&self.mount).map_err(status_of)?.f_namemax;
        // Longer ones than the protocol layer takes are of no use.
        let name_max = longest.min(NAME_BYTES_MAX as u64) as u32;
        let usual = usual_pathconf(self.getattr(object)?);
        Ok(PATHCONF3resok { name_max, ..usual })
    }
    fn commit(&self, _: &Caller, file: &Handle, _: u64, _: u32) -> Changed<writeverf3> {
        let verifier = self.verifier();
        let (open, wcc) =
            self.change(file, |object| self.open_file((file, object), Use::Syncing))?;
        let stable = self.make_stable(&open, stable_how::FILE_SYNC);
        if stable.is_ok() {
            self.open.synced(file);
        }
        with(stable.map(|()| verifier), wcc)
    }
}

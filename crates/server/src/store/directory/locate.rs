//! From handles to open objects and back, never outside the export.
//!
//! Objects are opened with O_PATH: nothing is followed, read or waited for. Names are resolved one
//! at a time by openat2 with RESOLVE_BENEATH, NO_SYMLINKS, NO_MAGICLINKS and NO_XDEV. A directory
//! that a handle names must have the root above it at the time of the call: one that was moved out
//! is stale, and with it all names in it. A file that was moved out keeps answering to its handle,
//! as an open descriptor would (Linux: `no_subtree_check`).

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::PoisonError;

use measure::clock::{Clock, MonotonicClock};
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, RawDir, ResolveFlags, Stat, StatxFlags, fstat, openat,
    openat2, statx,
};
use rustix::io::Errno;
use wire::nfs3::{fattr3, ftype3, nfsstat3, nfstime3, specdata3};

use super::DirectoryStore;
use super::identity::act_as_server;
use super::kernel::{kernel_handle, open_kernel_handle, proc_path, status_of};
use super::known::{MAX_SEARCHED, SEARCH_PAUSE_NS};
use crate::Handle;
use crate::store::Found;

const BENEATH: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::NO_XDEV);
/// How objects are opened to look at them.
const LOOK: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// Deepest directory.
const MAX_DEPTH: usize = 512;
/// Tries to open by kernel handle while the kernel is out of memory, or says so.
const MAX_TRIES: usize = 1000;
const STALE: nfsstat3 = nfsstat3::NFS3ERR_STALE;

/// An object of the export, held open.
#[derive(Debug)]
pub struct Object {
    pub fd: OwnedFd,
    pub stat: Stat,
}

impl Object {
    pub fn is_directory(&self) -> bool {
        FileType::from_raw_mode(self.stat.st_mode) == FileType::Directory
    }
    pub fn is_file(&self) -> bool {
        FileType::from_raw_mode(self.stat.st_mode) == FileType::RegularFile
    }
    /// Attributes now.
    pub fn now(&self) -> Option<fattr3> {
        fstat(&self.fd).ok().map(|stat| attributes(&stat))
    }
}

fn time(seconds: i64, nanoseconds: u64) -> nfstime3 {
    nfstime3 {
        // 32 bits on the wire: before 1970 and after 2106 become the ends.
        seconds: u32::try_from(seconds.max(0)).unwrap_or(u32::MAX),
        nseconds: u32::try_from(nanoseconds).unwrap_or(0),
    }
}

/// Attributes on the wire.
pub fn attributes(stat: &Stat) -> fattr3 {
    let type_ = match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => ftype3::NF3DIR,
        FileType::Symlink => ftype3::NF3LNK,
        FileType::BlockDevice => ftype3::NF3BLK,
        FileType::CharacterDevice => ftype3::NF3CHR,
        FileType::Socket => ftype3::NF3SOCK,
        FileType::Fifo => ftype3::NF3FIFO,
        _ => ftype3::NF3REG,
    };
    fattr3 {
        type_,
        mode: stat.st_mode & 0o7777,
        nlink: u32::try_from(stat.st_nlink).unwrap_or(u32::MAX),
        uid: stat.st_uid,
        gid: stat.st_gid,
        size: u64::try_from(stat.st_size).unwrap_or(0),
        used: u64::try_from(stat.st_blocks).unwrap_or(0) * 512,
        rdev: specdata3 {
            specdata1: rustix::fs::major(stat.st_rdev),
            specdata2: rustix::fs::minor(stat.st_rdev),
        },
        fsid: stat.st_dev,
        fileid: stat.st_ino,
        atime: time(stat.st_atime, stat.st_atime_nsec),
        mtime: time(stat.st_mtime, stat.st_mtime_nsec),
        ctime: time(stat.st_ctime, stat.st_ctime_nsec),
    }
}

/// The birth time, which tells objects apart that had the same inode number; 0 if unknown.
fn birth_ns(fd: impl AsFd) -> u64 {
    let Ok(times) = statx(fd, c"", AtFlags::EMPTY_PATH, StatxFlags::BTIME) else {
        return 0;
    };
    let birth = times.stx_btime;
    (birth.tv_sec as u64).wrapping_mul(1_000_000_000) + u64::from(birth.tv_nsec)
}

impl DirectoryStore {
    /// Opens what a handle names. The thread acts as the server afterwards.
    pub(super) fn locate(&self, handle: &Handle) -> Result<Object, nfsstat3> {
        if self.acts_as_caller {
            act_as_server()?;
        }
        if (handle.object, handle.generation) == (self.root_inode, 0) {
            return self.root_object();
        }
        let object = if handle.extra().is_empty() {
            self.locate_by_name(handle)?
        } else {
            let fd = self.locate_by_kernel_handle(handle)?;
            let stat = fstat(&fd).map_err(status_of)?;
            Object { fd, stat }
        };
        let same = object.stat.st_ino == handle.object && object.stat.st_dev == self.device;
        if !same || object.stat.st_nlink == 0 {
            return Err(STALE);
        }
        if object.is_directory() && !self.contains(&object) {
            return Err(STALE);
        }
        Ok(object)
    }

    pub(super) fn root_object(&self) -> Result<Object, nfsstat3> {
        let fd = self
            .root
            .try_clone()
            .map_err(|_| nfsstat3::NFS3ERR_JUKEBOX)?;
        let stat = fstat(&fd).map_err(status_of)?;
        Ok(Object { fd, stat })
    }

    /// True if the root is the directory itself or one above it.
    pub(super) fn contains(&self, dir: &Object) -> bool {
        let up = |fd: &OwnedFd| openat(fd, c"..", LOOK | OFlags::DIRECTORY, Mode::empty());
        let (mut at, mut inode) = (None, dir.stat.st_ino);
        for _ in 0..MAX_DEPTH {
            if inode == self.root_inode {
                return true;
            }
            let Ok(above) = up(at.as_ref().unwrap_or(&dir.fd)) else {
                return false;
            };
            match fstat(&above) {
                Ok(stat) if stat.st_dev == self.device && stat.st_ino != inode => {
                    inode = stat.st_ino;
                }
                _ => return false,
            }
            at = Some(above);
        }
        false
    }

    /// Opens a name in a directory, acting as whoever the thread acts as.
    pub(super) fn child(&self, dir: &Object, name: &[u8]) -> Result<Object, nfsstat3> {
        let fd = openat2(&dir.fd, name, LOOK, Mode::empty(), BENEATH).map_err(|error| {
            match error {
                // A mount point: another file system, not exported.
                Errno::XDEV => nfsstat3::NFS3ERR_ACCES,
                error => status_of(error),
            }
        })?;
        let stat = fstat(&fd).map_err(status_of)?;
        Ok(Object { fd, stat })
    }

    /// The directory above, the root being its own.
    pub(super) fn parent(&self, dir: &Object) -> Result<Object, nfsstat3> {
        if dir.stat.st_ino == self.root_inode {
            return self.root_object();
        }
        let fd =
            openat(&dir.fd, c"..", LOOK | OFlags::DIRECTORY, Mode::empty()).map_err(status_of)?;
        let stat = fstat(&fd).map_err(status_of)?;
        let parent = Object { fd, stat };
        if self.acts_as_caller {
            act_as_server()?;
        }
        if self.contains(&parent) {
            Ok(parent)
        } else {
            Err(STALE)
        }
    }

    /// Handle and attributes of a name's object.
    pub(super) fn found(
        &self,
        object: &Object,
        place: Option<(&Object, &[u8])>,
    ) -> Result<Found, nfsstat3> {
        Ok(Found {
            handle: self.handle_of(object, place)?,
            attributes: attributes(&object.stat),
        })
    }

    fn handle_of(
        &self,
        object: &Object,
        place: Option<(&Object, &[u8])>,
    ) -> Result<Handle, nfsstat3> {
        let inode = object.stat.st_ino;
        if inode == self.root_inode {
            return Ok(Handle::new(inode, 0));
        }
        if self.by_kernel_handle {
            let bytes = kernel_handle(&object.fd).map_err(status_of)?;
            return Handle::with_extra(inode, 0, &bytes).ok_or(nfsstat3::NFS3ERR_SERVERFAULT);
        }
        if let Some((dir, name)) = place {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            known.add(inode, dir.stat.st_ino, name);
        }
        // Never 0: that is the root's.
        Ok(Handle::new(inode, birth_ns(&object.fd).max(1)))
    }

    fn locate_by_kernel_handle(&self, handle: &Handle) -> Result<OwnedFd, nfsstat3> {
        let mut tries = 0;
        loop {
            match open_kernel_handle(&self.mount, handle.extra()) {
                // The kernel says so, too, while another file is getting this inode number (its
                // `iget_locked` has one answer for both). "Later" would cost the client seconds.
                Err(Errno::NOMEM) if tries < MAX_TRIES => {
                    tries += 1;
                    std::thread::yield_now();
                }
                Err(Errno::PERM | Errno::NOENT | Errno::INVAL) => return Err(STALE),
                other => return other.map_err(status_of),
            }
        }
    }

    fn locate_by_name(&self, handle: &Handle) -> Result<Object, nfsstat3> {
        if let Some(object) = self.try_names(handle) {
            return Ok(object);
        }
        if self.search_is_due() {
            self.search();
            if let Some(object) = self.try_names(handle) {
                return Ok(object);
            }
        }
        Err(STALE)
    }

    fn try_names(&self, handle: &Handle) -> Option<Object> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let paths = known.paths(handle.object, self.root_inode);
        drop(known);
        paths.into_iter().find_map(|path| {
            let fd = openat2(&self.root, path, LOOK, Mode::empty(), BENEATH).ok()?;
            let stat = fstat(&fd).ok()?;
            let same = stat.st_ino == handle.object && birth_ns(&fd).max(1) == handle.generation;
            same.then_some(Object { fd, stat })
        })
    }

    fn search_is_due(&self) -> bool {
        let now_ns = MonotonicClock.now_ns();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let due = known
            .searched_ns
            .is_none_or(|at| now_ns.saturating_sub(at) > SEARCH_PAUSE_NS);
        if due {
            known.searched_ns = Some(now_ns);
        }
        due
    }

    /// Notes the names of the whole export.
    fn search(&self) {
        // Paths, not descriptors: a wide tree has more directories than a process may open.
        let mut directories = vec![b".".to_vec()];
        let mut looked_at = 0;
        let mut buffer = Vec::with_capacity(32 << 10);
        while let Some(path) = directories.pop() {
            let flags = LOOK | OFlags::DIRECTORY;
            let opened = openat2(&self.root, &*path, flags, Mode::empty(), BENEATH);
            let Some((fd, stat)) = opened.ok().and_then(|fd| fstat(&fd).ok().map(|s| (fd, s)))
            else {
                continue;
            };
            let dir = Object { fd, stat };
            let Ok(listing) = File::open(proc_path(&dir.fd)) else {
                continue;
            };
            let mut entries = RawDir::new(&listing, buffer.spare_capacity_mut());
            while let Some(Ok(entry)) = entries.next() {
                let name = entry.file_name().to_bytes();
                looked_at += 1;
                if looked_at > MAX_SEARCHED {
                    return;
                }
                if matches!(name, b"." | b"..") {
                    continue;
                }
                let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
                known.add(entry.ino(), dir.stat.st_ino, name);
                drop(known);
                if entry.file_type() == FileType::Directory {
                    directories.push([&path, name].join(&b'/'));
                }
            }
        }
    }
}

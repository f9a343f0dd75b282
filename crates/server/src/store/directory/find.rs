//! Where no name that was seen leads to a handle's object: after a restart, after a local process
//! renamed something, for an object moved out.
//!
//! Where kernel handles may be opened, the kernel says whether the object is there at all, and
//! where: its own path of it (/proc/self/fd) is one more claim, opened beneath the root as any
//! other. That path is missing for a file of which the kernel has no name in memory, and may be
//! another than the one inside for a file of several names. Then, and where there are no kernel
//! handles, the whole export is searched and all its names are noted.
//!
//! NFS3ERR_STALE is said only of what is proved to be gone or outside: by the kernel, or by a
//! search that began after the call did. Searches are bounded ([`Searches`]); a call that would
//! need one more is told to come later (NFS3ERR_JUKEBOX).

use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use measure::clock::{Clock, MonotonicClock, RunDelay};
use rustix::fs::{FileType, Mode, RawDir, ResolveFlags, Stat, fstat, openat2};
use rustix::io::Errno;
use wire::nfs3::nfsstat3;

use super::DirectoryStore;
use super::kernel::{open_kernel_handle, proc_path, status_of};
use super::known::MAX_NAMES;
use super::object::{LOOK, Object, open_below};
use crate::Handle;

/// Searches for one object, before a client is told to ask again.
const FIND_TRIES: usize = 4;
/// Tries to open by kernel handle while the kernel is out of memory, or says so.
const MAX_TRIES: usize = 1000;
/// Times that the kernel's path of an object is followed while local processes rename it.
const MAX_CHASES: usize = 64;
/// Directory entries that one search looks at.
const MAX_SEARCHED: usize = 4 << 20;
/// Searches may take this part of the time: one in so many,
const SHARE: u64 = 5;
/// and so much at once beyond it, nanoseconds.
const BURST_NS: u64 = 100_000_000;
/// Room for the kernel's directory entries, bytes.
const LISTING_BYTES: usize = 32 << 10;
const STALE: nfsstat3 = nfsstat3::NFS3ERR_STALE;

/// What searches took. Clients with handles of what is not there could ask for one after the
/// other; whoever has to wait for another's search looks again before it makes its own.
#[derive(Debug, Default)]
pub struct Searches {
    debt_ns: u64,
    at_ns: u64,
}

impl Searches {
    /// True if one may begin now.
    fn may_begin(&mut self, now_ns: u64) -> bool {
        let paid_ns = now_ns.saturating_sub(self.at_ns) / SHARE;
        self.debt_ns = self.debt_ns.saturating_sub(paid_ns);
        self.at_ns = now_ns;
        self.debt_ns <= BURST_NS
    }

    fn ended(&mut self, took_ns: u64) {
        self.debt_ns = self.debt_ns.saturating_add(took_ns);
    }
}

/// What a search saw of the number looked for: paths, and the room it used.
#[derive(Default)]
struct Search {
    inode: u64,
    paths: Vec<Vec<u8>>,
    looked_at: usize,
}

/// The part of a path below a folder's own.
fn below<'p>(top: &[u8], path: &'p [u8]) -> Option<&'p [u8]> {
    let rest = path.strip_prefix(top)?;
    let rest = if top == b"/" {
        rest
    } else {
        rest.strip_prefix(b"/")?
    };
    Some(rest).filter(|rest| !rest.is_empty())
}

impl DirectoryStore {
    /// Finds the object of a handle to which no known name leads.
    pub(super) fn find(&self, handle: &Handle) -> Result<Object, nfsstat3> {
        let mut found = self.find_once(handle);
        for _ in 1..FIND_TRIES {
            // What a search saw was gone when it was looked at: another file had its number, say.
            if !matches!(found, Err(nfsstat3::NFS3ERR_JUKEBOX)) {
                break;
            }
            found = self.find_once(handle);
        }
        found
    }

    fn find_once(&self, handle: &Handle) -> Result<Object, nfsstat3> {
        let known = self.known.lock();
        if known.is_gone((handle.object, handle.generation)) {
            return Err(STALE);
        }
        drop(known);
        if let Some(object) = self.by_kernel_path(handle)? {
            return Ok(object);
        }
        let mut searches = self.searches.lock();
        if let Some(object) = self.by_known_names(handle, &mut Vec::new()) {
            return Ok(object);
        }
        if !searches.may_begin(MonotonicClock.now_ns()) {
            return Err(nfsstat3::NFS3ERR_JUKEBOX);
        }
        // What it waits for a processor, on a busy machine, is not its own.
        let delay = RunDelay::of_this_thread();
        let waited_ns = || delay.waited_ns().unwrap_or(0);
        let (before_ns, begun_ns) = (waited_ns(), MonotonicClock.now_ns());
        let seen = self.search(handle.object);
        let took_ns = MonotonicClock.now_ns().saturating_sub(begun_ns);
        searches.ended(took_ns.saturating_sub(waited_ns().saturating_sub(before_ns)));
        drop(searches);
        let mut moved = false;
        for path in &seen {
            match open_below(&self.root, path) {
                Ok(object) if self.is_meant(handle, &object, false) => return Ok(object),
                Ok(_) => {}
                Err(_) => moved = true,
            }
        }
        // What was renamed while the search went by.
        if let Some(object) = self.by_known_names(handle, &mut Vec::new()) {
            return Ok(object);
        }
        match self.by_kernel_path(handle)? {
            Some(object) => Ok(object),
            None if moved => Err(nfsstat3::NFS3ERR_JUKEBOX),
            None => Err(STALE),
        }
    }

    /// The object where the kernel's own path of it leads; `None` if that proves nothing, or if
    /// there are no kernel handles.
    fn by_kernel_path(&self, handle: &Handle) -> Result<Option<Object>, nfsstat3> {
        if !self.by_kernel_handle || handle.extra().is_empty() {
            return Ok(None);
        }
        let path_of = |fd: &OwnedFd| {
            let path = rustix::fs::readlink(proc_path(fd), Vec::new());
            path.map(|path| path.into_bytes())
        };
        for _ in 0..MAX_CHASES {
            let fd = self.open_kernel_handle(handle)?;
            let stat = fstat(&fd).map_err(status_of)?;
            let same = stat.st_ino == handle.object && stat.st_dev == self.device;
            if !same || stat.st_nlink == 0 {
                return Err(STALE);
            }
            let (Ok(top), Ok(path), Ok(again)) =
                (path_of(&self.root), path_of(&fd), path_of(&self.root))
            else {
                return Ok(None);
            };
            if top != again {
                continue;
            }
            let Some(inside) = below(&top, &path) else {
                return self.outside(handle, &stat, &path);
            };
            match open_below(&self.root, inside) {
                Ok(object) if self.is_meant(handle, &object, false) => {
                    self.note(inside);
                    return Ok(Some(object));
                }
                // Something is mounted over it, or this name of it has been removed.
                Err(Errno::XDEV) => return Ok(None),
                _ if path.ends_with(b" (deleted)") => return Ok(None),
                // Renamed between two looks.
                _ => {}
            }
        }
        Err(nfsstat3::NFS3ERR_JUKEBOX)
    }

    fn open_kernel_handle(&self, handle: &Handle) -> Result<OwnedFd, nfsstat3> {
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

    /// The kernel's path is none of the export's. That settles it for a directory, which has one
    /// name, and for a file of one name if the path is real: the kernel has none for a file that it
    /// found by number alone.
    fn outside(
        &self,
        handle: &Handle,
        stat: &Stat,
        path: &[u8],
    ) -> Result<Option<Object>, nfsstat3> {
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            return Err(STALE);
        }
        let links = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let there = openat2(rustix::fs::CWD, path, LOOK, Mode::empty(), links);
        let is_there = there.is_ok_and(|fd| {
            fstat(&fd).is_ok_and(|found| {
                (found.st_ino, found.st_dev, found.st_nlink) == (stat.st_ino, stat.st_dev, 1)
            }) && self.is_same(handle, &fd)
        });
        if is_there { Err(STALE) } else { Ok(None) }
    }

    /// Notes the names on a path that was just gone.
    fn note(&self, path: &[u8]) {
        let (mut at, mut dir) = (Arc::clone(&self.root), self.root_inode);
        for name in path.split(|byte| *byte == b'/') {
            let Ok(object) = open_below(&at, name) else {
                return;
            };
            let mut known = self.known.lock();
            known.add(object.stat.st_ino, dir, name);
            drop(known);
            (at, dir) = (object.fd, object.stat.st_ino);
        }
    }

    /// Notes the names of the whole export; the paths of those with this inode number.
    fn search(&self, inode: u64) -> Vec<Vec<u8>> {
        let mut search = Search {
            inode,
            ..Search::default()
        };
        // Paths, not descriptors: a wide tree has more directories than a process may open.
        let mut directories = vec![Vec::new()];
        let mut buffer = Vec::with_capacity(LISTING_BYTES);
        while let Some(path) = directories.pop() {
            if search.looked_at > MAX_SEARCHED {
                break;
            }
            let dir = match &*path {
                [] => self.root_object().ok(),
                path => open_below(&self.root, path).ok(),
            };
            if let Some(dir) = dir.filter(|dir| dir.stat.st_dev == self.device) {
                self.search_in((&dir, &path), &mut buffer, &mut directories, &mut search);
            }
        }
        search.paths
    }

    fn search_in(
        &self,
        (dir, path): (&Object, &[u8]),
        buffer: &mut Vec<u8>,
        directories: &mut Vec<Vec<u8>>,
        search: &mut Search,
    ) {
        let Ok(listing) = File::open(proc_path(&dir.fd)) else {
            return;
        };
        let mut entries = RawDir::new(&listing, buffer.spare_capacity_mut());
        while let Some(Ok(entry)) = entries.next() {
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            search.looked_at += 1;
            if search.looked_at > MAX_SEARCHED {
                return;
            }
            let mut known = self.known.lock();
            known.add(entry.ino(), dir.stat.st_ino, name);
            drop(known);
            let whole = || match path {
                [] => name.to_vec(),
                path => [path, name].join(&b'/'),
            };
            if entry.ino() == search.inode && search.paths.len() < MAX_NAMES {
                search.paths.push(whole());
            }
            // Some file systems do not say what an entry is.
            if matches!(entry.file_type(), FileType::Directory | FileType::Unknown) {
                directories.push(whole());
            }
        }
    }
}

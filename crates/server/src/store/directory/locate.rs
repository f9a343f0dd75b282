//! From handles to open objects and back, never outside the export.
//!
//! A handle says *which* object is meant, never that it may be had: at every use the object is
//! opened by a path from the root (`openat2` with RESOLVE_BENEATH, NO_SYMLINKS, NO_MAGICLINKS and
//! NO_XDEV), and what is there is compared with the handle. So what [`DirectoryStore::locate`]
//! gives lay in the export at an instant of the call, whoever made the handle and whatever was
//! moved before; what was moved out is stale, a file with another name inside is not.
//!
//! The path comes from the names that were seen ([`super::known`]); where none leads there,
//! [`super::find`] looks. Inode number and device say which object it is as long as a descriptor
//! keeps that number from another; else the kernel's handle says it, or the time of birth.

use std::os::fd::AsFd;
use std::sync::Arc;

use rustix::fs::{Mode, OFlags, fstat, openat};
use rustix::io::Errno;
use wire::nfs3::nfsstat3;

use super::DirectoryStore;
use super::identity::act_as_server;
use super::kernel::{kernel_handle, status_of};
use super::object::{Inside, LOOK, Object, attributes, birth_ns, open_below};
use crate::Handle;
use crate::store::Found;

/// Room for most paths, bytes.
pub(super) const PATH_BYTES: usize = 256;

impl DirectoryStore {
    /// Opens what a handle names, if it lies in the export. The thread acts as the server
    /// afterwards.
    pub(super) fn locate(&self, handle: &Handle) -> Result<Object, nfsstat3> {
        self.locate_at(handle, &mut Vec::with_capacity(PATH_BYTES))
    }

    /// The same; `path` becomes where it was found, if a name that was seen led there.
    pub(super) fn locate_at(
        &self,
        handle: &Handle,
        path: &mut Vec<u8>,
    ) -> Result<Object, nfsstat3> {
        if self.acts_as_caller {
            act_as_server()?;
        }
        if (handle.object, handle.generation) == (self.root_inode, 0) {
            return self.root_object();
        }
        match self.by_known_names(handle, path) {
            Some(object) => Ok(object),
            None => self.find(handle),
        }
    }

    /// The object that was found a moment ago, if it is at this path, or where another name leads;
    /// as the server.
    pub(super) fn still_there(
        &self,
        handle: &Handle,
        (found, path): (&Object, &mut Vec<u8>),
    ) -> Option<Object> {
        if (handle.object, handle.generation) == (self.root_inode, 0) {
            return self.root_object().ok();
        }
        // `found` is open, so that its number is no other's.
        let same = |now: &Object| {
            now.stat.st_nlink > 0
                && (now.stat.st_ino, now.stat.st_dev) == (found.stat.st_ino, found.stat.st_dev)
        };
        let at_path = match &**path {
            [] => None,
            path => open_below(&self.root, path).ok().filter(same),
        };
        at_path.or_else(|| self.by_known_names(handle, path))
    }

    pub(super) fn root_object(&self) -> Result<Object, nfsstat3> {
        let stat = fstat(&self.root).map_err(status_of)?;
        let fd = Arc::clone(&self.root);
        Ok(Object { fd, stat })
    }

    /// The object where one of the names that were seen of it leads; `path` becomes that.
    pub(super) fn by_known_names(&self, handle: &Handle, path: &mut Vec<u8>) -> Option<Object> {
        let mut held = None;
        // One lock at a time: names may come and go meanwhile, they are claims.
        for number in 0.. {
            let mut known = self.known.lock();
            if number >= known.count(handle.object) {
                return None;
            }
            let leads = known.path(handle.object, number, self.root_inode, path);
            drop(known);
            if number == 0 {
                let mut open = self.open.lock();
                held = open.hold(handle);
            }
            if leads
                && let Ok(object) = open_below(&self.root, path)
                && self.is_meant(handle, &object, held.is_some())
            {
                if held.is_none() && object.is_directory() {
                    let mut open = self.open.lock();
                    open.keep_folder(*handle, Arc::clone(&object.fd));
                }
                return Some(object);
            }
        }
        None
    }

    /// True if an object is the one that the handle was made of. `held`: a descriptor of that one
    /// is open, so that its number can be no other's.
    pub(super) fn is_meant(&self, handle: &Handle, object: &Object, held: bool) -> bool {
        let stat = &object.stat;
        if stat.st_ino != handle.object || stat.st_dev != self.device || stat.st_nlink == 0 {
            return false;
        }
        held || self.is_same(handle, &object.fd)
    }

    /// The same of an object of that number.
    pub(super) fn is_same(&self, handle: &Handle, fd: impl AsFd) -> bool {
        match handle.extra() {
            [] => birth_ns(fd).max(1) == handle.generation,
            extra => {
                kernel_handle(fd).is_ok_and(|(bytes, length)| bytes.get(..length) == Some(extra))
            }
        }
    }

    /// Opens a name in a directory, acting as whoever the thread acts as.
    pub(super) fn child(&self, dir: &Object, name: &[u8]) -> Result<Object, nfsstat3> {
        let object = open_below(&dir.fd, name).map_err(|error| match error {
            // A mount point: another file system, not exported.
            Errno::XDEV => nfsstat3::NFS3ERR_ACCES,
            error => status_of(error),
        })?;
        // Another volume of the same mount (btrfs): inode numbers mean something else there.
        if object.stat.st_dev != self.device {
            return Err(nfsstat3::NFS3ERR_ACCES);
        }
        Ok(object)
    }

    /// The directory above, the root being its own.
    pub(super) fn parent(&self, dir: &Object) -> Result<Object, nfsstat3> {
        if dir.stat.st_ino == self.root_inode {
            return self.root_object();
        }
        let fd =
            openat(&dir.fd, c"..", LOOK | OFlags::DIRECTORY, Mode::empty()).map_err(status_of)?;
        let above = Object::of(fd).map_err(status_of)?;
        if above.stat.st_dev != self.device {
            return Err(nfsstat3::NFS3ERR_STALE);
        }
        // It may lie outside by now: found as any other.
        self.locate(&self.handle_of(&above, None)?)
    }

    /// Handle and attributes of a name's object.
    pub(super) fn found(
        &self,
        object: &Object,
        place: Option<Inside<'_>>,
    ) -> Result<Found, nfsstat3> {
        Ok(Found {
            handle: self.handle_of(object, place)?,
            attributes: attributes(&object.stat),
        })
    }

    fn handle_of(&self, object: &Object, place: Option<Inside<'_>>) -> Result<Handle, nfsstat3> {
        let inode = object.stat.st_ino;
        if inode == self.root_inode {
            return Ok(Handle::new(inode, 0));
        }
        let handle = if self.by_kernel_handle {
            let (bytes, length) = kernel_handle(&object.fd).map_err(status_of)?;
            Handle::with_extra(inode, 0, bytes.get(..length).unwrap_or_default())
                .ok_or(nfsstat3::NFS3ERR_SERVERFAULT)?
        } else {
            // Never 0: that is the root's.
            Handle::new(inode, birth_ns(&object.fd).max(1))
        };
        if let Some((dir, name)) = place {
            let mut known = self.known.lock();
            known.add(inode, dir.stat.st_ino, name);
            known.is_there((inode, handle.generation));
        }
        Ok(handle)
    }
}

//! Names of the directory store: making, removing, renaming, and setting attributes.

use std::fs::File;
use std::sync::PoisonError;

use rustix::fs::{
    AtFlags, CWD, Gid, Mode, OFlags, ResolveFlags, Timespec, Timestamps, Uid, chownat, openat2,
    unlinkat, utimensat,
};
use rustix::io::Errno;
use wire::nfs3::{createhow3, createverf3, ftype3, nfsstat3, sattr3, set_time};

use super::DirectoryStore;
use super::data::errno;
use super::identity::{act_as, act_as_server};
use super::kernel::{proc_path, status_of};
use super::locate::{Object, attributes};
use crate::store::permission::{EXECUTE, STICKY, WRITE, check_setattr, granted, may_unlink};
use crate::store::{FILE_BYTES_MAX, Found};
use crate::{Caller, Handle};

/// A new object's mode if the client gave none.
const MODE_UNSTATED: u32 = 0o644;
/// Mode between creation and the setting of the wanted one: nobody else's.
const MODE_AT_FIRST: u32 = 0o600;
const UTIME_NOW: i64 = libc::UTIME_NOW;
const UTIME_OMIT: i64 = libc::UTIME_OMIT;

fn timespec(how: set_time) -> Timespec {
    let (tv_sec, tv_nsec) = match how {
        set_time::DONT_CHANGE => (0, UTIME_OMIT),
        set_time::SET_TO_SERVER_TIME => (0, UTIME_NOW),
        set_time::SET_TO_CLIENT_TIME(time) => (i64::from(time.seconds), i64::from(time.nseconds)),
    };
    Timespec { tv_sec, tv_nsec }
}

/// The verifier of an exclusive CREATE as times, in the way of Linux' server: it survives a
/// restart there until the client sets the real times.
fn verifier_times(verifier: createverf3) -> (i64, i64) {
    let [a, b, c, d, e, f, g, h] = verifier;
    let seconds = |word: [u8; 4]| i64::from(u32::from_be_bytes(word) & 0x7fff_ffff);
    (seconds([a, b, c, d]), seconds([e, f, g, h]))
}

impl DirectoryStore {
    /// Takes the caller's identity, or checks by mode bits where that is not possible.
    pub(super) fn act_in(
        &self,
        caller: &Caller,
        dir: &Object,
        needed: u32,
    ) -> Result<(), nfsstat3> {
        if !dir.is_directory() {
            return Err(nfsstat3::NFS3ERR_NOTDIR);
        }
        if self.acts_as_caller {
            return act_as(caller);
        }
        let seen = attributes(&dir.stat);
        if granted(&seen, caller) & needed != needed {
            return Err(nfsstat3::NFS3ERR_ACCES);
        }
        Ok(())
    }

    fn act_as_server(&self) -> Result<(), nfsstat3> {
        if self.acts_as_caller {
            act_as_server()
        } else {
            Ok(())
        }
    }

    /// Sets attributes of an object that is open.
    pub(super) fn set_attributes(
        &self,
        caller: &Caller,
        (handle, object): (&Handle, &Object),
        new: &sattr3,
    ) -> Result<(), nfsstat3> {
        check_setattr(caller, &attributes(&object.stat), new)?;
        if let Some(size) = new.size {
            let file = self.open_file(handle, object)?;
            if size > FILE_BYTES_MAX {
                return Err(nfsstat3::NFS3ERR_FBIG);
            }
            file.set_len(size).map_err(|error| errno(&error))?;
        }
        if self.acts_as_caller {
            act_as(caller)?;
        }
        let result = self.set_rest(object, new);
        self.act_as_server()?;
        result?;
        if self.stable_names && object.is_file() {
            let file = self.open_file(handle, object)?;
            self.make_stable(&file, wire::nfs3::stable_how::FILE_SYNC)?;
        }
        Ok(())
    }

    fn set_rest(&self, object: &Object, new: &sattr3) -> Result<(), nfsstat3> {
        let fd = &object.fd;
        let uid = new.uid.filter(|uid| *uid != object.stat.st_uid);
        let gid = new.gid.filter(|gid| *gid != object.stat.st_gid);
        if uid.is_some() || gid.is_some() {
            let (uid, gid) = (uid.map(Uid::from_raw), gid.map(Gid::from_raw));
            chownat(fd, c"", uid, gid, AtFlags::EMPTY_PATH).map_err(status_of)?;
        }
        // Links have no mode of their own.
        if let Some(mode) = new.mode
            && attributes(&object.stat).type_ != ftype3::NF3LNK
        {
            let mode = Mode::from_raw_mode(mode & 0o7777);
            rustix::fs::chmod(proc_path(fd), mode).map_err(status_of)?;
        }
        if (new.atime, new.mtime) != (set_time::DONT_CHANGE, set_time::DONT_CHANGE) {
            let times = Timestamps {
                last_access: timespec(new.atime),
                last_modification: timespec(new.mtime),
            };
            utimensat(fd, c"", &times, AtFlags::EMPTY_PATH).map_err(status_of)?;
        }
        Ok(())
    }

    /// Makes a directory's names stable (RFC 1813 section 4.8: before the reply).
    pub(super) fn settle(&self, dir: &Object) -> Result<(), nfsstat3> {
        if !self.stable_names {
            return Ok(());
        }
        self.act_as_server()?;
        let dir = File::open(proc_path(&dir.fd)).map_err(|error| errno(&error))?;
        self.make_stable(&dir, wire::nfs3::stable_how::FILE_SYNC)
    }

    /// Finishes a new object: attributes, stability, handle. What cannot be finished goes again.
    pub(super) fn finish_new(
        &self,
        caller: &Caller,
        dir: &Object,
        name: &[u8],
        new: &sattr3,
    ) -> Result<Found, nfsstat3> {
        self.act_as_server()?;
        let object = self.child(dir, name)?;
        let found = self.found(&object, Some((dir, name)))?;
        let mut new = *new;
        new.mode = Some(new.mode.unwrap_or(MODE_UNSTATED));
        // Where all belongs to the server's user, that user is who sets what the caller asked for.
        let owner = Caller::with_ids(caller.address, object.stat.st_uid, object.stat.st_gid);
        let setter = if self.acts_as_caller { caller } else { &owner };
        if let Err(status) = self.set_attributes(setter, (&found.handle, &object), &new) {
            let flags = if object.is_directory() {
                AtFlags::REMOVEDIR
            } else {
                AtFlags::empty()
            };
            // The refusal is what the caller hears; an object that stays is no more than untidy.
            let _ = unlinkat(&dir.fd, name, flags);
            return Err(status);
        }
        self.settle(dir)?;
        let attributes = object.now().ok_or(nfsstat3::NFS3ERR_STALE)?;
        Ok(Found {
            handle: found.handle,
            attributes,
        })
    }

    /// CREATE.
    pub(super) fn create_in(
        &self,
        caller: &Caller,
        dir: &Object,
        name: &[u8],
        how: &createhow3,
    ) -> Result<Found, nfsstat3> {
        self.act_in(caller, dir, WRITE | EXECUTE)?;
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::NOFOLLOW;
        let made = openat2(
            &dir.fd,
            name,
            flags | OFlags::CLOEXEC,
            Mode::from_raw_mode(MODE_AT_FIRST),
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS,
        );
        match (made, how) {
            (Ok(_), createhow3::UNCHECKED(new) | createhow3::GUARDED(new)) => {
                self.finish_new(caller, dir, name, new)
            }
            (Ok(_), createhow3::EXCLUSIVE(verifier)) => {
                let (modified, read) = verifier_times(*verifier);
                let at = |seconds| {
                    set_time::SET_TO_CLIENT_TIME(wire::nfs3::nfstime3 {
                        seconds: u32::try_from(seconds).unwrap_or(0),
                        nseconds: 0,
                    })
                };
                let new = sattr3 {
                    mode: Some(0),
                    atime: at(read),
                    mtime: at(modified),
                    ..sattr3::UNCHANGED
                };
                self.finish_new(caller, dir, name, &new)
            }
            (Err(Errno::EXIST), _) => self.create_over(caller, dir, name, how),
            (Err(error), _) => Err(status_of(error)),
        }
    }

    /// CREATE of a name that is there.
    fn create_over(
        &self,
        caller: &Caller,
        dir: &Object,
        name: &[u8],
        how: &createhow3,
    ) -> Result<Found, nfsstat3> {
        let object = self.child(dir, name)?;
        self.act_as_server()?;
        let found = self.found(&object, Some((dir, name)))?;
        if !object.is_file() {
            return Err(nfsstat3::NFS3ERR_EXIST);
        }
        match how {
            createhow3::UNCHECKED(new) => {
                if new.size.is_some() {
                    let size = sattr3 {
                        size: new.size,
                        ..sattr3::UNCHANGED
                    };
                    self.set_attributes(caller, (&found.handle, &object), &size)?;
                }
                let attributes = object.now().ok_or(nfsstat3::NFS3ERR_STALE)?;
                Ok(Found {
                    handle: found.handle,
                    attributes,
                })
            }
            createhow3::EXCLUSIVE(verifier) => {
                let stat = &object.stat;
                let times = (stat.st_mtime, stat.st_atime);
                if times == verifier_times(*verifier) && stat.st_size == 0 {
                    return Ok(found);
                }
                Err(nfsstat3::NFS3ERR_EXIST)
            }
            createhow3::GUARDED(_) => Err(nfsstat3::NFS3ERR_EXIST),
        }
    }

    /// REMOVE and RMDIR.
    pub(super) fn unlink_in(
        &self,
        caller: &Caller,
        dir: &Object,
        name: &[u8],
        directory: bool,
    ) -> Result<(), nfsstat3> {
        self.act_in(caller, dir, WRITE | EXECUTE)?;
        let victim = self.child(dir, name)?;
        self.check_sticky(caller, dir, &victim)?;
        let flags = if directory {
            AtFlags::REMOVEDIR
        } else {
            AtFlags::empty()
        };
        unlinkat(&dir.fd, name, flags).map_err(|error| match error {
            // Some file systems say EEXIST, POSIX allows both.
            Errno::EXIST => nfsstat3::NFS3ERR_NOTEMPTY,
            error => status_of(error),
        })?;
        self.act_as_server()?;
        self.forget(dir, name, &victim);
        self.settle(dir)
    }

    fn check_sticky(&self, caller: &Caller, dir: &Object, victim: &Object) -> Result<(), nfsstat3> {
        let (above, below) = (attributes(&dir.stat), attributes(&victim.stat));
        let by_kernel = self.acts_as_caller || above.mode & STICKY == 0;
        if by_kernel || may_unlink(&above, &below, caller) {
            return Ok(());
        }
        Err(nfsstat3::NFS3ERR_ACCES)
    }

    /// A name is gone: closes its file if that was the last, forgets the path.
    fn forget(&self, dir: &Object, name: &[u8], victim: &Object) {
        if victim.stat.st_nlink <= 1
            && let Ok(found) = self.found(victim, None)
        {
            let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            open.close(&found.handle);
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.remove(victim.stat.st_ino, dir.stat.st_ino, name);
    }

    /// RENAME.
    pub(super) fn rename_in(
        &self,
        caller: &Caller,
        (from, from_name): (&Object, &[u8]),
        (to, to_name): (&Object, &[u8]),
    ) -> Result<(), nfsstat3> {
        self.act_in(caller, from, WRITE | EXECUTE)?;
        self.act_in(caller, to, WRITE | EXECUTE)?;
        let moved = self.child(from, from_name)?;
        let replaced = self.child(to, to_name).ok();
        self.check_sticky(caller, from, &moved)?;
        if let Some(replaced) = &replaced {
            self.check_sticky(caller, to, replaced)?;
        }
        rustix::fs::renameat(&from.fd, from_name, &to.fd, to_name).map_err(
            |error| match error {
                Errno::EXIST => nfsstat3::NFS3ERR_NOTEMPTY,
                error => status_of(error),
            },
        )?;
        self.act_as_server()?;
        let same = |other: &Object| other.stat.st_ino == moved.stat.st_ino;
        if !replaced.as_ref().is_some_and(same) {
            if let Some(replaced) = &replaced {
                self.forget(to, to_name, replaced);
            }
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            known.remove(moved.stat.st_ino, from.stat.st_ino, from_name);
            known.add(moved.stat.st_ino, to.stat.st_ino, to_name);
        }
        self.settle(from)?;
        if from.stat.st_ino != to.stat.st_ino {
            self.settle(to)?;
        }
        Ok(())
    }

    /// LINK.
    pub(super) fn link_in(
        &self,
        caller: &Caller,
        file: &Object,
        dir: &Object,
        name: &[u8],
    ) -> Result<(), nfsstat3> {
        self.act_in(caller, dir, WRITE | EXECUTE)?;
        if file.is_directory() {
            return Err(nfsstat3::NFS3ERR_ISDIR);
        }
        let flags = AtFlags::SYMLINK_FOLLOW;
        rustix::fs::linkat(CWD, proc_path(&file.fd), &dir.fd, name, flags).map_err(status_of)?;
        self.act_as_server()?;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.add(file.stat.st_ino, dir.stat.st_ino, name);
        drop(known);
        self.settle(dir)
    }
}

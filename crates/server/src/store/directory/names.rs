//! Names of the directory store: making, removing, renaming, and setting attributes.

use std::fs::File;
use std::os::fd::OwnedFd;

use rustix::fs::{
    AtFlags, CWD, Gid, Mode, OFlags, ResolveFlags, Timespec, Timestamps, Uid, chownat, fstat,
    openat2, unlinkat, utimensat,
};
use rustix::io::Errno;
use wire::nfs3::{createhow3, createverf3, ftype3, nfsstat3, sattr3, set_time};

use super::DirectoryStore;
use super::data::{Use, errno};
use super::identity::{act_as, act_as_server};
use super::kernel::{proc_path, status_of};
use super::object::{Inside, Object, attributes};
use crate::store::permission::{
    EXECUTE, STICKY, WRITE, check_setattr, granted, may_unlink, mode_after_chown,
};
use crate::store::{FILE_BYTES_MAX, Found};
use crate::{Caller, Handle};

/// A new object's mode if the client gave none.
const MODE_UNSTATED: u32 = 0o644;
/// Mode of a file between creation and the setting of its owner: nobody else's.
const MODE_AT_FIRST: u32 = 0o600;
/// S_ISGID.
const SET_GROUP_ID: u32 = 0o2000;
const UTIME_NOW: i64 = libc::UTIME_NOW;
const UTIME_OMIT: i64 = libc::UTIME_OMIT;

/// How a name of a directory, or of something else, is removed.
fn removing(directory: bool) -> AtFlags {
    if directory {
        AtFlags::REMOVEDIR
    } else {
        AtFlags::empty()
    }
}

fn timespec(how: set_time) -> Timespec {
    let (tv_sec, tv_nsec) = match how {
        set_time::DONT_CHANGE => (0, UTIME_OMIT),
        set_time::SET_TO_SERVER_TIME => (0, UTIME_NOW),
        set_time::SET_TO_CLIENT_TIME(time) => (i64::from(time.seconds), i64::from(time.nseconds)),
    };
    Timespec { tv_sec, tv_nsec }
}

/// The mode that a file is made with: what is asked for, where its maker stays its owner.
fn mode_at_first(how: &createhow3) -> Mode {
    let asked = match how {
        createhow3::UNCHECKED(new) | createhow3::GUARDED(new) => {
            let stays = new.uid.is_none() && new.gid.is_none();
            stays.then(|| new.mode.unwrap_or(MODE_UNSTATED) & 0o777)
        }
        createhow3::EXCLUSIVE(_) => None,
    };
    Mode::from_raw_mode(asked.unwrap_or(MODE_AT_FIRST))
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
        let may_write = || self.check_data(caller, object, true).is_ok();
        check_setattr(caller, &attributes(&object.stat), new, may_write)?;
        if let Some(size) = new.size {
            let file = self.open_file((handle, object), Use::Writing)?;
            if size > FILE_BYTES_MAX {
                return Err(nfsstat3::NFS3ERR_FBIG);
            }
            self.drop_set_ids(caller, object, &file)?;
            file.set_len(size).map_err(|error| errno(&error))?;
        }
        let settles = self.stable_names && object.is_file();
        // Now, where the new mode may forbid it; later, where the old one does.
        let file = settles.then(|| self.open_file((handle, object), Use::Syncing));
        let rest = sattr3 { size: None, ..*new };
        if rest != sattr3::UNCHANGED {
            if self.acts_as_caller {
                act_as(caller)?;
            }
            let result = self.set_rest(caller, object, &rest);
            self.act_as_server()?;
            result?;
        }
        if let Some(file) = file {
            match file.or_else(|_| self.open_file((handle, object), Use::Syncing)) {
                Ok(file) => self.make_stable(&file, wire::nfs3::stable_how::FILE_SYNC)?,
                // A file that its mode closes to the server's user goes with all the others.
                Err(_) => rustix::fs::syncfs(&self.mount).map_err(status_of)?,
            }
        }
        Ok(())
    }

    fn set_rest(&self, caller: &Caller, object: &Object, new: &sattr3) -> Result<(), nfsstat3> {
        let fd = &object.fd;
        let changes_ids = new.uid.is_some() || new.gid.is_some();
        if changes_ids {
            let (uid, gid) = (new.uid.map(Uid::from_raw), new.gid.map(Gid::from_raw));
            chownat(fd, c"", uid, gid, AtFlags::EMPTY_PATH).map_err(status_of)?;
        }
        // Links have no mode of their own.
        if let Some(mode) = new.mode
            && attributes(&object.stat).type_ != ftype3::NF3LNK
        {
            // What chownat has taken away does not come back with the mode of the same call.
            let mode = if changes_ids && !object.is_directory() {
                mode_after_chown(mode, object.stat.st_gid, caller)
            } else {
                mode & 0o7777
            };
            let mode = Mode::from_raw_mode(mode);
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

    /// Finishes a new object: attributes, stability, handle; `made` is a new file's descriptor for
    /// both directions, which stays open. What cannot be finished goes again.
    pub(super) fn finish_new(
        &self,
        caller: &Caller,
        (dir, name): Inside<'_>,
        made: Option<OwnedFd>,
        new: &sattr3,
    ) -> Result<Found, nfsstat3> {
        self.act_as_server()?;
        let object = match &made {
            // Not by its name, which another may have by now.
            Some(made) => {
                Object::of(made.try_clone().map_err(|error| errno(&error))?).map_err(status_of)?
            }
            None => self.child(dir, name)?,
        };
        let found = self.found(&object, Some((dir, name)))?;
        if let Some(made) = made {
            self.keep_open(found.handle, File::from(made), [true, true]);
        }
        // A new directory has S_ISGID of the one it is in (inode(7)), whatever mode was asked for.
        let made_with = object.stat.st_mode & 0o7777;
        let inherited = match object.is_directory() {
            true => made_with & SET_GROUP_ID,
            false => 0,
        };
        let mode = new.mode.unwrap_or(MODE_UNSTATED) | inherited;
        let mut new = *new;
        // What it has already is not set again: each change is the file system's work. What takes
        // set-id bits away comes before the mode (`set_rest`), which is set behind it then.
        let moves = new.uid.is_some() || new.gid.is_some();
        new.mode =
            Some(mode).filter(|mode| *mode != made_with || (moves && !object.is_directory()));
        new.size = new.size.filter(|size| *size != 0);
        // Where all belongs to the server's user, that user is who sets what the caller asked for.
        let owner = Caller::with_ids(caller.address, object.stat.st_uid, object.stat.st_gid);
        let setter = if self.acts_as_caller { caller } else { &owner };
        let set = self
            .set_attributes(setter, (&found.handle, &object), &new)
            .and_then(|()| self.keep_bits(&object, inherited));
        if let Err(status) = set {
            // The refusal is what the caller hears; an object that stays is no more than untidy.
            let _ = unlinkat(&dir.fd, name, removing(object.is_directory()));
            self.forget((dir, name), &object);
            return Err(status);
        }
        self.settle(dir)?;
        let attributes = object.now().ok_or(nfsstat3::NFS3ERR_STALE)?;
        Ok(Found {
            handle: found.handle,
            attributes,
        })
    }

    /// Gives mode bits back that chmod(2) has taken away: a caller outside the group may not set
    /// S_ISGID, but its new directory has it.
    fn keep_bits(&self, object: &Object, bits: u32) -> Result<(), nfsstat3> {
        if bits == 0 {
            return Ok(());
        }
        let mode = fstat(&object.fd).map_err(status_of)?.st_mode & 0o7777;
        if mode & bits == bits {
            return Ok(());
        }
        let mode = Mode::from_raw_mode(mode | bits);
        rustix::fs::chmod(proc_path(&object.fd), mode).map_err(status_of)
    }

    /// CREATE.
    pub(super) fn create_in(
        &self,
        caller: &Caller,
        (dir, name): Inside<'_>,
        how: &createhow3,
    ) -> Result<Found, nfsstat3> {
        self.act_in(caller, dir, EXECUTE)?;
        if !self.acts_as_caller && self.child(dir, name).is_err() {
            // The kernel knows that only new names need the right to write; here it is said.
            self.act_in(caller, dir, WRITE | EXECUTE)?;
        }
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::NOFOLLOW;
        let made = openat2(
            &dir.fd,
            name,
            flags | OFlags::CLOEXEC,
            mode_at_first(how),
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS,
        );
        match (made, how) {
            (Ok(made), createhow3::UNCHECKED(new) | createhow3::GUARDED(new)) => {
                self.finish_new(caller, (dir, name), Some(made), new)
            }
            (Ok(made), createhow3::EXCLUSIVE(verifier)) => {
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
                self.finish_new(caller, (dir, name), Some(made), &new)
            }
            (Err(Errno::EXIST), _) => self.create_over(caller, (dir, name), how),
            (Err(error), _) => Err(status_of(error)),
        }
    }

    /// CREATE of a name that is there.
    fn create_over(
        &self,
        caller: &Caller,
        (dir, name): Inside<'_>,
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
        (dir, name): Inside<'_>,
        directory: bool,
    ) -> Result<(), nfsstat3> {
        self.act_in(caller, dir, WRITE | EXECUTE)?;
        let victim = self.child(dir, name)?;
        self.check_sticky(caller, dir, &victim)?;
        unlinkat(&dir.fd, name, removing(directory)).map_err(|error| match error {
            // Some file systems say EEXIST, POSIX allows both.
            Errno::EXIST => nfsstat3::NFS3ERR_NOTEMPTY,
            error => status_of(error),
        })?;
        self.act_as_server()?;
        self.forget((dir, name), &victim);
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
    fn forget(&self, (dir, name): Inside<'_>, victim: &Object) {
        let is_last = fstat(&victim.fd).is_ok_and(|now| now.st_nlink == 0);
        let mut gone = None;
        if is_last && let Ok(found) = self.found(victim, None) {
            let mut open = self.open.lock();
            open.close(&found.handle);
            let Handle {
                object, generation, ..
            } = found.handle;
            // The kernel knows of its own handles.
            gone = (!self.by_kernel_handle).then_some((object, generation));
        }
        let mut known = self.known.lock();
        known.remove(victim.stat.st_ino, dir.stat.st_ino, name);
        if let Some(gone) = gone {
            known.bury(gone);
        }
    }

    /// RENAME.
    pub(super) fn rename_in(
        &self,
        caller: &Caller,
        (from, from_name): Inside<'_>,
        (to, to_name): Inside<'_>,
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
                self.forget((to, to_name), replaced);
            }
            let mut known = self.known.lock();
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
        (dir, name): Inside<'_>,
    ) -> Result<(), nfsstat3> {
        self.act_in(caller, dir, WRITE | EXECUTE)?;
        if file.is_directory() {
            return Err(nfsstat3::NFS3ERR_ISDIR);
        }
        let flags = AtFlags::SYMLINK_FOLLOW;
        rustix::fs::linkat(CWD, proc_path(&file.fd), &dir.fd, name, flags).map_err(status_of)?;
        self.act_as_server()?;
        let mut known = self.known.lock();
        known.add(file.stat.st_ino, dir.stat.st_ino, name);
        drop(known);
        self.settle(dir)
    }
}

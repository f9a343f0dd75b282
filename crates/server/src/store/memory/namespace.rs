//! Names of the memory store: making, removing, renaming and linking objects (under its lock).

use wire::nfs3::{
    LINK3wcc, RENAME3wcc, createhow3, fattr3, ftype3, nfsstat3, sattr3, specdata3, wcc_data,
};

use super::content::Content;
use super::inode::{INODE_COST_BYTES, Inode, Kind, name_cost};
use super::{LINKS_MAX, State, now};
use crate::store::permission::{EXECUTE, WRITE, granted, may_unlink, mode_as_set};
use crate::store::{Found, NO_WCC, Place, Special, wcc_of};
use crate::{Caller, Handle};

/// A directory: number and attributes.
type Dir<'a> = (u64, &'a fattr3);

/// Bits that let names be changed.
const CHANGE: u32 = WRITE | EXECUTE;
/// A new object's mode if the client gave none.
const MODE_UNSTATED: u32 = 0o644;

/// The kind of a device, socket or pipe; devices are for uid 0 (mknod(2)).
pub fn special_kind(caller: &Caller, special: Special) -> Result<Kind, nfsstat3> {
    let (type_, rdev) = match special {
        Special::CharacterDevice(rdev) => (ftype3::NF3CHR, rdev),
        Special::BlockDevice(rdev) => (ftype3::NF3BLK, rdev),
        Special::Socket => (ftype3::NF3SOCK, specdata3::NONE),
        Special::Fifo => (ftype3::NF3FIFO, specdata3::NONE),
    };
    if caller.uid != 0 && matches!(type_, ftype3::NF3CHR | ftype3::NF3BLK) {
        return Err(nfsstat3::NFS3ERR_PERM);
    }
    Ok(Kind::Special(type_, rdev))
}

fn may_change(dir: &fattr3, caller: &Caller) -> Result<(), nfsstat3> {
    if dir.type_ != ftype3::NF3DIR {
        return Err(nfsstat3::NFS3ERR_NOTDIR);
    }
    if granted(dir, caller) & CHANGE != CHANGE {
        return Err(nfsstat3::NFS3ERR_ACCES);
    }
    Ok(())
}

impl State {
    fn touch(&mut self, number: u64) {
        if let Ok(inode) = self.table.get_mut(number) {
            inode.mtime = now();
            inode.ctime = inode.mtime;
        }
    }

    /// Makes an object under a new name.
    pub(super) fn make(
        &mut self,
        caller: &Caller,
        (number, seen): Dir<'_>,
        name: &[u8],
        kind: Kind,
        new: &sattr3,
    ) -> Result<Found, nfsstat3> {
        may_change(seen, caller)?;
        if self.table.entries(number)?.get(name).is_some() {
            return Err(nfsstat3::NFS3ERR_EXIST);
        }
        let is_directory = matches!(kind, Kind::Directory(_));
        if is_directory && seen.nlink >= LINKS_MAX {
            return Err(nfsstat3::NFS3ERR_MLINK);
        }
        let text = match &kind {
            Kind::Link(text) => text.len() as u64,
            _ => 0,
        };
        self.reserve(INODE_COST_BYTES + text + name_cost(name))?;
        let mode = new.mode.unwrap_or(MODE_UNSTATED);
        let mut inode = Inode::new(kind, mode, caller, now());
        if seen.mode & 0o2000 != 0 {
            // Group of the directory (set-group-ID, inode(7)).
            inode.gid = seen.gid;
            if is_directory {
                inode.mode |= 0o2000;
            } else {
                inode.mode = mode_as_set(inode.mode, inode.gid, caller);
            }
        }
        let made = self.table.insert(inode);
        // The owner of a new object may not set all: what is refused leaves nothing behind.
        let mut rest = *new;
        rest.mode = None;
        // It is empty: to cut it would take set-id bits away.
        rest.size = new.size.filter(|size| *size != 0);
        if let Err(status) = self.set_attributes(caller, made, &rest) {
            self.discard(made);
            self.release(name_cost(name));
            return Err(status);
        }
        self.table.entries_mut(number)?.insert(name, made);
        if is_directory {
            self.table.get_mut(number)?.nlink += 1;
        }
        self.touch(number);
        self.found(made)
    }

    fn discard(&mut self, number: u64) {
        if let Some(inode) = self.table.remove(number) {
            self.release(inode.cost());
        }
    }

    /// CREATE.
    pub(super) fn create(
        &mut self,
        caller: &Caller,
        (number, seen): Dir<'_>,
        name: &[u8],
        how: &createhow3,
    ) -> Result<Found, nfsstat3> {
        let there = self.table.entries(number)?.get(name);
        let file = |verifier| Kind::File(Content::default(), verifier);
        let Some(there) = there else {
            return match how {
                createhow3::UNCHECKED(new) | createhow3::GUARDED(new) => {
                    self.make(caller, (number, seen), name, file(None), new)
                }
                createhow3::EXCLUSIVE(verifier) => {
                    let new = sattr3 {
                        mode: Some(0),
                        ..sattr3::UNCHANGED
                    };
                    self.make(caller, (number, seen), name, file(Some(*verifier)), &new)
                }
            };
        };
        if granted(seen, caller) & EXECUTE == 0 {
            return Err(nfsstat3::NFS3ERR_ACCES);
        }
        match (how, &self.table.get(there)?.kind) {
            (createhow3::UNCHECKED(new), Kind::File(..)) => {
                // As open(2) with O_CREAT on what exists: of the attributes only the size counts.
                let size = sattr3 {
                    size: new.size,
                    ..sattr3::UNCHANGED
                };
                if new.size.is_some() {
                    self.set_attributes(caller, there, &size)?;
                }
                self.found(there)
            }
            (createhow3::EXCLUSIVE(verifier), Kind::File(_, Some(kept))) if verifier == kept => {
                self.found(there)
            }
            _ => Err(nfsstat3::NFS3ERR_EXIST),
        }
    }

    /// REMOVE and RMDIR.
    pub(super) fn unlink(
        &mut self,
        caller: &Caller,
        (number, seen): Dir<'_>,
        name: &[u8],
        directory: bool,
    ) -> Result<(), nfsstat3> {
        may_change(seen, caller)?;
        let victim = self
            .table
            .entries(number)?
            .get(name)
            .ok_or(nfsstat3::NFS3ERR_NOENT)?;
        let inode = self.table.get(victim)?;
        match &inode.kind {
            Kind::Directory(_) if !directory => return Err(nfsstat3::NFS3ERR_ISDIR),
            Kind::Directory(entries) if !entries.is_empty() => {
                return Err(nfsstat3::NFS3ERR_NOTEMPTY);
            }
            Kind::Directory(_) => {}
            _ if directory => return Err(nfsstat3::NFS3ERR_NOTDIR),
            _ => {}
        }
        if !may_unlink(seen, &inode.attributes(victim), caller) {
            return Err(nfsstat3::NFS3ERR_ACCES);
        }
        self.drop_name(number, name)?;
        self.touch(number);
        Ok(())
    }

    /// Takes a name away and, with the last one, the object.
    fn drop_name(&mut self, dir: u64, name: &[u8]) -> Result<(), nfsstat3> {
        let entries = self.table.entries_mut(dir)?;
        let victim = entries.remove(name).ok_or(nfsstat3::NFS3ERR_NOENT)?;
        self.release(name_cost(name));
        let inode = self.table.get_mut(victim)?;
        if matches!(inode.kind, Kind::Directory(_)) {
            self.discard(victim);
            self.table.get_mut(dir)?.nlink -= 1;
            return Ok(());
        }
        inode.nlink -= 1;
        inode.ctime = now();
        if inode.nlink == 0 {
            self.discard(victim);
        }
        Ok(())
    }

    fn wcc(&self, number: Option<u64>, before: Option<fattr3>) -> wcc_data {
        let after = number.and_then(|number| self.table.attributes(number));
        wcc_of(before.as_ref(), after)
    }

    /// RENAME, with both directories before and after.
    pub(super) fn rename_with_wcc(
        &mut self,
        caller: &Caller,
        (from, from_name): Place<'_>,
        (to, to_name): Place<'_>,
    ) -> (nfsstat3, RENAME3wcc) {
        let numbers = [self.table.number(from), self.table.number(to)];
        let before = numbers.map(|n| n.ok().and_then(|n| self.table.attributes(n)));
        let done = (|| {
            let [from, to] = [numbers[0]?, numbers[1]?];
            self.rename(caller, (from, from_name), (to, to_name))
        })();
        let wcc = RENAME3wcc {
            fromdir_wcc: self.wcc(numbers[0].ok(), before[0]),
            todir_wcc: self.wcc(numbers[1].ok(), before[1]),
        };
        (done.err().unwrap_or(nfsstat3::NFS3_OK), wcc)
    }

    fn rename(
        &mut self,
        caller: &Caller,
        (from, from_name): (u64, &[u8]),
        (to, to_name): (u64, &[u8]),
    ) -> Result<(), nfsstat3> {
        let from_seen = self.table.get(from)?.attributes(from);
        let to_seen = self.table.get(to)?.attributes(to);
        may_change(&from_seen, caller)?;
        may_change(&to_seen, caller)?;
        let moved = self
            .table
            .entries(from)?
            .get(from_name)
            .ok_or(nfsstat3::NFS3ERR_NOENT)?;
        let replaced = self.table.entries(to)?.get(to_name);
        if replaced == Some(moved) {
            // Two names of one object: nothing happens (rename(2)).
            return Ok(());
        }
        let moved_seen = self.table.get(moved)?.attributes(moved);
        let is_directory = moved_seen.type_ == ftype3::NF3DIR;
        if !may_unlink(&from_seen, &moved_seen, caller) {
            return Err(nfsstat3::NFS3ERR_ACCES);
        }
        if is_directory && self.is_below(to, moved) {
            return Err(nfsstat3::NFS3ERR_INVAL);
        }
        if is_directory && from != to && granted(&moved_seen, caller) & WRITE == 0 {
            // Its `..` changes (rename(2): EACCES).
            return Err(nfsstat3::NFS3ERR_ACCES);
        }
        if let Some(replaced) = replaced {
            if self.is_below(from, replaced) {
                // It holds the directory that the name comes from (rename(2): ENOTEMPTY).
                return Err(nfsstat3::NFS3ERR_NOTEMPTY);
            }
            let seen = self.table.get(replaced)?.attributes(replaced);
            if !may_unlink(&to_seen, &seen, caller) {
                return Err(nfsstat3::NFS3ERR_ACCES);
            }
            match (&self.table.get(replaced)?.kind, is_directory) {
                (Kind::Directory(_), false) => return Err(nfsstat3::NFS3ERR_ISDIR),
                (Kind::Directory(entries), true) if !entries.is_empty() => {
                    return Err(nfsstat3::NFS3ERR_NOTEMPTY);
                }
                (Kind::Directory(_), true) | (_, false) => {}
                (_, true) => return Err(nfsstat3::NFS3ERR_NOTDIR),
            }
        } else if is_directory && from != to && to_seen.nlink >= LINKS_MAX {
            return Err(nfsstat3::NFS3ERR_MLINK);
        }
        // The longer name may need room; what it replaces is only freed behind this.
        self.reserve(name_cost(to_name))?;
        if replaced.is_some() {
            self.drop_name(to, to_name)?;
        }
        self.table.entries_mut(from)?.remove(from_name);
        self.release(name_cost(from_name));
        self.table.entries_mut(to)?.insert(to_name, moved);
        if is_directory && from != to {
            self.table.entries_mut(moved)?.parent = to;
            self.table.get_mut(from)?.nlink -= 1;
            self.table.get_mut(to)?.nlink += 1;
        }
        self.table.get_mut(moved)?.ctime = now();
        self.touch(from);
        self.touch(to);
        Ok(())
    }

    /// True if directory `number` is `ancestor` or lies below it.
    fn is_below(&self, number: u64, ancestor: u64) -> bool {
        let mut at = number;
        // A path cannot be longer than there are inodes.
        for _ in 0..=self.table.len() {
            if at == ancestor {
                return true;
            }
            match self.table.entries(at) {
                Ok(entries) if entries.parent != at => at = entries.parent,
                _ => return false,
            }
        }
        true
    }

    /// LINK, with the file's attributes and the directory before and after.
    pub(super) fn link_with_wcc(
        &mut self,
        caller: &Caller,
        file: &Handle,
        (dir, name): Place<'_>,
    ) -> (nfsstat3, LINK3wcc) {
        let number = self.table.number(file);
        let linked = self.change(dir, |state, dir, seen| {
            let number = number?;
            may_change(seen, caller)?;
            let inode = state.table.get(number)?;
            if matches!(inode.kind, Kind::Directory(_)) {
                return Err(nfsstat3::NFS3ERR_ISDIR);
            }
            if inode.nlink >= LINKS_MAX {
                return Err(nfsstat3::NFS3ERR_MLINK);
            }
            if state.table.entries(dir)?.get(name).is_some() {
                return Err(nfsstat3::NFS3ERR_EXIST);
            }
            state.reserve(name_cost(name))?;
            state.table.entries_mut(dir)?.insert(name, number);
            let inode = state.table.get_mut(number)?;
            inode.nlink += 1;
            inode.ctime = now();
            state.touch(dir);
            Ok(())
        });
        let (status, linkdir_wcc) = match linked {
            Ok(((), directory)) => (nfsstat3::NFS3_OK, directory),
            Err((status, directory)) if number.is_ok() => (status, directory),
            Err((status, _)) => (status, NO_WCC),
        };
        let wcc = LINK3wcc {
            file_attributes: number.ok().and_then(|number| self.table.attributes(number)),
            linkdir_wcc,
        };
        (status, wcc)
    }
}

//! Inodes of the memory store, their table and the names in directories.

use std::collections::BTreeMap;

use hashbrown::HashMap;
use wire::nfs3::{createverf3, fattr3, ftype3, nfsstat3, nfstime3, specdata3};

use super::content::Content;
use crate::{Caller, Handle};

/// First cookie of a real name: 1 and 2 are `.` and `..`.
const FIRST_COOKIE: u64 = 3;
/// What an inode counts against the size limit besides data and names, bytes.
pub const INODE_COST_BYTES: u64 = 512;
/// What a name counts against the size limit besides its bytes (twice, for two maps).
const NAME_COST_BYTES: u64 = 128;
/// Unit of `used`.
const BLOCK_BYTES: u64 = 4096;

/// Cost of a name.
pub fn name_cost(name: &[u8]) -> u64 {
    NAME_COST_BYTES + 2 * name.len() as u64
}

/// Names of a directory: by name, and in the order of cookies, which are never used twice.
#[derive(Debug)]
pub struct Entries {
    by_name: HashMap<Box<[u8]>, (u64, u64)>,
    by_cookie: BTreeMap<u64, (Box<[u8]>, u64)>,
    next_cookie: u64,
    /// The directory above.
    pub parent: u64,
}

impl Entries {
    /// No names; `parent` is the directory above.
    pub fn new(parent: u64) -> Self {
        Entries {
            by_name: HashMap::new(),
            by_cookie: BTreeMap::new(),
            next_cookie: FIRST_COOKIE,
            parent,
        }
    }
    /// Inode of a name.
    pub fn get(&self, name: &[u8]) -> Option<u64> {
        self.by_name.get(name).map(|(inode, _)| *inode)
    }
    /// Adds a name that is not there.
    pub fn insert(&mut self, name: &[u8], inode: u64) {
        let cookie = self.next_cookie;
        self.next_cookie += 1;
        self.by_name.insert(name.into(), (inode, cookie));
        self.by_cookie.insert(cookie, (name.into(), inode));
    }
    /// Takes a name away.
    pub fn remove(&mut self, name: &[u8]) -> Option<u64> {
        let (inode, cookie) = self.by_name.remove(name)?;
        self.by_cookie.remove(&cookie);
        Some(inode)
    }
    /// True without names.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }
    /// (cookie, name, inode) behind a cookie.
    pub fn behind(&self, cookie: u64) -> impl Iterator<Item = (u64, &[u8], u64)> {
        let from = cookie.saturating_add(1);
        self.by_cookie
            .range(from..)
            .map(|(cookie, (name, inode))| (*cookie, &**name, *inode))
    }
}

/// What an inode is.
#[derive(Debug)]
pub enum Kind {
    /// A file; the verifier of an exclusive CREATE that made it.
    File(Content, Option<createverf3>),
    /// A directory.
    Directory(Entries),
    /// A symbolic link.
    Link(Box<[u8]>),
    /// A device, socket or pipe.
    Special(ftype3, specdata3),
}

/// An object of the store.
#[derive(Debug)]
pub struct Inode {
    /// Permission bits.
    pub mode: u32,
    /// Number of names.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Bytes of a file.
    pub size: u64,
    /// Last read.
    pub atime: nfstime3,
    /// Last change of data.
    pub mtime: nfstime3,
    /// Last change of anything.
    pub ctime: nfstime3,
    /// What it is.
    pub kind: Kind,
}

impl Inode {
    /// A new object of the caller.
    pub fn new(kind: Kind, mode: u32, caller: &Caller, now: nfstime3) -> Self {
        let size = match &kind {
            Kind::Link(text) => text.len() as u64,
            Kind::Directory(_) => BLOCK_BYTES,
            _ => 0,
        };
        Inode {
            mode: mode & 0o7777,
            nlink: if matches!(kind, Kind::Directory(_)) {
                2
            } else {
                1
            },
            uid: caller.uid,
            gid: caller.gid,
            size,
            atime: now,
            mtime: now,
            ctime: now,
            kind,
        }
    }

    /// Attributes on the wire.
    #[inline]
    pub fn attributes(&self, fileid: u64) -> fattr3 {
        let none = specdata3::NONE;
        let (type_, used, rdev) = match &self.kind {
            Kind::File(content, _) => (ftype3::NF3REG, content.used_bytes(), none),
            Kind::Directory(_) => (ftype3::NF3DIR, BLOCK_BYTES, none),
            Kind::Link(_) => (ftype3::NF3LNK, 0, none),
            Kind::Special(type_, rdev) => (*type_, 0, *rdev),
        };
        fattr3 {
            type_,
            mode: self.mode,
            nlink: self.nlink,
            uid: self.uid,
            gid: self.gid,
            size: self.size,
            used,
            rdev,
            fsid: 1,
            fileid,
            atime: self.atime,
            mtime: self.mtime,
            ctime: self.ctime,
        }
    }

    /// What the object counts against the limit, without its names.
    pub fn cost(&self) -> u64 {
        INODE_COST_BYTES
            + match &self.kind {
                Kind::File(content, _) => content.used_bytes(),
                Kind::Link(text) => text.len() as u64,
                _ => 0,
            }
    }
}

#[derive(Debug)]
struct Slot {
    generation: u32,
    inode: Option<Inode>,
}

/// All inodes. Numbers are used again, with another generation.
#[derive(Debug)]
pub struct Table {
    slots: Vec<Slot>,
    free: Vec<u64>,
    instance: u32,
}

impl Table {
    /// An empty table of the server instance `instance`, which is part of each generation: handles
    /// of an earlier instance are stale.
    pub fn new(instance: u32) -> Self {
        Table {
            slots: Vec::new(),
            free: Vec::new(),
            instance,
        }
    }
    fn slot(&self, number: u64) -> Option<&Slot> {
        self.slots
            .get(usize::try_from(number.checked_sub(1)?).ok()?)
    }
    fn slot_mut(&mut self, number: u64) -> Option<&mut Slot> {
        let index = usize::try_from(number.checked_sub(1)?).ok()?;
        self.slots.get_mut(index)
    }
    /// Adds an object; returns its number, from 1.
    pub fn insert(&mut self, inode: Inode) -> u64 {
        if let Some(number) = self.free.pop()
            && let Some(slot) = self.slot_mut(number)
        {
            slot.generation = slot.generation.wrapping_add(1);
            slot.inode = Some(inode);
            return number;
        }
        self.slots.push(Slot {
            generation: 1,
            inode: Some(inode),
        });
        self.slots.len() as u64
    }
    /// Takes an object away.
    pub fn remove(&mut self, number: u64) -> Option<Inode> {
        let inode = self.slot_mut(number)?.inode.take()?;
        self.free.push(number);
        Some(inode)
    }
    /// The object's handle.
    pub fn handle(&self, number: u64) -> Handle {
        let generation = self.slot(number).map_or(0, |slot| slot.generation);
        let both = u64::from(self.instance) << 32 | u64::from(generation);
        Handle::new(number, both)
    }
    /// The object of a number that is in use.
    pub fn get(&self, number: u64) -> Result<&Inode, nfsstat3> {
        self.slot(number)
            .and_then(|slot| slot.inode.as_ref())
            .ok_or(nfsstat3::NFS3ERR_STALE)
    }
    /// The same, to change it.
    pub fn get_mut(&mut self, number: u64) -> Result<&mut Inode, nfsstat3> {
        self.slot_mut(number)
            .and_then(|slot| slot.inode.as_mut())
            .ok_or(nfsstat3::NFS3ERR_STALE)
    }
    /// The number that a handle names, or NFS3ERR_STALE.
    pub fn number(&self, handle: &Handle) -> Result<u64, nfsstat3> {
        let slot = self.slot(handle.object).ok_or(nfsstat3::NFS3ERR_STALE)?;
        let both = u64::from(self.instance) << 32 | u64::from(slot.generation);
        if both != handle.generation || slot.inode.is_none() {
            return Err(nfsstat3::NFS3ERR_STALE);
        }
        Ok(handle.object)
    }
    /// Names of a directory.
    pub fn entries(&self, number: u64) -> Result<&Entries, nfsstat3> {
        match &self.get(number)?.kind {
            Kind::Directory(entries) => Ok(entries),
            _ => Err(nfsstat3::NFS3ERR_NOTDIR),
        }
    }
    /// The same, to change them.
    pub fn entries_mut(&mut self, number: u64) -> Result<&mut Entries, nfsstat3> {
        match &mut self.get_mut(number)?.kind {
            Kind::Directory(entries) => Ok(entries),
            _ => Err(nfsstat3::NFS3ERR_NOTDIR),
        }
    }
    /// Attributes of an object, if it is there.
    pub fn attributes(&self, number: u64) -> Option<fattr3> {
        self.get(number).ok().map(|inode| inode.attributes(number))
    }
    /// Objects in use.
    pub fn len(&self) -> u64 {
        (self.slots.len() - self.free.len()) as u64
    }
}

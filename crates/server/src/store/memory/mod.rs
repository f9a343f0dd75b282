//! The memory store: a whole file system in memory, bounded, gone with the server.
//!
//! One lock over all of it: calls run in the server's one loop thread, where the lock is never
//! contended, and every change is atomic, so `wcc_data` is exact. Data lies in pages that READ
//! replies share ([`content`]). Cookies of directories are never used twice, so a listing goes on
//! rightly whatever is created or removed meanwhile. The size limit counts data, inodes and names;
//! beyond it NFS3ERR_NOSPC.
//!
//! Decisions: writes are FILE_SYNC at once, since nothing here outlives the server (behind a
//! modelled disk `Service::commit_as_asked` says less); the verifier and the handles' generations
//! name the instance, so that clients notice a restart.
//! Limits: access times move only when they are older than the last change (as `relatime`).

mod content;
mod data;
mod inode;
mod namespace;

use parking_lot::Mutex;
use wire::nfs3::{
    FSSTAT3resok, LINK3wcc, RENAME3wcc, createhow3, fattr3, nfsstat3, nfstime3, sattr3, set_time,
    stable_how, writeverf3,
};

use self::inode::{Entries, Inode, Kind, Table};
use super::permission::{
    EXECUTE, READ, access_bits, check_setattr, granted, may_write, mode_after_chown,
    mode_after_write, mode_as_set,
};
use super::{
    Changed, DirectorySink, Entry, Found, ListFrom, Listed, NO_WCC, Payload, Place, ReadDone, Seen,
    Special, Store, StoreDescription, WriteDone, wcc_of, with,
};
use crate::{Caller, Handle};

/// Most names of one object (ext4: 65000).
pub const LINKS_MAX: u32 = 65_000;

const ROOT: u64 = 1;
const NANOSECONDS: u64 = 1_000_000_000;

/// Wall-clock time on the wire.
#[must_use]
pub fn now() -> nfstime3 {
    let now_ns = measure::clock::realtime_ns();
    nfstime3 {
        seconds: u32::try_from(now_ns / NANOSECONDS).unwrap_or(u32::MAX),
        nseconds: (now_ns % NANOSECONDS) as u32,
    }
}

/// The store.
#[derive(Debug)]
pub struct MemoryStore {
    limit_bytes: u64,
    verifier: writeverf3,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    table: Table,
    used_bytes: u64,
    limit_bytes: u64,
}

impl MemoryStore {
    /// An empty store that may take `limit_bytes`; `instance` (random, from the server's start)
    /// marks handles and the write verifier. The root belongs to `owner` with mode 0777.
    #[must_use]
    pub fn new(limit_bytes: u64, instance: u64, owner: &Caller) -> Self {
        let mut table = Table::new((instance ^ instance >> 32) as u32);
        let root = Inode::new(Kind::Directory(Entries::new(ROOT)), 0o777, owner, now());
        table.insert(root);
        MemoryStore {
            limit_bytes,
            verifier: instance.to_be_bytes(),
            state: Mutex::new(State {
                table,
                used_bytes: inode::INODE_COST_BYTES,
                limit_bytes,
            }),
        }
    }
}

impl State {
    fn reserve(&mut self, bytes: u64) -> Result<(), nfsstat3> {
        let wanted = self.used_bytes.saturating_add(bytes);
        if wanted > self.limit_bytes {
            return Err(nfsstat3::NFS3ERR_NOSPC);
        }
        self.used_bytes = wanted;
        Ok(())
    }

    fn release(&mut self, bytes: u64) {
        self.used_bytes = self.used_bytes.saturating_sub(bytes);
    }

    /// Runs a change of the object and takes its attributes before and after.
    fn change<T>(
        &mut self,
        handle: &Handle,
        action: impl FnOnce(&mut Self, u64, &fattr3) -> Result<T, nfsstat3>,
    ) -> Changed<T> {
        let number = self
            .table
            .number(handle)
            .map_err(|status| (status, NO_WCC))?;
        let before = self.table.attributes(number);
        let before = before.ok_or((nfsstat3::NFS3ERR_STALE, NO_WCC))?;
        let result = action(self, number, &before);
        let after = self.table.attributes(number);
        with(result, wcc_of(Some(&before), after))
    }

    /// Runs a look at the object and gives its attributes with the result.
    fn see<T>(
        &mut self,
        handle: &Handle,
        action: impl FnOnce(&mut Self, u64, &fattr3) -> Result<T, nfsstat3>,
    ) -> Seen<T> {
        let number = self.table.number(handle).map_err(|status| (status, None))?;
        let seen = self.table.attributes(number);
        let seen = seen.ok_or((nfsstat3::NFS3ERR_STALE, None))?;
        match action(self, number, &seen) {
            Ok(value) => Ok((value, self.table.attributes(number))),
            Err(status) => Err((status, Some(seen))),
        }
    }

    fn found(&self, number: u64) -> Result<Found, nfsstat3> {
        Ok(Found {
            handle: self.table.handle(number),
            attributes: self.table.get(number)?.attributes(number),
        })
    }

    fn set_attributes(
        &mut self,
        caller: &Caller,
        number: u64,
        new: &sattr3,
    ) -> Result<(), nfsstat3> {
        let seen = self.table.get(number)?.attributes(number);
        check_setattr(caller, &seen, new, || may_write(&seen, caller))?;
        let now = now();
        if let Some(size) = new.size {
            self.resize(number, size)?;
        }
        let inode = self.table.get_mut(number)?;
        let gid = new.gid.unwrap_or(inode.gid);
        if new.size.is_some() {
            inode.mtime = now;
            inode.mode = mode_after_write(inode.mode, inode.gid, caller).unwrap_or(inode.mode);
        }
        if let Some(mode) = new.mode {
            inode.mode = mode_as_set(mode, gid, caller);
        }
        let changes_ids = new.uid.is_some() || new.gid.is_some();
        if changes_ids && !matches!(inode.kind, Kind::Directory(_)) {
            inode.mode = mode_after_chown(inode.mode, inode.gid, caller);
        }
        inode.uid = new.uid.unwrap_or(inode.uid);
        inode.gid = gid;
        set(&mut inode.atime, new.atime, now);
        set(&mut inode.mtime, new.mtime, now);
        inode.ctime = now;
        Ok(())
    }
}

fn set(time: &mut nfstime3, how: set_time, now: nfstime3) {
    match how {
        set_time::DONT_CHANGE => {}
        set_time::SET_TO_SERVER_TIME => *time = now,
        set_time::SET_TO_CLIENT_TIME(given) => *time = given,
    }
}

impl Store for MemoryStore {
    fn description(&self) -> StoreDescription {
        StoreDescription {
            kind: "memory",
            settings: vec![("limit_bytes", self.limit_bytes.to_string())],
        }
    }
    fn root(&self) -> Handle {
        self.state.lock().table.handle(ROOT)
    }
    fn getattr(&self, object: &Handle) -> Result<fattr3, nfsstat3> {
        let state = self.state.lock();
        let number = state.table.number(object)?;
        Ok(state.table.get(number)?.attributes(number))
    }
    fn setattr(
        &self,
        caller: &Caller,
        object: &Handle,
        new: &sattr3,
        guard: Option<nfstime3>,
    ) -> Changed<()> {
        self.state.lock().change(object, |state, number, before| {
            if guard.is_some_and(|ctime| ctime != before.ctime) {
                return Err(nfsstat3::NFS3ERR_NOT_SYNC);
            }
            state.set_attributes(caller, number, new)
        })
    }
    fn lookup(&self, caller: &Caller, (dir, name): Place<'_>) -> Seen<Found> {
        self.state.lock().see(dir, |state, number, seen| {
            let entries = state.table.entries(number)?;
            if granted(seen, caller) & EXECUTE == 0 {
                return Err(nfsstat3::NFS3ERR_ACCES);
            }
            let target = match name {
                b"." => number,
                b".." => entries.parent,
                _ => entries.get(name).ok_or(nfsstat3::NFS3ERR_NOENT)?,
            };
            state.found(target)
        })
    }
    fn access(&self, caller: &Caller, object: &Handle, asked: u32) -> Seen<u32> {
        self.state
            .lock()
            .see(object, |_, _, seen| Ok(access_bits(seen, caller, asked)))
    }
    fn readlink(&self, _: &Caller, link: &Handle, text: &mut Vec<u8>) -> Seen<()> {
        self.state.lock().see(link, |state, number, _| {
            match &state.table.get(number)?.kind {
                Kind::Link(target) => text.extend_from_slice(target),
                _ => return Err(nfsstat3::NFS3ERR_INVAL),
            }
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
        self.state.lock().see(file, |state, number, _| {
            state.read(caller, number, (offset, count), payload)
        })
    }
    fn write(
        &self,
        caller: &Caller,
        file: &Handle,
        offset: u64,
        data: &[u8],
        _stable: stable_how,
    ) -> Changed<WriteDone> {
        self.state.lock().change(file, |state, number, _| {
            state.write(caller, number, offset, data)?;
            Ok(WriteDone {
                count: u32::try_from(data.len()).unwrap_or(u32::MAX),
                committed: stable_how::FILE_SYNC,
                verifier: self.verifier,
            })
        })
    }
    fn create(&self, caller: &Caller, (dir, name): Place<'_>, how: &createhow3) -> Changed<Found> {
        self.state.lock().change(dir, |state, number, seen| {
            state.create(caller, (number, seen), name, how)
        })
    }
    fn mkdir(&self, caller: &Caller, (dir, name): Place<'_>, new: &sattr3) -> Changed<Found> {
        self.state.lock().change(dir, |state, number, seen| {
            let kind = Kind::Directory(Entries::new(number));
            state.make(caller, (number, seen), name, kind, new)
        })
    }
    fn symlink(&self, caller: &Caller, at: Place<'_>, new: &sattr3, text: &[u8]) -> Changed<Found> {
        self.state.lock().change(at.0, |state, number, seen| {
            let mut new = *new;
            new.mode = Some(0o777);
            state.make(caller, (number, seen), at.1, Kind::Link(text.into()), &new)
        })
    }
    fn mknod(
        &self,
        caller: &Caller,
        at: Place<'_>,
        new: &sattr3,
        special: Special,
    ) -> Changed<Found> {
        self.state.lock().change(at.0, |state, number, seen| {
            let kind = namespace::special_kind(caller, special)?;
            state.make(caller, (number, seen), at.1, kind, new)
        })
    }
    fn remove(&self, caller: &Caller, (dir, name): Place<'_>) -> Changed<()> {
        self.state.lock().change(dir, |state, number, seen| {
            state.unlink(caller, (number, seen), name, false)
        })
    }
    fn rmdir(&self, caller: &Caller, (dir, name): Place<'_>) -> Changed<()> {
        self.state.lock().change(dir, |state, number, seen| {
            state.unlink(caller, (number, seen), name, true)
        })
    }
    fn rename(&self, caller: &Caller, from: Place<'_>, to: Place<'_>) -> (nfsstat3, RENAME3wcc) {
        self.state.lock().rename_with_wcc(caller, from, to)
    }
    fn link(&self, caller: &Caller, file: &Handle, at: Place<'_>) -> (nfsstat3, LINK3wcc) {
        self.state.lock().link_with_wcc(caller, file, at)
    }
    fn list(
        &self,
        caller: &Caller,
        dir: &Handle,
        from: ListFrom,
        sink: &mut dyn DirectorySink,
    ) -> Listed {
        let mut state = self.state.lock();
        let verifier = self.verifier;
        let listed = state.see(dir, |state, number, seen| {
            let entries = state.table.entries(number)?;
            if granted(seen, caller) & READ == 0 {
                return Err(nfsstat3::NFS3ERR_ACCES);
            }
            if from.cookie != 0 && from.verifier != verifier {
                return Err(nfsstat3::NFS3ERR_BAD_COOKIE);
            }
            sink.begin(Some(*seen), verifier);
            // Without search permission there are names, and no way to what they name.
            let with_objects = from.with_objects && granted(seen, caller) & EXECUTE != 0;
            let own: [(u64, &[u8], u64); 2] = [(1, b".", number), (2, b"..", entries.parent)];
            let own = own
                .into_iter()
                .filter(|(cookie, _, _)| *cookie > from.cookie);
            for (cookie, name, fileid) in own.chain(entries.behind(from.cookie)) {
                let found = if with_objects {
                    state.found(fileid).ok()
                } else {
                    None
                };
                let entry = Entry {
                    fileid,
                    name,
                    cookie,
                    found,
                };
                if !sink.entry(&entry) {
                    return Ok(false);
                }
            }
            Ok(true)
        });
        listed.map(|(end, _)| end)
    }
    fn fsstat(&self, object: &Handle) -> Result<FSSTAT3resok, nfsstat3> {
        let state = self.state.lock();
        let number = state.table.number(object)?;
        let free = state.limit_bytes.saturating_sub(state.used_bytes);
        let free_files = free / inode::INODE_COST_BYTES;
        Ok(FSSTAT3resok {
            obj_attributes: state.table.attributes(number),
            tbytes: state.limit_bytes,
            fbytes: free,
            abytes: free,
            tfiles: state.table.len().saturating_add(free_files),
            ffiles: free_files,
            afiles: free_files,
            invarsec: 0,
        })
    }
    fn commit(&self, _: &Caller, file: &Handle, _: u64, _: u32) -> Changed<writeverf3> {
        self.state.lock().change(file, |_, _, _| Ok(self.verifier))
    }
}

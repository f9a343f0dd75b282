//! Permission bits: who may do what, for stores that check by themselves.
//!
//! The rules of a Linux server: the owner of a file may READ and WRITE it whatever its mode says
//! (a client that has it open goes on after `chmod`; RFC 1813 section 4.4), execute permission
//! lets READ (a client must load programs), uid 0 may all.

use wire::nfs3::{access, fattr3, ftype3, nfsstat3, sattr3, set_time};

use crate::Caller;

/// Read permission.
pub const READ: u32 = 4;
/// Write permission.
pub const WRITE: u32 = 2;
/// Execute or search permission.
pub const EXECUTE: u32 = 1;
/// The sticky bit of a directory.
pub const STICKY: u32 = 0o1000;
const SET_USER_ID: u32 = 0o4000;
const SET_GROUP_ID: u32 = 0o2000;
/// What chown(2) takes for "leave it as it is": nobody's id.
const NO_ID: u32 = u32::MAX;

/// Permission bits (rwx as 4, 2, 1) that the caller has.
#[must_use]
pub fn granted(attributes: &fattr3, caller: &Caller) -> u32 {
    let mode = attributes.mode;
    if caller.uid == 0 {
        let searchable = attributes.type_ == ftype3::NF3DIR || mode & 0o111 != 0;
        return READ | WRITE | if searchable { EXECUTE } else { 0 };
    }
    let shift = if caller.uid == attributes.uid {
        6
    } else if caller.is_in_group(attributes.gid) {
        3
    } else {
        0
    };
    mode >> shift & 7
}

/// True if the caller may read the data of a file.
#[must_use]
pub fn may_read(attributes: &fattr3, caller: &Caller) -> bool {
    caller.uid == attributes.uid || granted(attributes, caller) & (READ | EXECUTE) != 0
}

/// True if the caller may write the data of a file.
#[must_use]
pub fn may_write(attributes: &fattr3, caller: &Caller) -> bool {
    caller.uid == attributes.uid || granted(attributes, caller) & WRITE != 0
}

fn may_keep_group_id(gid: u32, caller: &Caller) -> bool {
    caller.uid == 0 || caller.is_in_group(gid)
}

/// The mode of an object of group `gid`, no directory, after this caller changed its owner or
/// group: without the set-user-id bit, whoever it was, and without the set-group-id bit where that
/// is not mandatory locking's and the caller's to keep (Linux: `setattr_should_drop_sgid`).
#[must_use]
pub fn mode_after_chown(mode: u32, gid: u32, caller: &Caller) -> u32 {
    const GROUP_EXECUTE: u32 = 0o010;
    let mut dropped = SET_USER_ID;
    if mode & GROUP_EXECUTE != 0 || !may_keep_group_id(gid, caller) {
        dropped |= SET_GROUP_ID;
    }
    mode & 0o7777 & !dropped
}

/// The mode of a file after this caller wrote to it or cut it, if that is another one: as
/// [`mode_after_chown`], but root takes nothing away (Linux: `setattr_should_drop_suidgid`).
#[must_use]
pub fn mode_after_write(mode: u32, gid: u32, caller: &Caller) -> Option<u32> {
    let after = mode_after_chown(mode, gid, caller);
    (caller.uid != 0 && after != mode & 0o7777).then_some(after)
}

/// The mode that an object of group `gid` gets when this caller asks for `mode` (chmod(2)): the
/// set-group-id bit is not for those outside the group.
#[must_use]
pub fn mode_as_set(mode: u32, gid: u32, caller: &Caller) -> u32 {
    let dropped = if may_keep_group_id(gid, caller) {
        0
    } else {
        SET_GROUP_ID
    };
    mode & 0o7777 & !dropped
}

/// True if the caller may remove the object `victim` from the directory `dir`, given that it may
/// write to the directory (sticky directories: only one's own).
#[must_use]
pub fn may_unlink(dir: &fattr3, victim: &fattr3, caller: &Caller) -> bool {
    dir.mode & STICKY == 0 || caller.uid == 0 || caller.uid == dir.uid || caller.uid == victim.uid
}

/// The ACCESS bits (of those `asked`) that the caller has (RFC 1813 section 3.3.4).
#[must_use]
pub fn access_bits(attributes: &fattr3, caller: &Caller, asked: u32) -> u32 {
    access_from(
        attributes.type_ == ftype3::NF3DIR,
        granted(attributes, caller),
    ) & asked
}

/// ACCESS bits of permission bits.
#[must_use]
pub fn access_from(is_directory: bool, granted: u32) -> u32 {
    let mut bits = 0;
    if granted & READ != 0 {
        bits |= access::READ;
    }
    if granted & WRITE != 0 {
        bits |= access::MODIFY | access::EXTEND;
        if is_directory {
            bits |= access::DELETE;
        }
    }
    if granted & EXECUTE != 0 {
        bits |= if is_directory {
            access::LOOKUP
        } else {
            access::EXECUTE
        };
    }
    bits
}

/// Who may set what (chmod(2), chown(2), utimensat(2), truncate(2)); `may_write` tells whether the
/// caller may write the data, where it is not the owner.
pub fn check_setattr(
    caller: &Caller,
    seen: &fattr3,
    new: &sattr3,
    may_write: impl FnOnce() -> bool,
) -> Result<(), nfsstat3> {
    if [new.uid, new.gid].contains(&Some(NO_ID)) {
        return Err(nfsstat3::NFS3ERR_INVAL);
    }
    let owns = caller.uid == 0 || caller.uid == seen.uid;
    let client_times = [new.atime, new.mtime]
        .iter()
        .any(|time| matches!(time, set_time::SET_TO_CLIENT_TIME(_)));
    let server_times = [new.atime, new.mtime].contains(&set_time::SET_TO_SERVER_TIME);
    let gives_away = new.uid.is_some_and(|uid| uid != seen.uid);
    let regroups = new
        .gid
        .is_some_and(|gid| gid != seen.gid && !caller.is_in_group(gid));
    let changes_ids = new.uid.is_some() || new.gid.is_some();
    if (new.mode.is_some() || client_times || changes_ids) && !owns {
        return Err(nfsstat3::NFS3ERR_PERM);
    }
    if (gives_away || regroups) && caller.uid != 0 {
        return Err(nfsstat3::NFS3ERR_PERM);
    }
    if (server_times || new.size.is_some()) && !owns && !may_write() {
        return Err(nfsstat3::NFS3ERR_ACCES);
    }
    let bad_time =
        |time| matches!(time, set_time::SET_TO_CLIENT_TIME(t) if t.nseconds > 999_999_999);
    if bad_time(new.atime) || bad_time(new.mtime) {
        return Err(nfsstat3::NFS3ERR_INVAL);
    }
    Ok(())
}

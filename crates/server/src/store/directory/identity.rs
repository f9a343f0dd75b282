//! Acting in a caller's name: file system ids and groups of the calling thread alone.
//!
//! Linux keeps these per thread. With a file system uid other than 0 the kernel checks every
//! permission as for that user, access control lists included, and gives new files to it. What
//! the thread has set is remembered, so that a stream of calls of one user costs nothing.

use std::cell::RefCell;

use wire::nfs3::nfsstat3;

use crate::Caller;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Identity {
    uid: u32,
    // Unknown until it is set: the process may have been started with any group.
    gid: Option<u32>,
    groups: Option<Vec<u32>>,
}

thread_local! {
    static CURRENT: RefCell<Identity> = const {
        RefCell::new(Identity { uid: 0, gid: None, groups: None })
    };
}

const FAILED: nfsstat3 = nfsstat3::NFS3ERR_SERVERFAULT;

/// An id that no user has: asks for the current one (setfsuid(2)).
const ASK: libc::c_long = -1;

fn set(number: libc::c_long, id: u32) -> Result<(), nfsstat3> {
    // SAFETY: setfsuid and setfsgid take one integer and touch no memory.
    let now = unsafe {
        libc::syscall(number, libc::c_long::from(id));
        libc::syscall(number, ASK)
    };
    // These calls do not say whether they worked: the second tells.
    if now as u32 == id {
        Ok(())
    } else {
        Err(FAILED)
    }
}

/// Goes on with the server's own rights (uid 0).
pub fn act_as_server() -> Result<(), nfsstat3> {
    CURRENT.with_borrow_mut(|current| {
        if current.uid != 0 {
            set(libc::SYS_setfsuid, 0)?;
            current.uid = 0;
        }
        Ok(())
    })
}

/// Goes on with the caller's ids and groups.
pub fn act_as(caller: &Caller) -> Result<(), nfsstat3> {
    CURRENT.with_borrow_mut(|current| {
        if current.groups.as_deref() != Some(caller.groups()) {
            let groups = caller.groups();
            // SAFETY: the raw call (unlike the C library's) changes this thread alone; pointer
            // and length are those of one slice.
            let failed =
                unsafe { libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()) };
            if failed != 0 {
                return Err(FAILED);
            }
            current.groups = Some(groups.to_vec());
        }
        if current.gid != Some(caller.gid) {
            set(libc::SYS_setfsgid, caller.gid)?;
            current.gid = Some(caller.gid);
        }
        if current.uid != caller.uid {
            set(libc::SYS_setfsuid, caller.uid)?;
            current.uid = caller.uid;
        }
        Ok(())
    })
}

/// True if this process may act as others: uid 0, and the kernel obeys (a container may not).
pub fn can_act_as_others() -> bool {
    let tried = std::thread::spawn(|| {
        let address = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
        let other = Caller::with_ids(address, 1, 1).with_groups(&[1]);
        rustix::process::geteuid().is_root() && act_as(&other).is_ok() && act_as_server().is_ok()
    });
    tried.join().unwrap_or(false)
}

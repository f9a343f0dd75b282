//! Which processes are watched when it begins: some, and all their living descendants.
//!
//! Forks are watched before this looks at /proc: what a watched process forks from then on is
//! taken in by the kernel. A child that was forked before its parent was taken in is found by
//! looking again, until a look finds nobody new. Descendants whose parent had ended before are not
//! known as such.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::error::WatchError;
use crate::samples::parent;

use super::kernel;

/// So often /proc is read at most.
const LOOKS_MAX: usize = 16;

/// Gives these processes and their descendants an entry each: to how many.
pub fn take_in(roots: &[u32], map: BorrowedFd<'_>, entry: &[u8]) -> Result<usize, WatchError> {
    let mut seen = HashSet::new();
    let mut taken = 0;
    for pid in roots {
        if !seen.insert(*pid) {
            continue;
        }
        match enter(*pid, map, entry) {
            Ok(fresh) => taken += usize::from(fresh),
            Err(error) if is_gone(&error) => return Err(WatchError::Gone { pid: *pid }),
            Err(error) => {
                return Err(WatchError::Bpf {
                    step: format!("take in process {pid}"),
                    why: error.to_string(),
                });
            }
        }
    }
    for _ in 0..LOOKS_MAX {
        let found = descendants(&seen);
        if found.is_empty() {
            break;
        }
        for pid in found {
            seen.insert(pid);
            // One that ended meanwhile needs not be watched.
            taken += usize::from(enter(pid, map, entry).unwrap_or(false));
        }
    }
    Ok(taken)
}

/// Gives all threads of a process an entry each; those that start later have it of their parent.
pub fn take_in_threads(pid: u32, map: BorrowedFd<'_>, entry: &[u8]) -> Result<(), WatchError> {
    let mut seen = HashSet::from([pid]);
    for _ in 0..LOOKS_MAX {
        let found: Vec<u32> = threads(pid).filter(|tid| seen.insert(*tid)).collect();
        if found.is_empty() {
            break;
        }
        for tid in found {
            match enter_thread(tid, map, entry) {
                Ok(_) => {}
                // One that ended meanwhile needs not be watched.
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                Err(error) => {
                    return Err(WatchError::Bpf {
                        step: format!("take in thread {tid} (Linux 6.9 and newer can)"),
                        why: error.to_string(),
                    });
                }
            }
        }
    }
    Ok(())
}

fn threads(pid: u32) -> impl Iterator<Item = u32> {
    let folder = fs::read_dir(format!("/proc/{pid}/task"));
    let entries = folder.into_iter().flatten().filter_map(Result::ok);
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn is_gone(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::ESRCH | libc::EINVAL | libc::ENOENT)
    )
}

fn enter(pid: u32, map: BorrowedFd<'_>, entry: &[u8]) -> io::Result<bool> {
    enter_as(pid, PidfdFlags::empty(), map, entry)
}

fn enter_thread(tid: u32, map: BorrowedFd<'_>, entry: &[u8]) -> io::Result<bool> {
    /// PIDFD_THREAD.
    const OF_THREAD: PidfdFlags = PidfdFlags::from_bits_retain(libc::O_EXCL as u32);
    enter_as(tid, OF_THREAD, map, entry)
}

fn enter_as(pid: u32, flags: PidfdFlags, map: BorrowedFd<'_>, entry: &[u8]) -> io::Result<bool> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| io::Error::from_raw_os_error(libc::ESRCH))?;
    let process = pidfd_open(pid, flags)?;
    kernel::store(map, process.as_fd(), entry)
}

/// Descendants of these that are not among them.
fn descendants(of: &HashSet<u32>) -> Vec<u32> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for (pid, parent) in processes() {
        children.entry(parent).or_default().push(pid);
    }
    let mut found = Vec::new();
    let mut open: Vec<u32> = of.iter().copied().collect();
    while let Some(parent) = open.pop() {
        for child in children.remove(&parent).unwrap_or_default() {
            open.push(child);
            if !of.contains(&child) {
                found.push(child);
            }
        }
    }
    found
}

/// (process, its parent).
fn processes() -> impl Iterator<Item = (u32, u32)> {
    fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
            let stat = fs::read(entry.path().join("stat")).ok()?;
            Some((pid, parent(&stat)?))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_descends_from_its_parent() {
        let own = std::process::id();
        let parent = rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get() as u32);
        assert!(descendants(&HashSet::from([parent])).contains(&own));
        assert!(!descendants(&HashSet::from([own])).contains(&parent));
    }
}

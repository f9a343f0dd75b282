//! Who makes a call: the user behind a request of the kernel, as AUTH_SYS says it.
//!
//! The kernel gives user, group and process; supplementary groups stand in `/proc/PID/status`. They
//! are kept for [`GROUPS_NS`], since a read of /proc costs more than a call: a process that changes
//! its groups is believed to have the old ones so long.

use client::Caller;
use fuser::Request;
use hashbrown::HashMap;
use measure::{Clock, MonotonicClock};
use parking_lot::Mutex;

/// Processes kept; then all are looked up again.
const MAX_KEPT: usize = 1 << 12;
/// How long groups are believed.
const GROUPS_NS: u64 = 1_000_000_000;

#[derive(Debug)]
struct Kept {
    caller: Caller,
    until_ns: u64,
}

/// Callers by user, group and process.
#[derive(Debug, Default)]
pub(crate) struct Callers(Mutex<HashMap<(u32, u32, u32), Kept>>);

impl Callers {
    pub fn of(&self, request: &Request) -> Caller {
        let (uid, gid) = (request.uid(), request.gid());
        // The superuser's groups change nothing: one entry for all its processes.
        let process = if uid == 0 { 0 } else { request.pid() };
        let now_ns = MonotonicClock.now_ns();
        let key = (uid, gid, process);
        let mut kept = self.0.lock();
        if let Some(found) = kept.get(&key).filter(|kept| now_ns < kept.until_ns) {
            return found.caller.clone();
        }
        let groups = if process == 0 {
            Vec::new()
        } else {
            supplementary_groups(process)
        };
        let caller = Caller::user(uid, gid, &groups);
        if kept.len() >= MAX_KEPT {
            kept.clear();
        }
        let until_ns = if uid == 0 {
            u64::MAX
        } else {
            now_ns.saturating_add(GROUPS_NS)
        };
        let entry = Kept {
            caller: caller.clone(),
            until_ns,
        };
        kept.insert(key, entry);
        caller
    }
}

/// The line `Groups:` of a process's status; empty if the process cannot be seen.
fn supplementary_groups(process: u32) -> Vec<u32> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Groups:"));
    let numbers = line.unwrap_or_default().split_ascii_whitespace();
    numbers.filter_map(|number| number.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_this_process_are_those_that_getgroups_gives() {
        let mut known: Vec<u32> = rustix::process::getgroups()
            .unwrap()
            .iter()
            .map(|gid| gid.as_raw())
            .collect();
        let mut found = supplementary_groups(std::process::id());
        known.sort_unstable();
        found.sort_unstable();
        assert_eq!(found, known);
        assert!(supplementary_groups(u32::MAX).is_empty());
    }
}

//! Which processes are looked at: the children of one that say what they wait for in memory that
//! all of them share.
//!
//! A child is known by a descriptor of the process (pidfd), so that a number that is used again is
//! another process. Its word counts from when its own pointer names memory that it shares with
//! the root (PostgreSQL: from when it has its place among the processes, proc.c). Between two
//! instants at which its pointer named the same word, and at the second of which it still lived,
//! nobody else had that word: a process takes a place once, and its pointer leaves the place before
//! another process can have it (ProcKill()). What was counted since the first of the two is then
//! its own; what cannot be confirmed so is dropped.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::memory::{Mapping, WORDS_MAX, Words, read_pointer, shared_mappings};
use super::tally::Tally;

/// Children, those that are looked at, and the words that they say it in.
pub struct Processes {
    root: u32,
    /// Where each process has its pointer.
    pointer: u64,
    shared: Vec<Mapping>,
    words: Words,
    live: Vec<Process>,
    /// Not known to have a word yet.
    fresh: Vec<(u32, OwnedFd)>,
    /// Seen in /proc, ours or not.
    known: HashSet<u32>,
    /// The last number that Linux gave to a process when /proc was read.
    last_pid: Option<u32>,
    pids: Vec<u32>,
    /// What a process was seen in, and could not be confirmed.
    pub dropped: u64,
    /// The same, of what was confirmed.
    pub confirmed: u64,
    /// Processes beyond `WORDS_MAX`.
    pub left_out: u64,
}

struct Process {
    place: u32,
    pid: u32,
    process: OwnedFd,
    word: u64,
    /// By (stretch, state), since it was confirmed last.
    seen: Vec<(u32, u32, u32)>,
}

impl Processes {
    /// Of a root that has its pointer there. The system's error: its memory cannot be read.
    pub fn of(root: u32, pointer: u64) -> io::Result<Self> {
        read_pointer(root, pointer)?;
        let mut made = Processes {
            root,
            pointer,
            shared: shared_mappings(root)?,
            words: Words::of(root),
            live: Vec::new(),
            fresh: Vec::new(),
            known: HashSet::new(),
            last_pid: None,
            pids: Vec::new(),
            dropped: 0,
            confirmed: 0,
            left_out: 0,
        };
        made.find()?;
        Ok(made)
    }

    /// Does anything lie in memory that several processes have?
    pub fn shares(&self) -> bool {
        !self.shared.is_empty()
    }

    /// Place and number of those that are looked at.
    pub fn live(&self) -> impl Iterator<Item = (u32, u32)> {
        self.live.iter().map(|one| (one.place, one.pid))
    }

    /// Numbers of all that were ever looked at, by place.
    pub fn into_pids(self) -> Vec<u32> {
        self.pids
    }

    /// A look at all words, by one call.
    pub fn look(&mut self, stretch: u32) -> io::Result<()> {
        let words = self.words.read()?;
        for (process, state) in self.live.iter_mut().zip(words) {
            let mut seen = process.seen.iter_mut().rev();
            match seen.find(|(at, what, _)| (*at, *what) == (stretch, *state)) {
                Some((_, _, times)) => *times += 1,
                None => process.seen.push((stretch, *state, 1)),
            }
        }
        Ok(())
    }

    /// Confirms what was seen since the last time, and lets go of processes that ended.
    pub fn confirm(&mut self, tally: &mut Tally) -> io::Result<()> {
        let named = |one: &Process| read_pointer(one.pid, self.pointer).ok() == Some(one.word);
        let own: Vec<bool> = self.live.iter().map(named).collect();
        let ended = ended(self.live.iter().map(|one| (one.pid, &one.process)))?;
        let before = self.live.len();
        for (mut one, own) in std::mem::take(&mut self.live).into_iter().zip(own) {
            let times: u64 = one.seen.iter().map(|seen| u64::from(seen.2)).sum();
            if own && !ended.contains(&one.pid) {
                for (stretch, state, times) in one.seen.drain(..) {
                    tally.add(one.place, stretch, state, times);
                }
                self.confirmed += times;
                self.live.push(one);
            } else {
                self.known.remove(&one.pid);
                self.dropped += times;
            }
        }
        if self.live.len() < before {
            self.set_words();
        }
        Ok(())
    }

    /// Finds new children. /proc is read only when Linux has made a process since.
    pub fn find(&mut self) -> io::Result<()> {
        let last_pid = last_pid();
        if last_pid.is_none() || last_pid != self.last_pid {
            self.last_pid = last_pid;
            self.read_children()?;
        }
        if self.fresh.is_empty() {
            return Ok(());
        }
        let ended = ended(self.fresh.iter().map(|(pid, process)| (*pid, process)))?;
        let before = self.live.len();
        for (pid, process) in std::mem::take(&mut self.fresh) {
            if ended.contains(&pid) {
                self.known.remove(&pid);
            } else if let Some(word) = self.word_of(pid) {
                self.take_in(pid, process, word);
            } else {
                self.fresh.push((pid, process));
            }
        }
        if self.live.len() > before {
            self.set_words();
        }
        Ok(())
    }

    fn read_children(&mut self) -> io::Result<()> {
        let mut listed = HashSet::with_capacity(self.known.len());
        for entry in fs::read_dir("/proc")?.flatten() {
            let Some(pid) = entry
                .file_name()
                .to_str()
                .and_then(|name| name.parse().ok())
            else {
                continue;
            };
            listed.insert(pid);
            if self.known.contains(&pid) || parent_of(pid) != Some(self.root) {
                continue;
            }
            // Asked again: the descriptor is of whoever has that number by now.
            let process = i32::try_from(pid).ok().and_then(Pid::from_raw);
            let process = process.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
            if let Some(process) = process.filter(|_| parent_of(pid) == Some(self.root)) {
                self.fresh.push((pid, process));
            }
        }
        self.known = listed;
        Ok(())
    }

    /// The word that a process says it in, once that is one that it shares with the root.
    fn word_of(&self, pid: u32) -> Option<u64> {
        let word = read_pointer(pid, self.pointer).ok()?;
        let mapping = self.shared.iter().find(|one| one.holds(word))?;
        let same = shared_mappings(pid).ok()?.contains(mapping);
        same.then_some(word)
    }

    fn take_in(&mut self, pid: u32, process: OwnedFd, word: u64) {
        if self.live.len() == WORDS_MAX {
            self.left_out += 1;
            return;
        }
        let place = self.pids.len() as u32;
        self.pids.push(pid);
        self.live.push(Process {
            place,
            pid,
            process,
            word,
            seen: Vec::new(),
        });
    }

    fn set_words(&mut self) {
        self.words.set(self.live.iter().map(|one| one.word));
    }
}

/// Those of these processes that have ended.
fn ended<'a>(of: impl Iterator<Item = (u32, &'a OwnedFd)>) -> io::Result<HashSet<u32>> {
    let (pids, mut polled): (Vec<u32>, Vec<PollFd<'_>>) = of
        .map(|(pid, process)| (pid, PollFd::new(process, PollFlags::IN)))
        .unzip();
    poll(&mut polled, Some(&Timespec::default()))?;
    let all = pids.into_iter().zip(polled);
    let over = all.filter(|(_, one)| !one.revents().is_empty());
    Ok(over.map(|(pid, _)| pid).collect())
}

/// The last number that Linux gave to a process or a thread (proc_loadavg(5)).
fn last_pid() -> Option<u32> {
    let text = fs::read_to_string("/proc/loadavg").ok()?;
    text.split_ascii_whitespace().last()?.parse().ok()
}

fn parent_of(pid: u32) -> Option<u32> {
    parent(&fs::read(format!("/proc/{pid}/stat")).ok()?)
}

/// The parent in the text of /proc/PID/stat: the second field after the name, which may hold
/// anything.
pub fn parent(stat: &[u8]) -> Option<u32> {
    let after = stat.iter().rposition(|byte| *byte == b')')? + 1;
    let text = std::str::from_utf8(stat.get(after..)?).ok()?;
    text.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_hold_parentheses_and_spaces() {
        assert_eq!(parent(b"71 (a) S 9 (b) R 12 71 71 0 -1"), Some(12));
        assert_eq!(parent(b"71 (postgres) S 4 71"), Some(4));
        assert_eq!(parent(b"71 (postgres"), None);
    }
}

//! Which file a descriptor of a process is, and where its next read or write begins, as far as
//! the lines tell.
//!
//! A descriptor stands for a description (open(2)): dup and fork share it, and with it the
//! position. Threads share one table of descriptors (CLONE_FILES), a child gets a copy. Nothing
//! here is guessed: a position is known from an open or an lseek that was seen, and is forgotten
//! when calls on one description overlap, when the same file is used through a descriptor whose
//! origin was not seen (it may be the same description), and when more is going on than the
//! limits hold. Processes that began before the first line, or whose clone is not among the
//! lines, are families of their own: what one of them does to a descriptor of this number makes
//! the others' unknown when paths are not printed, since they may be threads of one process.

use super::numbers::Numbers;
use crate::record::NO_FILE;
use crate::tally::files::PATH_MAX;

/// Threads whose descriptors are followed.
pub const THREADS_MAX: usize = 1 << 16;
/// Descriptors of all tables together.
pub const DESCRIPTORS_MAX: usize = 1 << 20;
/// Greatest number of a descriptor that is followed (fs.nr_open of Linux, less one).
const NUMBER_MAX: i32 = (1 << 20) - 1;

/// What open made.
#[derive(Clone, Debug, Default)]
pub struct Description {
    /// Of which file.
    pub file_id: u32,
    /// Its path as it was printed last, whether it had lost its name, and how many names had
    /// changed by then; to save a look-up.
    pub shown: (Box<[u8]>, bool, u64),
    /// Where the next read or write begins.
    pub position: Option<u64>,
    /// Writes go to the file's end.
    pub append: bool,
    /// Writes return when bytes are durable; None when its open was not seen.
    pub synchronous: Option<bool>,
    /// A folder.
    pub folder: bool,
    /// Was its origin seen?
    pub followed: bool,
    /// Calls that moved or may have moved the position, so far.
    pub moves: u64,
    /// Such calls that are under way.
    pub under_way: u32,
    pub(super) doubts: u32,
    pub(super) holders: u32,
}

impl Description {
    /// Of a file, with nothing known of its position.
    pub fn unknown(file_id: u32) -> Self {
        Description {
            file_id,
            ..Description::default()
        }
    }
}

/// A path as it was printed, to be compared with the next one; nothing of one that is longer than
/// any path with all its bytes escaped (`\377`).
pub fn remembered(path: &[u8]) -> Box<[u8]> {
    if path.len() < 4 * PATH_MAX {
        path.into()
    } else {
        Box::default()
    }
}

#[derive(Clone, Debug)]
struct Thread {
    pid: u32,
    table: u32,
}

#[derive(Debug)]
struct Table {
    family: u32,
    threads: u32,
    cwd: Option<Box<[u8]>>,
    slots: Numbers<i32, u32>,
}

/// All processes.
#[derive(Debug, Default)]
pub struct Descriptors {
    threads: Numbers<u32, Thread>,
    tables: Numbers<u32, Table>,
    next_table: u32,
    descriptions: Numbers<u32, Description>,
    next_description: u32,
    held: usize,
    /// How often each file was used through a descriptor of unknown origin.
    doubts: Numbers<u32, u32>,
    /// Which family defined a descriptor of this number last.
    definers: Numbers<i32, u32>,
    /// Tables and descriptors that found no room.
    pub beyond: u64,
}

impl Descriptors {
    /// Was this thread seen?
    pub fn knows(&self, tid: u32) -> bool {
        self.threads.contains_key(&tid)
    }

    /// The only thread that lives, if there is one only.
    pub fn only(&self) -> Option<u32> {
        let mut tids = self.threads.keys();
        let first = tids.next().copied();
        first.filter(|_| tids.next().is_none())
    }

    /// The process of a thread: its own number unless it was seen to begin as a thread.
    pub fn pid(&self, tid: u32) -> u32 {
        self.threads.get(&tid).map_or(tid, |thread| thread.pid)
    }

    /// The thread is known from now on, with nothing known of its descriptors.
    pub fn meet(&mut self, tid: u32) {
        if self.knows(tid) {
            return;
        }
        if self.threads.len() >= THREADS_MAX {
            self.beyond += 1;
            return;
        }
        let table = self.fresh(self.next_table, None);
        self.threads.insert(tid, Thread { pid: tid, table });
    }

    fn fresh(&mut self, family: u32, cwd: Option<Box<[u8]>>) -> u32 {
        let number = self.next_table;
        self.next_table = self.next_table.wrapping_add(1);
        let table = Table {
            family,
            threads: 1,
            cwd,
            slots: Numbers::default(),
        };
        self.tables.insert(number, table);
        number
    }

    /// A thread has another number than was thought (the first one, before numbers were printed).
    pub fn renumber(&mut self, from: u32, to: u32) {
        if let Some(mut thread) = self.threads.remove(&from) {
            if thread.pid == from {
                thread.pid = to;
            }
            self.threads.insert(to, thread);
        }
    }

    /// `parent` made `child`. What the child did before this was known to be its own stays.
    pub fn cloned(&mut self, parent: u32, child: u32, files: bool, same_process: bool) {
        self.meet(parent);
        let Some(parent) = self.threads.get(&parent).cloned() else {
            return;
        };
        if parent.table
            == self
                .threads
                .get(&child)
                .map_or(u32::MAX, |known| known.table)
        {
            return;
        }
        let early = self.threads.remove(&child);
        let early_slots = early.map(|thread| self.slots_of(thread.table));
        let (family, cwd, slots) = match self.tables.get(&parent.table) {
            Some(table) => (table.family, table.cwd.clone(), table.slots.clone()),
            None => return,
        };
        let pid = if same_process { parent.pid } else { child };
        let table = if files {
            if let Some(table) = self.tables.get_mut(&parent.table) {
                table.threads += 1;
            }
            parent.table
        } else {
            self.fresh(family, cwd)
        };
        self.threads.insert(child, Thread { pid, table });
        if !files {
            for (fd, description) in slots {
                self.hold(table, fd, description);
            }
        }
        for (fd, description) in early_slots.iter().flatten() {
            self.hold(table, *fd, *description);
        }
        if let Some(slots) = early_slots {
            for (_, description) in slots {
                self.release(description);
            }
        }
    }

    /// Takes a table's slots out; they are still held.
    fn slots_of(&mut self, table: u32) -> Vec<(i32, u32)> {
        let Some(known) = self.tables.get_mut(&table) else {
            return Vec::new();
        };
        known.threads = known.threads.saturating_sub(1);
        if known.threads > 0 {
            return Vec::new();
        }
        let slots = std::mem::take(&mut known.slots);
        self.tables.remove(&table);
        slots.into_iter().collect()
    }

    /// A thread ended.
    pub fn ended(&mut self, tid: u32) {
        if let Some(thread) = self.threads.remove(&tid) {
            for (_, description) in self.slots_of(thread.table) {
                self.release(description);
            }
        }
    }

    fn hold(&mut self, table: u32, fd: i32, description: u32) {
        let Some(known) = self.tables.get_mut(&table) else {
            return;
        };
        if self.held >= DESCRIPTORS_MAX && !known.slots.contains_key(&fd) {
            self.beyond += 1;
            return;
        }
        if let Some(held) = self.descriptions.get_mut(&description) {
            held.holders += 1;
            self.held += 1;
            if let Some(before) = known.slots.insert(fd, description) {
                self.release(before);
            }
        }
    }

    fn release(&mut self, description: u32) {
        self.held = self.held.saturating_sub(1);
        let Some(held) = self.descriptions.get_mut(&description) else {
            return;
        };
        held.holders = held.holders.saturating_sub(1);
        if held.holders == 0 {
            self.descriptions.remove(&description);
        }
    }

    /// The descriptor stands for this from now on.
    pub fn define(&mut self, tid: u32, fd: i32, mut description: Description) -> Option<u32> {
        self.meet(tid);
        let table = self.threads.get(&tid)?.table;
        if !(0..=NUMBER_MAX).contains(&fd) {
            self.beyond += 1;
            return None;
        }
        if description.followed {
            let family = self.tables.get(&table)?.family;
            self.definers.insert(fd, family);
        }
        description.doubts = self.doubts.get(&description.file_id).copied().unwrap_or(0);
        let number = self.next_description;
        self.next_description = self.next_description.wrapping_add(1);
        self.descriptions.insert(number, description);
        self.hold(table, fd, number);
        let kept = self.descriptions.get(&number)?.holders > 0;
        if !kept {
            self.descriptions.remove(&number);
        }
        kept.then_some(number)
    }

    /// The descriptor `to` stands for what `from` stands for.
    pub fn duplicate(&mut self, tid: u32, from: i32, to: i32) {
        if from == to || !(0..=NUMBER_MAX).contains(&to) {
            return;
        }
        let found = self.find(tid, from, false);
        self.forget(tid, to, to);
        if let (Some(number), Some(thread)) = (found, self.threads.get(&tid)) {
            self.hold(thread.table, to, number);
        }
    }

    /// The descriptors from `first` to `last` stand for nothing any more.
    pub fn forget(&mut self, tid: u32, first: i32, last: i32) {
        let Some(table) = self.threads.get(&tid).map(|thread| thread.table) else {
            return;
        };
        let Some(known) = self.tables.get_mut(&table) else {
            return;
        };
        let family = known.family;
        let mut gone = Vec::new();
        if first == last {
            gone.extend(known.slots.remove(&first));
            if (0..=NUMBER_MAX).contains(&first) {
                self.definers.insert(first, family);
            }
        } else {
            let within = |fd: &i32| (first..=last).contains(fd);
            known.slots.retain(|fd, number| {
                if within(fd) {
                    gone.push(*number);
                }
                !within(fd)
            });
        }
        for number in gone {
            self.release(number);
        }
    }

    /// The description that a descriptor stands for. With `named` its path was printed, so that it
    /// is checked by it; without, another family's descriptor of this number makes it unknown.
    pub fn find(&self, tid: u32, fd: i32, named: bool) -> Option<u32> {
        let table = self.tables.get(&self.threads.get(&tid)?.table)?;
        let number = table.slots.get(&fd).copied()?;
        let ours = named
            || self
                .definers
                .get(&fd)
                .is_none_or(|last| *last == table.family);
        ours.then_some(number)
    }

    /// A description.
    pub fn get(&self, number: u32) -> Option<&Description> {
        self.descriptions.get(&number)
    }

    /// A description.
    pub fn get_mut(&mut self, number: u32) -> Option<&mut Description> {
        self.descriptions.get_mut(&number)
    }

    /// Where the next read or write begins, if it is known beyond doubt.
    pub fn position(&self, number: u32) -> Option<u64> {
        let description = self.descriptions.get(&number)?;
        let doubts = self.doubts.get(&description.file_id).copied().unwrap_or(0);
        description
            .position
            .filter(|_| doubts == description.doubts)
    }

    /// The next read or write begins there.
    pub fn set_position(&mut self, number: u32, position: Option<u64>) {
        let Some(description) = self.descriptions.get_mut(&number) else {
            return;
        };
        let doubted = self.doubts.contains_key(&description.file_id);
        if description.file_id != NO_FILE && (doubted || !description.followed) {
            *self.doubts.entry(description.file_id).or_default() += 1;
        }
        description.moves += 1;
        description.position = position;
        description.doubts = self.doubts.get(&description.file_id).copied().unwrap_or(0);
    }

    /// The working folder of a thread.
    pub fn cwd(&self, tid: u32) -> Option<&[u8]> {
        let table = self.tables.get(&self.threads.get(&tid)?.table)?;
        table.cwd.as_deref()
    }

    /// The working folder of a thread is this.
    pub fn set_cwd(&mut self, tid: u32, cwd: Option<Box<[u8]>>) {
        self.meet(tid);
        let table = self.threads.get(&tid).map(|thread| thread.table);
        if let Some(table) = table.and_then(|number| self.tables.get_mut(&number)) {
            table.cwd = cwd;
        }
    }
}

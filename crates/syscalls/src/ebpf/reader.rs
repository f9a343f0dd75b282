//! The thread that empties the ring: every 50 ms, sooner when half of it is full, and when asked.
//!
//! What it reads becomes records and waits to be taken; what waits is bounded
//! ([`super::ROWS_MAX`]), and what finds no room is counted as lost, as what found none in the ring
//! is.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use aya::maps::{MapData, RingBuf};
use parking_lot::{Condvar, Mutex, MutexGuard};
use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};

use crate::record::{AccessRecord, BlockRecord, Call, CountRecord, FileRecord, NO_FILE};
use crate::record::{NameRecord, SyncRecord};
use crate::tally::{fits, keep};

use super::Taken;
use super::layout::{BlockParts, CallRecord, NameParts, Sent, device, flag};
use super::paths::{Mounts, Named, Names, joined};

/// How often the ring is emptied.
const LOOK: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 50_000_000,
};
/// How long a question waits for the thread.
const QUESTION_LIMIT: Duration = Duration::from_secs(5);

/// What found no room among what waits.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lost {
    pub syncs: u64,
    pub events: u64,
    pub names: u64,
    pub blocks: u64,
    /// Records that could not be: too short, or of a kind that is none.
    pub not_understood: u64,
}

/// What the thread leaves for others.
#[derive(Debug, Default)]
pub struct Shelf {
    taken: Taken,
    path_bytes: usize,
    pub lost: Lost,
    /// Calls that change names, by file and call.
    pub counts: HashMap<(u32, Call), CountRecord>,
    pub cpu_ns: u64,
    /// Questions asked; the last one that was answered.
    asked: u64,
    answered: u64,
    ended: bool,
}

struct Shared {
    shelf: Mutex<Shelf>,
    answered: Condvar,
    wake: OwnedFd,
}

/// The thread, until it is dropped.
pub struct Reader {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Reader {
    /// Begins to empty the ring. `roots`: asked for mounts when a process is gone.
    pub fn start(ring: RingBuf<MapData>, roots: &[u32]) -> io::Result<Self> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let event = |number| epoll::EventData::new_u64(number);
        let edge = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&poll, &wake, event(0), edge)?;
        epoll::add(&poll, ring.as_fd(), event(1), edge)?;
        let shared = Arc::new(Shared {
            shelf: Mutex::default(),
            answered: Condvar::new(),
            wake,
        });
        let work = Work {
            shared: Arc::clone(&shared),
            ring,
            poll,
            mounts: Mounts::new(roots),
            names: Names::default(),
        };
        let thread = std::thread::Builder::new().name("nfslab-watch".to_owned());
        let thread = thread.spawn(move || work.run())?;
        Ok(Reader {
            shared,
            thread: Some(thread),
        })
    }

    /// What is there now, the ring emptied before.
    pub fn shelf(&self) -> MutexGuard<'_, Shelf> {
        let mut shelf = self.shared.shelf.lock();
        if shelf.ended {
            return shelf;
        }
        shelf.asked += 1;
        let question = shelf.asked;
        drop(shelf);
        self.ring_the_bell();
        let waiting = |shelf: &mut Shelf| shelf.answered < question && !shelf.ended;
        let mut shelf = self.shared.shelf.lock();
        let answered = &self.shared.answered;
        answered.wait_while_for(&mut shelf, waiting, QUESTION_LIMIT);
        shelf
    }

    /// Empties the ring a last time and ends the thread; what was read stays.
    pub fn stop(&mut self) {
        self.shared.shelf.lock().ended = true;
        self.ring_the_bell();
        if let Some(thread) = self.thread.take() {
            // It holds no lock that a panic could leave behind; there is nothing to be done.
            let _ = thread.join();
        }
    }

    fn ring_the_bell(&self) {
        // It cannot fail but when the counter is full, and then the thread is awake.
        let _ = rustix::io::write(&self.shared.wake, &1_u64.to_ne_bytes());
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.stop();
    }
}

struct Work {
    shared: Arc<Shared>,
    ring: RingBuf<MapData>,
    poll: OwnedFd,
    mounts: Mounts,
    names: Names,
}

impl Work {
    fn run(mut self) {
        let mut events = Vec::with_capacity(2);
        loop {
            let (question, last) = {
                let shelf = self.shared.shelf.lock();
                (shelf.asked, shelf.ended)
            };
            self.drain();
            {
                let mut shelf = self.shared.shelf.lock();
                shelf.answered = question;
                shelf.cpu_ns = own_cpu_ns();
                self.shared.answered.notify_all();
            }
            if last {
                return;
            }
            events.clear();
            // An interrupted wait is a short one.
            let _ = epoll::wait(
                &self.poll,
                rustix::buffer::spare_capacity(&mut events),
                Some(&LOOK),
            );
            let mut bell = [0; 8];
            let _ = rustix::io::read(&self.shared.wake, &mut bell);
        }
    }

    /// At most as much as was there plus as much as came meanwhile; the ring bounds both.
    fn drain(&mut self) {
        let shared = Arc::clone(&self.shared);
        loop {
            let mut shelf = shared.shelf.lock();
            for _ in 0..1024 {
                let Some(item) = self.ring.next() else {
                    return;
                };
                match Sent::parse(&item) {
                    Some(Sent::Call(call)) => shelf.call(&call),
                    Some(Sent::Block(block)) => shelf.block(&block),
                    Some(Sent::File(parts)) => {
                        named(&mut shelf, &mut self.mounts, &mut self.names, &parts);
                    }
                    Some(Sent::Name(parts)) => {
                        renamed(&mut shelf, &mut self.mounts, &mut self.names, &parts);
                    }
                    None => shelf.lost.not_understood += 1,
                }
            }
        }
    }
}

fn own_cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

impl Shelf {
    /// What waits.
    pub fn take(&mut self) -> Taken {
        self.path_bytes = 0;
        std::mem::take(&mut self.taken)
    }

    fn call(&mut self, sent: &CallRecord) {
        let Some(call) = Call::numbered(sent.call) else {
            self.lost.not_understood += 1;
            return;
        };
        let ranged = sent.flags & flag::HAS_OFFSET != 0;
        let offset = ranged.then_some(sent.offset);
        if sent.flags & flag::IS_SYNC != 0 {
            let synchronous = sent.flags & flag::SYNCHRONOUS != 0;
            let row = SyncRecord {
                start_ns: sent.start_ns,
                latency_ns: sent.latency_ns,
                pid: sent.pid,
                tid: sent.tid,
                call,
                synchronous,
                file_id: sent.file_id,
                offset,
                size: (ranged || synchronous).then_some(sent.size),
                result: sent.result,
            };
            keep(&mut self.taken.syncs, row, &mut self.lost.syncs);
        }
        if sent.flags & flag::IS_ACCESS != 0 {
            let row = AccessRecord {
                start_ns: sent.start_ns,
                latency_ns: sent.latency_ns,
                pid: sent.pid,
                tid: sent.tid,
                call,
                file_id: sent.file_id,
                offset,
                size: sent.size,
                result: sent.result,
            };
            keep(&mut self.taken.events, row, &mut self.lost.events);
        }
    }

    fn block(&mut self, sent: &BlockParts) {
        let row = BlockRecord {
            issue_ns: sent.issue_ns,
            latency_ns: sent.latency_ns,
            device: device(sent.device),
            kind: sent.kind,
            fua: sent.fua,
            sector: sent.sector,
            size: sent.size.into(),
            pid: sent.pid,
        };
        keep(&mut self.taken.blocks, row, &mut self.lost.blocks);
    }

    fn file(&mut self, file_id: u32, named: &Named, seen_ns: u64) {
        let row = FileRecord {
            file_id,
            device: named.device,
            inode: named.inode,
            path: named.path.clone(),
            seen_ns,
        };
        if fits(&mut self.path_bytes, row.path.len()) {
            keep(&mut self.taken.files, row, &mut self.lost.names);
        } else {
            self.lost.names += 1;
        }
    }
}

fn named(shelf: &mut Shelf, mounts: &mut Mounts, names: &mut Names, sent: &NameParts<'_>) {
    let [walk, ..] = sent.texts;
    let device = device(sent.device);
    let mount = (sent.mounts[0], Some(device));
    let now = Named {
        path: mounts.path(mount, sent.pid, walk, sent.truncated),
        inode: sent.inode,
        device,
    };
    if names.put(sent.file_id, now.clone()) {
        shelf.file(sent.file_id, &now, sent.start_ns);
    }
}

fn renamed(shelf: &mut Shelf, mounts: &mut Mounts, names: &mut Names, sent: &NameParts<'_>) {
    let Some(call) = Call::numbered(sent.call) else {
        shelf.lost.not_understood += 1;
        return;
    };
    let mut path = |mount: i32, walk: &[u8], string: &[u8]| {
        let folder = mounts.path((mount, None), sent.pid, walk, false);
        joined(&folder, string.strip_suffix(b"\0").unwrap_or(string))
    };
    let [walk, string, new_walk, new_string] = sent.texts;
    let old = path(sent.mounts[0], walk, string);
    let new = (call == Call::Rename).then(|| path(sent.mounts[1], new_walk, new_string));
    let file_id = names.file(&old).unwrap_or(NO_FILE);
    let row = shelf.counts.entry((file_id, call));
    let row = row.or_insert_with(|| CountRecord::new(file_id, call));
    row.add(sent.latency_ns, sent.result);
    if sent.result == 0 {
        match &new {
            Some(new) => {
                for (file_id, now) in names.renamed(&old, new) {
                    shelf.file(file_id, &now, sent.start_ns);
                }
            }
            None => names.unlinked(&old),
        }
    }
    let row = NameRecord {
        start_ns: sent.start_ns,
        latency_ns: sent.latency_ns,
        pid: sent.pid,
        call,
        path: old,
        new_path: new,
        result: sent.result,
    };
    if fits(&mut shelf.path_bytes, row.path_bytes()) {
        keep(&mut shelf.taken.names, row, &mut shelf.lost.names);
    } else {
        shelf.lost.names += 1;
    }
}

//! Requests of the kernel that wait for their answer: ended when the program behind one is killed,
//! and all at once when the mount is ended by force.
//!
//! Purpose: a program that was sent SIGKILL while it waits for a server that does not answer ends
//! at once, as with the kernel's client (TASK_KILLABLE). Once a request has been read from
//! /dev/fuse, Linux waits for its answer whatever happens (`request_wait_answer` in
//! fs/fuse/dev.c), so the answer has to come from here: EINTR.
//!
//! Flow: each request that may wait is in a table until it is answered ([`Held`]). A thread looks
//! at the table every [`LOOK`] while anything is in it, and not at all otherwise. Of what was there
//! at the look before, it asks /proc whether the thread that waits has SIGKILL pending.
//!
//! Decisions: FUSE_INTERRUPT is not used. Linux sends it for every signal, also for one that the
//! program handles, and only once for a request; a hard mount may give up for a fatal one alone
//! (NFS is mounted without `intr`). Who was killed is seen in /proc only, before or after an
//! interrupt. So fuser's answer to it (ENOSYS: "do not send them") is as good as ours would be.
//!
//! What is given up is the answer, nothing else: data that were taken go to the server as if
//! nothing had happened, and so do calls that were made. What had not begun is not begun (see
//! [`Held::is_awaited`]).
//!
//! Limits: programs in a process namespace that is not below the mount's are not seen, and wait. So
//! does who waits for a lock of the kernel's that another waiting program holds.

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use fuser::{Errno, Request};
use hashbrown::HashMap;
use parking_lot::{Condvar, Mutex};

/// How often is looked for programs that were killed.
const LOOK: Duration = Duration::from_millis(100);
/// `struct fuse_out_header` (linux/fuse.h): length, error, unique.
const HEADER_BYTES: u32 = 16;
/// Flags of a task that ends, and of one that a signal ends (linux/sched.h). The second alone is
/// also that of one that dumps its core, which may go to this mount.
const ENDED_BY_SIGNAL: u64 = 0x4 | 0x400;
/// SIGKILL in a mask of signals.
const KILLED: u64 = 1 << (libc::SIGKILL - 1);

/// A request that is not answered.
#[derive(Clone, Copy, Debug)]
struct Asked {
    thread: u32,
    /// [`Table::looks`] at that time.
    look: u64,
}

#[derive(Debug, Default)]
struct Table {
    /// By the number that the kernel gave each; it has none twice. The kernel bounds how many.
    requests: HashMap<u64, Asked>,
    looks: u64,
    /// The thread that looks waits for the first request.
    rests: bool,
    /// Nothing is answered any more but with this.
    ended: Option<Errno>,
    /// The mount is gone: the thread ends.
    over: bool,
}

/// See the module's text.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    table: Mutex<Table>,
    changed: Condvar,
    device: OnceLock<File>,
}

impl Waiting {
    /// Answers go there.
    pub fn use_device(&self, device: OwnedFd) {
        let _ = self.device.set(device.into());
    }

    /// The reply of a request, which may have to wait.
    pub fn hold<R>(self: &Arc<Self>, request: &Request, reply: R) -> Held<R> {
        let unique = u64::from(request.unique());
        let mut table = self.table.lock();
        if let Some(errno) = table.ended {
            drop(table);
            self.answer(unique, errno);
        } else {
            let (thread, look) = (request.pid(), table.looks);
            table.requests.insert(unique, Asked { thread, look });
            if std::mem::take(&mut table.rests) {
                drop(table);
                self.changed.notify_all();
            }
        }
        Held {
            reply: Some(reply),
            unique,
            waiting: Arc::clone(self),
        }
    }

    /// Its answer comes; false if it was given another.
    fn leaves(&self, unique: u64) -> bool {
        self.table.lock().requests.remove(&unique).is_some()
    }

    /// An error instead of the answer. Linux refuses an answer that comes behind it (ENOENT).
    fn answer(&self, unique: u64, errno: Errno) {
        let Some(mut device) = self.device.get() else {
            return;
        };
        let mut bytes = Vec::with_capacity(HEADER_BYTES as usize);
        bytes.extend(HEADER_BYTES.to_ne_bytes());
        bytes.extend((-errno.code()).to_ne_bytes());
        bytes.extend(unique.to_ne_bytes());
        // ENOENT, ENODEV: it waits no longer.
        let _ = device.write_all(&bytes);
    }

    /// Ends all that waits, and all that comes, with an error.
    pub fn end(&self, errno: Errno) {
        let mut table = self.table.lock();
        table.ended = Some(errno);
        let all = std::mem::take(&mut table.requests);
        drop(table);
        for unique in all.into_keys() {
            self.answer(unique, errno);
        }
    }

    /// The mount is gone.
    pub fn over(&self) {
        self.table.lock().over = true;
        self.changed.notify_all();
    }

    /// Ends what killed programs wait for, until the mount is gone.
    pub fn look_for_killed(&self) {
        let mut table = self.table.lock();
        while !table.over {
            if table.requests.is_empty() {
                table.rests = true;
                self.changed.wait(&mut table);
                continue;
            }
            table.looks += 1;
            let now = table.looks;
            self.changed.wait_for(&mut table, LOOK);
            let old = table.requests.iter().filter(|(_, asked)| asked.look < now);
            let old: Vec<(u64, u32)> = old.map(|(unique, asked)| (*unique, asked.thread)).collect();
            if old.is_empty() {
                continue;
            }
            drop(table);
            self.end_killed(&old);
            table = self.table.lock();
        }
    }

    /// Each thread waits for one request, and for those that Linux makes ahead in its name
    /// (`MAX_BACKGROUND` in all): as many are asked about.
    fn end_killed(&self, old: &[(u64, u32)]) {
        let mut known: HashMap<u32, bool> = HashMap::new();
        for (unique, thread) in old {
            let killed = *known.entry(*thread).or_insert_with(|| is_killed(*thread));
            if killed && self.leaves(*unique) {
                self.answer(*unique, Errno::EINTR);
            }
        }
    }
}

/// Whether a thread has SIGKILL pending (as has every thread of a program that a signal ends,
/// kernel/signal.c `complete_signal`) or is on its way out by a signal, which before Linux 6.2
/// waits for what it had open to be closed. Who ends by itself has its data on the server first.
fn is_killed(thread: u32) -> bool {
    let text = std::fs::read_to_string(format!("/proc/{thread}/stat")).unwrap_or_default();
    tells_of_end(&text)
}

/// proc_pid_stat(5): 9 is the flags, 31 the signals that are pending for the thread.
fn tells_of_end(stat: &str) -> bool {
    // Behind the name, which may hold anything, comes the third.
    let Some((_, fields)) = stat.rsplit_once(") ") else {
        return false;
    };
    let mut fields = fields.split(' ').map(|field| field.parse().unwrap_or(0));
    let flags: u64 = fields.nth(9 - 3).unwrap_or(0);
    let pending: u64 = fields.nth(31 - 9 - 1).unwrap_or(0);
    flags & ENDED_BY_SIGNAL == ENDED_BY_SIGNAL || pending & KILLED != 0
}

/// The reply of a request that waits. Without an answer it says EIO.
#[derive(Debug)]
pub(crate) struct Held<R> {
    reply: Option<R>,
    unique: u64,
    waiting: Arc<Waiting>,
}

impl<R> Held<R> {
    /// Whether anybody waits for it: what changes something begins only then.
    pub fn is_awaited(&self) -> bool {
        self.waiting
            .table
            .lock()
            .requests
            .contains_key(&self.unique)
    }

    /// The reply itself, to be answered now; `None` if nobody waits for it any more.
    pub fn take(mut self) -> Option<R> {
        let reply = self.reply.take();
        reply.filter(|_| self.waiting.leaves(self.unique))
    }
}

impl<R> Drop for Held<R> {
    fn drop(&mut self) {
        if self.reply.is_some() {
            self.waiting.leaves(self.unique);
        }
    }
}

/// Gives each kind of reply its answers, for those who still wait.
macro_rules! answers {
    ($($kind:ident { $($answer:ident($($name:ident: $type:ty),*)),* })*) => {$(
        pub(crate) type $kind = Held<fuser::$kind>;

        impl Held<fuser::$kind> {
            $(pub fn $answer(self, $($name: $type),*) {
                if let Some(reply) = self.take() {
                    reply.$answer($($name),*);
                }
            })*
        }
    )*};
}

answers! {
    ReplyAttr { attr(ttl: &Duration, attr: &fuser::FileAttr), error(errno: Errno) }
    ReplyCreate { error(errno: Errno) }
    ReplyData { data(bytes: &[u8]), error(errno: Errno) }
    ReplyDirectory { error(errno: Errno) }
    ReplyDirectoryPlus { error(errno: Errno) }
    ReplyEmpty { ok(), error(errno: Errno) }
    ReplyEntry { error(errno: Errno) }
    ReplyOpen { error(errno: Errno) }
    ReplyStatfs { error(errno: Errno) }
    ReplyWrite { written(bytes: u32), error(errno: Errno) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_thread_is_read_as_proc_writes_it() {
        let stat = |flags: u64, pending: u64| {
            let between = "0 ".repeat(31 - 9 - 1);
            format!("7 (a) D (b) D 1 7 7 0 -1 {flags} {between}{pending} 0 0 0\n")
        };
        assert!(!tells_of_end(&stat(0x40_0040, 0)));
        assert!(
            tells_of_end(&stat(0x40_0444, 0)),
            "PF_EXITING and PF_SIGNALED"
        );
        assert!(!tells_of_end(&stat(0x40_0044, 0)), "exit(2)");
        assert!(!tells_of_end(&stat(0x40_0440, 0)), "dumps its core");
        assert!(tells_of_end(&stat(0, 256)), "SIGKILL is the ninth");
        assert!(!tells_of_end(&stat(0, !256)), "other signals end no wait");
        assert!(!tells_of_end(""), "gone");
        assert!(!is_killed(std::process::id()));
    }
}

//! Threads that measure.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::Duration;

use thiserror::Error;

/// Why threads did not come to their end.
#[derive(Debug, Error)]
pub enum ThreadError {
    /// One cannot be started; the others were told to stop.
    #[error("a thread cannot be started: {0}")]
    Start(std::io::Error),
    /// One panicked.
    #[error("a thread ended by a defect: its message is on standard error")]
    Defect,
}

/// Runs `work` on a thread for each of the workers, to their end; what they came to, in order.
///
/// No signal interrupts them, and their waits end when they are due. Meanwhile `goes_on` is asked
/// once a `tick`, and at once when a worker ends; where it says no, `stop` is set, which workers
/// look at.
///
/// # Errors
/// [`ThreadError`], when all that were started have ended.
pub fn watched<W: Send, T: Send>(
    name: &str,
    workers: Vec<W>,
    work: impl Fn(W) -> T + Sync,
    stop: &AtomicBool,
    tick: Duration,
    mut goes_on: impl FnMut() -> bool,
) -> Result<Vec<T>, ThreadError> {
    let work = &work;
    std::thread::scope(|scope| {
        let watcher = std::thread::current();
        let mut threads = Vec::new();
        for (index, worker) in workers.into_iter().enumerate() {
            let watcher = watcher.clone();
            let body = move || {
                leave_signals_to_others();
                end_waits_when_due();
                let done = work(worker);
                watcher.unpark();
                done
            };
            let named = std::thread::Builder::new().name(format!("{name}-{index}"));
            match named.spawn_scoped(scope, body) {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    stop.store(true, Ordering::Relaxed);
                    return Err(ThreadError::Start(error));
                }
            }
        }
        while !threads.iter().all(ScopedJoinHandle::is_finished) {
            if !goes_on() {
                stop.store(true, Ordering::Relaxed);
            }
            std::thread::park_timeout(tick);
        }
        let join = |thread: ScopedJoinHandle<'_, T>| thread.join().map_err(|_| ThreadError::Defect);
        threads.into_iter().map(join).collect()
    })
}

/// Of the calling thread: not up to 50 us later. Refused, it only paces worse.
fn end_waits_when_due() {
    // SAFETY: plain numbers; the timer slack of the calling thread in nanoseconds.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1, 0, 0, 0) };
}

/// Leaves signals to other threads: none interrupts what the calling thread does from now on.
///
/// Interpreters ask for interrupted system calls (no `SA_RESTART`), and the kernel may deliver a
/// signal to any thread: a Ctrl-C would show up as a failed read of a stdio stream on NFS or FUSE.
/// Signals that stand for errors of the thread itself (SIGSEGV and the like) still arrive.
pub fn leave_signals_to_others() {
    // SAFETY: sigset_t is plain integers, for which all zeroes is a value.
    let mut all: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live set.
    unsafe { libc::sigfillset(&raw mut all) };
    for kept in [
        libc::SIGSEGV,
        libc::SIGBUS,
        libc::SIGFPE,
        libc::SIGILL,
        libc::SIGTRAP,
    ] {
        // SAFETY: as above; the numbers are valid signals.
        unsafe { libc::sigdelset(&raw mut all, kept) };
    }
    // SAFETY: the set is live; the old one is not asked for. Cannot fail with SIG_BLOCK.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, std::ptr::null_mut()) };
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;

    #[test]
    fn what_workers_came_to_is_in_their_order_and_a_no_stops_them() {
        let (stop, asked) = (AtomicBool::new(false), AtomicU32::new(0));
        let work = |number: u32| {
            while !stop.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            number * 2
        };
        let goes_on = || asked.fetch_add(1, Ordering::Relaxed) < 2;
        let tick = Duration::from_micros(10);
        let found = watched("test", vec![3, 1, 2], work, &stop, tick, goes_on).unwrap();
        assert_eq!(found, [6, 2, 4]);
        assert!(asked.load(Ordering::Relaxed) >= 3);
    }

    #[test]
    fn a_worker_that_panics_is_a_defect_and_the_others_end() {
        let stop = AtomicBool::new(false);
        let ended = AtomicU32::new(0);
        let work = |number: u32| {
            assert_ne!(number, 1, "planted");
            ended.fetch_add(1, Ordering::Relaxed);
        };
        let tick = Duration::from_micros(10);
        let found = watched("test", vec![0, 1, 2], work, &stop, tick, || true);
        assert!(matches!(found, Err(ThreadError::Defect)));
        assert_eq!(ended.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn a_measuring_thread_has_its_signals_blocked_and_no_other_has() {
        let blocked = || {
            let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
            let line = status
                .lines()
                .find_map(|line| line.strip_prefix("SigBlk:\t"))
                .unwrap();
            u64::from_str_radix(line, 16).unwrap()
        };
        let bit = |signal: i32| 1_u64 << (signal - 1);
        let before = blocked();
        let inside = std::thread::spawn(move || {
            leave_signals_to_others();
            blocked()
        });
        let inside = inside.join().unwrap();
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGCHLD, libc::SIGALRM] {
            assert_ne!(inside & bit(signal), 0);
        }
        assert_eq!(inside & bit(libc::SIGSEGV), 0);
        assert_eq!(blocked(), before);
    }
}

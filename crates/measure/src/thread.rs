//! Threads that measure.

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
    use super::*;

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

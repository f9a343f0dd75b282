//! Clocks: monotonic time, wall-clock time and the CPU time of the calling thread.
//!
//! `CLOCK_MONOTONIC` is read through the vDSO (no system call, some 25 ns). CPU time has two
//! sources: `CLOCK_THREAD_CPUTIME_ID` is exact to the nanosecond but has no split;
//! `getrusage(RUSAGE_THREAD)` gives user and system apart in microseconds. On kernels that account
//! by ticks (`CONFIG_TICK_CPU_ACCOUNTING`) their sum is exact and the split is estimated from
//! samples at each tick (kernel/sched/cputime.c, `cputime_adjust`): trust the split only over many
//! ticks (a second or more).

use std::sync::atomic::{AtomicU64, Ordering};

/// A source of time for measuring code; tests use [`ManualClock`].
pub trait Clock: Send + Sync {
    /// Nanoseconds since an arbitrary fixed instant; never goes back.
    fn now_ns(&self) -> u64;
}

/// `CLOCK_MONOTONIC`, the clock of every measurement.
#[derive(Debug, Clone, Copy, Default)]
pub struct MonotonicClock;

impl Clock for MonotonicClock {
    #[inline]
    fn now_ns(&self) -> u64 {
        read(libc::CLOCK_MONOTONIC)
    }
}

/// A clock that moves only when told to, for tests.
#[derive(Debug, Default)]
pub struct ManualClock(AtomicU64);

impl ManualClock {
    /// A clock that shows `now_ns`.
    #[must_use]
    pub const fn new(now_ns: u64) -> Self {
        Self(AtomicU64::new(now_ns))
    }

    /// Moves the clock on by `step_ns`.
    pub fn advance(&self, step_ns: u64) {
        self.0.fetch_add(step_ns, Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn now_ns(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Wall-clock time (`CLOCK_REALTIME`) in nanoseconds since 1970, to date a measurement.
#[must_use]
pub fn realtime_ns() -> u64 {
    read(libc::CLOCK_REALTIME)
}

/// CPU time the calling thread has used, in nanoseconds (`CLOCK_THREAD_CPUTIME_ID`).
#[must_use]
pub fn thread_cpu_ns() -> u64 {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn thread_usage() -> libc::rusage {
    // SAFETY: rusage is plain integers, for which all zeroes is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live rusage; RUSAGE_THREAD cannot fail on Linux >= 2.6.26.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    usage
}

/// How often the calling thread has slept (its voluntary context switches, getrusage(2)).
#[must_use]
pub fn times_slept() -> u64 {
    thread_usage().ru_nvcsw.unsigned_abs()
}

/// CPU time and context switches of one thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct ThreadUsage {
    /// Total CPU time, exact (`CLOCK_THREAD_CPUTIME_ID`).
    pub cpu_ns: u64,
    /// Part in user mode (resolution 1 us, see the module's text on the split).
    pub user_ns: u64,
    /// Part in the kernel (resolution 1 us, see the module's text on the split).
    pub system_ns: u64,
    /// Times the thread slept, mostly waiting for I/O.
    pub voluntary_switches: u64,
    /// Times the thread was taken off its CPU.
    pub involuntary_switches: u64,
}

/// A part of a time as a share of it; 0 of no time.
#[must_use]
pub fn share(part_ns: u64, whole_ns: u64) -> f64 {
    if whole_ns == 0 {
        0.0
    } else {
        part_ns as f64 / whole_ns as f64
    }
}

impl ThreadUsage {
    /// What the calling thread has used since it started.
    #[must_use]
    pub fn now() -> Self {
        let usage = thread_usage();
        Self {
            cpu_ns: thread_cpu_ns(),
            user_ns: timeval_ns(usage.ru_utime),
            system_ns: timeval_ns(usage.ru_stime),
            voluntary_switches: usage.ru_nvcsw.unsigned_abs(),
            involuntary_switches: usage.ru_nivcsw.unsigned_abs(),
        }
    }

    /// What was used from `earlier` to `self`, both taken on the same thread.
    #[must_use]
    pub const fn since(&self, earlier: &Self) -> Self {
        Self {
            cpu_ns: self.cpu_ns.saturating_sub(earlier.cpu_ns),
            user_ns: self.user_ns.saturating_sub(earlier.user_ns),
            system_ns: self.system_ns.saturating_sub(earlier.system_ns),
            voluntary_switches: self
                .voluntary_switches
                .saturating_sub(earlier.voluntary_switches),
            involuntary_switches: self
                .involuntary_switches
                .saturating_sub(earlier.involuntary_switches),
        }
    }

    /// Adds the use of another thread.
    pub const fn add(&mut self, other: &Self) {
        add_up!(self, other; cpu_ns, user_ns, system_ns, voluntary_switches, involuntary_switches);
    }
}

/// Tells how long its thread was ready to run and had no processor.
///
/// Of `/proc/thread-self/schedstat`, whose second number is that time in nanoseconds
/// (Documentation/scheduler/sched-stats.rst of Linux). What a hypervisor took is not in it.
#[derive(Debug, Default)]
pub struct RunDelay {
    schedstat: Option<std::fs::File>,
}

impl RunDelay {
    /// Of the calling thread, whichever thread asks later.
    #[must_use]
    pub fn of_this_thread() -> Self {
        Self {
            schedstat: std::fs::File::open("/proc/thread-self/schedstat").ok(),
        }
    }

    /// Since the thread began, ns; `None` where the kernel does not tell.
    #[must_use]
    pub fn waited_ns(&self) -> Option<u64> {
        use std::os::unix::fs::FileExt;
        let mut text = [0; 64];
        let length = self.schedstat.as_ref()?.read_at(&mut text, 0).ok()?;
        run_delay_ns(text.get(..length)?)
    }
}

fn run_delay_ns(schedstat: &[u8]) -> Option<u64> {
    let mut numbers = std::str::from_utf8(schedstat)
        .ok()?
        .split_ascii_whitespace();
    numbers.nth(1)?.parse().ok()
}

#[inline]
fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is to a live timespec. The three clocks asked for exist on every Linux,
    // so the call cannot fail.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

const fn timeval_ns(time: libc::timeval) -> u64 {
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_usec.unsigned_abs() * 1_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_for_a_processor_is_the_second_number() {
        assert_eq!(run_delay_ns(b"95923 86698 2\n"), Some(86_698));
        assert_eq!(run_delay_ns(b"95923\n"), None);
        assert_eq!(run_delay_ns(b"1 -2 3\n"), None);
        assert_eq!(RunDelay::default().waited_ns(), None);
        let here = RunDelay::of_this_thread();
        let kernel_tells = std::fs::metadata("/proc/thread-self/schedstat").is_ok();
        assert_eq!(here.waited_ns().is_some(), kernel_tells);
    }

    #[test]
    fn monotonic_time_is_the_clock_of_std_instant() {
        // std reads the same clock; a reading taken between two of ours must agree with them.
        let before = MonotonicClock.now_ns();
        let start = std::time::Instant::now();
        while start.elapsed().as_micros() < 200 {}
        let span = MonotonicClock.now_ns() - before;
        assert!(span >= 200_000, "{span}");
    }

    #[test]
    fn thread_usage_counts_this_thread_only() {
        let before = ThreadUsage::now();
        let other = std::thread::spawn(|| {
            let start = thread_cpu_ns();
            while thread_cpu_ns() - start < 20_000_000 {}
            ThreadUsage::now()
        });
        let theirs = other.join().unwrap();
        let ours = ThreadUsage::now().since(&before);
        assert!(theirs.cpu_ns >= 20_000_000);
        assert!(ours.cpu_ns < theirs.cpu_ns, "{ours:?} {theirs:?}");
        // The two sources agree within the microsecond rounding of two fields and the work between.
        let sum = theirs.user_ns + theirs.system_ns;
        assert!(sum.abs_diff(theirs.cpu_ns) < 5_000_000, "{theirs:?}");
    }

    #[test]
    fn manual_clock_moves_only_when_told() {
        let clock = ManualClock::new(5);
        assert_eq!(clock.now_ns(), 5);
        clock.advance(10);
        assert_eq!(clock.now_ns(), 15);
    }
}

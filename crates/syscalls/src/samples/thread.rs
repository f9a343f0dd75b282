//! The thread that looks.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;

use measure::clock::thread_cpu_ns;
use measure::random::Random;
use measure::thread::leave_signals_to_others;
use measure::{Clock, MonotonicClock};

use super::processes::Processes;
use super::tally::{ROWS_MAX, Tally};
use super::{Figures, INTERVAL_MAX_NS, Options, Recording, Shared};

/// Of one processor, at most: the interval follows.
pub const CPU_SHARE_MAX: f64 = 0.009;
/// What was seen is confirmed so often.
const CONFIRM_NS: u64 = 50_000_000;
/// New processes are looked for so often.
const FIND_NS: u64 = 200_000_000;
/// They are looked for at each `CONFIRM_NS` so long after the timed part began: clients connect.
const BEGIN_NS: u64 = 1_000_000_000;
/// What is done now and then is done so seldom that it takes this part of the time.
const REST: u64 = 500;
/// The interval follows the cost so often, and as soon as what this time may cost is spent.
const ADAPT_NS: u64 = 1_000_000_000;
/// A look that is later than this counts as late: about what waking a thread takes on a busy,
/// virtual machine.
pub const LATE_NS: u64 = 100_000;

/// How soon Linux lets the thread run once its instant has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promptness {
    /// Before all that is not real-time.
    RealTime,
    /// Like others, with the shortest slices.
    ShortSlices,
    /// Like others.
    Usual,
}

/// Looks until it is over. Tells first whether it can: the system's error, or whether there is
/// shared memory.
pub fn run(
    options: &Options,
    pointer: u64,
    shared: &Shared,
    ready: &Sender<io::Result<bool>>,
) -> Recording {
    leave_signals_to_others();
    let promptness = promptly();
    let now_ns = MonotonicClock.now_ns();
    let mut work = Work {
        tally: Tally::new(now_ns, options.stretch_ns, ROWS_MAX),
        figures: Figures::default(),
        began_ns: now_ns,
        began_cpu_ns: 0,
        confirm: Turn::new(CONFIRM_NS),
        find: Turn::new(FIND_NS),
        quick_until_ns: 0,
    };
    let mut processes = match Processes::of(options.root, pointer) {
        Ok(processes) => {
            let shares = processes.shares();
            work.publish(&processes, shared);
            let _ = ready.send(Ok(shares));
            if !shares {
                shared.over.store(true, Ordering::Release);
            }
            processes
        }
        Err(error) => {
            let _ = ready.send(Err(error));
            return work.recording(Vec::new(), promptness);
        }
    };
    let mut grid = Grid::new(options, MonotonicClock.now_ns());
    while !shared.over.load(Ordering::Acquire) {
        let due_ns = grid.next();
        sleep_until(due_ns);
        work.tick(due_ns, &mut processes, shared);
        let now_ns = MonotonicClock.now_ns();
        work.figures.missed += grid.behind(now_ns);
        grid.adapt(now_ns, thread_cpu_ns());
    }
    // A failure here is one of the last looks: those before were confirmed.
    let _ = processes.confirm(&mut work.tally);
    work.figures.interval_ns = grid.interval_ns;
    work.count(&processes);
    work.recording(processes.into_pids(), promptness)
}

struct Work {
    tally: Tally,
    figures: Figures,
    began_ns: u64,
    began_cpu_ns: u64,
    confirm: Turn,
    find: Turn,
    quick_until_ns: u64,
}

impl Work {
    fn tick(&mut self, due_ns: u64, processes: &mut Processes, shared: &Shared) {
        let now_ns = MonotonicClock.now_ns();
        let begun_ns = shared.begun_ns.swap(0, Ordering::AcqRel);
        if begun_ns > 0 {
            self.begin(now_ns, processes);
        }
        let late_ns = now_ns.saturating_sub(due_ns);
        let stretch = self.tally.stretch(now_ns);
        if processes.look(stretch).is_ok() {
            self.tally.looked(now_ns);
            self.figures.looks += 1;
        } else {
            self.figures.failed += 1;
        }
        self.figures.late += u64::from(late_ns > LATE_NS);
        self.figures.lateness_ns += late_ns;
        self.figures.lateness_max_ns = self.figures.lateness_max_ns.max(late_ns);
        if self.confirm.is_due(now_ns) {
            let _ = processes.confirm(&mut self.tally);
            self.tally.bound();
            let quick = now_ns < self.quick_until_ns;
            self.confirm.done(MonotonicClock.now_ns());
            if quick || self.find.is_due(now_ns) {
                self.find.begun_ns = MonotonicClock.now_ns();
                let _ = processes.find();
                self.find.done(MonotonicClock.now_ns());
            }
            self.publish(processes, shared);
        }
    }

    /// The timed part: what was before stays in stretches of its own, and in no figure.
    fn begin(&mut self, now_ns: u64, processes: &mut Processes) {
        self.tally.begin(now_ns);
        self.figures = Figures::default();
        (processes.confirmed, processes.dropped) = (0, 0);
        self.began_ns = now_ns;
        self.began_cpu_ns = thread_cpu_ns();
        self.quick_until_ns = now_ns + BEGIN_NS;
    }

    fn publish(&self, processes: &Processes, shared: &Shared) {
        let mut live = shared.live.lock();
        live.clear();
        live.extend(processes.live());
    }

    fn count(&mut self, processes: &Processes) {
        self.figures.confirmed = processes.confirmed;
        self.figures.dropped = processes.dropped;
        self.figures.left_out = processes.left_out;
    }

    fn recording(mut self, pids: Vec<u32>, promptness: Promptness) -> Recording {
        self.figures.cpu_ns = thread_cpu_ns() - self.began_cpu_ns;
        self.figures.wall_ns = MonotonicClock.now_ns() - self.began_ns;
        let (stretches, rows) = self.tally.into_parts();
        Recording {
            stretches,
            rows,
            pids,
            figures: self.figures,
            promptness,
        }
    }
}

/// Something that is done now and then, and seldom enough for what it takes.
struct Turn {
    every_ns: u64,
    begun_ns: u64,
    next_ns: u64,
}

impl Turn {
    fn new(every_ns: u64) -> Self {
        Turn {
            every_ns,
            begun_ns: 0,
            next_ns: 0,
        }
    }

    fn is_due(&mut self, now_ns: u64) -> bool {
        self.begun_ns = now_ns;
        now_ns >= self.next_ns
    }

    fn done(&mut self, now_ns: u64) {
        let took_ns = now_ns.saturating_sub(self.begun_ns);
        self.next_ns = now_ns + self.every_ns.max(took_ns.saturating_mul(REST));
    }
}

/// The instants: one in each interval, drawn evenly.
struct Grid {
    least_ns: u64,
    interval_ns: u64,
    /// Where the next interval begins.
    from_ns: u64,
    random: Random,
    adapted_ns: u64,
    adapted_cpu_ns: u64,
}

impl Grid {
    fn new(options: &Options, now_ns: u64) -> Self {
        Grid {
            least_ns: options.interval_ns,
            interval_ns: options.interval_ns,
            from_ns: now_ns,
            random: Random::new(options.seed, &[]),
            adapted_ns: now_ns,
            adapted_cpu_ns: thread_cpu_ns(),
        }
    }

    fn next(&mut self) -> u64 {
        let due_ns = self.from_ns + self.random.below(self.interval_ns);
        self.from_ns += self.interval_ns;
        due_ns
    }

    /// Leaves out the intervals that are over: how many.
    fn behind(&mut self, now_ns: u64) -> u64 {
        let over = now_ns.saturating_sub(self.from_ns) / self.interval_ns;
        self.from_ns += over * self.interval_ns;
        over
    }

    /// So long that the thread takes `CPU_SHARE_MAX`, and as short as was asked for where it may.
    fn adapt(&mut self, now_ns: u64, cpu_ns: u64) {
        let wall_ns = now_ns.saturating_sub(self.adapted_ns);
        let spent_ns = cpu_ns - self.adapted_cpu_ns;
        if wall_ns < ADAPT_NS && spent_ns < (CPU_SHARE_MAX * ADAPT_NS as f64) as u64 {
            return;
        }
        let share = spent_ns as f64 / wall_ns.max(1) as f64;
        let wanted_ns = (self.interval_ns as f64 * share / CPU_SHARE_MAX) as u64;
        self.interval_ns = wanted_ns.clamp(self.least_ns, INTERVAL_MAX_NS.max(self.least_ns));
        (self.adapted_ns, self.adapted_cpu_ns) = (now_ns, cpu_ns);
    }
}

fn sleep_until(due_ns: u64) {
    let until = libc::timespec {
        tv_sec: (due_ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (due_ns % 1_000_000_000) as libc::c_long,
    };
    // SAFETY: the pointer is to a live timespec; with an absolute time no rest is given back. No
    // signal arrives here; if one did, the look would be early.
    unsafe {
        libc::clock_nanosleep(
            libc::CLOCK_MONOTONIC,
            libc::TIMER_ABSTIME,
            &raw const until,
            std::ptr::null_mut(),
        )
    };
}

/// Asks Linux to run this thread as soon as its instants come: sched(7), PR_SET_TIMERSLACK(2const).
fn promptly() -> Promptness {
    // SAFETY: it takes a number.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_usize) };
    let lowest = libc::sched_param { sched_priority: 1 };
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: 0 is the calling thread; the pointer is to a live sched_param.
    if unsafe { libc::sched_setscheduler(0, policy, &raw const lowest) } == 0 {
        return Promptness::RealTime;
    }
    if short_slices() {
        return Promptness::ShortSlices;
    }
    Promptness::Usual
}

/// struct sched_attr of Linux (include/uapi/linux/sched/types.h), its first version.
#[repr(C)]
#[derive(Default)]
struct SchedAttr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
}

/// The shortest slice that Linux gives a thread of usual scheduling (kernel/sched/fair.c).
const SLICE_NS: u64 = 100_000;

fn short_slices() -> bool {
    let mut attributes = SchedAttr::default();
    let size = size_of::<SchedAttr>() as u32;
    // SAFETY: 0 is the calling thread; the pointer is to a live structure of this size.
    let known = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) };
    if known != 0 {
        return false;
    }
    attributes.size = size;
    attributes.runtime_ns = SLICE_NS;
    // SAFETY: as above; it is read only.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(interval_ns: u64) -> Grid {
        let options = Options {
            root: 1,
            symbol: String::new(),
            interval_ns,
            stretch_ns: 1,
            seed: 5,
        };
        let mut grid = Grid::new(&options, 0);
        grid.adapted_cpu_ns = 0;
        grid
    }

    #[test]
    fn each_interval_has_one_instant_and_any_part_of_it_is_as_likely() {
        let mut grid = grid(1000);
        let mut tenths = [0_u32; 10];
        for k in 0..100_000 {
            let due_ns = grid.next();
            assert_eq!(due_ns / 1000, k);
            tenths[(due_ns % 1000 / 100) as usize] += 1;
        }
        // 10,000 expected each, standard deviation 95: five of them.
        assert!(
            tenths.iter().all(|&n| n.abs_diff(10_000) < 475),
            "{tenths:?}"
        );
    }

    #[test]
    fn intervals_that_are_over_have_no_look() {
        let mut grid = grid(1000);
        grid.next();
        assert_eq!(grid.behind(1999), 0);
        assert_eq!(grid.behind(4100), 3);
        assert_eq!(grid.next() / 1000, 4);
    }

    #[test]
    fn the_interval_follows_the_cost() {
        let mut grid = grid(1_000_000);
        let second = ADAPT_NS;
        let at = |share: f64, seconds: f64| (second as f64 * seconds * share) as u64;
        grid.adapt(second / 4, at(2.0 * CPU_SHARE_MAX, 0.25));
        assert_eq!(grid.interval_ns, 1_000_000, "not before its time");
        let first = at(2.0 * CPU_SHARE_MAX, 1.0);
        grid.adapt(second, first);
        assert!(
            grid.interval_ns.abs_diff(2_000_000) <= 1,
            "{}",
            grid.interval_ns
        );
        grid.adapt(2 * second, first + at(CPU_SHARE_MAX / 4.0, 1.0));
        assert_eq!(grid.interval_ns, 1_000_000, "no shorter than was asked for");
        let third = first + at(CPU_SHARE_MAX / 4.0, 1.0) + at(CPU_SHARE_MAX, 1.0);
        grid.adapt(2 * second + second / 4, third);
        let wanted = 4_000_000;
        assert!(
            grid.interval_ns.abs_diff(wanted) <= 1,
            "a second's cost is spent in a quarter"
        );
    }
}

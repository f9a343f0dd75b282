//! What the generator keeps: no more after many operations than after few, and so much a file.
//!
//! An allocator that counts by thread: what the embedded server's threads do is not in the figures.
#![allow(clippy::unwrap_used)]

#[path = "system/world/mod.rs"]
mod world;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering::Relaxed};

use load::{Observer, Progress, Records};
use measure::MonotonicClock;
use serde_json::{Value, json};
use world::{World, calibration, set};

const THREADS: usize = 4096;
/// All that is kept for long is there after so many operations.
const STEADY: u64 = 3000;

/// Bytes taken less bytes given back, by thread in the order of their first allocation.
static HELD_BYTES: [AtomicI64; THREADS] = [const { AtomicI64::new(0) }; THREADS];
static SEEN: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static MINE: Cell<usize> = const { Cell::new(usize::MAX) };
}

struct Counting;

fn count(bytes: i64) {
    let _ = MINE.try_with(|mine| {
        if mine.get() == usize::MAX {
            mine.set(SEEN.fetch_add(1, Relaxed));
        }
        if let Some(held) = HELD_BYTES.get(mine.get()) {
            held.fetch_add(bytes, Relaxed);
        }
    });
}

// SAFETY: everything is the system's allocator's; counting allocates nothing (a constant
// thread-local without a destructor).
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        count(-(layout.size() as i64));
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What threads that began behind the first `known` hold.
fn held_bytes(known: usize) -> i64 {
    let seen = SEEN.load(Relaxed).min(THREADS);
    HELD_BYTES[known..seen]
        .iter()
        .map(|held| held.load(Relaxed))
        .sum()
}

fn plan(world: &World, files: u64) -> Value {
    let mut plan = calibration(world);
    set(&mut plan, "file_set.files", json!(files));
    set(&mut plan, "file_set.accessed_share", json!(1.0));
    set(&mut plan, "file_set.file_sizes_bytes", json!({"65536": 1}));
    set(
        &mut plan,
        "mix",
        json!({"GETATTR": 40, "LOOKUP": 20, "READ": 20, "WRITE": 18,
        "COMMIT": 2}),
    );
    set(
        &mut plan,
        "load",
        json!({"mode": "closed", "clients": 1, "processes": 32,
        "rate_ops_per_s": 1000, "think": "saturated"}),
    );
    set(&mut plan, "warm_up_s", json!(0.0));
    set(&mut plan, "series_interval_s", json!(3600.0));
    plan
}

/// Stops after so many operations, and four times as many as when it looked first; what was held
/// after each tick.
struct Until {
    known: usize,
    operations: u64,
    seen: Vec<(u64, i64)>,
}

impl Observer<Progress> for Until {
    fn tick(&mut self, progress: &Progress) -> bool {
        let steady = self.seen.iter().find(|(answered, _)| *answered > STEADY);
        let enough = steady.map_or(u64::MAX, |(few, _)| self.operations.max(4 * few));
        let over = |(answered, _): &(u64, i64)| *answered >= enough;
        if self.seen.last().is_some_and(over) {
            return false;
        }
        if let Progress::Run { answered, .. } = progress {
            self.seen.push((*answered, held_bytes(self.known)));
        }
        true
    }
}

fn memory_does_not_grow_with_the_number_of_operations() {
    let world = World::null(65_536);
    let mut plan = plan(&world, 500);
    set(&mut plan, "measure_s", json!(600.0));
    // Every thread of the server has answered, and so is known, when the set was looked at.
    let prepared = world.prepare(&plan);
    let mut until = Until {
        known: SEEN.load(Relaxed),
        operations: 600_000,
        seen: Vec::new(),
    };
    let report = load::run(prepared, &MonotonicClock, &Records::default(), &mut until).unwrap();
    assert!(report.unexpected.is_empty(), "{:?}", report.unexpected);
    let steady: Vec<(u64, i64)> = until
        .seen
        .into_iter()
        .filter(|(answered, _)| *answered > STEADY)
        .collect();
    let (few, early_bytes) = steady[0];
    let (many, _) = *steady.last().unwrap();
    assert!(many >= 600_000 && few < many / 3, "{few} {many}");
    // One histogram an operation, 32 slots, buffers: all there after the first operations.
    assert!(
        early_bytes > 1_000_000,
        "the generator's threads are counted: {early_bytes}"
    );
    // A page of slack for what is under way; a single byte kept a call would be 600,000.
    for (answered, bytes) in steady {
        assert!(
            (bytes - early_bytes).abs() <= 4096,
            "{early_bytes}, {bytes} after {answered}"
        );
    }
}

fn memory_grows_with_the_files_that_are_worked_on_by_so_many_bytes() {
    let world = World::null(65_536);
    let held = |files: u64| {
        let plan = plan(&world, files);
        let before = held_here();
        let prepared = world.prepare(&plan);
        let held = held_here() - before;
        assert_eq!(prepared.mounts[0].files.len() as u64, files);
        held
    };
    held(10);
    let (few, many) = (held(4_096), held(16_384));
    let by_file = (many - few) as f64 / 12_288.0;
    let entry = size_of::<load::prepare::AccessedFile>() as f64;
    // The entry itself (vectors grow by doubling), and one flag of a scratch name.
    assert!(
        (entry..entry * 1.1 + 2.0).contains(&by_file),
        "{by_file} bytes, {entry} an entry"
    );
    assert!(entry <= 112.0, "{entry}");
}

/// One after the other: whatever another test's thread takes would be counted.
#[test]
fn memory_is_that_of_the_files_and_not_of_the_operations() {
    memory_does_not_grow_with_the_number_of_operations();
    memory_grows_with_the_files_that_are_worked_on_by_so_many_bytes();
}

/// What this thread holds.
fn held_here() -> i64 {
    let mine = MINE.with(Cell::get);
    HELD_BYTES.get(mine).map_or(0, |held| held.load(Relaxed))
}

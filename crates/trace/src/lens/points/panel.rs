//! One panel: its exact counts, and its points (or their cells).

use serde_json::{Value, json};

use super::Point;
use super::density::{Grid, Scale};
use super::pick::{Sample, Slowest};
use super::word::{ABOVE, AGAIN, BELOW, CODE_MASK, ERROR, LATENCY_CODES, NEGATIVE, UNANSWERED};
use crate::ends::Ends;

/// How far back a call is put in its place at once; further, all are sorted at the end.
const MAX_BACK: usize = 64;

/// Points kept besides the cells.
pub(super) struct Picked {
    /// All answered calls from this code on are in `slowest`.
    pub(super) slowest_from_code: u16,
    pub(super) slowest: Vec<Point>,
    pub(super) marked: Vec<Point>,
    /// 1 in so many of the marked calls are in `marked`.
    pub(super) marked_one_in: u64,
}

/// Counts of a panel; exact, whatever is kept.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    calls: u64,
    unanswered: u64,
    sent_again: u64,
    errors: u64,
    below: u64,
    above: u64,
    negative: u64,
    /// Of answered calls.
    latency_ns: Ends,
    steps: Ends,
}

impl Tally {
    // What few calls are.
    #[cold]
    fn odd(&mut self, word: u16) {
        let code = word & CODE_MASK;
        self.unanswered += u64::from(code == UNANSWERED);
        self.sent_again += u64::from(word & AGAIN != 0);
        self.errors += u64::from(word & ERROR != 0);
        self.below += u64::from(code == BELOW);
        self.above += u64::from(code == ABOVE);
        self.negative += u64::from(word & NEGATIVE != 0);
    }
}

/// A point without its operation, in twelve bytes.
#[derive(Clone, Copy, Debug)]
struct Entry {
    key_high: u32,
    key_low: u32,
    frame: u32,
}

impl Entry {
    #[inline]
    fn new(point: &Point) -> Self {
        Entry {
            key_high: (point.key >> 32) as u32,
            key_low: point.key as u32,
            frame: point.frame,
        }
    }

    #[inline]
    fn key(self) -> u64 {
        u64::from(self.key_high) << 32 | u64::from(self.key_low)
    }
}

/// One panel.
#[derive(Debug)]
pub(super) struct Panel {
    tally: Tally,
    kept: Vec<Entry>,
    /// Of each kept point, in a panel that holds several operations.
    operations: Vec<u8>,
    several: bool,
    disordered: bool,
    grid: Option<Grid>,
    slowest: Slowest,
    marked: Sample,
}

impl Panel {
    /// `several`: whether its calls are of several operations.
    pub(super) fn new(several: bool, slowest: usize, marked: usize, seed: u64) -> Self {
        Panel {
            tally: Tally::default(),
            kept: Vec::new(),
            operations: Vec::new(),
            several,
            disordered: false,
            grid: None,
            slowest: Slowest::new(slowest),
            marked: Sample::new(marked, seed),
        }
    }

    pub(super) fn calls(&self) -> u64 {
        self.tally.calls
    }

    /// First and last step of its calls.
    pub(super) fn span(&self) -> Option<(u64, u64)> {
        let (first, last) = self.tally.steps.known()?;
        Some((first.cast_unsigned(), last.cast_unsigned()))
    }

    /// Counts a call; says whether it comes after all before it.
    #[inline]
    pub(super) fn tally(&mut self, latency_ns: Option<i64>, point: &Point) -> bool {
        let (tally, word, step) = (&mut self.tally, point.word(), point.step());
        tally.calls += 1;
        if let Some(latency_ns) = latency_ns {
            tally.latency_ns.take(latency_ns);
        }
        // Plain words are 1..=LATENCY_CODES without a flag.
        if word.wrapping_sub(1) >= LATENCY_CODES {
            tally.odd(word);
        }
        let step = step.cast_signed(); // 48 bits
        let last = step >= tally.steps.most;
        tally.steps.take(step);
        last
    }

    /// Keeps a point in its place in time; `last`: after all before it.
    #[inline]
    pub(super) fn keep(&mut self, point: &Point, last: bool) {
        if last {
            self.kept.push(Entry::new(point));
            if self.several {
                self.operations.push(point.operation);
            }
        } else {
            self.put_back(point);
        }
    }

    fn put_back(&mut self, point: &Point) {
        let step = point.step();
        let later = self.kept.iter().rev().take(MAX_BACK);
        let back = later.take_while(|entry| entry.key() >> 16 > step).count();
        self.disordered |= back == MAX_BACK;
        let place = self.kept.len() - back;
        self.kept.insert(place, Entry::new(point));
        if self.several {
            self.operations.insert(place, point.operation);
        }
    }

    /// From points to counts.
    pub(super) fn thin_out(&mut self, scale: Scale) {
        let mut grid = Grid::new();
        let points = self.take_points();
        for (number, point) in points.enumerate() {
            grid.count(scale.column(point.step()), &point);
            self.pick(&point, number as u64);
        }
        self.grid = Some(grid);
    }

    #[inline]
    fn pick(&mut self, point: &Point, number: u64) {
        self.slowest.offer(*point);
        if point.word() & AGAIN != 0 || point.word() & CODE_MASK == UNANSWERED {
            self.marked.offer(number, point);
        }
    }

    /// Counts a point in the grid, and keeps it if it is worth it.
    #[inline]
    pub(super) fn count_in_grid(&mut self, column: usize, point: &Point, number: u64) {
        if let Some(grid) = &mut self.grid {
            grid.count(column, point);
        }
        self.pick(point, number);
    }

    /// Columns of the grid get twice as long.
    pub(super) fn halve(&mut self) {
        if let Some(grid) = &mut self.grid {
            grid.halve();
        }
    }

    /// Bytes of the grid.
    pub(super) fn cells(&self) -> Vec<u8> {
        self.grid.as_ref().map(Grid::encode).unwrap_or_default()
    }

    /// What was kept besides the grid, by time.
    pub(super) fn take_picked(&mut self) -> Picked {
        let (slowest_from_code, slowest) = self.slowest.take();
        let marked_one_in = self.marked.one_in();
        Picked {
            slowest_from_code,
            slowest,
            marked: self.marked.take(),
            marked_one_in,
        }
    }

    // All points as they came; their memory is free afterwards.
    fn take_points(&mut self) -> impl Iterator<Item = Point> + use<> {
        let mut operations = std::mem::take(&mut self.operations).into_iter();
        std::mem::take(&mut self.kept)
            .into_iter()
            .map(move |entry| Point {
                key: entry.key(),
                frame: entry.frame,
                operation: operations.next().unwrap_or_default(),
            })
    }

    /// All points by time; their memory is free afterwards.
    pub(super) fn take_sorted(&mut self) -> impl Iterator<Item = Point> + use<> {
        let disordered = self.disordered;
        let points = self.take_points();
        let sorted: Box<dyn Iterator<Item = Point>> = if disordered {
            let mut all: Vec<Point> = points.collect();
            all.sort_by_key(Point::step);
            Box::new(all.into_iter())
        } else {
            Box::new(points)
        };
        sorted
    }

    /// The counts.
    pub(super) fn json(&self, name: &str) -> Value {
        let tally = &self.tally;
        let ends = tally.latency_ns.known();
        json!({
            "name": name,
            "calls": tally.calls,
            "answered": tally.calls - tally.unanswered,
            "unanswered": tally.unanswered,
            "sent_again": tally.sent_again,
            "errors": tally.errors,
            "below": tally.below,
            "above": tally.above,
            "negative": tally.negative,
            "latency_ns": ends.map(|(low, high)| json!({ "min": low, "max": high })),
        })
    }
}

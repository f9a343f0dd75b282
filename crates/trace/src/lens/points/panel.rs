//! One panel: its exact counts, and its points (or their cells).

use serde_json::{Value, json};

use super::Point;
use super::density::{Grid, Scale};
use super::pick::{Sample, Slowest};
use super::word::{ABOVE, AGAIN, BELOW, CODE_MASK, ERROR, NEGATIVE, UNANSWERED};
use crate::call::Call;

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
    latency_ns: Option<(i64, i64)>,
    /// First and last step.
    span: Option<(u64, u64)>,
}

/// One panel.
#[derive(Debug)]
pub(super) struct Panel {
    tally: Tally,
    keys: Vec<u64>,
    frames: Vec<u32>,
    operations: Vec<u8>,
    disordered: bool,
    grid: Option<Grid>,
    slowest: Slowest,
    marked: Sample,
}

impl Panel {
    pub(super) fn new(slowest: usize, marked: usize, seed: u64) -> Self {
        Panel {
            tally: Tally::default(),
            keys: Vec::new(),
            frames: Vec::new(),
            operations: Vec::new(),
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
        self.tally.span
    }

    /// Counts a call.
    #[inline]
    pub(super) fn tally(&mut self, call: &Call, point: &Point) {
        let (tally, word) = (&mut self.tally, point.word());
        let (code, step) = (word & CODE_MASK, point.step());
        tally.calls += 1;
        tally.unanswered += u64::from(code == UNANSWERED);
        tally.sent_again += u64::from(word & AGAIN != 0);
        tally.errors += u64::from(word & ERROR != 0);
        tally.below += u64::from(code == BELOW);
        tally.above += u64::from(code == ABOVE);
        tally.negative += u64::from(word & NEGATIVE != 0);
        if let Some(latency_ns) = call.latency_ns() {
            let (low, high) = tally.latency_ns.unwrap_or((latency_ns, latency_ns));
            tally.latency_ns = Some((low.min(latency_ns), high.max(latency_ns)));
        }
        let (first, last) = tally.span.unwrap_or((step, step));
        tally.span = Some((first.min(step), last.max(step)));
    }

    /// Keeps a point in its place in time.
    #[inline]
    pub(super) fn keep(&mut self, point: Point) {
        let step = point.step();
        let later = self
            .keys
            .iter()
            .rev()
            .take(MAX_BACK)
            .take_while(|key| **key >> 16 > step);
        let back = later.count();
        if back == 0 || back == MAX_BACK {
            self.disordered |= back != 0;
            self.keys.push(point.key);
            self.frames.push(point.frame);
            self.operations.push(point.operation);
        } else {
            let place = self.keys.len() - back;
            self.keys.insert(place, point.key);
            self.frames.insert(place, point.frame);
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
            self.marked.offer(number, *point);
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
        let keys = std::mem::take(&mut self.keys).into_iter();
        let frames = std::mem::take(&mut self.frames).into_iter();
        let operations = std::mem::take(&mut self.operations).into_iter();
        keys.zip(frames)
            .zip(operations)
            .map(|((key, frame), operation)| Point {
                key,
                frame,
                operation,
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
        let latency = tally.latency_ns;
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
            "latency_ns": latency.map(|(low, high)| json!({ "min": low, "max": high })),
        })
    }
}

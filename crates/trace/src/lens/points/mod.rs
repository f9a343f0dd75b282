//! Every call as a point: time against latency, one panel an operation (the graphs of the 2001
//! study at CITI, Michigan).
//!
//! Flow: each settled call becomes a [`Point`] (time in steps of 10 µs, 16 bits of latency and
//! flags, frame, operation) of its panel. Up to [`MAX_POINTS`] calls all points are kept, sorted,
//! and given away as byte columns ([`encode`]). Beyond, they become counts in a grid ([`density`]),
//! and besides the grid are kept: all of the slowest answered calls, the calls without a reply or
//! sent again, and a fair sample ([`pick`]). Counts of the panels are exact either way.
//!
//! Decisions: times are those of the first byte of the first send, latencies run from there to
//! the first byte of the first reply, as everywhere. Calls come nearly in order; each is put in
//! its place from the back, which costs nothing when it is last already.
//!
//! Limits: 12 or 13 bytes a call below the bound (26 MB), about 15 MB beyond it; names of 255
//! operations, the rest share one; frame numbers only while they fit 32 bits.

mod density;
mod encode;
mod operations;
mod panel;
mod pick;
mod word;

#[cfg(test)]
mod tests;

use serde_json::{Value, json};

use self::density::{CODES_PER_ROW, COLUMNS, ROWS, Scale};
use self::encode::{Columns, columns};
use self::operations::{OTHERS, Operations, PANELS};
use self::panel::Panel;
use self::pick::Sample;
use self::word::{ABOVE, BELOW, HIGH_NS, LATENCY_CODES, LOW_NS, UNANSWERED};
use crate::call::Call;
use crate::error::TraceError;
use crate::lens::{Blob, Extent, Lens, LensOptions, Section};
use crate::names::Names;

/// Calls kept one by one; beyond, they are counted in cells.
pub const MAX_POINTS: usize = 2_000_000;
/// Calls of the sample, all panels together.
const MAX_SAMPLE: usize = 60_000;
/// Slowest calls kept of a panel.
const MAX_SLOWEST: usize = 10_000;
/// Unanswered and retransmitted calls kept of a panel.
const MAX_MARKED: usize = 10_000;
/// Any number: it only has to stay the same.
const SEED: u64 = 0x6e66_736c_6162;
/// Length of a step of time.
const STEP_NS: i64 = 10_000;
/// Steps are counted from here, so that calls before the first one seen have a step too.
const MIDDLE: i64 = 1 << 47;

/// One call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Point {
    /// Step of time (48 bits) and word: sorts by time.
    key: u64,
    /// Low 32 bits of the frame's number.
    frame: u32,
    /// Index of the operation's name.
    operation: u8,
}

impl Point {
    #[inline]
    fn new(step: u64, word: u16, frame: u32, operation: u8) -> Self {
        Point {
            key: step << 16 | u64::from(word),
            frame,
            operation,
        }
    }

    #[inline]
    fn step(&self) -> u64 {
        self.key >> 16
    }

    #[inline]
    fn word(&self) -> u16 {
        self.key as u16
    }
}

/// The lens.
#[derive(Debug)]
pub struct Points {
    most: usize,
    seen: u64,
    /// Time of the step [`MIDDLE`]: that of the first call.
    origin_ns: i64,
    far_times: u64,
    frames: bool,
    operations: Operations,
    panels: [Panel; PANELS.len()],
    sample: Sample,
    scale: Option<Scale>,
}

/// For the registry.
pub fn make(_options: &LensOptions) -> Result<Box<dyn Lens>, TraceError> {
    Ok(Box::new(Points::keeping(MAX_POINTS)))
}

impl Points {
    /// Keeps up to `most` calls one by one.
    fn keeping(most: usize) -> Self {
        Points {
            most,
            seen: 0,
            origin_ns: 0,
            far_times: 0,
            frames: true,
            operations: Operations::default(),
            panels: std::array::from_fn(|index| {
                Panel::new(index == OTHERS, MAX_SLOWEST, MAX_MARKED, SEED)
            }),
            sample: Sample::new(MAX_SAMPLE, SEED),
            scale: None,
        }
    }

    #[inline]
    fn point(&mut self, call: &Call, latency_ns: Option<i64>) -> (usize, Point) {
        let (operation, panel) = self.operations.find(call);
        let step = (call.call_first.time_ns - self.origin_ns).div_euclid(STEP_NS) + MIDDLE;
        let mut kept = step as u64;
        if kept >= 2 * MIDDLE as u64 {
            kept = if step < 0 { 0 } else { 2 * MIDDLE as u64 - 1 };
            self.far_times += 1;
        }
        self.frames &= call.call_first.frame <= u64::from(u32::MAX);
        let (word, frame) = (
            word::word_of(call, latency_ns),
            call.call_first.frame as u32,
        );
        (panel, Point::new(kept, word, frame, operation))
    }

    // Too many: what was kept becomes counts, and so does all that follows.
    #[cold]
    fn thin_out(&mut self) {
        let spans = self.panels.iter().filter_map(Panel::span);
        let (first, last) = spans.fold((u64::MAX, 0), |(a, b), (c, d)| (a.min(c), b.max(d)));
        let scale = Scale::covering(first.min(last), last);
        self.scale = Some(scale);
        for panel in &mut self.panels {
            panel.thin_out(scale);
        }
    }

    #[inline]
    fn count_in_grid(&mut self, mut scale: Scale, panel: usize, point: &Point) {
        while scale.column(point.step()) >= COLUMNS {
            scale.shift += 1;
            for other in &mut self.panels {
                other.halve();
            }
        }
        self.scale = Some(scale);
        if let Some(found) = self.panels.get_mut(panel) {
            found.count_in_grid(scale.column(point.step()), point, self.seen);
        }
    }

    fn time_ns(&self, step: u64) -> i64 {
        self.origin_ns + (step as i64 - MIDDLE) * STEP_NS
    }

    fn first_step(&self) -> u64 {
        let firsts = self
            .panels
            .iter()
            .filter_map(Panel::span)
            .map(|(first, _)| first);
        firsts.min().unwrap_or(MIDDLE as u64)
    }

    fn json(&self, names: &Names, first: u64, panels: Vec<Value>) -> Value {
        let mut json = json!({
            "kept": if self.scale.is_some() { "density" } else { "all" },
            "calls": self.seen,
            "origin_ns": self.time_ns(first),
            "step_ns": STEP_NS,
            "codes": {
                "low_ns": LOW_NS, "high_ns": HIGH_NS, "steps": LATENCY_CODES,
                "below": BELOW, "above": ABOVE, "unanswered": UNANSWERED,
            },
            "frames": self.frames,
            "far_times": self.far_times,
            "operations": self.operations.names(names),
            "panels": panels,
        });
        if let Some(scale) = self.scale {
            json["density"] = json!({
                "columns": COLUMNS,
                "rows": ROWS,
                "codes_per_row": CODES_PER_ROW,
                "column_ns": STEP_NS << scale.shift.min(40),
                "first_column_ns": self.time_ns(scale.origin),
                "sample_one_in": self.sample.one_in(),
            });
        }
        json
    }
}

impl Lens for Points {
    #[inline]
    fn call(&mut self, call: &Call) {
        if self.seen == 0 {
            self.origin_ns = call.call_first.time_ns;
        }
        let latency_ns = call.latency_ns();
        let (panel, point) = self.point(call, latency_ns);
        if let Some(found) = self.panels.get_mut(panel) {
            let last = found.tally(latency_ns, &point);
            if self.scale.is_none() {
                found.keep(&point, last);
            }
        }
        self.sample.offer(self.seen, &point);
        self.seen += 1;
        if let Some(scale) = self.scale {
            self.count_in_grid(scale, panel, &point);
        } else if self.seen as usize > self.most {
            self.thin_out();
        }
    }

    fn finish(&mut self, names: &Names, _extent: &Extent) -> Section {
        let first = self.first_step();
        let mut blobs: Vec<Blob> = Vec::new();
        let mut panels = Vec::new();
        let mut sample = if self.scale.is_some() {
            self.sample.take()
        } else {
            Vec::new()
        };
        for (index, name) in PANELS.iter().enumerate() {
            let with = Columns {
                frames: self.frames,
                operations: index + 1 == PANELS.len(),
            };
            let of_panel = |point: &Point| self.operations.panel(point.operation) == index;
            let picked: Vec<Point> = sample.extract_if(.., |point| of_panel(point)).collect();
            let Some(panel) = self.panels.get_mut(index).filter(|panel| panel.calls() > 0) else {
                continue;
            };
            let mut json = panel.json(name);
            if self.scale.is_some() {
                let taken = panel.take_picked();
                json["slowest_from_code"] = json!(taken.slowest_from_code);
                json["slowest"] = json!(taken.slowest.len());
                json["marked"] = json!(taken.marked.len());
                json["marked_one_in"] = json!(taken.marked_one_in);
                json["sample"] = json!(picked.len());
                blobs.push(Blob {
                    name: format!("{name}.cells"),
                    dtype: "|u1",
                    bytes: panel.cells(),
                });
                let lists = [
                    ("slowest", taken.slowest),
                    ("marked", taken.marked),
                    ("sample", picked),
                ];
                for (list, points) in lists {
                    let prefix = format!("{name}.{list}");
                    blobs.extend(columns(&prefix, points.into_iter(), first, with));
                }
            } else {
                blobs.extend(columns(name, panel.take_sorted(), first, with));
            }
            panels.push(json);
        }
        Section {
            json: self.json(names, first, panels),
            blobs,
        }
    }
}
